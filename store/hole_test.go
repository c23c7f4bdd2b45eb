package store

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// TestHoleRuleSparesWhatIsKnownDurable: everything is durable, and checkpoint and queue-offsets say so; the process is killed while it is idle; the medium
// loses the head of a record. The log is cut there, acknowledged and durable messages and their units with it, instead of being refused.
func TestHoleRuleSparesWhatIsKnownDurable(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		o.FlushDiskType = SyncFlush
		o.MappedFileSizeCommitLog = 1 << 20
		root := t.TempDir()
		s := openStore(t, root, o)
		var at int64
		for i := range 500 {
			r, err := s.Put(t.Context(), plainMessage("T", "body"))
			require.NoError(t, err)
			if i == 100 {
				at = r.Append.PhyOffset
			}
		}
		awaitDispatch(t, s)
		require.NoError(t, s.views.flush(context.Background()))
		require.NoError(t, s.views.flush(context.Background()))
		copied := copyOpen(t, root)
		require.NoError(t, s.Close())
		c, _, err := readCheckpoint(s.fs, NewLayout(copied).CheckpointPath(), time.Now())
		require.NoError(t, err)
		require.Greater(t, c.LogFlushedOffset, at)
		f, err := os.OpenFile(filepath.Join(NewLayout(copied).CommitLogDir(), fmt.Sprintf("%020d", 0)), os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt(make([]byte, 8), at)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		s, err = Open(copied, o)
		if err == nil {
			n := s.NextOffset("T", 0)
			q, _ := s.views.queues.Queue(cq.Key{Topic: "T"})
			b, _ := q.Bounds()
			_ = s.Close()
			t.Fatalf("opened: next offset %d, queue max %d, of 500 that are durable", n, b.Max)
		}
	})
}

// TestUnsupportedLightRecord: a put that is accepted and whose topic no queue of files can take.
func TestAcceptedPutThatStopsDispatch(t *testing.T) {
	for _, topic := range []string{"a\x80b", "%LMQ%x", " ", "T\\x", "00000000000000000000", "con\u0000", string(make([]byte, 0))} {
		forEachKind(t, func(t *testing.T, o Options) {
			s := openStore(t, t.TempDir(), o)
			m := plainMessage(topic, "body")
			m.QueueID = 1<<31 - 1
			_, err := s.Put(t.Context(), m)
			t.Logf("%q: %v", topic, err)
			if err == nil {
				require.Eventually(t, func() bool { return s.views.behind() == 0 }, 3*time.Second, time.Millisecond)
			}
			require.NoError(t, s.Close())
		})
	}
}

// TestLongNames puts to topics of the greatest length.
func TestLongNames(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		long := make([]byte, 250)
		for i := range long {
			long[i] = 'a'
		}
		m := plainMessage("%RETRY%"+string(long[:248]), "body")
		_, err := s.Put(t.Context(), m)
		require.NoError(t, err)
		m = plainMessage("T", "body")
		m.Properties = message.AppendProperty(nil, message.PropertyMultiDispatch, "%LMQ%"+string(long))
		_, err = s.Put(t.Context(), m)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return s.views.behind() == 0 }, 5*time.Second, time.Millisecond)
		require.NoError(t, s.Close())
		requireWhole(t, root, o)
	})
}

// copyOpen copies a store that is open, as it is: RocksDB may remove files meanwhile, and then it is copied again.
func copyOpen(t *testing.T, root string) string {
	t.Helper()
	for try := 0; ; try++ {
		copied, before := t.TempDir(), lengthsOfRocks(t, root)
		err := os.CopyFS(copied, os.DirFS(root))
		if err == nil && maps.Equal(before, lengthsOfRocks(t, root)) {
			return copied
		}
		require.Less(t, try, 100, "%v", err)
	}
}

// lengthsOfRocks are the files below root that only RocksDB changes, with their lengths: a copy made while they change is of no moment.
func lengthsOfRocks(t *testing.T, root string) map[string]int64 {
	t.Helper()
	files := map[string]int64{}
	for _, pattern := range []string{"*/CURRENT", "*/MANIFEST-*", "*/*.sst", "*/*/*.sst", "*/*/MANIFEST-*"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil {
				files[path] = info.Size()
			}
		}
	}
	return files
}
