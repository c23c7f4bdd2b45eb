//go:build cgo

package e2e

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// A store that was moved to RocksDB, where the position of dispatch is the log's end less one (F1), is opened: at once, and after more was put to it while its queues were
// in files.
func TestF1OpenWhatWasMoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	tandemmq.MustRun(t, "store", "generate", "--store", dir, "--messages", "200", "--transactions", "--commitlog-size", "65536", "--cq-file-size", "1000")
	tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--to", "rocks", "--layout", "separate", "--yes", "--json")
	o := store.DefaultOptions()
	o.MappedFileSizeCommitLog, o.MappedFileSizeConsumeQueue = 65536, 1000
	o.UseSeparateStorePathForRocksdbCQ = true
	rocks := o
	rocks.StoreType = store.StoreTypeRocksDB
	host := message.Host{Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Port: 10911}
	for _, kind := range []store.Options{rocks, o, rocks} {
		s, err := store.Open(dir, kind)
		require.NoError(t, err)
		for range 3 {
			next := s.NextOffset("sample_0", 0)
			require.Greater(t, next, int64(10))
			r, err := s.Put(t.Context(), &message.Message{Topic: "sample_0", BornTimestampMs: 1, BornHost: host, StoreHost: host, Body: []byte("more")})
			require.NoError(t, err)
			require.Equal(t, next, r.Append.QueueOffset)
		}
		require.NoError(t, s.Close())
	}
	s, err := store.Open(dir, rocks)
	require.NoError(t, err)
	defer s.Close()
	next := s.NextOffset("sample_0", 0)
	var res store.GetResult
	defer res.Release()
	require.NoError(t, s.Get(&store.GetRequest{Topic: "sample_0", Offset: next - 9, MaxMessages: 32}, &res))
	require.Len(t, res.Messages, 9)
}
