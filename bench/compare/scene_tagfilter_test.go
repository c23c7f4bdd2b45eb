package compare

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

func TestTagFilterScenarios(t *testing.T) {
	requireScenarios(t, TagFilterScenarios())
	for _, engine := range ownEngines(TagFilterScenarios()[0].Engines) {
		for _, percent := range []int{1, 10, 100} {
			r := newTestRun(t, engine)
			require.NoError(t, runTagFilter(t.Context(), r, filterSize{percent, 300, time.Millisecond, smallStore}), engine)
			requireRun(t, r, "lookedAtPerSecond")
			require.InDelta(t, float64(percent)/100, r.Figures["hitsPerSecond"]/r.Figures["lookedAtPerSecond"], 1e-9)
		}
	}
}

func TestFilterTags(t *testing.T) {
	tags := map[string]int{}
	for n := range 200 {
		tags[filterTag(n)]++
	}
	require.Equal(t, map[string]int{tagRare: 2, tagCommon: 18, tagRest: 180}, tags)
}

// A filter that lets through too much, or too little, is found.
func TestTagFilterChecks(t *testing.T) {
	o := load.Options(load.FileQueues)
	smallStore(&o)
	s, err := store.Open(t.TempDir(), o)
	require.NoError(t, err)
	m := plainMessage(10)
	for range 100 {
		_, err := s.Put(t.Context(), &m)
		require.NoError(t, err)
	}
	require.NoError(t, load.AwaitBuilt(t.Context(), s))
	x := filtered{s: s}
	size := filterSize{percent: 1, messages: 100}
	require.EqualError(t, x.queue(size), `message 1, of tag Rest, was got for "Rare"`)
	x.filter.Record = func(*message.Record) bool { return false }
	require.EqualError(t, x.queue(size), `0 messages were got for "Rare", want 1`)
	x.res.Release()
	require.NoError(t, s.Close())
}
