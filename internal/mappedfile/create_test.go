package mappedfile

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/logtest"
	"github.com/tandemq/tandemmq/internal/mmap"
)

func create(t testing.TB, q *Queue, from int64) *File {
	t.Helper()
	f, err := q.Create(from)
	require.NoError(t, err)
	return f
}

// names returns what is in dir.
func names(t testing.TB, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestCreateAndAdopt(t *testing.T) {
	for _, allocate := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "store", "commitlog")
		q := open(t, dir, Options{Writable: true, FileSize: 1 << 20, Allocate: allocate})
		first := create(t, q, 5<<20)
		require.Empty(t, q.Files(), "no part of the queue before Adopt")
		require.NoError(t, q.Adopt(first))
		require.Equal(t, []*File{first}, q.Files())
		second, third := create(t, q, 6<<20), create(t, q, 7<<20)
		require.Equal(t, int64(6<<20), q.EndOffset())

		copy(hold(t, second), "stored ahead")
		second.Release()
		require.NoError(t, q.Adopt(second))
		require.NoError(t, q.Discard(third))
		require.Equal(t, int64(7<<20), q.EndOffset())
		require.Equal(t, []string{Name(5 << 20), Name(6 << 20)}, names(t, dir))
		_, err := third.Hold()
		require.ErrorIs(t, err, ErrRemoved)

		st, err := os.Stat(first.Path()) // before it is read: on some filesystems a page of a mapping that is read takes a block
		require.NoError(t, err)
		require.Equal(t, allocate, st.Sys().(*syscall.Stat_t).Blocks*512 >= 1<<20, "blocks of an allocated file only")

		// Neither blocks nor Adopt are content.
		want := make([]byte, 2<<20)
		copy(want[1<<20:], "stored ahead")
		require.True(t, bytes.Equal(want, content(t, q)))
		require.True(t, bytes.Equal(want, content(t, open(t, dir, Options{}))))
	}
}

// TestCreateIsDurable looks at the order of the syncs: content, then every directory that got an entry, before Create returns.
func TestCreateIsDurable(t *testing.T) {
	root := t.TempDir()
	var syncs []string
	hfs := newHookFS(func(op, path string) error {
		if op == "Datasync" || op == "SyncDir" {
			syncs = append(syncs, op+" "+strings.TrimPrefix(path, root))
		}
		return nil
	})
	q := open(t, filepath.Join(root, "a", "b"), Options{FS: hfs, Writable: true, FileSize: 100, Allocate: true})
	f := create(t, q, 0)
	require.Equal(t, []string{"Datasync /a/b/" + Name(0), "SyncDir ", "SyncDir /a", "SyncDir /a/b"}, syncs)
	syncs = nil
	require.NoError(t, q.Adopt(f))
	require.Empty(t, syncs, "Adopt does no I/O")
	f = create(t, q, 100)
	require.NoError(t, q.Discard(f))
	require.Equal(t, []string{"Datasync /a/b/" + Name(100), "SyncDir /a/b", "SyncDir /a/b"}, syncs)
	require.Zero(t, hfs.open.Load())
}

func TestW25CreateRefusesPositions(t *testing.T) {
	const size = 1000
	last := int64(math.MaxInt64/size*size - size)
	for _, from := range []int64{-1, -size, math.MinInt64, 1, 999, last + size, math.MaxInt64} {
		q := open(t, t.TempDir(), Options{Writable: true, FileSize: size})
		_, err := q.Create(from)
		require.ErrorContains(t, err, "no multiple of the file size 1000", from)
		require.Empty(t, names(t, q.Dir()))
	}
	q := open(t, t.TempDir(), Options{Writable: true, FileSize: size})
	require.NoError(t, q.Adopt(create(t, q, last)), "the last position there is")
	require.ErrorContains(t, q.WriteAt(make([]byte, size+1), last), "reach past the last file")
	require.ErrorContains(t, q.WriteAt(make([]byte, 1), last+size), "reach past the last file")
	require.NoError(t, q.WriteAt(make([]byte, size), last))
	_, ok := q.Find(math.MaxInt64)
	require.False(t, ok)
	require.NoError(t, q.Truncate(math.MaxInt64))

	e := open(t, t.TempDir(), Options{Writable: true, FileSize: size})
	require.ErrorContains(t, e.WriteAt([]byte("1"), last+size), "reach past the last file")
	require.ErrorContains(t, e.WriteAt([]byte("12"), math.MaxInt64), "reach past the last file")
	require.Empty(t, names(t, e.Dir()))
}

func TestCreateRefuses(t *testing.T) {
	q := open(t, layout(t, []entry{{Name(300), 100}}), Options{Writable: true})
	for _, from := range []int64{0, 200, 300, 500} {
		_, err := q.Create(from)
		require.ErrorContains(t, err, "is not the next one, 400", from)
	}
	f := create(t, q, 400)
	_, err := q.Create(400)
	require.ErrorContains(t, err, "is not the next one, 500", "made already")
	require.ErrorContains(t, q.WriteAt([]byte("1"), 400), "made ahead")
	require.ErrorContains(t, q.Truncate(350), "made ahead")
	require.NoError(t, q.WriteAt([]byte("1"), 399))

	next := create(t, q, 500)
	require.ErrorContains(t, q.Adopt(next), "not the next file made")
	require.ErrorContains(t, q.Discard(f), "not the last file made")
	require.NoError(t, q.Adopt(f))
	require.ErrorContains(t, q.Adopt(f), "not the next file made")
	require.ErrorContains(t, q.Discard(f), "not the last file made")
	require.NoError(t, q.Discard(next))
	require.ErrorContains(t, q.Discard(next), "not the last file made")

	f = create(t, q, 500)
	require.NoError(t, q.Close())
	_, err = q.Create(600)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, q.Adopt(f), ErrClosed)
	require.ErrorIs(t, q.Discard(f), ErrClosed)
	_, err = f.Hold()
	require.ErrorIs(t, err, ErrClosed)

	r := open(t, q.Dir(), Options{})
	_, err = r.Create(600)
	require.ErrorIs(t, err, ErrReadOnly)
	_, err = open(t, t.TempDir(), Options{Writable: true}).Create(0)
	require.ErrorContains(t, err, "no file size was given")

	putFile(t, q.Dir(), Name(600), 7, 7)
	n := open(t, layout(t, nil), Options{Writable: true, FileSize: 100})
	putFile(t, n.Dir(), Name(0), 7, 7)
	_, err = n.Create(0)
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, Name(0)+": file already exists with 7 bytes")
	require.Equal(t, []string{Name(0)}, names(t, n.Dir()), "somebody else's file stays")
}

// TestFRA11NothingHalfMadeStays lets each step of making a file fail with a full disk.
func TestFRA11NothingHalfMadeStays(t *testing.T) {
	for _, op := range []string{"Mkdir", "OpenFile", "Truncate", "Preallocate", "Datasync", "SyncDir"} {
		t.Run(op, func(t *testing.T) {
			failing := true
			hfs := newHookFS(func(o, path string) error {
				if failing && o == op {
					failing = op == "Truncate" // the cut fails as well
					return &fs.PathError{Op: "fake", Path: path, Err: syscall.ENOSPC}
				}
				return nil
			})
			regions := mmap.Mapped()
			dir := filepath.Join(t.TempDir(), "commitlog")
			q := open(t, dir, Options{FS: hfs, Writable: true, FileSize: 4096, Allocate: true})
			_, err := q.Create(0)
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.ErrorContains(t, err, dir)
			require.Empty(t, names(t, dir))
			require.Zero(t, hfs.open.Load())
			require.Equal(t, regions, mmap.Mapped())

			failing = false
			f, again := q.Create(0)
			if op == "SyncDir" {
				require.ErrorIs(t, again, err, "a failed sync of a directory sticks")
				require.ErrorIs(t, q.WriteAt([]byte("1"), 0), err)
				return
			}
			require.NoError(t, again, "there is room again")
			require.NoError(t, q.Adopt(f))
		})
	}
}

// TestFRA11LeftoverIsCut fails to reserve and then to unlink: what stays is empty, ignored, and taken away later.
func TestFRA11LeftoverIsCut(t *testing.T) {
	failing := true
	hfs := newHookFS(func(op, _ string) error {
		if failing && (op == "Preallocate" || op == "Remove") {
			return syscall.EIO
		}
		return nil
	})
	dir, full := t.TempDir(), false
	o := Options{
		FS: hfs, Writable: true, FileSize: 4096, Allocate: true, MoreDirs: []string{dir + ".more"},
		DirFull: func(d string) bool { return full && d == dir },
	}
	q := open(t, dir, o)
	_, err := q.Create(0)
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, []string{Name(0)}, names(t, dir))
	require.Empty(t, open(t, dir, o).Files())

	failing, full = false, true
	f := create(t, q, 0)
	require.Equal(t, filepath.Join(dir+".more", Name(0)), f.Path())
	require.Empty(t, names(t, dir), "no second file of that name")
}

func TestCreateWithoutReservation(t *testing.T) {
	hfs := newHookFS(func(op, _ string) error {
		if op == "Preallocate" {
			return errors.ErrUnsupported
		}
		return nil
	})
	var log logtest.Log
	q := open(t, t.TempDir(), Options{
		FS: hfs, Writable: true, FileSize: 1 << 20, Allocate: true, Logger: log.Logger(),
	})
	for i := range int64(3) {
		f := create(t, q, i<<20)
		require.NoError(t, q.Adopt(f))
		st, err := os.Stat(f.Path())
		require.NoError(t, err)
		require.Equal(t, int64(1<<20), st.Size())
		require.Less(t, st.Sys().(*syscall.Stat_t).Blocks, int64(100), "nothing is written instead")
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"), "logged once: %s", log.String())
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), Name(0))
}

func TestDiscardTriesAgain(t *testing.T) {
	var failing error
	hfs := newHookFS(func(op, _ string) error {
		if op == "Remove" {
			return failing
		}
		return nil
	})
	q := open(t, t.TempDir(), Options{FS: hfs, Writable: true, FileSize: 100})
	f := create(t, q, 0)
	b := hold(t, f)
	failing = syscall.EPERM
	require.ErrorIs(t, q.Discard(f), syscall.EPERM)
	hold(t, f)
	f.Release()
	failing = nil
	require.NoError(t, q.Discard(f))
	require.Equal(t, make([]byte, 100), b, "a holder keeps the bytes")
	f.Release()
	require.Empty(t, names(t, q.Dir()))
	require.NoError(t, q.Adopt(create(t, q, 0)))
}

// TestCloseDuringCreate closes the queue while a file is being made.
func TestCloseDuringCreate(t *testing.T) {
	var q *Queue
	hfs := newHookFS(func(op, _ string) error {
		if op == "Preallocate" {
			return q.Close()
		}
		return nil
	})
	q = open(t, t.TempDir(), Options{FS: hfs, Writable: true, FileSize: 100, Allocate: true})
	_, err := q.Create(0)
	require.ErrorIs(t, err, ErrClosed)
	require.Empty(t, names(t, q.Dir()))
	require.Zero(t, hfs.open.Load())
}

// TestCreateHindersNobody calls everything else while a file is being made.
func TestCreateHindersNobody(t *testing.T) {
	var q *Queue
	var during func()
	hfs := newHookFS(func(op, path string) error {
		if op == "Preallocate" && filepath.Base(path) == Name(300) {
			during()
		}
		return nil
	})
	q = open(t, layout(t, []entry{{Name(0), 100}, {Name(100), 100}}), Options{FS: hfs, Writable: true, Allocate: true})
	ahead := create(t, q, 200)
	during = func() {
		_, err := q.Create(300)
		require.ErrorContains(t, err, "being made by another call")
		require.ErrorContains(t, q.Discard(ahead), "not the last file made")
		require.NoError(t, q.Adopt(ahead))
		require.NoError(t, q.WriteAt([]byte("1"), 200))
		require.NoError(t, q.Sync())
		require.NoError(t, q.RemoveFirst())
		require.ErrorContains(t, q.Truncate(150), "made ahead")
	}
	f := create(t, q, 300)
	require.NoError(t, q.Adopt(f))
	require.Equal(t, int64(100), q.MinOffset())
	require.Equal(t, int64(400), q.EndOffset())
}

// TestW39OneFilePerPosition makes files while directories become full and leftovers lie about.
func TestW39OneFilePerPosition(t *testing.T) {
	root := t.TempDir()
	dirs := []string{filepath.Join(root, "a"), filepath.Join(root, "b"), filepath.Join(root, "c")}
	full := map[string]bool{}
	failSync := ""
	hfs := newHookFS(func(op, path string) error {
		if op == "Datasync" && failSync != "" && strings.HasPrefix(path, failSync) {
			return syscall.ENOSPC
		}
		return nil
	})
	o := Options{
		FS: hfs, Writable: true, FileSize: 100, MoreDirs: []string{dirs[2], dirs[0], dirs[2] + "/"},
		DirFull: func(dir string) bool { return full[dir] },
	}
	q := open(t, dirs[1], o)
	in := func(f *File) string { return filepath.Base(filepath.Dir(f.Path())) }
	var got []string
	for i := range int64(6) {
		switch i {
		case 3:
			full[dirs[0]] = true // the candidates are b, c: 3 mod 2
		case 4: // the first try in b fails, b becomes full, a second one goes elsewhere
			failSync = dirs[1]
			_, err := q.Create(400)
			require.ErrorIs(t, err, syscall.ENOSPC)
			failSync, full[dirs[1]] = "", true
		case 5: // all are full: all are candidates. Leftovers of the name in all of them
			full[dirs[2]] = true
			for _, dir := range dirs {
				putFile(t, dir, Name(500), 0, 0)
			}
		}
		f := create(t, q, i*100)
		require.NoError(t, q.Adopt(f))
		got = append(got, in(f))
	}
	require.Equal(t, []string{"a", "b", "c", "c", "c", "c"}, got)
	seen := slices.Concat(names(t, dirs[0]), names(t, dirs[1]), names(t, dirs[2]))
	slices.Sort(seen)
	require.Equal(t, []string{Name(0), Name(100), Name(200), Name(300), Name(400), Name(500)}, seen)
	require.Equal(t, int64(600), open(t, dirs[0], Options{MoreDirs: dirs[1:]}).EndOffset())

	putFile(t, dirs[1], Name(600), 100, 1)
	_, err := q.Create(600) // 6 mod 3: goes into a
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, filepath.Join(dirs[1], Name(600)))
	require.NotContains(t, names(t, dirs[0]), Name(600))
}

// TestW39ConcurrentRequests asks for the same file from several goroutines.
func TestW39ConcurrentRequests(t *testing.T) {
	q := open(t, t.TempDir(), Options{Writable: true, FileSize: 100, MoreDirs: []string{t.TempDir()}})
	for i := range int64(20) {
		var wg sync.WaitGroup
		made := make(chan *File, 4)
		for range 4 {
			wg.Go(func() {
				if f, err := q.Create(i * 100); err == nil {
					made <- f
				}
			})
		}
		wg.Wait()
		require.Len(t, made, 1)
		require.NoError(t, q.Adopt(<-made))
	}
}
