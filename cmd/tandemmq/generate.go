package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/store"
)

func generateCommand() *cli.Command {
	d := store.DefaultGenerateOptions()
	return &cli.Command{
		Name: "generate", Usage: "make a sample store",
		Description: `Makes a store directory as a RocketMQ 5.5.0 broker in file mode leaves it after a clean shutdown. The directory must be
empty or not there. The same options make the same log and queues again, byte for byte. A file abort in the directory
marks a store whose making was cut short.

   tandemmq store generate --store /tmp/sample --messages 1000000 --topics 8 --queues 8 --lmq 100 --delayed`,
		Flags: []cli.Flag{
			storeFlag(),
			&cli.Int64Flag{Name: "messages", Value: d.Messages, Usage: "`N` records in the log"},
			&cli.IntFlag{Name: "topics", Value: d.Topics, Usage: "`N` topics"},
			&cli.IntFlag{Name: "queues", Value: d.QueuesPerTopic, Usage: "`N` queues of each topic"},
			&cli.IntFlag{Name: "body", Value: d.BodyBytes, Usage: "`BYTES` of every body"},
			&cli.IntFlag{Name: "tags", Value: d.Tags, Usage: "`N` distinct tags; 0: messages without tags"},
			&cli.IntFlag{Name: "keys", Value: d.Keys, Usage: "`N` keys on each message"},
			&cli.IntFlag{Name: "lmq", Usage: "`N` light queues; half the messages go to one to three of them too"},
			&cli.BoolFlag{Name: "delayed", Usage: "make one message in twenty a delayed one"},
			&cli.BoolFlag{Name: "transactions", Usage: "make one message in twenty each prepared, committed, rolled back"},
			&cli.Uint64Flag{Name: "seed", Value: d.Seed, Usage: "`NUMBER` that decides what looks random"},
			&cli.Int64Flag{Name: "start-ms", Value: d.StartMs, Usage: "store time of the first message, `MS` since 1970; each next one is a millisecond later"},
			&cli.Int64Flag{Name: "commitlog-size", Value: d.CommitLogFileBytes, Usage: "`BYTES` of a log file (mappedFileSizeCommitLog); files are sparse"},
			&cli.Int64Flag{Name: "cq-file-size", Value: d.QueueFileBytes, Usage: "`BYTES` of a queue file (mappedFileSizeConsumeQueue)"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document and no progress"},
			&cli.BoolFlag{Name: "quiet", Usage: "print no progress"},
		},
		Action: runGenerate,
	}
}

func runGenerate(c *cli.Context) error {
	o := store.GenerateOptions{
		Messages: c.Int64("messages"), Topics: c.Int("topics"), QueuesPerTopic: c.Int("queues"), BodyBytes: c.Int("body"),
		Tags: c.Int("tags"), Keys: c.Int("keys"), LMQ: c.Int("lmq"), Delayed: c.Bool("delayed"), Transactions: c.Bool("transactions"),
		Seed: c.Uint64("seed"), StartMs: c.Int64("start-ms"),
		CommitLogFileBytes: c.Int64("commitlog-size"), QueueFileBytes: c.Int64("cq-file-size"),
	}
	if err := o.Validate(); err != nil {
		return usageError("%s", flagFaults(err))
	}
	p := newProgress(c.App.ErrWriter, chooseProgress(c.App.ErrWriter, c.Bool("json") || c.Bool("quiet")))
	defer p.Finish()
	o.Progress = p.Phase("generate", o.Messages, "messages")
	o.Progress(0)
	start := time.Now()
	rep, err := store.Generate(c.Context, c.String("store"), o)
	p.Finish()
	if err != nil {
		return err
	}
	elapsed := time.Since(start)
	if c.Bool("json") {
		return printJSON(c.App.Writer, struct {
			Store string `json:"store"`
			store.GenerateReport
			Seconds float64 `json:"seconds"`
		}{c.String("store"), rep, math.Round(elapsed.Seconds()*1000) / 1000})
	}
	_, err = fmt.Fprintf(c.App.Writer, "Store %s: %s messages in %s queues (%s units), %s of log, made in %s\n", c.String("store"),
		thousands(rep.Messages), thousands(int64(rep.Queues)), thousands(rep.Units), byteSize(rep.MaxPhyOffset), round(elapsed))
	return err
}

// generateFlags maps what GenerateOptions.Validate calls a field to the flag that sets it.
var generateFlags = map[string]string{
	"messages": "messages", "topics": "topics", "queues per topic": "queues", "body bytes": "body", "tags": "tags", "keys": "keys",
	"light queues": "lmq", "start time in ms": "start-ms", "queue file bytes": "cq-file-size", "commit log file bytes": "commitlog-size",
}

// flagFaults puts the faults that GenerateOptions.Validate found, "FIELD is VALUE, want ...", into the words of the command
// line: "--FLAG VALUE: want ...". A fault of another shape stays as it is.
func flagFaults(err error) string {
	faults := strings.Split(err.Error(), "\n")
	for i, fault := range faults {
		field, rest, _ := strings.Cut(fault, " is ")
		if value, want, ok := strings.Cut(rest, ", "); ok && generateFlags[field] != "" {
			faults[i] = fmt.Sprintf("--%s %s: %s", generateFlags[field], value, want)
		}
	}
	return strings.Join(faults, "; ")
}
