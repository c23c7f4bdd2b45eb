package store

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

func TestQueueDisk(t *testing.T) {
	l := NewLayout(t.TempDir())
	got, err := l.QueueDisk(t.Context())
	require.NoError(t, err)
	require.Empty(t, got)

	write := func(path string) {
		path = filepath.Join(l.Root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, make([]byte, 1<<20), 0o644))
	}
	write("consumequeue/T/0/00000000000000000000")
	write("consumequeue_ext/T/0/00000000000000000000")
	write("consumequeue/000012.sst")
	write("consumequeue/LOG/0/00000000000000000000") // a topic
	write("commitlog/00000000000000000000")
	got, err = l.QueueDisk(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 3<<20, got[cq.KindFile], 1<<18)
	require.InDelta(t, 1<<20, got[cq.KindRocks], 1<<17)
	write("consumequeue_rocksdb/000013.sst")
	got, err = l.QueueDisk(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 2<<20, got[cq.KindRocks], 1<<17)

	for range 2 * diskPause / 100 {
		dir := filepath.Join(l.ConsumeQueueDir(), "many")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for range 100 {
			f, err := os.CreateTemp(dir, "")
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.QueueDisk(ctx)
	require.ErrorIs(t, err, context.Canceled)
}
