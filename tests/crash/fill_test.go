//go:build cgo

package crash

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/failpoint"
	"github.com/tandemq/tandemmq/internal/testenv"
	"github.com/tandemq/tandemmq/store"
)

// fillBytes of log are more than a store waits for when it is opened.
const fillBytes = 66 << 20

// A store is killed while one side of its queues, which is new, is filled from the log, and puts, reads and retention go on, which removes what the side has still to be filled with. In the end it
// has what the other one has.
func TestKillFill(t *testing.T) {
	if testenv.Race {
		t.Skip("stores of 66 MiB take too long under the race detector; TestKillOnline fills sides, too")
	}
	for _, c := range []struct{ from, to string }{
		{"files", "combine"},
		{"files", "combine, RocksDB first"},
		{"rocks", "combine"},
	} {
		t.Run(c.from+" to "+c.to, func(t *testing.T) {
			first, n := seeds(t, 1, 60)
			met := reach{}
			dir := t.TempDir()
			made := filepath.Join(dir, "made")
			from, view := viewModeOf(c.from), viewModeOf(c.to)
			tr := makeLarge(t, made, from)
			newKind := cq.KindRocks
			if from.kinds[0] == cq.KindRocks {
				newKind = cq.KindFile
			}
			for i := range n {
				r := newWorkRun(view, filepath.Join(dir, fmt.Sprint("store", i)), first+uint64(i), met)
				r.stays, r.due = true, maps.Clone(tr.keys)
				for k, p := range tr.keys {
					r.from[k] = p.phy
				}
				for q, s := range tr.queues {
					r.next[q] = s.next()
				}
				require.NoError(t, os.CopyFS(r.root, os.DirFS(made)))
				for range 1 + r.rng.IntN(4) {
					r.kill(t, r.fillPlace())
					if r.filling(t, newKind) {
						met["killed in the fill"]++
					}
				}
				r.verify(t)
				require.NoError(t, os.RemoveAll(r.root))
			}
			t.Logf("%v", met)
		})
	}
}

// makeLarge makes a store of so much log that a new side of its queues is filled beside dispatch, and returns what is in it.
func makeLarge(t *testing.T, root string, view viewMode) *truth {
	s, err := store.Open(root, view.options(putModes[0]))
	require.NoError(t, err)
	release := s.RetainFrom("all of it", func() int64 { return 0 })
	defer release()
	var putting sync.WaitGroup
	failed := make(chan error, 4)
	for p := range cap(failed) {
		putting.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(p)))
			for n := 0; s.Positions().Wrote < fillBytes; n++ {
				k := key{0, p, n, 0}
				if n%8 != 0 && len(bodyOf(k)) < 500 {
					continue // so much log of short messages takes long
				}
				if _, _, err := putWork(s, rng, k); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	putting.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	tr := truthOf(t, s.Log())
	require.NoError(t, s.Close())
	return tr
}

// fillPlace draws where the next kill is: at any moment, or after some batches of the fill where the binary has places.
func (r *workRun) fillPlace() string {
	if !failpoint.Enabled || r.rng.IntN(2) == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", failpoint.QueuesMended, 1+r.rng.IntN(12))
}

// filling tells whether that side of a store that was killed is not known to have all that was in the log when it was made.
func (r *workRun) filling(t *testing.T, kind cq.Kind) bool {
	if kind == cq.KindFile {
		return fileExists(t, filepath.Join(r.root, "tandemmq", "rebuild-queues.json"))
	}
	if !fileExists(t, filepath.Join(r.root, "consumequeue", "CURRENT")) && !fileExists(t, filepath.Join(r.root, "consumequeue_rocksdb", "CURRENT")) {
		return true // killed while it was made
	}
	if _, _, found, err := store.NewLayout(r.root).FindRocks(); err == nil && !found {
		return true // it was killed before that was made
	}
	v, err := store.OpenView(r.root, store.ViewOptions{Kind: kind})
	require.NoError(t, err)
	defer v.Close()
	return v.Queues.DispatchFrom() < fillBytes
}

func fileExists(t *testing.T, path string) bool {
	_, err := os.Stat(path)
	require.True(t, err == nil || os.IsNotExist(err), err)
	return err == nil
}
