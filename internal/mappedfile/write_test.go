package mappedfile

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
)

// counting returns n bytes that are never zero.
func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i%251 + 1)
	}
	return b
}

func TestWriteMakesFiles(t *testing.T) {
	for _, c := range []struct {
		name     string
		off      int64
		n        int
		min, end int64
	}{
		{"at the beginning", 0, 10, 0, 1000},
		{"in the middle of a file to be", 5300, 10, 5000, 6000},
		{"exactly a file", 3000, 1000, 3000, 4000},
		{"over three files", 3900, 1200, 3000, 6000},
		{"nothing", 700, 0, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "consumequeue", "topic", "0")
			q := open(t, dir, Options{Writable: true, FileSize: 1000})
			want := counting(c.n)
			require.NoError(t, q.WriteAt(want, c.off))
			require.NoError(t, q.Sync())
			require.Equal(t, c.min, q.MinOffset())
			require.Equal(t, c.end, q.EndOffset())

			r := open(t, dir, Options{})
			require.Equal(t, c.end, r.EndOffset())
			if c.n > 0 {
				all := make([]byte, c.end-c.min)
				copy(all[c.off-c.min:], want)
				require.Equal(t, all, content(t, r))
				require.Equal(t, all, content(t, q))
			}
		})
	}
}

func TestWriteContinues(t *testing.T) {
	dir := t.TempDir()
	want := counting(5555)
	for at := 0; at < len(want); {
		q := open(t, dir, Options{Writable: true, FileSize: 1000}) // reopened for each piece
		n := min(321, len(want)-at)
		require.NoError(t, q.WriteAt(want[at:at+n], int64(at)))
		require.NoError(t, q.Close())
		at += n
	}
	q := open(t, dir, Options{Writable: true})
	require.Equal(t, append(want, make([]byte, 6000-5555)...), content(t, q))
	require.NoError(t, q.WriteAt([]byte("over"), 2998), "what is there may be overwritten")
	require.Equal(t, "over", string(content(t, q)[2998:3002]))
}

func TestWriteRefuses(t *testing.T) {
	dir := layout(t, []entry{{Name(300), 100}, {Name(400), 100}})
	q := open(t, dir, Options{Writable: true})
	for name, off := range map[string]int64{"below": 299, "gap": 501, "negative": -1, "overflow": math.MaxInt64 - 2} {
		require.ErrorContains(t, q.WriteAt([]byte("12345"), off), "outside [300, 500]", name)
	}
	require.NoError(t, q.WriteAt([]byte("12345"), 500), "the errors are not sticky")
	require.NoError(t, q.Close())
	require.ErrorIs(t, q.WriteAt([]byte("1"), 300), ErrClosed)
	require.ErrorIs(t, q.Truncate(300), ErrClosed)
	require.ErrorIs(t, q.Sync(), ErrClosed)

	r := open(t, dir, Options{})
	require.ErrorIs(t, r.WriteAt([]byte("1"), 300), ErrReadOnly)
	require.ErrorIs(t, r.Truncate(300), ErrReadOnly)
	require.ErrorIs(t, r.Sync(), ErrReadOnly)

	e := open(t, t.TempDir(), Options{Writable: true})
	require.ErrorContains(t, e.WriteAt([]byte("1"), 0), "no file size was given")
}

func TestWriteTakesOverAnEmptyFile(t *testing.T) {
	dir := layout(t, []entry{{Name(0), 100}, {Name(100), 0}})
	q := open(t, dir, Options{Writable: true})
	require.Equal(t, int64(100), q.EndOffset())
	require.NoError(t, q.WriteAt([]byte("next"), 100))
	require.Equal(t, "next", string(content(t, open(t, dir, Options{}))[100:104]))
}

func TestFailureSticks(t *testing.T) {
	for name, fail := range map[string]func(t *testing.T, q *Queue) error{
		"create": func(t *testing.T, q *Queue) error {
			putFile(t, q.Dir(), Name(200), 7, 7) // someone else's
			return q.WriteAt([]byte("1"), 200)
		},
		"sync": func(t *testing.T, q *Queue) error {
			require.NoError(t, q.WriteAt([]byte("1"), 0))
			require.NoError(t, os.Remove(filepath.Join(q.Dir(), Name(0))))
			return q.Sync()
		},
		"write": func(t *testing.T, q *Queue) error {
			hold(t, q.Files()[1])
			defer q.Files()[1].Release()
			require.NoError(t, q.WriteAt([]byte("1"), 150))
			require.NoError(t, os.Remove(q.Files()[1].Path()))
			q.Files()[1].reservedTo = 0
			return q.WriteAt([]byte("1"), 150)
		},
		"truncate": func(t *testing.T, q *Queue) error {
			require.NoError(t, os.Remove(q.Files()[0].Path()))
			return q.Truncate(50)
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := open(t, layout(t, []entry{{Name(0), 100}, {Name(100), 100}}), Options{Writable: true})
			first := fail(t, q)
			require.Error(t, first)
			require.ErrorIs(t, q.WriteAt([]byte("1"), 10), first)
			require.ErrorIs(t, q.Sync(), first)
			require.ErrorIs(t, q.Truncate(10), first)
		})
	}
}

func TestLimitDoesNotStick(t *testing.T) {
	limit(t, 1)
	q := open(t, layout(t, []entry{{Name(0), 100}, {Name(100), 100}}), Options{Writable: true})
	hold(t, q.Files()[0])
	require.ErrorIs(t, q.WriteAt([]byte("1"), 100), ErrLimit)
	q.Files()[0].Release()
	require.NoError(t, q.WriteAt([]byte("1"), 100))
}

// TestWriteFaultIsAnError cuts a file behind the queue's back, as a full disk or a broken device would do.
func TestWriteFaultIsAnError(t *testing.T) {
	const size = 1 << 20
	q := open(t, layout(t, []entry{{Name(0), size}}), Options{Writable: true})
	require.NoError(t, q.WriteAt([]byte("1"), size-10)) // reserved from here on
	require.NoError(t, os.Truncate(q.Files()[0].Path(), 0))
	err := q.WriteAt([]byte("1"), size-9)
	require.ErrorContains(t, err, q.Files()[0].Path())
	require.ErrorIs(t, q.Sync(), err)
}

func TestReservesAhead(t *testing.T) {
	const size = 6_000_000
	q := open(t, t.TempDir(), Options{Writable: true, FileSize: size})
	blocks := func() int64 {
		st, err := os.Stat(q.Files()[0].Path())
		require.NoError(t, err)
		require.Equal(t, int64(size), st.Size())
		return st.Sys().(*syscall.Stat_t).Blocks * 512
	}
	require.NoError(t, q.WriteAt(counting(20), 0))
	first := blocks()
	if first == 0 {
		t.Skip("this filesystem cannot reserve blocks")
	}
	require.GreaterOrEqual(t, first, int64(reserveLeast))
	require.Less(t, first, int64(3*reserveLeast), "the file stays sparse")
	require.NoError(t, q.WriteAt(counting(20), 2000))
	require.Equal(t, first, blocks(), "within what was reserved")
	require.NoError(t, q.WriteAt(counting(40), reserveLeast-20))
	require.Greater(t, blocks(), first)
	calls, last := 0, blocks()
	for off := int64(0); off < size; off += 1000 {
		require.NoError(t, q.WriteAt(counting(1000), off))
		b := blocks()
		require.LessOrEqual(t, b, 2*(off+1000)+2*reserveLeast, "no more ahead than there is behind")
		if b != last {
			calls, last = calls+1, b
		}
	}
	require.Less(t, calls, 25, "the longer the file, the more at a time")
	require.NoError(t, q.WriteAt(counting(30), size-30), "never beyond the file")
	require.NoError(t, q.WriteAt(counting(30), 100))
	require.NoError(t, q.Truncate(100))
	require.LessOrEqual(t, blocks(), int64(2*reserveLeast), "what is cut gives its blocks back")
	require.NoError(t, q.WriteAt(counting(30), 100))
	require.GreaterOrEqual(t, blocks(), int64(reserveLeast), "and is reserved again")
}

func TestTruncate(t *testing.T) {
	for _, c := range []struct {
		name     string
		off      int64
		min, end int64
	}{
		{"above the end", 7000, 3000, 6000},
		{"at the end", 6000, 3000, 6000},
		{"in the last file", 5500, 3000, 6000},
		{"at the start of the last file", 5000, 3000, 5000},
		{"in the first file", 3001, 3000, 4000},
		{"at the beginning", 3000, -1, -1},
		{"below", 10, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			q := open(t, dir, Options{Writable: true, FileSize: 1000})
			all := counting(3000)
			require.NoError(t, q.WriteAt(all, 3000))
			require.Equal(t, all, content(t, q)) // mapped
			require.NoError(t, q.Truncate(c.off))
			require.Equal(t, c.min, q.MinOffset())
			require.Equal(t, c.end, q.EndOffset())
			var want []byte
			if c.end > 0 {
				want = bytes.Clone(all[:c.end-3000])
				clear(want[min(max(c.off-3000, 0), int64(len(want))):])
			}
			require.Equal(t, want, content(t, q))
			require.Equal(t, want, content(t, open(t, dir, Options{})))

			require.NoError(t, q.Sync())
			from := max(min(c.off, q.EndOffset()), 0)
			require.NoError(t, q.WriteAt([]byte("again"), from), "writing goes on")
			f, ok := q.Find(from)
			require.True(t, ok)
			require.Equal(t, "again", string(hold(t, f)[from-f.From():][:5]))
			f.Release()
		})
	}
	require.ErrorContains(t, open(t, t.TempDir(), Options{Writable: true}).Truncate(-1), "position -1 < 0")
}

func TestSyncBesideTruncate(t *testing.T) {
	q := open(t, t.TempDir(), Options{Writable: true, FileSize: 100})
	require.NoError(t, q.WriteAt(counting(300), 0))
	last := q.Files()[2]
	require.NoError(t, q.Truncate(200))
	require.NoError(t, q.syncAll([]*File{last}, nil), "a file that was truncated away meanwhile needs no sync")
	require.NoError(t, q.Sync())
}

// TestSyncsTakeTurns looks at a call of Sync under way: a second one finds nothing left to sync, so it has to wait.
func TestSyncsTakeTurns(t *testing.T) {
	var q *Queue
	calls := 0
	hfs := newHookFS(func(op, _ string) error {
		if op == "Datasync" || op == "SyncDir" {
			calls++
			require.False(t, q.syncing.TryLock(), op)
		}
		return nil
	})
	q = open(t, t.TempDir(), Options{FS: hfs, Writable: true, FileSize: 100})
	require.NoError(t, q.WriteAt([]byte("1"), 0))
	require.NoError(t, q.Sync())
	require.Equal(t, 2, calls)
}

// FR-J01: a write refused by a full disk is none that was lost: the next one goes on when there is room.
func TestFRJ01WriteGoesOnAfterAFullDisk(t *testing.T) {
	for name, kind := range map[string]faultfs.Kind{"no file": faultfs.Create, "no blocks": faultfs.Preallocate} {
		t.Run(name, func(t *testing.T) {
			fsys := faultfs.New(faultfs.Options{})
			fsys.MkdirAll("/q")
			full := true
			fsys.Inject(func(op faultfs.Op) error {
				if full && op.Kind == kind {
					return syscall.ENOSPC
				}
				return nil
			})
			q, err := Open("/q", Options{FS: fsys, Writable: true, FileSize: 100})
			require.NoError(t, err)
			for range 2 {
				require.ErrorIs(t, q.WriteAt([]byte("abc"), 0), syscall.ENOSPC)
				require.NoError(t, q.Sync())
			}
			full = false
			require.NoError(t, q.WriteAt([]byte("abc"), 0))
			require.NoError(t, q.Sync())
			require.Equal(t, "abc", string(content(t, q)[:3]))
			require.NoError(t, q.Close())
		})
	}
}
