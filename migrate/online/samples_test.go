package online

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/latency"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// How a migration goes is taken down from its beginning to its end: how far it is, how long puts take, and what is on the disk.
func TestSamples(t *testing.T) {
	f, root := newFake(), t.TempDir()
	f.side(cq.KindRocks, store.SideState{Filling: &store.Rebuilding{From: 100, Done: 400, To: 1000}, History: 2000})
	var timing, looks atomic.Int64
	m := openFake(t, f, root, func(o *Options) {
		o.SampleEvery = time.Millisecond
		o.TimePuts = func() (func() latency.Counts, func()) {
			timing.Add(1)
			return func() latency.Counts { return latency.Counts{40: 2} }, func() { timing.Add(-1) }
		}
		o.QueueDisk = func(context.Context) (map[cq.Kind]int64, error) {
			looks.Add(1)
			return map[cq.Kind]int64{cq.KindFile: 4096, cq.KindRocks: 8192}, nil
		}
	})
	samples := func() map[state.Phase][]state.Sample {
		all, err := state.LoadSamples(m.dir)
		require.NoError(t, err)
		by := map[state.Phase][]state.Sample{}
		for _, x := range all {
			by[x.Phase] = append(by[x.Phase], x)
		}
		return by
	}
	await := func(p state.Phase) []state.Sample {
		t.Helper()
		require.Eventually(t, func() bool { return len(samples()[p]) >= 3 }, 20*time.Second, time.Millisecond, "%s", p)
		return samples()[p]
	}
	require.Empty(t, samples(), "nothing was begun")
	require.NoError(t, m.Begin(t.Context(), "me", BeginOptions{}))
	filling := await(state.Backfilling)
	require.EqualValues(t, 300, filling[2].Done)
	require.EqualValues(t, 900, filling[2].Of)
	require.Equal(t, "bytes", filling[2].Unit)
	require.EqualValues(t, 2, filling[2].Puts.Total())
	require.Zero(t, looks.Load(), "not while it works")

	f.side(cq.KindRocks, store.SideState{})
	verified := await(state.Verified)
	require.EqualValues(t, 8192, verified[0].Disk[cq.KindRocks])
	require.NoError(t, m.Cutover(t.Context(), "me", nil))
	await(state.Cutover)
	require.EqualValues(t, 2, looks.Load(), "once in each phase")
	m.Close()
	require.Zero(t, timing.Load())

	// Opened again it goes on with the same file, and does not look at the disk again.
	before := len(samples()[state.Cutover])
	m = openFake(t, f, root, func(o *Options) {
		o.SampleEvery, o.QueueDisk = time.Millisecond, func(context.Context) (map[cq.Kind]int64, error) { return nil, errDisk }
	})
	require.Eventually(t, func() bool { return len(samples()[state.Cutover]) > before }, 20*time.Second, time.Millisecond)
	require.NotEmpty(t, samples()[state.Backfilling])
}

func TestSampled(t *testing.T) {
	now := time.Now()
	st := &state.State{Phase: state.Finalized, Online: &state.Online{}, History: []state.HistoryEntry{{Time: now}}}
	require.True(t, sampled(st, now))
	require.False(t, sampled(st, now.Add(2*sampledAfter)), "it is over")
	st.Phase = state.Cutover
	require.True(t, sampled(st, now.Add(2*sampledAfter)))
	st.Online = nil
	require.False(t, sampled(st, now), "one of a stopped store")
}
