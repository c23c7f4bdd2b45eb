package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/tests/golden"
)

// requireSound has the whole store checked.
func requireSound(t *testing.T, root string) {
	t.Helper()
	rep, err := Check(t.Context(), root, CheckOptions{Deep: true})
	require.NoError(t, err)
	require.True(t, rep.Sound, "%v", rep.Findings)
}

// TestRebuildRefusesDamageInAnOlderFile: the log is read from its beginning before anything is moved, for the old queues may know more than a damaged log.
func TestRebuildRefusesDamageInAnOlderFile(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root, _, _, _ := lostEndStore(t, o)
		places := recordPlaces(t, root)
		hurt := places[at(places, o.MappedFileSizeCommitLog/2)]
		editLog(t, root, func(b []byte) { b[hurt+4] ^= 1 })
		before := golden.TreeSums(t, root)
		for _, dryRun := range []bool{true, false} {
			for _, ro := range []RebuildOptions{{}, {Kind: o.StoreType.kind(), Topic: "T", QueueID: 0}, {Index: true}} {
				ro.DryRun, ro.Options = dryRun, &o
				_, err := Rebuild(t.Context(), root, ro)
				var damage *DamageError
				require.ErrorAs(t, err, &damage)
				require.Equal(t, hurt, damage.Survey.Damage[0].From)
				require.ErrorContains(t, err, "--full --dry-run")
			}
		}
		after := golden.TreeSums(t, root)
		for _, sums := range []map[string]string{before, after} {
			delete(sums, "lock")
		}
		require.Equal(t, before, after)
		rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o, Full: true, Damage: DamageMend})
		require.NoError(t, err)
		require.NotEmpty(t, rep.Repaired)
		_, err = Rebuild(t.Context(), root, RebuildOptions{Options: &o})
		require.NoError(t, err)
	})
}

// damageQueues makes queues of a closed store useless: units of all file queues point elsewhere, RocksDB has no CURRENT.
func damageQueues(t *testing.T, root string, o Options) {
	t.Helper()
	l := NewLayout(root)
	if o.StoreType == StoreTypeRocksDB {
		dir, _, _, err := l.FindRocks()
		require.NoError(t, err)
		require.NoError(t, os.Remove(filepath.Join(dir, currentFile)))
		return
	}
	require.NoError(t, filepath.WalkDir(l.ConsumeQueueDir(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil {
			b[7] ^= 1 // of the first unit's physical offset
			err = os.WriteFile(path, b, 0o644)
		}
		return err
	}))
}

func TestFRF13RebuildOffline(t *testing.T) {
	forEachSide(t, func(t *testing.T, o Options) {
		root := filledStore(t, o, 120)
		l := NewLayout(root)
		damageQueues(t, root, o)
		before := listTree(root)
		ro := RebuildOptions{Kind: o.StoreType.kind(), QueueID: -1, Options: &o, DryRun: true}
		if o.StoreType == StoreTypeFile {
			rep, err := Rebuild(t.Context(), root, ro)
			require.NoError(t, err)
			require.Equal(t, before, listTree(root), "a dry run changes nothing")
			require.EqualValues(t, 5, rep.Views[0].Queues)
		}
		ro.DryRun = false
		rep, err := Rebuild(t.Context(), root, ro)
		require.NoError(t, err)
		require.True(t, rep.AbortCleared)
		require.Len(t, rep.Views, 1)
		require.EqualValues(t, 5, rep.Views[0].Queues)
		require.EqualValues(t, 120*2+80+40+40, rep.Views[0].Units)
		require.Equal(t, rep.LogEnd, rep.Views[0].LogBytes)
		require.NoFileExists(t, l.AbortPath())
		require.NoFileExists(t, l.rebuildJobPath())
		for _, dir := range rep.Aside {
			require.NoDirExists(t, dir)
		}
		requireWhole(t, root, o)
		requireSound(t, root)
	})
}

// TestFRF13RebuildOfSomeQueues: a topic, or one queue, and the others keep their files.
func TestFRF13RebuildOfSomeQueues(t *testing.T) {
	forEachSide(t, func(t *testing.T, o Options) {
		for name, id := range map[string]int32{"topic": -1, "queue": 1} {
			t.Run(name, func(t *testing.T) {
				root := filledStore(t, o, 120)
				rep, err := Rebuild(t.Context(), root, RebuildOptions{Kind: o.StoreType.kind(), Topic: "T", QueueID: id, Options: &o})
				require.NoError(t, err)
				require.Equal(t, map[string]int64{"topic": 2, "queue": 1}[name], rep.Views[0].Queues)
				require.True(t, rep.AbortCleared)
				require.NoFileExists(t, NewLayout(root).brokenQueuesPath())
				requireWhole(t, root, o)
			})
		}
	})
}

// TestRebuildOfTheIndex: queues stay as they are.
func TestRebuildOfTheIndex(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := filledStore(t, o, 60)
	dir := NewLayout(root).IndexDir()
	entries := func() (n int64) {
		x, err := index.Open(dir, index.Options{HashSlots: int32(o.MaxHashSlotNum), MaxEntries: int32(o.MaxIndexNum), ReadOnly: true})
		require.NoError(t, err)
		defer x.Close()
		for _, f := range x.Files() {
			n += int64(f.Entries)
		}
		return n
	}
	want := entries()
	require.Positive(t, want)
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	path := filepath.Join(dir, names[0].Name())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[40+4*o.MaxHashSlotNum+20*30+3] += byte(o.MaxHashSlotNum) // another hash of the same slot: nothing in the file contradicts it
	require.NoError(t, os.WriteFile(path, b, 0o644))
	rep, err := Rebuild(t.Context(), root, RebuildOptions{Index: true, QueueID: -1, Options: &o})
	require.NoError(t, err)
	require.Equal(t, "index", rep.Views[0].Name)
	require.Equal(t, want, rep.Views[0].Units)
	require.Equal(t, want, entries())
	requireSound(t, root)
}

// TestFRF13KilledRebuildGoesOn: after the old files were moved, and before anything was built; another rebuild is refused meanwhile.
func TestFRF13KilledRebuildGoesOn(t *testing.T) {
	forEachSide(t, func(t *testing.T, o Options) {
		o.UseSeparateStorePathForRocksdbCQ = true
		root := filledStore(t, o, 120)
		ro := RebuildOptions{Kind: o.StoreType.kind(), QueueID: -1}
		killed := errors.New("killed")
		ro.Progress = func(phase string, _ int64, _ string) func(int64) {
			if phase != "log" {
				panic(killed)
			}
			return func(int64) {}
		}
		require.PanicsWithValue(t, killed, func() { _, _ = Rebuild(t.Context(), root, ro) })
		require.FileExists(t, NewLayout(root).AbortPath())
		copied := crash(t, root) // the first one still has its locks
		ro.Progress = nil
		_, err := Rebuild(t.Context(), copied, RebuildOptions{Index: true, QueueID: -1})
		require.ErrorContains(t, err, "has not ended")
		t.Run("opened instead", func(t *testing.T) {
			opened := crash(t, root)
			s := openStore(t, opened, o)
			awaitReady(t, s)
			require.NoError(t, s.Close())
			requireWhole(t, opened, o)
		})
		rep, err := Rebuild(t.Context(), copied, ro)
		require.NoError(t, err)
		require.True(t, rep.Resumed)
		require.True(t, rep.AbortCleared)
		requireWhole(t, copied, o)
		if o.StoreType == StoreTypeFile {
			st, err := os.Stat(filepath.Join(NewLayout(copied).ConsumeQueueDir(), "T", "0", "00000000000000000000"))
			require.NoError(t, err)
			require.EqualValues(t, 1000, st.Size(), "as the old ones")
		}
	})
}

// TestRebuildKeepsEndsOfExpiredQueues: a queue of which the log has no record any more goes on at its max.
func TestRebuildKeepsEndsOfExpiredQueues(t *testing.T) {
	forEachSide(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		for range 7 {
			_, err := s.Put(t.Context(), plainMessage("Old", "body"))
			require.NoError(t, err)
		}
		putSome(t, s, 200)
		require.NoError(t, s.Close())
		require.NoError(t, os.Remove(filepath.Join(NewLayout(root).CommitLogDir(), "00000000000000000000")))
		require.NoError(t, os.RemoveAll(NewLayout(root).queueOffsetsPath()))
		_, err := Rebuild(t.Context(), root, RebuildOptions{Kind: o.StoreType.kind(), QueueID: -1, Options: &o})
		require.NoError(t, err)
		s = openStore(t, root, o)
		require.EqualValues(t, 7, s.NextOffset("Old", 0))
		q, ok := s.views.queues.Queue(cq.Key{Topic: "Old"})
		require.True(t, ok)
		b, err := q.Bounds()
		require.NoError(t, err)
		require.EqualValues(t, 7, b.Max)
		require.EqualValues(t, 7, b.Min)
		require.NoError(t, s.Close())
	})
}
