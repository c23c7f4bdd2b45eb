//go:build cgo

package rocks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// offsetRows returns the rows of max and min, and the checkpoint.
func offsetRows(t *testing.T, s *Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, s.db.Scan(rocks.Offsets, nil, func(key, value []byte) bool {
		all[string(key)] = string(value)
		return true
	}))
	return all
}

func appendNow(t *testing.T, s *Store, es []cq.Entry) {
	t.Helper()
	require.NoError(t, s.Append(t.Context(), es))
	require.NoError(t, s.AwaitReadable(t.Context()))
}

// TestF24HolesInRows: a missing unit between min and max ends a read in front of it, is no error, and is passed over by bounds and searches.
func TestF24HolesInRows(t *testing.T) {
	o := testOptions()
	o.TailBytes = -1 // the rows change behind the store's back
	s := openNew(t, o)
	appendNow(t, s, entries(keyT, 0, 100))
	rows(t, s, func(b *rocks.Batch) {
		b.DeleteRange(rocks.Units, appendUnitKey(nil, keyT, 40), appendUnitKey(nil, keyT, 60))
	})
	q, ok := s.Queue(keyT)
	require.True(t, ok)
	dst := make([]cq.Unit, 64)
	n, err := q.Read(10, dst)
	require.NoError(t, err)
	require.Equal(t, units(10, 40), dst[:n])
	for _, from := range []int64{40, 50, 59} {
		for _, room := range []int{1, 64} {
			n, err = q.Read(from, dst[:room])
			require.NoError(t, err)
			require.Zero(t, n)
		}
	}
	n, err = q.Read(60, dst)
	require.NoError(t, err)
	require.Equal(t, units(60, 100), dst[:n])
	ms := unit(50).StoreTimestampMs
	require.EqualValues(t, 60, requireBothWays(t, q, ms, cq.BoundaryLower))
	require.EqualValues(t, 39, requireBothWays(t, q, ms, cq.BoundaryUpper))
	require.NoError(t, s.SetMinPhyOffset(unit(50).PhyOffset))
	b, err := q.Bounds()
	require.NoError(t, err)
	require.EqualValues(t, 60, b.Min)
}

// TestF25ExpiredQueueByTime: both bounds of a queue of which nothing is left are its max.
func TestF25ExpiredQueueByTime(t *testing.T) {
	s := openNew(t, testOptions())
	appendNow(t, s, entries(keyT, 0, 100))
	require.NoError(t, s.SetMinPhyOffset(unit(100).PhyOffset))
	q, ok := s.Queue(keyT)
	require.True(t, ok)
	for _, ms := range []int64{0, unit(50).StoreTimestampMs, unit(200).StoreTimestampMs} {
		for _, b := range boundaries {
			require.EqualValues(t, 100, requireBothWays(t, q, ms, b))
		}
	}
}

// TestF27ReadsLeaveNoTrace: no look at a queue that is not there, or not there any more, writes a row or makes the queue seem to be there.
func TestF27ReadsLeaveNoTrace(t *testing.T) {
	s := openNew(t, testOptions())
	gone := cq.Key{Topic: cq.LMQPrefix + "gone"}
	appendNow(t, s, append(entries(keyT, 0, 10), entries(gone, 0, 10)...))
	q, ok := s.Queue(gone)
	require.True(t, ok)
	require.NoError(t, s.DropQueue(t.Context(), gone))
	require.NoError(t, s.SetMinPhyOffset(unit(5).PhyOffset))
	before := offsetRows(t, s)

	look := func(q cq.Queue) {
		_, err := q.Bounds()
		require.NoError(t, err)
		n, err := q.Read(0, make([]cq.Unit, 4))
		require.Zero(t, n, "%v", err)
		for _, b := range boundaries {
			requireBothWays(t, q, unit(5).StoreTimestampMs, b)
		}
	}
	look(q)
	for _, k := range []cq.Key{gone, {Topic: cq.LMQPrefix + "never"}, {Topic: keyT.Topic, QueueID: 99}} {
		_, ok := s.Queue(k)
		require.False(t, ok, "%s", k)
	}
	known, ok := s.Queue(keyT)
	require.True(t, ok)
	_, err := known.Bounds() // whose min has moved
	require.NoError(t, err)
	require.Equal(t, before, offsetRows(t, s))
	keys, err := cq.SortedKeys(s)
	require.NoError(t, err)
	require.Equal(t, []cq.Key{keyT}, keys)
}

// TestF29FirstLookAtMinIsRight: min is right at the first look after the log's has moved, whether the search finds a unit or none.
func TestF29FirstLookAtMinIsRight(t *testing.T) {
	s := openNew(t, testOptions())
	appendNow(t, s, entries(keyT, 0, 100))
	rows(t, s, func(b *rocks.Batch) { putRow(b, keyT, tagMin, unit(3).PhyOffset, 3) })
	s = reopen(t, s, testOptions())
	q, ok := s.Queue(keyT)
	require.True(t, ok)
	for _, step := range []struct{ minPhy, want int64 }{{0, 3}, {unit(50).PhyOffset, 50}, {unit(98).PhyOffset + 1, 99}, {unit(99).PhyOffset + 1, 100}} {
		require.NoError(t, s.SetMinPhyOffset(step.minPhy))
		for look := range 3 {
			b, err := q.Bounds()
			require.NoError(t, err)
			require.Equal(t, step.want, b.Min, "look %d with the log from %d on", look, step.minPhy)
		}
	}
}

// TestBoundsFollowImport: what an earlier look remembered of the first unit is forgotten when an import puts another one there.
func TestBoundsFollowImport(t *testing.T) {
	s := openNew(t, testOptions())
	appendNow(t, s, entries(keyT, 10, 20))
	q, ok := s.Queue(keyT)
	require.True(t, ok)
	b, err := q.Bounds()
	require.NoError(t, err)
	require.Equal(t, unit(10).PhyOffset, b.MinPhyOffset)
	moved := unit(10)
	moved.PhyOffset += 7
	require.NoError(t, s.Import(t.Context(), []cq.Run{{Key: keyT, From: 10, Units: []cq.Unit{moved}}}))
	b, err = q.Bounds()
	require.NoError(t, err)
	require.Equal(t, moved.PhyOffset, b.MinPhyOffset)
	end := cq.QueueEnd{Key: keyT, Min: 12, MinPhyOffset: unit(12).PhyOffset, Max: 20, LastPhyOffset: unit(19).PhyOffset}
	require.NoError(t, s.Publish(t.Context(), []cq.QueueEnd{end}, -1))
	b, err = q.Bounds()
	require.NoError(t, err)
	require.Equal(t, unit(12).PhyOffset, b.MinPhyOffset)
	require.EqualValues(t, 12, b.Min)
}
