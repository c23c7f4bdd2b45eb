//go:build cgo

package rocks

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkRead reads units at random places of eight queues, one call an iteration. at=memtable: nothing was flushed; at=table: all lies in one sorted
// run and its blocks in the cache. impl=get is a bare rocksdb_get_cf of one unit, what the others are to be compared with.
//
//	go test ./internal/rocks -run '^$' -bench Read
func BenchmarkRead(b *testing.B) {
	for _, at := range []string{"memtable", "table"} {
		f := newReadFixture(b, at == "table")
		b.Run(fmt.Sprintf("op=read/at=%s/impl=get/units=1", at), func(b *testing.B) {
			i := uint32(0)
			for b.Loop() {
				key := f.next(&i)
				s, err := f.db.c.GetCF(f.db.read, f.db.units, key)
				if err != nil || s.Size() != ValueBytes {
					b.Fatal(err, s.Size())
				}
				s.Free()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Munits/s")
		})
		for _, n := range []int{1, 32, 256, 1024} {
			b.Run(fmt.Sprintf("op=read/at=%s/impl=call/units=%d", at, n), func(b *testing.B) {
				dst := make([]Unit, n)
				i := uint32(0)
				b.ReportAllocs()
				for b.Loop() {
					key := f.next(&i)
					got, err := ReadUnits(f.db, key[:len(key)-slotBytes], f.slots[i&readMask], dst)
					if err != nil || got != n {
						b.Fatal(got, err)
					}
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Munits/s")
			})
		}
	}
}

const (
	readQueues = 8
	readUnits  = 100_000 // of a queue
	readMask   = 1<<14 - 1
)

// readFixture is a database with units, and places to read from.
type readFixture struct {
	db    *DB
	keys  [][]byte
	slots []int64
}

func newReadFixture(b *testing.B, flushed bool) *readFixture {
	b.Helper()
	o := DefaultOptions()
	o.CreateIfMissing = true
	db, err := Open(filepath.Join(b.TempDir(), "db"), o)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	batch := db.NewBatch()
	value := make([]byte, ValueBytes)
	for slot := range int64(readUnits) {
		for q := range readQueues {
			binary.BigEndian.PutUint64(value, uint64(slot*1000))
			binary.BigEndian.PutUint32(value[8:], 100)
			batch.PutSlot(readPrefix(q), slot, value)
		}
		if slot%64 == 63 || slot == readUnits-1 {
			require.NoError(b, db.Write(batch, false))
			batch.Reset()
		}
	}
	if flushed {
		require.NoError(b, db.Flush())
		require.NoError(b, db.Compact(b.Context(), nil))
	}
	f := &readFixture{db: db}
	r := rand.New(rand.NewPCG(1, 2))
	for range readMask + 1 {
		slot := r.Int64N(readUnits - 1024)
		f.slots = append(f.slots, slot)
		f.keys = append(f.keys, slotKey(nil, readPrefix(r.IntN(readQueues)), slot))
	}
	return f
}

func readPrefix(q int) []byte {
	return fmt.Appendf(nil, "\x00\x00\x00\x0c\x01orders-topic\x01\x00\x00\x00%c\x01", q)
}

func (f *readFixture) next(i *uint32) []byte {
	*i++
	return f.keys[*i&readMask]
}
