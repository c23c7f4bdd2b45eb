package latency

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBucketsAreInOrderAndNear(t *testing.T) {
	before := -1
	for d := time.Duration(0); d < 20*time.Minute; d += max(d/7, 1) {
		i := bucket(d)
		require.GreaterOrEqual(t, i, before, d)
		require.LessOrEqual(t, i, before+1, "no bucket is skipped at %v", d)
		before = i
		if i < buckets-1 {
			require.InEpsilon(t, float64(d)+1, middle(i)+1, 0.125, d)
		}
	}
	require.Equal(t, buckets-1, bucket(1<<62))
	require.Equal(t, 0, bucket(-1), "a clock that was set back")
}

func TestQuantiles(t *testing.T) {
	var h Histogram
	for i := range 1000 {
		h.Record(time.Duration(i+1) * time.Microsecond)
	}
	before := h.Counts()
	require.EqualValues(t, 1000, before.Total())
	require.InEpsilon(t, 500*time.Microsecond, before.Quantile(0.5), 0.11)
	require.InEpsilon(t, 990*time.Microsecond, before.Quantile(0.99), 0.11)
	require.InEpsilon(t, 1000*time.Microsecond, before.Quantile(1), 0.11)
	require.Zero(t, Counts{}.Quantile(0.5))

	h.Record(time.Second)
	since := h.Counts().Sub(before)
	require.EqualValues(t, 1, since.Total())
	require.InEpsilon(t, time.Second, since.Quantile(0), 0.11)

	// Written and read again, and added up, they are the same.
	b, err := json.Marshal(since)
	require.NoError(t, err)
	var read Counts
	require.NoError(t, json.Unmarshal(b, &read))
	read.Add(before)
	require.Equal(t, h.Counts(), read)
}
