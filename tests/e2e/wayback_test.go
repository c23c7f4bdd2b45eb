//go:build cgo

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// cutOver makes a sample store, cuts it over to RocksDB and returns it with the dump that both sides gave.
func cutOver(t *testing.T) (dir, want string) {
	dir = sample(t)
	want = dump(t, dir, "file")
	tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes")
	return dir, want
}

// What became of the old side since the cutover is seen by verify, and made good by a rollback.
func TestOldSideAfterCutover(t *testing.T) {
	for _, tc := range []struct {
		name string
		harm func(t *testing.T, dir string)
		code Code
	}{
		{"untouched", func(*testing.T, string) {}, 0},
		{"removed altogether", func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
		}, 0},
		{"a queue removed", func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(queueDir(t, dir, 0, 1))) }, 3},
		{"a topic removed", func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(filepath.Dir(queueDir(t, dir, 1, 1))))
		}, 3},
		{"the last files removed", func(t *testing.T, dir string) {
			q := queueDir(t, dir, 1, 2)
			require.NoError(t, os.Remove(segment(t, q, segments(t, q)-1)))
			require.NoError(t, os.Remove(segment(t, q, segments(t, q)-1)))
		}, 3},
		{"the last units zeroed", func(t *testing.T, dir string) {
			q := queueDir(t, dir, 0, 0)
			poke(t, segment(t, q, segments(t, q)-1), 60*20, make([]byte, 40*20))
		}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, want := cutOver(t)
			tc.harm(t, dir)
			before := treeSums(t, dir)
			r := tandemmq.Run(t, "migrate", "verify", "--store", dir)
			require.Equal(t, int(tc.code), r.Code, r.Stdout+r.Stderr)
			if tc.name == "removed altogether" {
				require.Contains(t, r.Stdout, "side-removed")
			}
			tandemmq.MustRun(t, "migrate", "rollback", "--store", dir)
			require.Equal(t, before, treeSums(t, dir), "verify, or a rollback without --yes, wrote something")
			r = tandemmq.MustRun(t, "migrate", "rollback", "--store", dir, "--yes")
			require.Equal(t, want, dump(t, dir, "file"))
			require.Contains(t, r.Stdout, "mappedFileSizeConsumeQueue=2000", "the size of the files is remembered")
			require.Equal(t, "rolled-back", phase(t, dir))
		})
	}
}

// Code is an exit code.
type Code int

// An old side that disagrees where both sides hold a slot is never overwritten unasked.
func TestRollbackRefusesToOverwrite(t *testing.T) {
	t.Run("a queue made anew", func(t *testing.T) {
		dir, want := cutOver(t)
		// The queue of another topic under this name: other records in the same slots, and more of them.
		from, to := queueDir(t, dir, 1, 1), queueDir(t, dir, 0, 1)
		require.NoError(t, os.RemoveAll(to))
		require.NoError(t, os.CopyFS(to, os.DirFS(from)))
		before := treeSums(t, dir)
		for _, yes := range [][]string{nil, {"--yes"}} {
			r := tandemmq.Run(t, append([]string{"migrate", "rollback", "--store", dir}, yes...)...)
			require.Equal(t, 3, r.Code, r.Stdout+r.Stderr)
			require.Contains(t, r.Stderr, "unit-differs")
			require.Contains(t, r.Stderr, "--replace-target")
			require.Equal(t, before, treeSums(t, dir))
		}
		tandemmq.MustRun(t, "migrate", "rollback", "--store", dir, "--yes", "--replace-target")
		require.Equal(t, want, dump(t, dir, "file"))
	})
	t.Run("a unit changed in the middle", func(t *testing.T) {
		dir, want := cutOver(t)
		poke(t, segment(t, queueDir(t, dir, 1, 1), 2), 12, []byte{0, 0, 0, 0, 9, 9, 9, 9})
		r := tandemmq.Run(t, "migrate", "rollback", "--store", dir, "--yes")
		require.Equal(t, 3, r.Code, r.Stdout+r.Stderr)
		require.Contains(t, r.Stderr, "unit-differs")
		require.Contains(t, r.Stderr, "--replace-target")
		tandemmq.MustRun(t, "migrate", "rollback", "--store", dir, "--yes", "--replace-target")
		require.Equal(t, want, dump(t, dir, "file"))
	})
	t.Run("the first file of a queue is missing", func(t *testing.T) {
		dir, want := cutOver(t)
		require.NoError(t, os.Remove(segment(t, queueDir(t, dir, 1, 1), 0)))
		r := tandemmq.Run(t, "migrate", "rollback", "--store", dir, "--yes")
		require.Equal(t, 3, r.Code, r.Stdout+r.Stderr)
		require.Contains(t, r.Stderr, "missing-units")
		tandemmq.MustRun(t, "migrate", "rollback", "--store", dir, "--yes", "--replace-target")
		require.Equal(t, want, dump(t, dir, "file"))
	})
	t.Run("a topic that the new side does not hold", func(t *testing.T) {
		dir, _ := cutOver(t)
		require.NoError(t, os.CopyFS(filepath.Join(dir, "consumequeue", "deleted_since"), os.DirFS(filepath.Dir(queueDir(t, dir, 0, 0)))))
		r := tandemmq.Run(t, "migrate", "rollback", "--store", dir, "--yes")
		require.Equal(t, 3, r.Code, r.Stdout+r.Stderr)
		require.Contains(t, r.Stderr, "only-in-target")
	})
}

// The side that reads belong to is lost: the old side and the log are enough.
func TestRollbackFromLog(t *testing.T) {
	dir, _ := cutOver(t)
	later := filepath.Join(t.TempDir(), "later")
	tandemmq.MustRun(t, append([]string{"store", "generate", "--store", later, "--messages", "3500"}, sampleFlags...)...)
	want := dump(t, later, "file")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "commitlog"))) // 500 messages came since, to RocksDB alone
	require.NoError(t, os.Rename(filepath.Join(later, "commitlog"), filepath.Join(dir, "commitlog")))

	for name, harm := range map[string]func(rocks string) error{
		"an SST file is gone": func(rocks string) error {
			files, err := filepath.Glob(filepath.Join(rocks, "*.sst"))
			require.NotEmpty(t, files)
			require.NoError(t, os.Remove(files[0]))
			return err
		},
		"CURRENT is gone":   func(rocks string) error { return os.Remove(filepath.Join(rocks, "CURRENT")) },
		"all of it is gone": os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			d := golden.CopyTree(t, dir)
			require.NoError(t, harm(filepath.Join(d, "consumequeue_rocksdb")))
			r := tandemmq.Run(t, "migrate", "rollback", "--store", d, "--yes")
			require.Equal(t, 1, r.Code, r.Stderr)
			if name != "CURRENT is gone" { // RocksDB's own files may be made whole again
				require.Contains(t, r.Stderr, "--from-log")
			}
			r = tandemmq.MustRun(t, "migrate", "rollback", "--store", d, "--yes", "--from-log")
			require.Contains(t, r.Stdout, "from-log")
			require.Equal(t, want, dump(t, d, "file"))
			require.Equal(t, "rolled-back", phase(t, d))
		})
	}
}

// Both sides are lost: the log is enough, where told so.
func TestRollbackFromLogAlone(t *testing.T) {
	dir, want := cutOver(t)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue_rocksdb")))
	r := tandemmq.Run(t, "migrate", "rollback", "--store", dir, "--yes", "--from-log")
	require.Equal(t, 3, r.Code, r.Stderr)
	require.Contains(t, r.Stderr, "--missing-queues build")
	tandemmq.MustRun(t, "migrate", "rollback", "--store", dir, "--yes", "--from-log", "--missing-queues", "build")
	require.Equal(t, want, dump(t, dir, "file"))
}

// A skipped queue stays skipped: verify after the cutover knows what the migration was told.
func TestVerifyRemembersSkippedQueues(t *testing.T) {
	dir := sample(t)
	require.NoError(t, os.RemoveAll(queueDir(t, dir, 0, 0)))
	tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--missing-queues", "skip", "--yes")
	tandemmq.MustRun(t, "migrate", "verify", "--store", dir)
}

// Nothing is removed before every reason to refuse has been looked at.
func TestReplaceTargetRefusedFirst(t *testing.T) {
	lose := func(t *testing.T, dir string) map[string]string {
		require.NoError(t, os.Remove(filepath.Join(dir, "consumequeue_rocksdb", "CURRENT")))
		return treeSums(t, dir)
	}
	args := []string{"migrate", "run", "--yes", "--restart", "--replace-target", "--store"}
	t.Run("the only queues", func(t *testing.T) {
		dir, _ := cutOver(t)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "tandemmq")))
		before := lose(t, dir)
		require.Equal(t, 1, tandemmq.Run(t, append(args, dir)...).Code)
		require.Equal(t, before, treeSums(t, dir))
	})
	t.Run("the active side", func(t *testing.T) {
		dir, _ := cutOver(t)
		before := lose(t, dir)
		require.Equal(t, 1, tandemmq.Run(t, append(args, dir)...).Code)
		require.Equal(t, before, treeSums(t, dir))
	})
	t.Run("an unclean store", func(t *testing.T) {
		dir, _ := cutOver(t)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "tandemmq")))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), nil, 0o600))
		before := lose(t, dir)
		require.Equal(t, 1, tandemmq.Run(t, append(args, dir)...).Code)
		require.Equal(t, before, treeSums(t, dir))
	})
}

// A backfill that ends on damage takes away what it made, and nothing else.
func TestDamageCleansUpItsOwn(t *testing.T) {
	damaged := func(t *testing.T) string { // damage at the end, behind several imports
		dir := sample(t)
		path, at, size := lastRecord(t, dir)
		poke(t, path, at+size/2, make([]byte, size-size/2))
		return dir
	}
	keep := func(t *testing.T, path string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("keep me"), 0o600))
	}
	for _, tc := range []struct {
		name, layout string
		prepare      func(t *testing.T, dir string)
	}{
		{"separate", "separate", func(*testing.T, string) {}},
		{"shared", "shared", func(t *testing.T, dir string) {
			keep(t, filepath.Join(dir, "consumequeue", "NOTES.txt"))
			keep(t, filepath.Join(dir, "consumequeue", "lost+found", "x"))
			topic := filepath.Dir(queueDir(t, dir, 0, 0))
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			require.NoError(t, os.Rename(topic, elsewhere))
			require.NoError(t, os.Symlink(elsewhere, topic))
		}},
		{"a directory of somebody else's", "separate", func(t *testing.T, dir string) {
			keep(t, filepath.Join(dir, "consumequeue_rocksdb", "NOTES.txt"))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := damaged(t)
			tc.prepare(t, dir)
			before := treeSums(t, dir)
			r := tandemmq.Run(t, "migrate", "backfill", "--store", dir, "--layout", tc.layout, "--chunk-units", "100")
			require.Equal(t, 3, r.Code, r.Stderr)
			require.Equal(t, before, without(treeSums(t, dir), "tandemmq"))
		})
	}
}

// A backfill killed while RocksDB was being created leaves a database without CURRENT; so does one that lost it.
func TestDatabaseWithoutCurrent(t *testing.T) {
	t.Run("of an unfinished creation", func(t *testing.T) {
		dir := sample(t)
		want := dump(t, dir, "file")
		tandemmq.MustRun(t, "migrate", "backfill", "--store", dir)
		state := filepath.Join(dir, "tandemmq", "migration.json")
		b, err := os.ReadFile(state)
		require.NoError(t, err)
		s := strings.Replace(string(b), `"phase": "verifying"`, `"phase": "backfilling", "targetCreated": true`, 1)
		at := strings.Index(s, `"backfilledTo"`)
		s = s[:at] + `"backfilledTo": -1` + s[at+strings.Index(s[at:], ","):]
		require.NoError(t, os.WriteFile(state, []byte(s), 0o600))
		require.NoError(t, os.Remove(filepath.Join(dir, "consumequeue_rocksdb", "CURRENT")))
		tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes")
		require.Equal(t, want, dump(t, dir, "rocks"))
	})
	t.Run("that was lost", func(t *testing.T) {
		dir, want := cutOver(t)
		tandemmq.MustRun(t, "migrate", "rollback", "--store", dir, "--yes")
		require.NoError(t, os.Remove(filepath.Join(dir, "consumequeue_rocksdb", "CURRENT")))
		before := treeSums(t, dir)
		r := tandemmq.Run(t, "migrate", "run", "--store", dir, "--yes")
		require.Equal(t, 1, r.Code, r.Stderr)
		require.Contains(t, r.Stderr, "consumequeue_rocksdb")
		require.Equal(t, before, treeSums(t, dir))
		tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes", "--restart", "--replace-target")
		require.Equal(t, want, dump(t, dir, "rocks"))
	})
	t.Run("a damaged target is made anew on request", func(t *testing.T) {
		dir, want := cutOver(t)
		tandemmq.MustRun(t, "migrate", "rollback", "--store", dir, "--yes")
		files, err := filepath.Glob(filepath.Join(dir, "consumequeue_rocksdb", "*.sst"))
		require.NoError(t, err)
		require.NoError(t, os.Remove(files[0]))
		r := tandemmq.Run(t, "migrate", "run", "--store", dir, "--yes")
		require.Equal(t, 1, r.Code, r.Stderr)
		require.Contains(t, r.Stderr, "--restart --replace-target")
		tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes", "--restart", "--replace-target")
		require.Equal(t, want, dump(t, dir, "rocks"))
	})
}

// A migration towards the side that reads belong to already is refused: it would write live queues.
func TestMigrateTowardsTheActiveSide(t *testing.T) {
	dir := sample(t)
	tandemmq.MustRun(t, "migrate", "run", "--store", dir)
	before := treeSums(t, dir)
	r := tandemmq.Run(t, "migrate", "backfill", "--store", dir, "--to", "file")
	require.Equal(t, 1, r.Code, r.Stderr)
	require.Contains(t, r.Stderr, "reads belong to the file side already")
	require.Equal(t, before, treeSums(t, dir))
	require.Equal(t, "verified", phase(t, dir))
}
