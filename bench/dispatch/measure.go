package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

func options(r row) *store.Options {
	o := load.Options(load.FileQueues)
	o.StoreType, o.MessageIndexEnable, o.RocksdbCQDoubleWriteEnable = r.kind, r.index, r.both
	return &o
}

// catchUp measures how fast the views are built that are not there: the queues, and behind them the index if the row has one.
func catchUp(ctx context.Context, b *bench, r row, root string) (result, error) {
	if err := wipe(root, false); err != nil {
		return result{}, err
	}
	messages := b.sizes.messages
	if r.shape != eight {
		messages = b.sizes.manyMessages
	}
	took, err := load.CatchUp(ctx, root, options(r))
	if err != nil {
		return result{}, err
	}
	return result{PerSecond: float64(messages) / took.Seconds()}, wipe(root, false)
}

// open opens a store and waits until everything is at the end of the log.
func open(ctx context.Context, root string, o *store.Options) (result, error) {
	opened, ready, err := load.Open(ctx, root, *o, nil)
	return result{Millis: millis(ready), OpenMillis: millis(opened)}, err
}

// behind returns how many bytes the view has to go that is furthest behind.
func behind(s *store.Store) (n int64) {
	n, _ = load.Behind(s)
	return n
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// rebuild opens a store that was not left in order and has lost its queues and its index.
func rebuild(ctx context.Context, _ *bench, r row, root string) (result, error) {
	if err := wipe(root, true); err != nil {
		return result{}, err
	}
	return open(ctx, root, options(r))
}

func javaRebuild(ctx context.Context, b *bench, r row, root string) (result, error) {
	if err := wipe(root, true); err != nil {
		return result{}, err
	}
	x, err := runJava(ctx, b, r, root)
	if err == nil && x.Java.Messages != int64(b.sizes.messages) {
		err = fmt.Errorf("StoreOpen found %d messages in the queues, want %d", x.Java.Messages, b.sizes.messages)
	}
	return x, errors.Join(err, wipe(root, false))
}

// lose makes of a store with queues what a crash of the machine leaves: the abort mark, no checkpoint, nothing in memory.
func lose(root string) error {
	if err := load.Lose(root); err != nil {
		return err
	}
	files, err := logFiles(root)
	if err != nil {
		return err
	}
	return calibrate.DropCache(files)
}

// crash opens a store that has its queues and its index, but not the checkpoint that says how far they are good.
func crash(ctx context.Context, _ *bench, r row, root string) (result, error) {
	if err := wipe(root, false); err != nil {
		return result{}, err
	}
	if _, err := open(ctx, root, options(r)); err != nil {
		return result{}, err
	}
	if err := lose(root); err != nil {
		return result{}, err
	}
	return open(ctx, root, options(r))
}

func javaCrash(ctx context.Context, b *bench, r row, root string) (result, error) {
	if err := lose(root); err != nil { // what the row before has left
		return result{}, err
	}
	x, err := runJava(ctx, b, r, root)
	return x, errors.Join(err, wipe(root, false))
}

// reopen opens a store that the same program closed: what the other one left, such as a checkpoint without our trailer, is another
// matter. So it is opened twice, and the second time counts.
func reopen(ctx context.Context, _ *bench, r row, root string) (result, error) {
	if _, err := open(ctx, root, options(r)); err != nil {
		return result{}, err
	}
	return open(ctx, root, options(r))
}

func javaReopen(ctx context.Context, b *bench, r row, root string) (result, error) {
	if _, err := runJava(ctx, b, r, root); err != nil {
		return result{}, err
	}
	return runJava(ctx, b, r, root)
}

// sequentialRead reads the log from the disk.
func sequentialRead(_ context.Context, _ *bench, _ row, root string) (result, error) {
	files, err := logFiles(root)
	if err != nil {
		return result{}, err
	}
	if err := calibrate.DropCache(files); err != nil {
		return result{}, err
	}
	rate, err := calibrate.SequentialRead(files)
	return result{BytesPerSecond: rate}, err
}

// scan reads and verifies the log from the disk, as recovery does that knows nothing of it.
func scan(ctx context.Context, _ *bench, r row, root string) (result, error) {
	files, err := logFiles(root)
	if err != nil {
		return result{}, err
	}
	if err := calibrate.DropCache(files); err != nil {
		return result{}, err
	}
	took, n, err := load.Scan(ctx, root, options(r))
	return result{BytesPerSecond: float64(n) / took.Seconds()}, err
}

// idle measures what an open store costs that nobody uses.
func idle(ctx context.Context, b *bench, r row, _ string) (x result, err error) {
	err = withStore(b, r, func(s *store.Store) error {
		for i := range 1000 {
			if err := put(ctx, s, i, bodyBytes); err != nil {
				return err
			}
		}
		time.Sleep(2 * time.Second) // what the puts left to do is done
		before, start := cpu(), time.Now()
		select {
		case <-time.After(b.sizes.idle):
		case <-ctx.Done():
		}
		x.CPUShare = (cpu() - before).Seconds() / time.Since(start).Seconds()
		return ctx.Err()
	})
	return x, err
}

// cpu returns the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// withStore uses a new store.
func withStore(b *bench, r row, use func(*store.Store) error) (err error) {
	dir, err := os.MkdirTemp(b.dir, "bench-dispatch-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := store.Open(filepath.Join(dir, "store"), *options(r))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return use(s)
}

func put(ctx context.Context, s *store.Store, i, body int) error {
	m := newMessage(body)
	m.Topic, m.QueueID = topicName(0), int32(i%8)
	m.Properties = appendKeys(nil, i)
	r, err := s.Put(ctx, m)
	if err == nil && r.Status != store.PutOK {
		err = fmt.Errorf("message %d: %s", i, r.Status.String())
	}
	return err
}

// lagBody is the body of the messages at full put rate: small, so that it is dispatch that has to keep up, and not the disk.
const lagBody = 64

// lag puts as fast as it can, and looks each second at how far the views are behind.
func lag(ctx context.Context, b *bench, r row, _ string) (x result, err error) {
	err = withStore(b, r, func(s *store.Store) error {
		start, next, n := time.Now(), time.Second, 0
		for time.Since(start) < b.sizes.lag {
			for range 256 {
				if err := put(ctx, s, n, lagBody); err != nil {
					return err
				}
				n++
			}
			if time.Since(start) >= next {
				x.LagBytes = append(x.LagBytes, behind(s))
				next += time.Second
			}
		}
		took := time.Since(start).Seconds()
		x.PerSecond = float64(n) / took
		x.Slope = report.Slope(x.LagBytes) / (float64(s.Positions().Wrote) / took)
		return nil
	})
	return x, err
}

// javaOpen is what StoreOpen prints.
type javaOpen struct {
	Java                                 string
	LoadMillis, StartMillis, ReadyMillis float64
	Queues, Messages                     int64
}

// javaHeap of the RocketMQ store: fixed, so that its growth is no part of the measurement.
const javaHeap = "2g"

// runJava opens the store at root with RocketMQ.
func runJava(ctx context.Context, b *bench, r row, root string) (result, error) {
	home, err := os.MkdirTemp(b.dir, "bench-dispatch-")
	if err != nil {
		return result{}, err
	}
	kind := "file"
	if r.kind == store.StoreTypeRocksDB {
		kind = "rocks"
	}
	out, err := output(java.Command(ctx, b.classPath, home, []string{"-Xms" + javaHeap, "-Xmx" + javaHeap}, "StoreOpen", root, kind))
	if err := errors.Join(err, os.RemoveAll(home)); err != nil {
		return result{}, err
	}
	return parseJava(out)
}

func parseJava(out []byte) (result, error) {
	for line := range bytes.Lines(out) {
		if !bytes.HasPrefix(line, []byte(`{"t":"open"`)) {
			continue // the store prints a line of its own here and there
		}
		j := new(javaOpen)
		if err := json.Unmarshal(line, j); err != nil {
			return result{}, fmt.Errorf("StoreOpen: %w", err)
		}
		return result{Millis: j.ReadyMillis, OpenMillis: j.LoadMillis + j.StartMillis, Java: j}, nil
	}
	return result{}, fmt.Errorf("StoreOpen printed no measurement: %q", out)
}

// output runs the program and returns what it printed; of a program that fails the error tells what it said.
func output(cmd *exec.Cmd) ([]byte, error) {
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		text := errs.Bytes()
		return nil, fmt.Errorf("%s: %w", filepath.Base(cmd.Path), errors.Join(err, errors.New(string(text[max(0, len(text)-2000):]))))
	}
	return out, nil
}
