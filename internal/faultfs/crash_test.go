package faultfs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// rig is an FS in memory with the durable directory /d.
type rig struct {
	bench
	fsys *faultfs.FS
}

func newRig(t *testing.T, o faultfs.Options) rig {
	t.Helper()
	fsys := faultfs.New(o)
	fsys.MkdirAll("/d")
	return rig{bench{fsys, t, "/d"}, fsys}
}

// durable makes a file whose content and name are durable.
func (r rig) durable(name, content string) mmap.File {
	r.t.Helper()
	f := r.create(name, content)
	require.NoError(r.t, f.Datasync())
	require.NoError(r.t, r.fsys.SyncDir(path.Dir(r.path(name))))
	require.Empty(r.t, r.fsys.Dirty())
	return f
}

// list returns the files below /d with what they begin with: "name=content", zeros as underscores, sorted; of directories
// "name/".
func list(t *testing.T, fsys *faultfs.FS) []string {
	t.Helper()
	out := []string{}
	var walk func(dir, prefix string)
	walk = func(dir, prefix string) {
		infos, err := fsys.ReadDir(dir)
		require.NoError(t, err)
		for _, i := range infos {
			if i.IsDir() {
				out = append(out, prefix+i.Name()+"/")
				walk(path.Join(dir, i.Name()), prefix+i.Name()+"/")
				continue
			}
			data := read(t, fsys, path.Join(dir, i.Name()))
			out = append(out, prefix+i.Name()+"="+strings.ReplaceAll(string(data[:min(20, len(data))]), "\x00", "_"))
		}
	}
	walk("/d", "")
	return out
}

func read(t *testing.T, fsys *faultfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	data := make([]byte, size)
	_, err = f.ReadAt(data, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return data
}

// outcomes returns the different lists that CrashAll may leave, sorted.
func outcomes(t *testing.T, fsys *faultfs.FS) []string {
	t.Helper()
	crashes := fsys.CrashAll()
	run := func() (all []string) {
		for left := range crashes {
			all = append(all, strings.Join(list(t, left), " "))
			require.Empty(t, left.Dirty(), "a machine comes up with nothing dirty")
			require.Zero(t, left.OpenFiles())
		}
		return all
	}
	all := run()
	require.Equal(t, all, run(), "a crash changes nothing for the next")
	slices.Sort(all)
	return slices.Compact(all)
}

// TestSurvival tells for what is done after a durable /d/old what a loss of power may leave.
func TestSurvival(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, r rig, old mmap.File)
		want []string
	}{
		{"nothing", func(*testing.T, rig, mmap.File) {}, []string{"old=content"}},
		{"written", func(_ *testing.T, r rig, old mmap.File) { r.write(old, 0, "CONTENT") }, []string{"old=CONTENT", "old=content"}},
		{"written and synced", func(t *testing.T, r rig, old mmap.File) {
			r.write(old, 0, "CONTENT")
			require.NoError(t, old.Datasync())
		}, []string{"old=CONTENT"}},
		{"written, another file synced", func(t *testing.T, r rig, old mmap.File) {
			r.write(old, 0, "CONTENT")
			require.NoError(t, r.create("other", "").Datasync())
			require.NoError(t, r.fsys.SyncDir("/d"))
		}, []string{"old=CONTENT other=", "old=content other="}},
		{"written and closed", func(t *testing.T, r rig, old mmap.File) {
			r.write(old, 0, "CONTENT")
			require.NoError(t, old.StartWriteback(0, 7))
			require.NoError(t, old.Close())
		}, []string{"old=CONTENT", "old=content"}},
		{"stored", func(t *testing.T, r rig, old mmap.File) {
			copy(r.mapped(old, 7, true).Bytes(), "CON")
		}, []string{"old=CONtent", "old=content"}},
		{"stored and flushed", func(t *testing.T, r rig, old mmap.File) {
			m := r.mapped(old, 7, true)
			copy(m.Bytes(), "CON")
			require.NoError(t, m.Flush(3, 1))
		}, []string{"old=CONtent"}},
		{"stored and synced by another descriptor", func(t *testing.T, r rig, old mmap.File) {
			copy(r.mapped(old, 7, true).Bytes(), "CON")
			require.NoError(t, r.open("old", os.O_RDONLY).Datasync())
		}, []string{"old=CONtent"}},
		{
			"extended", func(_ *testing.T, r rig, old mmap.File) { r.write(old, 7, "!!") },
			[]string{"old=content", "old=content!!", "old=content__"},
		},
		{
			"cut", func(t *testing.T, _ rig, old mmap.File) { require.NoError(t, old.Truncate(3)) },
			[]string{"old=con", "old=con____", "old=content"},
		},
		{"cut and synced", func(t *testing.T, _ rig, old mmap.File) {
			require.NoError(t, old.Truncate(3))
			require.NoError(t, old.Datasync())
			require.NoError(t, old.Truncate(7))
		}, []string{"old=con", "old=con____"}},
		{"cut to nothing and rewritten", func(_ *testing.T, r rig, _ mmap.File) {
			r.write(r.open("old", os.O_RDWR|os.O_TRUNC), 0, "CONTENT")
		}, []string{"old=", "old=CONTENT", "old=_______", "old=content"}},
		{
			"erased", func(t *testing.T, _ rig, old mmap.File) { require.NoError(t, old.Erase(3, 4)) },
			[]string{"old=con____", "old=content"},
		},
		{"erased and rewritten", func(t *testing.T, r rig, old mmap.File) {
			require.NoError(t, old.Erase(0, 7))
			r.write(old, 0, "CONTENT")
		}, []string{"old=CONTENT", "old=_______", "old=content"}},
		{"erased, synced, rewritten", func(t *testing.T, r rig, old mmap.File) {
			require.NoError(t, old.Erase(0, 7))
			require.NoError(t, old.Datasync())
			r.write(old, 0, "CONTENT")
		}, []string{"old=CONTENT", "old=_______"}},
		{"created", func(_ *testing.T, r rig, _ mmap.File) { r.create("new", "") }, []string{"new= old=content", "old=content"}},
		{"created and synced", func(t *testing.T, r rig, _ mmap.File) {
			require.NoError(t, r.create("new", "text").Datasync())
		}, []string{"new=text old=content", "old=content"}},
		{"created, directory synced", func(t *testing.T, r rig, _ mmap.File) {
			r.create("new", "text")
			require.NoError(t, r.fsys.SyncDir("/d"))
		}, []string{"new= old=content", "new=____ old=content", "new=text old=content"}},
		{"created and removed", func(t *testing.T, r rig, _ mmap.File) {
			require.NoError(t, r.create("new", "text").Datasync())
			require.NoError(t, r.fsys.Remove("/d/new"))
		}, []string{"new=text old=content", "old=content"}},
		{
			"removed", func(t *testing.T, r rig, _ mmap.File) { require.NoError(t, r.fsys.Remove("/d/old")) },
			[]string{"", "old=content"},
		},
		{"removed, directory synced", func(t *testing.T, r rig, _ mmap.File) {
			require.NoError(t, r.fsys.Remove("/d/old"))
			require.NoError(t, r.fsys.SyncDir("/d"))
		}, []string{""}},
		{"removed, another directory synced", func(t *testing.T, r rig, _ mmap.File) {
			require.NoError(t, r.fsys.Remove("/d/old"))
			require.NoError(t, r.fsys.SyncDir("/"))
		}, []string{"", "old=content"}},
		{
			"moved", func(t *testing.T, r rig, _ mmap.File) { require.NoError(t, r.fsys.Rename("/d/old", "/d/new")) },
			[]string{"new=content", "old=content"},
		},
		{"moved twice", func(t *testing.T, r rig, _ mmap.File) {
			require.NoError(t, r.fsys.Rename("/d/old", "/d/new"))
			require.NoError(t, r.fsys.Rename("/d/new", "/d/newer"))
		}, []string{"new=content", "newer=content", "old=content"}},
		{"replaced", func(t *testing.T, r rig, _ mmap.File) {
			require.NoError(t, r.create("tmp", "text").Datasync())
			require.NoError(t, r.fsys.Rename("/d/tmp", "/d/old"))
		}, []string{"old=content", "old=content tmp=text", "old=text"}},
		{"replaced without a sync of the file", func(t *testing.T, r rig, _ mmap.File) {
			r.create("tmp", "text")
			require.NoError(t, r.fsys.Rename("/d/tmp", "/d/old"))
			require.NoError(t, r.fsys.SyncDir("/d"))
		}, []string{"old=", "old=____", "old=text"}},
		{"replaced, directory synced", func(t *testing.T, r rig, _ mmap.File) {
			require.NoError(t, r.create("tmp", "text").Datasync())
			require.NoError(t, r.fsys.Rename("/d/tmp", "/d/old"))
			require.NoError(t, r.fsys.SyncDir("/d"))
		}, []string{"old=text"}},
		{"moved, another takes the name, whose old directory is synced", func(t *testing.T, r rig, _ mmap.File) {
			r.fsys.MkdirAll("/d/e")
			require.NoError(t, r.create("e/tmp", "text").Datasync())
			require.NoError(t, r.fsys.SyncDir("/d/e"))
			require.NoError(t, r.fsys.Rename("/d/old", "/d/new"))
			require.NoError(t, r.fsys.Rename("/d/e/tmp", "/d/old"))
			require.NoError(t, r.fsys.SyncDir("/d/e"))
		}, []string{"e/ new=content old=text"}},
		{"moved, and another takes the name", func(t *testing.T, r rig, _ mmap.File) {
			require.NoError(t, r.create("tmp", "text").Datasync())
			require.NoError(t, r.fsys.SyncDir("/d"))
			require.NoError(t, r.fsys.Rename("/d/old", "/d/new"))
			require.NoError(t, r.fsys.Rename("/d/tmp", "/d/old"))
		}, []string{"new=content old=text", "new=content tmp=text", "old=content tmp=text"}},
		{"moved to another directory, which is synced", func(t *testing.T, r rig, _ mmap.File) {
			r.fsys.MkdirAll("/d/e")
			require.NoError(t, r.create("new", "text").Datasync())
			require.NoError(t, r.fsys.Rename("/d/new", "/d/e/new"))
			require.NoError(t, r.fsys.SyncDir("/d/e"))
		}, []string{"e/ e/new=text old=content"}},
		{"file in a new directory, which is synced", func(t *testing.T, r rig, _ mmap.File) {
			require.NoError(t, r.fsys.Mkdir("/d/e", 0o700))
			require.NoError(t, r.create("e/new", "text").Datasync())
			require.NoError(t, r.fsys.SyncDir("/d/e"))
		}, []string{"e/ e/new=text old=content", "old=content"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, faultfs.Options{})
			old := r.durable("old", "content")
			c.do(t, r, old)
			require.Equal(t, c.want, outcomes(t, r.fsys))
		})
	}
}

func pageOf(b byte) string { return string(bytes.Repeat([]byte{b}, page)) }

// shape writes down the pages of a file by their first bytes.
func shape(t *testing.T, fsys *faultfs.FS, name string) string {
	t.Helper()
	var out []byte
	for p := range slices.Chunk(read(t, fsys, name), page) {
		require.Equal(t, bytes.Repeat(p[:1], len(p)), p, "a page is of one piece")
		out = append(out, "."+string(p[:1])...)
	}
	return strings.ReplaceAll(strings.ReplaceAll(string(out), ".\x00", "0"), ".", "")
}

func TestPagesGoTheirOwnWays(t *testing.T) {
	r := newRig(t, faultfs.Options{})
	f := r.durable("f", pageOf('a')+pageOf('b')+pageOf('c'))
	r.write(f, 0, pageOf('A'))
	r.mapped(f, 3*page, true).Bytes()[2*page] = 'c' // no change
	r.write(f, page, pageOf('B'))
	r.write(f, 3*page, pageOf('D'))
	seen := make(map[string]bool)
	for left := range r.fsys.CrashAll() {
		seen[shape(t, left, "/d/f")] = true
		require.Contains(t, left.String(), "page /d/f+4096", "it tells what survived")
	}
	want := make(map[string]bool)
	for _, p0 := range "aA" {
		for _, p1 := range "bB" {
			for _, end := range []string{"", "0", "D"} {
				want[string(p0)+string(p1)+"c"+end] = true
			}
		}
	}
	require.Equal(t, want, seen)

	var changes []string
	for _, c := range r.fsys.Dirty() {
		changes = append(changes, c.String())
	}
	require.Equal(t, []string{"length /d/f+16384", "page /d/f+0", "page /d/f+4096", "page /d/f+12288"}, changes)
	require.Equal(t, "0Bc0", shape(t, r.fsys.Crash(func(c faultfs.Change) faultfs.Fate {
		switch {
		case c.Kind == faultfs.Page && c.Off != page:
			return faultfs.FateZero // as asked, though no loss of power does that to the first page
		default:
			return faultfs.FateNew
		}
	}), "/d/f"))
	require.Equal(t, "ABcD", shape(t, r.fsys, "/d/f"), "the machine that did not lose power")
}

func TestCrashAllFallsBackToSeeds(t *testing.T) {
	r := newRig(t, faultfs.Options{})
	f := r.durable("f", strings.Repeat(pageOf('a'), 20))
	count := func() (n int, shapes map[string]bool) {
		shapes = make(map[string]bool)
		for left := range r.fsys.CrashAll() {
			n++
			shapes[shape(t, left, "/d/f")] = true
		}
		return n, shapes
	}
	for i := range int64(6) {
		require.NoError(t, f.Erase(i*page, page))
		r.write(f, i*page, pageOf('A'))
	}
	n, shapes := count()
	require.Equal(t, 729, n)
	require.Len(t, shapes, 729)
	r.write(f, 6*page, pageOf('A'))
	n, shapes = count()
	require.Equal(t, 256, n)
	require.Greater(t, len(shapes), 128)
	require.Contains(t, shapes, strings.Repeat("a", 20))
	require.Contains(t, shapes, strings.Repeat("A", 7)+strings.Repeat("a", 13))
	for seed := range uint64(50) {
		require.Equal(t, r.fsys.CrashSeed(seed).String(), r.fsys.Clone().CrashSeed(seed).String())
	}
	require.NoError(t, f.Datasync())
	n, _ = count()
	require.Equal(t, 1, n, "nothing at stake")
	for range r.fsys.CrashAll() {
		break
	}
}

var errDisk = errors.New("the disk is gone")

// failNext fails the next operation of that kind, and only that.
func (r rig) failNext(kind faultfs.Kind, err error) {
	r.fsys.Inject(func(op faultfs.Op) error {
		if op.Kind == kind {
			r.fsys.Inject(nil)
			return err
		}
		return nil
	})
}

func TestFailedSyncDropsThePages(t *testing.T) {
	for _, c := range []struct {
		name string
		kind faultfs.Kind
		o    faultfs.Options
		want string // after a retry that succeeds
	}{
		{"datasync", faultfs.Datasync, faultfs.Options{}, "aa"},
		{"flush", faultfs.Flush, faultfs.Options{}, "aa"},
		{"datasync that keeps them", faultfs.Datasync, faultfs.Options{KeepDirty: true}, "AB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.o)
			f := r.durable("f", pageOf('a')+pageOf('a'))
			m := r.mapped(f, 2*page, true)
			sync := f.Datasync
			if c.kind == faultfs.Flush {
				sync = func() error { return m.Flush(0, 2*page) }
			}
			r.write(f, 0, pageOf('A')+pageOf('B'))
			r.failNext(c.kind, errDisk)
			err := sync()
			require.ErrorIs(t, err, errDisk)
			require.ErrorContains(t, err, "/d/f")
			require.NoError(t, sync(), "the retry knows of nothing")
			require.Equal(t, c.want, shape(t, r.fsys.CrashSeed(0), "/d/f"))
			require.Equal(t, "AB", shape(t, r.fsys, "/d/f"), "all still see it")
			require.Equal(t, "AB", shape(t, r.fsys.CrashSeed(1), "/d/f"), "and it may have reached the disk")
			for _, ch := range r.fsys.Dirty() {
				require.True(t, ch.Lost)
			}

			m.Bytes()[page] = 'b'
			r.write(f, page, pageOf('b'))
			require.NoError(t, sync())
			require.Equal(t, c.want[:1]+"b", shape(t, r.fsys.CrashSeed(0), "/d/f"), "a page dirtied again is written again")
			r.write(f, page, pageOf('B'))
			require.NoError(t, sync())
			require.Equal(t, c.want[:1]+"B", shape(t, r.fsys.CrashSeed(0), "/d/f"), "also with what was lost before")
		})
	}
}

// TestSyncCoversWhatWasThere holds a sync up and stores meanwhile.
func TestSyncCoversWhatWasThere(t *testing.T) {
	r := newRig(t, faultfs.Options{})
	f := r.durable("f", pageOf('a')+pageOf('a')+pageOf('a'))
	r.write(f, 0, pageOf('1')+pageOf('1'))
	r.fsys.Inject(func(op faultfs.Op) error {
		if op.Kind != faultfs.Datasync {
			return nil
		}
		r.fsys.Inject(nil)
		r.write(f, 0, pageOf('2')+pageOf('2'))
		require.Equal(t, "aaa", shape(t, r.fsys.CrashSeed(0), "/d/f"), "power lost before it takes effect")
		r.write(f, 3*page, pageOf('2'))
		m := r.mapped(f, 3*page, false)
		require.NoError(t, m.Flush(page, 1), "a faster one, of the second page")
		r.write(f, page, pageOf('3'))
		return nil
	})
	require.NoError(t, f.Datasync())
	require.Equal(t, "12a0", shape(t, r.fsys.CrashSeed(0), "/d/f"), "of page and length the faster sync is the later one")
	require.Equal(t, "23a2", shape(t, r.fsys.CrashSeed(1), "/d/f"))

	r.fsys.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.SyncDir {
			r.create("late", "")
		}
		return nil
	})
	require.NoError(t, r.fsys.SyncDir("/d"))
	_, err := r.fsys.CrashSeed(0).OpenFile("/d/late", os.O_RDONLY, 0)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestCrashAtEveryOperation loses power at each operation of a run, before it and after it.
func TestCrashAtEveryOperation(t *testing.T) {
	r := newRig(t, faultfs.Options{})
	var before, after []string
	r.fsys.Inject(func(op faultfs.Op) error {
		require.Equal(t, int64(len(before)), op.Index)
		before = append(before, op.String()+": "+strings.Join(list(t, r.fsys.CrashSeed(0)), " "))
		return nil
	})
	r.fsys.Observe(func(op faultfs.Op, err error) {
		require.NoError(t, err)
		after = append(after, op.String()+": "+strings.Join(list(t, r.fsys.CrashSeed(0)), " "))
	})
	f := r.open("tmp", os.O_RDWR|os.O_CREATE)
	r.write(f, 0, "text")
	require.NoError(t, f.Datasync())
	require.NoError(t, r.fsys.Rename("/d/tmp", "/d/f"))
	require.NoError(t, r.fsys.SyncDir("/d"))
	require.NoError(t, f.Truncate(0))
	require.NoError(t, f.Datasync())
	require.Equal(t, []string{
		"#0 create /d/tmp [0, +0): ", "#1 write /d/tmp [0, +4): ", "#2 datasync /d/tmp [0, +4): ", "#3 rename /d/tmp to /d/f: ",
		"#4 syncdir /d [0, +0): ", "#5 truncate /d/tmp [0, +0): f=text", "#6 datasync /d/tmp [0, +0): f=text",
	}, before)
	require.Equal(t, []string{
		"#0 create /d/tmp [0, +0): ", "#1 write /d/tmp [0, +4): ", "#2 datasync /d/tmp [0, +4): ", "#3 rename /d/tmp to /d/f: ",
		"#4 syncdir /d [0, +0): f=text", "#5 truncate /d/tmp [0, +0): f=text", "#6 datasync /d/tmp [0, +0): f=",
	}, after)
	require.Equal(t, int64(7), r.fsys.Ops())
}

// TestStoresDuringSyncs is for the race detector: an engine stores beyond what it has published while a sync, a crash and a
// reader of what is published are under way.
func TestStoresDuringSyncs(t *testing.T) {
	r := newRig(t, faultfs.Options{})
	const size = 16 * page
	f := r.durable("f", string(make([]byte, size)))
	m, err := f.Map(size, true)
	require.NoError(t, err)
	b := m.Bytes()
	copy(b, "published")
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				b[100+i%(size-100)] = byte(i)
			}
		}
	})
	for range 20 {
		require.NoError(t, f.Datasync())
		require.NoError(t, m.Flush(0, size))
		for _, left := range []*faultfs.FS{r.fsys.CrashSeed(0), r.fsys.CrashSeed(7), r.fsys.Clone()} {
			require.Equal(t, "published", string(read(t, left, "/d/f")[:9]))
		}
		_, _, err := f.NextData(0)
		require.NoError(t, err)
		require.Equal(t, "published", string(b[:9]))
	}
	close(stop)
	wg.Wait()
	require.NoError(t, m.Unmap())
	require.Equal(t, byte(faultfs.PoisonByte), b[0], "who reads on after Unmap gets that")
	require.Equal(t, "published", string(read(t, r.fsys, "/d/f")[:9]))
}

// TestCrashedMachineGoesOn writes, syncs and crashes on what a crash left.
func TestCrashedMachineGoesOn(t *testing.T) {
	r := newRig(t, faultfs.Options{Capacity: 1 << 20})
	f := r.durable("f", pageOf('a')+pageOf('a'))
	require.NoError(t, f.Preallocate(2*page, 2*page))
	require.NoError(t, f.Datasync())
	require.NoError(t, f.Preallocate(4*page, 4*page))
	left := r.fsys.CrashSeed(1)
	require.Equal(t, "aa000000", shape(t, left, "/d/f"))
	_, free, err := left.Usage("/d")
	require.NoError(t, err)
	require.Equal(t, int64(1<<20-4*page), free, "blocks that no sync has made durable are lost, whatever the length")

	require.NoError(t, f.Erase(0, page))
	from, to, err := bench{r.fsys.CrashSeed(1), t, "/d"}.open("f", os.O_RDONLY).NextData(0)
	require.NoError(t, err)
	require.Equal(t, [2]int64{page, 2 * page}, [2]int64{from, to}, "what was erased is a hole")

	again := bench{left, t, "/d"}
	f = again.open("f", os.O_RDWR)
	copy(again.mapped(f, 8*page, true).Bytes()[page:], pageOf('b'))
	again.write(f, 2*page, pageOf('c'))
	require.Equal(t, "aa000000", shape(t, left.CrashSeed(0), "/d/f"))
	require.NoError(t, f.Datasync())
	require.Equal(t, "abc00000", shape(t, left.CrashSeed(0), "/d/f"))
	require.Equal(t, "abc00000", shape(t, left.CrashSeed(0).Clone().CrashSeed(0), "/d/f"))
	require.Equal(t, "0a000000", shape(t, r.fsys, "/d/f"), "the first machine is another")
	require.Equal(t, 1, left.OpenFiles())
	require.Equal(t, 1, left.Mappings())
}

// TestCutBytesStayAway looks for bytes behind an end where a later growth would show them.
func TestCutBytesStayAway(t *testing.T) {
	r := newRig(t, faultfs.Options{})
	f := r.durable("f", pageOf('a')+pageOf('b')+pageOf('c'))
	m := r.mapped(f, 3*page, true)
	require.NoError(t, f.Truncate(page+1))
	require.Equal(t, make([]byte, 2*page-1), m.Bytes()[page+1:])
	require.NoError(t, m.Flush(0, 1))
	m.Bytes()[page+2], m.Bytes()[2*page] = 'x', 'x' // SIGBUS, or lost, on a machine
	require.NoError(t, f.Truncate(3*page))
	want := pageOf('a') + "b" + string(make([]byte, 2*page-1))
	require.Equal(t, want, r.content(f))
	for left := range r.fsys.CrashAll() {
		got := string(read(t, left, "/d/f"))
		require.Equal(t, want[:len(got)], got, left)
	}

	r = newRig(t, faultfs.Options{})
	r.write(r.durable("f", "content"), 7, "!!")
	left := r.fsys.Crash(func(c faultfs.Change) faultfs.Fate {
		if c.Kind == faultfs.Length {
			return faultfs.FateOld
		}
		return faultfs.FateNew
	})
	again := bench{left, t, "/d"}
	f = again.open("f", os.O_RDWR)
	require.NoError(t, f.Truncate(9))
	require.Equal(t, "content\x00\x00", again.content(f))
}

func TestCloneStandsStill(t *testing.T) {
	r := newRig(t, faultfs.Options{})
	f := r.durable("f", pageOf('a')+pageOf('a'))
	r.write(f, 0, pageOf('A'))
	clone := r.fsys.Clone()
	r.write(f, page, pageOf('B'))
	require.NoError(t, f.Datasync())
	require.NoError(t, f.Truncate(0))
	require.NoError(t, r.fsys.Remove("/d/f"))
	require.NoError(t, r.fsys.SyncDir("/d"))
	require.Equal(t, "aa", shape(t, clone.CrashSeed(0), "/d/f"))
	require.Equal(t, "Aa", shape(t, clone.CrashSeed(1), "/d/f"))
	require.Equal(t, "Aa", shape(t, clone, "/d/f"))
	require.Len(t, clone.Dirty(), 1)

	f = r.durable("g", strings.Repeat(pageOf('a'), 40))
	require.NoError(t, f.Truncate(page))
	require.Equal(t, "a", shape(t, r.fsys.Clone(), "/d/g"))
}
