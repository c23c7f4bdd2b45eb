package online

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

func TestTheWholeWay(t *testing.T) {
	f, m, root := verified(t)
	require.NoError(t, m.Begin(t.Context(), "me", BeginOptions{}), "it is under way")
	st := m.Status()
	require.EqualValues(t, 15, st.Verified.Units)
	require.Equal(t, cq.KindFile, st.Reads)

	f.set(func() { f.max[keyA] = 12 })
	requireRefused(t, m.Cutover(t.Context(), "me", []string{"a", "c"}), "topic c has no queues here")
	require.NoError(t, m.Cutover(t.Context(), "me", []string{"a"}))
	require.Equal(t, []int64{0, 5}, f.begins, "what moves is compared once more, and of the rest what came since")
	require.Equal(t, store.SideRoles{Preferred: cq.KindFile, Authority: cq.KindFile, Topics: []string{"a"}}, f.roles)
	require.NoError(t, m.Cutover(t.Context(), "me", []string{"b"}))
	require.Equal(t, []string{"a", "b"}, f.roles.Topics)
	require.NoError(t, m.Cutover(t.Context(), "me", nil))
	require.Equal(t, []int64{0, 0}, f.begins)
	require.Equal(t, store.SideRoles{Preferred: cq.KindRocks, Authority: cq.KindRocks}, f.roles)
	require.NoError(t, m.Cutover(t.Context(), "me", nil), "it was done")
	require.EqualValues(t, 17, m.Status().Verified.Units)

	require.NoError(t, m.Rollback(t.Context(), "me", RollbackOptions{}))
	require.Equal(t, []int64{12, 5}, f.begins, "what was compared is not compared again")
	require.Equal(t, store.SideRoles{Preferred: cq.KindFile, Authority: cq.KindFile}, f.roles)
	require.NoError(t, m.Rollback(t.Context(), "me", RollbackOptions{}), "it was done")
	requireRefused(t, m.Cutover(t.Context(), "me", nil), "rolled-back, not verified")
	require.NoError(t, m.Verify(t.Context(), "me"))
	awaitPhase(t, m, state.Verified)
	require.NoError(t, m.Cutover(t.Context(), "me", nil))
	require.NoError(t, m.Finalize(t.Context(), "me", time.Hour))
	require.True(t, m.Status().RestartNeeded)
	require.NoError(t, m.Rollback(t.Context(), "me", RollbackOptions{}), "until the restart there is a way back")
	require.NoError(t, m.Finalize(t.Context(), "me", time.Hour))
	require.Equal(t, cq.KindFile, reload(t, root).Kept, "after a rollback it is the target that goes")
	requireRefused(t, m.Rollback(t.Context(), "me", RollbackOptions{}), "the file side is kept")

	var events []state.Event
	for _, h := range reload(t, root).History {
		events = append(events, h.Event)
	}
	require.Equal(t, []state.Event{
		state.Plan, state.BackfillStart, state.HistoryEnd, state.CaughtUp, state.VerifyOK, state.Canary, state.Canary, state.CutOver, state.RollbackStart, state.RollbackEnd,
		state.VerifyStart, state.VerifyOK, state.CutOver, state.FinalizeStart, state.RollbackStart, state.RollbackEnd, state.FinalizeStart,
	}, events)
	require.Equal(t, "me", reload(t, root).History[0].Actor)
}

// INV-4: reads stay where they are, whatever keeps the other side from being known to be right.
func TestINV4CutoverIsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(f *fake)
		want string
	}{
		{"the target is being filled", func(f *fake) { f.side(cq.KindRocks, store.SideState{Filling: &store.Rebuilding{To: 9}}) }, "the rocks side is being filled"},
		{"the source is being filled", func(f *fake) { f.side(cq.KindFile, store.SideState{Filling: &store.Rebuilding{To: 9}}) }, "the file side is being filled"},
		{"a queue is diverged", func(f *fake) { f.side(cq.KindRocks, store.SideState{Diverged: 2}) }, "2 queues are being built again on the rocks side"},
		{"a queue was given up", func(f *fake) { f.side(cq.KindRocks, store.SideState{Given: 1}) }, "1 queues of the rocks side differ"},
		{"the target has failed", func(f *fake) { f.side(cq.KindRocks, store.SideState{Failure: errDisk}) }, "no disk"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, m, _ := verified(t)
			before := f.roles
			c.do(f)
			for _, topics := range [][]string{nil, {"a"}} {
				err := m.Cutover(t.Context(), "me", topics)
				requireRefused(t, err, "cutover refused")
				if !strings.Contains(err.Error(), c.want) {
					require.ErrorContains(t, err, ", not verified", "the migration has seen it before") // and has voided what was verified
				}
			}
			require.Equal(t, before, f.roles)
			require.NotEqual(t, state.Cutover, m.Status().Phase)
		})
	}
	t.Run("units since the verification differ", func(t *testing.T) {
		f, m, _ := verified(t)
		before := f.roles
		require.NoError(t, m.Cutover(t.Context(), "me", []string{"b"}))
		f.set(func() { f.differ[keyA] = "unit at slot 11" })
		err := m.Cutover(t.Context(), "me", nil)
		var differs *DiffersError
		require.ErrorAs(t, err, &differs)
		require.Equal(t, 3, differs.ExitCode())
		require.ErrorContains(t, err, "queue a/0: slot 3: wrong-position: unit at slot 11")
		require.Equal(t, before, f.roles, "canary topics go back as well")
		require.Equal(t, state.Diverged, m.Status().Phase)
		requireRefused(t, m.Cutover(t.Context(), "me", nil), "diverged, not verified")
	})
	t.Run("a queue is shorter than it was", func(t *testing.T) {
		f, m, _ := verified(t)
		f.set(func() { f.max[keyA] = 9 })
		require.ErrorContains(t, m.Cutover(t.Context(), "me", nil), "it ends at slot 9, and had been compared up to 10")
	})
	t.Run("a side fails in that very moment", func(t *testing.T) {
		f, m, _ := verified(t)
		f.set(func() { f.rolesErr = errDisk })
		require.ErrorIs(t, m.Cutover(t.Context(), "me", []string{"a"}), errDisk)
		require.Empty(t, m.Status().CanaryTopics)
		require.ErrorIs(t, m.Cutover(t.Context(), "me", nil), errDisk)
		require.Equal(t, cq.KindFile, f.roles.Preferred)
		require.Equal(t, state.RolledBack, m.Status().Phase)
	})
	t.Run("never begun", func(t *testing.T) {
		m := openFake(t, newFake(), t.TempDir(), nil)
		requireRefused(t, m.Cutover(t.Context(), "me", nil), "no migration has been begun")
		requireRefused(t, m.Verify(t.Context(), "me"), "no migration has been begun")
		requireRefused(t, m.Rollback(t.Context(), "me", RollbackOptions{}), "no migration has been begun")
		requireRefused(t, m.Finalize(t.Context(), "me", 0), "no migration has been begun")
	})
}

// Differences that the log decides are repaired, and verified again; others stay, with their names.
func TestDivergedAndRepaired(t *testing.T) {
	f, root := newFake(), t.TempDir()
	f.differ[keyB] = "unit at slot 3"
	f.sides[cq.KindRocks] = store.SideState{Kind: cq.KindRocks}
	m := openFake(t, f, root, nil)
	require.NoError(t, m.Begin(t.Context(), "me", BeginOptions{To: cq.KindRocks}))
	awaitPhase(t, m, state.Diverged)
	require.Equal(t, []string{"queue b/1: slot 3: wrong-position: unit at slot 3"}, m.Status().Differences)
	f.side(cq.KindRocks, store.SideState{Diverged: 1})
	awaitPhase(t, m, state.Repairing)
	f.set(func() { delete(f.differ, keyB) })
	f.side(cq.KindRocks, store.SideState{})
	awaitPhase(t, m, state.Verified)
	require.Empty(t, m.Status().Differences)

	f.set(func() { f.differ[keyB], f.mending = "unit at slot 4", true })
	require.NoError(t, m.Verify(t.Context(), "me"))
	require.Eventually(t, func() bool { return strings.Contains(m.Status().Waits, "3 times") }, 20*time.Second, time.Millisecond, "mended before anybody looked, and still there")
	f.set(func() { f.mending = false })
	require.NoError(t, m.Verify(t.Context(), "me"))
	awaitPhase(t, m, state.Diverged)
	time.Sleep(20 * time.Millisecond)
	require.Equal(t, state.Diverged, m.Status().Phase, "nothing is built again: it stays")
	require.NoError(t, m.Rollback(t.Context(), "me", RollbackOptions{}), "it is given up")
	require.Equal(t, state.RolledBack, m.Status().Phase)
}

// What a read that is compared finds voids a verification, before anything moves; what the log has decided is verified again when it has been mended.
func TestShadowReads(t *testing.T) {
	find := func(f *fake, judged int64) {
		f.set(func() {
			f.shadow.Found++
			f.shadow.Reads++
			f.shadow.Judged += judged
			f.shadow.Differences = []string{"queue a/0: slot 3"}
		})
	}
	t.Run("decided", func(t *testing.T) {
		f, m, root := verified(t)
		require.Nil(t, m.Status().Shadow)
		require.NoError(t, m.Cutover(t.Context(), "me", []string{"b"}))
		find(f, 1)
		require.Eventually(t, func() bool { return len(reload(t, root).History) > 8 }, 20*time.Second, time.Millisecond)
		awaitPhase(t, m, state.Verified)
		require.Empty(t, f.roles.Topics, "canary topics went back")
		var events []state.Event
		for _, h := range reload(t, root).History[6:] {
			events = append(events, h.Event)
		}
		require.Equal(t, []state.Event{state.VerifyDiffers, state.RepairStart, state.RepairEnd, state.VerifyOK}, events)
		require.Contains(t, reload(t, root).History[6].Note, "found by a read that was compared: queue a/0: slot 3")
		require.EqualValues(t, 1, m.Status().Shadow.Found)
		require.NoError(t, m.Cutover(t.Context(), "me", nil), "it stands no more")
	})
	t.Run("undecided", func(t *testing.T) {
		f, m, _ := verified(t)
		find(f, 0)
		awaitPhase(t, m, state.Diverged)
		require.Equal(t, []string{"queue a/0: slot 3"}, m.Status().Differences)
		requireRefused(t, m.Cutover(t.Context(), "me", nil), "diverged, not verified")
	})
	t.Run("in the moment of the cutover", func(t *testing.T) {
		f, m, _ := verified(t)
		m.Close() // nobody looks but the step
		before := f.roles
		find(f, 0)
		var differs *DiffersError
		require.ErrorAs(t, m.Cutover(t.Context(), "me", []string{"b"}), &differs)
		require.Equal(t, before, f.roles)
		require.Equal(t, state.Diverged, m.Status().Phase)
	})
	t.Run("while it is verified", func(t *testing.T) {
		f := newFake()
		f.block = make(chan struct{})
		m := openFake(t, f, t.TempDir(), nil)
		find(f, 0)
		require.NoError(t, m.Begin(t.Context(), "me", BeginOptions{}))
		require.Eventually(t, func() bool { return m.Status().Verifying != nil }, 10*time.Second, time.Millisecond)
		find(f, 0)
		close(f.block)
		awaitPhase(t, m, state.Diverged)
		require.NoError(t, m.Verify(t.Context(), "me"))
		awaitPhase(t, m, state.Verified)
	})
	t.Run("after the cutover", func(t *testing.T) {
		f, m, root := verified(t)
		require.NoError(t, m.Cutover(t.Context(), "me", nil))
		find(f, 0)
		require.Eventually(t, func() bool { return len(m.Status().Differences) == 1 }, 20*time.Second, time.Millisecond)
		find(f, 0)
		require.Equal(t, state.Cutover, m.Status().Phase)
		require.Equal(t, cq.KindRocks, m.Status().Reads, "reads stay")
		history := reload(t, root).History
		require.Equal(t, state.ShadowDiffers, history[len(history)-1].Event)
		f.set(func() { f.differ[keyA] = "unit at slot 3" })
		var differs *DiffersError
		require.ErrorAs(t, m.Finalize(t.Context(), "me", 0), &differs)
		require.ErrorAs(t, m.Rollback(t.Context(), "me", RollbackOptions{}), &differs)
		require.Equal(t, []int64{0, 5}, f.begins, "what differs counts no more")
		f.set(func() { delete(f.differ, keyA) })
		require.NoError(t, m.Finalize(t.Context(), "me", 0))
		require.Equal(t, []int64{0, 0}, f.begins)
		require.Empty(t, m.Status().Differences)
	})
}

// A repair that does not help is not repeated for ever.
func TestRepairsAreBounded(t *testing.T) {
	f := newFake()
	f.differ[keyB], f.mending = "unit at slot 3", true
	m := openFake(t, f, t.TempDir(), nil)
	go func() { // whatever is found is soon built again
		for range 2000 {
			f.side(cq.KindRocks, store.SideState{Diverged: 1})
			time.Sleep(2 * time.Millisecond)
			f.side(cq.KindRocks, store.SideState{})
			time.Sleep(2 * time.Millisecond)
		}
	}()
	f.side(cq.KindRocks, store.SideState{})
	require.NoError(t, m.Begin(t.Context(), "me", BeginOptions{To: cq.KindRocks}))
	require.Eventually(t, func() bool { return m.Status().Waits == "queues were built again 3 times and still differ" }, 20*time.Second, time.Millisecond)
}

// What is seen of a side that is filled: the history, then what came meanwhile, then both are written.
func TestFillIsWatched(t *testing.T) {
	f, root := newFake(), t.TempDir()
	f.sides[cq.KindRocks] = store.SideState{Kind: cq.KindRocks, Filling: &store.Rebuilding{To: 900}, History: 900}
	m := openFake(t, f, root, nil)
	require.NoError(t, m.Begin(t.Context(), "me", BeginOptions{}))
	awaitPhase(t, m, state.Backfilling)
	f.side(cq.KindRocks, store.SideState{Filling: &store.Rebuilding{Done: 500, To: 900}, History: 900})
	require.Eventually(t, func() bool { p := m.Status().Fill; return p != nil && p.Done == 500 && p.To == 1000 }, 10*time.Second, time.Millisecond)
	require.Equal(t, state.Backfilling, m.Status().Phase)
	f.side(cq.KindRocks, store.SideState{Filling: &store.Rebuilding{Done: 900, To: 1000}, History: 900})
	awaitPhase(t, m, state.CatchingUp)
	require.EqualValues(t, 900, reload(t, root).BackfilledTo)
	requireRefused(t, m.Verify(t.Context(), "me"), "catching-up")
	requireRefused(t, m.Cutover(t.Context(), "me", nil), "catching-up, not verified")
	f.side(cq.KindRocks, store.SideState{Diverged: 1})
	time.Sleep(10 * time.Millisecond)
	require.Equal(t, state.CatchingUp, m.Status().Phase, "a queue is still being built")
	f.side(cq.KindRocks, store.SideState{})
	awaitPhase(t, m, state.Verified)
	require.EqualValues(t, 1000, reload(t, root).BackfilledTo)

	f.side(cq.KindRocks, store.SideState{Failure: errDisk})
	require.NoError(t, m.Verify(t.Context(), "me"))
	require.Eventually(t, func() bool { return m.Status().Waits != "" }, 10*time.Second, time.Millisecond)
	require.Contains(t, m.Status().Waits, "no disk")
	require.Equal(t, state.Verifying, m.Status().Phase)
}

// After a stop in order a verification counts; after any other, of a store without the other side, or with a log that is shorter, it does not.
func TestWhatAStopVoids(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(f *fake)
		phase state.Phase
	}{
		{"in order", func(*fake) {}, state.Verified},
		{"not in order", func(f *fake) { f.unclean, f.block = true, make(chan struct{}) }, state.Verifying},
		{"a shorter log", func(f *fake) { f.appended, f.block = 999, make(chan struct{}) }, state.Verifying},
		{"one side alone", func(f *fake) { f.single = true }, state.Verifying},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, m, root := verified(t)
			require.NoError(t, m.Cutover(t.Context(), "me", []string{"a"}))
			m.Close()
			f.roles = store.SideRoles{Preferred: cq.KindFile, Authority: cq.KindFile}
			c.do(f)
			m = openFake(t, f, root, nil)
			require.Equal(t, c.phase, m.Status().Phase)
			if c.phase == state.Verified {
				require.Eventually(t, func() bool { return len(m.Status().CanaryTopics) == 1 && m.o.Kind == cq.KindCombine && hasTopics(f) }, 10*time.Second, time.Millisecond)
				require.NoError(t, m.Cutover(t.Context(), "me", nil))
				require.NoError(t, m.Rollback(t.Context(), "me", RollbackOptions{}))
				require.Equal(t, []int64{10, 5}, f.begins)
				return
			}
			require.Empty(t, m.Status().CanaryTopics)
			requireRefused(t, m2refusal(t, m), "verifying, not verified")
		})
	}
}

func hasTopics(f *fake) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.roles.Topics) == 1
}

// m2refusal asks for a cutover while a verification may be under way, which it gives up for that.
func m2refusal(t *testing.T, m *Migration) error {
	t.Helper()
	m.Close() // whatever is under way ends, and no more is begun
	return m.Cutover(t.Context(), "me", nil)
}

// A cutover stays a cutover over a kill, and its rollback then compares everything.
func TestCutoverSurvivesAKill(t *testing.T) {
	f, m, root := verified(t)
	require.NoError(t, m.Cutover(t.Context(), "me", nil))
	m.Close()
	f.unclean = true
	m = openFake(t, f, root, nil)
	awaitPhase(t, m, state.Cutover)
	require.Equal(t, cq.KindRocks, m.Status().Reads)
	f.side(cq.KindFile, store.SideState{Filling: &store.Rebuilding{To: 5}})
	requireRefused(t, m.Rollback(t.Context(), "me", RollbackOptions{}), "the file side is being filled")
	require.Equal(t, state.Cutover, m.Status().Phase)
	f.side(cq.KindFile, store.SideState{})
	require.NoError(t, m.Rollback(t.Context(), "me", RollbackOptions{}))
	require.Equal(t, []int64{0, 0}, f.begins)
}

// A target that has failed does not keep reads from going back.
func TestRollbackFromASideThatFailed(t *testing.T) {
	f, m, _ := verified(t)
	require.NoError(t, m.Cutover(t.Context(), "me", nil))
	f.side(cq.KindRocks, store.SideState{Failure: errDisk})
	require.NoError(t, m.Rollback(t.Context(), "me", RollbackOptions{}))
	require.Equal(t, cq.KindFile, f.roles.Preferred)
	require.NoError(t, m.Finalize(t.Context(), "me", 0), "the side that is kept is whole")
}

// A verification under way does not hold a rollback up.
func TestRollbackEndsAVerification(t *testing.T) {
	f := newFake()
	f.block = make(chan struct{})
	m := openFake(t, f, t.TempDir(), nil)
	require.NoError(t, m.Begin(t.Context(), "me", BeginOptions{}))
	require.Eventually(t, func() bool { return m.Status().Verifying != nil }, 10*time.Second, time.Millisecond)
	require.NoError(t, m.Rollback(t.Context(), "me", RollbackOptions{}))
	require.Equal(t, state.RolledBack, m.Status().Phase)
}

func TestBeginIsRefused(t *testing.T) {
	begin := func(change func(f *fake, o *Options), b BeginOptions) error {
		f := newFake()
		f.single = true
		m := openFake(t, f, t.TempDir(), func(o *Options) {
			if change != nil {
				change(f, o)
			}
		})
		return m.Begin(t.Context(), "me", b)
	}
	requireRefused(t, begin(nil, BeginOptions{To: "java"}), `side "java"`)
	requireRefused(t, begin(nil, BeginOptions{To: cq.KindFile}), "read from its file queues already")
	requireRefused(t, begin(nil, BeginOptions{BatchTopics: []string{"x", "y"}}), "batch queues cannot be held by RocksDB: x, y")
	little := func(_ *fake, o *Options) { o.FreeBytes = func() (int64, error) { return 1, nil } }
	requireRefused(t, begin(little, BeginOptions{}), "1 are free")
	require.NoError(t, begin(little, BeginOptions{AnySpace: true}))
	requireRefused(t, begin(func(f *fake, o *Options) {
		little(f, o)
		o.OpenScratch = func(cq.Kind) (migrate.Target, string, func() error, error) {
			return nil, "", nil, errors.New("no trial is possible")
		}
	}, BeginOptions{}), "what room is needed cannot be found out: no trial is possible")

	root := t.TempDir()
	st := &state.State{Version: 1, Phase: state.Verified, From: cq.KindFile, To: cq.KindRocks}
	require.NoError(t, st.Save(root+"/tandemmq"))
	m := openFake(t, newFake(), root, nil)
	requireRefused(t, m.Begin(t.Context(), "me", BeginOptions{}), "of the stopped store is verified")
	requireRefused(t, m.Cutover(t.Context(), "me", nil), "one of the stopped store, and verified")
}

// Dual write begins with a restart, which the state then asks for; what somebody has set counts.
func TestRequire(t *testing.T) {
	f, root := newFake(), t.TempDir()
	f.single = true
	m := openFake(t, f, root, nil)
	none, err := Require(root)
	require.NoError(t, err)
	o := store.DefaultOptions()
	applied, note := none.Apply(&o, nil)
	require.False(t, applied)
	require.Empty(t, note)
	require.Equal(t, store.DefaultOptions(), o)

	require.NoError(t, m.Begin(t.Context(), "me", BeginOptions{}))
	require.True(t, m.Status().RestartNeeded)
	require.Contains(t, m.Status().History[0].Note, "restarted once")
	r, err := Require(root)
	require.NoError(t, err)
	applied, note = r.Apply(&o, nil)
	require.True(t, applied)
	require.NotEmpty(t, note)
	require.True(t, o.RocksdbCQDoubleWriteEnable && o.UseSeparateStorePathForRocksdbCQ)
	require.Equal(t, store.StoreTypeFile, o.CombineCQPreferCQType)
	o = store.DefaultOptions()
	applied, note = r.Apply(&o, []string{"storeType"})
	require.False(t, applied)
	require.Contains(t, note, "waits")
	require.False(t, o.RocksdbCQDoubleWriteEnable)
	o.RocksdbCQDoubleWriteEnable = true
	r.Apply(&o, []string{"storeType", "rocksdbCQDoubleWriteEnable"})
	require.Equal(t, store.StoreTypeFile, o.CombineCQPreferCQType)

	st := reload(t, root)
	for _, c := range []struct {
		phase  state.Phase
		both   bool
		prefer store.StoreType
	}{
		{state.Backfilling, true, store.StoreTypeFile},
		{state.Verified, true, store.StoreTypeFile},
		{state.Cutover, true, store.StoreTypeRocksDB},
		{state.RollingBack, true, store.StoreTypeRocksDB},
		{state.RolledBack, false, store.StoreTypeFile}, // nothing is there of the other side
		{state.Finalizing, true, store.StoreTypeRocksDB},
		{state.Finalized, false, store.StoreTypeRocksDB},
	} {
		st.Phase, st.Kept = c.phase, cq.KindRocks
		require.NoError(t, st.Save(root+"/tandemmq"))
		r, err := Require(root)
		require.NoError(t, err)
		o := store.DefaultOptions()
		applied, note := r.Apply(&o, nil)
		require.True(t, applied, c.phase)
		require.NotEmpty(t, note, c.phase)
		require.Equal(t, c.both, o.RocksdbCQDoubleWriteEnable, c.phase)
		if c.both {
			require.Equal(t, c.prefer, o.CombineCQPreferCQType, c.phase)
			require.Equal(t, c.prefer, o.CombineAssignOffsetCQType, c.phase)
		} else {
			require.Equal(t, c.prefer, o.StoreType, c.phase)
		}
	}
}

// The certificate of a running store is one that the offline path reads.
func TestCertificate(t *testing.T) {
	f, m, root := verified(t)
	read := func() []migrate.Certified {
		c, err := migrate.ReadCertificate(root + "/tandemmq")
		require.NoError(t, err)
		return slices.Collect(c.All())
	}
	require.Equal(t, []migrate.Certified{{Key: keyA, Max: 10, CRC: 10}, {Key: keyB, Max: 5, CRC: 5}}, read())
	f.set(func() {
		f.max[keyA] = 12
		f.keys = []cq.Key{keyA}
	})
	require.NoError(t, m.Cutover(t.Context(), "me", nil))
	require.Equal(t, []migrate.Certified{{Key: keyA, Max: 12, CRC: 12}}, read(), "a queue that was deleted is in it no more")
}
