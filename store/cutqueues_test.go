//go:build cgo

package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
)

// A queue all of whose earlier messages have expired loses the last one, whose unit was durable before its record: it goes on at that slot, and gives none twice.
func TestQueueThatLosesItsOnlyUnitKeepsItsOffsets(t *testing.T) {
	o := rocks.DefaultOptions()
	o.Create, o.MinPhyOffset = true, 1000
	dir := t.TempDir()
	q, err := rocks.Open(dir, o)
	require.NoError(t, err)
	unit := func(topic string, slot, phy int64) cq.Entry {
		return cq.Entry{Key: cq.Key{Topic: topic}, QueueOffset: slot, Unit: cq.Unit{PhyOffset: phy, Size: 100, StoreTimestampMs: 1}}
	}
	require.NoError(t, q.Append(t.Context(), []cq.Entry{unit("busy", 7, 1000), unit("seldom", 3, 1100), unit("new", 0, 1200), unit("busy", 8, 1300)}))
	require.NoError(t, q.AwaitReadable(t.Context()))
	require.NoError(t, cutQueues(t.Context(), q, 1100))
	bounds := func(topic string) cq.Bounds {
		one, ok := q.Queue(cq.Key{Topic: topic})
		require.True(t, ok, topic)
		b, err := one.Bounds()
		require.NoError(t, err)
		return b
	}
	for range 2 {
		require.Equal(t, cq.Bounds{Min: 3, Max: 3, MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1}, bounds("seldom"))
		require.EqualValues(t, 8, bounds("busy").Max)
		require.LessOrEqual(t, q.DispatchFrom(), int64(1100))
		require.NoError(t, q.Close())
		q, err = rocks.Open(dir, o)
		require.NoError(t, err)
		require.NoError(t, cutQueues(t.Context(), q, 1100), "again, as after a crash")
	}
	require.EqualValues(t, 3, bounds("seldom").Max)
	require.EqualValues(t, 8, bounds("busy").Max)
	_, ok := q.Queue(cq.Key{Topic: "new"})
	require.False(t, ok)
	require.NoError(t, q.Append(t.Context(), []cq.Entry{unit("seldom", 3, 1100)}))
	require.NoError(t, q.AwaitReadable(t.Context()))
	require.EqualValues(t, 4, bounds("seldom").Max)
	require.NoError(t, q.Close())
}
