package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
)

// Wherever power is lost, and whatever of what was not synced survives, the old or the new checkpoint is there, whole; once
// the write returned it is the new one.
func TestW46CheckpointOutlivesPowerLoss(t *testing.T) {
	before, after := Checkpoint{1, 2, 3, 4, 5, 6, 7}, Checkpoint{10, 20, 30, 40, 50, 60, 70}
	const path = "/store/checkpoint"
	at := func(fsys *faultfs.FS) Checkpoint {
		c, ours, err := readCheckpoint(fsys, path, time.Now())
		require.NoError(t, err, "%v", fsys)
		require.True(t, ours, "%v", fsys)
		return c
	}
	fsys := faultfs.New(faultfs.Options{})
	fsys.MkdirAll("/store")
	require.NoError(t, writeCheckpoint(fsys, path, before))
	crashes, seen := 0, map[Checkpoint]int{}
	fsys.Inject(func(faultfs.Op) error {
		for left := range fsys.CrashAll() {
			c := at(left)
			require.Contains(t, []Checkpoint{before, after}, c, "%v", left)
			seen[c]++
			crashes++
		}
		return nil
	})
	require.NoError(t, writeCheckpoint(fsys, path, after))
	fsys.Inject(nil)
	require.Positive(t, seen[before])
	require.Positive(t, seen[after])
	for left := range fsys.CrashAll() {
		require.Equal(t, after, at(left), "%v", left)
	}
	t.Logf("%d losses of power", crashes)
}
