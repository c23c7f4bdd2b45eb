package mmap

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestReadDirFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), []byte("four"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "c"), 0o700))
	require.NoError(t, os.Symlink("b", filepath.Join(dir, "a")))
	require.NoError(t, os.Symlink("c", filepath.Join(dir, "d")))
	infos, err := OS.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, infos, 4)
	for i, want := range []struct {
		name string
		dir  bool
	}{{"a", false}, {"b", false}, {"c", true}, {"d", true}} {
		require.Equal(t, want.name, infos[i].Name())
		require.Equal(t, want.dir, infos[i].IsDir(), want.name)
	}
	require.Equal(t, int64(4), infos[0].Size())

	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "e")))
	_, err = OS.ReadDir(dir)
	require.ErrorContains(t, err, filepath.Join(dir, "e"))
}

func TestStartWriteback(t *testing.T) {
	f, err := OS.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{1}, 1<<20), 0)
	require.NoError(t, err)
	if err := f.StartWriteback(0, 1<<20); !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(t, err)
		require.ErrorIs(t, f.StartWriteback(-1, 10), syscall.EINVAL)
	}
	require.NoError(t, f.StartWriteback(5, 0))
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.StartWriteback(0, 1), os.ErrClosed)
}

func TestFileMapErrorIsNil(t *testing.T) {
	f, err := OS.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	m, err := f.Map(10, true)
	require.Error(t, err)
	if m != nil { // require.Nil would take a nil *Region for nil as well
		t.Fatal("a *Region that is nil in a Mapping that is not")
	}
}

func TestLockPages(t *testing.T) {
	f := newFile(t, make([]byte, 5*pageSize))
	r, err := Map(f, 5*pageSize, true)
	require.NoError(t, err)
	err = r.Lock(pageSize+5, 2*pageSize) // of pages 1 to 3
	if errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EPERM) {
		t.Skip("this process may not lock pages:", err)
	}
	require.NoError(t, err)
	for page := range int64(5) {
		err := r.Advise(page*pageSize, 1, DontNeed)
		if page >= 1 && page <= 3 {
			require.ErrorIs(t, err, unix.EINVAL, "a locked page is not dropped")
		} else {
			require.NoError(t, err)
		}
	}
	require.NoError(t, r.Unlock(0, 5*pageSize))
	require.NoError(t, r.Advise(0, 5*pageSize, DontNeed))
	require.ErrorContains(t, r.Lock(0, 5*pageSize+1), "outside")
	require.NoError(t, r.Lock(5*pageSize, 0))
	require.NoError(t, r.Unmap())
	require.ErrorIs(t, r.Lock(0, 1), ErrUnmapped)
	require.ErrorIs(t, r.Unlock(0, 1), ErrUnmapped)
}

func TestPopulateBeyondTheFile(t *testing.T) {
	r := cutRegion(t)
	for _, a := range []Advice{PopulateRead, PopulateWrite} {
		err := r.Advise(0, 3*pageSize, a)
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip("this kernel cannot populate")
		}
		require.ErrorIs(t, err, syscall.EFAULT)
		require.ErrorContains(t, err, "populate pages: disk full or read error")
		require.ErrorContains(t, err, r.path)
		require.NotErrorIs(t, err, syscall.ENOSPC, "there is room")
	}
}

// TestFullDisk runs itself in a mount namespace of its own, whose small tmpfs is gone with the process.
func TestFullDisk(t *testing.T) {
	const env = "MMAP_TEST_FULL_DISK"
	dir := os.Getenv(env)
	if dir == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), env+"="+t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) || bytes.Contains(out, []byte("--- SKIP")) {
			t.Skipf("this machine gives no namespace to mount in: %v %s", err, out)
		}
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "--- PASS: TestFullDisk")
		return
	}
	runtime.LockOSThread() // the mount is seen by the whole process; nothing else runs in it
	const size = 64 << 10
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=65536"); err != nil {
		t.Skip("mount:", err)
	}
	total, free, err := OS.Usage(dir)
	require.NoError(t, err)
	require.Equal(t, [2]int64{size, size}, [2]int64{total, free})
	f, err := OS.OpenFile(filepath.Join(dir, "f"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(2*size))
	m, err := f.Map(2*size, true)
	require.NoError(t, err)

	err = m.Advise(0, 2*size, PopulateWrite)
	if !errors.Is(err, errors.ErrUnsupported) {
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorIs(t, err, syscall.EFAULT, "the cause is kept")
		require.ErrorContains(t, err, f.Name())
		require.NotErrorIs(t, m.Advise(0, 2*size, PopulateRead), syscall.ENOSPC, "reading holes takes no room")
	}
	require.ErrorIs(t, GuardFault(func() error { clear(m.Bytes()); return nil }), ErrFault)
	require.ErrorIs(t, f.Preallocate(0, 2*size), syscall.ENOSPC)
	_, err = f.WriteAt(make([]byte, 2*size), 0)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Erase(0, size))
	require.NoError(t, f.Preallocate(0, size))
	_, free, err = OS.Usage(dir)
	require.NoError(t, err)
	require.Zero(t, free)
	require.NoError(t, m.Unmap())
	require.NoError(t, f.Close())
}
