//go:build cgo

package rocks

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// benchBatch is how many units dispatch hands over at once.
const benchBatch = 256

// BenchmarkAppend appends units to queues in turn, as dispatch does, 256 at a time, under the options of a serving store, until all
// are readable. One op is one unit.
//
//	go test ./cq/rocks -run '^$' -bench 'Append/' -benchtime 4000000x
func BenchmarkAppend(b *testing.B) {
	for _, queues := range []int{8, 1000, 100_000} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			o := DefaultOptions()
			o.Create = true
			s, err := Open(filepath.Join(b.TempDir(), "db"), o)
			require.NoError(b, err)
			keys := make([]cq.Key, queues)
			for i := range keys {
				keys[i] = cq.Key{Topic: fmt.Sprintf("topic-%05d", i/8), QueueID: int32(i % 8)}
			}
			batch := make([]cq.Entry, 0, benchBatch)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				batch = append(batch, cq.Entry{Key: keys[i%queues], QueueOffset: int64(i / queues), Unit: cq.Unit{
					PhyOffset: 300 * int64(i), Size: 300, TagsCode: int64(i % 17), StoreTimestampMs: 1_700_000_000_000 + int64(i/1000),
				}})
				if len(batch) == benchBatch || i == b.N-1 {
					require.NoError(b, s.Append(b.Context(), batch))
					batch = batch[:0]
				}
			}
			require.NoError(b, s.AwaitReadable(b.Context()))
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "units/s")
			require.NoError(b, s.Close())
		})
	}
}
