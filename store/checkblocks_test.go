package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// TestCheckNamesTheDamagedBlock: a block of RocksDB that is damaged is named with its file and where it begins there, in each finding.
func TestCheckNamesTheDamagedBlock(t *testing.T) {
	needRocksDB(t)
	o := viewOptions(StoreTypeRocksDB)
	root := filledStore(t, o, 3000)
	damageUnits(t, root)
	rep, err := Check(t.Context(), root, CheckOptions{Deep: true, Kind: cq.KindRocks})
	require.NoError(t, err)
	require.False(t, rep.Sound)
	named := 0
	for _, f := range rep.Findings {
		if f.Code != CheckBadQueue {
			continue
		}
		require.Contains(t, f.Text, "Corruption: ")
		require.Equal(t, ".sst", filepath.Ext(f.File), "%v", f)
		st, err := os.Stat(f.File)
		require.NoError(t, err)
		require.GreaterOrEqual(t, f.FileOffset, int64(0))
		require.Less(t, f.FileOffset, st.Size())
		require.Contains(t, f.String(), f.File+"+")
		named++
	}
	require.Positive(t, named)
}
