package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/store"
)

// defaultReserveHours is RocketMQ's fileReservedTime.
const defaultReserveHours = 72

func cleanCommand() *cli.Command {
	return &cli.Command{
		Name: "clean", Usage: "remove the expired log files of a stopped store",
		Description: `Lists the log files whose last record was stored so many hours ago or longer, oldest first, and the first that stays, each with the reason; with --yes it
removes them, and trims queues (files, RocksDB or both, as found) and index to where the log then begins. The file with the last
record always stays. A store that was not closed in order has to be recovered first.

   tandemmq store clean --store /data/rocketmq/store --reserve-hours 48
   tandemmq store clean --store /data/rocketmq/store --reserve-hours 48 --yes`,
		Flags: []cli.Flag{
			storeFlag(),
			&cli.IntFlag{Name: "reserve-hours", Value: defaultReserveHours, Usage: "keep what was stored in the last `N` hours (fileReservedTime)"},
			&cli.BoolFlag{Name: "yes", Usage: "remove what is listed"},
			&cli.BoolFlag{Name: "dry-run", Usage: "list, and change nothing (the default)"},
			confFlag("paths of the log, sizes of an index"),
			&cli.BoolFlag{Name: "json", Usage: "print the report as one JSON object"},
		},
		Action: runClean,
	}
}

func runClean(c *cli.Context) error {
	o := store.CleanOptions{DryRun: !c.Bool("yes"), ReserveHours: c.Int("reserve-hours")}
	if o.ReserveHours < 0 || o.ReserveHours > store.MaxReserveHours {
		return usageError("--reserve-hours %d: use 0 to %d", o.ReserveHours, store.MaxReserveHours)
	}
	var err error
	if o.Options, o.Given, err = brokerOptions(c); err != nil {
		return err
	}
	l := store.NewLayout(c.String("store"))
	if err := l.CheckRoot(); err != nil {
		return err
	}
	st, err := migrate.LoadState(l.StateDir())
	if err != nil {
		return err
	}
	switch st.Phase {
	case migrate.PhaseBackfilling, migrate.PhaseVerifying, migrate.PhaseRollingBack:
		if !o.DryRun {
			return fmt.Errorf("clean store %s: its migration is %s, which needs the log: finish it first", l.Root, st.Phase)
		}
	default:
	}
	rep, err := store.Clean(c.Context, l.Root, o)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		e := json.NewEncoder(c.App.Writer)
		e.SetEscapeHTML(false)
		err = e.Encode(rep)
	} else {
		err = printClean(c.App.Writer, rep)
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func printClean(w io.Writer, rep *store.CleanReport) error {
	did := "removed"
	if rep.DryRun {
		did = "would remove"
	}
	for _, f := range rep.Removed {
		fmt.Fprintf(w, "%s %s (%s): %s\n", did, f.Path, byteSize(f.Bytes), f.Why)
	}
	if f := rep.Kept; f != nil {
		fmt.Fprintf(w, "keeps %s: %s\n", f.Path, f.Why)
	}
	for _, f := range rep.IndexRemoved {
		fmt.Fprintf(w, "%s %s (%s): %s\n", did, f.Path, byteSize(f.Bytes), f.Why)
	}
	rows := [][2]string{
		{"commit log", fmt.Sprintf("%s files go, it begins at %d and ends at %d", thousands(int64(len(rep.Removed))), rep.MinPhyOffset, rep.LogEnd)},
		{"queues", "trimmed to that (sides: " + strings.Join(rep.Sides, " and ") + ")"},
		{"index files", thousands(int64(rep.IndexFiles))},
		{"room", byteSize(rep.FreedBytes)},
	}
	if !rep.DryRun {
		rows[1][1] = fmt.Sprintf("%s trimmed, %s files (sides: %s)", thousands(int64(rep.Queues)), thousands(int64(rep.QueueFiles)), strings.Join(rep.Sides, " and "))
	}
	table(w, rows...)
	for _, n := range rep.Notes {
		fmt.Fprintf(w, "  note: %s\n", n)
	}
	verdict := "done"
	switch {
	case rep.DryRun && rep.Unclean:
		verdict = "nothing was changed; the store was not closed in order, recover it first"
	case rep.DryRun && len(rep.Removed) > 0:
		verdict = "nothing was changed; --yes removes what is listed"
	case len(rep.Removed) == 0:
		verdict = "nothing has expired"
	}
	_, err := fmt.Fprintf(w, "Result: %s\n", verdict)
	return err
}
