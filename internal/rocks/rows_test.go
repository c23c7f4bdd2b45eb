//go:build cgo

package rocks

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRowsBefore compares with a search through a list, for buffers of all sizes, across memtable and tables.
func TestRowsBefore(t *testing.T) {
	db := openTest(t, t.TempDir(), testOptions())
	var keys []string
	for i := range 300 {
		keys = append(keys, fmt.Sprintf("%c@%03d", 'a'+i%3, i))
	}
	keys = append(keys, "b", "b@", "b@zz", "c")
	b := db.NewBatch()
	for i, k := range keys {
		b.Put(Units, []byte(k), bytes.Repeat([]byte{byte(i)}, i%40))
		if i == 150 {
			require.NoError(t, db.Write(b, false))
			require.NoError(t, db.Flush())
			b.Reset()
		}
	}
	require.NoError(t, db.Write(b, false))
	value := map[string]int{}
	for i, k := range keys {
		value[k] = i
	}
	slices.Sort(keys)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		before, prefix := keys[rnd.IntN(len(keys))], []string{"a@", "b@", "b@1", "c@", "", "x"}[rnd.IntN(6)]
		if rnd.IntN(3) == 0 {
			before += "x"
		}
		var want, got []string
		for i := len(keys) - 1; i >= 0; i-- {
			if keys[i] >= before {
				continue
			}
			want = append(want, keys[i])
			if !bytes.HasPrefix([]byte(keys[i]), []byte(prefix)) {
				break
			}
		}
		buf := make([]byte, 60+rnd.IntN(2000))
		for from := []byte(before); ; {
			rows, err := db.RowsBefore(Units, from, []byte(prefix), buf)
			require.NoError(t, err)
			for k, v := range rows.All() {
				got, from = append(got, string(k)), slices.Clone(k)
				if bytes.HasPrefix(k, []byte(prefix)) {
					require.Equal(t, bytes.Repeat([]byte{byte(value[string(k)])}, value[string(k)]%40), v)
				} else {
					require.Empty(t, v)
				}
			}
			if !rows.More {
				break
			}
		}
		require.Equal(t, want, got, "before %q, prefix %q", before, prefix)
	}
	rows, err := db.RowsBefore(Units, []byte("z"), nil, nil)
	require.NoError(t, err)
	require.Empty(t, rows.b)

	b.Reset()
	b.Put(Units, []byte("a@000"), make([]byte, 1<<20)) // no buffer has room for it
	require.NoError(t, db.Write(b, false))
	rows, err = db.RowsBefore(Units, []byte("a@003x"), []byte("a@"), make([]byte, 100))
	require.NoError(t, err)
	require.False(t, rows.More && len(rows.b) == 0)
	rows, err = db.RowsBefore(Units, []byte("a@001"), []byte("a@"), make([]byte, 100))
	require.NoError(t, err)
	require.Empty(t, rows.b)
}

// TestIndexFamilies: a database of an index has the families that RocketMQ opens it with, and no other.
func TestIndexFamilies(t *testing.T) {
	dir := t.TempDir()
	o := testOptions()
	o.Families = IndexFamilies
	for range 2 {
		db, err := Open(dir, o)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"default", "timer", "trans"}, db.Families())
		b := db.NewBatch()
		b.Put(Units, []byte("k"), []byte("v"))
		require.NoError(t, db.Write(b, false))
		require.NoError(t, db.Flush())
		_, found, err := db.Get(Offsets, []byte("k"))
		require.NoError(t, err)
		require.False(t, found)
		require.NoError(t, db.Close())
	}
	o.Families = "other"
	require.ErrorContains(t, o.Validate(), `unknown set of families "other"`)
}
