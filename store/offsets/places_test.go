//go:build cgo

package offsets

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJavaDatabases(t *testing.T) {
	want := map[Key]int64{{"T1", "g1", 0}: 12, {"T1", "g1", 3}: 7, {"%RETRY%g2", "g2", 0}: 3}
	for _, tt := range []struct {
		root    string
		place   Place
		counter int64
	}{{"v1", Rocks, 6}, {"single", RocksSingle, 6}, {"v2", RocksV2, 4}} {
		t.Run(tt.root, func(t *testing.T) {
			s := find(t, javaRoot(t, tt.root))
			require.Len(t, s, 1)
			require.NoError(t, s[0].Err)
			require.Equal(t, tt.place, s[0].Place)
			got := stored(s[0])
			if tt.root == "v2" {
				require.Equal(t, None, got[Key{"T2", "gg", 0}])
				delete(got, Key{"T2", "gg", 0})
			}
			require.Equal(t, want, got, "and no pull offsets")
			require.Empty(t, s[0].Faults)
			require.Equal(t, tt.counter, s[0].Version.Counter)
		})
	}
}

// A damaged database is a source that cannot be read, beside others that can.
func TestDamagedDatabase(t *testing.T) {
	l := javaRoot(t, "v1")
	write(t, JSON.path(l), `{"offsetTable":{"T@g":{0:15}}}`)
	tables, err := filepath.Glob(filepath.Join(Rocks.path(l), "*.sst"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	require.NoError(t, os.WriteFile(tables[0], make([]byte, 100), 0o644))
	s := find(t, l)
	require.Len(t, s, 2)
	require.NoError(t, s[0].Err)
	require.ErrorContains(t, s[1].Err, Rocks.path(l))
}
