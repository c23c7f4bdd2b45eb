package store

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mmap"
)

func TestRunningFlagsForbid(t *testing.T) {
	tests := []struct {
		flag                     Flag
		name                     string
		put, writeQueue, canRead bool
	}{
		{0, "", true, true, true},
		{0x01, "NOT_READABLE", true, true, false},
		{0x02, "NOT_WRITEABLE", false, false, true},
		{0x04, "LOGICS_QUEUE_ERROR", false, false, true},
		{0x08, "INDEX_FILE_ERROR", false, false, true},
		{0x10, "DISK_FULL", false, true, true},
		{0x20, "FENCED", false, true, true},
		{0x40, "LOGIC_DISK_FULL", false, false, true},
		{FlagNotReadable | FlagDiskFull, "NOT_READABLE|DISK_FULL", false, true, false},
	}
	for _, tt := range tests {
		t.Run("flag="+tt.name, func(t *testing.T) {
			var r RunningFlags
			require.NoError(t, r.Set(tt.flag, "test"))
			require.Equal(t, tt.flag, r.Bits())
			require.Equal(t, tt.name, r.String())
			require.Equal(t, tt.put, r.CanPut(), "put")
			require.Equal(t, tt.writeQueue, r.CanWriteQueue(), "write to a queue")
			require.Equal(t, tt.canRead, r.CanRead(), "read")
			require.NoError(t, r.Clear(tt.flag))
			require.Zero(t, r.Bits())
		})
	}
	require.Equal(t, "FENCED|Flag(0x80)", Flag(0xA0).String())
}

// openFlags opens the flags of the store at root, as a start does.
func openFlags(t *testing.T, root string) *RunningFlags {
	t.Helper()
	r, err := OpenRunningFlags(nil, NewLayout(root).StateDir())
	require.NoError(t, err)
	return r
}

// A bit that one goroutine set or cleared stays so, whatever the others do with theirs meanwhile.
func TestW32RunningFlagsAreAtomic(t *testing.T) {
	var r RunningFlags // nothing is written, so nothing can fail
	var lost atomic.Int64
	var wg sync.WaitGroup
	for _, own := range []Flag{FlagNotReadable, FlagDiskFull, FlagFenced, FlagLogicDiskFull} {
		expect := func(want Flag) {
			for range 4 {
				if r.Bits()&own != want {
					lost.Add(1)
				}
			}
		}
		wg.Go(func() {
			for range 500_000 {
				_ = r.Set(own, "test")
				expect(own)
				_ = r.Clear(own)
				expect(0)
			}
		})
	}
	wg.Wait()
	require.Zero(t, lost.Load())
	require.Zero(t, r.Bits())
}

// An error is not forgotten by a restart; a full disk, which a start looks at anew, is.
func TestW32ErrorFlagsOutliveARestart(t *testing.T) {
	root := t.TempDir()
	r := openFlags(t, root)
	require.Zero(t, r.Bits())
	require.NoError(t, r.Set(FlagDiskFull|FlagFenced|FlagLogicDiskFull|FlagNotReadable, "not of interest"))
	require.NoDirExists(t, NewLayout(root).StateDir(), "nothing to write down")
	require.NoError(t, r.Set(FlagNotWriteable|FlagDiskFull, "flush commitlog: input/output error"))
	require.NoError(t, r.Set(FlagNotWriteable, "flush commitlog: again"))
	require.NoError(t, r.Set(FlagIndexFileError, "no space left on device"))

	r = openFlags(t, root)
	require.Equal(t, FlagNotWriteable|FlagIndexFileError, r.Bits())
	require.False(t, r.CanPut())
	set := r.Errors()
	require.Len(t, set, 2)
	require.Equal(t, FlagNotWriteable, set[0].Flag)
	require.Equal(t, "flush commitlog: input/output error", set[0].Reason, "the first reason stays")
	require.WithinDuration(t, time.Now(), set[0].Time, time.Hour)
	require.Equal(t, "no space left on device", set[1].Reason)

	require.NoError(t, r.Clear(FlagNotWriteable))
	r = openFlags(t, root)
	require.Equal(t, FlagIndexFileError, r.Bits())
	require.NoError(t, r.Clear(FlagIndexFileError))
	r = openFlags(t, root)
	require.Zero(t, r.Bits())
	require.Empty(t, r.Errors())
}

// Nobody knows what a damaged file said: the store is read, and takes no puts until somebody has looked.
func TestRunningFlagsDamagedFile(t *testing.T) {
	tests := []struct{ name, file, reason string }{
		{"empty", "", "unexpected end of JSON input"},
		{"cut", `{"version": 1, "fla`, "unexpected end of JSON input"},
		{"later version", `{"version": 2, "flags": []}`, "version 2, want 1"},
		{"unknown flag", `{"version": 1, "flags": [{"flag": "MELTED"}]}`, `"MELTED" is no error flag`},
		{"flag of no error", `{"version": 1, "flags": [{"flag": "DISK_FULL"}]}`, `"DISK_FULL" is no error flag`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			dir := NewLayout(root).StateDir()
			require.NoError(t, os.Mkdir(dir, 0o755))
			path := filepath.Join(dir, "running-flags.json")
			require.NoError(t, os.WriteFile(path, []byte(tt.file), 0o644))
			r := openFlags(t, root)
			require.Equal(t, FlagNotWriteable, r.Bits())
			require.True(t, r.CanRead())
			require.Contains(t, r.Errors()[0].Reason, path)
			require.Contains(t, r.Errors()[0].Reason, tt.reason)
			require.NoError(t, r.Clear(FlagNotWriteable))
			require.Zero(t, openFlags(t, root).Bits())
		})
	}
}

// Whatever fails while a flag is written down, it holds at once; the next call writes it.
func TestRunningFlagsFailedWrite(t *testing.T) {
	for failAt := 1; ; failAt++ {
		root := t.TempDir()
		fsys := &brokenFS{FS: mmap.OS, failAt: failAt}
		r, err := OpenRunningFlags(fsys, NewLayout(root).StateDir())
		require.NoError(t, err)
		err = r.Set(FlagNotWriteable, "first")
		require.False(t, r.CanPut())
		if err == nil {
			require.Equal(t, 7, fsys.ops, "mkdir, sync of the root, and the five of a replaced file")
			return
		}
		require.ErrorIs(t, err, fs.ErrPermission)
		require.NoError(t, r.Set(FlagNotWriteable, "second"))
		require.Equal(t, "first", openFlags(t, root).Errors()[0].Reason, "operation %d", failAt)
	}
}

// What cannot be cleared in the file stays set.
func TestRunningFlagsFailedClear(t *testing.T) {
	root := t.TempDir()
	fsys := &brokenFS{FS: mmap.OS}
	r, err := OpenRunningFlags(fsys, NewLayout(root).StateDir())
	require.NoError(t, err)
	require.NoError(t, r.Set(FlagLogicsQueueError, "bad unit"))
	fsys.failAt = fsys.ops + 3
	require.ErrorIs(t, r.Clear(FlagLogicsQueueError), fs.ErrPermission)
	require.Equal(t, FlagLogicsQueueError, r.Bits())
	require.Len(t, r.Errors(), 1)
	require.Equal(t, "bad unit", openFlags(t, root).Errors()[0].Reason)
	require.NoError(t, r.Clear(FlagLogicsQueueError))
	require.Zero(t, openFlags(t, root).Bits())
}
