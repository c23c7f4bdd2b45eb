package online

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// events are those of a history from a place on.
func events(t *testing.T, root string, from int) (list []state.Event) {
	t.Helper()
	for _, h := range reload(t, root).History[from:] {
		list = append(list, h.Event)
	}
	return list
}

// A side that is replaced voids a verification, and is no side that serves; after a cutover the history says so.
func TestSideIsReplaced(t *testing.T) {
	building := store.SideState{Replaced: 1, Filling: &store.Rebuilding{To: 1000}}
	t.Run("before the cutover", func(t *testing.T) {
		f, m, root := verified(t)
		f.set(func() { f.block = make(chan struct{}) })
		n := len(reload(t, root).History)
		f.side(cq.KindRocks, building)
		awaitPhase(t, m, state.Verifying)
		st := m.Status()
		require.Nil(t, st.Verified)
		require.NotNil(t, st.Fill)
		requireRefused(t, m.Cutover(t.Context(), "me", nil), "")
		f.side(cq.KindRocks, store.SideState{Replaced: 1})
		close(f.block)
		awaitPhase(t, m, state.Verified)
		require.Equal(t, []state.Event{state.VerifyStart, state.VerifyOK}, events(t, root, n))
		require.Contains(t, reload(t, root).History[n].Note, "the rocks side was found damaged")
	})
	t.Run("replaced between two looks", func(t *testing.T) {
		f, m, root := verified(t)
		n := len(reload(t, root).History)
		f.side(cq.KindRocks, store.SideState{Replaced: 1})
		require.Eventually(t, func() bool { return len(reload(t, root).History) == n+2 }, 20*time.Second, time.Millisecond)
		awaitPhase(t, m, state.Verified)
	})
	t.Run("after it", func(t *testing.T) {
		f, m, root := verified(t)
		require.NoError(t, m.Cutover(t.Context(), "me", nil))
		n := len(reload(t, root).History)
		require.Equal(t, cq.KindRocks, m.Status().Reads)
		f.side(cq.KindRocks, building)
		require.Eventually(t, func() bool { return len(reload(t, root).History) == n+1 }, 20*time.Second, time.Millisecond)
		require.Equal(t, cq.KindFile, m.Status().Reads, "files serve meanwhile")
		require.Equal(t, cq.KindFile, m.Status().Authority)
		f.side(cq.KindRocks, store.SideState{Replaced: 1})
		require.Eventually(t, func() bool { return len(reload(t, root).History) == n+2 }, 20*time.Second, time.Millisecond)
		require.Equal(t, []state.Event{state.SideReplaced, state.SideWhole}, events(t, root, n))
		require.Equal(t, cq.KindRocks, m.Status().Reads)
		require.Equal(t, state.Cutover, m.Status().Phase)
	})
}

// A queue that lacks something on a side, as a reader has met, is found to differ, and healed when it was compared.
func TestQueueIsMet(t *testing.T) {
	met := store.SideState{Met: 1, MetLast: []store.MetQueue{{Key: keyA, Err: errors.New("slot 3 has no unit")}}}
	t.Run("before the cutover", func(t *testing.T) {
		f, m, root := verified(t)
		n := len(reload(t, root).History)
		f.side(cq.KindFile, met)
		require.Eventually(t, func() bool { return len(reload(t, root).History) == n+4 }, 20*time.Second, time.Millisecond)
		awaitPhase(t, m, state.Verified)
		require.Equal(t, []state.Event{state.VerifyDiffers, state.RepairStart, state.RepairEnd, state.VerifyOK}, events(t, root, n))
		require.Contains(t, reload(t, root).History[n].Note, "met by a reader or by dispatch: queue a/0: file side: slot 3 has no unit")
		require.Equal(t, &Findings{Found: 1, Healed: 1}, m.Status().Findings)
	})
	t.Run("after it", func(t *testing.T) {
		f, m, root := verified(t)
		require.NoError(t, m.Cutover(t.Context(), "me", nil))
		n := len(reload(t, root).History)
		f.side(cq.KindRocks, met)
		require.Eventually(t, func() bool { return len(reload(t, root).History) == n+2 }, 20*time.Second, time.Millisecond)
		require.Equal(t, []state.Event{state.QueueDamaged, state.Healed}, events(t, root, n))
		require.Equal(t, &Findings{Found: 1, Healed: 1}, m.Status().Findings)
	})
}

// A file queue that is cut under a store with a verified migration is met by dispatch, and verified again.
func TestCutQueueIsMet(t *testing.T) {
	r := newReal(t, 7)
	r.put(t, 5)
	require.Eventually(t, func() bool { b, ok, err := r.s.Bounds(realQueues[1]); return err == nil && ok && b.Max == realUnits+5 }, 20*time.Second, time.Millisecond)
	require.NoError(t, os.Truncate(filepath.Join(r.root, "consumequeue", "A", "1", "00000000000000004000"), 0))
	r.put(t, 5)
	require.Eventually(t, func() bool {
		st := r.m.Status()
		return st.Phase == state.Verified && st.Findings != nil && *st.Findings == Findings{Found: 1, Healed: 1} && st.PutsRefused == ""
	}, 20*time.Second, time.Millisecond)
	require.NoError(t, r.m.Cutover(t.Context(), "me", nil))
}
