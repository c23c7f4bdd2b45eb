package store

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// A side that a combined store has lost, as a whole or the beginning of a queue, is an error that names side, queue and slots. What retention has brought further, a side that is being built
// and a RocksDB of which nothing says that it was ever whole are none.
func TestIssue5Part1CheckFindsALostSide(t *testing.T) {
	needRocksDB(t)
	both := combineOptions()
	found := func(t *testing.T, root string, deep bool) (list []string, rep *CheckReport) {
		t.Helper()
		rep, err := Check(t.Context(), root, CheckOptions{Deep: deep})
		require.NoError(t, err)
		for _, f := range rep.Findings {
			if f.Code == CheckMissingSide || f.Code == CheckBeginsLater || f.Code == CheckOneSided || f.Severity == CheckError {
				list = append(list, brief(f)+": "+f.Text)
			}
		}
		return list, rep
	}
	for _, lost := range combinedKinds {
		for _, deep := range []bool{false, true} {
			t.Run("the whole side "+string(lost), func(t *testing.T) {
				root := t.TempDir()
				openPuts(t, root, both, guardPuts)
				loseSide(t, root, lost)
				list, rep := found(t, root, deep)
				other := string(otherKind(lost))
				require.Contains(t, list, "error missing-side "+string(lost)+" T/0: the "+string(lost)+" side is gone; the "+other+" side holds slots 0 to 119")
				require.Contains(t, list, "error missing-side "+string(lost)+": the store keeps its queues in files and RocksDB (tandemmq/queue-sides.json), and those in "+sideWords(lost)+
					" are gone; the other side has "+map[cq.Kind]string{cq.KindRocks: "5 queues with 400 units", cq.KindFile: "2 queues with 240 units"}[lost])
				require.Equal(t, []string{string(lost)}, rep.LostSides)
				require.Equal(t, []string{other}, rep.Sides)

				put(t, root, "abort", "") // the next recovery builds it
				_, rep = found(t, root, deep)
				require.True(t, rep.Sound, "%v", rep.Findings)
				require.Positive(t, rep.Warnings)
			})
			t.Run("the beginning of a queue "+string(lost), func(t *testing.T) {
				root := t.TempDir()
				openPuts(t, root, both, guardPuts)
				loseBeginning(t, root, lost)
				list, rep := found(t, root, deep)
				require.Equal(t, []string{"error begins-later " + string(lost) + " T/0: slots 0 to 49 are on the " + string(otherKind(lost)) + " side alone, and the log has their records: the " + string(lost) +
					" side has lost them, or never had them"}, list)
				require.False(t, rep.Sound)
				require.NoError(t, os.Remove(NewLayout(root).keptPath()))
				_, rep = found(t, root, deep)
				require.Equal(t, lost == cq.KindRocks, rep.Sound, "RocksDB of RocketMQ has no history (F14)")
				require.NoError(t, os.RemoveAll(root))
			})
		}
	}
	t.Run("no damage", func(t *testing.T) {
		root := t.TempDir()
		openPuts(t, root, viewOptions(StoreTypeFile), guardPuts)
		list, rep := found(t, root, true)
		require.Empty(t, list)
		require.True(t, rep.Sound)

		root = t.TempDir() // a store in which nothing was put
		openPuts(t, root, both, 0)
		list, rep = found(t, root, true)
		require.Empty(t, list)
		require.Empty(t, rep.LostSides)

		root = t.TempDir() // retention has brought the log further than either side
		o := both
		s := openStore(t, root, guarded(o))
		putSome(t, s, 200)
		require.NoError(t, s.awaitViews(t.Context()))
		require.NoError(t, s.Close())
		require.NoError(t, os.Remove(NewLayout(root).CommitLogDir()+"/00000000000000000000"))
		list, rep = found(t, root, false)
		require.Empty(t, list)
		require.True(t, rep.Sound)
	})
}
