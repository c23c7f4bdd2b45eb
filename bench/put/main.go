// Command put measures how fast `tandemmq bench put` stores messages, beside the RocketMQ 5.5.0 store on the same
// filesystem and the bare speed of the machine. It runs the real binary and the Java program of tests/interop/java in fresh
// directories, row after row and all rows in each repetition, with a calibration between any two, and prints medians, the
// spread, and one RATIO line for each limit.
//
//	go run ./bench/put -bin bin/tandemmq -dir DIR
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	b := bench{w: os.Stdout, sync: syscall.Sync}
	only, strict := "", false
	flag.StringVar(&b.bin, "bin", "bin/tandemmq", "the binary to measure")
	flag.StringVar(&b.dir, "dir", "", "directory on the filesystem to measure; needs 16 GB for the default sizes")
	flag.StringVar(&b.out, "out", "", "file to append the raw results to, one JSON object a line")
	flag.Int64Var(&b.sizes.messages, "messages", 1_000_000, "messages of the asynchronous rows")
	flag.Int64Var(&b.sizes.big, "big", 10_000_000, "messages of the large asynchronous row")
	flag.DurationVar(&b.sizes.duration, "duration", 4*time.Second, "time of each synchronous row")
	flag.DurationVar(&b.sizes.bare, "bare", 3*time.Second, "time of each bare append-and-fdatasync")
	flag.Int64Var(&b.sizes.writeBack, "writeback", 2<<30, "bytes written to measure the write-back rate")
	flag.IntVar(&b.reps, "reps", 5, "repetitions")
	flag.StringVar(&only, "only", "", "run the rows whose names match this regular expression alone")
	withJava := flag.Bool("java", true, "measure the RocketMQ store too (needs a JDK and Maven: scripts/setup.sh java)")
	withInfo := flag.Bool("info", true, "measure the other write modes and locks too")
	flag.BoolVar(&strict, "strict", false, "fail when a limit is missed")
	flag.Parse()
	missed, err := func() (int, error) {
		pick, err := regexp.Compile(only)
		if err != nil {
			return 0, fmt.Errorf("-only: %w", err)
		}
		if b.dir == "" || b.reps < 1 {
			return 0, errors.New("-dir is missing, or -reps is below 1")
		}
		b.rows = chosen(rows(b.sizes), pick, *withJava, *withInfo)
		b.memory = func() (calibrate.Copy, error) { return calibrate.Memory(b.dir, memoryTime) }
		b.measure, err = measurers(ctx, &b, *withJava)
		if err != nil {
			return 0, err
		}
		return b.run(ctx)
	}()
	stop()
	if err == nil && strict && missed > 0 {
		err = fmt.Errorf("%d limits are missed", missed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-put:", err)
		os.Exit(1)
	}
}

// memoryTime is how long each of the two rates of a memory calibration is measured.
const memoryTime = 200 * time.Millisecond

// sizes of the rows.
type sizes struct {
	messages, big  int64
	duration, bare time.Duration
	writeBack      int64
}

// bench is one run of the program.
type bench struct {
	w             io.Writer
	bin, dir, out string
	sizes         sizes
	reps          int
	rows          []row

	sync    func() // writes back what the whole machine has
	memory  func() (calibrate.Copy, error)
	measure map[kind]func(ctx context.Context, r row, dir string) (result, error)
}

// record is a line of the raw results.
type record struct {
	Time         time.Time       `json:"time"`
	Repetition   int             `json:"repetition"`
	Row          string          `json:"row"`
	MemoryBefore *calibrate.Copy `json:"memoryBefore,omitempty"`
	MemoryAfter  *calibrate.Copy `json:"memoryAfter,omitempty"`
	Raw          json.RawMessage `json:"raw"`
}

// run returns how many limits are missed.
func (b *bench) run(ctx context.Context) (missed int, err error) {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return 0, err
	}
	work, err := os.MkdirTemp(b.dir, "bench-put-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()

	m := calibrate.Machine(ctx, b.dir, b.bin)
	fmt.Fprintln(b.w, m)
	raw, err := json.Marshal(m)
	if err != nil {
		return 0, err
	}
	if err := b.keep(record{Time: time.Now().UTC(), Row: "machine", Raw: raw}); err != nil {
		return 0, err
	}
	var all []repetition
	for n := range b.reps {
		rep, err := b.repeat(ctx, n+1, work)
		if err != nil {
			return 0, fmt.Errorf("repetition %d: %w", n+1, err)
		}
		all = append(all, rep)
	}
	table(b.w, b.rows, all)
	return printRatios(b.w, all, b.sizes), nil
}

// repeat runs every row once.
func (b *bench) repeat(ctx context.Context, n int, work string) (repetition, error) {
	rep := repetition{}
	before, err := b.memory()
	if err != nil {
		return nil, err
	}
	for i, r := range b.rows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b.sync()
		dir := filepath.Join(work, fmt.Sprintf("%d-%d", n, i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		res, err := b.measure[r.kind](ctx, r, dir)
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return nil, fmt.Errorf("row %s: %w", r.name, err)
		}
		b.sync()
		after, err := b.memory()
		if err != nil {
			return nil, err
		}
		res.copyPerSecond = (before.CopyPerSecond + after.CopyPerSecond) / 2
		res.copyCRCNanos = (before.CopyCRCNanos + after.CopyCRCNanos) / 2
		res.populateNanos = (before.PopulateNanos + after.PopulateNanos) / 2
		rep[r.name] = res
		fmt.Fprintf(b.w, "%d %-22s %s; M %.1f, %.1f million/s\n", n, r.name, res.text(r.kind), before.CopyPerSecond/1e6, after.CopyPerSecond/1e6)
		if err := b.keep(record{time.Now().UTC(), n, r.name, &before, &after, res.raw}); err != nil {
			return nil, err
		}
		before = after
	}
	return rep, nil
}

// keep appends a raw result.
func (b *bench) keep(r record) error { return calibrate.AppendJSON(b.out, r) }
