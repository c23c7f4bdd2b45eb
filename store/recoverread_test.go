package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRecoverReadsAllOfRocksDB: damage that opening the database does not meet is found by a recovery, whatever way the store was left, and mended from the log.
func TestRecoverReadsAllOfRocksDB(t *testing.T) {
	needRocksDB(t)
	for name, o := range map[string]Options{"rocks": viewOptions(StoreTypeRocksDB), "combine": combineOptions()} {
		t.Run(name, func(t *testing.T) {
			root := filledStore(t, o, 3000)
			damageUnits(t, root)
			rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o})
			require.NoError(t, err)
			require.Len(t, rep.Notes, 1)
			require.Contains(t, rep.Notes[0], "RocksDB of the consume queues was damaged and is built anew")
			require.Contains(t, rep.Notes[0], ".sst")
			require.True(t, rep.AbortCleared || !rep.Unclean)
			requireWhole(t, root, o)
			requireSound(t, root)
			rep, err = Recover(t.Context(), root, RecoverOptions{Options: &o})
			require.NoError(t, err)
			require.Empty(t, rep.Notes)
		})
	}
}
