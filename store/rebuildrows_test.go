package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/tests/golden"
)

// TestFRF13RebuildOfSomeQueuesRefusesADamagedRocksDB: units of a queue are not dropped from a database that cannot be relied on to take new ones, also not where other queues are damaged.
func TestFRF13RebuildOfSomeQueuesRefusesADamagedRocksDB(t *testing.T) {
	needRocksDB(t)
	o := viewOptions(StoreTypeRocksDB)
	root := filledStore(t, o, 3000)
	tables, err := filepath.Glob(filepath.Join(rocksDir(t, root), "*.sst"))
	require.NoError(t, err)
	for _, name := range tables {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		b[20] ^= 0x5a // the first units of the first queue, or the first rows
		require.NoError(t, os.WriteFile(name, b, 0o644))
	}
	before := golden.TreeSums(t, root)
	for _, dryRun := range []bool{true, false} {
		_, err := Rebuild(t.Context(), root, RebuildOptions{DryRun: dryRun, Kind: cq.KindRocks, Topic: "T", QueueID: 1, Options: &o})
		require.ErrorIs(t, err, cq.ErrCorrupt)
		require.ErrorContains(t, err, "--queues rocks --yes")
	}
	after := golden.TreeSums(t, root)
	for _, sums := range []map[string]string{before, after} {
		delete(sums, "lock")
	}
	require.Equal(t, before, after)
	_, err = Rebuild(t.Context(), root, RebuildOptions{Kind: cq.KindRocks, Options: &o})
	require.NoError(t, err)
	requireWhole(t, root, o)
}

// A queue that a rebuild has dropped and not built is damaged, also where it was the only light queue.
func TestCheckNamesAQueueThatARebuildHasDropped(t *testing.T) {
	needRocksDB(t)
	o := viewOptions(StoreTypeRocksDB)
	root := filledStore(t, o, 60)
	r := &rebuilding{layout: NewLayout(root), job: rebuildJob{Kind: cq.KindRocks, Topic: "%LMQ%a"}}
	r.rec.base = o
	require.NoError(t, r.dropRows(t.Context()))
	for name, forget := range map[string]string{"by the queues noted": r.layout.rebuildJobPath(), "by the rebuild": r.layout.brokenQueuesPath()} {
		t.Run(name, func(t *testing.T) {
			copied := crash(t, root)
			note, err := filepath.Rel(root, forget)
			require.NoError(t, err)
			require.NoError(t, os.Remove(filepath.Join(copied, note)))
			_, err = markAbort(newStore(o).fs, NewLayout(copied).AbortPath())
			require.NoError(t, err)
			rep, err := Check(t.Context(), copied, CheckOptions{Deep: true})
			require.NoError(t, err)
			require.False(t, rep.Sound)
			require.Equal(t, CheckMissingQueue, rep.Findings[0].Code)
			require.Equal(t, "%LMQ%a", rep.Findings[0].Topic)
			require.Contains(t, rep.Findings[0].Text, "has lost all its units")
		})
	}
}
