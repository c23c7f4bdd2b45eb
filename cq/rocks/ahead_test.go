//go:build cgo

package rocks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// readOn reads stretches of n units from one slot on, up to another.
func readOn(t *testing.T, q cq.Queue, from, to int64, n int) (got []cq.Unit) {
	t.Helper()
	dst := make([]cq.Unit, n)
	for from < to {
		k, err := q.Read(from, dst)
		require.NoError(t, err)
		require.Positive(t, k)
		got, from = append(got, dst[:k]...), from+int64(k)
	}
	return got
}

// TestReadAhead: who reads on gets what is there, most of it without RocksDB, whatever the length of a stretch; and nothing that was cut since.
func TestReadAhead(t *testing.T) {
	const end = 3 * aheadUnits
	s := openNew(t, tailOptions(-1))
	appendNow(t, s, entries(keyT, 0, end))
	q, ok := s.Queue(keyT)
	require.True(t, ok)
	for _, n := range []int{1, 7, minAheadRead, 32, 50, maxAheadRead, maxAheadRead + 1, 2 * aheadUnits} {
		require.Equal(t, units(0, end), readOn(t, q, 0, end, n)[:end], "by %d", n)
		require.Equal(t, units(40, 90), readOn(t, q, 40, 90, n)[:50], "by %d", n)
	}

	other := cq.Key{Topic: "other", QueueID: 1}
	others := entries(other, 0, 64)
	for i := range others {
		others[i].Unit.Size++
	}
	appendNow(t, s, others)
	o := &queue{s: s, key: other, prefix: appendUnitPrefix(nil, other), ahead: q.(*queue).ahead} // one place for two queues
	for from := int64(0); from < 64; from += 16 {
		require.Equal(t, units(from, from+16), readOn(t, q, from, from+16, 16))
		require.Equal(t, others[from].Unit, readOn(t, o, from, from+16, 16)[0])
	}

	readOn(t, q, 64, 96, 16) // the second stretch brings what follows
	require.NoError(t, s.TruncateDirty(t.Context(), unit(100).PhyOffset))
	require.Equal(t, units(96, 100), readOn(t, q, 96, 100, 16))
	_, err := q.Read(100, make([]cq.Unit, 16))
	require.ErrorIs(t, err, cq.ErrOffsetOutOfRange)
	moved := entries(keyT, 100, 300)
	for i := range moved {
		moved[i].Unit.Size++
	}
	appendNow(t, s, moved)
	got := readOn(t, q, 64, 300, 16)
	require.Equal(t, units(64, 100), got[:36])
	require.Equal(t, moved[0].Unit, got[36])
}

// TestReadAheadSparesRocksDB: what was read ahead needs no database.
func TestReadAheadSparesRocksDB(t *testing.T) {
	s := openNew(t, tailOptions(-1))
	appendNow(t, s, entries(keyT, 0, 2*aheadUnits))
	q, ok := s.Queue(keyT)
	require.True(t, ok)
	readOn(t, q, 0, 64, 32)
	require.NoError(t, s.db.Close())
	t.Cleanup(func() { s.mu.closed = true }) // there is nothing to close any more
	require.Equal(t, units(64, 32+aheadUnits), readOn(t, q, 64, 32+aheadUnits, 32))
	dst := make([]cq.Unit, 32)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = q.Read(64, dst) }))
	s.minPhy.Store(unit(80).PhyOffset)
	_, err := q.Read(64, dst)
	require.ErrorIs(t, err, cq.ErrClosed, "of what has expired, the database decides")
}
