package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tandemq/tandemmq/bench/process"
	"github.com/tandemq/tandemmq/cq"
)

// flushEvery is after how many units the written rows make them durable: a broker does so about once a second.
const flushEvery = 250_000

// written measures what is written to disk for a unit, and what is kept of it.
func written(ctx context.Context, r row, s sizes, dir string) (figures, error) {
	x := figures{}
	before, err := process.Self().WrittenBytes()
	if err != nil {
		return nil, err
	}
	err = withQueues(r.engine, dir, func(q cq.Store) error {
		f := filler{s: q, keys: keysOf(r.queues)}
		for f.next < int64(s.Units) {
			if err := errors.Join(f.append(ctx, min(flushEvery, s.Units-int(f.next))), q.Flush(ctx)); err != nil {
				return err
			}
		}
		return checkQueues(q, f.keys, int64(s.Units))
	})
	if err != nil {
		return nil, err
	}
	after, err := process.Self().WrittenBytes()
	if err != nil {
		return nil, err
	}
	x["writtenBytes"] = float64(after-before) / float64(s.Units)
	if r.engine == rocksQueues {
		if err := withQueues(r.engine, dir, func(q cq.Store) error { return compact(ctx, q) }); err != nil {
			return nil, err
		}
		after, err := process.Self().WrittenBytes()
		if err != nil {
			return nil, err
		}
		x["writtenAndCompactedBytes"] = float64(after-before) / float64(s.Units)
	}
	kept, err := process.DiskBytes(dir)
	x["diskBytes"] = float64(kept) / float64(s.Units)
	return x, err
}

// queueUnits is how many units each queue gets in the end.
const queueUnits = 10

// manyQueues measures what a number of queues costs: one unit each, which makes them, then nine more; then they are opened again, the ends of all
// are asked for, and ten units are read of queues at random.
func manyQueues(ctx context.Context, r row, s sizes, dir string) (figures, error) {
	x, keys := figures{}, keysOf(r.queues)
	err := withQueues(r.engine, dir, func(q cq.Store) (err error) {
		f := filler{s: q, keys: keys}
		for _, phase := range []struct {
			name string
			each int
		}{{"make", 1}, {"append", queueUnits - 1}} {
			start := time.Now()
			if err := errors.Join(f.append(ctx, phase.each*r.queues), q.AwaitReadable(ctx)); err != nil {
				return err
			}
			x[phase.name+"PerSecond"] = float64(phase.each*r.queues) / time.Since(start).Seconds()
			if err := q.Flush(ctx); err != nil {
				return err
			}
			if x[phase.name+"MiB"], err = process.OwnAnonMiB(); err != nil {
				return err
			}
			if err := diskOf(x, phase.name+"DiskMiB", dir); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := diskOf(x, "closedDiskMiB", dir); err != nil {
		return nil, err
	}
	start := time.Now()
	err = withQueues(r.engine, dir, func(q cq.Store) (err error) {
		opened := time.Since(start)
		x["openMillis"] = millis(opened)
		if x["openMiB"], err = process.OwnAnonMiB(); err != nil {
			return err
		}
		start = time.Now()
		if _, err := endsOf(q, keys); err != nil {
			return err
		}
		x["endsMillis"] = millis(opened + time.Since(start))
		if x["endsMiB"], err = process.OwnAnonMiB(); err != nil {
			return err
		}
		start = time.Now()
		var units [queueUnits]cq.Unit
		for range s.Reads {
			queue, ok := q.Queue(keys[rand.IntN(len(keys))])
			if !ok {
				return errors.New("a queue is not there")
			}
			if n, err := queue.Read(0, units[:]); err != nil || n != queueUnits {
				return errors.Join(errors.New("a queue lacks units"), err)
			}
		}
		x["readPerSecond"] = float64(s.Reads) / time.Since(start).Seconds()
		if x["readMiB"], err = process.OwnAnonMiB(); err != nil {
			return err
		}
		return checkQueues(q, keys, int64(queueUnits*r.queues))
	})
	return x, err
}

// disk keeps what the files below dir occupy.
func diskOf(x figures, name, dir string) error {
	n, err := process.DiskBytes(dir)
	x[name] = float64(n) / (1 << 20)
	return err
}
