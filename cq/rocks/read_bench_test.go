//go:build cgo

package rocks

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

const (
	benchReadQueues = 8
	benchReadUnits  = 100_000 // of a queue
)

// readStore returns a store of eight queues whose units were appended 32 of a queue at a time, flushed and merged where table says so.
func readStore(b *testing.B, table bool, tailBytes int64) (*Store, []cq.Queue) {
	b.Helper()
	o := DefaultOptions()
	o.Create, o.TailBytes = true, tailBytes
	s, err := Open(filepath.Join(b.TempDir(), "cq"), o)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	queues := make([]cq.Queue, benchReadQueues)
	for from := int64(0); from < benchReadUnits; from += 32 {
		for i := range queues {
			k := cq.Key{Topic: "orders-topic", QueueID: int32(i)}
			require.NoError(b, s.Append(b.Context(), entries(k, from, min(from+32, benchReadUnits))))
		}
	}
	require.NoError(b, s.AwaitReadable(b.Context()))
	if table {
		require.NoError(b, s.Flush(b.Context()))
		require.NoError(b, s.Compact(b.Context(), nil))
	}
	for i := range queues {
		queues[i], _ = s.Queue(cq.Key{Topic: "orders-topic", QueueID: int32(i)})
	}
	return s, queues
}

// BenchmarkReadUnits reads n consecutive units an iteration, anywhere in eight queues. impl=get is a bare get of one unit, copied by RocksDB; impl=memtable and
// impl=table read from the database, impl=tail the newest units from memory.
//
//	go test ./cq/rocks -run '^$' -bench ReadUnits
func BenchmarkReadUnits(b *testing.B) {
	b.Run("op=read/impl=get/units=1", func(b *testing.B) {
		s, queues := readStore(b, false, -1)
		places := readPlaces(0, benchReadUnits)
		keys := make([][]byte, len(places))
		for i, from := range places {
			keys[i] = appendUnitKey(nil, queues[i%benchReadQueues].Key(), from)
		}
		at := 0
		for b.Loop() {
			at = (at + 1) % len(keys)
			if _, ok, err := s.db.Get(rocks.Units, keys[at]); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Munits/s")
	})
	for _, impl := range []string{"memtable", "table", "tail"} {
		var queues []cq.Queue
		from, bytes := int64(0), int64(-1)
		if impl == "tail" {
			from, bytes = benchReadUnits-maxTailUnits, DefaultTailBytes
		}
		for _, n := range []int{1, 32, 256} {
			b.Run(fmt.Sprintf("op=read/impl=%s/units=%d", impl, n), func(b *testing.B) {
				_, queues = readStore(b, impl == "table", bytes)
				places := readPlaces(from, benchReadUnits-int64(n))
				dst := make([]cq.Unit, n)
				at := 0
				b.ReportAllocs()
				for b.Loop() {
					at = (at + 1) % len(places)
					if got, err := queues[at%benchReadQueues].Read(places[at], dst); got != n || err != nil {
						b.Fatal(got, err)
					}
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Munits/s")
			})
		}
	}
}

func readPlaces(from, to int64) []int64 {
	r := rand.New(rand.NewPCG(1, 2))
	places := make([]int64, 1<<14)
	for i := range places {
		places[i] = from + r.Int64N(to-from)
	}
	return places
}

// BenchmarkBounds asks for the limits of a queue: those that a look has remembered, and those of a queue that was not looked at before.
func BenchmarkBounds(b *testing.B) {
	s, queues := readStore(b, true, -1)
	for _, impl := range []string{"known", "searched"} {
		b.Run("op=bounds/impl="+impl, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if impl == "searched" {
					queues[0].(*queue).learn(s.mu.epoch, func(e *end) { e.derivedPhy = 0 })
				}
				if _, err := queues[0].Bounds(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOffsetByTime searches a queue of 100,000 units by time: in C, and with a read of a unit a step.
func BenchmarkOffsetByTime(b *testing.B) {
	_, queues := readStore(b, true, -1)
	for _, impl := range []string{"call", "units"} {
		b.Run("op=bytime/impl="+impl, func(b *testing.B) {
			q := queues[1]
			if impl == "units" {
				q = plainQueue{q}
			}
			places := readPlaces(0, benchReadUnits)
			at := 0
			b.ReportAllocs()
			for b.Loop() {
				at = (at + 1) % len(places)
				got, err := cq.OffsetByTime(q, unit(places[at]).StoreTimestampMs, cq.BoundaryLower, nil)
				if got != places[at] || err != nil {
					b.Fatal(got, err)
				}
			}
		})
	}
}
