package mappedfile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/logtest"
)

func TestOpenMergesDirectories(t *testing.T) {
	a := layout(t, []entry{{Name(100), 100}, {Name(300), 100}, {"notes", 3}})
	b := layout(t, []entry{{Name(200), 100}, {Name(400), 0}, {"lost+found", -1}})
	ro := layout(t, []entry{{Name(0), 100}, {Name(100), 0}})
	var log logtest.Log
	q := open(t, a, Options{
		MoreDirs: []string{b, ro, filepath.Join(a, "missing")}, ReadOnlyDirs: []string{ro + "/"},
		Logger: log.Logger(),
	})
	require.Equal(t, a, q.Dir())
	var paths []string
	for _, f := range q.Files() {
		paths = append(paths, f.Path())
	}
	require.Equal(t, []string{filepath.Join(ro, Name(0)), filepath.Join(a, Name(100)), filepath.Join(b, Name(200)), filepath.Join(a, Name(300))}, paths)
	require.Equal(t, bytes.Repeat([]byte{1}, 400), content(t, q))
	require.Equal(t, []string{filepath.Join(a, "notes")}, q.Foreign())
	require.Contains(t, log.String(), `msg="ignored foreign file" file=`+filepath.Join(a, "notes"))
	for _, path := range []string{filepath.Join(b, Name(400)), filepath.Join(ro, Name(100))} {
		require.Contains(t, log.String(), `making it" file=`+path)
		require.FileExists(t, path, "opening changes nothing")
	}
}

func TestOpenRefusesTwoOfAName(t *testing.T) {
	for name, c := range map[string]struct{ a, b []entry }{
		"both with bytes":      {[]entry{{Name(0), 100}, {Name(100), 100}}, []entry{{Name(100), 100}}},
		"of different lengths": {[]entry{{Name(0), 100}, {Name(100), 100}}, []entry{{Name(100), 10}}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := layout(t, c.a), layout(t, c.b)
			_, err := Open(a, Options{MoreDirs: []string{b}})
			var fe *FileError
			require.ErrorAs(t, err, &fe)
			require.Equal(t, int64(100), fe.Offset)
			require.ErrorContains(t, err, filepath.Join(a, Name(100)))
			require.ErrorContains(t, err, filepath.Join(b, Name(100)))
		})
	}
	dir := layout(t, []entry{{Name(0), 100}})
	require.Len(t, open(t, dir, Options{MoreDirs: []string{dir, dir + "/."}, ReadOnlyDirs: nil}).Files(), 1, "one directory named twice is one")
}

// TestFRB03EmptyLastFile and TestFRB04WrongLength over several directories.
func TestFRB03EmptyLastFile(t *testing.T) {
	a, b := layout(t, []entry{{Name(0), 100}}), layout(t, []entry{{Name(100), 0}, {"zzz", -1}})
	q := open(t, a, Options{Writable: true, MoreDirs: []string{b}})
	require.Equal(t, int64(100), q.EndOffset())
	require.NoError(t, q.Adopt(create(t, q, 100)))
	require.Equal(t, int64(200), open(t, a, Options{MoreDirs: []string{b}}).EndOffset())
}

func TestFRB04WrongLength(t *testing.T) {
	a, b := layout(t, []entry{{Name(0), 100}, {Name(200), 100}}), layout(t, []entry{{Name(100), 99}})
	for _, size := range []int64{0, 100} {
		_, err := Open(a, Options{Writable: true, FileSize: size, MoreDirs: []string{b}})
		require.EqualError(t, err, "open mapped file "+filepath.Join(b, Name(100))+": got 99 bytes, want 100 bytes")
	}
	_, err := Open(a, Options{FileSize: 200})
	require.EqualError(t, err, "open mapped file "+filepath.Join(a, Name(0))+": got 100 bytes, want 200 bytes")
	require.Len(t, names(t, a), 2)
	require.Equal(t, []string{Name(100)}, names(t, b))
}

// TestReadOnlyDirectory tries everything that changes a file.
func TestReadOnlyDirectory(t *testing.T) {
	ro := layout(t, []entry{{Name(0), 100}, {Name(100), 100}, {Name(500), 0}})
	dir := layout(t, []entry{{Name(200), 100}, {Name(300), 100}})
	q := open(t, dir, Options{Writable: true, Readahead: true, ReadOnlyDirs: []string{ro}})
	require.ErrorIs(t, q.RemoveFirst(), ErrReadOnly)
	require.ErrorContains(t, q.RemoveFirst(), filepath.Join(ro, Name(0)))
	for _, off := range []int64{0, 50, 199} {
		require.ErrorIs(t, q.Truncate(off), ErrReadOnly, off)
		require.ErrorIs(t, q.WriteAt(make([]byte, 120), off), ErrReadOnly, off)
	}
	require.Equal(t, int64(400), q.EndOffset(), "refused as a whole")
	require.Equal(t, bytes.Repeat([]byte{1}, 400), content(t, q))

	h, err := q.Files()[0].OpenFile()
	require.NoError(t, err)
	_, err = h.WriteAt([]byte("x"), 0)
	require.Error(t, err, "a descriptor for reading")
	require.NoError(t, h.Close())
	b := hold(t, q.Files()[0])
	require.Equal(t, byte(1), b[0])
	require.NotContains(t, vmFlags(t, q.Files()[0].Path()), "wr", "mapped for reading")
	q.Files()[0].Release()

	require.NoError(t, q.Truncate(250))
	require.NoError(t, q.Truncate(200))
	require.Empty(t, names(t, dir))
	require.NoError(t, q.WriteAt(make([]byte, 300), 200))
	require.Equal(t, []string{Name(200), Name(300), Name(400)}, names(t, dir))
	require.NoError(t, q.Adopt(create(t, q, 500)), "an empty file there may stay")
	require.Equal(t, []string{Name(0), Name(100), Name(500)}, names(t, ro))
	require.NoError(t, q.Sync())

	all := open(t, ro, Options{Writable: true, MoreDirs: []string{dir}, ReadOnlyDirs: []string{ro, dir}})
	_, err = all.Create(600)
	require.ErrorIs(t, err, ErrReadOnly)
	require.ErrorContains(t, err, "all directories are read-only")
}

func TestFindByTime(t *testing.T) {
	a, b := layout(t, []entry{{Name(0), 100}, {Name(200), 100}, {Name(300), 0}}), layout(t, []entry{{Name(100), 100}})
	at := time.UnixMilli(1_700_000_000_000)
	for dir, files := range map[string]map[int64]int{a: {0: 0, 200: 20, 300: 30}, b: {100: 10}} {
		for from, s := range files {
			mtime := at.Add(time.Duration(s) * time.Second)
			require.NoError(t, os.Chtimes(filepath.Join(dir, Name(from)), mtime, mtime))
		}
	}
	q := open(t, a, Options{MoreDirs: []string{b}, Writable: true})
	find := func(ms int64) int64 {
		f, ok, err := q.FindByTime(at.UnixMilli() + ms)
		require.NoError(t, err)
		require.True(t, ok)
		return f.From()
	}
	for ms, from := range map[int64]int64{-1: 0, 0: 0, 1: 100, 10_000: 100, 10_001: 200, 20_000: 200, 20_001: 200, 1e9: 200} {
		require.Equal(t, from, find(ms), ms)
	}
	require.NoError(t, q.RemoveFirst())
	require.Equal(t, int64(100), find(-1))
	require.NoError(t, os.Remove(filepath.Join(b, Name(100))))
	require.Equal(t, int64(200), find(-1), "what vanished has no time")

	_, ok, err := open(t, t.TempDir(), Options{}).FindByTime(0)
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, os.Symlink("nowhere", filepath.Join(b, Name(100))))
	_, _, err = q.FindByTime(0)
	require.ErrorContains(t, err, "list mapped files")
}
