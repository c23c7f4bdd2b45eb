package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// guarded is a way to open a store, small: more than 2,000 bytes of log are not dispatched before it serves.
func guarded(o Options) Options {
	o.MessageIndexEnable = false
	o.rebuildBytes = 2000
	return o
}

// guardPuts is how many messages each of the queues T/0 and T/1 has in a store of guardState.
const guardPuts = 120

// openPuts opens a store, puts n messages onto each of the queues and closes it when all of them are on its sides.
func openPuts(t *testing.T, root string, o Options, n int) {
	t.Helper()
	s := openStore(t, root, guarded(o))
	putSome(t, s, n)
	require.NoError(t, s.awaitViews(t.Context()))
	require.NoError(t, s.Close())
}

// loseSide removes one side of a closed store.
func loseSide(t *testing.T, root string, kind cq.Kind) {
	t.Helper()
	l := NewLayout(root)
	if kind == cq.KindRocks {
		removeRocks(t, root, IsRocksFile)
		return
	}
	names, err := listDirs(l.ConsumeQueueDir())
	require.NoError(t, err)
	for _, name := range names {
		require.NoError(t, os.RemoveAll(filepath.Join(l.ConsumeQueueDir(), name)))
	}
}

// loseBeginning takes the first 50 slots of T/0 from one side.
func loseBeginning(t *testing.T, root string, kind cq.Kind) {
	t.Helper()
	l, k := NewLayout(root), cq.Key{Topic: "T"}
	if kind == cq.KindFile {
		require.NoError(t, os.Remove(filepath.Join(l.ConsumeQueueDir(), "T", "0", "00000000000000000000")))
		return
	}
	s := newStore(viewOptions(StoreTypeRocksDB))
	s.layout = l
	q, err := s.openRocks(0)
	require.NoError(t, err)
	one, ok := q.Queue(k)
	require.True(t, ok)
	units := make([]cq.Unit, guardPuts-50)
	n, err := one.Read(50, units)
	require.NoError(t, err)
	require.Len(t, units, n)
	from := q.DispatchFrom()
	require.NoError(t, q.(cq.Dropper).DropQueue(t.Context(), k))
	require.NoError(t, q.(cq.Importer).Import(t.Context(), []cq.Run{{Key: k, From: 50, Units: units}}))
	last := units[len(units)-1]
	require.NoError(t, q.(cq.Importer).Publish(t.Context(), []cq.QueueEnd{{Key: k, Min: 50, MinPhyOffset: units[0].PhyOffset, Max: guardPuts, LastPhyOffset: last.PhyOffset}}, from))
	require.NoError(t, q.Close())
}
