package file

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// TestUnitBytes pins every row of the drawing in codec.go.
func TestUnitBytes(t *testing.T) {
	for _, tc := range []struct {
		name, hex string
		u         cq.Unit
		valid     bool
		filler    bool
		free      bool
	}{
		{
			name: "unit", hex: "000000000000162e" + "00000109" + "000000000027a807", valid: true,
			u: cq.Unit{PhyOffset: 5678, Size: 265, TagsCode: 2598919}, // the hash of "TagA"
		},
		{
			name: "negative tags", hex: "0000000000000000" + "00000001" + "ffffffffffffffff", valid: true,
			u: cq.Unit{PhyOffset: 0, Size: 1, TagsCode: -1},
		},
		{
			name: "largest", hex: "7fffffffffffffff" + "7fffffff" + "7fffffffffffffff", valid: true,
			u: cq.Unit{PhyOffset: math.MaxInt64, Size: math.MaxInt32, TagsCode: math.MaxInt64},
		},
		{
			name: "pre-blank", hex: "0000000000000000" + "7fffffff" + "0000000000000000", valid: true, filler: true,
			u: cq.Unit{Size: cq.PreBlankSize},
		},
		{
			name: "synthetic", hex: "0000000000001267" + "00000001" + "0000000000000000", valid: true, filler: true,
			u: cq.Unit{PhyOffset: 4711, Size: 1},
		},
		{name: "free", hex: "0000000000000000" + "00000000" + "0000000000000000", free: true, u: cq.Unit{}},
		{name: "no size", hex: "0000000000001267" + "00000000" + "0000000000000000", u: cq.Unit{PhyOffset: 4711}},
		{name: "negative size", hex: "0000000000001267" + "ffffffff" + "0000000000000000", u: cq.Unit{PhyOffset: 4711, Size: -1}},
		{name: "negative position", hex: "ffffffffffffffff" + "00000064" + "0000000000000000", u: cq.Unit{PhyOffset: -1, Size: 100}},
		{name: "tags alone", hex: "0000000000000000" + "00000000" + "0000000000000001", u: cq.Unit{TagsCode: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.u.StoreTimestampMs = cq.NoTimestamp
			b, err := hex.DecodeString(tc.hex)
			require.NoError(t, err)
			require.Len(t, b, 20)
			require.Equal(t, b, cq.AppendUnit(nil, tc.u))
			require.Equal(t, tc.u, decodeUnit(b))
			require.Equal(t, [3]bool{tc.valid, tc.filler, tc.free}, [3]bool{valid(tc.u), filler(tc.u), free(tc.u)})
		})
	}
	require.Equal(t, 6_000_000, DefaultFileBytes)
	require.Equal(t, preBlank, decodeUnit(cq.AppendUnit(nil, preBlank)))
	require.Equal(t, synthetic(9), decodeUnit(cq.AppendUnit(nil, synthetic(9))))
}

func TestExtAddress(t *testing.T) {
	require.EqualValues(t, 0, extPosition(math.MinInt64))
	require.EqualValues(t, 20, extPosition(math.MinInt64+20))
	require.Equal(t, int64(9223372034707292159), extPosition(math.MinInt32-1)) // the largest one there can be
	require.True(t, cq.IsExtAddress(math.MinInt32-1))
	require.False(t, cq.IsExtAddress(math.MinInt32))
}

func TestQueueIDNames(t *testing.T) {
	for name, want := range map[string]int32{
		"0": 0, "7": 7, "2147483647": math.MaxInt32, "007": -1, "+1": -1, "-1": -1, "": -1,
		"x": -1, "1x": -1, "2147483648": -1, "٣": -1,
	} {
		id, ok := parseQueueID(name)
		require.Equal(t, want >= 0, ok, name)
		if ok {
			require.Equal(t, want, id)
		}
	}
}
