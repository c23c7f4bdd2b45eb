package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A stopped store gives back what has expired, after it was said what; a broker that opens it afterwards finds it in order.
func TestCleanStoppedStore(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, newWorld().in(o))
		for range 30 {
			_, err := s.Put(t.Context(), newMessage("early"))
			require.NoError(t, err)
		}
		fillLog(t, s, 4)
		next := s.NextOffset("T", 0)
		require.NoError(t, s.Close())
		size := o.MappedFileSizeCommitLog
		later := func(hours int) func() time.Time {
			return func() time.Time { return time.Now().Add(time.Duration(hours) * time.Hour) }
		}
		clean := CleanOptions{ReserveHours: 72, Options: &o, Now: later(71)}

		rep, err := Clean(t.Context(), root, clean)
		require.NoError(t, err)
		require.Empty(t, rep.Removed)
		require.Contains(t, rep.Kept.Why, "ago, reserved for 72h")

		clean.Now, clean.DryRun = later(73), true
		before := tree(t, root)
		plan, err := Clean(t.Context(), root, clean)
		require.NoError(t, err)
		require.Len(t, plan.Removed, 4)
		require.Contains(t, plan.Removed[0].Why, "reserved for 72h")
		require.Equal(t, "it holds the last record", plan.Kept.Why)
		require.Equal(t, 4*size, plan.MinPhyOffset)
		require.Equal(t, before, tree(t, root), "a dry run changes nothing")

		clean.DryRun = false
		rep, err = Clean(t.Context(), root, clean)
		require.NoError(t, err)
		require.Equal(t, plan.Removed, rep.Removed)
		require.Equal(t, plan.IndexFiles, rep.IndexFiles)
		require.Positive(t, rep.IndexFiles)
		require.Positive(t, rep.Queues)
		require.Equal(t, o.StoreType == StoreTypeFile, rep.QueueFiles > 0)
		require.NoFileExists(t, NewLayout(root).AbortPath())
		v, err := OpenView(root, ViewOptions{Kind: o.StoreType.kind()})
		require.NoError(t, err)
		require.Equal(t, 4*size, v.Log.MinOffset())
		requireExpired(t, v.Log, v.Queues, o)
		require.NoError(t, v.Close())

		rep, err = Clean(t.Context(), root, clean)
		require.NoError(t, err)
		require.Empty(t, rep.Removed)
		require.Zero(t, rep.Queues+rep.QueueFiles+rep.IndexFiles)

		s = openStore(t, root, o)
		require.Equal(t, next, s.NextOffset("T", 0))
		require.Equal(t, int64(30), s.NextOffset("early", 0))
		putSome(t, s, 3)
		awaitDispatch(t, s)
		requireExpired(t, s.Log(), s.views.queues, o)
		require.NoError(t, s.Close())
	})
}

// Nothing goes from a store that is open, was not closed in order, or has no queues.
func TestCleanRefuses(t *testing.T) {
	root := t.TempDir()
	o := viewOptions(StoreTypeFile)
	s := openStore(t, root, newWorld().in(o))
	fillLog(t, s, 2)
	clean := CleanOptions{Options: &o}
	var inUse *InUseError
	_, err := Clean(t.Context(), root, clean)
	require.ErrorAs(t, err, &inUse)
	killed := crash(t, root)
	require.NoError(t, s.Close())
	before := tree(t, killed)
	_, err = Clean(t.Context(), killed, clean)
	require.ErrorContains(t, err, "recover it first")
	require.Equal(t, before, tree(t, killed))
	rep, err := Clean(t.Context(), killed, CleanOptions{Options: &o, DryRun: true})
	require.NoError(t, err)
	require.True(t, rep.Unclean)
	require.Len(t, rep.Removed, 2)
	require.NoError(t, os.RemoveAll(filepath.Join(root, "consumequeue")))
	_, err = Clean(t.Context(), root, clean)
	require.ErrorContains(t, err, "no consume queues")
	_, err = Clean(t.Context(), root, CleanOptions{ReserveHours: -1})
	require.ErrorContains(t, err, "-1 hours")
}
