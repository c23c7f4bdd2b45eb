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
		return errors.Join(readAll(q, f.keys, randomPlaces(r.queues, s), s, x), checkQueues(q, f.keys, f.next))
	})
}

// place is a unit of a queue.
type place struct {
	queue int
	slot  int64
}

// randomPlaces are where single units are read: in each queue in turn. They are the same for all who read, since what was read before is in the caches of the processor.
func randomPlaces(queues int, s sizes) []place {
	random, places := rand.New(rand.NewPCG(1, 2)), make([]place, s.Reads)
	for i := range places {
		places[i] = place{i % queues, random.Int64N(int64(s.ReadUnits / queues))}
	}
	return places
}

// readRocks measures reads of RocksDB, of units that are in table files and all in the block cache, beside gets of the same units by its C interface alone; and
// reads at the end of a queue, of units that were written last.
func readRocks(ctx context.Context, r row, s sizes, dir string) (figures, error) {
	x, keys, places := figures{}, keysOf(r.queues), randomPlaces(r.queues, s)
	f := filler{keys: keys}
	err := withQueues(r.engine, dir, func(q cq.Store) error {
		f.s = q
		if err := errors.Join(f.append(ctx, s.ReadUnits), q.AwaitReadable(ctx), q.Flush(ctx)); err != nil {
			return err
		}
		last := make([]place, len(places))
		for i, p := range places {
			last[i] = place{p.queue, int64(s.ReadUnits/r.queues) - 1}
		}
		newest, err := timeOne(q, keys, last)
		x["tailMicros"] = micros(newest)
		return errors.Join(err, compact(ctx, q))
	})
	if err != nil {
		return nil, err
	}
	// Opened again nothing of it is in memory but what is read.
	if err := withQueues(r.engine, dir, func(q cq.Store) error {
		return errors.Join(readAll(q, keys, places, s, x), checkQueues(q, keys, f.next))
	}); err != nil {
		return nil, err
	}
	perGet, err := bareGets(filepath.Join(dir, "rocks"), places)
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

// readAll measures reads of 256 and 32 units, and of the one at each place. Each is done twice, and the second pass counts.
func readAll(s cq.Store, keys []cq.Key, places []place, z sizes, x figures) error {
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
		took, err := timeOne(s, keys, places)
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

// timeOne returns the mean time of a read of the unit at each place.
func timeOne(s cq.Store, keys []cq.Key, places []place) (time.Duration, error) {
	ends, err := endsOf(s, keys)
	if err != nil {
		return 0, err
	}
	var u [1]cq.Unit
	start := time.Now()
	for _, p := range places {
		q := ends[p.queue]
		if k, err := q.Read(p.slot, u[:]); err != nil || k != 1 {
			return 0, fmt.Errorf("read unit %d of %s: got %d: %w", p.slot, q.Key(), k, err)
		}
	}
	return time.Since(start) / time.Duration(len(places)), nil
}
