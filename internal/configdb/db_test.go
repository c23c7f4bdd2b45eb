//go:build cgo

package configdb

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/rocks"
)

func rows(words ...string) map[string][]byte {
	m := map[string][]byte{}
	for i := 0; i < len(words); i += 2 {
		m[words[i]] = []byte(words[i+1])
	}
	return m
}

// A database holds what was written last and nothing else, in either form, after a kill too; tables do not touch one another.
func TestTablesAreHeldAsTheyWereWritten(t *testing.T) {
	for _, form := range []Form{Separate, Single} {
		t.Run(string(form), func(t *testing.T) {
			config := t.TempDir()
			there, err := Exists(config, form)
			require.NoError(t, err)
			require.False(t, there)
			db, err := Open(config, form)
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			for _, table := range Tables() {
				c, err := db.Read(table)
				require.NoError(t, err)
				require.Equal(t, Content{Rows: rows(), Forbidden: rows()}, c)
			}
			topics := Content{Version: []byte("v1"), Rows: rows("a", "1", "b", "2", "gone", "3")}
			groups := Content{Version: []byte("w1"), Rows: rows("g", "1"), Forbidden: rows("g", "x", "h", "y")}
			offsets := Content{Version: []byte("x1"), Rows: rows("a@g", "5")}
			for table, c := range map[Table]Content{Topics: topics, Groups: groups, Offsets: offsets} {
				require.NoError(t, db.Write(table, c))
			}
			topics = Content{Version: []byte("v2"), Rows: rows("a", "1", "b", "22", "new", "4")}
			groups = Content{Version: []byte("w2"), Rows: rows("g", "1"), Forbidden: rows("h", "z")}
			require.NoError(t, db.Write(Topics, topics))
			require.NoError(t, db.Write(Groups, groups))
			topics.Forbidden, offsets.Forbidden = rows(), rows()

			killed := filepath.Join(t.TempDir(), "copy")
			require.NoError(t, os.CopyFS(killed, os.DirFS(config)))
			there, err = Exists(killed, form)
			require.NoError(t, err)
			require.True(t, there)
			again, err := OpenReadOnly(killed, form)
			require.NoError(t, err)
			defer func() { require.NoError(t, again.Close()) }()
			for table, want := range map[Table]Content{Topics: topics, Groups: groups, Offsets: offsets} {
				got, err := again.Read(table)
				require.NoError(t, err)
				require.Equal(t, want, got, NamesOf(form, table).Dir)
			}
			require.ErrorIs(t, again.Write(Topics, Content{Rows: rows("x", "y")}), rocks.ErrReadOnly)
		})
	}
}

func TestReadOnlyMakesNothing(t *testing.T) {
	config := t.TempDir()
	db, err := OpenReadOnly(config, Separate)
	require.NoError(t, err)
	c, err := db.Read(Offsets)
	require.NoError(t, err)
	require.Empty(t, c.Rows)
	require.ErrorIs(t, db.Write(Offsets, Content{Rows: rows("a", "b")}), rocks.ErrReadOnly)
	require.NoError(t, db.Close())
	entries, err := os.ReadDir(config)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// A database that is damaged names its directory, and no rebuilding from the log, which does not hold what was in it.
func TestADamagedDatabaseIsNamed(t *testing.T) {
	config := t.TempDir()
	db, err := Open(config, Separate)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.NoError(t, os.WriteFile(filepath.Join(config, "topics", "CURRENT"), []byte("nothing\n"), 0o644))
	_, err = Open(config, Separate)
	require.ErrorContains(t, err, filepath.Join(config, "topics"))
	require.NotContains(t, err.Error(), "CommitLog")
}
