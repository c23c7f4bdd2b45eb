package commitlog

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// coldFS is the machine's filesystem with nothing of it in memory, as far as that is asked for.
type coldFS struct {
	mmap.FS
	reads, open *atomic.Int64 // ReadAt calls; open files
	fail        *atomic.Pointer[error]
}

func newColdFS() coldFS {
	return coldFS{FS: mmap.OS, reads: new(atomic.Int64), open: new(atomic.Int64), fail: new(atomic.Pointer[error])}
}

func (c coldFS) OpenFile(path string, flag int, perm fs.FileMode) (mmap.File, error) {
	f, err := c.FS.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &coldFile{f, c}, nil
}

type coldFile struct {
	mmap.File
	c coldFS
}

func (f *coldFile) Close() error {
	f.c.open.Add(-1)
	return f.File.Close()
}

func (f *coldFile) ReadAt(b []byte, off int64) (int, error) {
	f.c.reads.Add(1)
	if err := f.c.fail.Load(); err != nil {
		return 0, *err
	}
	return f.File.ReadAt(b, off)
}

func (f *coldFile) Map(size int64, writable bool) (mmap.Mapping, error) {
	m, err := f.File.Map(size, writable)
	if err != nil {
		return nil, err
	}
	return coldMapping{m}, nil
}

type coldMapping struct{ mmap.Mapping }

func (coldMapping) Resident(int64, int64) (bool, error) { return false, nil }

func openCold(t *testing.T, b *builder) (*Log, coldFS) {
	t.Helper()
	c := newColdFS()
	l, err := Open(b.write(), Options{FS: c})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		require.Zero(t, c.open.Load(), "a file is still open")
	})
	return l, c
}

// selectCold reads a record and compares it with what was put.
func selectCold(t *testing.T, l *Log, b *builder, i, body int, h *Held, want bool) []byte {
	t.Helper()
	p, cold, err := l.SelectCold(b.records[i], b.sizes[i], h)
	require.NoError(t, err)
	require.Equal(t, want, cold)
	require.Len(t, p, int(b.sizes[i]))
	require.Equal(t, len(p), cap(p))
	var r message.Record
	require.NoError(t, r.Decode(p, true))
	require.Equal(t, b.records[i], r.PhyOffset)
	require.Equal(t, testMessage(b.records[i], body).Body, r.Body)
	return p
}

// What is not in memory is read from the files, many records at once, and each stays as it is until it is released.
func TestSelectColdReadsTheFile(t *testing.T) {
	const body = 1000
	b := newBuilder(t, 256<<10, 0)
	for range 300 {
		b.add(body)
	}
	l, c := openCold(t, b)
	var h Held
	var first []byte
	for i := range b.records {
		p := selectCold(t, l, b, i, body, &h, true)
		if i == 0 {
			first = p
		}
	}
	perPiece := coldPiece / int64(b.sizes[0])
	require.LessOrEqual(t, c.reads.Load(), int64(len(b.records))/perPiece+2)
	require.Greater(t, c.reads.Load(), int64(1))
	var r message.Record
	require.NoError(t, r.Decode(first, true))
	require.Equal(t, b.records[0], r.PhyOffset, "memory of a record that is held was used again")
	h.Release()

	// A scan back and forth finds what it had.
	for _, i := range []int{299, 0, 150, 149, 151, 0} {
		selectCold(t, l, b, i, body, &h, true)
	}
	h.Release()
}

// Without reading ahead nothing is read but what is asked for, and a record longer than a piece is read as a whole.
func TestSelectColdReadsNoMore(t *testing.T) {
	b := newBuilder(t, 1<<20, 0)
	b.add(1000, 1000, 300_000, 1000)
	l, c := openCold(t, b)
	l.SetReadahead(false)
	var h Held
	defer h.Release()
	selectCold(t, l, b, 0, 1000, &h, true)
	selectCold(t, l, b, 1, 1000, &h, true)
	require.EqualValues(t, 2, c.reads.Load())
	selectCold(t, l, b, 2, 300_000, &h, true)
	selectCold(t, l, b, 3, 1000, &h, true)
	require.EqualValues(t, 4, c.reads.Load())
	l.SetReadahead(true)
	selectCold(t, l, b, 2, 300_000, &h, true)
	require.EqualValues(t, 5, c.reads.Load())
}

// What is in memory comes from the mapping.
func TestSelectColdOfWhatIsInMemory(t *testing.T) {
	b := newBuilder(t, 64<<10, 0)
	b.add(1000, 1000)
	l := b.open() // just written, so it is in the page cache
	var h Held
	defer h.Release()
	p := selectCold(t, l, b, 1, 1000, &h, false)
	mapped, err := l.Select(b.records[1], b.sizes[1], &h)
	require.NoError(t, err)
	require.Same(t, &mapped[0], &p[0])
}

// An error of the disk is an error that names the file and the place, and holds nothing.
func TestSelectColdReadError(t *testing.T) {
	b := newBuilder(t, 64<<10, 0)
	b.add(1000, 1000)
	l, c := openCold(t, b)
	broken := errors.New("input/output error")
	c.fail.Store(&broken)
	var h Held
	_, cold, err := l.SelectCold(b.records[1], b.sizes[1], &h)
	require.ErrorIs(t, err, broken)
	require.True(t, cold)
	require.ErrorContains(t, err, b.path(l.Dir(), 0))
	require.ErrorContains(t, err, "at 1")
	h.Release()

	_, _, err = l.SelectCold(1<<40, 10, &h)
	var gone *RangeError
	require.ErrorAs(t, err, &gone)
	c.fail.Store(nil)
	selectCold(t, l, b, 1, 1000, &h, true)
	h.Release()
}

// The memory comes from a pool and goes back into it.
func TestSelectColdMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools now and then")
	}
	b := newBuilder(t, 256<<10, 0)
	for range 100 {
		b.add(1000)
	}
	l, _ := openCold(t, b)
	var h Held
	one := func() {
		for i := range b.records {
			if _, _, err := l.SelectCold(b.records[i], b.sizes[i], &h); err != nil {
				t.Fatal(err)
			}
		}
		h.Release()
	}
	one()
	require.Less(t, testing.AllocsPerRun(100, one), 0.5)
}

func TestBufferClasses(t *testing.T) {
	for n, class := range map[int64]int{1: 0, coldPiece: 0, coldPiece + 1: 1, 2 * coldPiece: 1, 2*coldPiece + 1: 2, 4 * coldPiece: 2, coldPiece << 7: 7, coldPiece<<7 + 1: 8} {
		require.Equal(t, class, bufferClass(n), "%d", n)
		b := getBuffer(n)
		require.GreaterOrEqual(t, int64(len(*b)), n)
		putBuffer(b)
	}
}
