//go:build cgo

package rocks

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/linxGnu/grocksdb"
	"github.com/stretchr/testify/require"
)

// listing returns size, time and digest of every file below dir.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		out[path] = fmt.Sprintf("%d %v %x", info.Size(), info.ModTime(), sha256.Sum256(b))
		return err
	}))
	return out
}

// withLeftoverLog makes a database as another program leaves it when it is killed with a write-ahead log: one row in a
// table, one in the log.
func withLeftoverLog(t *testing.T) string {
	t.Helper()
	live, dir := t.TempDir(), t.TempDir()
	db, err := Open(live, testOptions())
	require.NoError(t, err)
	q := prefixOf("topic", 0)
	putSlots(t, db, q, 0)
	require.NoError(t, db.Flush())
	w := grocksdb.NewDefaultWriteOptions()
	require.NoError(t, db.c.PutCF(w, db.units, slotKey(nil, q, 1), valueOf(unitAt(10))))
	require.NoError(t, db.c.PutCF(w, db.offsets, []byte("row"), []byte("in the log")))
	w.Destroy()
	require.NoError(t, db.c.FlushWAL(true))
	require.NoError(t, os.CopyFS(dir, os.DirFS(live)))
	require.NoError(t, db.Close())
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	size := int64(0)
	for _, name := range logs {
		info, err := os.Stat(name)
		require.NoError(t, err)
		size += info.Size()
	}
	require.NotZero(t, size)
	return dir
}

func TestReadOnlyChangesNothing(t *testing.T) {
	dir := withLeftoverLog(t)
	for name := range listing(t, dir) {
		if base := filepath.Base(name); base == "LOG" || base == "LOCK" {
			require.NoError(t, os.Remove(name)) // so that making one would show
		}
	}
	before := listing(t, dir)
	o := DefaultOptions()
	o.Statistics = true
	db, err := OpenReadOnly(dir, o)
	require.NoError(t, err)
	dst := make([]Unit, 5)
	n, err := ReadUnits(db, prefixOf("topic", 0), 0, dst)
	require.NoError(t, err)
	require.Equal(t, 2, n, "the table's unit and the log's")
	require.Equal(t, unitAt(10), dst[1])
	v, ok, err := db.Get(Offsets, []byte("row"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "in the log", string(v))

	b := db.NewBatch()
	b.Put(Units, []byte("k"), []byte("v"))
	require.ErrorIs(t, db.Write(b, false), ErrReadOnly)
	require.ErrorIs(t, db.Flush(), ErrReadOnly)
	require.ErrorIs(t, db.Compact(t.Context(), nil), ErrReadOnly)
	_, err = db.NewIngester(filepath.Join(dir, "ingest"))
	require.ErrorIs(t, err, ErrReadOnly)
	require.NoError(t, db.Close())
	require.Equal(t, before, listing(t, dir))
}

func TestLeftoverLogIsReplayed(t *testing.T) {
	dir := withLeftoverLog(t)
	for range 2 {
		db, err := Open(dir, testOptions())
		require.NoError(t, err)
		n, err := ReadUnits(db, prefixOf("topic", 0), 0, make([]Unit, 5))
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.NoError(t, db.Close())
	}
}
