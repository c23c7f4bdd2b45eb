package store

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/internal/testenv"
)

// lockHolderEnv makes the test binary a second process that holds a store until its standard input ends.
const lockHolderEnv = "TANDEMMQ_TEST_LOCK_HOLDER"

func TestMain(m *testing.M) {
	if root := os.Getenv(lockHolderEnv); root != "" {
		l, err := LockExclusive(root)
		fmt.Println(err)
		_, _ = io.ReadAll(os.Stdin)
		_ = l.Close()
		os.Exit(0)
	}
	os.Exit(testenv.Main(m))
}

// holdStore lets another process hold the store until the function returned is called.
func holdStore(t *testing.T, root string) (pid int, release func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), lockHolderEnv+"="+root)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "<nil>\n", line)
	return cmd.Process.Pid, func() {
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
	}
}

func TestLockHeldElsewhere(t *testing.T) {
	root := t.TempDir()
	pid, release := holdStore(t, root)
	want := fmt.Sprintf("store %s is in use by process %d; stop the broker first", root, pid)
	for name, lock := range map[string]func(string) (*Lock, error){"exclusive": LockExclusive, "shared": LockShared} {
		_, err := lock(root)
		require.EqualError(t, err, want, name)
		require.ErrorIs(t, err, mmap.ErrLocked, name)
		var inUse *InUseError
		require.ErrorAs(t, err, &inUse, name)
		require.Equal(t, pid, inUse.PID, name)
	}
	release()
	l, err := LockExclusive(root)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
}

func TestLockSharedCreatesNothing(t *testing.T) {
	root := t.TempDir()
	l, err := LockShared(root)
	require.NoError(t, err)
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.NoError(t, l.Close())
}

func TestLockSharedTwice(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "lock"), []byte("lock"), 0o444))
	a, err := LockShared(root)
	require.NoError(t, err)
	b, err := LockShared(root)
	require.NoError(t, err)
	_, err = LockExclusive(root)
	require.ErrorIs(t, err, mmap.ErrLocked)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}

func TestLockMark(t *testing.T) {
	root := t.TempDir()
	l, err := LockExclusive(root)
	require.NoError(t, err)
	require.NoError(t, l.mark())
	require.NoError(t, l.Close())
	b, err := os.ReadFile(filepath.Join(root, "lock"))
	require.NoError(t, err)
	require.Equal(t, "lock", string(b))
}
