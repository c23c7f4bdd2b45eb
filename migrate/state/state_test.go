package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// Every pair of phase and event is pinned: what is not listed is refused and leaves the phase as it was.
func TestNext(t *testing.T) {
	allowed := map[Event]map[Phase]Phase{
		Plan: {
			Absent: Planned, Planned: Planned, Backfilling: Planned, CatchingUp: Planned, Verifying: Planned, Verified: Planned, Diverged: Planned, Repairing: Planned,
			RolledBack: Planned, Finalized: Planned,
		},
		BackfillStart: {
			Planned: Backfilling, Backfilling: Backfilling, CatchingUp: Backfilling, Verifying: Backfilling, Verified: Backfilling, Diverged: Backfilling, Repairing: Backfilling,
		},
		HistoryEnd:     {Backfilling: CatchingUp, CatchingUp: CatchingUp},
		CaughtUp:       {CatchingUp: Verifying},
		BackfillEnd:    {Backfilling: Verifying},
		BackfillCancel: {Backfilling: Planned},
		VerifyStart:    {Verifying: Verifying, Verified: Verifying, Diverged: Verifying, Repairing: Verifying, RolledBack: Verifying},
		VerifyOK:       {Verifying: Verified, Verified: Verified, Diverged: Verified},
		VerifyDiffers:  {Verifying: Diverged, Verified: Diverged, Diverged: Diverged},
		RepairStart:    {Diverged: Repairing, Repairing: Repairing},
		RepairEnd:      {Repairing: Verifying},
		Canary:         {Verified: Verified},
		CutOver:        {Verified: Cutover},
		Cancel: {
			Planned: RolledBack, Backfilling: RolledBack, CatchingUp: RolledBack, Verifying: RolledBack, Verified: RolledBack, Diverged: RolledBack, Repairing: RolledBack,
		},
		RollbackStart: {Cutover: RollingBack, RollingBack: RollingBack, Finalizing: RollingBack},
		RollbackEnd:   {RollingBack: RolledBack},
		FinalizeStart: {Cutover: Finalizing, RolledBack: Finalizing, Finalizing: Finalizing},
		FinalizeEnd:   {Finalizing: Finalized},
	}
	require.Len(t, transitions, len(allowed), "an event without a row here")
	for event, rows := range allowed {
		for _, p := range Phases() {
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
	_, err := Next(Absent, "no such event")
	require.Error(t, err)
	got, err := Next("", Plan)
	require.NoError(t, err)
	require.Equal(t, Planned, got)
}

// INV-4: whatever happens, reads are the target's only behind a cutover, and a cutover comes only behind a verification with nothing in between.
func TestNoWayToACutoverWithoutVerification(t *testing.T) {
	events := make([]Event, 0, len(transitions))
	for e := range transitions {
		events = append(events, e)
	}
	for _, p := range Phases() {
		for _, e := range events {
			next, err := Next(p, e)
			if err != nil {
				continue
			}
			s := State{Phase: next, From: cq.KindFile, To: cq.KindRocks, Kept: cq.KindFile}
			if side, _ := s.Active(); side == cq.KindRocks && next == Cutover {
				require.Equal(t, Verified, p, "%s by %s", next, e)
				require.Equal(t, CutOver, e)
			}
			if next == Verified && p != Verified {
				require.Equal(t, VerifyOK, e, "from %s", p)
			}
			if next == RollingBack {
				require.Contains(t, []Phase{Cutover, RollingBack, Finalizing}, p)
			}
		}
	}
}

func TestActive(t *testing.T) {
	for _, tc := range []struct {
		phase Phase
		side  cq.Kind
		known bool
	}{
		{"", "", false},
		{Absent, "", false},
		{Planned, cq.KindFile, true},
		{Backfilling, cq.KindFile, true},
		{CatchingUp, cq.KindFile, true},
		{Verifying, cq.KindFile, true},
		{Verified, cq.KindFile, true},
		{Diverged, cq.KindFile, true},
		{Repairing, cq.KindFile, true},
		{Cutover, cq.KindRocks, true},
		{RollingBack, cq.KindRocks, true},
		{RolledBack, cq.KindFile, true},
		{Finalizing, "kept", true},
		{Finalized, "kept", true},
	} {
		s := State{Phase: tc.phase, From: cq.KindFile, To: cq.KindRocks, Kept: "kept"}
		side, known := s.Active()
		require.Equal(t, tc.known, known, tc.phase)
		require.Equal(t, tc.side, side, tc.phase)
	}
}

func TestFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tandemmq")
	s, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, Absent, s.Phase)
	require.EqualValues(t, -1, s.BackfilledTo)
	require.NoDirExists(t, dir, "loading creates nothing")

	s.From, s.To = cq.KindFile, cq.KindRocks
	s.Online = &Online{CanaryTopics: []string{"a"}, Verified: &Coverage{LogEnd: 7, Time: time.UnixMilli(1).UTC()}}
	require.NoError(t, s.Apply(Plan, "me", "a note", time.UnixMilli(1_700_000_000_123)))
	require.NoError(t, s.Save(dir))
	back, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, s, back)
	require.Equal(t, "me", back.History[0].Actor)
	require.NoFileExists(t, filepath.Join(dir, FileName+".tmp"))

	t.Run("an event that does not fit leaves no trace", func(t *testing.T) {
		require.Error(t, s.Apply(RollbackEnd, "me", "", time.Now()))
		require.Equal(t, back, s)
	})
	t.Run("a file of the first build", func(t *testing.T) {
		old := `{"version":1,"phase":"verified","from":"file","to":"rocks","rocksLayout":"separate","cqFileSize":6000000,"backfilledTo":900,
"verified":{"logMin":0,"logEnd":900,"queues":2,"units":9,"digest":"d","sourceDispatchFrom":900,"targetDispatchFrom":899,"time":"2026-11-30T00:00:00Z"},"history":null}`
		require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), []byte(old), 0o600))
		got, err := Load(dir)
		require.NoError(t, err)
		require.Equal(t, Verified, got.Phase)
		require.EqualValues(t, 9, got.Verified.Units)
		require.Nil(t, got.Online)
		again, err := json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, old, string(again), "nothing is lost, and nothing added that does not count")
	})
	t.Run("garbage names the file", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), []byte("{"), 0o600))
		_, err := Load(dir)
		require.ErrorContains(t, err, filepath.Join(dir, FileName))
	})
	t.Run("a later version is refused", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), []byte(`{"version":2}`), 0o600))
		_, err := Load(dir)
		require.ErrorContains(t, err, "version 2")
	})
	t.Run("a phase of a later build is refused", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), []byte(`{"version":1,"phase":"waxing"}`), 0o600))
		_, err := Load(dir)
		require.ErrorContains(t, err, "waxing")
	})
}
