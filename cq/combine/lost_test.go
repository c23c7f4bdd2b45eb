//go:build cgo

package combine_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
	"github.com/tandemq/tandemmq/cq/cqtest"
)

const lostUnits = 20

var lostKeys = []cq.Key{{Topic: "orders"}, {Topic: "orders", QueueID: 1}, {Topic: "%RETRY%g"}}

// world is a store that was stopped cleanly, its log, and an older copy of its directory.
type world struct {
	dir, older string
	log        *cqtest.Log
	entries    []cq.Entry
}

// newWorld appends 120 units to each queue. The older copy lacks the last 20.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), older: t.TempDir(), log: cqtest.NewLog(0)}
	for _, n := range []int{100, lostUnits} {
		s, err := openCombined(w.dir, cqtest.OpenOptions{}, combine.Options{})
		require.NoError(t, err)
		batch := w.log.PutN(n*len(lostKeys), lostKeys...)
		w.entries = append(w.entries, batch...)
		require.NoError(t, s.Append(t.Context(), batch))
		require.NoError(t, s.Flush(t.Context()))
		require.NoError(t, s.Close())
		if n == 100 {
			require.NoError(t, os.CopyFS(w.older, os.DirFS(w.dir)))
		}
	}
	return w
}

// lose makes one side lack the last 20 units of each queue: the files by a cut, as of pages that never reached the disk, RocksDB by being the older one.
func (w *world) lose(t *testing.T, kind cq.Kind) {
	t.Helper()
	if kind == cq.KindRocks {
		db := filepath.Join(w.dir, "consumequeue_rocksdb")
		require.NoError(t, os.RemoveAll(db))
		require.NoError(t, os.CopyFS(db, os.DirFS(filepath.Join(w.older, "consumequeue_rocksdb"))))
		return
	}
	for _, k := range lostKeys {
		slot := int64(120 - lostUnits) // the third file of 50 units begins there
		path := filepath.Join(w.dir, "consumequeue", k.Topic, fmt.Sprint(k.QueueID), fmt.Sprintf("%020d", slot/perFile*perFile*20))
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt(make([]byte, lostUnits*20), slot%perFile*20)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
}

func (w *world) open(t *testing.T, o combine.Options) *combine.Store {
	t.Helper()
	s, err := openCombined(w.dir, cqtest.OpenOptions{}, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// replay appends what the log has from DispatchFrom on, as a start does.
func (w *world) replay(t *testing.T, s *combine.Store) {
	t.Helper()
	from := s.DispatchFrom()
	at := slices.IndexFunc(w.entries, func(e cq.Entry) bool { return e.Unit.PhyOffset >= from })
	if at < 0 {
		return
	}
	for batch := range slices.Chunk(w.entries[at:], 17) {
		require.NoError(t, s.Append(t.Context(), batch))
	}
	require.NoError(t, s.AwaitReadable(t.Context()))
}

// requireWhole checks that both sides hold the log, unit by unit and slot by slot.
func (w *world) requireWhole(t *testing.T, s *combine.Store) {
	t.Helper()
	for _, k := range lostKeys {
		_, want := w.log.Units(k)
		for _, kind := range bothKinds {
			side, _ := s.Side(kind)
			q := mustQueue(t, side, k)
			b, err := q.Bounds()
			require.NoError(t, err)
			require.Equal(t, [2]int64{0, int64(len(want))}, [2]int64{b.Min, b.Max}, "%s side of %s", kind, k)
			var got []cq.Unit
			for buf := make([]cq.Unit, 64); int64(len(got)) < b.Max; {
				n, err := q.Read(int64(len(got)), buf)
				require.NoError(t, err)
				require.Positive(t, n)
				got = append(got, buf[:n]...)
			}
			for i := range want {
				require.True(t, want[i].SameRecord(got[i]), "%s side of %s slot %d: %+v, want %+v", kind, k, i, got[i], want[i])
			}
			require.True(t, s.Ready(kind, k))
		}
		v, err := s.Verify(t.Context(), k, combine.Units)
		require.NoError(t, err)
		require.True(t, v.OK(), "%v", v.Differences)
		require.EqualValues(t, len(want), v.Compared)
	}
}

// eachStart runs fn for each side that lost something under each preferred kind and authority.
func eachStart(t *testing.T, fn func(t *testing.T, w *world, lost cq.Kind, o combine.Options)) {
	for _, lost := range bothKinds {
		for _, prefer := range bothKinds {
			for _, authority := range bothKinds {
				t.Run(fmt.Sprintf("%s lost/prefer=%s/authority=%s", lost, prefer, authority), func(t *testing.T) {
					w := newWorld(t)
					w.lose(t, lost)
					fn(t, w, lost, combine.Options{Preferred: prefer, Authority: authority})
				})
			}
		}
	}
}

// TestF16F17LostUnitsAreReplayed: one side lost its newest units. Whatever is preferred and whichever has authority, the replay brings
// them back, and the next offsets are those that come next.
func TestF16F17LostUnitsAreReplayed(t *testing.T) {
	eachStart(t, func(t *testing.T, w *world, _ cq.Kind, o combine.Options) {
		s := w.open(t, o)
		w.replay(t, s)
		require.Empty(t, s.Diverged())
		w.requireWhole(t, s)
		for range 2 { // and once more after a stop: nothing was hidden by the first start
			for _, k := range lostKeys {
				next, err := s.NextOffset(k)
				require.NoError(t, err)
				e := w.log.Put(k)
				require.Equal(t, e.QueueOffset, next)
				w.entries = append(w.entries, e)
				require.NoError(t, s.Append(t.Context(), []cq.Entry{e}))
			}
			require.NoError(t, s.Close())
			s = w.open(t, o)
			w.replay(t, s)
			w.requireWhole(t, s)
		}
	})
}

// TestF16NothingBeginsAnew: the same without a replay, as if the log had lost its end too. Nothing is written when the store is opened, read and verified;
// offsets are never given twice, and what is appended never lands in another slot: the side that lacks units is passed over, and
// built again on its own.
func TestF16NothingBeginsAnew(t *testing.T) {
	eachStart(t, func(t *testing.T, w *world, lost cq.Kind, o combine.Options) {
		before := filesOf(t, w.dir)
		s := w.open(t, o)
		for _, k := range lostKeys {
			b, err := mustQueue(t, s, k).Bounds()
			require.NoError(t, err)
			require.EqualValues(t, 120, b.Max, "read from the side that has it")
			require.False(t, s.Ready(lost, k))
			v, err := s.Verify(t.Context(), k, combine.Units)
			require.NoError(t, err)
			require.False(t, v.OK())
			require.EqualValues(t, 100, v.Compared)
			next, err := s.NextOffset(k)
			require.NoError(t, err)
			require.EqualValues(t, 120, next)
			require.True(t, s.IsDiverged(lost, k))
		}
		require.NoError(t, s.Close())
		require.Equal(t, before, filesOf(t, w.dir), "units were written to make numbers match")

		s = w.open(t, o)
		for _, k := range lostKeys { // nobody asked for the next offset this time
			e := w.log.Put(k)
			require.NoError(t, s.Append(t.Context(), []cq.Entry{e}))
			require.True(t, s.IsDiverged(lost, k))
		}
		require.NoError(t, s.AwaitReadable(t.Context()))
		side, _ := s.Side(lost)
		for _, k := range lostKeys {
			b, err := mustQueue(t, side, k).Bounds()
			require.NoError(t, err)
			require.EqualValues(t, 100, b.Max)
			b, err = mustQueue(t, s, k).Bounds()
			require.NoError(t, err)
			require.EqualValues(t, 121, b.Max)
			// Built again on its side.
			_, units := w.log.Units(k)
			var entries []cq.Entry
			for slot, u := range units {
				entries = append(entries, cq.Entry{Key: k, QueueOffset: int64(slot), Unit: u})
			}
			require.NoError(t, side.Append(t.Context(), entries))
			s.Heal(lost, k)
		}
		w.requireWhole(t, s)
	})
}

// filesOf lists the queue files with their content; a database rewrites files of its own at every start.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	root := filepath.Join(dir, "consumequeue")
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	}))
	return out
}

// TestF14F18HistoryIsNotHidden: a RocksDB that was written to from some moment on lacks what was there before. That is seen, whatever is
// asked, and reads stay where the history is until it was filled in.
func TestF14F18HistoryIsNotHidden(t *testing.T) {
	for _, prefer := range bothKinds {
		w := newWorld(t)
		require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "consumequeue_rocksdb")))
		s := w.open(t, combine.Options{Preferred: prefer})
		live := w.log.PutN(3*len(lostKeys), lostKeys...)
		require.NoError(t, s.Append(t.Context(), live)) // not held: as 5.5.0 does it
		require.NoError(t, s.AwaitReadable(t.Context()))
		for _, k := range lostKeys {
			require.False(t, s.Ready(cq.KindRocks, k))
			b, err := mustQueue(t, s, k).Bounds()
			require.NoError(t, err)
			require.Zero(t, b.Min)
			v, err := s.Verify(t.Context(), k, combine.Units)
			require.NoError(t, err)
			require.False(t, v.OK(), "the units that both have are the same, and that is not enough")
			require.EqualValues(t, 3, v.Compared)
			require.Zero(t, v.Different)
			require.Equal(t, "min: 0 and 120", v.Differences[0].String())
		}
		// Held, filled from the log and released, it is as good as the other.
		s.Hold(cq.KindRocks)
		db, _ := s.Side(cq.KindRocks)
		for _, k := range lostKeys {
			_, units := w.log.Units(k)
			require.NoError(t, db.(cq.Importer).Import(t.Context(), []cq.Run{{Key: k, Units: units}}))
			last := units[len(units)-1]
			require.NoError(t, db.(cq.Importer).Publish(t.Context(), []cq.QueueEnd{{Key: k, Max: int64(len(units)), LastPhyOffset: last.PhyOffset}}, last.End()))
		}
		require.NoError(t, s.Release(cq.KindRocks))
		w.requireWhole(t, s)
		require.NoError(t, s.SetPreferred(cq.KindRocks))
		u := make([]cq.Unit, 1)
		n, err := mustQueue(t, s, lostKeys[0]).Read(0, u)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Positive(t, u[0].StoreTimestampMs, "RocksDB is read, which keeps the time")
	}
}

// TestF20WhatIsAcceptedIsWaitedFor: offsets and verdicts are about what was accepted, whether the committer is through with it or not.
func TestF20WhatIsAcceptedIsWaitedFor(t *testing.T) {
	for _, authority := range bothKinds {
		w := newWorld(t)
		s := w.open(t, combine.Options{Authority: authority, Preferred: cq.KindRocks})
		for range 200 {
			e := w.log.Put(lostKeys[0])
			require.NoError(t, s.Append(t.Context(), []cq.Entry{e}))
			next, err := s.NextOffset(lostKeys[0])
			require.NoError(t, err)
			require.Equal(t, e.QueueOffset+1, next)
			v, err := s.Verify(t.Context(), lostKeys[0], combine.Counts)
			require.NoError(t, err)
			require.True(t, v.OK(), "%v", v.Differences)
		}
		require.Empty(t, s.Diverged())
	}
}

// TestF22OneDirectory: both sides in one directory, as RocketMQ's default has it. Dropping, cutting and expiring takes nothing that is the other's.
func TestF22OneDirectory(t *testing.T) {
	dir := t.TempDir()
	open := func() *combine.Store {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "consumequeue"), 0o755))
		if _, err := os.Lstat(filepath.Join(dir, "consumequeue_rocksdb")); err != nil {
			require.NoError(t, os.Symlink("consumequeue", filepath.Join(dir, "consumequeue_rocksdb")))
		}
		s, err := openCombined(dir, cqtest.OpenOptions{}, combine.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s := open()
	l := cqtest.NewLog(0)
	batch := l.PutN(360, lostKeys...)
	require.NoError(t, s.Append(t.Context(), batch))
	require.NoError(t, s.Flush(t.Context()))
	require.NoError(t, s.DropQueue(t.Context(), lostKeys[0]))
	require.NoError(t, s.TruncateDirty(t.Context(), batch[300].Unit.PhyOffset))
	require.NoError(t, s.SetMinPhyOffset(batch[200].Unit.PhyOffset))
	_, err := s.Expire(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	s = open()
	keys, err := cq.SortedKeys(s)
	require.NoError(t, err)
	require.Equal(t, []cq.Key{lostKeys[2], lostKeys[1]}, keys)
	for _, k := range keys {
		v, err := s.Verify(t.Context(), k, combine.Counts)
		require.NoError(t, err)
		require.Equal(t, [2]int64{100, 100}, [2]int64{v.Bounds[0].Max, v.Bounds[1].Max})
	}
	// The last queue of one side gone, the other side is whole.
	files, _ := s.Side(cq.KindFile)
	db, _ := s.Side(cq.KindRocks)
	for _, k := range keys {
		require.NoError(t, files.(cq.Dropper).DropQueue(t.Context(), k))
	}
	left, err := cq.SortedKeys(db)
	require.NoError(t, err)
	require.Equal(t, keys, left)
	require.FileExists(t, filepath.Join(dir, "consumequeue", "CURRENT"))
}
