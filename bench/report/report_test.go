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
