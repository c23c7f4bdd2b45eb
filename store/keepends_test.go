package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// expiredQueue makes a store with a queue, Old, of which the log has no record any more, and loses its RocksDB.
func expiredQueue(t *testing.T, o Options, note bool) (root string) {
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
	require.NoError(t, os.Remove(filepath.Join(l.CommitLogDir(), "00000000000000000000")))
	dir, _, found, err := l.FindRocks()
	require.NoError(t, err)
	require.True(t, found)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() {
			require.NoError(t, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if !note {
		require.NoError(t, os.Remove(l.queueOffsetsPath()))
	}
	return root
}

func requireEnd(t *testing.T, queues cq.Reader, k cq.Key, end int64) {
	t.Helper()
	q, ok := queues.Queue(k)
	require.True(t, ok, "the queue is there")
	b, err := q.Bounds()
	require.NoError(t, err)
	require.Equal(t, []int64{end, end}, []int64{b.Min, b.Max})
}

// A queue without a record goes on at its max when RocksDB was lost and is built while the store serves: the other side knows it, or the note of queue offsets.
func TestLostRocksDBKeepsEndsOfExpiredQueues(t *testing.T) {
	needRocksDB(t)
	old := cq.Key{Topic: "Old"}
	both := combineOptions()
	onlyRocks := viewOptions(StoreTypeRocksDB)
	for _, online := range []bool{false, true} {
		for _, c := range []struct {
			name string
			o    Options
			note bool
		}{{"other side", both, false}, {"other side and note", both, true}, {"note", onlyRocks, true}} {
			t.Run(c.name, func(t *testing.T) {
				root := expiredQueue(t, both, c.note)
				o := c.o
				if !o.RocksdbCQDoubleWriteEnable {
					loseSide(t, root, cq.KindFile)
					put(t, NewLayout(root).StateDir(), keptName, `{"sides":["rocks"],"moves":0}`)
				}
				if online {
					var g *gate
					o, g = gated(o, 0)
					s := openStore(t, root, o)
					require.EqualValues(t, 7, s.NextOffset("Old", 0), "before anything is built")
					copied := crash(t, root) // killed half-way
					g.release()
					require.NoError(t, s.awaitViews(t.Context()))
					require.NoError(t, s.Close())
					root, o = copied, c.o
				}
				s := openStore(t, root, o)
				require.NoError(t, s.awaitViews(t.Context()))
				queues := cq.Reader(s.views.queues)
				if s.views.sides != nil {
					queues = s.views.sides.side(cq.KindRocks)
				}
				requireEnd(t, queues, old, 7)
				r, err := s.Put(t.Context(), plainMessage("Old", "after"))
				require.NoError(t, err)
				require.EqualValues(t, 7, r.Append.QueueOffset)
				awaitDispatch(t, s)
				require.Equal(t, []int64{7}, readHoled(t, s, "Old", 0, 7))
				require.NoError(t, s.Close())
				require.NoFileExists(t, NewLayout(root).endsOwedPath())
			})
		}
	}
}
