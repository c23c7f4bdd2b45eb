package mappedfile

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// TestW33HeldBytesStay holds each file while it is removed in every way there is. No call unmaps a held file.
func TestW33HeldBytesStay(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, q *Queue){
		"RemoveFirst": func(t *testing.T, q *Queue) {
			for range 9 {
				require.NoError(t, q.RemoveFirst())
			}
		},
		"Truncate": func(t *testing.T, q *Queue) { require.NoError(t, q.Truncate(0)) },
		"Close":    func(t *testing.T, q *Queue) { require.NoError(t, q.Close()) },
		"eviction": func(t *testing.T, _ *Queue) {
			limit(t, 1)
			for _, f := range tenFiles(t, Options{}).Files() {
				_, err := f.Hold()
				require.ErrorIs(t, err, ErrLimit, "held files are not pushed out")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			regions, lingering := mmap.Mapped(), Lingering()
			q := tenFiles(t, Options{Writable: true})
			files := q.Files()
			var held [][]byte
			for _, f := range files {
				held = append(held, hold(t, f))
			}
			end(t, q)
			for i, f := range files {
				require.Equal(t, bytes.Repeat([]byte{byte(i + 1)}, 100), held[i])
				f.Release()
			}
			require.NoError(t, q.Close())
			require.Equal(t, regions, mmap.Mapped())
			require.Equal(t, lingering, Lingering())
		})
	}
}

// TestW34RemoveFirstReportsFailedUnlink keeps a file that cannot be unlinked, says so, and tries again.
func TestW34RemoveFirstReportsFailedUnlink(t *testing.T) {
	var failing error
	hfs := newHookFS(func(op, path string) error {
		if op == "Remove" && failing != nil {
			return &fs.PathError{Op: "remove", Path: path, Err: failing}
		}
		return nil
	})
	q := tenFiles(t, Options{FS: hfs, Writable: true})
	first := q.Files()[0]
	failing = syscall.EACCES
	for range 2 {
		err := q.RemoveFirst()
		require.ErrorIs(t, err, syscall.EACCES)
		require.ErrorContains(t, err, first.Path())
		require.Equal(t, int64(0), q.MinOffset())
		f, ok := q.Find(50)
		require.True(t, ok)
		require.Equal(t, byte(1), hold(t, f)[50], "it is whole")
		f.Release()
		require.False(t, f.ending.Load())
	}
	failing = nil
	require.NoError(t, q.RemoveFirst(), "no error sticks")
	require.Equal(t, int64(100), q.MinOffset())
	require.NoFileExists(t, first.Path())
	_, err := first.Hold()
	require.ErrorIs(t, err, ErrRemoved)
	failing = fs.ErrNotExist
	require.NoError(t, q.RemoveFirst(), "gone already is gone")
	require.Equal(t, int64(200), q.MinOffset())
}

func TestRemoveFirst(t *testing.T) {
	var syncs []string
	var failing error
	hfs := newHookFS(func(op, path string) error {
		if op == "Remove" || op == "SyncDir" {
			syncs = append(syncs, op+" "+path)
		}
		if op == "SyncDir" {
			return failing
		}
		return nil
	})
	q := open(t, layout(t, []entry{{Name(300), 100}, {Name(400), 100}, {Name(500), 100}}), Options{FS: hfs, Writable: true})
	require.NoError(t, q.RemoveFirst())
	require.Equal(t, []string{"Remove " + filepath.Join(q.Dir(), Name(300)), "SyncDir " + q.Dir()}, syncs)
	failing = syscall.EIO
	err := q.RemoveFirst()
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, int64(500), q.MinOffset(), "it is unlinked, so it is none of ours")
	failing = nil
	require.ErrorIs(t, q.RemoveFirst(), err, "later removals could outlive this one")
	require.ErrorIs(t, q.WriteAt([]byte("1"), 500), err)

	one := open(t, q.Dir(), Options{Writable: true})
	require.ErrorContains(t, one.RemoveFirst(), Name(500)+" is the only one")
	require.ErrorContains(t, open(t, t.TempDir(), Options{Writable: true}).RemoveFirst(), "there is none")
	require.ErrorIs(t, open(t, q.Dir(), Options{}).RemoveFirst(), ErrReadOnly)
	require.NoError(t, one.Close())
	require.ErrorIs(t, one.RemoveFirst(), ErrClosed)
}

// TestFRC06HeldFileDelaysItsOwnUnmapping holds one of the files that are removed.
func TestFRC06HeldFileDelaysItsOwnUnmapping(t *testing.T) {
	regions, lingering := mmap.Mapped(), Lingering()
	q := tenFiles(t, Options{Writable: true})
	require.Len(t, content(t, q), 1000) // all are mapped
	held := q.Files()[1]
	b := hold(t, held)
	for range 5 {
		require.NoError(t, q.RemoveFirst())
	}
	require.Len(t, names(t, q.Dir()), 5, "its name is gone as well")
	require.Equal(t, regions+5+1, mmap.Mapped())
	require.Equal(t, lingering+1, Lingering(), "a forgotten hold can be seen")
	require.Equal(t, byte(2), b[0])
	held.Release()
	require.Equal(t, regions+5, mmap.Mapped())
	require.Equal(t, lingering, Lingering())
}

// TestRemoveFirstUnderWay looks at a file while it is being unlinked.
func TestRemoveFirstUnderWay(t *testing.T) {
	var q *Queue
	var first *File
	calls := 0
	hfs := newHookFS(func(op, _ string) error {
		if op != "SyncDir" {
			return nil
		}
		calls++
		_, err := first.Hold()
		assert.ErrorIs(t, err, ErrRemoved)
		_, err = first.OpenFile()
		assert.ErrorIs(t, err, ErrRemoved)
		assert.NoError(t, q.WriteAt([]byte("1"), 950), "writers are not held up")
		assert.ErrorIs(t, q.WriteAt([]byte("1"), 50), ErrRemoved)
		assert.NoError(t, q.WriteAt([]byte("1"), 951), "which does not stick")
		return nil
	})
	q = tenFiles(t, Options{FS: hfs, Writable: true})
	first = q.Files()[0]
	require.NoError(t, q.RemoveFirst())
	require.Equal(t, 1, calls)
}

// TestFRC11FindBesideRemoval looks for the first live offset while the oldest files are removed.
func TestFRC11FindBesideRemoval(t *testing.T) {
	for range 20 {
		q := tenFiles(t, Options{Writable: true})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					off := q.MinOffset()
					f, ok := q.Find(off)
					if !ok {
						continue // removed between the two calls
					}
					if !assert.Equal(t, off, f.From(), "a neighbour") {
						return
					}
					b, err := f.Hold()
					if err != nil {
						assert.ErrorIs(t, err, ErrRemoved)
						continue
					}
					assert.Equal(t, byte(off/100+1), b[0])
					f.Release()
					if off == 900 {
						return
					}
				}
			})
		}
		for range 9 {
			assert.NoError(t, q.RemoveFirst())
		}
		wg.Wait()
	}
}

// TestTruncateSyncsEachUnlink keeps names from outliving those of the files before them.
func TestTruncateSyncsEachUnlink(t *testing.T) {
	a, b := layout(t, []entry{{Name(0), 100}, {Name(200), 100}}), layout(t, []entry{{Name(100), 100}, {Name(300), 100}})
	var got []string
	hfs := newHookFS(func(op, path string) error {
		if op == "Remove" || op == "SyncDir" || op == "Datasync" {
			path = strings.Replace(strings.Replace(path, a, "a", 1), b, "b", 1)
			got = append(got, op+" "+path)
		}
		return nil
	})
	q := open(t, a, Options{FS: hfs, Writable: true, MoreDirs: []string{b}})
	require.NoError(t, q.Truncate(150))
	require.Equal(t, []string{
		"Remove b/" + Name(300), "SyncDir b", "Remove a/" + Name(200), "SyncDir a", "Datasync b/" + Name(100),
	}, got)
	require.Equal(t, append(bytes.Repeat([]byte{1}, 150), make([]byte, 50)...), content(t, q))
}

// TestTruncateFailsHalfWay fails the second unlink, and the sync after one.
func TestTruncateFailsHalfWay(t *testing.T) {
	for _, op := range []string{"Remove", "SyncDir"} {
		n := 0
		hfs := newHookFS(func(o, _ string) error {
			if o == op {
				if n++; n == 2 {
					return syscall.EIO
				}
			}
			return nil
		})
		q := tenFiles(t, Options{FS: hfs, Writable: true})
		err := q.Truncate(500)
		require.ErrorIs(t, err, syscall.EIO)
		require.Equal(t, map[string]int64{"Remove": 900, "SyncDir": 800}[op], q.EndOffset(), "the list is what is on disk")
		require.Len(t, names(t, q.Dir()), int(q.EndOffset()/100))
		require.ErrorIs(t, q.Truncate(500), err)
		require.ErrorIs(t, q.Sync(), err)
	}
}

// TestNextFileAfterTheOneBefore makes many files in one write: each name is durable before the next one is made.
func TestNextFileAfterTheOneBefore(t *testing.T) {
	durable := map[string]bool{}
	pending := ""
	hfs := newHookFS(func(op, path string) error {
		switch op {
		case "Truncate": // a new file gets its length
			assert.True(t, pending == "" || durable[pending], "%s while %s is not durable", filepath.Base(path), pending)
			pending = path
		case "SyncDir":
			durable[pending] = true
		}
		return nil
	})
	q := open(t, t.TempDir(), Options{FS: hfs, Writable: true, FileSize: 100})
	require.NoError(t, q.WriteAt(make([]byte, 350), 0))
	require.NoError(t, q.Sync())
	syncs := len(durable)
	require.Equal(t, 4, syncs)
	require.NoError(t, q.WriteAt(make([]byte, 100), 350))
	require.Len(t, durable, syncs, "the file before was synced: nothing to wait for")
}

// TestTruncateRemovesEmptyLeftovers leaves no file behind the cut that Open had ignored: a crash while the next file is made would leave two of
// them, which Open refuses.
func TestTruncateRemovesEmptyLeftovers(t *testing.T) {
	dir := layout(t, []entry{{Name(0), 100}, {Name(100), 100}, {Name(200), 0}})
	more := layout(t, []entry{{Name(0), 0}, {Name(100), 0}})
	var removed []string
	hfs := newHookFS(func(op, path string) error {
		if op == "Remove" {
			removed = append(removed, filepath.Base(path))
		}
		return nil
	})
	q := open(t, dir, Options{FS: hfs, Writable: true, MoreDirs: []string{more}})
	require.NoError(t, q.Truncate(100))
	require.Equal(t, []string{Name(0)}, names(t, dir))
	require.Equal(t, []string{Name(0)}, names(t, more), "below the cut")
	require.Equal(t, Name(100), removed[len(removed)-1])
	require.NoError(t, q.Adopt(create(t, q, 100)))
	require.NoError(t, q.Truncate(150), "what was ignored and has been made since stays")
	require.Equal(t, []string{Name(0)}, names(t, more)[:1])
	require.Equal(t, int64(200), q.EndOffset())
}
