//go:build interop

package interop

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// RocksDB queues move to files, for RocketMQ's default store, and back.
func TestRocksToFileAndBack(t *testing.T) {
	t.Parallel()
	var trips []trip
	for _, store := range []string{"rocks-normal", "rocks-lmq"} {
		trips = append(trips, trip{
			name: store, store: store, options: []string{"--cq-file-size", "6000"}, unchanged: requireLogAndTablesKept,
		})
	}
	roundTrip(t, golden.File, trips)
}

// requireLogAndTablesKept checks what a move to files leaves alone. Opening a RocksDB for writing renews its manifest and
// options, but its tables stay; RocketMQ's checkpoint tells how far the file queues are flushed, so it is written with them.
func requireLogAndTablesKept(t *testing.T, before, after map[string]string) {
	t.Helper()
	for path, sum := range before {
		if path != "checkpoint" && (!rocksFile(path, sum) || filepath.Ext(path) == ".sst") {
			require.Equal(t, sum, after[path], "%s was changed", path)
		}
	}
}
