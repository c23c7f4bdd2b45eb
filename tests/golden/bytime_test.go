package golden_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/tests/golden"
)

// TestOffsetByTimeEqualsRocketMQ asks queues of both kinds for the times for which RocketMQ said what offset it finds.
func TestOffsetByTimeEqualsRocketMQ(t *testing.T) {
	asked := map[cq.Kind]int{}
	for _, name := range golden.Names() {
		m := golden.Manifest(t, name)
		if m.Meta.AbortFileBeforeOpen { // the queues are those of a crash
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := golden.Unpack(t, name)
			log, err := commitlog.Open(filepath.Join(dir, "commitlog"), commitlog.Options{})
			require.NoError(t, err)
			defer func() { require.NoError(t, log.Close()) }()
			storeTime := func(u cq.Unit) (int64, error) { return log.StoreTimestamp(u.PhyOffset, u.Size) }
			for _, s := range openQueues(t, dir, max(log.MinOffset(), 0)) {
				for _, q := range m.Queues {
					queue, ok := s.Queue(cq.Key{Topic: q.Topic, QueueID: q.QueueID})
					if !ok {
						continue
					}
					b, err := queue.Bounds()
					require.NoError(t, err)
					if b.Min != q.Min || b.Max != q.Max { // the side that RocketMQ does not read, which has less
						continue
					}
					for _, want := range q.ByTime {
						lower, err := cq.OffsetByTime(queue, want.TimestampMs, cq.BoundaryLower, storeTime)
						require.NoError(t, err)
						require.Equal(t, want.Lower, lower, "%s %s, LOWER at %d", s.Kind(), q.Name(), want.TimestampMs)
						upper, err := cq.OffsetByTime(queue, want.TimestampMs, cq.BoundaryUpper, storeTime)
						require.NoError(t, err)
						require.Equal(t, want.Upper, upper, "%s %s, UPPER at %d", s.Kind(), q.Name(), want.TimestampMs)
						asked[s.Kind()]++
					}
				}
			}
		})
	}
	require.Greater(t, asked[cq.KindFile], 100)
	if hasRocks {
		require.Greater(t, asked[cq.KindRocks], 50)
	}
}

// openQueues opens the queues of each kind that the store in dir has.
func openQueues(t *testing.T, dir string, minPhy int64) []cq.Store {
	t.Helper()
	var stores []cq.Store
	add := func(s cq.Store, err error) {
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		stores = append(stores, s)
	}
	for _, name := range []string{"consumequeue", "consumequeue_rocksdb"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(filepath.Join(path, "CURRENT")); err == nil && hasRocks {
			o := rocks.MigrationOptions()
			o.ReadOnly, o.MinPhyOffset = true, minPhy
			s, err := rocks.Open(path, o)
			add(s, err)
		}
	}
	s, err := file.Open(filepath.Join(dir, "consumequeue"), file.Options{ReadOnly: true, MinPhyOffset: minPhy})
	add(s, err)
	return stores
}
