package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/store"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "prove that log and queues of a store agree",
		Description: `Holds a whole store against its invariants: the log is whole, every record has its unit and every unit its record, no offset
is given twice, min and max are right, files and RocksDB agree. Changes nothing, also in a store that was not closed
cleanly. A store that a broker has open is refused.

Without --deep it looks at files, beginnings and ends, and reads the last file of the log. With --deep it reads the whole
log and proves every unit; that finds silent damage in old files.

   tandemmq store check --store /data/rocketmq/store --deep
   tandemmq store check --store /data/rocketmq/store --deep --json | jq -c 'select(.t == "finding" and .severity == "error")'

Exit codes: 0 sound, 1 could not be checked, 2 wrong usage, 3 checked and found wrong.`,
		Flags: []cli.Flag{
			storeFlag(),
			&cli.BoolFlag{Name: "deep", Usage: "read the whole log and prove every unit"},
			&cli.StringFlag{Name: "kind", Usage: "`SIDE` to check: file, rocks or both (default: those there are; the one in use where a migration says so)"},
			&cli.IntFlag{Name: "workers", Usage: "read with `N` threads", DefaultText: "one per processor"},
			&cli.IntFlag{Name: "limit", Value: 100, Usage: "list at most `N` findings of each kind; all are counted"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON lines, one for each finding and one at the end, and no progress"},
			&cli.BoolFlag{Name: "quiet", Usage: "print no progress"},
		},
		Action: runCheck,
	}
}

// exitWrong is the exit code of a check that found the store wrong.
const exitWrong = 3

// unsoundError ends a check that could be done and found errors.
type unsoundError struct {
	root   string
	errors int64
}

func (e *unsoundError) Error() string {
	return fmt.Sprintf("store %s is not sound: %s", e.root, counted(int(e.errors), "error"))
}

// ExitCode is 3: checked and found wrong.
func (e *unsoundError) ExitCode() int { return exitWrong }

func runCheck(c *cli.Context) error {
	if n := c.Int("workers"); c.IsSet("workers") && n < 1 {
		return usageError("--workers %d: use 1 or more", n)
	}
	if n := c.Int("limit"); n < 1 {
		return usageError("--limit %d: use 1 or more", n)
	}
	kind, err := checkKind(c.String("kind"), store.NewLayout(c.String("store")))
	if err != nil {
		return err
	}
	p := newProgress(c.App.ErrWriter, chooseProgress(c.App.ErrWriter, c.Bool("json") || c.Bool("quiet")))
	defer p.Finish()
	rep, err := store.Check(c.Context, c.String("store"), store.CheckOptions{
		Deep: c.Bool("deep"), Kind: kind, Workers: c.Int("workers"), Limit: c.Int("limit"), Progress: p.Phase,
	})
	p.Finish()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = printCheckJSON(c.App.Writer, rep)
	} else {
		err = printCheck(c.App.Writer, rep)
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if !rep.Sound {
		return &unsoundError{rep.Store, rep.Errors}
	}
	return nil
}

// checkKind chooses the sides: those asked for; else the one that reads belong to by a migration, for the other may be half
// made or left behind; else those there are.
func checkKind(asked string, l store.Layout) (cq.Kind, error) {
	switch asked {
	case string(cq.KindFile), string(cq.KindRocks):
		return cq.Kind(asked), nil
	case "both":
		return cq.KindCombine, nil
	case "":
	default:
		return "", usageError("--kind %q: use file, rocks or both", asked)
	}
	if err := l.CheckRoot(); err != nil {
		return "", err
	}
	st, err := migrate.LoadState(l.StateDir())
	if err != nil {
		return "", err
	}
	side, _ := st.Active()
	return side, nil
}

// printCheckJSON writes one object a line: the findings, then the summary.
func printCheckJSON(w io.Writer, rep *store.CheckReport) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, f := range rep.Findings {
		if err := e.Encode(struct {
			T string `json:"t"`
			*store.CheckFinding
		}{"finding", f}); err != nil {
			return err
		}
	}
	return e.Encode(struct {
		T string `json:"t"`
		*store.CheckReport
		Remedies []remedy `json:"remedies,omitempty"`
	}{"summary", rep, remedies(rep)})
}

func printCheck(w io.Writer, rep *store.CheckReport) error {
	for _, f := range rep.Findings {
		fmt.Fprintln(w, f)
	}
	for _, n := range rep.Counts {
		if more := n.Count - n.Listed; more > 0 {
			fmt.Fprintf(w, "%s %s: %s more, %s in all (--limit lists more)\n", n.Severity, n.Code, thousands(more), thousands(n.Count))
		}
	}
	depth, sides := "shallow", "none"
	if rep.Deep {
		depth = "deep"
	}
	if len(rep.Sides) > 0 {
		sides = strings.Join(rep.Sides, " and ")
	}
	fmt.Fprintf(w, "Check of %s (%s) in %s\n", rep.Store, depth, round(rep.Elapsed))
	table(w,
		[2]string{"commit log", fmt.Sprintf("%s files, offsets %d to %d, %s", thousands(rep.LogFiles), rep.LogMin, rep.LogEnd, rep.LogEndKind)},
		[2]string{"read", fmt.Sprintf("%s records, %s", thousands(rep.Records), byteSize(rep.LogBytes))},
		[2]string{"damaged", byteSize(rep.Damaged)},
		[2]string{"queues", fmt.Sprintf("%s (sides: %s)", thousands(rep.Queues), sides)},
		[2]string{"units", fmt.Sprintf("%s, of them proven %s", thousands(rep.Units), thousands(rep.Proven))},
		[2]string{"found", fmt.Sprintf("%s errors, %s warnings, %s notices", thousands(rep.Errors), thousands(rep.Warnings), thousands(rep.Notices))},
	)
	for _, what := range rep.NotChecked {
		fmt.Fprintf(w, "  not checked: %s\n", what)
	}
	if !rep.Sound {
		fmt.Fprintln(w, "What to do:")
		printRemedies(w, remedies(rep))
	}
	verdict := "sound"
	switch {
	case !rep.Sound:
		verdict = "NOT SOUND"
	case rep.Unclean:
		verdict = "sound as far as a store can be whose recovery has not run"
	case !rep.Deep:
		verdict = "no fault seen; --deep proves every unit"
	}
	_, err := fmt.Fprintf(w, "Result: %s\n", verdict)
	return err
}
