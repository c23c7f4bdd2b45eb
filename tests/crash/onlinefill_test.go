//go:build cgo

package crash

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// As TestKillOnline, of a store with so much log that the target is filled beside everything else.
func TestKillOnlineFill(t *testing.T) {
	for _, base := range viewModes {
		if base.combined() {
			continue
		}
		t.Run("from "+base.name, func(t *testing.T) {
			first, n := seeds(t, 0, 40)
			if n == 0 {
				t.Skip("takes 20 seconds a seed: TANDEMMQ_SEEDS=n runs it")
			}
			met := reach{}
			dir := t.TempDir()
			made := filepath.Join(dir, "made")
			tr := makeLarge(t, made, base)
			for i := range n {
				r := newWorkRun(base, filepath.Join(dir, fmt.Sprint("store", i)), first+uint64(i), met)
				r.online, r.stays, r.due = true, true, maps.Clone(tr.keys)
				for k, p := range tr.keys {
					r.from[k] = p.phy
				}
				for q, s := range tr.queues {
					r.next[q] = s.next()
				}
				require.NoError(t, os.CopyFS(r.root, os.DirFS(made)))
				r.killOnline(t, base)
			}
			t.Logf("%v", met)
		})
	}
}
