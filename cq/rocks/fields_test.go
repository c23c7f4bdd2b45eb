package rocks

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

func TestUnitFields(t *testing.T) {
	u := cq.Unit{PhyOffset: 1 << 40, Size: 200, TagsCode: -5, StoreTimestampMs: 1_700_000_000_000}
	raw := appendUnit(nil, u)
	at := int64(0)
	for _, f := range UnitFields(u) {
		require.Equal(t, at, f.Offset, f.Name)
		if f.Width == 8 {
			require.Equal(t, f.Value, int64(binary.BigEndian.Uint64(raw[at:])), f.Name)
		} else {
			require.Equal(t, f.Value, int32(binary.BigEndian.Uint32(raw[at:])), f.Name)
		}
		at += f.Width
	}
	require.EqualValues(t, unitBytes, at)
}
