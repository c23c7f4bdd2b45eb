//go:build cgo

package compare

// static int next(int n) { return n + 1; }
// // That is all.
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/internal/rocks"
)

// HasRocks tells whether stores can have RocksDB queues.
const HasRocks = true

// cgoLimits are those of the way into C, and of RocksDB behind it.
func cgoLimits() []limit {
	return []limit{
		{LimitCgo, "one call of an empty function of C", "ns", cgoCall},
		{LimitRocksWrite, "units written to RocksDB, 256 of 8 queues in turn with each batch, without a write-ahead log", "/s", rocksWrite},
		{LimitRocksWalk, "units read by an iterator, 256 with each call into C, after all were flushed", "/s", rocksWalk},
		{LimitRocksGet, "gets of one unit each at random places, after all were flushed", "/s", rocksGet},
	}
}

func cgoCall(_ string, s LimitSizes) (float64, error) {
	const batch = 1000
	start, n := time.Now(), C.int(0)
	for time.Since(start) < s.Time {
		for range batch {
			n = C.next(n)
		}
	}
	return float64(time.Since(start)) / float64(n), nil
}

// Rows of units: of rocksQueues queues in turn.
const (
	rocksQueues = 8
	rocksBatch  = 256
)

func rocksPrefix(queue int) []byte { return fmt.Appendf(nil, "bench_queue_%08d\x01", queue) }

// withRocks makes a database, has it filled, and hands it on. It returns how long the filling took.
func withRocks(dir string, s LimitSizes, use func(db *rocks.DB) error) (took time.Duration, err error) {
	work, err := os.MkdirTemp(dir, "rocks-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	o := rocks.DefaultOptions()
	db, err := rocks.Open(filepath.Join(work, "db"), o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	prefixes := make([][]byte, rocksQueues)
	for i := range prefixes {
		prefixes[i] = rocksPrefix(i)
	}
	start, b := time.Now(), db.NewBatch()
	for n := 0; n < s.Units; {
		b.Reset()
		for range min(rocksBatch, s.Units-n) {
			b.PutUnit(prefixes[n%rocksQueues], int64(n/rocksQueues), rocks.Unit{PhyOffset: int64(n) * 1200, Size: 1200, TagsCode: 1, StoreTimestampMs: int64(n / 600)})
			n++
		}
		if err := db.Write(b, false); err != nil {
			return 0, err
		}
	}
	took = time.Since(start)
	if use == nil {
		return took, nil
	}
	return took, errors.Join(db.Flush(), use(db))
}

func rocksWrite(dir string, s LimitSizes) (float64, error) {
	took, err := withRocks(dir, s, nil)
	return float64(s.Units) / took.Seconds(), err
}

func rocksWalk(dir string, s LimitSizes) (rate float64, err error) {
	_, err = withRocks(dir, s, func(db *rocks.DB) error {
		units, each := make([]rocks.Unit, rocksBatch), int64(s.Units/rocksQueues)
		for range 2 { // the second time all is in the block cache
			start, n := time.Now(), 0
			for queue := range rocksQueues {
				for at := int64(0); at < each; {
					k, err := rocks.ReadUnits(db, rocksPrefix(queue), at, units)
					if err != nil || k == 0 {
						return fmt.Errorf("queue %d at %d of %d: %d units: %w", queue, at, each, k, err)
					}
					at, n = at+int64(k), n+k
				}
			}
			rate = float64(n) / time.Since(start).Seconds()
		}
		return nil
	})
	return rate, err
}

func rocksGet(dir string, s LimitSizes) (rate float64, err error) {
	_, err = withRocks(dir, s, func(db *rocks.DB) error {
		gets := s.Units / 10
		for range 2 {
			start := time.Now()
			for range gets {
				n := rand.IntN(s.Units / rocksQueues * rocksQueues)
				key := binary.BigEndian.AppendUint64(rocksPrefix(n%rocksQueues), uint64(n/rocksQueues))
				if _, ok, err := db.Get(rocks.Units, key); err != nil || !ok {
					return fmt.Errorf("unit %d: there is %v: %w", n, ok, err)
				}
			}
			rate = float64(gets) / time.Since(start).Seconds()
		}
		return nil
	})
	return rate, err
}
