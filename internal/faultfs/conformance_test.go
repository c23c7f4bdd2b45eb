package faultfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/internal/mmap"
)

const page = faultfs.PageBytes

// bench is a filesystem under test, with a directory to work in.
type bench struct {
	mmap.FS
	t   *testing.T
	dir string
}

func (b bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b bench) open(name string, flag int) mmap.File {
	b.t.Helper()
	f, err := b.OpenFile(b.path(name), flag, 0o600)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = f.Close() })
	return f
}

// create makes a file of that content.
func (b bench) create(name, content string) mmap.File {
	b.t.Helper()
	f := b.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	b.write(f, 0, content)
	return f
}

func (b bench) write(f mmap.File, off int64, content string) {
	b.t.Helper()
	n, err := f.WriteAt([]byte(content), off)
	require.NoError(b.t, err)
	require.Equal(b.t, len(content), n)
}

func (b bench) content(f mmap.File) string {
	b.t.Helper()
	size, err := f.Size()
	require.NoError(b.t, err)
	data := make([]byte, size)
	_, err = f.ReadAt(data, 0)
	require.NoError(b.t, err)
	return string(data)
}

func (b bench) mapped(f mmap.File, size int64, writable bool) mmap.Mapping {
	b.t.Helper()
	m, err := f.Map(size, writable)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, m.Unmap()) })
	return m
}

func (b bench) names() []string {
	b.t.Helper()
	infos, err := b.ReadDir(b.dir)
	require.NoError(b.t, err)
	names := []string{}
	for _, i := range infos {
		names = append(names, i.Name())
	}
	return names
}

// TestConformance holds the filesystem of the machine and the one in memory to the same table: what a test over the one
// finds is worth something only as far as they agree.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, b bench)
	}{
		{"read and write", testReadWrite},
		{"open", testOpen},
		{"access", testAccess},
		{"mapping and file are one", testCoherence},
		{"mapping refused", testMapRefused},
		{"ranges of a mapping", testRanges},
		{"truncate", testTruncate},
		{"grow while mapped", testGrowMapped},
		{"preallocate", testPreallocate},
		{"erase", testErase},
		{"next data", testNextData},
		{"directories", testDirectories},
		{"remove while mapped", testRemoveMapped},
		{"rename", testRename},
		{"syncs", testSyncs},
		{"closed", testClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Run("os", func(t *testing.T) { c.run(t, bench{mmap.OS, t, t.TempDir()}) })
			t.Run("memory", func(t *testing.T) {
				fsys := faultfs.New(faultfs.Options{})
				fsys.MkdirAll("/a/b")
				c.run(t, bench{fsys, t, "/a/b"})
			})
		})
	}
}

func testReadWrite(t *testing.T, b bench) {
	f := b.create("f", "hello")
	require.Equal(t, b.path("f"), f.Name())
	b.write(f, 2, "LLO, file")
	b.write(f, 2*page, "far")
	size, err := f.Size()
	require.NoError(t, err)
	require.Equal(t, int64(2*page+3), size)
	require.Equal(t, "heLLO, file"+string(make([]byte, 2*page-11))+"far", b.content(f))

	buf := make([]byte, 10)
	n, err := f.ReadAt(buf, 2*page)
	require.Equal(t, 3, n)
	require.Equal(t, io.EOF, err, "and nothing around it")
	n, err = f.ReadAt(buf, 1<<20)
	require.Zero(t, n)
	require.ErrorIs(t, err, io.EOF)
	n, err = f.ReadAt(nil, 0)
	require.Zero(t, n)
	require.NoError(t, err)
	_, err = f.ReadAt(buf, -1)
	require.ErrorContains(t, err, b.path("f"))
	_, err = f.WriteAt(buf, -1)
	require.ErrorContains(t, err, b.path("f"))
	n, err = f.WriteAt(nil, 1<<20)
	require.Zero(t, n)
	require.NoError(t, err)
	size, err = f.Size()
	require.NoError(t, err)
	require.Equal(t, int64(2*page+3), size, "writing nothing does not extend")
}

func testOpen(t *testing.T, b bench) {
	_, err := b.OpenFile(b.path("f"), os.O_RDWR, 0)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, b.path("f"))
	b.create("f", "content")
	_, err = b.OpenFile(b.path("f"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	require.ErrorIs(t, err, fs.ErrExist)
	require.Equal(t, "content", b.content(b.open("f", os.O_RDWR|os.O_CREATE)))
	f := b.open("f", os.O_RDWR|os.O_TRUNC)
	require.Empty(t, b.content(f))
	_, err = b.OpenFile(b.path("none/f"), os.O_RDWR|os.O_CREATE, 0o600)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = b.OpenFile(b.path("f/f"), os.O_RDWR|os.O_CREATE, 0o600)
	require.ErrorIs(t, err, syscall.ENOTDIR)
	_, err = b.OpenFile(b.dir, os.O_RDWR, 0)
	require.ErrorIs(t, err, syscall.EISDIR)
}

func testAccess(t *testing.T, b bench) {
	b.create("f", "content")
	r, w := b.open("f", os.O_RDONLY), b.open("f", os.O_WRONLY)
	_, err := r.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, syscall.EBADF)
	require.ErrorIs(t, r.Truncate(1), syscall.EINVAL)
	require.ErrorIs(t, r.Preallocate(0, 1), syscall.EBADF)
	require.ErrorIs(t, r.Erase(0, 1), syscall.EBADF)
	require.NoError(t, r.Datasync(), "a descriptor that only reads can sync")
	_, err = r.Map(7, true)
	require.ErrorIs(t, err, fs.ErrPermission)
	_, err = w.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, syscall.EBADF)
	_, err = w.Map(7, false)
	require.ErrorIs(t, err, fs.ErrPermission)
	require.Equal(t, "content", b.content(r))
}

func testCoherence(t *testing.T, b bench) {
	f := b.create("f", string(make([]byte, 2*page+100)))
	w, r := b.mapped(f, 2*page+100, true), b.mapped(b.open("f", os.O_RDONLY), page, false)
	require.Len(t, w.Bytes(), 2*page+100)
	require.Len(t, r.Bytes(), page)
	copy(w.Bytes()[10:], "stored")
	require.Equal(t, "stored", string(r.Bytes()[10:16]), "another mapping")
	require.Equal(t, "stored", b.content(f)[10:16], "a read")
	b.write(b.open("f", os.O_WRONLY), 12, "WRITTEN")
	require.Equal(t, "stWRITTEN", string(r.Bytes()[10:19]))
	require.Equal(t, "stWRITTEN", string(w.Bytes()[10:19]))
	require.NoError(t, w.Flush(0, page))
	require.NoError(t, f.Datasync())
	require.NoError(t, f.Close())
	copy(w.Bytes()[2*page:], "the mapping does not need the descriptor")
	require.NoError(t, w.Unmap())
	require.NoError(t, w.Unmap())
	require.Nil(t, w.Bytes())
	require.Equal(t, "the mapping", b.content(b.open("f", os.O_RDONLY))[2*page:2*page+11])
	require.Equal(t, "stWRITTEN", string(r.Bytes()[10:19]))
}

func testMapRefused(t *testing.T, b bench) {
	f := b.create("f", "content")
	for _, size := range []int64{0, -1, 8, 1 << 62} {
		m, err := f.Map(size, false)
		require.ErrorContains(t, err, b.path("f"), size)
		if m != nil {
			t.Fatalf("a mapping of %d bytes", size)
		}
	}
}

func testRanges(t *testing.T, b bench) {
	f := b.create("f", string(make([]byte, 2*page+100)))
	m := b.mapped(f, 2*page+100, true)
	calls := map[string]func(off, n int64) error{
		"flush":    m.Flush,
		"advise":   func(off, n int64) error { return m.Advise(off, n, mmap.WillNeed) },
		"populate": func(off, n int64) error { return m.Advise(off, n, mmap.PopulateWrite) },
		"lock":     m.Lock,
		"unlock":   m.Unlock,
	}
	for name, call := range calls {
		for _, c := range []struct {
			off, n int64
			ok     bool
		}{
			{0, 2*page + 100, true},
			{page + 1, 10, true},
			{2*page + 100, 0, true},
			{-1, 1, false},
			{0, -1, false},
			{2*page + 99, 2, false},
			{2*page + 101, 0, false},
			{1, 1<<63 - 1, false},
		} {
			err := call(c.off, c.n)
			switch {
			case !c.ok:
				require.ErrorContains(t, err, "outside [0, 8292)", name)
				require.ErrorContains(t, err, b.path("f"), name)
			case name != "lock" && !errors.Is(err, errors.ErrUnsupported):
				require.NoError(t, err, name)
			}
		}
	}
	require.ErrorContains(t, m.Advise(0, 1, mmap.Advice(99)), "unknown advice 99")
	require.NoError(t, m.Unmap())
	for name, call := range calls {
		require.ErrorIs(t, call(0, 1), mmap.ErrUnmapped, name)
	}
}

func testTruncate(t *testing.T, b bench) {
	f := b.create("f", string(bytes.Repeat([]byte("x"), 3*page)))
	require.NoError(t, f.Truncate(page+5))
	require.Len(t, b.content(f), page+5)
	require.NoError(t, f.Truncate(2*page))
	require.Equal(t, string(bytes.Repeat([]byte("x"), page+5))+string(make([]byte, page-5)), b.content(f), "what was cut does not come back")
	require.ErrorContains(t, f.Truncate(-1), b.path("f"))
	require.NoError(t, f.Truncate(0))
	require.Empty(t, b.content(f))
}

func testGrowMapped(t *testing.T, b bench) {
	f := b.create("f", "start")
	m := b.mapped(f, 5, true)
	b.write(f, page, "later")
	big := b.mapped(f, page+5, true)
	copy(m.Bytes(), "START")
	require.Equal(t, "START", string(big.Bytes()[:5]))
	require.NoError(t, f.Truncate(8*page))
	require.Equal(t, "START", b.content(f)[:5])
}

func testPreallocate(t *testing.T, b bench) {
	f := b.create("f", "kept")
	err := f.Preallocate(2, 3*page)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this filesystem cannot reserve blocks")
	}
	require.NoError(t, err)
	require.Equal(t, "kept"+string(make([]byte, 3*page-2)), b.content(f))
	require.NoError(t, f.Preallocate(0, 10))
	require.Len(t, b.content(f), 3*page+2, "it does not cut")
	require.ErrorIs(t, f.Preallocate(-1, 10), syscall.EINVAL)
	require.ErrorIs(t, f.Preallocate(0, 0), syscall.EINVAL)
	require.ErrorContains(t, f.Preallocate(0, 1<<62), b.path("f"))
	require.Len(t, b.content(f), 3*page+2)
}

func testErase(t *testing.T, b bench) {
	const size = 3*page + 100
	for _, c := range []struct{ off, n int64 }{
		{10, 20},
		{page - 1, 2},
		{page + 5, 2 * page},
		{page, page},
		{5, size - 5},
		{0, size},
		{7, 0},
		{2 * page, 1 << 20},
		{1 << 20, 5},
	} {
		want := bytes.Repeat([]byte{0xEE}, size)
		f := b.open("f", os.O_RDWR|os.O_CREATE|os.O_TRUNC)
		b.write(f, 0, string(want))
		m := b.mapped(f, size, false)
		require.NoError(t, f.Erase(c.off, c.n))
		clear(want[min(c.off, size):min(c.off+c.n, size)])
		require.Equal(t, string(want), b.content(f), c)
		require.True(t, bytes.Equal(want, m.Bytes()), "the mapping sees it: %v", c)
		require.NoError(t, m.Unmap())
	}
	f := b.open("f", os.O_RDWR)
	require.ErrorIs(t, f.Erase(-1, 5), syscall.EINVAL)
	require.ErrorIs(t, f.Erase(0, -5), syscall.EINVAL)
}

func testNextData(t *testing.T, b bench) {
	const part = 64 << 10
	f := b.create("f", "")
	require.NoError(t, f.Truncate(10*part))
	for _, p := range []int64{2, 3, 7} {
		b.write(f, p*part, string(bytes.Repeat([]byte{1}, part)))
	}
	all := func(off int64) (ranges [][2]int64) {
		for off < 10*part {
			from, to, err := f.NextData(off)
			require.NoError(t, err)
			if from == to {
				require.Equal(t, int64(10*part), to)
				break
			}
			ranges = append(ranges, [2]int64{from, to})
			off = to
		}
		return ranges
	}
	if got := all(0); len(got) == 1 && got[0] == [2]int64{0, 10 * part} {
		t.Skip("this filesystem keeps no holes")
	}
	require.Equal(t, [][2]int64{{2 * part, 4 * part}, {7 * part, 8 * part}}, all(0))
	require.Equal(t, [][2]int64{{3*part + 5, 4 * part}, {7 * part, 8 * part}}, all(3*part+5))
	from, to, err := f.NextData(10 * part)
	require.NoError(t, err)
	require.Equal(t, [2]int64{10 * part, 10 * part}, [2]int64{from, to})

	require.NoError(t, f.Erase(2*part, part))
	if err := f.Preallocate(0, part); !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(t, err)
	}
	require.Equal(t, [][2]int64{{3 * part, 4 * part}, {7 * part, 8 * part}}, all(0), "erased and reserved are holes")
	b.write(f, 9*part, string(make([]byte, part)))
	m := b.mapped(f, 10*part, true)
	for i := range part {
		m.Bytes()[5*part+i] = 1
	}
	require.NoError(t, f.Datasync())
	require.Equal(t, [][2]int64{{3 * part, 4 * part}, {5 * part, 6 * part}, {7 * part, 8 * part}, {9 * part, 10 * part}}, all(3*part),
		"stored through a mapping is data, written zeros too (what was reserved may have become data by being read ahead)")
}

func testDirectories(t *testing.T, b bench) {
	require.Empty(t, b.names())
	for _, name := range []string{"b", "a10", "a9", "B"} {
		b.create(name, name)
	}
	require.NoError(t, b.Mkdir(b.path("a"), 0o700))
	infos, err := b.ReadDir(b.dir)
	require.NoError(t, err)
	require.Equal(t, []string{"B", "a", "a10", "a9", "b"}, b.names())
	require.True(t, infos[1].IsDir())
	require.False(t, infos[2].IsDir())
	require.Equal(t, int64(3), infos[2].Size())
	require.Equal(t, fs.FileMode(0o600), infos[2].Mode())
	require.False(t, infos[2].ModTime().IsZero())

	require.ErrorIs(t, b.Mkdir(b.path("a"), 0o700), fs.ErrExist)
	require.ErrorIs(t, b.Mkdir(b.path("b"), 0o700), fs.ErrExist)
	require.ErrorIs(t, b.Mkdir(b.path("none/x"), 0o700), fs.ErrNotExist)
	_, err = b.ReadDir(b.path("none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, b.path("none"))
	_, err = b.ReadDir(b.path("b"))
	require.ErrorIs(t, err, syscall.ENOTDIR)
	b.create("a/inner", "")
	require.ErrorIs(t, b.Remove(b.path("a")), syscall.ENOTEMPTY)
	require.NoError(t, b.Remove(b.path("a/inner")))
	require.NoError(t, b.Remove(b.path("a")))
	require.ErrorIs(t, b.Remove(b.path("a")), fs.ErrNotExist)
	require.Equal(t, []string{"B", "a10", "a9", "b"}, b.names())
	total, free, err := b.Usage(b.dir)
	require.NoError(t, err)
	require.Positive(t, free)
	require.GreaterOrEqual(t, total, free)
	_, _, err = b.Usage(b.path("none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func testRemoveMapped(t *testing.T, b bench) {
	f := b.create("f", "content")
	m := b.mapped(f, 7, true)
	require.NoError(t, b.Remove(b.path("f")))
	require.Empty(t, b.names())
	b.create("f", "another")
	require.Equal(t, "content", string(m.Bytes()))
	m.Bytes()[0] = 'C'
	require.Equal(t, "Content", b.content(f))
	require.NoError(t, m.Flush(0, 7))
	require.NoError(t, f.Datasync())
	require.Equal(t, "another", b.content(b.open("f", os.O_RDONLY)))
}

func testRename(t *testing.T, b bench) {
	f := b.create("f", "moved")
	b.create("g", "replaced")
	m := b.mapped(b.open("g", os.O_RDWR), 8, false)
	require.NoError(t, b.Rename(b.path("f"), b.path("g")))
	require.Equal(t, []string{"g"}, b.names())
	require.Equal(t, "moved", b.content(b.open("g", os.O_RDONLY)))
	require.Equal(t, "moved", b.content(f))
	require.Equal(t, "replaced", string(m.Bytes()))
	require.NoError(t, b.Rename(b.path("g"), b.path("g")))

	require.NoError(t, b.Mkdir(b.path("d"), 0o700))
	require.NoError(t, b.Rename(b.path("g"), b.path("d/g")))
	require.Equal(t, []string{"d"}, b.names())
	err := b.Rename(b.path("g"), b.path("x"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, b.path("g"))
	require.ErrorContains(t, err, b.path("x"))
	require.ErrorIs(t, b.Rename(b.path("d/g"), b.path("none/g")), fs.ErrNotExist)
	require.ErrorIs(t, b.Rename(b.path("d/g"), b.path("d")), fs.ErrExist)
	b.create("h", "")
	require.ErrorIs(t, b.Rename(b.path("d"), b.path("h")), syscall.ENOTDIR)
	require.ErrorIs(t, b.Rename(b.path("d"), b.path("d/e")), syscall.EINVAL)
	require.NoError(t, b.Rename(b.path("d"), b.path("e")))
	require.Equal(t, "moved", b.content(b.open("e/g", os.O_RDONLY)))
}

func testSyncs(t *testing.T, b bench) {
	f := b.create("f", string(make([]byte, 3*page)))
	require.NoError(t, f.Datasync())
	if err := f.StartWriteback(0, page); !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(t, err)
		require.ErrorIs(t, f.StartWriteback(-1, page), syscall.EINVAL)
	}
	require.NoError(t, f.StartWriteback(0, 0))
	require.NoError(t, b.SyncDir(b.dir))
	require.ErrorIs(t, b.SyncDir(b.path("none")), fs.ErrNotExist)
}

func testClosed(t *testing.T, b bench) {
	f := b.create("f", "content")
	require.NoError(t, f.Close())
	calls := map[string]func() error{
		"close":       f.Close,
		"size":        func() error { _, err := f.Size(); return err },
		"read":        func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		"write":       func() error { _, err := f.WriteAt(make([]byte, 1), 0); return err },
		"truncate":    func() error { return f.Truncate(1) },
		"preallocate": func() error { return f.Preallocate(0, 1) },
		"erase":       func() error { return f.Erase(0, 1) },
		"next data":   func() error { _, _, err := f.NextData(0); return err },
		"datasync":    f.Datasync,
		"writeback":   func() error { return f.StartWriteback(0, 1) },
		"map":         func() error { _, err := f.Map(1, false); return err },
	}
	for name, call := range calls {
		err := call()
		require.ErrorIs(t, err, fs.ErrClosed, name)
		require.ErrorContains(t, err, b.path("f"), name)
	}
	require.Equal(t, b.path("f"), f.Name())
}
