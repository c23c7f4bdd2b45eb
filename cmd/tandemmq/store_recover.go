package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

func recoverCommand() *cli.Command {
	return &cli.Command{
		Name: "recover", Usage: "bring a stopped store in order: log, queues, index",
		Description: `Does offline what a start after a crash does: cuts a torn tail off the log, cuts and replays the queues (files, RocksDB or both,
as found) and the index until they agree with it, and removes the abort mark. Then migrate and dump go on. It also clears
error flags that a failed sync left, after writing again what may not be on the disk. Killed half-way and started again,
it goes on.

A log with valid records behind damage is refused, with all damaged ranges; --mend or --accept-loss says what to do. One with files missing
between others is refused too: with --mend a filler takes the place of each.
Whatever is taken out of the log is set aside first, in DIR/tandemmq/broken.

At its end it looks at the store as store check does without --deep, and prints the command for what it found and did not mend.

   tandemmq store recover --store /data/rocketmq/store --dry-run
   tandemmq store recover --store /data/rocketmq/store

Exit codes: 0 in order, 1 failed, 2 wrong usage, 3 the log is damaged and nobody has decided, or recovered and something found that recovery does not mend.`,
		Flags: []cli.Flag{
			storeFlag(),
			&cli.BoolFlag{Name: "dry-run", Usage: "change nothing, say what was found and what would be done"},
			&cli.BoolFlag{Name: "mend", Usage: "write placeholder records over damage of the log, and fillers in the place of files missing in its middle; keep what lies behind"},
			&cli.BoolFlag{Name: "accept-loss", Usage: "cut the log at the first damage"},
			&cli.BoolFlag{Name: "full", Usage: "read the log from its beginning, for damage that came after it was written (store check --deep finds such)"},
			&cli.StringFlag{Name: "kind", Usage: "`SIDE` to bring in order: file, rocks or both (default: those there are)"},
			&cli.BoolFlag{Name: "create", Usage: "build the queues of --kind from the log also where the store does not have that side, and has the other"},
			confFlag("paths of the log, sizes of files that are gone or of an index, delay levels"),
			&cli.BoolFlag{Name: "json", Usage: "print the report as one JSON object, and no progress"},
			&cli.BoolFlag{Name: "quiet", Usage: "print no progress"},
		},
		Action: runRecover,
	}
}

// undecidedError ends a recovery that has to be told what to do with damage.
type undecidedError struct{ error }

func (e undecidedError) Unwrap() error { return e.error }

// ExitCode is 3: looked at and found wrong.
func (undecidedError) ExitCode() int { return exitWrong }

func runRecover(c *cli.Context) error {
	o := store.RecoverOptions{DryRun: c.Bool("dry-run"), Full: c.Bool("full"), Damage: store.DamageRefuse, Create: c.Bool("create"), Check: true}
	switch {
	case c.Bool("mend") && c.Bool("accept-loss"):
		return usageError("--mend and --accept-loss: use one of them")
	case c.Bool("mend"):
		o.Damage = store.DamageMend
	case c.Bool("accept-loss"):
		o.Damage = store.DamageAcceptLoss
	}
	switch k := c.String("kind"); k {
	case "", string(cq.KindFile), string(cq.KindRocks):
		o.Kind = cq.Kind(k)
	case "both":
		o.Kind = cq.KindCombine
	default:
		return usageError("--kind %q: use file, rocks or both", k)
	}
	if o.Create && o.Kind == "" {
		return usageError("--create needs --kind: it says which queues")
	}
	var err error
	if o.Options, o.Given, err = brokerOptions(c); err != nil {
		return err
	}
	p := newProgress(c.App.ErrWriter, chooseProgress(c.App.ErrWriter, c.Bool("json") || c.Bool("quiet")))
	defer p.Finish()
	o.Progress = p.Phase
	rep, err := store.Recover(c.Context, c.String("store"), o)
	p.Finish()
	if rep == nil {
		return err
	}
	var werr error
	if c.Bool("json") {
		werr = recoverJSON(c.App.Writer, rep)
	} else {
		werr = printRecover(c.App.Writer, rep, err)
	}
	if werr != nil {
		err = errors.Join(err, fmt.Errorf("write report: %w", werr))
	}
	var damage *store.DamageError
	var missing *store.MissingFilesError
	if errors.As(err, &damage) || errors.As(err, &missing) {
		return undecidedError{err}
	}
	if err == nil && rep.Checked != nil && !rep.Checked.Sound {
		return &unsoundError{rep.Store, rep.Checked.Errors}
	}
	return err
}

// recoverJSON writes the report as one object, with what the check at the end found.
func recoverJSON(w io.Writer, rep *store.RecoverReport) error {
	type checked struct {
		*store.CheckReport
		Findings []*store.CheckFinding `json:"findings"`
		Remedies []remedy              `json:"remedies"`
	}
	out := struct {
		*store.RecoverReport
		Check *checked `json:"check,omitempty"`
	}{RecoverReport: rep}
	if rep.Checked != nil {
		out.Check = &checked{rep.Checked, rep.Checked.Findings, remedies(rep.Checked)}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

// leftFindings is how many of the errors that are left a recovery lists.
const leftFindings = 10

// printLeft tells what a recovery has left, and what mends it.
func printLeft(w io.Writer, rep *store.CheckReport) {
	list, more := errorsOf(rep, leftFindings)
	for _, f := range list {
		fmt.Fprintf(w, "  %v\n", f)
	}
	if more > 0 {
		fmt.Fprintf(w, "  %s more (`tandemmq store check` lists them)\n", thousands(more))
	}
	fmt.Fprintln(w, "What to do:")
	printRemedies(w, remedies(rep))
}

// printLost warns of records that the log has lost.
func printLost(w io.Writer, lost []store.LostRange) {
	for _, l := range lost {
		fmt.Fprintf(w, "  WARNING: queue %s/%d: the log has lost the records of slots %d to %d; they stay empty, and readers pass them\n", l.Topic, l.QueueID, l.From, l.To-1)
	}
}

// printForgotten warns of queues whose numbers begin again.
func printForgotten(w io.Writer, forgotten []store.ForgottenQueue) {
	for _, q := range forgotten {
		fmt.Fprintf(w, "  WARNING: queue %s/%d: where it ended is not known, its next message gets offset 0 again: %s\n", q.Topic, q.QueueID, q.Why)
	}
}

// printMissing lists the files that were missing in the middle of the log.
func printMissing(w io.Writer, rep *store.RecoverReport, failed error) {
	did := "a filler is in its place"
	switch {
	case failed != nil && rep.Log == nil:
		did = "missing"
	case rep.DryRun:
		did = "missing, a filler would take its place"
	}
	for _, f := range rep.Missing {
		fmt.Fprintf(w, "  log file %s: %s; physical offsets %d to %d\n", f.Path, did, f.From, f.To)
	}
}

func printRecover(w io.Writer, rep *store.RecoverReport, failed error) error {
	what := "Recovery"
	if rep.DryRun {
		what = "Dry run of a recovery"
	}
	fmt.Fprintf(w, "%s of %s in %s\n", what, rep.Store, round(rep.Elapsed))
	printMissing(w, rep, failed)
	if rep.Log == nil { // nothing could be read of it
		verdict := "nothing was changed; without --dry-run a filler takes the place of each of these files, and then the rest is brought in order"
		if failed != nil {
			verdict = "NOT in order"
		}
		for _, n := range rep.Notes {
			fmt.Fprintf(w, "  note: %s\n", n)
		}
		_, err := fmt.Fprintf(w, "Result: %s\n", verdict)
		return err
	}
	var from string
	switch {
	case rep.DurableTo < 0:
		from = "all of it, " + rep.WholeBelow
	case rep.DurableTo > 0:
		from = fmt.Sprintf("below %d, by %s", rep.DurableTo, rep.WholeBelow)
	default:
		from = "nothing: " + rep.WholeBelow
	}
	rows := [][2]string{
		{"abort mark", map[bool]string{true: "there: not left in order", false: "none"}[rep.Unclean]},
		{"known whole", from},
		{"log read", fmt.Sprintf("from %d: %s records, %s", rep.Log.From, thousands(rep.Log.Records), byteSize(rep.Log.Bytes))},
		{"log ends at", fmt.Sprintf("%d, %s", rep.Log.End, rep.Log.KindText)},
	}
	if rep.Log.Kind == commitlog.EndTorn {
		rows = append(rows, [2]string{"torn tail", fmt.Sprintf("%s: %s", byteSize(rep.Log.TailBytes), rep.Log.Tail)})
	}
	if n := len(rep.Log.Damage); n > 0 {
		rows = append(rows, [2]string{"damage", fmt.Sprintf("%d ranges, %s", n, byteSize(rep.Log.Damaged()))}, [2]string{"decision", fmt.Sprintf("%s (%s)", rep.Decision, rep.Why)})
	}
	if d := rep.Repaired; d != nil {
		rows = append(rows, [2]string{"set aside in", d.Dir})
		if d.CutAt >= 0 {
			rows = append(rows, [2]string{"log cut at", fmt.Sprint(d.CutAt)})
		}
		if n := len(d.Given); n > 0 {
			rows = append(rows, [2]string{"given up", fmt.Sprintf("%d valid records, see manifest.json there", n)})
		}
	}
	for _, f := range rep.Flags {
		rows = append(rows, [2]string{"flag", f})
	}
	if rep.RewrittenBytes > 0 {
		rows = append(rows, [2]string{"written again", byteSize(rep.RewrittenBytes)})
	}
	for _, v := range rep.Views {
		text := fmt.Sprintf("at %d", v.Dispatched)
		switch {
		case v.Plan != "" && v.Why != "":
			text = fmt.Sprintf("%s, from %d: %s", v.Plan, v.From, v.Why)
		case v.Plan != "":
			text = v.Plan
		case v.Why != "":
			text += fmt.Sprintf(", dispatched to from %d: %s", v.From, v.Why)
		}
		rows = append(rows, [2]string{v.Name, text})
	}
	if k := rep.Checked; k != nil {
		rows = append(rows, [2]string{"checked", fmt.Sprintf("the first and the last unit of each of %s queues; %s records from %s of log with their units; every index file, and the records of one entry in 1,000",
			thousands(k.Queues), thousands(k.Records), byteSize(k.LogBytes))})
	}
	table(w, rows...)
	if len(rep.Log.Damage) > 0 && failed == nil {
		for i := range rep.Log.Damage {
			fmt.Fprintf(w, "  %v\n", &rep.Log.Damage[i])
		}
	}
	printLost(w, rep.Lost)
	printForgotten(w, rep.Forgotten)
	for _, l := range rep.LostEnd {
		fmt.Fprintf(w, "  WARNING: queue %s/%d: the log has lost the records of slots %d to %d with its end; the queue goes on behind them\n", l.Topic, l.QueueID, l.From, l.To-1)
	}
	for _, n := range rep.Notes {
		fmt.Fprintf(w, "  note: %s\n", n)
	}
	if k := rep.Checked; k != nil {
		fmt.Fprintf(w, "  not checked: units between the first and the last of each queue, but for those of the log that was read\n")
		if slices.ContainsFunc(rep.Views, func(v store.RecoveredView) bool { return strings.HasSuffix(v.Name, "index") }) {
			fmt.Fprintf(w, "  not checked: entries of the index, but for one in 1,000, and whether every record with keys has its own\n")
		}
		for _, what := range k.NotChecked {
			fmt.Fprintf(w, "  not checked: %s\n", what)
		}
	}
	if rep.NotChecked != "" {
		fmt.Fprintf(w, "  not checked: %s\n", rep.NotChecked)
	}
	verdict := "in order"
	switch {
	case failed != nil:
		verdict = "NOT in order"
	case rep.DryRun:
		verdict = "nothing was changed; without --dry-run this is done, and queues that lack records of the log are built again"
	case rep.Checked != nil && !rep.Checked.Sound:
		verdict = fmt.Sprintf("NOT in order: %s that recovery does not mend", counted(int(rep.Checked.Errors), "error"))
		printLeft(w, rep.Checked)
	case !rep.AbortCleared:
		verdict = "in order as far as it was looked at; the abort mark stays"
	case rep.Checked != nil:
		verdict = "in order; `tandemmq store check --deep` proves every unit"
	}
	_, err := fmt.Fprintf(w, "Result: %s\n", verdict)
	return err
}
