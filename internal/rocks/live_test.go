//go:build cgo

package rocks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryObjectIsDestroyed counts what C holds for this package, whatever way a call ends.
func TestEveryObjectIsDestroyed(t *testing.T) {
	whole := func(t *testing.T) string {
		dir := t.TempDir()
		db, err := Open(dir, testOptions())
		require.NoError(t, err)
		putSlots(t, db, prefixOf("topic", 0), slotsUpTo(50)...)
		require.NoError(t, db.Flush())
		require.NoError(t, db.Close())
		return dir
	}
	fails := func(t *testing.T, dir string) {
		for _, open := range []func(string, Options) (*DB, error){Open, OpenReadOnly} {
			_, err := open(dir, testOptions())
			require.Error(t, err)
		}
	}
	for name, run := range map[string]func(t *testing.T){
		"a database at work": func(t *testing.T) {
			dir := whole(t)
			o := testOptions()
			o.RateLimitBytesPerSec, o.Statistics = mib, true
			db, err := Open(dir, o)
			require.NoError(t, err)
			require.Greater(t, LiveObjects(), int64(10))
			_, _, err = db.Get(Units, []byte("none"))
			require.NoError(t, err)
			require.NoError(t, db.Scan(Units, nil, func(_, _ []byte) bool { return false }))
			require.NoError(t, db.Compact(t.Context(), nil))
			w, err := db.NewIngester(filepath.Join(t.TempDir(), "ingest"))
			require.NoError(t, err)
			require.NoError(t, PutUnits(w, prefixOf("a", 0), 0, unitsFrom(0, 3, 0)))
			require.NoError(t, w.Commit())
			require.NoError(t, w.Close())
			require.NoError(t, db.Close())
			require.NoError(t, db.Close())
		},
		"read-only": func(t *testing.T) {
			db, err := OpenReadOnly(whole(t), testOptions())
			require.NoError(t, err)
			require.Error(t, db.Flush())
			_, err = db.NewIngester(t.TempDir())
			require.ErrorIs(t, err, ErrReadOnly)
			require.NoError(t, db.Close())
		},
		"CURRENT is garbage": func(t *testing.T) {
			dir := whole(t)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "CURRENT"), []byte("nonsense"), 0o644))
			fails(t, dir)
		},
		"a table is missing": func(t *testing.T) {
			dir := whole(t)
			tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
			require.NoError(t, err)
			require.NotEmpty(t, tables)
			require.NoError(t, os.Remove(tables[0]))
			fails(t, dir)
		},
		"open already": func(t *testing.T) {
			dir := whole(t)
			db, err := Open(dir, testOptions())
			require.NoError(t, err)
			_, err = Open(dir, testOptions())
			require.Error(t, err)
			require.NoError(t, db.Close())
		},
		"ingestion fails": func(t *testing.T) {
			db, err := Open(whole(t), testOptions())
			require.NoError(t, err)
			dir := filepath.Join(t.TempDir(), "ingest")
			w, err := db.NewIngester(dir)
			require.NoError(t, err)
			a := prefixOf("topic", 1)
			require.NoError(t, PutUnits(w, a, 5, unitsFrom(5, 3, 0)))
			require.Error(t, PutUnits(w, a, 6, unitsFrom(6, 3, 0)))
			require.NoError(t, w.Rollback())
			require.NoError(t, os.Remove(dir))
			require.Error(t, PutUnits(w, a, 0, unitsFrom(0, 3, 0)), "no file can be made")
			require.Error(t, w.Commit())
			require.NoError(t, w.Close())
			require.NoError(t, db.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := LiveObjects()
			run(t)
			require.Equal(t, before, LiveObjects())
		})
	}
}

// Nothing is made or destroyed past the count.
func TestEveryObjectIsCounted(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	owned := regexp.MustCompile(`(SetRateLimiter|SetFilterPolicy|SetCompactionFilter)\(grocksdb\.New`)
	past := regexp.MustCompile(`(^|[^(])grocksdb\.New|[^e]\(grocksdb\.New|\.Destroy\(\)|NewIterator`)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "live.go" {
			continue
		}
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		for line := range strings.Lines(string(b)) {
			if past.MatchString(line) && !owned.MatchString(line) && !strings.Contains(line, "made(") && !strings.Contains(line, "func (") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}
