//go:build cgo

package rocks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// What stands behind the end of a queue is deleted, exactly that, and stays away (F19, F30): RocketMQ leaves it there.
func TestF19F30TrimDeletesTheStaleRangeAlone(t *testing.T) {
	dir := t.TempDir()
	o := testOptions()
	o.Create = true
	k, beside := cq.Key{Topic: "T", QueueID: 1}, cq.Key{Topic: "T", QueueID: 2}
	run := func(k cq.Key, from, n, phy int64) cq.Run {
		r := cq.Run{Key: k, From: from}
		for i := range n {
			r.Units = append(r.Units, cq.Unit{PhyOffset: phy + 100*i, Size: 100, StoreTimestampMs: 1})
		}
		return r
	}
	s := openAt(t, dir, o)
	require.NoError(t, s.Import(t.Context(), []cq.Run{run(k, 0, 10, 0), run(beside, 0, 30, 10_000)}))
	require.NoError(t, s.Publish(t.Context(), []cq.QueueEnd{{Key: k, Max: 10, LastPhyOffset: 900}, {Key: beside, Max: 30, LastPhyOffset: 12_900}}, -1))
	require.NoError(t, s.Import(t.Context(), []cq.Run{run(k, 15, 5, 50_000)})) // of an earlier life
	at, err := s.UnitFrom(k, 10)
	require.NoError(t, err)
	require.EqualValues(t, 15, at)
	require.NoError(t, s.TrimQueue(t.Context(), k, 10))
	require.NoError(t, s.Flush(t.Context()))
	for range 2 {
		at, err = s.UnitFrom(k, 10)
		require.NoError(t, err)
		require.EqualValues(t, -1, at)
		for key, n := range map[cq.Key]int64{k: 10, beside: 30} {
			q, ok := s.Queue(key)
			require.True(t, ok)
			b, err := q.Bounds()
			require.NoError(t, err)
			require.Equal(t, n, b.Max)
			u := make([]cq.Unit, 40)
			got, err := q.Read(0, u)
			require.NoError(t, err)
			require.EqualValues(t, n, got)
		}
		require.NoError(t, s.Close())
		s = openAt(t, dir, o)
	}
	require.NoError(t, s.Close())
}
