//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// A store whose oldest log files are gone, as every broker's are after its retention: most queues begin in the middle, some
// have nothing left to read but must go on counting where they ended. It is moved both ways; RocketMQ serves what the log
// still has, and continues every queue.
func TestExpiredLogBothWays(t *testing.T) {
	t.Parallel()
	const logFileBytes, queueFileBytes = 65536, 1000
	dir := filepath.Join(t.TempDir(), "store")
	tandemmq.MustRun(t, "store", "generate", "--store", dir, "--messages", "1500", "--topics", "3", "--queues", "4",
		"--lmq", "5", "--delayed", "--transactions", "--commitlog-size", "65536", "--cq-file-size", "1000")
	whole := tandemmq.Dump(t, dir, golden.File)
	logMin := expireLog(t, dir, 2)
	left := tandemmq.Dump(t, dir, golden.File)
	golden.RequireMessages(t, slices.DeleteFunc(whole.Messages, func(m golden.Line) bool {
		var at struct{ CommitLogOffset int64 }
		require.NoError(t, m.Decode(&at))
		return at.CommitLogOffset < logMin
	}), left.Messages, "what the log still has")
	ended := 0
	for _, q := range flatQueues(t, left) {
		if q.Min == q.Max {
			ended++
		}
	}
	require.Greater(t, ended, 3, "queues with nothing left to read")

	h := how{lmq: true, sizes: sizes{commitLog: logFileBytes, queue: queueFileBytes}}
	as := func(conf []string) how {
		c := configured(t, conf, &golden.Listing{Meta: &golden.Meta{}})
		require.Equal(t, h.lmq, c.lmq)
		c.sizes = h.sizes
		return c
	}
	rocks := golden.CopyTree(t, dir)
	conf := migrateRun(t, rocks, "--to", "rocks", "--layout", "separate")
	require.Equal(t, left, tandemmq.Dump(t, rocks, golden.Rocks))
	// Rolled back at once, the queue files are the old ones to the byte. RocketMQ is not asked: on files whose log has expired
	// while it was down it serves a few wrong bytes, moved or not, until its cleaner has run.
	back := golden.CopyTree(t, rocks)
	migrateRollback(t, back)
	require.Equal(t, golden.TreeSums(t, filepath.Join(dir, "consumequeue")), golden.TreeSums(t, filepath.Join(back, "consumequeue")))
	// The RocksDB alone, as a broker has it that never had file queues.
	files := golden.CopyTree(t, rocks)
	require.NoError(t, os.RemoveAll(filepath.Join(files, "consumequeue")))
	require.NoError(t, os.RemoveAll(filepath.Join(files, "tandemmq")))
	filesConf := migrateRun(t, files, "--to", "file", "--cq-file-size", "1000")
	require.Equal(t, left, tandemmq.Dump(t, files, golden.File))

	jobs := []job{
		{"rocks", rocks, as(conf.BrokerConf), appendCount},
		{"combine", golden.CopyTree(t, rocks), as(conf.DualConf), appendCount},
		{"files", files, as(filesConf.BrokerConf), appendCount},
	}
	reports := runJobs(t, jobs)
	for _, j := range jobs {
		t.Run(j.name, func(t *testing.T) {
			r := done(t, reports, j)
			golden.RequireMessages(t, left.Messages, r.opened.Messages, "as moved")
			requireContinued(t, r, true)
			for i, q := range flatQueues(t, left) {
				got := r.opened.Queues[i]
				require.Equal(t, q.name, got.Name())
				require.Equal(t, [2]int64{q.Min, q.Max}, [2]int64{got.Min, got.Max}, q.name)
			}
		})
	}
}

// expireLog removes all log files but the last keep, as retention does, and returns the offset at which the log begins now.
func expireLog(t *testing.T, dir string, keep int) int64 {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "commitlog", "*"))
	require.NoError(t, err)
	require.Greater(t, len(files), keep)
	for _, f := range files[:len(files)-keep] {
		require.NoError(t, os.Remove(f))
	}
	var at int64
	_, err = fmt.Sscanf(filepath.Base(files[len(files)-keep]), "%d", &at)
	require.NoError(t, err)
	return at
}
