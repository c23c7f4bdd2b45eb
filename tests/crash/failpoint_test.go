//go:build tandemmq_failpoints

package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/failpoint"
)

// atPlaces are the places in a store at which TestKillAtPlaces kills, and the most times that a process comes by before. Truncation is met in TestViewLoss.
var atPlaces = []struct {
	place failpoint.Place
	times int
}{
	{failpoint.RecordsRead, 60},
	{failpoint.QueuesAppended, 60},
	{failpoint.IndexAppended, 60},
	{failpoint.LogFlushed, 12},
	{failpoint.QueuesFlushed, 12},
	{failpoint.OffsetsNoted, 12},
	{failpoint.FileReplaced, 20},
	{failpoint.QueuesMended, 1},
	{failpoint.LogFileRemoved, 5},
	{failpoint.QueuesTrimmed, 5},
}

// As TestKillWork, with kills between two steps of the store, at each place. A seed comes to the same place the same number of times.
func TestKillAtPlaces(t *testing.T) {
	require.Equal(t, failpoint.Env, failpointEnv)
	for _, view := range viewModes {
		t.Run(view.name, func(t *testing.T) {
			first, n := seeds(t, 6, 400)
			met, tried := reach{}, reach{}
			dir := t.TempDir()
			for i := range n {
				r := newWorkRun(view, filepath.Join(dir, fmt.Sprint("store", i)), first+uint64(i), met)
				for range 3 {
					r.killAt(t, tried)
					if r.rng.IntN(4) != 0 {
						r.verify(t)
					}
				}
				r.verify(t)
				require.NoError(t, os.RemoveAll(r.root))
			}
			t.Logf("%v", met)
			for _, at := range atPlaces {
				reached := met["at "+string(at.place)]
				t.Logf("%-20s %d of %d kills were met there", at.place, reached, tried[string(at.place)])
				require.True(t, reached > 0 || tried[string(at.place)] < 20 || at.place == failpoint.QueuesMended && view.kinds[0] != cq.KindFile, "%s was never reached", at.place)
			}
		})
	}
}

// killAt kills at a place, having seen to it that the process comes by.
func (r *workRun) killAt(t *testing.T, tried reach) {
	at := atPlaces[r.rng.IntN(len(atPlaces))]
	if at.place == failpoint.QueuesMended {
		if r.view.kinds[0] != cq.KindFile || r.runs == 0 {
			return // rows do not get lost one by one
		}
		r.verify(t)
		r.damaged = true
		require.NoError(t, os.RemoveAll(filepath.Join(r.root, "consumequeue", workTopics[r.rng.IntN(2)], fmt.Sprint(r.rng.IntN(workQueueIDs)))))
	}
	tried[string(at.place)]++
	r.kill(t, fmt.Sprintf("%s:%d", at.place, 1+r.rng.IntN(at.times)))
}
