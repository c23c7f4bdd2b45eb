package store

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkDispatch brings the views of a log of 1 KiB messages up to its end: what a store does that was opened with its queues lost.
func BenchmarkDispatch(b *testing.B) {
	const messages = 300_000
	root := b.TempDir()
	o := DefaultOptions()
	o.BuildConsumeQueues = false
	s, err := Open(root, o)
	require.NoError(b, err)
	m := newMessage("TopicTest")
	m.Body = bytes.Repeat([]byte{'x'}, 1024)
	for i := range messages {
		m.QueueID = int32(i % 8)
		m.Properties = fmt.Appendf(nil, "KEYS\x01key%d\x02UNIQ_KEY\x010A09080700002A9F%016X\x02TAGS\x01TagA\x02", i, i)
		_, err := s.Put(b.Context(), m)
		require.NoError(b, err)
	}
	require.NoError(b, s.Close())
	for _, c := range []struct {
		name  string
		kind  StoreType
		index bool
	}{{"file", StoreTypeFile, false}, {"rocks", StoreTypeRocksDB, false}, {"file+index", StoreTypeFile, true}} {
		b.Run("op=catch-up/impl="+c.name, func(b *testing.B) {
			o := DefaultOptions()
			o.StoreType, o.MessageIndexEnable = c.kind, c.index
			for b.Loop() {
				b.StopTimer()
				l := NewLayout(root)
				for _, dir := range []string{l.ConsumeQueueDir(), l.IndexDir(), l.StateDir(), l.CheckpointPath()} {
					require.NoError(b, os.RemoveAll(dir))
				}
				b.StartTimer()
				s, err := Open(root, o)
				require.NoError(b, err)
				for c.index && s.views.indexBehind() > 0 {
					time.Sleep(time.Millisecond)
				}
				b.StopTimer()
				require.NoError(b, s.Close())
				b.StartTimer()
			}
			b.ReportMetric(float64(messages)*float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
		})
	}
}
