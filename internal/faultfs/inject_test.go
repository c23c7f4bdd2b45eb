package faultfs_test

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// TestFailOperation fails each kind of operation: it says so, names the file, and has done nothing.
func TestFailOperation(t *testing.T) {
	r := newRig(t, faultfs.Options{})
	f := r.durable("f", "content")
	m := r.mapped(f, 7, true)
	before := list(t, r.fsys)
	_, used, err := r.fsys.Usage("/d")
	require.NoError(t, err)
	for _, c := range []struct {
		kind faultfs.Kind
		path string
		do   func() error
	}{
		{faultfs.Open, "/d/f", func() error { _, err := r.fsys.OpenFile("/d/f", os.O_RDWR, 0); return err }},
		{faultfs.Create, "/d/g", func() error { _, err := r.fsys.OpenFile("/d/g", os.O_RDWR|os.O_CREATE, 0); return err }},
		{faultfs.Truncate, "/d/f", func() error { _, err := r.fsys.OpenFile("/d/f", os.O_RDWR|os.O_TRUNC, 0); return err }},
		{faultfs.ReadDir, "/d", func() error { _, err := r.fsys.ReadDir("/d"); return err }},
		{faultfs.Mkdir, "/d/e", func() error { return r.fsys.Mkdir("/d/e", 0o700) }},
		{faultfs.Remove, "/d/f", func() error { return r.fsys.Remove("/d/f") }},
		{faultfs.Rename, "/d/g", func() error { return r.fsys.Rename("/d/f", "/d/g") }},
		{faultfs.SyncDir, "/d", func() error { return r.fsys.SyncDir("/d") }},
		{faultfs.Usage, "/d", func() error { _, _, err := r.fsys.Usage("/d"); return err }},
		{faultfs.ReadAt, "/d/f", func() error { _, err := f.ReadAt(make([]byte, 7), 0); return err }},
		{faultfs.WriteAt, "/d/f", func() error { _, err := f.WriteAt(make([]byte, 9), 0); return err }},
		{faultfs.Truncate, "/d/f", func() error { return f.Truncate(1) }},
		{faultfs.Preallocate, "/d/f", func() error { return f.Preallocate(0, 1<<20) }},
		{faultfs.Erase, "/d/f", func() error { return f.Erase(0, 7) }},
		{faultfs.NextData, "/d/f", func() error { _, _, err := f.NextData(0); return err }},
		{faultfs.Datasync, "/d/f", f.Datasync},
		{faultfs.StartWriteback, "/d/f", func() error { return f.StartWriteback(0, 7) }},
		{faultfs.Map, "/d/f", func() error { _, err := f.Map(7, true); return err }},
		{faultfs.Flush, "/d/f", func() error { return m.Flush(0, 7) }},
		{faultfs.Advise, "/d/f", func() error { return m.Advise(0, 7, mmap.WillNeed) }},
		{faultfs.Populate, "/d/f", func() error { return m.Advise(0, 7, mmap.PopulateWrite) }},
		{faultfs.Lock, "/d/f", func() error { return m.Lock(0, 7) }},
	} {
		var seen error
		r.fsys.Observe(func(_ faultfs.Op, err error) { seen = err })
		r.failNext(c.kind, errDisk)
		err := c.do()
		require.ErrorIs(t, err, errDisk, c.kind)
		require.ErrorContains(t, err, c.path, c.kind)
		require.Equal(t, err, seen, c.kind)
		r.fsys.Observe(nil)

		require.Equal(t, before, list(t, r.fsys), c.kind)
		require.Equal(t, 1, r.fsys.OpenFiles(), c.kind)
		require.Equal(t, 1, r.fsys.Mappings(), c.kind)
		require.Empty(t, r.fsys.Dirty(), c.kind)
		_, free, err := r.fsys.Usage("/d")
		require.NoError(t, err)
		require.Equal(t, used, free, c.kind)
	}
}

func TestPartialWriteAndRead(t *testing.T) {
	r := newRig(t, faultfs.Options{})
	f := r.create("f", "content")
	r.failNext(faultfs.WriteAt, &faultfs.Partial{N: 3, Err: syscall.EIO})
	n, err := f.WriteAt([]byte("ABCDEFGH"), 5)
	require.Equal(t, 3, n)
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, "conteABC", r.content(f))
	r.failNext(faultfs.ReadAt, &faultfs.Partial{N: 4, Err: syscall.EIO})
	b := []byte("--------")
	n, err = f.ReadAt(b, 0)
	require.Equal(t, 4, n)
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, "cont----", string(b))

	err = &faultfs.Partial{N: 3, Err: syscall.EIO}
	r.failNext(faultfs.Erase, err)
	require.ErrorContains(t, f.Erase(0, 5), "after 3 bytes: input/output error")
	require.Equal(t, "conteABC", r.content(f))
}

func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, faultfs.Options{})
		f := r.durable("f", "content")
		r.fsys.Inject(func(op faultfs.Op) error {
			if op.Kind == faultfs.Datasync {
				time.Sleep(30 * time.Second)
			}
			return nil
		})
		synced := make(chan error)
		go func() { synced <- f.Datasync() }()
		synctest.Wait()
		r.write(f, 0, "CONTENT")
		require.Equal(t, "CONTENT", r.content(f), "others go on")
		start := time.Now()
		require.NoError(t, <-synced)
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

func TestFullDisk(t *testing.T) {
	r := newRig(t, faultfs.Options{Capacity: 8 * page})
	free := func(want int64) {
		t.Helper()
		total, free, err := r.fsys.Usage("/d")
		require.NoError(t, err)
		require.Equal(t, []int64{8, want}, []int64{total / page, free / page})
	}
	f := r.create("f", pageOf('a')+"b")
	free(6)
	require.NoError(t, f.Preallocate(0, 4*page))
	free(4)
	require.NoError(t, f.Truncate(100*page))
	free(4)
	err := f.Preallocate(0, 9*page)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "/d/f")
	free(4)
	require.ErrorIs(t, f.Preallocate(100*page, 9*page), syscall.ENOSPC)
	size, err := f.Size()
	require.NoError(t, err)
	require.Equal(t, int64(100*page), size, "all or nothing")

	g := r.create("g", "")
	n, err := g.WriteAt(make([]byte, 10*page), page/2)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 4*page-page/2, n, "what there was room for")
	size, err = g.Size()
	require.NoError(t, err)
	require.Equal(t, int64(4*page), size)
	free(0)
	r.write(f, 0, pageOf('A')) // in place
	_, err = f.WriteAt([]byte("x"), 50*page)
	require.ErrorIs(t, err, syscall.ENOSPC)

	m, err := f.Map(100*page, true)
	require.NoError(t, err)
	err = m.Advise(10*page, page, mmap.PopulateWrite)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, err, syscall.EFAULT, "as the kernel says it")
	require.NoError(t, m.Advise(10*page, page, mmap.PopulateRead))
	m.Bytes()[10*page] = 'x' // SIGBUS on a machine
	require.ErrorIs(t, f.Datasync(), syscall.ENOSPC)

	require.NoError(t, g.Erase(page, 2*page))
	free(2)
	require.NoError(t, m.Advise(20*page, page, mmap.PopulateWrite))
	free(1)
	require.NoError(t, r.fsys.Remove("/d/f"))
	free(1)
	require.NoError(t, f.Close())
	free(1)
	require.NoError(t, m.Unmap())
	free(6)
	require.NoError(t, g.Close())
	free(6)
	require.NoError(t, r.open("g", os.O_RDWR).Truncate(0))
	free(8)
}

func TestMappedFileGrowsWithinItsMemory(t *testing.T) {
	r := newRig(t, faultfs.Options{})
	f := r.create("f", string(make([]byte, 100*page)))
	m := r.mapped(f, 100*page, true)
	require.NoError(t, f.Truncate(200*page))
	err := f.Truncate(201 * page)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "/d/f")
	require.NoError(t, m.Unmap())
	require.NoError(t, f.Truncate(201*page))
}

func TestOpenFileKnowsFlags(t *testing.T) {
	r := newRig(t, faultfs.Options{})
	_, err := r.fsys.OpenFile("/d/f", os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = r.fsys.OpenFile("/d/f", os.O_RDWR, 0)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestKindChanges(t *testing.T) {
	require.True(t, faultfs.WriteAt.Changes())
	require.True(t, faultfs.Datasync.Changes())
	require.False(t, faultfs.ReadAt.Changes())
	require.False(t, faultfs.Map.Changes())
}
