package store

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// TestF11EntryThatNoStoreCanHold is counted and passed over; the units around it are delivered.
func TestF11EntryThatNoStoreCanHold(t *testing.T) {
	needRocksDB(t)
	s := openStore(t, t.TempDir(), viewOptions(StoreTypeRocksDB))
	defer s.Close()
	v := s.views.view
	unit := func(n int64) cq.Unit { return cq.Unit{PhyOffset: 1000 * n, Size: 100} }
	long := cq.Key{Topic: cq.LMQPrefix + strings.Repeat("x", 300)}
	b := v.batches.get()
	b.entries = append(
		b.entries,
		cq.Entry{Key: cq.Key{Topic: "A"}, Unit: unit(0)},
		cq.Entry{Key: long, Unit: unit(0)},
		cq.Entry{Key: cq.Key{Topic: "B"}, Unit: unit(1)},
	)
	require.NoError(t, v.deliver(t.Context(), b, 1100))
	require.NoError(t, v.settle(t.Context()))
	require.EqualValues(t, 1, v.unsupported.Load())
	for _, topic := range []string{"A", "B"} {
		q, ok := v.queues.Queue(cq.Key{Topic: topic})
		require.True(t, ok, topic)
		bounds, err := q.Bounds()
		require.NoError(t, err)
		require.EqualValues(t, 1, bounds.Max)
	}
	_, ok := v.queues.Queue(long)
	require.False(t, ok)
}
