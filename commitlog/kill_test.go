package commitlog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
)

// A process killed at any operation leaves the page cache: the next writer finds what was published (or, of what was
// still in memory, what was flushed), and makes durable all that it stands on: bytes, files and names. So a loss of power after it
// takes nothing it found. Files that were made ahead, half or whole, are used and count for nothing (FR-B12).
func TestFRB12KilledWriterIsGoneOnFromDurably(t *testing.T) {
	for _, m := range testModes {
		t.Run(m.name, func(t *testing.T) {
			fsys := faultfs.New(faultfs.Options{})
			fsys.MkdirAll("/")
			l := newLedger()
			moments := watch(fsys, l)
			w, err := OpenWriter(lossOptions(fsys, m.sync, m.mode))
			require.NoError(t, err)
			lossRun(t, w, l, 1, 14)
			require.NoError(t, w.Close())
			for i, at := range moments() {
				if i%sweepStep != 0 {
					continue
				}
				atLeast := at.durable
				if m.mode == WriteMapped || m.mode == WriteThrough && !m.sync {
					atLeast = at.written
				}
				killed := at.fsys
				l.scan(t, killed, atLeast)
				w, err := OpenWriter(lossOptions(killed, m.sync, m.mode))
				require.NoError(t, err, "killed at %v", at.op)
				found := w.Positions().Wrote
				require.GreaterOrEqual(t, found, atLeast)
				require.Equal(t, Positions{found, found, found, found}, w.Positions())
				next := l.fork()
				for n := range 9 { // more than a file
					require.NoError(t, next.append(w, lossMessage(9, int64(n))), "killed at %v", at.op)
					require.NoError(t, next.flush(w))
					written, _ := next.ends()
					for _, seed := range []uint64{0, uint64(2 + i*9 + n)} {
						next.scan(t, killed.CrashSeed(seed), written)
					}
				}
				require.NoError(t, w.Close())
				require.Zero(t, killed.OpenFiles())
				require.Zero(t, killed.Mappings())
				if t.Failed() {
					t.Fatalf("killed at %v", at.op)
				}
			}
		})
	}
}
