//go:build interop

package interop

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/tests/golden"
)

// recoveredCases are what happens to stores of RocketMQ before store.Recover; one of each class.
var recoveredCases = []struct {
	name, store string
	kind        cq.Kind
	lose        func(t *testing.T, dir string)
}{
	{"crashed", "file-abort", cq.KindFile, func(*testing.T, string) {}},
	{"queues lost", "file-roll", cq.KindFile, func(t *testing.T, dir string) { remove(t, dir, "consumequeue", "checkpoint") }},
	{"a topic's queues lost", "file-normal", cq.KindFile, func(t *testing.T, dir string) {
		topics, err := os.ReadDir(filepath.Join(dir, "consumequeue"))
		require.NoError(t, err)
		remove(t, dir, filepath.Join("consumequeue", topics[0].Name()))
	}},
	{"light queues lost", "file-lmq", cq.KindFile, func(t *testing.T, dir string) { remove(t, dir, "consumequeue") }},
	{"index lost", "file-delay-tags-keys", cq.KindFile, func(t *testing.T, dir string) { remove(t, dir, "index") }},
	{"RocksDB lost", "rocks-normal", cq.KindRocks, func(t *testing.T, dir string) { remove(t, dir, "consumequeue") }},
	{"both sides lost", "combine-normal", cq.KindCombine, func(t *testing.T, dir string) { remove(t, dir, "consumequeue") }},
	{"garbage behind the log", "file-v2topic-ipv6", cq.KindFile, func(t *testing.T, dir string) {
		path := filepath.Join(dir, "commitlog", "00000000000000000000")
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		end := len(b)
		for b[end-1] == 0 {
			end--
		}
		copy(b[end:], b[1000:1300]) // parts of records of another place
		require.NoError(t, os.WriteFile(path, b, 0o644))
	}},
}

func remove(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
	}
}

// RocketMQ opens what we recovered, with its own normal recovery and with that after a crash, and serves what it served of the whole store.
func TestRocketMQReadsRecoveredStores(t *testing.T) {
	t.Parallel()
	want := map[string]*golden.Listing{}
	var jobs []job
	for _, c := range recoveredCases {
		m := golden.Manifest(t, c.store)
		dir := golden.Unpack(t, c.store)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), []byte("1"), 0o644))
		c.lose(t, dir)
		h := openedAs(m, m.Meta.Mode)
		o := store.DefaultOptions()
		o.MappedFileSizeCommitLog, o.MappedFileSizeConsumeQueue = h.sizes.commitLog, h.sizes.queue
		o.MaxHashSlotNum, o.MaxIndexNum = int(h.sizes.indexSlots), int(h.sizes.indexEntries)
		o.EnableLmq, o.EnableMultiDispatch = h.lmq, h.lmq
		rep, err := store.Recover(t.Context(), dir, store.RecoverOptions{Kind: c.kind, Create: true, Options: &o})
		require.NoError(t, err, c.name)
		require.True(t, rep.AbortCleared, c.name)
		for _, crashed := range []bool{false, true} {
			j := job{name: c.name, dir: golden.CopyTree(t, dir), how: h}
			if crashed {
				j.name += ", crashed again"
				require.NoError(t, os.WriteFile(filepath.Join(j.dir, "abort"), []byte("1"), 0o644))
			}
			want[j.name] = m
			jobs = append(jobs, j)
		}
	}
	reports := runJobs(t, jobs)
	for _, j := range jobs {
		t.Run(j.name, func(t *testing.T) {
			m, got := want[j.name], done(t, reports, j).opened
			requireQueues(t, m, got, func(w golden.Queue) (file, rocks *golden.Side) { return w.File, w.Rocks })
			golden.RequireMessages(t, m.Messages, got.Messages, j.name)
		})
	}
}
