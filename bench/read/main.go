// Command read measures how fast a store is read: pulls, single gets, searches by key and by time, beside the RocketMQ 5.5.0 store on the same directories; and what puts and
// readers of new messages have of it when another reads gigabytes of old ones from the disk. It makes its stores, calibrates memory between any two rows and prints medians, the
// spread, and one RATIO line for each limit.
//
// Each row of ours is a process of its own (this program, with -row).
//
//	go run ./bench/read -dir DIR
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

func main() { report.Main("bench-read", run) }

// memoryTime is how long each of the two rates of a memory calibration is measured.
const memoryTime = 200 * time.Millisecond

// bench is one run of the program.
type bench struct {
	w         io.Writer
	dir, out  string
	classPath string // of the Java programs; "" without them
	sizes     sizes
	reps      int
	rows      []row
	memory    func() (calibrate.Copy, error)
	sync      func()                                                                      // writes back what the whole machine has
	child     func(ctx context.Context, r row, dir string) (report.Figures, error)        // runs a row of ours in a process of its own
	java      func(ctx context.Context, r row, root, home string, x report.Figures) error // runs a row of RocketMQ
}

func run(ctx context.Context, args []string, w io.Writer) error {
	b := bench{w: w, sizes: defaultSizes}
	f := flag.NewFlagSet("bench-read", flag.ContinueOnError)
	f.StringVar(&b.dir, "dir", "", "directory on the filesystem to measure; needs 8 GB, 30 GB with -full; nothing stays in it")
	f.StringVar(&b.out, "out", "", "file to append the raw results to, one JSON object a line")
	f.IntVar(&b.reps, "reps", 3, "repetitions")
	f.IntVar(&b.sizes.Messages, "messages", b.sizes.Messages, "messages of 1 KiB of the stores of file and RocksDB queues")
	f.IntVar(&b.sizes.IndexMessages, "index-messages", b.sizes.IndexMessages, "messages of the store of the large index: three entries of the index each")
	f.Int64Var(&b.sizes.ScanBytes, "scan-bytes", b.sizes.ScanBytes, "old log that is read back beside puts")
	f.IntVar(&b.sizes.Samples, "samples", b.sizes.Samples, "calls of each kind of which percentiles are taken")
	only := f.String("only", "", "run the rows whose names match this regular expression alone")
	withJava := f.Bool("java", true, "measure the RocketMQ store too (needs a JDK and Maven: scripts/setup.sh java)")
	full := f.Bool("full", false, "the sizes of the limits: an index of 20 million entries, 10 GiB read back")
	strict := f.Bool("strict", false, "fail when a limit is missed")
	name := f.String("row", "", "measure this row alone, in this process, and print its figures as JSON")
	given := f.String("sizes", "", "sizes of the row, as JSON")
	if err := f.Parse(args); err != nil {
		return err
	}
	if b.dir == "" || b.reps < 1 {
		return errors.New("-dir is missing, or -reps is below 1")
	}
	if *name != "" {
		return runRow(ctx, w, *name, *given, b.dir)
	}
	if *full {
		b.sizes.IndexMessages, b.sizes.ScanBytes, b.sizes.Beside = 20_000_000/entriesPerMessage, 10<<30, 20*time.Second
	}
	pick, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if *withJava {
		if b.classPath, err = java.Build(ctx); err != nil {
			return err
		}
	}
	b.rows = slices.DeleteFunc(rows(b.sizes), func(r row) bool { return !pick.MatchString(r.name) || r.java && !*withJava })
	b.memory = func() (calibrate.Copy, error) { return calibrate.Memory(b.dir, memoryTime) }
	b.sync = syscall.Sync
	b.child = func(ctx context.Context, r row, dir string) (report.Figures, error) {
		return report.Own(ctx, r.name, b.sizes, dir)
	}
	b.java = b.runJava
	missed, err := b.run(ctx)
	if err == nil && *strict && missed > 0 {
		err = fmt.Errorf("%d limits are missed", missed)
	}
	return err
}

// record is a line of the raw results.
type record struct {
	Time         time.Time       `json:"time"`
	Repetition   int             `json:"repetition"`
	Row          string          `json:"row"`
	MemoryBefore *calibrate.Copy `json:"memoryBefore,omitempty"`
	MemoryAfter  *calibrate.Copy `json:"memoryAfter,omitempty"`
	Figures      report.Figures  `json:"figures,omitempty"`
	Machine      any             `json:"machine,omitempty"`
	Sizes        *sizes          `json:"sizes,omitempty"`
}

// run returns how many limits are missed.
func (b *bench) run(ctx context.Context) (missed int, err error) {
	m := calibrate.Machine(ctx, b.dir, "")
	fmt.Fprintln(b.w, m)
	if err := calibrate.AppendJSON(b.out, record{Time: time.Now().UTC(), Row: "machine", Machine: m, Sizes: &b.sizes}); err != nil {
		return 0, err
	}
	stores, err := os.MkdirTemp(b.dir, "bench-read-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stores)) }()
	all := make([]report.Repetition, b.reps)
	for n := range all {
		all[n] = report.Repetition{}
	}
	names := make([]string, len(b.rows))
	for i, r := range b.rows {
		names[i] = r.name
	}
	// Rows that read the same store stand side by side, and a store goes when the last of them is done.
	for i := 0; i < len(b.rows); {
		group := b.rows[i:]
		if end := slices.IndexFunc(group, func(r row) bool { return r.store != group[0].store }); end > 0 {
			group = group[:end]
		}
		i += len(group)
		if err := b.group(ctx, group, filepath.Join(stores, group[0].store), all); err != nil {
			return 0, err
		}
	}
	report.Table(b.w, names, all)
	return report.PrintRatios(b.w, ratios(), all), nil
}

// group makes a store and runs the rows that read it, one after the other in each repetition.
func (b *bench) group(ctx context.Context, group []row, dir string, all []report.Repetition) (err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := group[0].fill(ctx, group[0], b.sizes, filepath.Join(dir, "store")); err != nil {
		return fmt.Errorf("make store %s: %w", group[0].store, err)
	}
	for n, rep := range all {
		for _, r := range group {
			if err := ctx.Err(); err != nil {
				return err
			}
			x, err := b.one(ctx, r, n+1, dir)
			if err != nil {
				return fmt.Errorf("repetition %d: row %s: %w", n+1, r.name, err)
			}
			rep[r.name] = x
		}
	}
	return nil
}

// one runs a row.
func (b *bench) one(ctx context.Context, r row, n int, dir string) (report.Figures, error) {
	b.sync()
	before, err := b.memory()
	if err != nil {
		return nil, err
	}
	x := report.Figures{}
	start := time.Now()
	if r.java {
		err = b.java(ctx, r, filepath.Join(dir, "store"), filepath.Join(dir, "home"), x)
	} else {
		x, err = b.child(ctx, r, filepath.Join(dir, "store"))
	}
	if err != nil {
		return nil, err
	}
	took := time.Since(start)
	after, err := b.memory()
	if err != nil {
		return nil, err
	}
	x[report.CopyPerSecond] = (before.CopyPerSecond + after.CopyPerSecond) / 2
	fmt.Fprintf(b.w, "%d %-12s %s; M %.1f, %.1f million/s; %.1f s\n", n, r.name, x, before.CopyPerSecond/1e6, after.CopyPerSecond/1e6, took.Seconds())
	return x, calibrate.AppendJSON(b.out, record{Time: time.Now().UTC(), Repetition: n, Row: r.name, MemoryBefore: &before, MemoryAfter: &after, Figures: x})
}

func (b *bench) runJava(ctx context.Context, r row, root, home string, x report.Figures) error {
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	j := load.Java{ClassPath: b.classPath, Home: home, Engine: r.engine}
	return j.Read(ctx, root, r.messages, b.sizes.Samples, x)
}

// runRow is the other side of report.Own.
func runRow(ctx context.Context, w io.Writer, name, given, dir string) error {
	var s sizes
	if err := json.Unmarshal([]byte(given), &s); err != nil {
		return fmt.Errorf("-sizes: %w", err)
	}
	all := rows(s)
	i := slices.IndexFunc(all, func(r row) bool { return r.name == name && !r.java })
	if i < 0 {
		return fmt.Errorf("no row %q", name)
	}
	x := report.Figures{}
	if err := all[i].measure(ctx, all[i], s, dir, x); err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(x)
}
