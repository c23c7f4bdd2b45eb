//go:build cgo

package rocks

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// TestSoak opens, writes, reads, changes and closes one store after another for the time that TANDEMMQ_SOAK names, such as 5m, and logs the anonymous
// memory of the process twenty times: a C object that nobody destroys shows as a line that rises. Every other store fails to open.
func TestSoak(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("TANDEMMQ_SOAK"))
	if err != nil {
		t.Skip("TANDEMMQ_SOAK names no duration")
	}
	begin, rounds, dir := time.Now(), 0, filepath.Join(t.TempDir(), "cq")
	told := time.Duration(-1)
	for time.Since(begin) < lasts {
		if every := time.Since(begin) / (lasts / 20); every != told {
			told = every
			t.Logf("%8s  %6d rounds  RssAnon %6d KiB", time.Since(begin).Round(time.Second), rounds, rssAnon()>>10)
		}
		soakRound(t, dir)
		rounds++
	}
	t.Logf("%8s  %6d rounds  RssAnon %6d KiB", time.Since(begin).Round(time.Second), rounds, rssAnon()>>10)
}

func soakRound(t *testing.T, dir string) {
	t.Helper()
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	o := DefaultOptions()
	o.Create = true
	o.RocksDB.Statistics = true
	require.NoError(t, os.Mkdir(dir, 0o755))
	s, err := Open(filepath.Join(dir, "db"), o)
	require.NoError(t, err)
	_, err = Open(s.dir, o)
	require.Error(t, err, "it is locked")
	other := cq.Key{Topic: "other"}
	require.NoError(t, s.Append(t.Context(), append(entries(keyT, 0, 300), entries(other, 0, 300)...)))
	require.NoError(t, s.Flush(t.Context()))
	requireUnits(t, s, keyT, 0, units(0, 300))
	require.NoError(t, s.TruncateDirty(t.Context(), 200_000))
	_, err = s.DeleteTopic(t.Context(), other.Topic)
	require.NoError(t, err)
	require.NoError(t, s.Import(t.Context(), []cq.Run{run(other, 0, 100)}))
	require.NoError(t, s.Publish(t.Context(), []cq.QueueEnd{endAt(other, 0, 100)}, 99_100))
	require.NoError(t, s.Compact(t.Context(), nil))
	_, err = s.Stats()
	require.NoError(t, err)
	require.NoError(t, s.Close())
	o.ReadOnly = true
	s, err = Open(s.dir, o)
	require.NoError(t, err)
	require.EqualValues(t, 100, boundsOf(t, s, other).Max)
	require.NoError(t, s.Close())
	require.NoError(t, os.Remove(filepath.Join(s.dir, "CURRENT")))
	_, err = Open(s.dir, o)
	require.Error(t, err)
}

// TestFullDiskIsWaitedOut fills a small file system, whose directory TANDEMMQ_SMALL_FS names (48 MiB, empty), and empties it again: units that could not be
// written are written as soon as RocksDB goes on.
func TestFullDiskIsWaitedOut(t *testing.T) {
	dir := os.Getenv("TANDEMMQ_SMALL_FS")
	if dir == "" {
		t.Skip("TANDEMMQ_SMALL_FS names no directory")
	}
	ballast, db := filepath.Join(dir, "ballast"), filepath.Join(dir, "db")
	t.Cleanup(func() { _, _ = os.Remove(ballast), os.RemoveAll(db) })
	require.NoError(t, os.WriteFile(ballast, make([]byte, 44<<20), 0o600))
	o := DefaultOptions()
	o.Create = true
	o.RocksDB.Units.WriteBufferBytes, o.RocksDB.Units.Compression, o.RocksDB.Units.BottommostCompression = 1<<20, "none", ""
	s := openAt(t, db, o)
	const n = 130_000
	appended := make(chan error)
	go func() { appended <- s.Append(t.Context(), entries(keyT, 0, n)) }()
	require.Eventually(t, func() bool {
		st, err := s.Stats()
		return err == nil && st.BackgroundErrors > 0
	}, time.Minute, 10*time.Millisecond)
	require.Error(t, s.db.Flush())
	require.NoError(t, s.Failure())
	require.NoError(t, os.Remove(ballast))
	require.NoError(t, <-appended)
	require.NoError(t, s.AwaitReadable(t.Context()))
	requireUnits(t, s, keyT, n-100, units(n-100, n))
	require.Eventually(t, func() bool { return s.Flush(t.Context()) == nil }, time.Minute, 100*time.Millisecond)
}
