package compare

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/store"
)

func TestStageScenarios(t *testing.T) {
	requireScenarios(t, StageScenarios())
	for _, engine := range ownEngines(StageScenarios()[0].Engines) {
		for _, sync := range []bool{false, true} {
			r := newTestRun(t, engine)
			require.NoError(t, runStages(t.Context(), r, stageSize{sync: sync, samples: 10, pause: time.Microsecond, change: func(o *store.Options) {
				smallStore(o)
				o.FlushIntervalCommitLog, o.FlushCommitLogLeastPages = 10*time.Millisecond, 0
			}}), engine)
			requireRun(t, r, "wokenP50Micros")
			for _, stage := range []string{"appended", "durable", "inQueue", "woken", "got"} {
				require.GreaterOrEqual(t, r.Latencies[stage].Samples, int64(10), stage)
				require.Positive(t, r.Figures[stage+"P50Micros"], stage)
			}
		}
	}
}
