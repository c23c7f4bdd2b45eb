package process

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a directory's files are mapped and open as is counted apart from the rest.
func TestHeld(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	before, err := Self().Held(dir)
	require.NoError(t, err)
	require.Zero(t, before.OwnMapped)
	require.Zero(t, before.OwnOpen)
	require.Positive(t, before.AnonMiB)
	f, err := os.Create(filepath.Join(dir, "f"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(4096))
	b, err := syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_SHARED)
	require.NoError(t, err)
	after, err := Self().Held(dir)
	require.NoError(t, err)
	require.Equal(t, 1, after.OwnMapped)
	require.Equal(t, 1, after.OwnOpen)
	require.NoError(t, syscall.Munmap(b))
	other, err := Of(os.Getpid()).Held(dir)
	require.NoError(t, err)
	require.Zero(t, other.OwnMapped)
	require.Equal(t, 1, other.OwnOpen)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "full"), make([]byte, 8192), 0o600))
	n, err := DiskBytes(dir)
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, int64(8192))
	_, err = Self().WrittenBytes()
	require.NoError(t, err)
	_, err = OwnAnonMiB()
	require.NoError(t, err)
}

// The largest of what was seen counts.
func TestWatchAnon(t *testing.T) {
	largest := Self().WatchAnon()
	b := make([]byte, 64<<20)
	for i := range b {
		b[i] = 1
	}
	require.GreaterOrEqual(t, largest(), 64.0)
	runtime.KeepAlive(b)
	largest = Of(1 << 30).WatchAnon()
	time.Sleep(2 * watchStep)
	require.Zero(t, largest())
}

func TestCPU(t *testing.T) {
	before, err := Self().CPU()
	require.NoError(t, err)
	var u syscall.Rusage
	for until := before; until < before+3*clockTick; {
		for range 1000 {
			require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		}
		until = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	after, err := Self().CPU()
	require.NoError(t, err)
	require.Greater(t, after, before)
	_, err = Of(1 << 30).CPU()
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Self().number("status", "Nothing")
	require.ErrorContains(t, err, "has no Nothing")
}
