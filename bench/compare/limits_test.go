package compare

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every limit is a number, in each repetition, and nothing stays.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	told := int64(0)
	all, err := MeasureLimits(t.Context(), dir, LimitSizesOf(Tiny), 2, func(done int64) { told = done })
	require.NoError(t, err)
	require.Len(t, all, LimitCount())
	require.EqualValues(t, 2*LimitCount(), told)
	for _, l := range all {
		require.Len(t, l.Values, 2, l.Name)
		require.Positive(t, l.Values[0], l.Name)
		require.Contains(t, []string{"B/s", "/s", "ns"}, l.Unit)
	}
	var out strings.Builder
	require.NoError(t, LimitsText(&out, all))
	require.Contains(t, out.String(), LimitSendfile)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	_, err = MeasureLimits(t.Context(), dir+"/nowhere", LimitSizes{}, 1, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}
