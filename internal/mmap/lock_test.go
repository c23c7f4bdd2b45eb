package mmap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// childEnv makes this test binary a second process: "exclusive" or "shared" and the path of a lock file. It prints "ok",
// "locked <pid>" or the error, and keeps what it got until its standard input ends.
const childEnv = "MMAP_TEST_LOCK"

func TestMain(m *testing.M) {
	if mode, path, ok := strings.Cut(os.Getenv(childEnv), " "); ok {
		child(mode, path)
		return
	}
	os.Exit(m.Run())
}

func child(mode, path string) {
	_, err := Lock(path, mode == "exclusive")
	var locked *LockedError
	switch {
	case errors.As(err, &locked):
		fmt.Println("locked", locked.PID)
		return
	case err != nil:
		fmt.Println(err)
		return
	}
	fmt.Println("ok")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// process is a child that tries to lock.
type process struct {
	pid    int
	answer string
	stop   func() // ends it without letting it unlock
}

func start(t *testing.T, mode, path string) process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+mode+" "+path)
	_, err := cmd.StdinPipe() // open for as long as the child shall live
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var stopped bool
	stop := func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Kill() // it may have ended by itself
			_ = cmd.Wait()         // killed
		}
	}
	t.Cleanup(stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return process{cmd.Process.Pid, strings.TrimSpace(line), stop}
}

func TestLockExcludesAnotherProcess(t *testing.T) {
	for _, c := range []struct {
		holder, other string
		both          bool
	}{
		{"exclusive", "exclusive", false}, {"exclusive", "shared", false}, {"shared", "exclusive", false}, {"shared", "shared", true},
	} {
		t.Run(c.holder+" then "+c.other, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			require.NoError(t, os.WriteFile(path, []byte("lock"), 0o644))
			holder := start(t, c.holder, path)
			require.Equal(t, "ok", holder.answer)

			l, err := Lock(path, c.other == "exclusive")
			if c.both {
				require.NoError(t, err)
				require.NoError(t, l.Close())
				return
			}
			require.ErrorIs(t, err, ErrLocked)
			var locked *LockedError
			require.ErrorAs(t, err, &locked)
			require.Equal(t, holder.pid, locked.PID)
			require.ErrorContains(t, err, fmt.Sprintf("lock %s: held by process %d", path, holder.pid))

			holder.stop() // the kernel lets go of what a dead process held
			l, err = Lock(path, c.other == "exclusive")
			require.NoError(t, err)
			require.NoError(t, l.Close())
		})
	}
}

func TestLockInOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	excluded := fmt.Sprint("locked ", os.Getpid())

	l, err := Lock(path, true)
	require.NoError(t, err)
	require.FileExists(t, path)
	for _, exclusive := range []bool{true, false} {
		_, err = Lock(path, exclusive)
		require.ErrorIs(t, err, ErrLocked)
		require.ErrorContains(t, err, "already held by this process")
	}
	require.Equal(t, excluded, start(t, "exclusive", path).answer, "the attempts must not have dropped the lock")

	require.NoError(t, l.WriteAll([]byte("longer text")))
	require.NoError(t, l.WriteAll([]byte("lock")))
	b, err := l.ReadAll()
	require.NoError(t, err)
	require.Equal(t, "lock", string(b))
	require.Equal(t, excluded, start(t, "exclusive", path).answer, "neither must reading and writing")

	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	require.FileExists(t, path)
	other := start(t, "exclusive", path)
	require.Equal(t, "ok", other.answer)
}

func TestSharedLocksOfOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	_, err := Lock(path, false)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoFileExists(t, path)

	require.NoError(t, os.WriteFile(path, nil, 0o444))
	a, err := Lock(path, false)
	require.NoError(t, err)
	b, err := Lock(path, false)
	require.NoError(t, err)
	_, err = Lock(path, true)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, a.Close())
	require.NoError(t, a.Close(), "a second Close must not count for b")
	require.Equal(t, fmt.Sprint("locked ", os.Getpid()), start(t, "exclusive", path).answer)
	require.NoError(t, b.Close())
	require.Equal(t, "ok", start(t, "exclusive", path).answer)
}

// TestTheTrap shows why ReadAll exists: closing any descriptor of the file drops the lock.
func TestTheTrap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := Lock(path, true)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	require.NotEqual(t, "ok", start(t, "exclusive", path).answer)
	_, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "ok", start(t, "exclusive", path).answer)
}

func TestLockErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := Lock(filepath.Join(dir, "missing", "lock"), true)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Lock(dir, true)
	require.ErrorContains(t, err, "lock "+dir)
	require.Equal(t, "lock x: held by another process", (&LockedError{Path: "x"}).Error())
}
