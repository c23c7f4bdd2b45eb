package store

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
)

// A filler comes where a record and 8 bytes more do not fit; a record may end exactly 8 bytes before the end of a file.
func TestLogWriterRolls(t *testing.T) {
	const fileSize = 256
	tests := []struct {
		name   string
		sizes  []int32
		places []int64
		blanks map[int64]int32 // phyOffset of a filler: its size
	}{
		{"one fills the file", []int32{248, 100}, []int64{0, 256}, map[int64]int32{248: 8}},
		{"one byte too many", []int32{100, 149, 100}, []int64{0, 256, 512}, map[int64]int32{100: 156, 405: 107}},
		{"ends with the file", []int32{100, 148}, []int64{0, 100}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			w := newLogWriter(dir, fileSize)
			want := map[int64][]byte{}
			for i, size := range tt.sizes {
				at, err := w.place(size)
				require.NoError(t, err)
				require.Equal(t, tt.places[i], at)
				rec := bytes.Repeat([]byte{byte(i + 1)}, int(size))
				w.buf = append(w.buf, rec...)
				want[at] = rec
			}
			require.NoError(t, w.finish())
			require.NoError(t, w.close())
			q, err := mappedfile.Open(dir, mappedfile.Options{})
			require.NoError(t, err)
			defer q.Close()
			require.EqualValues(t, fileSize, q.FileSize())
			for at, rec := range want {
				require.Equal(t, rec, logBytes(t, dir, fileSize, at, len(rec)))
			}
			for at, size := range tt.blanks {
				got, ok := message.BlankSize(logBytes(t, dir, fileSize, at, 8))
				require.True(t, ok)
				require.Equal(t, size, got)
			}
		})
	}
}

func logBytes(t *testing.T, dir string, fileSize, at int64, n int) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, mappedfile.Name(at/fileSize*fileSize)))
	require.NoError(t, err)
	return b[at%fileSize : at%fileSize+int64(n)]
}

// More than the buffers hold arrives in order.
func TestLogWriterManyChunks(t *testing.T) {
	dir := t.TempDir()
	const fileSize, size, n = 64 << 20, 1 << 20, 40
	w := newLogWriter(dir, fileSize)
	for i := range n {
		at, err := w.place(size)
		require.NoError(t, err)
		require.EqualValues(t, i*size, at)
		w.buf = append(w.buf, bytes.Repeat([]byte{byte(i + 1)}, size)...)
	}
	require.NoError(t, w.finish())
	for i := range n {
		b := logBytes(t, dir, fileSize, int64(i)*size, size)
		require.Equal(t, byte(i+1), b[0])
		require.Equal(t, byte(i+1), b[size-1])
	}
}

// A log that cannot be written ends the writer with an error that names the place, and ends its goroutine.
func TestLogWriterFails(t *testing.T) {
	w := newLogWriter(filepath.Join(t.TempDir(), "missing"), 64<<20)
	var err error
	for range 100 {
		if _, err = w.place(1 << 20); err != nil {
			break
		}
		w.buf = append(w.buf, make([]byte, 1<<20)...)
	}
	require.ErrorContains(t, err, "write log at 0")
	require.NoError(t, w.close(), "told already")
}
