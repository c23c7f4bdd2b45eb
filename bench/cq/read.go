package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/cq"
)

// readUnits measures reads at random places of queues whose units are all in memory.
func readUnits(ctx context.Context, r row, s sizes, dir string) (figures, error) {
	x := figures{}
	return x, withQueues(r.engine, dir, func(q cq.Store) error {
		f := filler{s: q, keys: keysOf(r.queues)}
		if err := errors.Join(f.append(ctx, s.ReadUnits), q.AwaitReadable(ctx)); err != nil {
			return err
		}
		return errors.Join(readAll(q, f.keys, s, x), checkQueues(q, f.keys, f.next))
	})
}

// readRocks measures reads of RocksDB, of units that are in table files and all in the block cache, beside gets by its C interface alone; and reads at
// the end of a queue, of units that were written last.
func readRocks(ctx context.Context, r row, s sizes, dir string) (figures, error) {
	x, keys := figures{}, keysOf(r.queues)
	f := filler{keys: keys}
	err := withQueues(r.engine, dir, func(q cq.Store) error {
		f.s = q
		if err := errors.Join(f.append(ctx, s.ReadUnits), q.AwaitReadable(ctx), q.Flush(ctx)); err != nil {
			return err
		}
		newest, err := timeOne(q, keys, s.Reads, func(max int64) int64 { return max - 1 })
		x["tailMicros"] = micros(newest)
		return errors.Join(err, compact(ctx, q))
	})
	if err != nil {
		return nil, err
	}
	// Opened again nothing of it is in memory but what is read.
	if err := withQueues(r.engine, dir, func(q cq.Store) error {
		return errors.Join(readAll(q, keys, s, x), checkQueues(q, keys, f.next))
	}); err != nil {
		return nil, err
	}
	perGet, err := bareGets(filepath.Join(dir, "rocks"), s.Reads)
	x["bareGetMicros"] = micros(perGet)
	return x, err
}

// compact merges what RocksDB keeps; it does nothing to other engines.
func compact(ctx context.Context, s cq.Store) error {
	if c, ok := s.(interface {
		Compact(ctx context.Context, progress func(writtenBytes, totalBytes int64)) error
	}); ok {
		return c.Compact(ctx, nil)
	}
	return nil
}

// end is a queue and its max.
type end struct {
	cq.Queue
	max int64
}

func endsOf(s cq.Store, keys []cq.Key) ([]end, error) {
	ends := make([]end, len(keys))
	for i, k := range keys {
		q, ok := s.Queue(k)
		if !ok {
			return nil, fmt.Errorf("%s is not there", k)
		}
		b, err := q.Bounds()
		if err != nil {
			return nil, err
		}
		ends[i] = end{q, b.Max}
	}
	return ends, nil
}

// readAll measures reads of 256, 32 and 1 units. Each is done twice, and the second pass counts.
func readAll(s cq.Store, keys []cq.Key, z sizes, x figures) error {
	ends, err := endsOf(s, keys)
	if err != nil {
		return err
	}
	for _, n := range []int{256, 32} {
		units := make([]cq.Unit, n)
		for range 2 {
			start := time.Now()
			for i := range z.Reads {
				if err := readFully(ends[i%len(ends)], units); err != nil {
					return err
				}
			}
			x[fmt.Sprintf("read%dPerSecond", n)] = float64(z.Reads*n) / time.Since(start).Seconds()
		}
	}
	for range 2 {
		took, err := timeOne(s, keys, z.Reads, rand.Int64N)
		if err != nil {
			return err
		}
		x["getMicros"] = micros(took)
	}
	return nil
}

// readFully reads len(dst) units at a random place: more than one call at the end of a file.
func readFully(q end, dst []cq.Unit) error {
	from := rand.Int64N(max(1, q.max-int64(len(dst))+1))
	for n := 0; n < len(dst); {
		k, err := q.Read(from+int64(n), dst[n:])
		if err != nil || k == 0 {
			return fmt.Errorf("read %d units of %s from %d: got %d: %w", len(dst), q.Key(), from, n, err)
		}
		n += k
	}
	return nil
}

// timeOne returns the mean time of a read of one unit, at the slot that at returns for the queue's max.
func timeOne(s cq.Store, keys []cq.Key, reads int, at func(max int64) int64) (time.Duration, error) {
	ends, err := endsOf(s, keys)
	if err != nil {
		return 0, err
	}
	var u [1]cq.Unit
	start := time.Now()
	for n := range reads {
		q := ends[n%len(ends)]
		if k, err := q.Read(at(q.max), u[:]); err != nil || k != 1 {
			return 0, fmt.Errorf("read a unit of %s: got %d: %w", q.Key(), k, err)
		}
	}
	return time.Since(start) / time.Duration(reads), nil
}
