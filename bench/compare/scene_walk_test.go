package compare

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/store"
)

// ownEngines are those of the list that this binary has.
func ownEngines(all []string) (have []string) {
	for _, e := range all {
		if HasRocks || e != Rocks && e != Combine {
			have = append(have, e)
		}
	}
	return have
}

func TestWalkScenarios(t *testing.T) {
	requireScenarios(t, WalkScenarios())
	for _, engine := range ownEngines(WalkScenarios()[0].Engines) {
		for _, queues := range []int{1, 7} {
			r := newTestRun(t, engine)
			require.NoError(t, runWalk(t.Context(), r, walkSize{queues, 100, 10, time.Millisecond, smallStore}), engine)
			requireRun(t, r, "messagesPerSecond")
		}
	}
}

// Both ways count what there is, and nothing else.
func TestWalks(t *testing.T) {
	o := load.Options(load.FileQueues)
	smallStore(&o)
	s, err := store.Open(t.TempDir(), o)
	require.NoError(t, err)
	p := load.NewProducer(s, 3, 10)
	for range 100 {
		require.NoError(t, p.Put(t.Context()))
	}
	require.NoError(t, load.AwaitBuilt(t.Context(), s))
	for queue, want := range []int{34, 33, 33} {
		n, err := walkQueue(s, p.Key(queue))
		require.NoError(t, err)
		require.Equal(t, want, n)
		n, err = scanFor(s.Log(), p.Key(queue))
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	require.NoError(t, s.Close())
}
