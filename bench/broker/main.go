// Command broker measures the broker over loopback, beside RocketMQ's 5.5.0 and beside a server that does nothing but answer. One load generator (package load) drives all three, each a process of
// its own; what is compared runs side by side in each repetition. It checks after each row that every message is there, once and in its place, and prints medians, the spread, and one RATIO line for
// each limit.
//
//	go run ./bench/broker -bin bin/tandemmq -dir DIR
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
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

func main() { report.Main("bench-broker", run) }

// bench is one run of the program.
type bench struct {
	w        io.Writer
	dir, out string
	sizes    sizes
	reps     int
	rows     []row
	sync     func()                            // writes back what the whole machine has
	start    map[impl]starter                  // how each is started
	client   func(namesrv, home string) client // RocketMQ's client
}

// starter starts a server over a directory, which is made if need be.
type starter func(ctx context.Context, dir string) (*server, error)

func run(ctx context.Context, args []string, w io.Writer) error {
	b := bench{w: w, sizes: profiles["default"]}
	f := flag.NewFlagSet("bench-broker", flag.ContinueOnError)
	bin := f.String("bin", "bin/tandemmq", "the binary to measure")
	f.StringVar(&b.dir, "dir", "", "directory on the filesystem to measure; needs 18 GB, 4 GB with -quick; nothing stays in it")
	f.StringVar(&b.out, "out", "", "file to append the raw results to, one JSON object a line")
	f.IntVar(&b.reps, "reps", 0, "repetitions (default: 3, 1 with -quick)")
	only := f.String("only", "", "run the rows whose names match this regular expression alone")
	withJava := f.Bool("java", true, "measure RocketMQ's broker too, and with RocketMQ's client (needs a JDK and Maven: scripts/setup.sh java)")
	quick := f.Bool("quick", false, "small sizes, one repetition")
	startBytes := f.Int64("start-bytes", 0, "log of the store of the row start (default: 10 GiB, 1 GiB with -quick)")
	strict := f.Bool("strict", false, "fail when a limit is missed")
	echo := f.Bool("echo", false, "be the server that answers alone, until standard input ends")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *echo {
		return serveEcho(ctx, w, os.Stdin)
	}
	if b.dir == "" || b.reps < 0 {
		return errors.New("-dir is missing, or -reps is below 0")
	}
	pick, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if *quick {
		b.sizes = profiles["quick"]
	}
	if b.reps == 0 {
		b.reps = b.sizes.Reps
	}
	if *startBytes > 0 {
		b.sizes.StartBytes = *startBytes
	}
	for _, program := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(program); err != nil && *withJava {
			fmt.Fprintf(w, "without RocketMQ's broker and client, and what is compared with them: there is no %s on this machine\n", program)
			*withJava = false
		}
	}
	b.start = map[impl]starter{ours: startOurs(*bin), echoed: startEcho}
	if *withJava {
		brokerPath, err := java.BuildBroker(ctx)
		if err != nil {
			return err
		}
		b.start[javas] = startJava
		b.client = func(namesrv, home string) client { return client{brokerPath, namesrv, home} }
	}
	b.rows = slices.DeleteFunc(rows(), func(r row) bool {
		return !pick.MatchString(r.name()) || b.start[r.of] == nil || r.client && b.client == nil
	})
	b.sync = syscall.Sync
	missed, err := b.run(ctx, *bin)
	if err == nil && *strict && missed > 0 {
		err = fmt.Errorf("%d limits are missed", missed)
	}
	return err
}

// serveEcho serves until in ends.
func serveEcho(ctx context.Context, w io.Writer, in io.Reader) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	fmt.Fprintf(w, "ready listen=%s\n", l.Addr())
	return load.Echo(ctx, l)
}

// record is a line of the raw results.
type record struct {
	Time       time.Time      `json:"time"`
	Repetition int            `json:"repetition"`
	Row        string         `json:"row"`
	Figures    report.Figures `json:"figures,omitempty"`
	Machine    any            `json:"machine,omitempty"`
	Sizes      *sizes         `json:"sizes,omitempty"`
}

// run returns how many limits are missed.
func (b *bench) run(ctx context.Context, bin string) (missed int, err error) {
	m := calibrate.Machine(ctx, b.dir, bin)
	fmt.Fprintln(b.w, m)
	if err := calibrate.AppendJSON(b.out, record{Time: time.Now().UTC(), Row: "machine", Machine: m, Sizes: &b.sizes}); err != nil {
		return 0, err
	}
	if b.dir, err = filepath.Abs(b.dir); err != nil {
		return 0, err
	}
	work, err := os.MkdirTemp(b.dir, "bench-broker-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	var names []string
	for _, r := range b.rows {
		names = append(names, r.name())
	}
	var all []report.Repetition
	for n := range b.reps {
		rep, err := b.repeat(ctx, n+1, work)
		if err != nil {
			return 0, fmt.Errorf("repetition %d: %w", n+1, err)
		}
		all = append(all, rep)
	}
	report.Table(b.w, names, all)
	return report.PrintRatios(b.w, ratios(), all), nil
}

// repeat runs every row once.
func (b *bench) repeat(ctx context.Context, n int, work string) (rep report.Repetition, err error) {
	s := &servers{b: b, dir: filepath.Join(work, "servers"), running: map[impl]*server{}}
	defer func() { err = errors.Join(err, s.close()) }()
	rep = report.Repetition{}
	for _, r := range b.rows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b.sync()
		start := time.Now()
		x, err := b.one(ctx, r, s, work)
		if err != nil {
			return nil, fmt.Errorf("row %s: %w", r.name(), err)
		}
		rep[r.name()] = x
		fmt.Fprintf(b.w, "%d %-16s %s; %.1f s\n", n, r.name(), x, time.Since(start).Seconds())
		if err := calibrate.AppendJSON(b.out, record{Time: time.Now().UTC(), Repetition: n, Row: r.name(), Figures: x}); err != nil {
			return nil, err
		}
	}
	return rep, nil
}

// one runs a row.
func (b *bench) one(ctx context.Context, r row, s *servers, work string) (report.Figures, error) {
	j := job{b: b, row: r, sizes: b.sizes, work: work, x: report.Figures{}}
	if !r.alone {
		var err error
		if j.server, err = s.get(ctx, r.of); err != nil {
			return nil, err
		}
	}
	return j.x, r.measure(ctx, &j)
}
