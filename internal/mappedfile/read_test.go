package mappedfile

import (
	"io/fs"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// residencyFS says of the pages of its mappings what it is told to, and counts the questions.
type residencyFS struct {
	mmap.FS
	in    *atomic.Bool
	asked *atomic.Int64
}

func (r residencyFS) OpenFile(path string, flag int, perm fs.FileMode) (mmap.File, error) {
	f, err := r.FS.OpenFile(path, flag, perm)
	return residencyFile{f, r}, err
}

type residencyFile struct {
	mmap.File
	r residencyFS
}

func (f residencyFile) Map(size int64, writable bool) (mmap.Mapping, error) {
	m, err := f.File.Map(size, writable)
	return residencyMapping{m, f.r}, err
}

type residencyMapping struct {
	mmap.Mapping
	r residencyFS
}

func (m residencyMapping) Resident(off, n int64) (bool, error) {
	m.r.asked.Add(1)
	return m.r.in.Load(), nil
}

// The kernel is asked once for a piece that is in memory, again when the answer is old, and each time for one that is not.
func TestInMemory(t *testing.T) {
	r := residencyFS{FS: mmap.OS, in: new(atomic.Bool), asked: new(atomic.Int64)}
	q := open(t, t.TempDir(), Options{FS: r, Writable: true, FileSize: 1 << 20})
	require.NoError(t, q.WriteAt(make([]byte, 10), 0))
	f := q.Files()[0]
	hold(t, f)
	asks := func(off, n, nowMs int64) (bool, int64) {
		before := r.asked.Load()
		in := f.InMemory(off, n, nowMs)
		return in, r.asked.Load() - before
	}
	check := func(off, n, nowMs int64, want bool, questions int64) {
		t.Helper()
		in, asked := asks(off, n, nowMs)
		require.Equal(t, want, in)
		require.Equal(t, questions, asked)
	}
	check(100, 10, 1, false, 2)
	check(100, 10, 1, false, 2)
	r.in.Store(true)
	check(100, 10, 1, true, 1)
	check(residentPiece-1, 1, 1, true, 0)
	check(residentPiece-1, 2, 1, true, 1)
	check(0, 1<<20, 1, true, 2)
	r.in.Store(false)
	check(0, 1<<20, residentMillis, true, 0)
	check(100, 10, 3*residentMillis, false, 2)
	f.Release()
}

// The descriptor of ReadAt goes with the mapping, and so does what was known of its pages.
func TestReadAt(t *testing.T) {
	h := newHookFS(func(string, string) error { return nil })
	q := open(t, t.TempDir(), Options{FS: h, Writable: true, FileSize: 4096})
	require.NoError(t, q.WriteAt([]byte("something"), 100))
	f := q.Files()[0]
	hold(t, f)
	open := h.open.Load()
	b := make([]byte, 4)
	for range 3 {
		require.NoError(t, f.ReadAt(b, 104))
		require.Equal(t, "thin", string(b))
	}
	require.Equal(t, open+1, h.open.Load())
	require.ErrorContains(t, f.ReadAt(b, 4094), f.Path()+" at 4094")
	require.NotNil(t, f.reader.Load())
	f.Release()
	require.NoError(t, q.Close())
	require.Zero(t, h.open.Load())
	require.ErrorIs(t, f.ReadAt(b, 0), ErrClosed)
}

// Files that are mapped change at once, others when they are.
func TestSetReadahead(t *testing.T) {
	q := tenFiles(t, Options{Readahead: true})
	random := func(f *File) bool {
		hold(t, f)
		defer f.Release()
		return slices.Contains(vmFlags(t, f.Path()), "rr")
	}
	files := q.Files()
	require.False(t, random(files[3]))
	q.SetReadahead(false)
	require.True(t, random(files[3]))
	require.True(t, random(files[4]))
	require.False(t, q.Readahead())
	q.SetReadahead(true)
	require.False(t, random(files[4]))
	require.False(t, random(files[5]))
}
