package migrate

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// Every pair of phase and event is pinned: what is not listed is refused and leaves the phase as it was.
func TestNext(t *testing.T) {
	phases := []Phase{
		PhaseAbsent, PhasePlanned, PhaseBackfilling, PhaseVerifying, PhaseVerified, PhaseDiverged, PhaseCutover, PhaseRollingBack, PhaseRolledBack,
	}
	allowed := map[Event]map[Phase]Phase{
		EventPlan: {
			PhaseAbsent: PhasePlanned, PhasePlanned: PhasePlanned, PhaseBackfilling: PhasePlanned, PhaseVerifying: PhasePlanned,
			PhaseVerified: PhasePlanned, PhaseDiverged: PhasePlanned, PhaseRolledBack: PhasePlanned,
		},
		EventBackfillStart: {
			PhasePlanned: PhaseBackfilling, PhaseBackfilling: PhaseBackfilling, PhaseVerifying: PhaseBackfilling,
			PhaseVerified: PhaseBackfilling, PhaseDiverged: PhaseBackfilling,
		},
		EventBackfillEnd:    {PhaseBackfilling: PhaseVerifying},
		EventBackfillCancel: {PhaseBackfilling: PhasePlanned},
		EventVerified:       {PhaseVerifying: PhaseVerified, PhaseVerified: PhaseVerified, PhaseDiverged: PhaseVerified},
		EventDiverged:       {PhaseVerifying: PhaseDiverged, PhaseVerified: PhaseDiverged, PhaseDiverged: PhaseDiverged},
		EventCutover:        {PhaseVerified: PhaseCutover},
		EventRollbackStart:  {PhaseCutover: PhaseRollingBack, PhaseRollingBack: PhaseRollingBack},
		EventRollbackEnd:    {PhaseRollingBack: PhaseRolledBack},
	}
	require.Len(t, transitions, len(allowed), "an event without a row here")
	for event, rows := range allowed {
		for _, p := range phases {
			got, err := Next(p, event)
			if want, ok := rows[p]; ok {
				require.NoError(t, err, "%s in %s", event, p)
				require.Equal(t, want, got, "%s in %s", event, p)
				continue
			}
			var te *TransitionError
			require.ErrorAs(t, err, &te, "%s in %s", event, p)
			require.Equal(t, p, got)
		}
	}
	_, err := Next(PhaseAbsent, "no such event")
	require.Error(t, err)
}

func TestStateActive(t *testing.T) {
	for _, tc := range []struct {
		phase Phase
		side  cq.Kind
		known bool
	}{
		{"", "", false},
		{PhaseAbsent, "", false},
		{PhaseBackfilling, cq.KindFile, true},
		{PhaseVerified, cq.KindFile, true},
		{PhaseDiverged, cq.KindFile, true},
		{PhaseCutover, cq.KindRocks, true},
		{PhaseRollingBack, cq.KindRocks, true},
		{PhaseRolledBack, cq.KindFile, true},
	} {
		s := State{Phase: tc.phase, From: cq.KindFile, To: cq.KindRocks}
		side, known := s.Active()
		require.Equal(t, tc.known, known, tc.phase)
		require.Equal(t, tc.side, side, tc.phase)
	}
}

func TestStateFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tandemmq")
	s, err := LoadState(dir)
	require.NoError(t, err)
	require.Equal(t, PhaseAbsent, s.Phase)
	require.EqualValues(t, -1, s.BackfilledTo)
	require.NoDirExists(t, dir, "loading creates nothing")

	s.From, s.To = cq.KindFile, cq.KindRocks
	require.NoError(t, s.apply(EventPlan, "me", "a note", time.UnixMilli(1_700_000_000_123)))
	require.NoError(t, s.save(dir))
	back, err := LoadState(dir)
	require.NoError(t, err)
	require.Equal(t, s, back)
	require.Equal(t, "me", back.History[0].Actor)
	require.NoFileExists(t, filepath.Join(dir, StateFileName+".tmp"))

	t.Run("garbage names the file", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, StateFileName), []byte("{"), 0o600))
		_, err := LoadState(dir)
		require.ErrorContains(t, err, filepath.Join(dir, StateFileName))
	})
	t.Run("a later version is refused", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, StateFileName), []byte(`{"version":2}`), 0o600))
		_, err := LoadState(dir)
		require.ErrorContains(t, err, "version 2")
	})
}

func TestFindingsAreBounded(t *testing.T) {
	var a, b Findings
	for range 1000 {
		a.Add(Finding{Code: CodeNumbering})
	}
	b.Add(Finding{Code: CodeSlotTaken})
	a.Merge(&b)
	a.Merge(&a)
	require.EqualValues(t, 2000, a.Counts[CodeNumbering])
	require.EqualValues(t, 2, a.Counts[CodeSlotTaken])
	require.LessOrEqual(t, len(a.First), 2*maxDetailed)
	require.Equal(t, "2000 x numbering, 2 x slot-taken", a.Summary())
}

func TestBrokerConf(t *testing.T) {
	only, dual := BrokerConf(cq.KindRocks, LayoutSeparate, 6_000_000, false)
	require.Equal(t, []string{"storeType=defaultRocksDB", "useSeparateStorePathForRocksdbCQ=true", "rocksdbCQDoubleWriteEnable=false"}, only)
	require.Contains(t, dual, "combineCQPreferCQType=defaultRocksDB")
	require.Contains(t, dual, "combineCQUseRocksdbForLmq=true") // without it a complete broker does not start (C1)
	only, dual = BrokerConf(cq.KindFile, LayoutShared, 1000, true)
	require.Equal(t, []string{"storeType=default", "rocksdbCQDoubleWriteEnable=false", "mappedFileSizeConsumeQueue=1000", "enableLmq=true", "enableMultiDispatch=true"}, only)
	require.Nil(t, dual)
	only, _ = BrokerConf(cq.KindRocks, LayoutShared, 6_000_000, false)
	require.Contains(t, only, "useSeparateStorePathForRocksdbCQ=false")
}
