//go:build cgo

package rocks

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScanNamed(t *testing.T) {
	db, err := Open(t.TempDir(), testOptions())
	require.NoError(t, err)
	b := db.NewBatch()
	b.Put(Units, []byte("a"), []byte("1"))
	b.Put(Offsets, []byte("b"), []byte("2"))
	b.Put(Offsets, []byte("c"), []byte("3"))
	require.NoError(t, db.Write(b, false))
	rows := func(family, start string) (out []string) {
		require.NoError(t, db.ScanNamed(family, []byte(start), func(key, value []byte) bool {
			out = append(out, string(key)+string(value))
			return true
		}))
		return out
	}
	require.Equal(t, []string{"a1"}, rows("default", ""))
	require.Equal(t, []string{"c3"}, rows("offset", "c"))
	require.Empty(t, rows("nobody's", ""))
	require.NoError(t, db.Close())
	require.ErrorIs(t, db.ScanNamed("default", nil, nil), ErrClosed)
	require.ErrorIs(t, db.ScanNamed("nobody's", nil, nil), ErrClosed)
}

// Issue 9 part 10: what WriteNamed wrote is there after a kill, all of one call or nothing of it.
func TestWriteNamedIsDurable(t *testing.T) {
	for _, families := range []FamilySet{TableFamilies, GroupFamilies, ConfigFamilies} {
		t.Run(string(families), func(t *testing.T) {
			dir := t.TempDir()
			db := openTest(t, dir, ConfigOptions(families))
			other := families.names()[len(families.names())-1]
			require.ElementsMatch(t, append([]string{"default"}, families.names()...), db.Families())
			require.NoError(t, db.WriteNamed([]NamedRow{
				{"default", []byte("a"), []byte("1")}, {"default", []byte("b"), []byte("2")}, {other, []byte("v"), []byte("7")},
			}))
			require.NoError(t, db.WriteNamed([]NamedRow{{Family: "default", Key: []byte("a")}, {other, []byte("v"), []byte("8")}}))
			require.ErrorContains(t, db.WriteNamed([]NamedRow{{"default", []byte("c"), []byte("3")}, {"nobody's", []byte("x"), []byte("y")}}), `no family "nobody's"`)

			killed := filepath.Join(t.TempDir(), "copy") // nothing of the process's memory is in it
			require.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
			for _, open := range []func(string, Options) (*DB, error){OpenReadOnly, Open} {
				again, err := open(killed, ConfigOptions(families))
				require.NoError(t, err)
				var got []string
				for _, family := range again.Families() {
					require.NoError(t, again.ScanNamed(family, nil, func(key, value []byte) bool {
						got = append(got, family+" "+string(key)+string(value))
						return true
					}))
				}
				require.ElementsMatch(t, []string{"default b2", other + " v8"}, got)
				if again.ReadOnly() {
					require.ErrorIs(t, again.WriteNamed(nil), ErrReadOnly)
				}
				require.NoError(t, again.Close())
			}
		})
	}
}
