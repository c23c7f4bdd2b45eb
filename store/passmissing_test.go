package store

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/tests/golden"
)

// TestReadersPassMissingLogFiles: what only reads a store reads what is left of a log that lacks files in its middle, names them, and changes nothing. What writes refuses it as before.
func TestReadersPassMissingLogFiles(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := t.TempDir()
	s := openStore(t, root, o)
	for s.Positions().Wrote < 6*o.MappedFileSizeCommitLog {
		putKeyed(t, s, "T", "", "k", "")
	}
	awaitIndex(t, s)
	end := s.Positions().Wrote
	require.NoError(t, s.Close())
	places := placesOf(t, root, o, cq.Key{Topic: "T"})
	dir := NewLayout(root).CommitLogDir()
	size := o.MappedFileSizeCommitLog
	require.NoError(t, os.Remove(filepath.Join(dir, mappedfile.Name(size))))
	require.NoError(t, os.Truncate(filepath.Join(dir, mappedfile.Name(3*size)), 0)) // of no length, and not the last
	want := []commitlog.MissingFile{
		{Path: filepath.Join(dir, mappedfile.Name(size)), From: size, To: 2 * size},
		{Path: filepath.Join(dir, mappedfile.Name(3*size)), From: 3 * size, To: 4 * size},
	}
	gone := func(phy int64) bool { return phy/size == 1 || phy/size == 3 }
	kept := 0
	for _, p := range places {
		if !gone(p.phy) {
			kept++
		}
	}
	require.Greater(t, kept, 10)
	before := golden.TreeSums(t, root)

	lines, rep, problems, err := dump(t, root, allQueues)
	require.NoError(t, err)
	require.Equal(t, DumpReport{Queues: 1, Messages: int64(kept), Bad: int64(len(places) - kept)}, rep)
	require.EqualValues(t, kept, lines[0].Readable)
	for i, l := range lines[1:] {
		require.Equal(t, gone(places[i].phy), l.T == "bad", "slot %d", i)
	}
	var missing *commitlog.MissingFileError
	require.ErrorAs(t, problems[0].err, &missing)
	require.Equal(t, want[0], missing.MissingFile)
	require.ErrorIs(t, problems[0].err, commitlog.ErrCorrupt)

	v, err := OpenView(root, ViewOptions{Kind: cq.KindFile})
	require.NoError(t, err)
	require.Equal(t, want, v.Log.Missing())
	logEnd, err := v.LogEnd()
	require.NoError(t, err)
	require.Equal(t, end, logEnd)
	var r message.Record
	for _, p := range places {
		require.Equal(t, gone(p.phy), v.Log.Lacks(p.phy))
		release, err := v.Log.Read(p.phy, int32(p.size), true, &r)
		if gone(p.phy) {
			require.ErrorAs(t, err, &missing)
			continue
		}
		require.NoError(t, err)
		release()
	}
	scanned := 0
	scan := v.Log.Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
	for scan.Next() {
		scanned++
	}
	require.NoError(t, scan.Err())
	scan.Close()
	require.Equal(t, kept, scanned)
	x, err := v.OpenIndex()
	require.NoError(t, err)
	var res QueryResult
	req := QueryRequest{Topic: "T", Key: "k", EndMs: math.MaxInt64, BelowPhyOffset: 4 * size, Explain: new(QueryExplanation)}
	require.NoError(t, v.Query(x, req, &res))
	require.NotEmpty(t, res.Messages)
	require.NotEmpty(t, req.Explain.Rejected)
	require.Contains(t, req.Explain.Rejected[0].Why, mappedfile.Name(3*size)+" is missing (physical offsets 49152 to 65536)")
	res.Release()
	require.NoError(t, x.Close())
	require.NoError(t, v.Close())

	st, err := ReadStatus(root, o)
	require.NoError(t, err)
	require.Equal(t, want, st.MissingFiles)
	require.Equal(t, end, st.EndPhyOffset)

	for _, deep := range []bool{false, true} {
		checked, err := Check(t.Context(), root, CheckOptions{Deep: deep})
		require.NoError(t, err)
		require.False(t, checked.Sound)
		require.Equal(t, end, checked.LogEnd)
		require.Equal(t, int64(1), checked.Queues)
		holes := map[int64]int64{}
		for _, f := range checked.Findings {
			if f.Code == CheckLogRun {
				require.Equal(t, CheckError, f.Severity)
				holes[f.PhyOffset] = f.EndPhyOffset
			}
		}
		require.Equal(t, size*2, holes[size])
		require.Contains(t, holes, 3*size)
		if deep {
			require.EqualValues(t, kept, checked.Records)
		}
	}
	require.Equal(t, before, golden.TreeSums(t, root))

	_, err = Open(root, o)
	require.ErrorIs(t, err, commitlog.ErrLayout)
	_, err = Recover(t.Context(), root, RecoverOptions{Options: &o})
	require.ErrorIs(t, err, commitlog.ErrCorrupt)
}
