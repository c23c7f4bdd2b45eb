package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/store"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name: "bench", Usage: "measure what a store does on this machine",
		Description: "Example:\n\n   tandemmq bench put --producers 1,8 --flush sync --duration 4s",
		Subcommands: []*cli.Command{benchPutCommand(), benchCompareCommand(), benchLimitsCommand(), benchDiffCommand(), benchScenarioCommand()},
	}
}

// benchWriteModes maps what --write-mode says to the options that choose it.
var benchWriteModes = map[string]map[string]string{
	"default": {},
	"mmap":    {"syncFlushWriteMode": "mmap"},
	"staged":  {"syncFlushWriteMode": "staged"},
	"pool":    {"transientStorePoolEnable": "true"},
	"pwrite":  {"writeWithoutMmap": "true"},
}

func benchPutCommand() *cli.Command {
	return &cli.Command{
		Name: "put", Usage: "put messages as fast as they are taken",
		Description: `Opens a new store, puts messages into it, closes it, and counts what lies in its log. The clock starts when the store has made its first files. Prints the rate, latencies, what a roll
to the next log file cost, the statuses, how much was acknowledged and not yet durable, and what the disk wrote.

Consume queues and index are built beside the puts, as in any store, and share the machine with them; --set buildConsumeQueues=false
measures the puts alone. "Allocations a put" are those of the whole process in that time by the number of puts: of the load, the
flush and the building of the queues too. With batches a put is many messages: latencies and statuses are those of puts,
rates those of messages.

   tandemmq bench put --messages 1000000
   tandemmq bench put --flush sync --producers 1,16,64 --duration 4s
   tandemmq bench put --dir /data/bench --set flushIntervalCommitLog=100 --set warmMapedFileEnable=true --json
   tandemmq bench put --mix --producers 4

Every number of producers gets a store of its own, DIR/producers-N, removed afterwards unless --keep is given.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "empty `DIR`ectory for the stores, made if it is missing", DefaultText: "a temporary one"},
			&cli.StringFlag{Name: "producers", Value: "1", Usage: "goroutines that put, a `LIST` of numbers that are run one after the other"},
			&cli.Int64Flag{Name: "messages", Usage: "`N` messages over all producers", DefaultText: "1000000, with --duration as many as it takes"},
			&cli.DurationFlag{Name: "duration", Usage: "stop after this `TIME`", DefaultText: "none"},
			&cli.IntFlag{Name: "body", Value: 1024, Usage: "`BYTES` of every body"},
			&cli.IntFlag{Name: "topics", Value: 1, Usage: "`N` topics"},
			&cli.IntFlag{Name: "queues", Value: 4, Usage: "`N` queues of each topic"},
			&cli.IntFlag{Name: "batch", Usage: "`N` messages in each put", DefaultText: "single messages; with --mix 10"},
			&cli.IntFlag{Name: "light", Usage: "`N` light queues; each message goes to one to three of them too (sets enableLmq and enableMultiDispatch)", DefaultText: "none; with --mix 100"},
			&cli.BoolFlag{Name: "transactions", Usage: "make one message in twenty each prepared, committed, rolled back"},
			&cli.BoolFlag{Name: "delayed", Usage: "make one message in twenty a delayed one"},
			&cli.BoolFlag{Name: "mix", Usage: "put, in turn, all there is: plain messages, batches, inner batches, messages for light queues, prepared, committed, rolled back, delayed, with a topic of 206 bytes, with IPv6 hosts; with property checksums (sets enabledAppendPropCRC)"},
			&cli.BoolFlag{Name: "properties", Value: true, Usage: "give each message a tag, a key and a unique key"},
			&cli.StringFlag{Name: "flush", Value: "async", Usage: "`TYPE` of flush: async or sync"},
			&cli.StringFlag{Name: "write-mode", Value: "default", Usage: "`MODE` of writing: default, mmap or staged (with --flush sync), pool or pwrite"},
			&cli.StringSliceFlag{Name: "set", Usage: "set an option of the store, `NAME=VALUE` as in broker.conf; may be repeated"},
			&cli.IntFlag{Name: "sample", Usage: "time one put of `N`", DefaultText: "17, with --flush sync 1"},
			&cli.BoolFlag{Name: "keep", Usage: "keep the stores"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document and no progress"},
			&cli.BoolFlag{Name: "quiet", Usage: "print no progress"},
		},
		Action: runBenchPut,
	}
}

// benchDefaults: a million messages show the steady state of most machines in seconds. The sampling is coprime to what
// happens every so many puts (pages, queues).
const (
	benchDefaultMessages = 1_000_000
	benchAsyncSample     = 17
)

// benchPlan is a command line of bench put, understood.
type benchPlan struct {
	producers  []int
	load       load // producers, put, figures and progress are still missing
	properties map[string]string
	options    store.Options
}

func readBenchPlan(c *cli.Context) (p benchPlan, err error) {
	for _, word := range strings.Split(c.String("producers"), ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 || n > 10_000 {
			return p, usageError("--producers %q: want numbers from 1 to 10000, with commas between", c.String("producers"))
		}
		if slices.Contains(p.producers, n) {
			return p, usageError("--producers %q: %d is there twice", c.String("producers"), n)
		}
		p.producers = append(p.producers, n)
	}
	for _, f := range []struct {
		name      string
		low, high int64
	}{
		{"messages", 1, 1 << 40},
		{"body", 0, 1 << 30},
		{"topics", 1, 1_000_000},
		{"queues", 1, 65536},
		{"batch", 1, store.MaxBatchCount},
		{"light", 1, 1_000_000},
		{"sample", 1, 1 << 30},
	} {
		v := c.Int64(f.name)
		if f.name != "messages" {
			v = int64(c.Int(f.name))
		}
		if (c.IsSet(f.name) || v != 0) && (v < f.low || v > f.high) {
			return p, usageError("--%s %d: want %d to %d", f.name, v, f.low, f.high)
		}
	}
	if c.IsSet("duration") && c.Duration("duration") <= 0 {
		return p, usageError("--duration %v: want more than 0", c.Duration("duration"))
	}
	p.load = load{
		messages: c.Int64("messages"), duration: c.Duration("duration"), bodyBytes: c.Int("body"),
		topics: c.Int("topics"), queues: c.Int("queues"), properties: c.Bool("properties"), sampleEvery: c.Int("sample"),
		shapes: chooseShapes(c.Int("batch"), c.Int("light"), c.Bool("transactions"), c.Bool("delayed"), c.Bool("mix")),
	}
	if c.Int("batch") > 0 && !c.Bool("mix") {
		for _, other := range []string{"light", "transactions", "delayed"} {
			if c.IsSet(other) {
				return p, usageError("--batch and --%s: a batch has no such messages; --mix puts both", other)
			}
		}
	}
	if p.load.messages == 0 && p.load.duration == 0 {
		p.load.messages = benchDefaultMessages
	}
	if err := p.readOptions(c); err != nil {
		return p, err
	}
	if p.load.sampleEvery == 0 {
		p.load.sampleEvery = benchAsyncSample
		if p.options.FlushDiskType == store.SyncFlush {
			p.load.sampleEvery = 1
		}
	}
	p.load.fileBytes, p.load.rest = p.options.MappedFileSizeCommitLog, settleRest
	if p.options.WarmMapedFileEnable {
		p.load.rest = settleRestWarm
	}
	return p, nil
}

// readOptions makes the store's options out of --flush, --write-mode and --set; the last goes before the others.
func (p *benchPlan) readOptions(c *cli.Context) error {
	flush, mode := c.String("flush"), c.String("write-mode")
	p.properties = map[string]string{}
	switch flush {
	case "async", "sync":
		p.properties["flushDiskType"] = strings.ToUpper(flush) + "_FLUSH"
	default:
		return usageError("--flush %q: use async or sync", flush)
	}
	chosen, ok := benchWriteModes[mode]
	if !ok {
		return usageError("--write-mode %q: use default, mmap, staged, pool or pwrite", mode)
	}
	if _, syncOnly := chosen["syncFlushWriteMode"]; syncOnly && flush != "sync" {
		return usageError("--write-mode %s: only with --flush sync", mode)
	}
	maps.Copy(p.properties, chosen)
	maps.Copy(p.properties, p.load.shapes.options())
	for _, set := range c.StringSlice("set") {
		name, value, ok := strings.Cut(set, "=")
		if !ok || name == "" {
			return usageError("--set %q: want NAME=VALUE", set)
		}
		if strings.HasPrefix(name, "storePath") {
			return usageError("--set %s: the stores lie in --dir", set)
		}
		p.properties[name] = value
	}
	options, notes, err := store.ParseOptions(p.properties)
	if err != nil {
		return usageError("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if len(notes) > 0 { // what changes nothing would be measured for nothing
		return usageError("--set %v", notes[0])
	}
	p.options = options
	p.options.IsBatchTopic = isInnerTopic
	return nil
}

// benchDocument is what bench put --json prints.
type benchDocument struct {
	Dir        string            `json:"dir"`
	Go         string            `json:"go"`
	GoMaxProcs int               `json:"goMaxProcs"`
	Options    map[string]string `json:"options"` // set; the others have their defaults
	BodyBytes  int               `json:"bodyBytes"`
	Runs       []benchRun        `json:"runs"`
}

// benchRun is one number of producers.
type benchRun struct {
	Producers          int               `json:"producers"`
	Messages           int64             `json:"messages"`         // stored, and found in the log
	Puts               int64             `json:"puts"`             // of one or, in batches, many messages
	Shapes             map[string]int64  `json:"shapes,omitempty"` // messages by their kind; left out where all are plain
	Interrupted        bool              `json:"interrupted,omitempty"`
	Seconds            float64           `json:"seconds"`
	MessagesPerSecond  float64           `json:"messagesPerSecond"`
	LogBytesPerSecond  float64           `json:"logBytesPerSecond"`
	LogBytes           int64             `json:"logBytes"` // of the records
	Latency            calibrate.Summary `json:"latency"`
	SampledEvery       int               `json:"sampledEvery"`
	Rolls              calibrate.Summary `json:"rolls"` // puts that began a log file
	Statuses           map[string]int64  `json:"statuses"`
	AllocsPerPut       float64           `json:"allocsPerPut"`
	Syncs              int64             `json:"syncs"`
	DeviceBytes        int64             `json:"deviceBytes"` // that the block device wrote meanwhile; -1: not known
	UndurableMaxBytes  int64             `json:"undurableMaxBytes"`
	UndurableMaxMillis float64           `json:"undurableMaxMillis"`
}

func runBenchPut(c *cli.Context) (err error) {
	plan, err := readBenchPlan(c)
	if err != nil {
		return err
	}
	dir, clean, err := benchDir(c.String("dir"))
	if err != nil {
		return err
	}
	if !c.Bool("keep") {
		defer func() { err = errors.Join(err, clean()) }()
	}
	p := newProgress(c.App.ErrWriter, chooseProgress(c.App.ErrWriter, c.Bool("json") || c.Bool("quiet")))
	defer p.Finish()
	doc := benchDocument{
		Dir: dir, Go: runtime.Version(), GoMaxProcs: runtime.GOMAXPROCS(0), Options: plan.properties, BodyBytes: plan.load.bodyBytes,
	}
	for _, n := range plan.producers {
		root := filepath.Join(dir, fmt.Sprintf("producers-%d", n))
		run, err := benchOnce(c.Context, plan, root, n, p)
		if err != nil {
			return err
		}
		if !c.Bool("keep") {
			if err := os.RemoveAll(root); err != nil {
				return err
			}
		}
		doc.Runs = append(doc.Runs, run)
		if run.Interrupted {
			break
		}
	}
	p.Finish()
	show := printBench
	if c.Bool("json") {
		show = func(w io.Writer, doc benchDocument) error { return printJSON(w, doc) }
	}
	return errors.Join(show(c.App.Writer, doc), c.Err())
}

// benchDir returns the directory of the stores, which is empty, and how to bring back what was before.
func benchDir(asked string) (dir string, clean func() error, err error) {
	if asked == "" {
		dir, err = os.MkdirTemp("", "tandemmq-bench-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	entries, err := os.ReadDir(asked)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return asked, func() error { return os.RemoveAll(asked) }, os.MkdirAll(asked, 0o755)
	case err != nil:
		return "", nil, err
	case len(entries) > 0:
		return "", nil, usageError("--dir %s: not empty", asked)
	}
	return asked, func() error {
		entries, err := os.ReadDir(asked)
		for _, e := range entries {
			err = errors.Join(err, os.RemoveAll(filepath.Join(asked, e.Name())))
		}
		return err
	}, nil
}

// benchOnce runs one load against a new store at root. When ctx ends in the middle of it the run is what was put so far.
func benchOnce(ctx context.Context, plan benchPlan, root string, producers int, p *progress) (benchRun, error) {
	s, err := store.Open(root, plan.options)
	if err != nil {
		return benchRun{}, err
	}
	l := plan.load
	l.producers = producers
	l.use(s)
	device := calibrate.DeviceOf(root)
	var r loadResult
	if err = l.settle(ctx); err == nil {
		l.progress = p.Phase(fmt.Sprintf("put by %d", producers), l.messages, "messages")
	}
	before, known := device.Written()
	if err == nil {
		r, err = l.run(ctx)
	}
	after, ok := device.Written()
	interrupted := ctx.Err() != nil && errors.Is(err, ctx.Err()) && r.stored > 0
	cerr := s.Close()
	if err != nil && !interrupted {
		return benchRun{}, err // what it left undone says nothing more
	}
	if cerr != nil {
		return benchRun{}, cerr
	}
	ctx = context.WithoutCancel(ctx)
	run := benchRun{
		Producers: producers, Interrupted: interrupted, Puts: r.puts, Seconds: r.elapsed.Seconds(), Latency: r.latency.Summary(), SampledEvery: l.sampleEvery, Rolls: r.rolls.Summary(),
		Statuses: map[string]int64{}, AllocsPerPut: r.allocs, Syncs: r.syncs, DeviceBytes: -1,
		UndurableMaxBytes: r.undurableMost, UndurableMaxMillis: float64(r.undurableFor) / float64(time.Millisecond),
	}
	if known && ok {
		run.DeviceBytes = after - before
	}
	for status, n := range r.statuses {
		if n > 0 {
			run.Statuses[store.PutStatus(status).String()] = n
		}
	}
	check := p.Phase("check", r.stored, "messages")
	found, err := countLog(ctx, store.NewLayout(root).CommitLogDir(), plan.options.EnabledAppendPropCRC, check)
	if err != nil {
		return benchRun{}, err
	}
	if err := checkLog(found, r.shapes, root); err != nil {
		return benchRun{}, err
	}
	run.Messages, run.LogBytes = found.messages, found.bytes
	if r.shapes[shapePlain] != r.stored {
		run.Shapes = r.shapes.byName()
	}
	run.MessagesPerSecond = float64(run.Messages) / run.Seconds
	run.LogBytesPerSecond = float64(run.LogBytes) / run.Seconds
	return run, nil
}
