package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/cq/rocks"
)

// batchUnits is how many units are handed over at once.
const batchUnits = 256

// openQueues opens the queues below dir, and makes them there if there are none.
func openQueues(e engine, dir string) (cq.Store, error) {
	if e == fileQueues {
		return file.Open(filepath.Join(dir, "file"), file.Options{})
	}
	o := rocks.DefaultOptions()
	o.Create = true
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	r, err := rocks.Open(filepath.Join(dir, "rocks"), o)
	if err != nil || e == rocksQueues {
		return r, err
	}
	f, err := file.Open(filepath.Join(dir, "file"), file.Options{})
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	c, err := combine.New(f, r, combine.Options{Preferred: cq.KindRocks, Authority: cq.KindRocks})
	if err != nil {
		return nil, errors.Join(err, r.Close(), f.Close())
	}
	return c, nil
}

// withQueues uses queues and closes them.
func withQueues(e engine, dir string, use func(cq.Store) error) error {
	s, err := openQueues(e, dir)
	if err != nil {
		return err
	}
	return errors.Join(use(s), s.Close())
}

// topicQueues is how many queues a topic has.
const topicQueues = 8

func keysOf(queues int) []cq.Key {
	keys := make([]cq.Key, queues)
	topic := ""
	for i := range keys {
		if i%topicQueues == 0 {
			topic = fmt.Sprintf("bench_%06d", i/topicQueues)
		}
		keys[i] = cq.Key{Topic: topic, QueueID: int32(i % topicQueues)}
	}
	return keys
}

// recordStep is the distance of two records in the log that the units point to.
const recordStep = 1300

// unitAt returns unit number n of the log: lengths differ by a few bytes, one of seven tags each, 600 records a millisecond.
func unitAt(n int64) cq.Unit {
	h := uint64(n+1) * 0x9E3779B97F4A7C15
	return cq.Unit{
		PhyOffset: n * recordStep, Size: 1180 + int32(h>>58), TagsCode: int64(int32(n % 7 * 0x5bd1e995)), StoreTimestampMs: 1_700_000_000_000 + n/600,
	}
}

// filler hands units to queues in turn, in batches.
type filler struct {
	s     cq.Store
	keys  []cq.Key
	next  int64 // unit
	batch []cq.Entry
}

// append appends that many units, queue by queue in turn, as they arrive from many producers.
func (f *filler) append(ctx context.Context, units int) error {
	queues := int64(len(f.keys))
	for end := f.next + int64(units); f.next < end; {
		f.batch = f.batch[:0]
		for len(f.batch) < batchUnits && f.next < end {
			f.batch = append(f.batch, cq.Entry{Key: f.keys[f.next%queues], QueueOffset: f.next / queues, Unit: unitAt(f.next)})
			f.next++
		}
		if err := f.s.Append(ctx, f.batch); err != nil {
			return err
		}
	}
	return nil
}

// appendUnits measures how fast units get readable that arrive in turn, 256 at a time; and how far those that are accepted are ahead of those that are readable.
func appendUnits(ctx context.Context, r row, s sizes, dir string) (figures, error) {
	units := s.Units
	switch {
	case r.queues >= 100_000:
		units = s.ManyUnits
	case r.engine == fileQueues:
		units = s.FileUnits
	}
	x := figures{}
	return x, withQueues(r.engine, dir, func(q cq.Store) error {
		f := filler{s: q, keys: keysOf(r.queues)}
		// Queues are made before: how long that takes is another row's matter.
		if err := errors.Join(f.append(ctx, r.queues), q.AwaitReadable(ctx)); err != nil {
			return err
		}
		start, most := time.Now(), int64(0)
		for done := 0; done < units; done += 64 * batchUnits {
			if err := f.append(ctx, min(64*batchUnits, units-done)); err != nil {
				return err
			}
			accepted, readable, _ := q.Progress()
			most = max(most, accepted-readable)
		}
		accepted := time.Now()
		if err := q.AwaitReadable(ctx); err != nil {
			return err
		}
		x["unitsPerSecond"] = float64(units) / time.Since(start).Seconds()
		x["lagUnits"] = float64(most / recordStep)
		x["lastReadableMillis"] = millis(time.Since(accepted))
		return checkQueues(q, f.keys, f.next)
	})
}

// appendRuns measures files as they are written when units come queue by queue: 256 of one queue at a time. The time in which the batches are made does not count: it is as
// long as that of the append.
func appendRuns(ctx context.Context, r row, s sizes, dir string) (figures, error) {
	x := figures{}
	return x, withQueues(r.engine, dir, func(q cq.Store) error {
		keys, next, n := keysOf(r.queues), make([]int64, r.queues), int64(0)
		batch := make([]cq.Entry, batchUnits)
		var took time.Duration
		one := func(queue int) error {
			for i := range batch {
				batch[i] = cq.Entry{Key: keys[queue], QueueOffset: next[queue], Unit: unitAt(n)}
				next[queue]++
				n++
			}
			start := time.Now()
			defer func() { took += time.Since(start) }()
			return q.Append(ctx, batch)
		}
		for i := range keys {
			if err := one(i); err != nil {
				return err
			}
		}
		took = 0
		rounds := s.FileUnits / batchUnits
		for i := range rounds {
			if err := one(i % r.queues); err != nil {
				return err
			}
		}
		x["unitsPerSecond"] = float64(rounds*batchUnits) / took.Seconds()
		for i, k := range keys {
			if err := checkEnd(q, k, next[i], -1); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkQueues fails unless the queues hold the first n units, given in turn: their number, and the last one of each.
func checkQueues(s cq.Store, keys []cq.Key, n int64) error {
	queues := int64(len(keys))
	for i, k := range keys {
		count := (n - int64(i) + queues - 1) / queues
		if count == 0 {
			continue
		}
		if err := checkEnd(s, k, count, (count-1)*queues+int64(i)); err != nil {
			return err
		}
	}
	return nil
}

// checkEnd fails unless a queue has count units, the last one that of number last; -1: whichever it is.
func checkEnd(s cq.Store, k cq.Key, count, last int64) error {
	q, ok := s.Queue(k)
	if !ok {
		return fmt.Errorf("%s is not there", k)
	}
	b, err := q.Bounds()
	if err != nil {
		return err
	}
	if b.Min != 0 || b.Max != count {
		return fmt.Errorf("%s has units [%d, %d), want [0, %d)", k, b.Min, b.Max, count)
	}
	var u [1]cq.Unit
	if n, err := q.Read(count-1, u[:]); err != nil || n != 1 {
		return fmt.Errorf("%s: %d units at %d: %w", k, n, count-1, err)
	}
	if last >= 0 && !u[0].SameRecord(unitAt(last)) {
		return fmt.Errorf("%s: unit %d is %+v, want %+v", k, count-1, u[0], unitAt(last))
	}
	return nil
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
