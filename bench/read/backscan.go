package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/store"
)

const (
	// besidePerSecond is the rate of the puts beside the scan, and besideStep after how many of them is looked whether the scan is done.
	besidePerSecond = 100_000
	besideStep      = besidePerSecond / 10
	// maxBeside bounds one run of puts.
	maxBeside = 4 * time.Minute
)

// backScan measures puts at a fixed rate and a reader that waits for them, while another reads all of the old messages, which are not in memory when it begins; then for as long
// without it. Each repetition puts into topics of its own.
func backScan(ctx context.Context, r row, s sizes, root string, x report.Figures) error {
	if err := dropLog(root); err != nil {
		return err
	}
	return open(ctx, r, root, func(old *load.Producer) error {
		nobody := func(context.Context) error { return nil }
		if err := beside(ctx, old.Store, s.Beside/4, "warm", nobody, report.Figures{}); err != nil {
			return err
		}
		start := time.Now()
		if err := beside(ctx, old.Store, s.Beside, "scanned", func(ctx context.Context) error { return scan(ctx, old, x) }, x); err != nil {
			return err
		}
		return beside(ctx, old.Store, time.Since(start), "alone", nobody, x)
	})
}

// scan reads everything that was put before, queue by queue.
func scan(ctx context.Context, old *load.Producer, x report.Figures) error {
	rd := load.NewReader(old)
	defer rd.Result.Release()
	start, bytes := time.Now(), 0
	for i := range old.Queues {
		k := old.Key(i)
		for offset := int64(0); offset < int64(old.Next/old.Queues); {
			if err := ctx.Err(); err != nil {
				return err
			}
			next, _, err := rd.Get(k, offset, 32)
			if err != nil {
				return err
			}
			bytes, offset = bytes+rd.Result.Bytes, next
		}
	}
	x["scanBytesPerSecond"], x["scanBytes"] = float64(bytes)/time.Since(start).Seconds(), float64(bytes)
	return nil
}

// beside puts at the rate for that long, and until other is done, and follows what is put; the latencies of both are kept under a name.
func beside(ctx context.Context, st *store.Store, least time.Duration, name string, other func(ctx context.Context) error, x report.Figures) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := load.NewProducer(st, queues, load.BodyBytes)
	p.Topics = []string{fmt.Sprintf("%s_%d", name, time.Now().UnixNano())}
	begun := make([]atomic.Int64, int(maxBeside.Seconds()*besidePerSecond)) // when each put began, ns since start
	puts, pulls := calibrate.NewLatency(), calibrate.NewLatency()
	var total atomic.Int64 // how many there are; 0: not known yet
	start := time.Now()
	ready, followed, done := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	go func() {
		rd := load.NewReader(p)
		defer rd.Result.Release()
		more := func(seen int) bool { n := total.Load(); return n == 0 || int64(seen) < n }
		followed <- rd.Follow(ctx, func() { close(ready) }, more, func(n int) {
			if at := begun[n].Load(); at > 0 {
				pulls.Record(time.Since(start) - time.Duration(at))
			}
		})
	}()
	select {
	case <-ready:
	case err := <-followed:
		return err
	}
	go func() { done <- other(ctx) }()
	for waiting := true; waiting || time.Since(start) < least; {
		if p.Next+besideStep >= len(begun) {
			return fmt.Errorf("what runs beside puts is not done after %v", maxBeside)
		}
		if err := p.Pace(ctx, p.Next+besideStep, besidePerSecond, start, begun, puts.Record); err != nil {
			return err
		}
		select {
		case err := <-done:
			if waiting = false; err != nil {
				return err
			}
		case err := <-followed:
			return fmt.Errorf("who follows has stopped: %w", err)
		default:
		}
	}
	took := time.Since(start)
	x[name+"PutPerSecond"] = float64(p.Next) / took.Seconds()
	total.Store(int64(p.Next))
	if err := errors.Join(p.Put(ctx), <-followed); err != nil { // one more, so that who follows looks up
		return err
	}
	put, pull := puts.Summary(), pulls.Summary()
	x[name+"PutP50Micros"], x[name+"PutP99Micros"] = micros(put.P50), micros(put.P99)
	x[name+"PullP50Micros"], x[name+"PullP99Micros"] = micros(pull.P50), micros(pull.P99)
	return errors.Join(load.AwaitBuilt(ctx, st), p.Check())
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
