//go:build cgo

package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

// dualModes are the combined stores, with each side preferred and each assigning offsets; light queues are on both sides, or in RocksDB alone.
func dualModes() (list []viewMode) {
	for _, prefer := range []store.StoreType{store.StoreTypeFile, store.StoreTypeRocksDB} {
		for _, assign := range []store.StoreType{store.StoreTypeFile, store.StoreTypeRocksDB} {
			list = append(list, viewMode{
				name: fmt.Sprintf("%s preferred, %s assigns", prefer, assign),
				set: func(o *store.Options) {
					o.RocksdbCQDoubleWriteEnable, o.CombineCQUseRocksdbForLmq = true, prefer != assign
					o.CombineCQPreferCQType, o.CombineAssignOffsetCQType = prefer, assign
				},
				kinds:        []cq.Kind{cq.KindFile, cq.KindRocks},
				lightInRocks: prefer != assign,
			})
		}
	}
	return list
}

func init() { moreModes = dualModes() }

// Kill -9 of a process that writes each unit to files and to RocksDB: after the next start both sides hold the same units wherever both have one, the log has the same, and the next offset
// of each queue is the one behind its last record.
func TestKillDualWrite(t *testing.T) {
	for _, view := range dualModes() {
		t.Run(view.name, func(t *testing.T) {
			first, n := seeds(t, 4, 250)
			met := reach{}
			dir := t.TempDir()
			for i := range n {
				r := newWorkRun(view, filepath.Join(dir, fmt.Sprint("store", i)), first+uint64(i), met)
				for range 1 + r.rng.IntN(2) {
					r.kill(t, "")
				}
				r.verify(t) // puts get the next offset
				r.compareSides(t)
				require.NoError(t, os.RemoveAll(r.root))
			}
			t.Logf("%v", met)
			require.NotZero(t, met["units the same on both sides"])
		})
	}
}

// compareSides holds the two sides of a closed store against one another, without the store's help.
func (r *workRun) compareSides(t *testing.T) {
	var queues [2]cq.Reader
	for i, kind := range r.view.kinds {
		v, err := store.OpenView(r.root, store.ViewOptions{Kind: kind})
		require.NoError(t, err, r)
		defer v.Close()
		queues[i] = v.Queues
	}
	for _, q := range workQueues() {
		var units [2][]cq.Unit
		var bounds [2]cq.Bounds
		k := cq.Key{Topic: q.Topic, QueueID: q.ID}
		if r.view.lightInRocks && k.IsLMQ() {
			continue
		}
		for i := range queues {
			units[i], bounds[i] = allUnits(t, queues[i], k)
		}
		if bounds[0].Max == 0 && bounds[1].Max == 0 {
			continue
		}
		require.Equal(t, bounds[0].Max, bounds[1].Max, "%v: %s", r, k)
		require.Equal(t, bounds[0].Min, bounds[1].Min, "%v: %s", r, k)
		require.Equal(t, r.next[q], bounds[0].Max, "%v: %s", r, k)
		require.Len(t, units[1], len(units[0]), "%v: %s", r, k)
		for i := range units[0] {
			if !units[0][i].SameRecord(units[1][i]) {
				require.Failf(t, "units differ", "%v: %s slot %d: %+v and %+v", r, k, bounds[0].Min+int64(i), units[0][i], units[1][i])
			}
		}
		r.met["units the same on both sides"] += len(units[0])
	}
}

// allUnits reads the units of a queue, nothing for one that is not there.
func allUnits(t *testing.T, queues cq.Reader, k cq.Key) (units []cq.Unit, b cq.Bounds) {
	q, ok := queues.Queue(k)
	if !ok {
		return nil, b
	}
	b, err := q.Bounds()
	require.NoError(t, err)
	units = make([]cq.Unit, b.Max-b.Min)
	for at := 0; at < len(units); {
		n, err := q.Read(b.Min+int64(at), units[at:])
		require.NoError(t, err)
		require.NotZero(t, n, "%s slot %d", k, b.Min+int64(at))
		at += n
	}
	return units, b
}
