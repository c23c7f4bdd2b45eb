package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// agedStore makes a store with a queue, Old, of seven messages that have all expired, and no note of it but the queues' own.
func agedStore(t *testing.T, o Options) (root string) {
	t.Helper()
	root = t.TempDir()
	s := openStore(t, root, o)
	for range 7 {
		_, err := s.Put(t.Context(), plainMessage("Old", "body"))
		require.NoError(t, err)
	}
	putSome(t, s, 200)
	require.NoError(t, s.Close())
	l := NewLayout(root)
	rep, err := Clean(t.Context(), root, CleanOptions{Options: &o})
	require.NoError(t, err)
	require.Positive(t, rep.Queues)
	if err := os.Remove(l.queueOffsetsPath()); !missing(err) {
		require.NoError(t, err)
	}
	return root
}

// removeRocks removes those files of a store's database that are wanted.
func removeRocks(t *testing.T, root string, wanted func(name string) bool) {
	t.Helper()
	dir, _, found, err := NewLayout(root).FindRocks()
	require.NoError(t, err)
	require.True(t, found)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Type().IsRegular() && wanted(e.Name()) {
			require.NoError(t, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
}

// A queue without a record goes on at its max when the queues are built anew: the old files know it, or the other side, or a manifest when CURRENT is gone.
func TestRebuildKeepsEndsWhereAnythingTellsThem(t *testing.T) {
	needRocksDB(t)
	old := cq.Key{Topic: "Old"}
	current := func(name string) bool { return name == currentFile }
	for _, c := range []struct {
		name  string
		o     Options
		kind  cq.Kind
		topic string
		lose  func(name string) bool
	}{
		{"rocks", viewOptions(StoreTypeRocksDB), cq.KindRocks, "", nil},
		{"one topic in rocks", viewOptions(StoreTypeRocksDB), cq.KindRocks, "Old", nil},
		{"file", viewOptions(StoreTypeFile), cq.KindFile, "", nil},
		{"one topic in files", viewOptions(StoreTypeFile), cq.KindFile, "Old", nil},
		{"rocks of both", combineOptions(), cq.KindRocks, "", nil},
		{"both", combineOptions(), cq.KindCombine, "", nil},
		{"rocks without CURRENT", viewOptions(StoreTypeRocksDB), cq.KindRocks, "", current},
		{"rocks of both, all of it lost", combineOptions(), cq.KindRocks, "", IsRocksFile},
		{"both, rocks without CURRENT", combineOptions(), cq.KindCombine, "", current},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := agedStore(t, c.o)
			if c.lose != nil {
				removeRocks(t, root, c.lose)
			}
			rep, err := Rebuild(t.Context(), root, RebuildOptions{Kind: c.kind, Topic: c.topic, QueueID: -1, Options: &c.o})
			require.NoError(t, err)
			require.Empty(t, rep.Forgotten)
			s := openStore(t, root, c.o)
			defer s.Close()
			if s.views.sides != nil {
				requireEnd(t, s.views.sides.side(cq.KindFile), old, 7)
				requireEnd(t, s.views.sides.side(cq.KindRocks), old, 7)
			} else {
				requireEnd(t, s.views.queues, old, 7)
			}
			r, err := s.Put(t.Context(), plainMessage("Old", "after"))
			require.NoError(t, err)
			require.EqualValues(t, 7, r.Append.QueueOffset)
		})
	}
}

// A queue whose end nothing tells is named, if consumers have read it.
func TestRebuildNamesQueuesWhoseEndIsNotKnown(t *testing.T) {
	needRocksDB(t)
	o := viewOptions(StoreTypeRocksDB)
	root := agedStore(t, o)
	removeRocks(t, root, IsRocksFile)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "config"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "config", "consumerOffset.json"), []byte(`{"offsetTable":{"Old@g":{0:7},"T@g":{0:1},"Never@g":{0:0}}}`), 0o644))
	rep, err := Rebuild(t.Context(), root, RebuildOptions{Kind: cq.KindRocks, QueueID: -1, Options: &o})
	require.NoError(t, err)
	require.Equal(t, []ForgottenQueue{{Topic: "Old", Why: "consumers have read it up to 7, and nothing tells where it ended"}}, rep.Forgotten)
}

// RocksDB without CURRENT, and without files beside it: where queues ended is read off what was set aside, also after a kill half-way; a store that served nothing else tells so.
func TestLostRocksDBKeepsEndsOfWhatWasSetAside(t *testing.T) {
	needRocksDB(t)
	o := viewOptions(StoreTypeRocksDB)
	old := cq.Key{Topic: "Old"}
	lost := func(t *testing.T) string {
		root := agedStore(t, o)
		removeRocks(t, root, func(name string) bool { return name == currentFile })
		return root
	}
	t.Run("recover", func(t *testing.T) {
		root := lost(t)
		rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o})
		require.NoError(t, err)
		require.Empty(t, rep.Forgotten)
		s := openStore(t, root, o)
		defer s.Close()
		requireEnd(t, s.views.queues, old, 7)
		require.NoFileExists(t, s.layout.endsOwedPath())
	})
	t.Run("served", func(t *testing.T) {
		root := lost(t)
		og, g := gated(o, 0)
		s := openStore(t, root, og)
		require.EqualValues(t, 7, s.NextOffset("Old", 0), "before anything is built")
		copied := crash(t, root) // killed half-way
		g.release()
		require.NoError(t, s.awaitViews(t.Context()))
		requireEnd(t, s.views.queues, old, 7)
		require.NoError(t, s.Close())
		s = openStore(t, copied, o)
		defer s.Close()
		require.NoError(t, s.awaitViews(t.Context()))
		requireEnd(t, s.views.queues, old, 7)
	})
	t.Run("nothing tells", func(t *testing.T) {
		root := agedStore(t, o)
		removeRocks(t, root, IsRocksFile)
		require.NoError(t, os.MkdirAll(filepath.Join(root, "config"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, "config", "consumerOffset.json"), []byte(`{"offsetTable":{"Old@g":{0:7}}}`), 0o644))
		rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o, Kind: cq.KindRocks})
		require.NoError(t, err)
		require.Equal(t, []ForgottenQueue{{Topic: "Old", Why: "consumers have read it up to 7, and nothing tells where it ended"}}, rep.Forgotten)
	})
}

// Whoever meets a RocksDB without CURRENT is told the command that mends it.
func TestRemnantsNameTheCommandThatMendsThem(t *testing.T) {
	needRocksDB(t)
	o := viewOptions(StoreTypeRocksDB)
	root := agedStore(t, o)
	removeRocks(t, root, func(name string) bool { return name == currentFile })
	_, _, _, err := NewLayout(root).FindRocks()
	require.ErrorContains(t, err, "`tandemmq store recover --store "+root+"`")
	_, err = Clean(t.Context(), root, CleanOptions{Options: &o})
	require.ErrorContains(t, err, "`tandemmq store recover --store "+root+"`")
}
