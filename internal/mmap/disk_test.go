package mmap

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// blockBytes returns how much of the disk a file takes.
func blockBytes(t *testing.T, f *os.File) int64 {
	t.Helper()
	st, err := f.Stat()
	require.NoError(t, err)
	return st.Sys().(*syscall.Stat_t).Blocks * 512
}

func TestPreallocate(t *testing.T) {
	f := newFile(t, []byte("kept"))
	err := Preallocate(f, 0, 256<<10)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this filesystem cannot reserve blocks")
	}
	require.NoError(t, err)
	require.GreaterOrEqual(t, blockBytes(t, f), int64(256<<10))
	b, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	require.Len(t, b, 256<<10)
	require.Equal(t, "kept\x00", string(b[:5]))

	err = Preallocate(f, -1, 10)
	require.ErrorContains(t, err, f.Name())
	require.ErrorContains(t, Preallocate(f, 0, 1<<62), "reserve 4611686018427387904 bytes", "no disk is that large")
}

func TestErase(t *testing.T) {
	const size = 300_000
	for _, c := range []struct {
		name   string
		off, n int64
	}{
		{"inside a page", 10, 20}, {"over pages", 5000, 200_000}, {"to the end", 4097, size - 4097}, {"all", 0, size}, {"nothing", 7, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := bytes.Repeat([]byte{0xEE}, size)
			f := newFile(t, want)
			r, err := Map(f, size, false)
			require.NoError(t, err)
			defer func() { require.NoError(t, r.Unmap()) }()
			require.Equal(t, byte(0xEE), r.Bytes()[c.off])
			require.NoError(t, Erase(f, c.off, c.n))
			require.NoError(t, Datasync(f))
			clear(want[c.off : c.off+c.n])
			got, err := os.ReadFile(f.Name())
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got))
			require.True(t, bytes.Equal(want, r.Bytes()), "the mapping sees it")
		})
	}
}

func TestWriteZeros(t *testing.T) { // what Erase does where no hole can be punched
	const size = 3<<20 + 17
	want := bytes.Repeat([]byte{0xEE}, size)
	f := newFile(t, want)
	require.NoError(t, writeZeros(f, 5, size-6))
	clear(want[5 : size-1])
	got, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
}

func TestNextData(t *testing.T) {
	const page, size = 64 << 10, 10 * 64 << 10
	f := newFile(t, nil)
	require.NoError(t, f.Truncate(size))
	for _, p := range []int64{2, 3, 7} {
		_, err := f.WriteAt(bytes.Repeat([]byte{1}, page), p*page)
		require.NoError(t, err)
	}
	covered := func(off int64) (ranges [][2]int64) {
		for off < size {
			from, to, err := NextData(f, off)
			require.NoError(t, err)
			require.GreaterOrEqual(t, from, off)
			if from == to {
				require.Equal(t, int64(size), to)
				break
			}
			ranges = append(ranges, [2]int64{from, to})
			off = to
		}
		return ranges
	}
	if got := covered(0); len(got) == 1 && got[0] == [2]int64{0, size} {
		t.Skip("this filesystem keeps no holes")
	}
	require.Equal(t, [][2]int64{{2 * page, 4 * page}, {7 * page, 8 * page}}, covered(0))
	require.Equal(t, [][2]int64{{3*page + 5, 4 * page}, {7 * page, 8 * page}}, covered(3*page+5))
	require.Empty(t, covered(8*page))
	from, to, err := NextData(f, size+1)
	require.NoError(t, err)
	require.Equal(t, [2]int64{size, size}, [2]int64{from, to})
}

func TestSyncs(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, SyncDir(dir))
	require.NoError(t, SyncFS(dir))
	free, err := FreeBytes(dir)
	require.NoError(t, err)
	require.Positive(t, free)

	missing := filepath.Join(dir, "missing")
	require.ErrorIs(t, SyncDir(missing), fs.ErrNotExist)
	require.ErrorIs(t, SyncFS(missing), fs.ErrNotExist)
	_, err = FreeBytes(missing)
	require.ErrorIs(t, err, fs.ErrNotExist)
	f := newFile(t, nil)
	require.NoError(t, f.Close())
	require.ErrorIs(t, Datasync(f), os.ErrClosed)
}
