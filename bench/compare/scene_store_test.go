package compare

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each kind of scenario over stores does its work and finds what it has put, with each engine; sizes are tiny.
func TestStoreScenarios(t *testing.T) {
	x := runner(t, PutScenarios()...)
	x.Scenarios = append(x.Scenarios, LatencyScenarios()...)
	x.Scenarios = append(x.Scenarios, ReadScenarios()...)
	x.Scenarios = append(x.Scenarios, OpenScenarios()...)
	x.Scenarios = append(x.Scenarios, QueueScenarios()...)
	x.Scenarios = append(x.Scenarios, MixedScenarios()...)
	x.Only = regexp.MustCompile(`^(put/async/producers-8|put/sync/producers-64|latency/|read/|dispatch/|open/|queues/.*-1000$|mixed/)`)
	x.Profile, x.Reps, x.Engines = Tiny, 1, []string{File}
	if HasRocks {
		x.Engines = append(x.Engines, Rocks, Combine)
	}
	rep, err := x.Run(t.Context())
	require.NoError(t, err)
	seen := map[string]int{}
	for _, row := range rep.Rows {
		require.Empty(t, row.Failed(), "%s with %s", row.Scenario, row.Engine)
		if row.Scenario != "mixed/read" { // what is read while so little is put may be nothing
			require.Positive(t, row.Repetitions[0].Figures[row.Headline], "%s with %s", row.Scenario, row.Engine)
		}
		require.NotEmpty(t, row.Repetitions[0].Checks)
		for limit, figure := range row.Bounds {
			require.Contains(t, row.Repetitions[0].Figures, figure, "%s: the figure beside %s", row.Scenario, limit)
		}
		if row.Scenario == "open/crash" && row.Engine == Combine {
			require.Greater(t, row.Repetitions[0].Figures["wholeMillis"], row.Repetitions[0].Figures["readyMillis"])
		}
		seen[row.Scenario]++
	}
	require.Len(t, seen, 17)
	require.Empty(t, rep.Left)
}

// Names are unique, and scenarios of one run follow one another and have the same engines.
func TestAll(t *testing.T) {
	seen, shared := map[string]bool{}, map[string]string{}
	before := Scenario{}
	for _, s := range All() {
		require.False(t, seen[s.Name], s.Name)
		seen[s.Name] = true
		require.NotEmpty(t, s.Title, s.Name)
		require.NotEmpty(t, s.Engines, s.Name)
		require.NotEmpty(t, Unit(s.Headline), s.Name)
		require.Subset(t, s.Engines, s.QuickEngines, s.Name)
		require.LessOrEqual(t, s.Limit, 4*time.Minute, "%s: what hangs must not take the run's time", s.Name)
		if s.Shared != "" {
			if first, there := shared[s.Shared]; there {
				require.Equal(t, s.Shared, before.Shared, "%s does not follow %s", s.Name, first)
				require.Equal(t, before.Engines, s.Engines, s.Name)
				require.Equal(t, before.QuickEngines, s.QuickEngines, s.Name)
				require.Equal(t, before.Once, s.Once, s.Name)
				require.Contains(t, s.Headline, s.Prefix, s.Name)
			}
			shared[s.Shared] = s.Name
		}
		before = s
	}
}
