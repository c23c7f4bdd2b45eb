package online

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// loseFiles takes files of a side away, or cuts one, and returns what a refusal names.
func (r *real) loseFiles(t *testing.T, kind cq.Kind, harm string) (named string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(r.root, "consumequeue_rocksdb", "*.sst"))
	if kind == cq.KindFile {
		paths, err = filepath.Glob(filepath.Join(r.root, "consumequeue", "A", "1", "*"))
	}
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	last := paths[len(paths)-1]
	if harm == "removed" {
		last = paths[0]
	}
	switch harm {
	case "cut":
		require.NoError(t, os.Truncate(last, 20))
	case "the last one removed":
		require.NoError(t, os.Remove(last))
	default:
		for _, p := range paths {
			require.NoError(t, os.Remove(p))
		}
	}
	return last
}

var fileHarms = []string{"cut", "the last one removed", "removed"}

// What a process has open it goes on reading. A cutover and a finalize look whether that is on the disk, and are refused with the files named; a restart has them built again, and the step is done.
func TestStepsLookAtTheDisk(t *testing.T) {
	for _, kept := range []cq.Kind{cq.KindFile, cq.KindRocks} {
		for _, harm := range fileHarms[1:] { // what a file that is cut does to who has it mapped is told elsewhere
			t.Run(fmt.Sprintf("%s, %s", kept, harm), func(t *testing.T) {
				r, ctx := newReal(t, 1), t.Context()
				if kept == cq.KindFile {
					require.NoError(t, r.m.Cutover(ctx, "me", nil))
					require.NoError(t, r.m.Rollback(ctx, "me", RollbackOptions{}))
				} else {
					r.restart(t) // what RocksDB had in memory is in files
					r.await(t, state.Verified)
					named := r.loseFiles(t, kept, harm)
					requireRefused(t, r.m.Cutover(ctx, "me", nil), "the rocks side is not on the disk as it is read: "+named+" is not there")
					r.restart(t)
					r.await(t, state.Verified)
					require.NoError(t, r.m.Cutover(ctx, "me", nil))
				}
				phase := r.m.Status().Phase
				r.restart(t)
				r.await(t, phase)
				named := r.loseFiles(t, kept, harm)
				requireRefused(t, r.m.Finalize(ctx, "me", time.Hour), named+" is not there")
				require.Equal(t, phase, r.m.Status().Phase)
				r.restart(t)
				r.await(t, phase)
				require.NoError(t, r.m.Finalize(ctx, "me", time.Hour))
				r.restart(t)
				require.Equal(t, state.Finalized, r.m.Status().Phase)
				r.requireKept(t, kept)
			})
		}
	}
}

// The start after a finalize moves nothing aside when the side that is kept is not whole on the disk. The store is opened with both, builds what is lost, compares, and the start after that does it.
func TestFinishLooksAtTheKeptSide(t *testing.T) {
	for _, kept := range []cq.Kind{cq.KindFile, cq.KindRocks} {
		for _, harm := range fileHarms {
			t.Run(fmt.Sprintf("%s, %s", kept, harm), func(t *testing.T) {
				r, ctx := newReal(t, 1), t.Context()
				require.NoError(t, r.m.Cutover(ctx, "me", nil))
				if kept == cq.KindFile {
					require.NoError(t, r.m.Rollback(ctx, "me", RollbackOptions{}))
				}
				require.NoError(t, r.m.Finalize(ctx, "me", time.Second))
				r.close(t)
				named := r.loseFiles(t, kept, harm)
				other := otherKind(kept)
				before := sideTree(t, r.root, other)
				require.NoError(t, Finish(r.root, "start", nil))
				require.Equal(t, before, sideTree(t, r.root, other))
				require.NoDirExists(t, filepath.Join(r.root, "tandemmq", retiredDir))
				st := reload(t, r.root)
				require.Equal(t, state.Finalizing, st.Phase)
				note := st.History[len(st.History)-1]
				require.Equal(t, state.StepDiffers, note.Event)
				require.Contains(t, note.Note, fmt.Sprintf("nothing was moved aside, for the %s queues, which are kept, are not whole", kept))
				switch {
				case kept == cq.KindRocks:
					require.Contains(t, note.Note, filepath.Dir(named))
					require.Contains(t, note.Note, ".sst")
				case harm == "cut":
					require.Contains(t, note.Note, "A/1")
				default:
					require.Contains(t, note.Note, "queue A/1")
				}
				r.open(t)
				require.Equal(t, cq.KindCombine, r.s.QueueKind())
				require.Eventually(t, func() bool { return r.m.Status().RestartNeeded }, 20*time.Second, time.Millisecond)
				r.restart(t)
				require.Equal(t, state.Finalized, r.m.Status().Phase)
				r.requireKept(t, kept)
			})
		}
	}
}

// requireKept wants the one side that there is to be as the log says.
func (r *real) requireKept(t *testing.T, kept cq.Kind) {
	t.Helper()
	require.Equal(t, kept, r.s.QueueKind())
	units := int64(0)
	require.NoError(t, r.s.CheckSide(t.Context(), kept, store.VerifySidesOptions{}, func(v *store.SideVerdict) error {
		require.True(t, v.OK(), "%v", v.Words())
		units += v.Units
		return nil
	}))
	require.EqualValues(t, 3*realUnits, units)
}

// sideTree lists the files of a side.
func sideTree(t *testing.T, root string, kind cq.Kind) []string {
	t.Helper()
	pattern := filepath.Join(root, "consumequeue", "*", "*", "*")
	if kind == cq.KindRocks {
		pattern = filepath.Join(root, "consumequeue_rocksdb", "*.sst")
	}
	list, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, list)
	return list
}

// The status says of the steps that come next which ones would be refused at this moment, and why.
func TestStatusTellsWhatWouldBeRefused(t *testing.T) {
	f, m, root := verified(t)
	require.Empty(t, m.Status().Refused)
	f.side(cq.KindFile, store.SideState{Comparing: true})
	require.Contains(t, m.Status().Refused["cutover"][0], "the file side is being compared with the log")
	f.side(cq.KindFile, store.SideState{})
	require.NoError(t, m.Cutover(t.Context(), "me", nil))
	require.Empty(t, m.Status().Refused)
	for _, one := range []struct {
		lacks store.SideState
		why   string
	}{
		{store.SideState{Comparing: true}, "the file side is being compared with the log"},
		{store.SideState{Failure: errDisk}, "the file side was given up"},
	} {
		f.side(cq.KindFile, one.lacks)
		refused := m.Status().Refused
		require.Len(t, refused, 1)
		require.Contains(t, refused["rollback"][0], one.why)
		requireRefused(t, m.Rollback(t.Context(), "me", RollbackOptions{}), refused["rollback"][0])
	}
	m.Close()
	f.side(cq.KindFile, store.SideState{})
	f.set(func() { f.single = true })
	m = openFake(t, f, root, func(o *Options) { o.Kind = cq.KindFile })
	refused := m.Status().Refused
	require.Contains(t, refused["rollback"][0], "opened with its file queues alone")
	requireRefused(t, m.Rollback(t.Context(), "me", RollbackOptions{}), refused["rollback"][0])
	requireRefused(t, m.Finalize(t.Context(), "me", 0), refused["finalize"][0])
}
