package index

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// The header's fields are those of the file, and every entry is on the chain of its slot.
func TestInspect(t *testing.T) {
	x := open(t, smallFiles(newFS()))
	require.NoError(t, x.Append(traffic(1, 900, 0, startMs)))
	files := x.Files()
	require.Greater(t, len(files), 1)
	for i := range files {
		f, img := &files[i], x.files[i].image
		fields := f.Fields()
		at := int64(0)
		for _, fl := range fields {
			require.Equal(t, at, fl.Offset)
			switch v := fl.Value.(type) {
			case int64:
				require.Equal(t, v, int64(binary.BigEndian.Uint64(img.b[at:])), fl.Name)
			case int32:
				require.Equal(t, v, int32(binary.BigEndian.Uint32(img.b[at:])), fl.Name)
			}
			at += fl.Width
		}
		require.EqualValues(t, headerBytes, at)
		seen := map[int32]bool{}
		slots, _ := x.Geometry()
		for s := range slots {
			links, err := x.Chain(f.Path, s, 1000)
			require.NoError(t, err)
			for _, l := range links {
				require.Equal(t, s, l.Hash%slots)
				require.False(t, seen[l.Index])
				seen[l.Index] = true
			}
		}
		require.Len(t, seen, int(f.Entries))
		all, err := x.List(f.Path, 1, 1<<20)
		require.NoError(t, err)
		require.Len(t, all, int(f.Entries))
		require.Equal(t, f.BeginMs, all[0].StoreMs)
		require.Equal(t, f.EndPhyOffset, all[len(all)-1].PhyOffset)
		some, err := x.List(f.Path, 5, 2)
		require.NoError(t, err)
		require.Equal(t, all[4:6], some)
	}
	f := &files[0]
	for _, err := range []error{
		func() error { _, err := x.Chain(f.Path, -1, 1); return err }(),
		func() error { _, err := x.Chain(f.Path, 1500, 1); return err }(),
		func() error { _, err := x.List(f.Path, 0, 1); return err }(),
		func() error { _, err := x.List(f.Path, f.Entries+1, 1); return err }(),
		func() error { _, err := x.List(f.Path+"x", 1, 1); return err }(),
	} {
		require.ErrorContains(t, err, f.Path)
	}
	require.NoError(t, x.Close())
}

// TestI3ChainShown: a chain that leads back is shown up to there.
func TestI3ChainShown(t *testing.T) {
	x := open(t, smallFiles(newFS()))
	require.NoError(t, x.Append(traffic(1, 50, 0, startMs)))
	f := x.files[0]
	e := f.entry(20)
	slot := e.hash % f.slots
	before, err := x.Chain(f.path, slot, 100)
	require.NoError(t, err)
	e.prev = 20
	f.setEntry(20, e)
	links, err := x.Chain(f.path, slot, 100)
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "leads from entry 20 to 20")
	require.NotEmpty(t, links)
	require.LessOrEqual(t, len(links), len(before))
	require.EqualValues(t, 20, links[len(links)-1].Index)
	require.NoError(t, x.Close())
}
