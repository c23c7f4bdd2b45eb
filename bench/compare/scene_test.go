package compare

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/store"
)

func newTestRun(t *testing.T, engine string) *Run {
	t.Helper()
	return &Run{Engine: engine, Profile: Quick, Dir: t.TempDir(), Cache: t.TempDir(), Figures: report.Figures{}, Latencies: map[string]calibrate.Summary{}}
}

// smallStore has files that are made quickly, also in memory.
func smallStore(o *store.Options) {
	o.MappedFileSizeCommitLog, o.PreallocateAheadBytes = 4<<20, 0
	o.MaxHashSlotNum, o.MaxIndexNum = 1000, 4000
}

// requireScenarios demands what every list of scenarios has to be: each with a name of its own, and all that a report tells of it.
func requireScenarios(t *testing.T, all []Scenario) {
	t.Helper()
	names := map[string]bool{}
	for _, s := range all {
		require.False(t, names[s.Name], s.Name)
		names[s.Name] = true
		require.Contains(t, s.Name, "/")
		require.NotEmpty(t, s.Title)
		require.NotEmpty(t, s.Engines, s.Name)
		require.NotNil(t, s.Run, s.Name)
		require.Regexp(t, "(PerSecond|Nanos|Micros|Millis|MiB|Bytes)$", s.Headline)
		require.Equal(t, s.X != 0, s.XLabel != "", s.Name)
	}
}

// requireRun demands that a run has measured what it is shown by, and has checked something.
func requireRun(t *testing.T, r *Run, headline string) {
	t.Helper()
	require.NotEmpty(t, r.Checks, r.Engine)
	for _, c := range r.Checks {
		require.NotContains(t, c, "%!")
	}
	require.Positive(t, r.Figures[headline], r.Engine)
}
