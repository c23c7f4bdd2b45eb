package store

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// W19: however much there is to dispatch, Close does it, more than ten log files of it too.
func TestW19CloseDispatchesTheBacklog(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		s.views.view.mu.Lock() // dispatch is held up
		putSome(t, s, 1500)
		require.Greater(t, s.Positions().Wrote, 15*o.MappedFileSizeCommitLog)
		require.Greater(t, s.views.behind(), 10*o.MappedFileSizeCommitLog)
		s.views.view.mu.Unlock()
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(root).AbortPath())
		requireWhole(t, root, o)
	})
}

// F1: what was put and not dispatched when the store was left gets its unit in its slot, its first record and the record at physical offset 0 too.
func TestF1FirstUndispatchedRecordKeepsItsSlot(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		for _, dispatched := range []int{0, 5} {
			root := t.TempDir()
			s := openStore(t, root, o)
			putSome(t, s, dispatched)
			awaitDispatch(t, s)
			require.NoError(t, s.views.flush(t.Context()))
			at := crash(t, root) // the queues as they are now
			putSome(t, s, 3)
			require.NoError(t, s.Close())
			log := NewLayout(at).CommitLogDir() // and a log with more
			require.NoError(t, os.RemoveAll(log))
			require.NoError(t, os.CopyFS(log, os.DirFS(NewLayout(root).CommitLogDir())))
			if dispatched > 0 {
				require.NoError(t, os.Remove(NewLayout(at).AbortPath())) // left in order, as 5.5.0 would say
			}
			s = openStore(t, at, o)
			require.EqualValues(t, dispatched+3, s.NextOffset("T", 1))
			putSome(t, s, 1)
			require.NoError(t, s.Close())
			requireWhole(t, at, o)
		}
	})
}

// F26: the next offset is known after a restart, before anything is put.
func TestF26NextOffsetAfterRestart(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		putSome(t, s, 4)
		require.NoError(t, s.Close())
		s = openStore(t, root, o)
		defer s.Close()
		require.EqualValues(t, 4, s.NextOffset("T", 0))
		require.Zero(t, s.NextOffset("unknown", 0))
		_, ok := s.views.queues.Queue(cq.Key{Topic: "unknown"})
		require.False(t, ok)
	})
}

// No checksum covers the queue offset in a record: one that no queue can have come to is that of the next record of its queue. No unit is lost by it, and what is put goes on behind.
func TestImpossibleQueueOffsetIsTheNext(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		for _, lost := range []bool{false, true} {
			root := t.TempDir()
			s := openStore(t, root, o)
			for i := range 30 {
				_, err := s.Put(t.Context(), plainMessage("T", fmt.Sprint(i)))
				require.NoError(t, err)
			}
			require.NoError(t, s.Close())
			places := recordPlaces(t, root)
			editLog(t, root, func(b []byte) { b[places[20]+22] ^= 0x10 })
			l := NewLayout(root)
			for _, path := range []string{l.CheckpointPath(), l.queueOffsetsPath()} {
				if err := os.Remove(path); !missing(err) {
					require.NoError(t, err)
				}
			}
			require.NoError(t, os.WriteFile(l.AbortPath(), nil, 0o644))
			if lost {
				loseQueues(t, root)
			}
			s = openStore(t, root, o)
			require.NoError(t, s.awaitViews(t.Context()))
			require.EqualValues(t, 30, s.NextOffset("T", 0))
			var res GetResult
			get(t, s, GetRequest{Topic: "T"}, &res)
			require.Len(t, res.Messages, 30)
			res.Release()
			require.NoError(t, s.Close())
		}
	})
}
