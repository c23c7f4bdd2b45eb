package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Messages that come now and then are not let wait, whatever their rate was before.
func TestGathering(t *testing.T) {
	var g gathering
	now := time.Now()
	step := func(n int64, after time.Duration) bool {
		now = now.Add(after)
		g.delivered(n, now)
		return g.thick
	}
	require.False(t, step(1<<20, time.Hour), "the first after a long pause")
	for range 40 { // 20 MB/s
		step(1000, 50*time.Microsecond)
	}
	require.True(t, g.thick)
	require.True(t, step(1000, 50*time.Microsecond))
	require.False(t, step(1000, time.Second))
	for range 40 { // 10 MB/s
		require.False(t, step(500, 50*time.Microsecond))
	}
}
