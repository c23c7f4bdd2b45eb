package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/process"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

// Limits of what puts may lose while a side is filled, as parts of what they are beside a store that has both sides whole; see docs/benchmarks.md.
const (
	minPutsBesidePaced     = 0.90
	minPutsBesideUnlimited = 0.75
	maxPutP99Beside        = 2
)

// The rows. Each puts messages, one at a time, as fast as it goes, into a store that writes both sides.
const (
	putIdle      = "put_idle"                      // both sides are whole
	putPaced     = "put_beside_backfill_default"   // RocksDB is filled from the log, at the pace that is the default
	putUnlimited = "put_beside_backfill_unlimited" // the same without a bound
)

// putBody is the length of the messages that are put, as of those in the store.
const putBody = 200

// beside measures what a backfill in a running store costs those who put. Its store is one of its own, as it grows, and is removed in the end.
func (b *bench) beside(ctx context.Context) (missed int, err error) {
	root := filepath.Join(b.dir, "store-online")
	if err := os.RemoveAll(root); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	if err := b.generateAt(root, b.messages, 8, max(b.queues/8, 1), putBody); err != nil {
		return 0, err
	}
	var all []report.Repetition
	for i := range b.reps {
		rep := report.Repetition{}
		for _, row := range []string{putIdle, putPaced, putUnlimited} {
			x, err := b.putRow(ctx, root, row)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", row, err)
			}
			fmt.Printf("run %d: %s: %s\n", i+1, row, x)
			rep[row] = x
		}
		all = append(all, rep)
		if err := calibrate.AppendJSON(b.out, struct {
			Time time.Time         `json:"time"`
			Rows report.Repetition `json:"rows"`
		}{time.Now().UTC(), rep}); err != nil {
			return 0, err
		}
	}
	report.Table(os.Stdout, []string{putIdle, putPaced, putUnlimited}, all)
	of := func(row, figure string) report.Value {
		return report.Of(report.Fig(row, figure), report.Fig(putIdle, figure))
	}
	return report.PrintRatios(os.Stdout, []report.Ratio[report.Repetition]{
		report.AtLeast(putPaced+"_of_idle", minPutsBesidePaced, of(putPaced, "putsPerSecond")),
		report.AtLeast(putUnlimited+"_of_idle", minPutsBesideUnlimited, of(putUnlimited, "putsPerSecond")),
		report.AtMost(putPaced+"_p99_of_idle", maxPutP99Beside, of(putPaced, "p99Micros")),
		report.AtMost(putUnlimited+"_p99_of_idle", maxPutP99Beside, of(putUnlimited, "p99Micros")),
	}, all), nil
}

// putRow opens the store as the row wants it, puts, and leaves it with both sides whole.
func (b *bench) putRow(ctx context.Context, root, row string) (x report.Figures, err error) {
	o := store.DefaultOptions()
	o.CleanFileForciblyEnable, o.RocksdbCQDoubleWriteEnable, o.UseSeparateStorePathForRocksdbCQ = false, true, true
	if row != putIdle {
		if err := os.RemoveAll(filepath.Join(root, "consumequeue_rocksdb")); err != nil {
			return nil, err
		}
	}
	if row == putUnlimited {
		o.BackfillBytesPerSec, o.BackfillPutLatency = 0, 0
	}
	s, err := store.Open(root, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if row == putIdle {
		if err := awaitFilled(ctx, s); err != nil { // of the first row: everything
			return nil, err
		}
		if err := awaitIdle(ctx); err != nil {
			return nil, err
		}
	}
	p := load.NewProducer(s, b.queues, putBody)
	took := calibrate.NewLatency()
	begin, from := time.Now(), filledTo(s)
	for at := begin; p.Next < b.puts; {
		if err := p.Put(ctx); err != nil {
			return nil, err
		}
		now := time.Now()
		took.Record(now.Sub(at))
		at = now
	}
	elapsed, to := time.Since(begin), filledTo(s)
	sum := took.Summary()
	x = report.Figures{
		"putsPerSecond": float64(b.puts) / elapsed.Seconds(), "p50Micros": float64(sum.P50) / 1e3, "p99Micros": float64(sum.P99) / 1e3, "p999Micros": float64(sum.P999) / 1e3,
	}
	if row == putIdle {
		return x, nil
	}
	if to < 0 {
		return nil, fmt.Errorf("the side was filled before the last of %d messages was put: have more -messages, or fewer -puts", b.puts)
	}
	x["filledMiBPerSecond"] = float64(to-from) / (1 << 20) / elapsed.Seconds()
	s.SetBackfillPace(0, 0)
	return x, awaitFilled(ctx, s)
}

// filledTo is up to where in the log the RocksDB side is filled; -1 when nothing is left to be filled.
func filledTo(s *store.Store) int64 {
	sides, err := s.SideStates()
	if f := sides[cq.KindRocks].Filling; err == nil && f != nil {
		return f.Done
	}
	return -1
}

// awaitFilled returns when both sides have what was put.
func awaitFilled(ctx context.Context, s *store.Store) error {
	for ctx.Err() == nil {
		sides, err := s.SideStates()
		if err != nil {
			return err
		}
		whole := true
		for _, side := range sides {
			if side.Failure != nil {
				return fmt.Errorf("the %s side: %w", side.Kind, side.Failure)
			}
			whole = whole && side.Whole()
		}
		if whole {
			return load.AwaitBuilt(ctx, s)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ctx.Err()
}

// awaitIdle returns when this process, RocksDB's threads among others, does next to nothing.
func awaitIdle(ctx context.Context) error {
	const (
		step  = 500 * time.Millisecond
		least = 50 * time.Millisecond // of processor time
	)
	before, err := process.Self().CPU()
	for err == nil && ctx.Err() == nil {
		time.Sleep(step)
		var now time.Duration
		if now, err = process.Self().CPU(); now-before < least {
			break
		}
		before = now
	}
	return errors.Join(err, ctx.Err())
}
