// Command cq measures consume queues: the engines alone (files, RocksDB, both), a store with each of them, and how all of it grows with the number of queues; beside the
// RocketMQ 5.5.0 store and the bare speed of the machine. It calibrates memory between any two rows and prints medians, the spread, and one RATIO line for each limit.
//
// Each row of ours is a process of its own (this program, with -row), so that its memory and what it wrote to disk are its own.
//
//	go run ./bench/cq -dir DIR
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
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

func main() { report.Main("bench-cq", run) }

// memoryTime is how long each of the two rates of a memory calibration is measured.
const memoryTime = 200 * time.Millisecond

// bench is one run of the program.
type bench struct {
	w         io.Writer
	dir, out  string
	classPath string // of the Java programs; "" without them
	profile   string
	sizes     sizes
	reps      int
	rows      []row
	curve     map[engine]time.Duration // what the last point took
	memory    func() (calibrate.Copy, error)
	sync      func()                                                        // writes back what the whole machine has
	child     func(ctx context.Context, r row, dir string) (figures, error) // runs a row of ours in a process of its own
}

func run(ctx context.Context, args []string, w io.Writer) error {
	b := bench{w: w, profile: "default"}
	f := flag.NewFlagSet("bench-cq", flag.ContinueOnError)
	f.StringVar(&b.dir, "dir", "", "directory on the filesystem to measure; needs 15 GB, 60 GB with -full; nothing stays in it")
	f.StringVar(&b.out, "out", "", "file to append the raw results to, one JSON object a line")
	f.IntVar(&b.reps, "reps", 0, "repetitions; 0: those of the profile")
	only := f.String("only", "", "run the rows whose names match this regular expression alone")
	withJava := f.Bool("java", true, "measure the RocketMQ store too (needs a JDK and Maven: scripts/setup.sh java)")
	quick := f.Bool("quick", false, "small sizes, one repetition: at most three minutes on a quiet machine")
	full := f.Bool("full", false, "also 10 million messages and a million queues")
	strict := f.Bool("strict", false, "fail when a limit is missed")
	soak := f.Duration("soak", 0, "instead of the rows: put, read and open again for this long, and watch the memory")
	name := f.String("row", "", "measure this row alone, in this process, and print its figures as JSON")
	given := f.String("sizes", "", "sizes of the row, as JSON")
	if err := f.Parse(args); err != nil {
		return err
	}
	if b.dir == "" {
		return errors.New("-dir is missing")
	}
	switch {
	case *quick:
		b.profile = "quick"
	case *full:
		b.profile = "full"
	}
	b.sizes = profiles[b.profile]
	if *name != "" {
		return runRow(ctx, w, *name, *given, b.dir)
	}
	if *soak > 0 {
		return runSoak(ctx, w, b.dir, b.out, *soak, soakStep)
	}
	pick, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if b.reps == 0 {
		b.reps = map[string]int{"quick": 1, "default": 3, "full": 3}[b.profile]
	}
	if *withJava {
		if b.classPath, err = java.Build(ctx); err != nil {
			return err
		}
	}
	b.rows = chosen(rows(b.sizes), pick, *withJava)
	b.memory = func() (calibrate.Copy, error) { return calibrate.Memory(b.dir, memoryTime) }
	b.sync = syscall.Sync
	b.child = func(ctx context.Context, r row, dir string) (figures, error) {
		return report.Own(ctx, r.name, b.sizes, dir)
	}
	missed, err := b.run(ctx)
	if err == nil && *strict && missed > 0 {
		err = fmt.Errorf("%d limits are missed", missed)
	}
	return err
}

// record is a line of the raw results.
type record struct {
	Time         time.Time       `json:"time"`
	Profile      string          `json:"profile"`
	Repetition   int             `json:"repetition"`
	Row          string          `json:"row"`
	Queues       int             `json:"queues,omitempty"`
	MemoryBefore *calibrate.Copy `json:"memoryBefore,omitempty"`
	MemoryAfter  *calibrate.Copy `json:"memoryAfter,omitempty"`
	Figures      figures         `json:"figures,omitempty"`
	Machine      any             `json:"machine,omitempty"`
	Sizes        *sizes          `json:"sizes,omitempty"`
}

// run returns how many limits are missed.
func (b *bench) run(ctx context.Context) (missed int, err error) {
	m := calibrate.Machine(ctx, b.dir, "")
	fmt.Fprintln(b.w, m)
	if err := calibrate.AppendJSON(b.out, record{Time: time.Now().UTC(), Profile: b.profile, Row: "machine", Machine: m, Sizes: &b.sizes}); err != nil {
		return 0, err
	}
	b.curve = map[engine]time.Duration{}
	var all []repetition
	for n := range b.reps {
		rep, err := b.repeat(ctx, n+1)
		if err != nil {
			return 0, fmt.Errorf("repetition %d: %w", n+1, err)
		}
		all = append(all, rep)
	}
	names := make([]string, len(b.rows))
	for i, r := range b.rows {
		names[i] = r.name
	}
	report.Table(b.w, names, all)
	return printRatios(b.w, all), nil
}

// repeat runs every row once, those that are run once alone in the first repetition only.
func (b *bench) repeat(ctx context.Context, n int) (repetition, error) {
	rep := repetition{}
	for _, r := range b.rows {
		if r.once && n > 1 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if b.tooLong(r) {
			fmt.Fprintf(b.w, "no row %s: the one before took %.0f s\n", r.name, b.curve[r.engine].Seconds())
			continue
		}
		b.sync()
		before, err := b.memory()
		if err != nil {
			return nil, err
		}
		start := time.Now()
		x, err := b.measure(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("row %s: %w", r.name, err)
		}
		took := time.Since(start)
		if r.curve {
			b.curve[r.engine] = took
		}
		after, err := b.memory()
		if err != nil {
			return nil, err
		}
		x[report.CopyPerSecond] = (before.CopyPerSecond + after.CopyPerSecond) / 2
		rep[r.name] = x
		fmt.Fprintf(b.w, "%d %-22s %s; M %.1f, %.1f million/s; %.1f s\n", n, r.name, x, before.CopyPerSecond/1e6, after.CopyPerSecond/1e6, took.Seconds())
		if err := calibrate.AppendJSON(b.out, record{
			Time: time.Now().UTC(), Profile: b.profile, Repetition: n, Row: r.name, Queues: r.queues, MemoryBefore: &before, MemoryAfter: &after, Figures: x,
		}); err != nil {
			return nil, err
		}
	}
	return rep, nil
}

// tooLong tells whether a point of a curve is left out, as the one before, of a tenth of its queues, took so long.
func (b *bench) tooLong(r row) bool { return r.curve && 10*b.curve[r.engine] > b.sizes.Point }

// measure runs a row in a directory of its own.
func (b *bench) measure(ctx context.Context, r row) (x figures, err error) {
	dir, err := os.MkdirTemp(b.dir, "bench-cq-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if r.java {
		return measureJava(ctx, b.classPath, r, b.sizes, dir)
	}
	return b.child(ctx, r, dir)
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
	x, err := all[i].measure(ctx, all[i], s, filepath.Join(dir, "row"))
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(x)
}
