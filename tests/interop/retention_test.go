//go:build interop

package interop

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// RocketMQ opens a store whose old files we have removed: the min and max of each queue are ours, so is every message in
// between, and queues with nothing left go on where they ended.
func TestRocketMQOpensWhatWeExpired(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	tandemmq.MustRun(t, "store", "generate", "--store", dir, "--messages", "1500", "--topics", "3", "--queues", "4",
		"--lmq", "5", "--delayed", "--transactions", "--commitlog-size", "65536", "--cq-file-size", "1000")
	files := golden.CopyTree(t, dir)
	tandemmq.MustRun(t, "store", "clean", "--store", files, "--reserve-hours", "0", "--yes")
	left := tandemmq.Dump(t, files, golden.File)
	ended := 0
	for _, q := range flatQueues(t, left) {
		if q.Min == q.Max {
			ended++
		}
	}
	require.Greater(t, ended, 3, "queues with nothing left to read")

	rocks := golden.CopyTree(t, dir)
	conf := migrateRun(t, rocks, "--to", "rocks", "--layout", "separate")
	tandemmq.MustRun(t, "store", "clean", "--store", rocks, "--reserve-hours", "0", "--yes")
	require.Equal(t, left, tandemmq.Dump(t, rocks, golden.Rocks))

	h := how{mode: "file", lmq: true, sizes: sizes{commitLog: 65536, queue: 1000}}
	r := configured(t, conf.BrokerConf, &golden.Listing{Meta: &golden.Meta{}})
	r.sizes = h.sizes
	jobs := []job{{"file", files, h, appendCount}, {"rocks", rocks, r, appendCount}}
	reports := runJobs(t, jobs)
	for _, j := range jobs {
		t.Run(j.name, func(t *testing.T) {
			r := done(t, reports, j)
			golden.RequireMessages(t, left.Messages, r.opened.Messages, "as expired")
			requireContinued(t, r, true)
			for i, q := range flatQueues(t, left) {
				got := r.opened.Queues[i]
				require.Equal(t, q.name, got.Name())
				require.Equal(t, [2]int64{q.Min, q.Max}, [2]int64{got.Min, got.Max}, q.name)
			}
		})
	}
}
