package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/store"
)

func storeCommand() *cli.Command {
	return &cli.Command{
		Name: "store", Usage: "look into store directories, and make sample ones",
		Description: "Example:\n\n   tandemmq store dump --store /data/rocketmq/store --queues-only",
		Subcommands: []*cli.Command{
			dumpCommand(), storeStatusCommand(), checkCommand(), recoverCommand(), rebuildCommand(), cleanCommand(), generateCommand(), offsetsCommand(),
			getCommand(), byTimeCommand(), queryCommand(), inspectCommand(),
		},
	}
}

func storeFlag() cli.Flag {
	return &cli.StringFlag{Name: "store", Usage: "store `DIR` (storePathRootDir)", Required: true}
}

func dumpCommand() *cli.Command {
	return &cli.Command{
		Name: "dump", Usage: "print queues and messages as JSON lines",
		Description: `Prints one JSON object a line: a queue, then its messages, sorted by topic, queue id and queue offset; light queues
and system topics included. A message whose body or properties do not fit their checksum is printed with "damaged". Reads what is on disk and changes nothing, also in a store that was not closed cleanly. A
store that a broker has open is refused. Where a file of the log is missing between others, the rest is read.

   tandemmq store dump --store /data/rocketmq/store --cq file --topic orders --queue 0 --limit 10
   tandemmq store dump --store /data/rocketmq/store --queues-only | jq -c '[.topic, .queueId, .max]'

Exit codes: 0 printed, 1 a queue, or a file of the log, could not be read (what could is printed), 2 wrong usage.`,
		Flags: []cli.Flag{
			storeFlag(),
			&cli.StringFlag{Name: "cq", Usage: "`SIDE` to read the queues from: file or rocks (default: the only one there is, or the one in use after a migration)"},
			&cli.StringFlag{Name: "topic", Usage: "print the queues of this `TOPIC` alone"},
			&cli.IntFlag{Name: "queue", Value: -1, Usage: "print queues of this `ID` alone", DefaultText: "all"},
			&cli.Int64Flag{Name: "limit", Usage: "print at most `N` messages of each queue; 0: all", DefaultText: "all"},
			&cli.BoolFlag{Name: "queues-only", Usage: "print no messages"},
			&cli.BoolFlag{Name: "json", Usage: "changes nothing: the output is JSON lines anyway"},
		},
		Action: runDump,
	}
}

// maxProblemLines is how many single problems a dump prints; their number comes at the end.
const maxProblemLines = 10

func runDump(c *cli.Context) (err error) {
	if c.Int64("limit") < 0 {
		return usageError("--limit %d: use 1 or more, or 0 for all", c.Int64("limit"))
	}
	if q := c.Int("queue"); c.IsSet("queue") && (q < 0 || q > 1<<31-1) {
		return usageError("--queue %d: use a queue id, 0 or more", q)
	}
	root := c.String("store")
	kind, err := dumpKind(c.String("cq"), store.NewLayout(root))
	if err != nil {
		return err
	}
	v, err := store.OpenView(root, store.ViewOptions{Kind: kind})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	warnOf(c, v)
	problems := 0
	rep, err := store.Dump(c.Context, c.App.Writer, v, store.DumpOptions{
		Topic: c.String("topic"), QueueID: int32(c.Int("queue")), Limit: c.Int64("limit"), QueuesOnly: c.Bool("queues-only"),
		OnProblem: func(k cq.Key, queueOffset int64, err error) {
			if problems++; problems > maxProblemLines {
				return
			}
			if queueOffset < 0 {
				fmt.Fprintf(c.App.ErrWriter, "warning: queue %s: %v\n", k, err)
			} else {
				fmt.Fprintf(c.App.ErrWriter, "warning: queue %s slot %d: %v\n", k, queueOffset, err)
			}
		},
	})
	if rep.Damaged > 0 || rep.Bad > 0 || rep.Unreadable > 0 {
		fmt.Fprintf(c.App.ErrWriter, "warning: %s good messages; %s are damaged, %s units point to no record, %s slots hold no unit\n",
			thousands(rep.Messages-rep.Damaged), thousands(rep.Damaged), thousands(rep.Bad), thousands(rep.Unreadable))
	}
	if err == nil && rep.Queues == 0 && (c.String("topic") != "" || c.IsSet("queue")) {
		return fmt.Errorf("store %s has no such queue (%s side)", v.Layout.Root, v.Kind)
	}
	if n := len(v.Log.Missing()); n > 0 && !c.Bool("queues-only") {
		err = errors.Join(err, fmt.Errorf("%s of the commit log could not be read; the rest was printed", counted(n, "file")))
	}
	return err
}

// warnOf tells on the error output what the log of a store lacks, and that the store was not closed cleanly.
func warnOf(c *cli.Context, v *store.View) {
	if v.Unclean {
		fmt.Fprintf(c.App.ErrWriter, "warning: store %s was not closed cleanly (it has a file abort): this is what lies on disk, before recovery\n", v.Layout.Root)
	}
	missing := v.Log.Missing()
	for i, f := range missing {
		if i == maxProblemLines {
			fmt.Fprintf(c.App.ErrWriter, "warning: and %s more files\n", thousands(int64(len(missing)-i)))
			break
		}
		fmt.Fprintf(c.App.ErrWriter, "warning: %v; restore it from a copy or a replica\n", f)
	}
}

// dumpKind chooses the side to read: the one asked for, the only one there is, or the one that reads belong to by the
// migration between them.
func dumpKind(asked string, l store.Layout) (cq.Kind, error) {
	switch cq.Kind(asked) {
	case cq.KindFile, cq.KindRocks:
		return cq.Kind(asked), nil
	case "":
	default:
		return "", usageError("--cq %q: use file or rocks", asked)
	}
	if err := l.CheckRoot(); err != nil {
		return "", err
	}
	_, _, hasRocks, err := l.FindRocks()
	if err != nil {
		return "", err
	}
	hasFile, err := l.HasFileQueues()
	if err != nil {
		return "", err
	}
	switch {
	case hasFile && hasRocks:
		st, err := migrate.LoadState(l.StateDir())
		if err != nil {
			return "", err
		}
		if side, ok := st.Active(); ok {
			return side, nil
		}
		return "", usageError("store %s has its queues in files and in RocksDB: say which with --cq file or --cq rocks", l.Root)
	case hasRocks:
		return cq.KindRocks, nil
	default:
		return cq.KindFile, nil
	}
}
