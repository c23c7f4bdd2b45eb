package load

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/store"
)

// What a stopped store holds is told from what it does not hold.
func TestCheckStopped(t *testing.T) {
	const (
		queues, messages = 3, 100
		body, samples    = 33, 50
	)
	root := filepath.Join(t.TempDir(), "store")
	require.NoError(t, WithStore(FileQueues, root, func(s *store.Store) error {
		p := NewProducer(s, queues, body)
		for range messages {
			require.NoError(t, p.Put(t.Context()))
		}
		return AwaitBuilt(t.Context(), s)
	}))
	require.NoError(t, CheckStopped(root, FileQueues, queues, messages, body, samples))
	require.ErrorContains(t, CheckStopped(root, FileQueues, queues, messages+1, body, samples), "queue bench_0/1 [0, 33), want [0, 34)")
	require.ErrorContains(t, CheckStopped(root, FileQueues, queues+1, messages, body, samples), "want [0, 25)")
	require.ErrorContains(t, CheckStopped(root, FileQueues, 200, messages, body, samples), "[0, 1)")
	require.ErrorContains(t, CheckStopped(root, FileQueues, queues, messages, body+1, samples), "its body has 33 bytes, want 34")
	require.Error(t, CheckStopped(root, CombineRocks, queues, messages, body, samples)) // it has no RocksDB

	require.NoError(t, MarkAbort(root))
	require.ErrorContains(t, CheckStopped(root, FileQueues, queues, messages, body, samples), "not closed in order")
	l := store.NewLayout(root)
	require.NoError(t, os.Remove(l.AbortPath()))
	require.NoError(t, os.RemoveAll(l.IndexDir()))
	require.ErrorIs(t, CheckStopped(root, FileQueues, queues, messages, body, samples), store.ErrNoIndex)
}
