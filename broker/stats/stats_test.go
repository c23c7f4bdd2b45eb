package stats

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCounter(t *testing.T) {
	var c Counter
	require.Zero(t, c.Rate(10))
	c.Tick()
	for range 1000 {
		c.Add(5)
		c.Tick()
	}
	require.EqualValues(t, 5000, c.Total())
	for _, seconds := range []int64{1, 10, 60, 600, 6000} {
		require.InDelta(t, 5, c.Rate(seconds), 1e-9)
	}
	for range 10 {
		c.Tick()
	}
	require.InDelta(t, 0, c.Rate(10), 1e-9)
	require.InDelta(t, 2.5, c.Rate(20), 1e-9)
}

func TestTable(t *testing.T) {
	var table Table
	_, ok := table.Get("TOPIC_PUT_NUMS", "T")
	require.False(t, ok)
	for second := range 3600 {
		if second < 1800 {
			table.Add("TOPIC_PUT_NUMS", "T", 2)
			table.Add("GROUP_GET_NUMS", "T@g", 1)
		}
		table.Tick()
		if second == 59 {
			w, ok := table.Get("TOPIC_PUT_NUMS", "T")
			require.True(t, ok)
			require.Equal(t, Window{Sum: 120, PerSec: 2, Average: 2}, w.Minute)
		}
	}
	w, ok := table.Get("TOPIC_PUT_NUMS", "T")
	require.True(t, ok)
	require.Zero(t, w.Minute.Sum)
	require.EqualValues(t, 3600, w.Hour.Sum)
	require.InDelta(t, 1, w.Hour.PerSec, 1e-9)
	require.EqualValues(t, 3600, w.Day.Sum)

	table.Remove("g")
	_, ok = table.Get("GROUP_GET_NUMS", "T@g")
	require.False(t, ok)
	for range 86400 + 3600 {
		table.Tick()
	}
	_, ok = table.Get("TOPIC_PUT_NUMS", "T")
	require.False(t, ok, "nobody counted for a day")
}
