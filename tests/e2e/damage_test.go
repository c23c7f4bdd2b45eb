//go:build cgo

package e2e

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// A damaged store gives an error that names the place, exit code 1 or 3, and not a byte of it is changed.
func TestMigrateDamagedStore(t *testing.T) {
	skipUnderRace(t)
	unit := func(i int) int64 { return int64(i) * 20 }
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		code   int
		words  []string // each must be in the error; DIR/n/q stands for a queue's directory
	}{
		{
			"a unit points past the log", func(t *testing.T, dir string) {
				poke(t, segment(t, queueDir(t, dir, 0, 1), 4), unit(95), binary.BigEndian.AppendUint64(nil, 1<<40))
			}, 3, []string{"00000000000000008000+1900", "1099511627776"},
		},
		{
			"a unit in the middle points past the log", func(t *testing.T, dir string) {
				poke(t, segment(t, queueDir(t, dir, 0, 1), 2), unit(5), binary.BigEndian.AppendUint64(nil, 1<<40))
			}, 3, []string{"00000000000000004000+100"},
		},
		{
			"a unit points between records", func(t *testing.T, dir string) {
				poke(t, segment(t, queueDir(t, dir, 1, 0), 0), unit(0), binary.BigEndian.AppendUint64(nil, 7))
			}, 3, []string{"unit-no-record", "00000000000000000000+0"},
		},
		{
			"a unit has the wrong size", func(t *testing.T, dir string) {
				poke(t, segment(t, queueDir(t, dir, 1, 0), 1), unit(3)+8, []byte{0, 0, 1, 0})
			}, 3, []string{"wrong-size", "00000000000000002000+60"},
		},
		{
			"a unit has the wrong tags", func(t *testing.T, dir string) {
				poke(t, segment(t, queueDir(t, dir, 1, 0), 1), unit(3)+12, []byte{0, 0, 0, 0, 1, 2, 3, 4})
			}, 3, []string{"wrong-tags", "00000000000000002000+60"},
		},
		{
			"a unit is zero", func(t *testing.T, dir string) {
				poke(t, segment(t, queueDir(t, dir, 1, 0), 1), unit(3), make([]byte, 20))
			}, 3, []string{"00000000000000002000+60"},
		},
		{
			"the first queue file is missing", func(t *testing.T, dir string) {
				require.NoError(t, os.Remove(segment(t, queueDir(t, dir, 0, 2), 0)))
			}, 3, []string{"missing-units", "queue"},
		},
		{
			"a queue file in the middle is missing", func(t *testing.T, dir string) {
				require.NoError(t, os.Remove(segment(t, queueDir(t, dir, 0, 2), 2)))
			}, -1, []string{"00000000000000004000"},
		},
		{
			"the last queue file is missing", func(t *testing.T, dir string) {
				q := queueDir(t, dir, 0, 2)
				require.NoError(t, os.Remove(segment(t, q, segments(t, q)-1)))
			}, 3, []string{"source-behind", "slot 500"},
		},
		{
			"all files of a queue are missing", func(t *testing.T, dir string) {
				require.NoError(t, os.RemoveAll(queueDir(t, dir, 0, 2)))
			}, 3, []string{"missing-queue", "--missing-queues"},
		},
		{
			"a queue file has the wrong size", func(t *testing.T, dir string) {
				require.NoError(t, os.Truncate(segment(t, queueDir(t, dir, 1, 1), 1), 1980))
			}, -1, []string{"00000000000000002000", "1980", "2000"},
		},
		{
			"a log file has the wrong size", func(t *testing.T, dir string) {
				require.NoError(t, os.Truncate(segment(t, filepath.Join(dir, "commitlog"), 1), 1000))
			}, -1, []string{"commitlog/00000000000000262144", "1000", "262144"},
		},
		{
			"a log file in the middle is missing", func(t *testing.T, dir string) {
				require.NoError(t, os.Remove(segment(t, filepath.Join(dir, "commitlog"), 1)))
			}, -1, []string{"00000000000000262144"},
		},
		{
			"the last record is torn", func(t *testing.T, dir string) {
				path, at, size := lastRecord(t, dir)
				poke(t, path, at+size/2, make([]byte, size-size/2))
			}, 3, []string{"torn", "commitlog/"},
		},
		{
			"the last record's body is garbled", func(t *testing.T, dir string) {
				path, at, _ := lastRecord(t, dir)
				poke(t, path, at+90, []byte{0xff, 0xfe, 0xfd})
			}, 3, []string{"torn", "commitlog/"},
		},
		{
			"garbage behind the last record", func(t *testing.T, dir string) {
				path, at, size := lastRecord(t, dir)
				poke(t, path, at+size, []byte("this is no record at all"))
			}, 3, []string{"torn", "commitlog/"},
		},
		{
			"a record in the middle is garbled", func(t *testing.T, dir string) {
				poke(t, segment(t, filepath.Join(dir, "commitlog"), 1), 90, []byte{0xff, 0xfe, 0xfd})
			}, 3, []string{"corrupt-log", "00000000000000262144+0"},
		},
		{
			"the RocksDB directory is garbage", func(t *testing.T, dir string) {
				rocks := filepath.Join(dir, "consumequeue_rocksdb")
				require.NoError(t, os.Mkdir(rocks, 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(rocks, "CURRENT"), []byte("no manifest\n"), 0o600))
			}, 1, []string{"consumequeue_rocksdb"},
		},
		{
			"two RocksDB directories", func(t *testing.T, dir string) {
				require.NoError(t, os.Mkdir(filepath.Join(dir, "consumequeue_rocksdb"), 0o755))
				for _, d := range []string{"consumequeue", "consumequeue_rocksdb"} {
					require.NoError(t, os.WriteFile(filepath.Join(dir, d, "CURRENT"), []byte("MANIFEST-000001\n"), 0o600))
				}
			}, 1, []string{"consumequeue_rocksdb", "both"},
		},
		{
			"the store was not closed cleanly", func(t *testing.T, dir string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), []byte("1"), 0o600))
			}, 1, []string{"recover first", "abort"},
		},
		{
			"a topic has batch queues", func(t *testing.T, dir string) {
				q := filepath.Join(dir, "batchconsumequeue", "batched", "0")
				require.NoError(t, os.MkdirAll(q, 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(q, strings.Repeat("0", 20)), make([]byte, 4600), 0o600))
			}, 1, []string{"batched"},
		},
		{
			"there is no log", func(t *testing.T, dir string) {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, "commitlog")))
			}, 1, []string{"commitlog"},
		},
		{
			"there are no queues", func(t *testing.T, dir string) {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
			}, 1, []string{"no file queues"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := sample(t)
			tc.damage(t, dir)
			before := treeSums(t, dir)
			for _, step := range []string{"run", "backfill"} {
				args := []string{"migrate", step, "--store", dir}
				if step == "run" {
					args = append(args, "--yes")
				}
				r := tandemmq.Run(t, args...)
				if tc.code > 0 {
					require.Equal(t, tc.code, r.Code, "%s: %s", step, r.Stderr)
				} else {
					require.Contains(t, []int{1, 3}, r.Code, "%s: %s", step, r.Stderr)
				}
				for _, w := range tc.words {
					require.Contains(t, r.Stderr, w, step)
				}
				require.NotContains(t, r.Stderr, "panic")
				require.Equal(t, before, treeSums(t, dir), "%s changed the store", step)
			}
		})
	}
}

// segments counts the files of a directory.
func segments(t *testing.T, dir string) int {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	return len(entries)
}

// lastRecord returns the log file, position and size of the last record of a sample store.
func lastRecord(t *testing.T, dir string) (path string, at, size int64) {
	log := filepath.Join(dir, "commitlog")
	entries, err := os.ReadDir(log)
	require.NoError(t, err)
	path = filepath.Join(log, entries[len(entries)-1].Name())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for pos := int64(0); pos+8 <= int64(len(b)); {
		n := int64(binary.BigEndian.Uint32(b[pos:]))
		if n == 0 || binary.BigEndian.Uint32(b[pos+4:]) == 0xcbd43194 {
			break
		}
		at, size = pos, n
		pos += n
	}
	require.Positive(t, size)
	return path, at, size
}

// What may be done about a queue that is missing: build it from the log, or leave it out.
func TestMigrateMissingQueueOnRequest(t *testing.T) {
	want := tandemmq.MustRun(t, "store", "dump", "--store", sample(t), "--cq", "file").Stdout
	t.Run("build", func(t *testing.T) {
		dir := sample(t)
		require.NoError(t, os.RemoveAll(queueDir(t, dir, 0, 2)))
		r := tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--missing-queues", "build", "--yes")
		require.Contains(t, r.Stdout, "built-queue")
		require.Equal(t, want, tandemmq.MustRun(t, "store", "dump", "--store", dir, "--cq", "rocks").Stdout)
	})
	t.Run("skip", func(t *testing.T) {
		dir := sample(t)
		require.NoError(t, os.RemoveAll(filepath.Dir(queueDir(t, dir, 0, 2))))
		r := tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--missing-queues", "skip", "--yes")
		require.Contains(t, r.Stdout, "skipped-queue")
		got := tandemmq.MustRun(t, "store", "dump", "--store", dir, "--cq", "rocks", "--queues-only").Stdout
		require.Equal(t, sampleQueues, strings.Count(got, "\n"))
	})
}

// Bytes behind the last record that RocketMQ itself would overwrite can be accepted as the end of the log.
func TestMigrateAcceptsTornTailOnRequest(t *testing.T) {
	dir := sample(t)
	want := tandemmq.MustRun(t, "store", "dump", "--store", dir, "--cq", "file").Stdout
	path, at, size := lastRecord(t, dir)
	poke(t, path, at+size, []byte("this is no record at all"))
	tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--accept-torn-tail", "--yes")
	require.Equal(t, want, tandemmq.MustRun(t, "store", "dump", "--store", dir, "--cq", "rocks").Stdout)

	t.Run("not when a unit points into them", func(t *testing.T) {
		dir := sample(t)
		path, at, size := lastRecord(t, dir)
		poke(t, path, at+size/2, make([]byte, size-size/2))
		r := tandemmq.Run(t, "migrate", "run", "--store", dir, "--accept-torn-tail", "--yes")
		require.Equal(t, 3, r.Code, r.Stderr)
		require.Contains(t, r.Stderr, "unit-outside-log")
	})
}

// A backfill that was killed while it made its database leaves one without CURRENT: the next one makes it anew. A database that a store once made durable, and whose manifest has lost its end, is not taken
// for that, whatever the state says: nothing of it is removed unless that is asked for.
func TestMigrateUnfinishedDatabase(t *testing.T) {
	const rocks = "consumequeue_rocksdb"
	begun := func(t *testing.T, dir string) {
		st, err := state.Load(filepath.Join(dir, "tandemmq"))
		require.NoError(t, err)
		for _, e := range []state.Event{state.Plan, state.BackfillStart} {
			require.NoError(t, st.Apply(e, "test", "", time.Now()))
		}
		st.From, st.To, st.RocksLayout, st.TargetCreated, st.BackfilledTo = cq.KindFile, cq.KindRocks, state.LayoutSeparate, true, -1
		require.NoError(t, st.Save(filepath.Join(dir, "tandemmq")))
	}
	t.Run("without CURRENT", func(t *testing.T) {
		dir := sample(t)
		begun(t, dir)
		require.NoError(t, os.Mkdir(filepath.Join(dir, rocks), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, rocks, "MANIFEST-000001"), []byte("begun"), 0o600))
		before := treeSums(t, dir)
		tandemmq.MustRun(t, "migrate", "plan", "--store", dir)
		require.Equal(t, before, treeSums(t, dir))
		tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes")
		require.Equal(t, dump(t, dir, "file"), dump(t, dir, "rocks"))
	})
	t.Run("with a manifest that was cut", func(t *testing.T) {
		dir := sample(t)
		tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes")
		want := dump(t, dir, "rocks")
		o := store.DefaultOptions() // one that serves notes what the manifest has
		o.StoreType, o.UseSeparateStorePathForRocksdbCQ, o.MappedFileSizeCommitLog, o.MappedFileSizeConsumeQueue = store.StoreTypeRocksDB, true, sampleLogSize, sampleCQSize
		s, err := store.Open(dir, o)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		name, err := os.ReadFile(filepath.Join(dir, rocks, "CURRENT"))
		require.NoError(t, err)
		manifest := filepath.Join(dir, rocks, strings.TrimSpace(string(name)))
		info, err := os.Stat(manifest)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(manifest, info.Size()-1))
		require.NoError(t, os.Remove(filepath.Join(dir, "tandemmq", "migration.json")))
		begun(t, dir)
		before := treeSums(t, dir)
		for _, step := range []string{"plan", "backfill", "run", "verify"} {
			r := tandemmq.Run(t, "migrate", step, "--store", dir)
			require.Equal(t, 1, r.Code, "%s: %s", step, r.Stderr)
			require.Contains(t, r.Stderr, "would be opened as it was at an earlier time", step)
		}
		require.Equal(t, before, treeSums(t, dir))
		tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--restart", "--replace-target", "--yes")
		require.Equal(t, want, dump(t, dir, "rocks"))
	})
}
