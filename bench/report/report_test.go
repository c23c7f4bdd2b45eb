package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlope(t *testing.T) {
	require.Zero(t, Slope[float64](nil))
	require.Zero(t, Slope([]int64{7}))
	require.InDelta(t, 5, Slope([]int64{0, 5, 10, 15}), 1e-9)
	require.InDelta(t, 0, Slope([]float64{3, 9, 9, 3}), 1e-9)
}

func TestTrend(t *testing.T) {
	require.Zero(t, Trend(nil))
	require.Zero(t, Trend([]float64{7}))
	require.InDelta(t, 5, Trend([]float64{0, 5, 10, 15}), 1e-9)
	require.InDelta(t, -1, Trend([]float64{9, 8, 40, 6}), 1e-9)
	require.Zero(t, Trend([]float64{182, 182, 182, 182, 182, 190, 190}), "a step")
	require.Positive(t, Trend([]float64{182, 182, 184, 184, 186, 186, 188, 188}), "steps")
}
