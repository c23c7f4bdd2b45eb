// Command dispatch measures how fast queues and index are built from the log, how fast a store opens again, and what it costs when nothing happens; beside
// the RocketMQ 5.5.0 store on the same directories and the bare speed of the machine. It makes its sample stores once, runs all rows in each repetition with a
// calibration between any two, and prints medians, the spread, and one RATIO line for each limit.
//
//	go run ./bench/dispatch -dir DIR
package main

import (
	"context"
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
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	b := bench{w: os.Stdout}
	only, strict, full := "", false, false
	flag.StringVar(&b.dir, "dir", "", "directory on the filesystem to measure, where sample stores are kept; needs 25 GB for the default sizes, 40 GB with -full")
	flag.StringVar(&b.out, "out", "", "file to append the raw results to, one JSON object a line")
	flag.IntVar(&b.sizes.messages, "messages", 1_000_000, "messages of 1 KiB in the log over 8 queues")
	flag.IntVar(&b.sizes.manyMessages, "many-messages", 300_000, "messages of the logs over 1,000 and 100,000 queues")
	flag.Int64Var(&b.sizes.restartBytes, "restart-bytes", 3<<30, "log of the store of 100,000 queues that is opened again")
	flag.DurationVar(&b.sizes.idle, "idle", 20*time.Second, "time of the idle row")
	flag.DurationVar(&b.sizes.lag, "lag", 20*time.Second, "time of the row at full put rate")
	flag.IntVar(&b.reps, "reps", 3, "repetitions")
	flag.StringVar(&only, "only", "", "run the rows whose names match this regular expression alone")
	withJava := flag.Bool("java", true, "measure the RocketMQ store too (needs a JDK and Maven: scripts/setup.sh java)")
	flag.BoolVar(&full, "full", false, "the sizes of the limits: 10 GiB for the restart, 60 s at full put rate")
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
		if full {
			b.sizes.restartBytes, b.sizes.lag = 10<<30, time.Minute
		}
		if *withJava {
			if b.classPath, err = java.Build(ctx); err != nil {
				return 0, err
			}
		}
		b.rows = chosen(rows(), pick, *withJava)
		b.memory = func() (calibrate.Copy, error) { return calibrate.Memory(b.dir, memoryTime) }
		b.sync = syscall.Sync
		return b.run(ctx)
	}()
	stop()
	if err == nil && strict && missed > 0 {
		err = fmt.Errorf("%d limits are missed", missed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-dispatch:", err)
		os.Exit(1)
	}
}

// memoryTime is how long each of the two rates of a memory calibration is measured.
const memoryTime = 200 * time.Millisecond

// sizes of the rows.
type sizes struct {
	messages, manyMessages int
	restartBytes           int64
	idle, lag              time.Duration
}

// bench is one run of the program.
type bench struct {
	w         io.Writer
	dir, out  string
	classPath string // of the Java programs; "" without them
	sizes     sizes
	reps      int
	rows      []row
	memory    func() (calibrate.Copy, error)
	sync      func() // writes back what the whole machine has
}

// record is a line of the raw results.
type record struct {
	Time         time.Time       `json:"time"`
	Repetition   int             `json:"repetition"`
	Row          string          `json:"row"`
	MemoryBefore *calibrate.Copy `json:"memoryBefore,omitempty"`
	MemoryAfter  *calibrate.Copy `json:"memoryAfter,omitempty"`
	Raw          any             `json:"raw"`
}

// run returns how many limits are missed.
func (b *bench) run(ctx context.Context) (missed int, err error) {
	stores := filepath.Join(b.dir, "dispatch")
	if err := os.MkdirAll(stores, 0o755); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Join(stores, wiped))) }()
	m := calibrate.Machine(ctx, b.dir, "")
	fmt.Fprintln(b.w, m)
	if err := calibrate.AppendJSON(b.out, record{Time: time.Now().UTC(), Row: "machine", Raw: m}); err != nil {
		return 0, err
	}
	s := &samples{dir: stores, sizes: b.sizes, w: b.w}
	var all []repetition
	for n := range b.reps {
		rep, err := b.repeat(ctx, n+1, s)
		if err != nil {
			return 0, fmt.Errorf("repetition %d: %w", n+1, err)
		}
		all = append(all, rep)
	}
	table(b.w, b.rows, all)
	return report.PrintRatios(b.w, ratios(), all), nil
}

// repeat runs every row once.
func (b *bench) repeat(ctx context.Context, n int, s *samples) (repetition, error) {
	rep := repetition{}
	for _, r := range b.rows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		root, err := s.store(ctx, r.shape)
		if err != nil {
			return nil, err
		}
		b.sync()
		before, err := b.memory()
		if err != nil {
			return nil, err
		}
		res, err := r.measure(ctx, b, r, root)
		if err != nil {
			return nil, fmt.Errorf("row %s: %w", r.name, err)
		}
		after, err := b.memory()
		if err != nil {
			return nil, err
		}
		res.CopyPerSecond = (before.CopyPerSecond + after.CopyPerSecond) / 2
		rep[r.name] = res
		fmt.Fprintf(b.w, "%d %-22s %s; M %.1f, %.1f million/s\n", n, r.name, res, before.CopyPerSecond/1e6, after.CopyPerSecond/1e6)
		if err := calibrate.AppendJSON(b.out, record{time.Now().UTC(), n, r.name, &before, &after, res}); err != nil {
			return nil, err
		}
	}
	return rep, nil
}
