//go:build cgo

package rocks

import (
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
