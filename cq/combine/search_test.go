//go:build cgo

package combine_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
	"github.com/tandemq/tandemmq/cq/cqtest"
)

// TestOffsetByTime: whichever side is read, a search by time answers the same; RocksDB searches by itself, files have their records asked.
func TestOffsetByTime(t *testing.T) {
	key := cq.Key{Topic: "t", QueueID: 1}
	at := func(slot int64) int64 { return 1000 + slot/10 } // ten units share a time
	storeTime := func(u cq.Unit) (int64, error) { return at(u.PhyOffset / 100), nil }
	var batch []cq.Entry
	for slot := range int64(200) {
		u := cq.Unit{PhyOffset: slot * 100, Size: 100, StoreTimestampMs: at(slot)}
		batch = append(batch, cq.Entry{Key: key, QueueOffset: slot, Unit: u})
	}
	for _, kind := range bothKinds {
		t.Run(string(kind), func(t *testing.T) {
			s, err := openCombined(t.TempDir(), cqtest.OpenOptions{}, combine.Options{Preferred: kind})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			require.NoError(t, s.Append(t.Context(), batch))
			require.NoError(t, s.AwaitReadable(t.Context()))
			q, ok := s.Queue(key)
			require.True(t, ok)
			for ms := int64(999); ms <= 1021; ms++ {
				lower, err := cq.OffsetByTime(q, ms, cq.BoundaryLower, storeTime)
				require.NoError(t, err)
				require.Equal(t, min(max((ms-1000)*10, 0), 200), lower, "LOWER at %d", ms)
				upper, err := cq.OffsetByTime(q, ms, cq.BoundaryUpper, storeTime)
				require.NoError(t, err)
				require.Equal(t, min(max((ms-1000)*10+9, 0), 199), upper, "UPPER at %d", ms)
			}
			_, _, err = q.(cq.TimeSearcher).TimeBound(0, 200, 1005)
			if kind == cq.KindRocks {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errors.ErrUnsupported)
			}
			require.NoError(t, s.Close())
			_, err = cq.OffsetByTime(q, 1000, cq.BoundaryLower, storeTime)
			require.ErrorIs(t, err, cq.ErrClosed)
		})
	}
}
