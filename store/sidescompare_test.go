package store

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// replaceInRocks gives a slot of a closed store's RocksDB another unit.
func replaceInRocks(t *testing.T, root string, o Options, k cq.Key, slot int64, u cq.Unit) {
	t.Helper()
	s := newStore(only(o, StoreTypeRocksDB))
	s.layout = NewLayout(root)
	w, err := s.openWriter()
	require.NoError(t, err)
	s.writer = w
	v := &views{s: s}
	require.NoError(t, v.openQueues())
	require.NoError(t, v.queues.(cq.Importer).Import(t.Context(), []cq.Run{{Key: k, From: slot, Units: []cq.Unit{u}}}))
	require.NoError(t, v.queues.Flush(t.Context()))
	require.NoError(t, v.queues.Close())
	require.NoError(t, w.Close())
}

// awaitComparison waits until nothing is left to compare and both sides are whole.
func awaitComparison(t *testing.T, s *Store) {
	t.Helper()
	require.Eventually(t, func() bool { return s.views.sides.comparison.progress() == nil }, 20*time.Second, time.Millisecond)
	awaitSides(t, s)
}

// After a stop that was not in order the sides are compared unit by unit, and the log says which is right: a unit that is wrong or missing in the middle of a queue is found without a
// reader, and the queue is built again on that side.
func TestSidesAreComparedAfterAnUncleanStop(t *testing.T) {
	needRocksDB(t)
	k := cq.Key{Topic: "T", QueueID: 1}
	o := combineOptions()
	for name, harm := range map[string]func(t *testing.T, root string){
		"nothing":    func(*testing.T, string) {},
		"zeros":      func(t *testing.T, root string) { harmSlot(t, root, "1", 20, harms["zeros"]) },
		"impossible": func(t *testing.T, root string) { harmSlot(t, root, "1", 20, harms["impossible"]) },
		"another record in files": func(t *testing.T, root string) {
			harmSlot(t, root, "1", 20, slotBytes(t, root, "0", 20))
		},
		"another slot in files": func(t *testing.T, root string) {
			harmSlot(t, root, "1", 20, slotBytes(t, root, "1", 21))
		},
		"other tags in files": func(t *testing.T, root string) {
			harmSlot(t, root, "1", 20, append(slotBytes(t, root, "1", 20)[:12], 0, 0, 0, 0, 0, 0, 0, 9))
		},
		"another record in RocksDB": func(t *testing.T, root string) {
			replaceInRocks(t, root, o, k, 20, storedUnit(t, root, cq.Key{Topic: "T"}, 21))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := filledStore(t, o, 150)
			harm(t, root)
			l := NewLayout(root)
			s := openStore(t, root, o)
			require.Nil(t, s.Watermarks().Views["file queues"].Comparing, "not due after a stop in order")
			require.False(t, s.QueueState(k).Uncompared)
			require.NoError(t, s.Close())
			require.NoFileExists(t, l.comparisonPath())

			require.NoError(t, os.WriteFile(l.AbortPath(), nil, 0o644))
			s = openStore(t, root, o)
			defer s.Close()
			awaitComparison(t, s)
			require.False(t, s.QueueState(k).Uncompared)
			require.Nil(t, s.Watermarks().Views["file queues"].Comparing)
			require.NoError(t, s.Close())
			require.NoFileExists(t, l.comparisonPath())
			requireWhole(t, root, o)
		})
	}
}

// A comparison that was cut off by a stop in order goes on where it was.
func TestComparisonOfSidesGoesOn(t *testing.T) {
	needRocksDB(t)
	o := combineOptions()
	root := filledStore(t, o, 150)
	harmSlot(t, root, "0", 20, harms["zeros"])
	harmSlot(t, root, "1", 20, harms["zeros"])
	l := NewLayout(root)
	require.NoError(t, os.WriteFile(l.comparisonPath(), []byte(`{"after":{"topic":"T","queueId":0}}`), 0o644))
	s := openStore(t, root, o)
	require.False(t, s.QueueState(cq.Key{Topic: "T"}).Uncompared)
	awaitComparison(t, s)
	require.NoError(t, s.Close())
	require.Zero(t, slotBytes(t, root, "0", 20)[11], "it was compared before")
	require.NotZero(t, slotBytes(t, root, "1", 20)[11])
	require.NoFileExists(t, l.comparisonPath())
	require.NoError(t, os.WriteFile(l.comparisonPath(), []byte(`{`), 0o644)) // then from the first queue on
	s = openStore(t, root, o)
	awaitComparison(t, s)
	require.NoError(t, s.Close())
	requireWhole(t, root, o)
}
