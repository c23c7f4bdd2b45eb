package mappedfile

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/logtest"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// putFile makes a file of the given size, filled with the byte fill.
func putFile(t testing.TB, dir, name string, size int, fill byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte{fill}, size), 0o644))
}

func open(t testing.TB, dir string, o Options) *Queue {
	t.Helper()
	q, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	return q
}

// content returns the bytes of all files.
func content(t testing.TB, q *Queue) (all []byte) {
	t.Helper()
	for _, f := range q.Files() {
		b, err := f.Hold()
		require.NoError(t, err)
		all = append(all, b...)
		f.Release()
	}
	return all
}

func TestNames(t *testing.T) {
	for off, name := range map[int64]string{
		0: "00000000000000000000", 1048576: "00000000000001048576", math.MaxInt64: "09223372036854775807",
	} {
		require.Equal(t, name, Name(off))
		got, ok := ParseName(name)
		require.True(t, ok)
		require.Equal(t, off, got)
	}
	for name, s := range map[string]string{
		"short": "0000000000000000000", "long": "000000000000000000000", "letter": "0000000000000000000a", "empty": "",
		"minus": "-0000000000000000001", "plus": "+0000000000000000001", "above int64": "09223372036854775808",
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := ParseName(s)
			require.False(t, ok)
		})
	}
}

type entry struct {
	name string
	size int // -1: a directory
}

func TestOpen(t *testing.T) {
	n := Name
	for _, c := range []struct {
		name     string
		entries  []entry
		fileSize int64 // given
		wantSize int64
		min, end int64
		foreign  []string
	}{
		{name: "nothing", min: -1, end: -1},
		{name: "nothing, size given", fileSize: 100, wantSize: 100, min: -1, end: -1},
		{name: "one file of an odd size", entries: []entry{{n(0), 777}}, wantSize: 777, end: 777},
		{name: "one byte files", entries: []entry{{n(5), 1}, {n(6), 1}}, wantSize: 1, min: 5, end: 7},
		{name: "expired beginning", entries: []entry{{n(300), 100}, {n(400), 100}}, wantSize: 100, min: 300, end: 500},
		{name: "size given", entries: []entry{{n(0), 100}, {n(100), 100}}, fileSize: 100, wantSize: 100, end: 200},
		{name: "last file empty", entries: []entry{{n(0), 100}, {n(100), 0}}, wantSize: 100, end: 100},
		{name: "only file empty", entries: []entry{{n(0), 0}}, min: -1, end: -1},
		{
			name: "foreign names and directories", wantSize: 100, end: 200,
			entries: []entry{{n(0), 100}, {n(100), 100}, {n(200), -1}, {"lost+found", -1}, {".DS_Store", 7}, {"0000", 100}, {n(300) + ".bak", 0}, {"zzz", 0}},
			foreign: []string{".DS_Store", "0000", n(300) + ".bak", "zzz"},
		},
		{name: "empty last file before a directory", entries: []entry{{n(0), 100}, {n(100), 0}, {"lost+found", -1}}, wantSize: 100, end: 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := layout(t, c.entries)
			var log logtest.Log
			q := open(t, dir, Options{FileSize: c.fileSize, Logger: log.Logger()})
			require.Equal(t, dir, q.Dir())
			require.Equal(t, c.wantSize, q.FileSize())
			require.Equal(t, c.min, q.MinOffset())
			require.Equal(t, c.end, q.EndOffset())
			var foreign []string
			for _, name := range c.foreign {
				foreign = append(foreign, filepath.Join(dir, name))
				require.Contains(t, log.String(), "file="+filepath.Join(dir, name))
			}
			require.Equal(t, foreign, q.Foreign())
			for i, f := range q.Files() {
				require.Equal(t, c.min+int64(i)*c.wantSize, f.From())
				require.Equal(t, f.From()+c.wantSize, f.End())
				require.Equal(t, c.wantSize, f.Size())
				require.Equal(t, filepath.Join(dir, n(f.From())), f.Path())
			}
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, left, len(c.entries), "reading must not delete")
		})
	}
}

func layout(t *testing.T, entries []entry) string {
	t.Helper()
	dir := t.TempDir()
	for _, e := range entries {
		if e.size < 0 {
			require.NoError(t, os.Mkdir(filepath.Join(dir, e.name), 0o755))
			continue
		}
		putFile(t, dir, e.name, e.size, 1)
	}
	return dir
}

func TestOpenMissingDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	q := open(t, dir, Options{})
	require.Empty(t, q.Files())
	require.NoDirExists(t, dir)
}

func TestOpenFollowsLinks(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	putFile(t, other, "elsewhere", 100, 9)
	putFile(t, dir, Name(0), 100, 8)
	require.NoError(t, os.Symlink(filepath.Join(other, "elsewhere"), filepath.Join(dir, Name(100))))
	q := open(t, dir, Options{})
	require.Equal(t, append(bytes.Repeat([]byte{8}, 100), bytes.Repeat([]byte{9}, 100)...), content(t, q))

	require.NoError(t, os.Remove(filepath.Join(other, "elsewhere")))
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, Name(100), "a dangling link is a missing segment")
}

func TestOpenRefuses(t *testing.T) {
	n := Name
	for _, c := range []struct {
		name     string
		entries  []entry
		fileSize int64
		file     int64 // the one named
		got, txt string
	}{
		{"one of three differs", []entry{{n(0), 100}, {n(100), 100}, {n(200), 99}}, 0, 200, "99 bytes", "want 100 bytes"},
		{"first of three differs", []entry{{n(0), 50}, {n(100), 100}, {n(200), 100}}, 0, 0, "50 bytes", "want 100 bytes"},
		{"two differ, first counts", []entry{{n(0), 100}, {n(100), 200}}, 0, 100, "200 bytes", "want 100 bytes"},
		{"empty in the middle", []entry{{n(0), 100}, {n(100), 0}, {n(200), 100}}, 0, 100, "0 bytes", "want 100 bytes"},
		{"two empty at the end", []entry{{n(0), 100}, {n(100), 0}, {n(200), 0}}, 0, 100, "0 bytes", "want 100 bytes"},
		{"all but the last empty", []entry{{n(0), 0}, {n(100), 0}}, 0, 0, "0 bytes", "some bytes"},
		{"not the size given", []entry{{n(0), 100}}, 200, 0, "100 bytes", "want 200 bytes"},
		{"gap", []entry{{n(0), 100}, {n(200), 100}}, 0, 200, "", "want file " + n(100)},
		{"overlap", []entry{{n(0), 100}, {n(50), 100}}, 0, 50, "", "want file " + n(100)},
		{"misaligned", []entry{{n(150), 100}, {n(250), 100}}, 0, 150, "", "a multiple of the file size 100"},
		{"past the last position", []entry{{n(math.MaxInt64 - math.MaxInt64%100), 100}}, 0, math.MaxInt64 - math.MaxInt64%100, "", "2^63"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := layout(t, c.entries)
			_, err := Open(dir, Options{FileSize: c.fileSize})
			require.ErrorIs(t, err, ErrLayout)
			var fe *FileError
			require.ErrorAs(t, err, &fe)
			require.Equal(t, filepath.Join(dir, n(c.file)), fe.Path)
			require.Equal(t, c.file, fe.Offset)
			require.ErrorContains(t, err, fe.Path)
			require.ErrorContains(t, err, c.txt)
			require.Contains(t, fe.Got, c.got)
		})
	}
	_, err := Open(t.TempDir(), Options{FileSize: -1})
	require.ErrorContains(t, err, "file size -1")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err = Open(file, Options{})
	require.ErrorContains(t, err, file)
}

func TestFind(t *testing.T) {
	q := open(t, layout(t, []entry{{Name(300), 100}, {Name(400), 100}, {Name(500), 100}}), Options{})
	for off, from := range map[int64]int64{300: 300, 399: 300, 400: 400, 499: 400, 599: 500} {
		f, ok := q.Find(off)
		require.True(t, ok, off)
		require.Equal(t, from, f.From())
	}
	for _, off := range []int64{-1, 0, 299, 600, math.MaxInt64, math.MinInt64} {
		_, ok := q.Find(off)
		require.False(t, ok, off)
	}
	_, ok := open(t, t.TempDir(), Options{}).Find(0)
	require.False(t, ok)
}

func TestOpenKeepsNothing(t *testing.T) {
	var entries []entry
	for i := range int64(300) {
		entries = append(entries, entry{Name(i * 10), 10})
	}
	dir := layout(t, entries)
	descriptors := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(fds)
	}
	fds, regions := descriptors(), mmap.Mapped()
	q := open(t, dir, Options{Writable: true})
	require.Len(t, q.Files(), 300)
	require.Equal(t, regions, mmap.Mapped())
	require.Equal(t, fds, descriptors())
	require.Len(t, content(t, q), 3000)
	require.NoError(t, q.WriteAt([]byte("x"), 5))
	require.NoError(t, q.Sync())
	require.Equal(t, regions+300, mmap.Mapped(), "idle mappings stay")
	require.Equal(t, fds, descriptors())
	require.NoError(t, q.Close())
	require.Equal(t, regions, mmap.Mapped())
}
