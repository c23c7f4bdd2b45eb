package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq/rocks"
)

// The defaults are those of the machine that they were measured on.
func TestRocksOptionsOfTheReferenceMachine(t *testing.T) {
	o := DefaultOptions()
	got, want := o.rocksOptions(2, 24<<30), rocks.DefaultOptions()
	require.EqualValues(t, rocks.DefaultTailBytes, got.TailBytes)
	got.TailBytes = 0
	require.Equal(t, want, got)
}

func TestRocksOptionsFollowTheMachine(t *testing.T) {
	const mib = 1 << 20
	small, large := sizedRocksOptions(1, 512*mib), sizedRocksOptions(96, 1<<40)
	require.Equal(t, []any{2, 2, int64(32 * mib), int64(16 * mib), int64(4 * mib)}, []any{
		small.RocksDB.MaxBackgroundJobs, small.RocksDB.MaxSubcompactions, small.RocksDB.Units.BlockCacheBytes, small.RocksDB.Units.WriteBufferBytes, small.TailBytes,
	})
	require.Equal(t, []any{32, 8, int64(4096 * mib), int64(128 * mib), int64(256 * mib)}, []any{
		large.RocksDB.MaxBackgroundJobs, large.RocksDB.MaxSubcompactions, large.RocksDB.Units.BlockCacheBytes, large.RocksDB.Units.WriteBufferBytes, large.TailBytes,
	})
}

func TestRocksOptionsOfProperties(t *testing.T) {
	o, _, err := ParseOptions(map[string]string{
		"rocksdbCompressionType": "snappy", "bottomMostCompressionTypeForConsumeQueueStore": "none", "rocksdbBlockCacheBytes": "1000000", "rocksdbWriteBufferBytes": "2000000",
		"rocksdbBackgroundJobs": "3", "rocksdbRateLimitBytesPerSec": "-1", "rocksdbTailBytes": "-1",
	})
	require.NoError(t, err)
	r := o.rocksOptions(2, 24<<30)
	require.Equal(t, []any{rocks.Snappy, rocks.NoCompression, int64(1e6), int64(2e6), 3, 3, int64(0), int64(-1)}, []any{
		r.RocksDB.Units.Compression, r.RocksDB.Units.BottommostCompression, r.RocksDB.Units.BlockCacheBytes, r.RocksDB.Units.WriteBufferBytes,
		r.RocksDB.MaxBackgroundJobs, r.RocksDB.MaxSubcompactions, r.RocksDB.RateLimitBytesPerSec, r.TailBytes,
	})
	for _, name := range []string{"rocksdbCompressionType", "bottomMostCompressionTypeForConsumeQueueStore"} {
		for _, c := range []string{"LZ4", "", "z", "xpress"} {
			_, _, err := ParseOptions(map[string]string{name: c})
			require.ErrorContains(t, err, name, "%q", c)
		}
	}
}

// What a tool writes offline is what the store would write; what has no name is sized for little memory.
func TestOfflineRocksOptions(t *testing.T) {
	o := DefaultOptions()
	require.Equal(t, rocks.MigrationOptions(), o.OfflineRocksOptions())
	o, _, err := ParseOptions(map[string]string{
		"rocksdbCompressionType": "snappy", "bottomMostCompressionTypeForConsumeQueueStore": "none", "rocksdbBlockCacheBytes": "1000000", "rocksdbWriteBufferBytes": "2000000",
		"rocksdbBackgroundJobs": "3", "rocksdbRateLimitBytesPerSec": "4000000", "rocksdbTailBytes": "5000000",
	})
	require.NoError(t, err)
	r, store := o.OfflineRocksOptions(), o.rocksOptions(2, 24<<30)
	want := rocks.MigrationOptions()
	want.RocksDB.MaxBackgroundJobs, want.RocksDB.MaxSubcompactions = store.RocksDB.MaxBackgroundJobs, store.RocksDB.MaxSubcompactions
	want.RocksDB.RateLimitBytesPerSec = store.RocksDB.RateLimitBytesPerSec
	to, from := &want.RocksDB.Units, &store.RocksDB.Units
	to.Compression, to.BottommostCompression = from.Compression, from.BottommostCompression
	to.BlockCacheBytes, to.WriteBufferBytes = from.BlockCacheBytes, from.WriteBufferBytes
	require.Equal(t, want, r)
	require.Equal(t, []any{rocks.Snappy, rocks.NoCompression, int64(1e6), int64(2e6), 3, int64(4e6)}, []any{
		r.RocksDB.Units.Compression, r.RocksDB.Units.BottommostCompression, r.RocksDB.Units.BlockCacheBytes, r.RocksDB.Units.WriteBufferBytes,
		r.RocksDB.MaxBackgroundJobs, r.RocksDB.RateLimitBytesPerSec,
	})
}

// What is set arrives in the database.
func TestRocksOptionsOfAStore(t *testing.T) {
	o := viewOptions(StoreTypeRocksDB)
	needRocksDB(t)
	o.RocksdbCompressionType, o.RocksdbBlockCacheBytes, o.RocksdbWriteBufferBytes = "none", 1<<20, 1<<20
	root := t.TempDir()
	s := openStore(t, root, o)
	putSome(t, s, 20)
	require.NoError(t, s.Close())
	requireWhole(t, root, o)
}
