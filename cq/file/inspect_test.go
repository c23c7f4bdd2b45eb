package file

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// What the files of a queue hold: filler below the first unit, units, a hole, damage, and what was not used.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	putUnits(t, dir, testKey, 100, slices.Concat(repeated(preBlank, 12), unitsOf(112, 170))...)
	s := open(t, dir, Options{ReadOnly: true})
	list, err := s.Files(t.Context(), testKey)
	require.NoError(t, err)
	require.Equal(t, []FileInfo{
		{Path: path(dir, 100), FirstSlot: 100, Slots: 50, Units: 38, PreBlank: 12, FirstUnit: 112, LastUnit: 149, FirstHole: -1},
		{Path: path(dir, 150), FirstSlot: 150, Slots: 50, Units: 20, Free: 30, FirstUnit: 150, LastUnit: 169, FirstHole: -1},
	}, list)
	require.NoError(t, s.Close())

	patch(t, path(dir, 120), 20*20, make([]byte, 20)...)                  // slot 120
	patch(t, path(dir, 130), 30*20, slices.Repeat([]byte{0xff}, 20)...)   // slot 130
	patch(t, path(dir, 190), 40*20, cq.AppendUnit(nil, testUnit(190))...) // beyond the end
	s = open(t, dir, Options{ReadOnly: true})
	list, err = s.Files(t.Context(), testKey)
	require.NoError(t, err)
	require.Equal(t, [4]int64{36, 12, 2, 120}, [4]int64{list[0].Units, list[0].PreBlank, list[0].Holes, list[0].FirstHole})
	require.EqualValues(t, 50, list[1].Units+list[1].Holes+list[1].Free)
	for slot, want := range map[int64]string{100: "pre-blank", 112: "a unit", 120: "free", 130: "damage"} {
		u, ok, err := s.StoredUnit(testKey, slot)
		require.NoError(t, err)
		require.True(t, ok)
		fields := UnitFields(u)
		require.Contains(t, fields[1].Text, want)
		raw := cq.AppendUnit(nil, u)
		require.Equal(t, fields[0].Value, int64(binary.BigEndian.Uint64(raw[fields[0].Offset:])))
		require.Equal(t, fields[1].Value, int32(binary.BigEndian.Uint32(raw[fields[1].Offset:])))
		require.Equal(t, fields[2].Value, int64(binary.BigEndian.Uint64(raw[fields[2].Offset:])))
	}
	for _, slot := range []int64{-1, 0, 99, 200} {
		_, ok, err := s.StoredUnit(testKey, slot)
		require.NoError(t, err)
		require.False(t, ok, slot)
	}
	none, err := s.Files(t.Context(), cq.Key{Topic: "none"})
	require.NoError(t, err)
	require.Empty(t, none)
	require.Contains(t, UnitFields(synthetic(5))[1].Text, "synthetic")
}
