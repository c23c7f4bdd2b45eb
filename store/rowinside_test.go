//go:build cgo

package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
)

// A migration leaves the checkpoint row one byte before the end of the last record, for RocketMQ 5.5.0, which passes over a record that begins at the row (F1). That byte is no
// hole in the log, and the queues are not behind by it: not while the store is closed, not when it is opened, and not when another broker has put more in between.
func TestF1RowOneByteBeforeTheEndOfARecord(t *testing.T) {
	o := viewOptions(StoreTypeRocksDB)
	root := t.TempDir()
	s := openStore(t, root, o)
	putSome(t, s, 20)
	end := s.Positions().Wrote
	require.NoError(t, s.Close())

	step := func(putMore bool) {
		dir, _, _, err := NewLayout(root).FindRocks()
		require.NoError(t, err)
		q, err := rocks.Open(dir, rocks.DefaultOptions())
		require.NoError(t, err)
		require.NoError(t, q.TruncateDirty(t.Context(), end-1))
		require.Equal(t, end-1, q.DispatchFrom())
		require.NoError(t, q.Close())
		if putMore {
			files := o
			files.StoreType = StoreTypeFile
			_, err := Recover(t.Context(), root, RecoverOptions{Options: &files, Kind: cq.KindFile, Create: true})
			require.NoError(t, err)
			s := openStore(t, root, files)
			putSome(t, s, 5)
			awaitDispatch(t, s)
			require.NoError(t, s.Close())
		}
		st, err := ReadStatus(root, o)
		require.NoError(t, err)
		for _, v := range st.Views {
			if v.Name == "rocks queues" {
				require.Equal(t, end, v.Dispatched)
				require.Equal(t, st.EndPhyOffset-end, v.BehindBytes)
			}
		}
		s := openStore(t, root, o)
		putSome(t, s, 1)
		awaitDispatch(t, s)
		for name, m := range s.Watermarks().Views {
			require.Zero(t, m.HoleBytes, name)
		}
		end = s.Positions().Wrote
		require.NoError(t, s.Close())
		requireWhole(t, root, o)
		rep, err := Check(t.Context(), root, CheckOptions{Deep: true, Kind: cq.KindRocks})
		require.NoError(t, err)
		require.True(t, rep.Sound, "%v", rep.Findings)
	}
	step(false)
	step(true)
}
