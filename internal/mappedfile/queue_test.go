package mappedfile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// putFile makes a file of the given size, filled with the byte fill.
func putFile(t *testing.T, dir, name string, size int, fill byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte{fill}, size), 0o644))
}

func open(t *testing.T, dir string, o Options) *Queue {
	t.Helper()
	q, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	return q
}

func TestNames(t *testing.T) {
	require.Equal(t, "00000000000000000000", Name(0))
	require.Equal(t, "00000000000001048576", Name(1048576))
	off, ok := ParseName("00000000000001048576")
	require.True(t, ok)
	require.Equal(t, int64(1048576), off)
	for name, s := range map[string]string{
		"short": "0000000000000000000", "long": "000000000000000000000", "letters": "0000000000000000000a", "empty": "",
		"sign": "-0000000000000000001", "plus": "+0000000000000000001", "above int64": "09223372036854775808",
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := ParseName(s)
			require.False(t, ok)
		})
	}
}

func TestWriteReadBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "topic", "0")
	q := open(t, dir, Options{Writable: true, FileSize: 1000})
	require.Equal(t, int64(-1), q.MinOffset())
	want := make([]byte, 2500)
	for i := range want {
		want[i] = byte(i*7 + 1)
	}
	require.NoError(t, q.WriteAt(want, 3000)) // first file is 3000, rolls twice
	require.NoError(t, q.Sync())
	require.Equal(t, int64(3000), q.MinOffset())
	require.Equal(t, int64(6000), q.EndOffset())

	r := open(t, dir, Options{})
	require.Equal(t, int64(1000), r.FileSize())
	var got []byte
	for _, f := range r.Files() {
		b, err := f.Hold()
		require.NoError(t, err)
		got = append(got, b...)
		f.Release()
	}
	require.Equal(t, append(want, make([]byte, 500)...), got)
}
