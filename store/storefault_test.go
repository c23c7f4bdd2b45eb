package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/internal/faultfs"
)

// faultOptions are those of a store in memory that waits for each sync. Four messages fill a file.
func faultOptions(fsys *faultfs.FS) Options {
	o := putOptions()
	o.FS = fsys
	o.FlushDiskType = SyncFlush
	o.MappedFileSizeCommitLog = 512
	return o
}

const faultRoot = "/data/store"

func exists(fsys *faultfs.FS, path string) bool {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err == nil {
		return f.Close() == nil
	}
	_, err = fsys.ReadDir(path)
	return err == nil
}

// faultRun opens the store, puts ten messages and closes; acked is the end of the last that was acknowledged.
func faultRun(t *testing.T, fsys *faultfs.FS, acked *atomic.Int64) error {
	t.Helper()
	s, err := Open(faultRoot, faultOptions(fsys))
	if err != nil {
		return err
	}
	for range 10 {
		if r, err := s.Put(t.Context(), newMessage("T")); err == nil {
			acked.Store(r.Append.PhyOffset + int64(r.Append.Bytes))
		}
	}
	return s.Close()
}

// requireOpens opens what a crash left and requires that the log reaches least, without a gap, and takes another message. A log
// that has later pages and lacks earlier ones is refused, which loses nothing: then the part before the gap must reach least.
func requireOpens(t *testing.T, left *faultfs.FS, least int64) {
	t.Helper()
	s, err := Open(faultRoot, faultOptions(left))
	var end *commitlog.EndError
	if errors.As(err, &end) && end.Kind == commitlog.EndCorrupt {
		require.GreaterOrEqual(t, end.Offset, least, "%v", left)
		return
	}
	require.NoError(t, err, "%v", left)
	require.GreaterOrEqual(t, s.Positions().Wrote, least, "%v", left)
	next := s.NextOffset("T", 0)
	f := &fixture{Store: s}
	all := f.records(t)
	require.Len(t, all, int(next), "%v", left)
	for i, r := range all {
		require.EqualValues(t, i, r.QueueOffset, "%v", left)
	}
	r, err := s.Put(t.Context(), newMessage("T"))
	require.NoError(t, err)
	require.Equal(t, next, r.Append.QueueOffset)
	require.NoError(t, s.Close())
}

// W31: whenever power is lost, a store whose log was touched has its abort mark, opens, and has every message that was
// acknowledged under synchronous flush.
func TestW31PowerLoss(t *testing.T) {
	fsys := faultfs.New(faultfs.Options{})
	fsys.MkdirAll("/data")
	var acked atomic.Int64
	type left struct {
		fs    *faultfs.FS
		acked int64
	}
	crashes := make(chan left, 4096)
	fsys.Inject(func(op faultfs.Op) error {
		if op.Kind.Changes() {
			for seed := range uint64(12) {
				n := acked.Load() // before the crash: more may be acknowledged meanwhile
				crashes <- left{fsys.CrashSeed(seed), n}
			}
		}
		return nil
	})
	require.NoError(t, faultRun(t, fsys, &acked))
	require.Greater(t, acked.Load(), int64(1024))
	close(crashes)
	require.Greater(t, len(crashes), 12*20)
	for c := range crashes {
		if exists(c.fs, faultRoot+"/commitlog") {
			require.True(t, exists(c.fs, faultRoot+"/abort"), "%v", c.fs)
		}
		requireOpens(t, c.fs, c.acked)
	}
}

var errInjected = errors.New("injected")

// Whatever single operation fails, of a new store or of one with messages, nobody panics, nothing stays open, and what was
// acknowledged outlives a loss of power.
func TestStoreEachOperationFails(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("again=%v", again), func(t *testing.T) {
			for k := int64(0); failOperation(t, again, k); k++ {
				require.Less(t, k, int64(10_000))
			}
		})
	}
}

// failOperation fails operation k of a run; false when the run had no so many.
func failOperation(t *testing.T, again bool, k int64) bool {
	t.Helper()
	fsys := faultfs.New(faultfs.Options{})
	fsys.MkdirAll("/data")
	var acked atomic.Int64
	if again {
		require.NoError(t, faultRun(t, fsys, &acked))
	}
	first := fsys.Ops()
	var failed atomic.Pointer[faultfs.Op]
	fsys.Inject(func(op faultfs.Op) error {
		if op.Index != first+k {
			return nil
		}
		failed.Store(&op)
		return errInjected
	})
	err := faultRun(t, fsys, &acked)
	fsys.Inject(nil)
	op := failed.Load()
	if op == nil {
		require.NoError(t, err)
		require.Greater(t, k, int64(40))
		return false
	}
	require.Zero(t, fsys.OpenFiles(), "%v", op)
	require.Zero(t, fsys.Mappings(), "%v", op)
	requireOpens(t, clearFlags(fsys.CrashSeed(0)), acked.Load())
	return true
}

// Damage in an older file of a store that was closed in order, where only the log's end is looked at for the place of the next
// record, is found by the reading of the whole log; nothing stays open then either.
func TestOpenRefusesDamageInAnOlderFile(t *testing.T) {
	fsys := faultfs.New(faultfs.Options{})
	fsys.MkdirAll("/data")
	require.NoError(t, faultRun(t, fsys, new(atomic.Int64)))
	name := faultRoot + "/commitlog/00000000000000000000"
	f, err := fsys.OpenFile(name, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{0xFF}, 113+90) // in the second body
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, fsys.Remove(faultRoot+"/abort"))
	_, err = Open(faultRoot, faultOptions(fsys))
	require.ErrorIs(t, err, commitlog.ErrCorrupt)
	require.ErrorContains(t, err, name+"+113")
	require.Zero(t, fsys.OpenFiles())
	require.Zero(t, fsys.Mappings())
	require.True(t, exists(fsys, faultRoot+"/abort"))
}

// FR-A05, FR-A11: a put that needs a file which cannot be made is told why; the put lock is free, and the next message that
// fits into the current file is stored at once.
func TestFRA05PutLockIsFreeAfterAFailedRoll(t *testing.T) {
	fsys := faultfs.New(faultfs.Options{})
	fsys.MkdirAll("/data")
	fsys.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.Create && strings.HasSuffix(op.Path, "/00000000000000000512") {
			return syscall.ENOSPC
		}
		return nil
	})
	s, err := Open(faultRoot, faultOptions(fsys))
	require.NoError(t, err)
	f := &fixture{Store: s}
	m := newMessage("T")
	m.Body = make([]byte, 300) // leaves no room for another of its size
	_, err = s.Put(t.Context(), m)
	require.NoError(t, err)
	for range 3 {
		_, err = s.Put(t.Context(), m)
		require.ErrorIs(t, err, PutCreateMappedFileFailed)
		require.ErrorIs(t, err, syscall.ENOSPC)
		free := false
		for range 1_000_000 { // the first looks may see themselves wait for a processor
			if free = s.writer.PutLockHeld() == 0; free {
				break
			}
			runtime.Gosched()
		}
		require.True(t, free)
	}
	m.Body, m.Properties = nil, nil
	m.Topic = "U"
	require.LessOrEqual(t, s.Positions().Wrote+92+8, int64(512), "the test's own sizes")
	r, err := s.Put(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, r.Append.PhyOffset, f.last(t).PhyOffset)
	require.EqualValues(t, 1, s.NextOffset("T", 0))
	require.NoError(t, s.Close())
}

// clearFlags lets a store take puts again that a failed sync has forbidden them to, as an operator would.
func clearFlags(fsys *faultfs.FS) *faultfs.FS {
	if err := fsys.Remove(NewLayout(faultRoot).StateDir() + "/" + runningFlagsName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		panic(err)
	}
	return fsys
}
