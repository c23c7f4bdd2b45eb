package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/migrate/online"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// openOnline opens a store as a broker does: with what its migration asks for.
func openOnline(root string, o store.Options) (*store.Store, *online.Migration, error) {
	if err := online.Finish(root, "start", o.Logger); err != nil {
		return nil, nil, err
	}
	need, err := online.Require(root)
	if err != nil {
		return nil, nil, err
	}
	need.Apply(&o, nil)
	s, err := store.Open(root, o)
	if err != nil {
		return nil, nil, err
	}
	m, err := online.Open(s, online.Options{Root: root, Kind: s.QueueKind(), Actor: "broker", Tick: time.Millisecond, Logger: o.Logger})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, m, nil
}

// closeOnline closes both. A store with a side that is still being filled says so, which is no fault.
func closeOnline(s *store.Store, m *online.Migration) error {
	m.Close()
	filling := false
	if sides, err := s.SideStates(); err == nil {
		for _, one := range sides {
			filling = filling || one.Filling != nil || one.Diverged > 0
		}
	}
	if err := s.Close(); !filling {
		return err
	}
	return nil
}

// operate is an operator who goes to and fro.
func (w *worker) operate(ctx context.Context, s *store.Store) error {
	rng := rand.New(rand.NewPCG(w.do.Seed, 77))
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rng.IntN(12)) * time.Millisecond)
		name, step := drawStep(rng, w.migration)
		if step == nil {
			continue
		}
		err := step(ctx, "operator")
		var refused *migrate.RefusedError
		if errors.As(err, &refused) || err != nil && ctx.Err() != nil {
			continue // it was too early, or the end
		}
		if err != nil {
			return fmt.Errorf("step %s: %w", name, err)
		}
		if name == "cutover" || name == "canary" {
			r, err := s.CompareSides(ctx, "")
			if err != nil && !errors.Is(err, store.ErrRebuilding) && ctx.Err() == nil {
				return err
			}
			if r.Different > 0 {
				return fmt.Errorf("reads have moved to queues that differ: %v", r.Differences)
			}
		}
		if err := say(spoken{Step: name}); err != nil {
			return err
		}
	}
	return nil
}

// drawStep draws what the operator does where the migration stands; nil: nothing.
func drawStep(rng *rand.Rand, m *online.Migration) (string, func(ctx context.Context, actor string) error) {
	begin := func(ctx context.Context, actor string) error { return m.Begin(ctx, actor, online.BeginOptions{}) }
	cutover := func(ctx context.Context, actor string) error { return m.Cutover(ctx, actor, nil) }
	canary := func(ctx context.Context, actor string) error {
		return m.Cutover(ctx, actor, []string{workTopics[rng.IntN(2)]})
	}
	finalize := func(ctx context.Context, actor string) error { return m.Finalize(ctx, actor, time.Hour) }
	rollback := func(ctx context.Context, actor string) error {
		return m.Rollback(ctx, actor, online.RollbackOptions{Quick: rng.IntN(3) == 0})
	}
	switch n := rng.IntN(100); m.Status().Phase {
	case state.Absent, state.Finalized:
		return "begin", begin
	case state.RolledBack:
		switch {
		case n < 30:
			return "begin", begin
		case n < 70:
			return "verify", m.Verify
		case n < 80:
			return "finalize", finalize
		}
	case state.Verified:
		switch {
		case n < 35:
			return "canary", canary
		case n < 80:
			return "cutover", cutover
		case n < 85:
			return "rollback", rollback
		case n < 90:
			return "verify", m.Verify
		}
	case state.Cutover:
		switch {
		case n < 30:
			return "rollback", rollback
		case n < 50:
			return "finalize", finalize
		}
	case state.Finalizing:
		if n < 5 {
			return "rollback", rollback
		}
	default:
		if n < 2 {
			return "rollback", rollback
		}
	}
	return "", nil
}

// onlineView is how the store of a run is opened as its migration stands.
func onlineView(t *testing.T, root string, base viewMode) viewMode {
	need, err := online.Require(root)
	require.NoError(t, err)
	view := viewMode{name: base.name, set: func(o *store.Options) {
		base.set(o)
		need.Apply(o, nil)
	}}
	o := view.options(putModes[0])
	switch {
	case o.StoreType == store.StoreTypeRocksDB:
		view.kinds = []cq.Kind{cq.KindRocks}
	case o.RocksdbCQDoubleWriteEnable:
		view.kinds = []cq.Kind{cq.KindFile, cq.KindRocks}
	default:
		view.kinds = []cq.Kind{cq.KindFile}
	}
	return view
}

// settle opens the store and waits until the migration waits for its operator.
func (r *workRun) settle(t *testing.T, base viewMode, do func(s *store.Store, m *online.Migration)) {
	s, m, err := openOnline(r.root, base.options(r.putMode))
	require.NoError(t, err, r)
	r.awaitSettled(t, s, m)
	do(s, m)
	r.awaitSettled(t, s, m)
	m.Close()
	require.NoError(t, s.Close(), r)
}

func (r *workRun) awaitSettled(t *testing.T, s *store.Store, m *online.Migration) {
	var st online.Status
	for range 20_000 {
		st = m.Status()
		switch st.Phase {
		case state.Finalizing:
			if st.RestartNeeded { // the side that is kept was compared
				return
			}
		case state.Absent, state.Verified, state.Cutover, state.RolledBack, state.Finalized:
			sides, err := s.SideStates()
			if files, other := sides[cq.KindFile], sides[cq.KindRocks]; err != nil || files.Whole() && other.Whole() {
				return
			}
		case state.Planned:
			if st.RestartNeeded {
				return
			}
		}
		time.Sleep(time.Millisecond)
	}
	require.Failf(t, "the migration does not come to an end", "%v: %+v", r, st)
}

// end brings a migration to its end: cut over and finalized.
func (r *workRun) end(t *testing.T, base viewMode) {
	for range 12 {
		done := false
		r.settle(t, base, func(s *store.Store, m *online.Migration) {
			ctx := t.Context()
			switch m.Status().Phase {
			case state.Absent:
				require.NoError(t, m.Begin(ctx, "end", online.BeginOptions{}), r)
			case state.RolledBack:
				if m.Status().Queues == cq.KindCombine {
					require.NoError(t, m.Verify(ctx, "end"), r)
					r.awaitSettled(t, s, m)
					require.NoError(t, m.Cutover(ctx, "end", nil), r)
				} else {
					require.NoError(t, m.Begin(ctx, "end", online.BeginOptions{}), r)
				}
			case state.Verified:
				require.NoError(t, m.Cutover(ctx, "end", nil), r)
			case state.Cutover:
				require.NoError(t, m.Finalize(ctx, "end", time.Hour), r)
			case state.Finalized:
				done = true
			}
		})
		if done {
			return
		}
	}
	require.Fail(t, "the migration does not come to an end", r)
}

// requireHistory requires of the audit trail that reads have moved behind a verification alone, with nothing in between that voids it.
func (r *workRun) requireHistory(t *testing.T) {
	st, err := state.Load(filepath.Join(r.root, "tandemmq"))
	require.NoError(t, err)
	phase := state.Absent
	for i, h := range st.History {
		if h.Event == state.RetiredRemoved {
			continue
		}
		next, err := state.Next(phase, h.Event)
		require.NoError(t, err, "%v: entry %d", r, i)
		require.Equal(t, next, h.Phase, "%v: entry %d", r, i)
		if h.Event == state.CutOver {
			require.Equal(t, state.Verified, phase, r)
			r.met["cut over"]++
		}
		if h.Event == state.VerifyDiffers {
			require.Failf(t, "queues of a sound store differ", "%v: %s", r, h.Note)
		}
		phase = next
	}
	require.Equal(t, phase, st.Phase, r)
}

// Kill -9 of a process that is migrated online, to and fro, by an operator who is in a hurry, while it puts, consumes, and removes log files: no acknowledged message is lost, no offset
// skipped or given twice to a consumer who goes on over cutovers, rollbacks and kills, reads move to nothing that is not verified, and each run ends cut over and finalized.
func TestKillOnline(t *testing.T) {
	if !rocks.Available {
		t.Skip("built without cgo: no RocksDB")
	}
	for _, base := range viewModes {
		if base.combined() {
			continue
		}
		t.Run("from "+base.name, func(t *testing.T) {
			first, n := seeds(t, 2, 500)
			met := reach{}
			dir := t.TempDir()
			for i := range n {
				r := newWorkRun(base, filepath.Join(dir, fmt.Sprint("store", i)), first+uint64(i), met)
				r.online = true
				r.killOnline(t, base)
			}
			t.Logf("%v", met)
			require.NotZero(t, met["cut over"])
		})
	}
}

func (r *workRun) killOnline(t *testing.T, base viewMode) {
	for range 2 + r.rng.IntN(4) {
		for range 1 + r.rng.IntN(2) {
			r.kill(t, "")
		}
		r.view = onlineView(t, r.root, base)
		if r.rng.IntN(2) == 0 {
			r.verify(t)
		}
	}
	r.end(t, base)
	r.view = onlineView(t, r.root, base)
	require.Len(t, r.view.kinds, 1, r)
	r.verify(t)
	r.requireHistory(t)
	require.NoError(t, os.RemoveAll(r.root))
}
