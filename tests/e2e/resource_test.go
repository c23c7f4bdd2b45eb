//go:build cgo

package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// as runs tandemmq as another user. Root passes every permission check, so a test of them has to be somebody else.
func as(t *testing.T, uid uint32, args ...string) golden.Result {
	cmd := exec.Command(filepath.Join(binDir, "tandemmq"), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Run()
	return golden.Result{Code: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errs.String()}
}

const nobody = 65534

// give hands a tree to a user, and opens the way to it.
func give(t *testing.T, dir string, uid int) {
	for d := filepath.Dir(dir); d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		require.NoError(t, os.Chmod(d, 0o755))
	}
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		require.NoError(t, err)
		return os.Lchown(path, uid, uid)
	}))
}

// A plan says that a migration would not be let write, as backfill does before anything else.
func TestPlanTellsWhatMayNotBeWritten(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user")
	}
	for name, closed := range map[string]string{"the store": "", "the state": "tandemmq", "the database": "consumequeue_rocksdb"} {
		t.Run(name, func(t *testing.T) {
			dir := sample(t)
			if closed != "" {
				require.NoError(t, os.Mkdir(filepath.Join(dir, closed), 0o755))
			}
			give(t, dir, nobody)
			require.NoError(t, os.Chown(filepath.Join(dir, closed), 0, 0))
			for _, step := range []string{"plan", "backfill"} {
				r := as(t, nobody, "migrate", step, "--store", dir)
				require.Equal(t, 1, r.Code, r.Stderr)
				require.Contains(t, r.Stderr, step+" refused")
				require.Contains(t, r.Stderr, "access "+filepath.Join(dir, closed)+": permission denied")
			}
			require.NoError(t, os.Chown(filepath.Join(dir, closed), nobody, nobody))
			r := as(t, nobody, "migrate", "plan", "--store", dir)
			require.Equal(t, 0, r.Code, r.Stderr)
		})
	}
}

func TestMigratePermissionDenied(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user")
	}
	for _, tc := range []struct {
		name string
		path func(t *testing.T, dir string) string
	}{
		{"a queue file", func(t *testing.T, dir string) string { return segment(t, queueDir(t, dir, 0, 1), 2) }},
		{"a log file", func(t *testing.T, dir string) string { return segment(t, filepath.Join(dir, "commitlog"), 1) }},
		{"the queues", func(_ *testing.T, dir string) string { return filepath.Join(dir, "consumequeue") }},
		{"the lock", func(_ *testing.T, dir string) string { return filepath.Join(dir, "lock") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := sample(t)
			give(t, dir, nobody)
			path := tc.path(t, dir)
			require.NoError(t, os.Chmod(path, 0))
			before := treeSums(t, dir)
			r := as(t, nobody, "migrate", "run", "--store", dir, "--yes")
			require.Equal(t, 1, r.Code, r.Stderr)
			require.Contains(t, r.Stderr, "permission denied")
			require.Contains(t, r.Stderr, path)
			require.Equal(t, before, treeSums(t, dir))
		})
	}
	t.Run("the store cannot be written", func(t *testing.T) {
		dir := sample(t)
		give(t, dir, nobody)
		require.NoError(t, os.Chown(dir, 0, 0))
		require.NoError(t, os.Chmod(dir, 0o755))
		before := treeSums(t, dir)
		r := as(t, nobody, "migrate", "run", "--store", dir, "--yes")
		require.Equal(t, 1, r.Code, r.Stderr)
		require.Contains(t, r.Stderr, "permission denied")
		require.Equal(t, before, treeSums(t, dir))
	})
}

// A file size limit fails RocksDB's own writes in the middle of a backfill. The error says so, the source is untouched,
// and the backfill goes on when there is room.
func TestBackfillDiskFull(t *testing.T) {
	for _, limitKiB := range []int{1, 4, 16} {
		t.Run(fmt.Sprintf("file size limit %d KiB", limitKiB), func(t *testing.T) {
			dir := sample(t)
			want := dump(t, dir, "file")
			before := treeSums(t, dir)
			// ulimit -f counts blocks of 1024 bytes in bash and of 512 in dash.
			cmd := exec.Command("bash", "-c", fmt.Sprintf("ulimit -f %d; exec \"$@\"", limitKiB), "bash",
				filepath.Join(binDir, "tandemmq"), "migrate", "run", "--store", dir, "--yes")
			cmd.WaitDelay = 5 * time.Second
			var errs bytes.Buffer
			cmd.Stderr = &errs
			err := cmd.Run()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "a limit of %d KiB is not noticed", limitKiB)
			require.Equal(t, 1, exit.ExitCode(), errs.String())
			require.Contains(t, errs.String(), "too large", "the error does not tell the cause")
			require.Contains(t, errs.String(), dir)
			require.NotContains(t, errs.String(), "panic")
			require.Equal(t, before, without(treeSums(t, dir), "consumequeue_rocksdb", "tandemmq"))
			require.NotEqual(t, "cutover", phase(t, dir))

			tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes")
			require.Equal(t, want, dump(t, dir, "rocks"))
		})
	}
}

// On a file system without the room that the plan needs, nothing is begun.
func TestMigrateNoSpace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	mnt := filepath.Join(t.TempDir(), "mnt")
	require.NoError(t, os.Mkdir(mnt, 0o755))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", mnt).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a file system here: %s", out)
	}
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", mnt).Run()) })
	dir := filepath.Join(mnt, "store")
	require.NoError(t, os.CopyFS(dir, os.DirFS(sample(t))))
	before := treeSums(t, dir)
	r := tandemmq.Run(t, "migrate", "run", "--store", dir, "--yes")
	require.Equal(t, 1, r.Code, r.Stderr)
	require.Contains(t, r.Stderr, "are free")
	require.Equal(t, before, treeSums(t, dir))
}

// A store in use is refused by every step that reads it, with the process that holds it.
func TestStoreInUse(t *testing.T) {
	dir := sample(t)
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	lk := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: 0, Start: 0, Len: 1}
	require.NoError(t, syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &lk))
	for _, args := range [][]string{
		{"migrate", "plan"},
		{"migrate", "run"},
		{"migrate", "backfill"},
		{"migrate", "verify"},
		{"migrate", "cutover"},
		{"migrate", "rollback"},
		{"store", "dump", "--cq", "file"},
	} {
		r := tandemmq.Run(t, append(args, "--store", dir)...)
		require.Equal(t, 1, r.Code, "%v", args)
		require.Contains(t, r.Stderr, fmt.Sprintf("in use by process %d", os.Getpid()), "%v", args)
	}
	tandemmq.MustRun(t, "migrate", "status", "--store", dir)
}
