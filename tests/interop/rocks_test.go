//go:build interop

package interop

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// File queues move to RocksDB, in both places where RocketMQ looks for it, and back.
func TestFileToRocksAndBack(t *testing.T) {
	t.Parallel()
	var trips []trip
	for _, s := range []struct{ store, layout string }{
		{"file-normal", "separate"},
		{"file-normal", "shared"},
		{"file-lmq", "separate"},
		{"file-lmq", "shared"},
		{"file-roll", "separate"},
		{"file-roll", "shared"},
		{"file-delay-tags-keys", "separate"},
		{"file-v2topic-ipv6", "shared"},
		{"combine-normal", ""}, // has a RocksDB in the shared place, and that decides
		{"combine-upgrade", ""},
	} {
		tr := trip{name: s.store, store: s.store, unchanged: func(t *testing.T, before, after map[string]string) {
			requireOnlyRocksWritten(t, s.layout, before, after)
		}}
		if s.layout != "" {
			tr.name += "-" + s.layout
			tr.options = []string{"--layout", s.layout}
		}
		trips = append(trips, tr)
	}
	roundTrip(t, golden.Rocks, trips)
}

// requireOnlyRocksWritten checks that every file but RocksDB's own has the content it had, and that nothing new lies outside
// the places a move may write: its RocksDB directory, the lock, tandemmq/, and the databases of topics, groups and offsets.
func requireOnlyRocksWritten(t *testing.T, layout string, before, after map[string]string) {
	t.Helper()
	place := "consumequeue"
	if layout == "separate" {
		place = "consumequeue_rocksdb"
	}
	require.Contains(t, after, place+"/CURRENT")
	for path, sum := range before {
		if !rocksFile(path, sum) {
			require.Equal(t, sum, after[path], "%s was changed", path)
		}
	}
	for path, sum := range after {
		_, old := before[path]
		switch {
		case old, path == place, path == "lock", path == "tandemmq", strings.HasPrefix(path, "tandemmq/"), metadataFile(path):
		default:
			require.True(t, rocksFile(path, sum) && strings.HasPrefix(path, place+"/"), "%s is new where nothing may be", path)
		}
	}
}

// metadataFile tells whether the path belongs to the databases in which RocketMQ keeps topics, groups and offsets beside RocksDB queues.
func metadataFile(path string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "config/"), "/")
	return path == "config" || strings.HasPrefix(path, "config/") && slices.Contains([]string{"topics", "subscriptionGroups", "consumerOffsets"}, name)
}

// rocksFile tells whether the path belongs to a RocksDB of consume queues. In the shared place these are the plain files
// beside the topics' directories; queue files lie two directories deeper.
func rocksFile(path, sum string) bool {
	return path == "consumequeue_rocksdb" || strings.HasPrefix(path, "consumequeue_rocksdb/") ||
		filepath.Dir(path) == "consumequeue" && sum != "dir"
}
