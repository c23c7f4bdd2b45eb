package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/store/offsets"
)

const offsetsHelp = `Finds consumer offsets that the store cannot serve, and puts others in their place. The store's broker must be stopped.
What may be changed is shown first; only --yes writes, after a dated copy of the file.

   tandemmq store offsets check --store /data/rocketmq/store
   tandemmq store offsets restore --store /data/rocketmq/store
   tandemmq store offsets reset --store /data/rocketmq/store --group g --to-time 2026-01-02T15:04:05Z --yes

No file says what a group has consumed: an offset within the bounds of its queue may be wrong too, and nobody can tell.`

func offsetsCommand() *cli.Command {
	return &cli.Command{
		Name: "offsets", Usage: "check, restore and reset consumer offsets", Description: offsetsHelp,
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "print consumer offsets with the bounds of their queues",
				Description: "Prints the offsets of every place that holds some, or of one. Writes nothing.\n\n   tandemmq store offsets list --store /data/rocketmq/store --group g",
				Flags:       offsetsFlags(placeFlag()), Action: withOffsets(false, listOffsets),
			},
			{
				Name: "check", Usage: "find offsets outside of their queues, and files that cannot be read",
				Description: `Sweeps all groups and queues in every place that holds offsets: the JSON files with their backups, and the databases of
storeType=defaultRocksDB. Shows beside each finding what else is known: the backup's value, store times, the state of the
group's retry queue. Writes nothing. Exit code 3 when something is found.

   tandemmq store offsets check --store /data/rocketmq/store --json`,
				Flags: offsetsFlags(placeFlag()), Action: withOffsets(false, checkOffsets),
			},
			{
				Name: "restore", Usage: "take offsets from a backup that are missing, or outside of their queue",
				Description: `Takes offsets from RocketMQ's backup, or another file, where there is none now or one that its queue does not have. Where the
offset file itself cannot be read, takes all of the backup.

   tandemmq store offsets restore --store /data/rocketmq/store
   tandemmq store offsets restore --store /data/rocketmq/store --backup /save/consumerOffset.json --group g --overwrite --yes`,
				Flags: offsetsFlags(placeFlag(),
					&cli.StringFlag{Name: "backup", Usage: "`FILE` to take them from (default: the file's own .bak)"},
					&cli.BoolFlag{Name: "overwrite", Usage: "also where the present offset is within the bounds of its queue"},
					&cli.BoolFlag{Name: "clamp", Usage: "move values of the backup that are outside of [min, max] to the nearer end"},
					offsetsYesFlag()),
				Action: withOffsets(true, restoreOffsets),
			},
			{
				Name: "reset", Usage: "set offsets to a time, to min or max, or into the bounds of their queues",
				Description: `Exactly one of the targets, and a selection: a group, a topic, or --all. With a group and a topic each queue of the topic gets
an offset, whether the group had one or not.

   tandemmq store offsets reset --store /data/rocketmq/store --group g --topic t --to-time 2026-01-02T15:04:05Z
   tandemmq store offsets reset --store /data/rocketmq/store --all --clamp --yes`,
				Flags: offsetsFlags(placeFlag(),
					&cli.BoolFlag{Name: "all", Usage: "all groups and topics"},
					&cli.StringFlag{Name: "to-time", Usage: "the first message stored at or after `TIME`: ms since the epoch, or like 2026-01-02T15:04:05+01:00"},
					&cli.BoolFlag{Name: "to-min", Usage: "the first message there is: all of it is consumed again"},
					&cli.BoolFlag{Name: "to-max", Usage: "behind the last message: what was not consumed is skipped"},
					&cli.BoolFlag{Name: "clamp", Usage: "offsets outside of [min, max] to the nearer end, no others"},
					offsetsYesFlag()),
				Action: withOffsets(true, resetOffsets),
			},
		},
	}
}

func offsetsFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		storeFlag(),
		&cli.StringFlag{Name: "group", Usage: "offsets of this `GROUP` alone"},
		&cli.StringFlag{Name: "topic", Usage: "offsets in this `TOPIC` alone"},
		&cli.IntFlag{Name: "queue", Value: -1, Usage: "offsets in queues of this `ID` alone", DefaultText: "all"},
		&cli.StringFlag{Name: "cq", Usage: "`SIDE` to read the queues from: file or rocks (default: as store dump)"},
		&cli.BoolFlag{Name: "json", Usage: "print one JSON document"},
	}, more...)
}

func placeFlag() cli.Flag {
	return &cli.StringFlag{Name: "place", Usage: "`PLACE` of the offsets: json, json-lmq, rocksdb, rocksdb-single or rocksdb-v2 (default: all, or the only one)"}
}

func offsetsYesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "yes", Usage: "do it; without this the command only shows what it would do"}
}

// offsetsRun is one run of a command: the store, open, and what it holds of offsets.
type offsetsRun struct {
	c       *cli.Context
	out     io.Writer
	v       *store.View
	sources []*offsets.Source
	place   offsets.Place
	sel     offsets.Selection
	json    bool
	printed bool
}

// withOffsets opens the store for a command; one that writes locks it for writing, if told to write.
func withOffsets(writes bool, do func(*offsetsRun) error) cli.ActionFunc {
	return func(c *cli.Context) (err error) {
		r := &offsetsRun{c: c, out: c.App.Writer, json: c.Bool("json"), place: offsets.Place(c.String("place"))}
		defer func() {
			if err != nil && r.json && !r.printed {
				err = errors.Join(err, printJSON(r.out, errorJSON(err)))
			}
		}()
		if err := r.choose(); err != nil {
			return err
		}
		root := c.String("store")
		kind, err := dumpKind(c.String("cq"), store.NewLayout(root))
		if err != nil {
			return err
		}
		if r.v, err = store.OpenView(root, store.ViewOptions{Kind: kind, Exclusive: writes && c.Bool("yes")}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.v.Close()) }()
		if r.v.Unclean {
			fmt.Fprintf(c.App.ErrWriter, "warning: store %s was not closed cleanly (it has a file abort): the ends of its queues may not be final\n", r.v.Layout.Root)
		}
		for _, f := range r.v.Log.Missing() {
			fmt.Fprintf(c.App.ErrWriter, "warning: %v\n", f)
		}
		if r.sources, err = offsets.Find(r.v.Layout); err != nil {
			return err
		}
		return do(r)
	}
}

func (r *offsetsRun) choose() error {
	if q := r.c.Int("queue"); r.c.IsSet("queue") && (q < 0 || q > 1<<31-1) {
		return usageError("--queue %d: use a queue id, 0 or more", q)
	}
	r.sel = offsets.Selection{Group: r.c.String("group"), Topic: r.c.String("topic"), QueueID: int32(r.c.Int("queue"))}
	for _, p := range append(offsets.Places(), "") {
		if r.place == p {
			return nil
		}
	}
	return usageError("--place %q: use one of %v", r.place, offsets.Places())
}

// chosen returns the sources at the place asked for, or all.
func (r *offsetsRun) chosen() ([]*offsets.Source, error) {
	if r.place == "" {
		return r.sources, nil
	}
	s, err := offsets.Choose(r.v.Layout, r.sources, r.place)
	if err != nil {
		return nil, err
	}
	return []*offsets.Source{s}, nil
}

func (r *offsetsRun) report(v any, human func(w io.Writer)) error {
	if r.json {
		r.printed = true
		return printJSON(r.out, v)
	}
	human(r.out)
	return nil
}

func (r *offsetsRun) planOptions() offsets.PlanOptions {
	return offsets.PlanOptions{Place: r.place, Selection: r.sel, Now: time.Now()}
}

func listOffsets(r *offsetsRun) error {
	sources, err := r.chosen()
	if err != nil {
		return err
	}
	l, err := offsets.List(r.c.Context, r.v, sources, r.sel)
	if err != nil {
		return err
	}
	return r.report(l, func(w io.Writer) { printOffsets(w, l) })
}

// foundError ends a check that found something.
type foundError int

func (n foundError) Error() string {
	return fmt.Sprintf("check consumer offsets: %s; nothing was changed", counted(int(n), "finding"))
}

// ExitCode is 3: verified and found different.
func (foundError) ExitCode() int { return 3 }

func checkOffsets(r *offsetsRun) error {
	sources, err := r.chosen()
	if err != nil {
		return err
	}
	rep, err := offsets.Check(r.c.Context, r.v, sources, r.sel)
	if err != nil {
		return err
	}
	if err := r.report(rep, func(w io.Writer) { printOffsetsReport(w, rep) }); err != nil {
		return err
	}
	if n := len(rep.Findings); n > 0 {
		return foundError(n)
	}
	return nil
}

func restoreOffsets(r *offsetsRun) error {
	p, err := offsets.PlanRestore(r.c.Context, r.v, r.sources, offsets.RestoreOptions{
		PlanOptions: r.planOptions(), Backup: r.c.String("backup"), Overwrite: r.c.Bool("overwrite"), Clamp: r.c.Bool("clamp"),
	})
	if err != nil {
		return ambiguous(err)
	}
	return r.finish(p)
}

func resetOffsets(r *offsetsRun) error {
	if r.sel.Group == "" && r.sel.Topic == "" && !r.c.Bool("all") {
		return usageError("store offsets reset: say which: --group, --topic or --all")
	}
	var targets []offsets.Target
	for _, t := range []struct {
		asked  bool
		target offsets.Target
	}{
		{r.c.IsSet("to-time"), offsets.ToTime},
		{r.c.Bool("to-min"), offsets.ToMin},
		{r.c.Bool("to-max"), offsets.ToMax},
		{r.c.Bool("clamp"), offsets.ToBounds},
	} {
		if t.asked {
			targets = append(targets, t.target)
		}
	}
	if len(targets) != 1 {
		return usageError("store offsets reset: use one of --to-time, --to-min, --to-max and --clamp")
	}
	ms := int64(0)
	if targets[0] == offsets.ToTime {
		var err error
		if ms, err = parseTime(r.c.String("to-time")); err != nil {
			return err
		}
	}
	p, err := offsets.PlanReset(r.c.Context, r.v, r.sources, targets[0], ms, r.planOptions())
	if err != nil {
		return ambiguous(err)
	}
	return r.finish(p)
}

func ambiguous(err error) error {
	if several := (*offsets.AmbiguousError)(nil); errors.As(err, &several) {
		return usageError("%v with --place", several)
	}
	return err
}

// parseTime reads ms since the epoch, or a time with its zone.
func parseTime(s string) (int64, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && ms >= 0 {
		return ms, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return 0, usageError("--to-time %q: use ms since the epoch, or a time with its zone like 2026-01-02T15:04:05+01:00", s)
	}
	return t.UnixMilli(), nil
}

// offsetsResult is what restore and reset print with --json.
type offsetsResult struct {
	*offsets.Plan
	Applied *offsets.Applied `json:"applied,omitempty"`
	*errorReport
}

// selectionText names what was asked for.
func selectionText(s offsets.Selection) (text string) {
	if s.Group != "" {
		text += fmt.Sprintf(" group %q", s.Group)
	}
	if s.Topic != "" {
		text += fmt.Sprintf(" topic %q", s.Topic)
	}
	if s.QueueID >= 0 {
		text += fmt.Sprintf(" queue %d", s.QueueID)
	}
	return text
}

// finish shows the plan and, told to, carries it out.
func (r *offsetsRun) finish(p *offsets.Plan) error {
	if s := r.sel; (s.Group != "" || s.Topic != "" || s.QueueID >= 0) && len(p.Changes)+len(p.Skipped)+len(p.Refusals)+p.Unchanged == 0 {
		return fmt.Errorf("no consumer offset matches%s, in %s", selectionText(s), p.File)
	}
	res := offsetsResult{Plan: p}
	var failed error
	switch {
	case len(p.Refusals) > 0:
		failed = &offsets.RefusedError{Reasons: p.Refusals}
	case r.c.Bool("yes") && len(p.Changes) > 0:
		if !r.json {
			printOffsetsPlan(r.out, p)
		}
		a, err := p.Apply(time.Now())
		if err != nil {
			failed = err
			break
		}
		res.Applied = &a
		if !r.json {
			printApplied(r.out, &a)
			return nil
		}
	}
	if failed != nil {
		report := errorJSON(failed)
		res.errorReport = &report
	}
	return errors.Join(failed, r.report(res, func(w io.Writer) {
		if r.c.Bool("yes") && failed != nil && len(p.Refusals) == 0 {
			return // the plan is on the screen already
		}
		printOffsetsPlan(w, p)
		if len(p.Changes) > 0 && failed == nil {
			fmt.Fprintln(w, "\nNothing was changed. To do it, repeat the command with --yes.")
		}
	}))
}
