package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/store"
)

func rebuildCommand() *cli.Command {
	return &cli.Command{
		Name: "rebuild", Usage: "build queues or the index of a stopped store anew from its log",
		Description: `Says what would be built; with --yes it builds it: the queues (--queues), those of one topic or a single one (--topic, --queue), the index
(--index), or without any of these all that is there. The old files are moved aside and removed when the new ones are durable. Until
then the store has an abort mark: killed half-way it goes on when it is started again in the same way, and a store that is opened
instead builds what is missing while it serves. The log is not changed. A log with damage is refused, before anything is moved.
A side that the store keeps and has lost is built like one that is there. One that it does not keep, while it keeps the other, is refused:
migrate run moves queues, and proves them. --create builds it all the same, and the store keeps both from then on.

   tandemmq store rebuild --store /data/rocketmq/store --queues rocks
   tandemmq store rebuild --store /data/rocketmq/store --queues file --topic orders --yes

Exit codes: 0 built, 1 failed, 2 wrong usage, 3 the log is damaged (store recover says what to do).`,
		Flags: []cli.Flag{
			storeFlag(),
			&cli.StringFlag{Name: "queues", Usage: "`SIDE` of the queues: file, rocks or both (default: those there are)"},
			&cli.BoolFlag{Name: "create", Usage: "build the queues of --queues also where the store does not keep that side and keeps the other; it keeps both from then on"},
			&cli.BoolFlag{Name: "index", Usage: "the index; with --queues beside the queues, alone otherwise"},
			&cli.StringFlag{Name: "topic", Usage: "only the queues of `TOPIC`"},
			&cli.IntFlag{Name: "queue", Value: -1, Usage: "only queue `N` of the topic"},
			&cli.BoolFlag{Name: "yes", Usage: "build what is listed"},
			&cli.BoolFlag{Name: "dry-run", Usage: "list, and change nothing (the default)"},
			confFlag("paths of the log, sizes of files that are gone, delay levels"),
			&cli.BoolFlag{Name: "json", Usage: "print the report as one JSON object, and no progress"},
			&cli.BoolFlag{Name: "quiet", Usage: "print no progress"},
		},
		Action: runRebuild,
	}
}

// rebuildOptions reads the flags.
func rebuildOptions(c *cli.Context) (o store.RebuildOptions, err error) {
	o = store.RebuildOptions{DryRun: !c.Bool("yes"), Create: c.Bool("create"), Index: c.Bool("index"), Topic: c.String("topic"), QueueID: -1}
	switch k := c.String("queues"); k {
	case "", string(cq.KindFile), string(cq.KindRocks):
		o.Kind = cq.Kind(k)
	case "both":
		o.Kind = cq.KindCombine
	default:
		return o, usageError("--queues %q: use file, rocks or both", k)
	}
	switch n := c.Int("queue"); {
	case o.Create && o.Kind == "":
		return o, usageError("--create needs --queues: it says which queues")
	case c.IsSet("queue") && o.Topic == "":
		return o, usageError("--queue needs --topic")
	case o.Topic != "" && o.Index:
		return o, usageError("--topic and --index: the index has no topics, build it by itself")
	case c.IsSet("queue") && (n < 0 || n > math.MaxInt32):
		return o, usageError("--queue %d: use 0 or more", n)
	default:
		o.QueueID = int32(n)
	}
	o.Options, o.Given, err = brokerOptions(c)
	return o, err
}

func runRebuild(c *cli.Context) error {
	o, err := rebuildOptions(c)
	if err != nil {
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
			return fmt.Errorf("rebuild store %s: its migration is %s: finish it first", l.Root, st.Phase)
		}
	default:
	}
	p := newProgress(c.App.ErrWriter, chooseProgress(c.App.ErrWriter, c.Bool("json") || c.Bool("quiet")))
	defer p.Finish()
	o.Progress = p.Phase
	rep, err := store.Rebuild(c.Context, l.Root, o)
	p.Finish()
	var damage *store.DamageError
	switch {
	case errors.As(err, &damage):
		return undecidedError{err}
	case err != nil:
		return err
	case c.Bool("json"):
		e := json.NewEncoder(c.App.Writer)
		e.SetEscapeHTML(false)
		err = e.Encode(rep)
	default:
		err = printRebuild(c.App.Writer, rep)
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func printRebuild(w io.Writer, rep *store.RebuildReport) error {
	what, did := "Rebuild", "built"
	if rep.DryRun {
		what, did = "Dry run of a rebuild", "there now"
	}
	fmt.Fprintf(w, "%s of %s in %s\n", what, rep.Store, round(rep.Elapsed))
	rows := [][2]string{{"commit log", fmt.Sprintf("%d to %d, %s", rep.LogMin, rep.LogEnd, byteSize(rep.LogEnd-rep.LogMin))}}
	if rep.Resumed {
		rows = append(rows, [2]string{"goes on", "an earlier run was cut off"})
	}
	for _, v := range rep.Views {
		text := fmt.Sprintf("%s %s queues, %s units", did, thousands(v.Queues), thousands(v.Units))
		switch {
		case v.Name == "index" && rep.DryRun:
			text = "to be built"
		case v.Name == "index":
			text = fmt.Sprintf("%s %s entries", did, thousands(v.Units))
		}
		if !rep.DryRun {
			text += fmt.Sprintf(", from %s of the log in %s", byteSize(v.LogBytes), round(v.Elapsed))
		}
		rows = append(rows, [2]string{v.Name, text})
	}
	table(w, rows...)
	printLost(w, rep.Lost)
	printForgotten(w, rep.Forgotten)
	for _, n := range rep.Notes {
		fmt.Fprintf(w, "  note: %s\n", n)
	}
	verdict := "built; `tandemmq store check` proves it"
	if rep.DryRun {
		verdict = "nothing was changed; --yes builds what is listed anew"
	}
	_, err := fmt.Fprintf(w, "Result: %s\n", verdict)
	return err
}
