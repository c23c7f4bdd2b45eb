package store

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCheckIndex: headers, counts, links of chains, and that entries lead to records which have the key.
func TestCheckIndex(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	const slots, header, entry = 100, 40, 20
	at := func(i int) int { return header + 4*slots + entry*i }
	for name, c := range map[string]struct {
		harm func(b []byte) []byte
		code CheckCode
	}{
		"sound":        {func(b []byte) []byte { return b }, ""},
		"length":       {func(b []byte) []byte { return b[:len(b)-20] }, CheckIndexFile},
		"count":        {func(b []byte) []byte { b[39]--; return b }, CheckIndexFile},
		"slots in use": {func(b []byte) []byte { b[35]++; return b }, CheckIndexFile},
		"link":         {func(b []byte) []byte { binary.BigEndian.PutUint32(b[at(30)+16:], 30); return b }, CheckIndexFile},
		"other record": {func(b []byte) []byte { copy(b[at(30)+4:], b[at(20)+4:at(20)+12]); return b }, CheckIndexFile},
		"between":      {func(b []byte) []byte { b[at(30)+11]++; return b }, CheckIndexEntry},
		"hash in a slot": {func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[at(30):], binary.BigEndian.Uint32(b[at(30):])+slots)
			return b
		}, CheckIndexEntry},
		"time": {func(b []byte) []byte { b[at(30)+14]++; return b }, CheckIndexEntry},
	} {
		t.Run(name, func(t *testing.T) {
			root := filledStore(t, o, 300)
			dir := NewLayout(root).IndexDir()
			files, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Greater(t, len(files), 1)
			path := filepath.Join(dir, files[len(files)-2].Name())
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, c.harm(b), 0o644))
			before := listTree(root)
			rep, err := Check(t.Context(), root, CheckOptions{Deep: true})
			require.NoError(t, err)
			require.Equal(t, before, listTree(root))
			if c.code == "" {
				require.True(t, rep.Sound, "%v", rep.Findings)
				return
			}
			require.False(t, rep.Sound)
			require.Contains(t, rep.Findings[0].String(), path)
			codes := map[CheckCode]bool{}
			for _, f := range rep.Findings {
				codes[f.Code] = true
			}
			require.True(t, codes[c.code], "%v", rep.Findings)
		})
	}
}

// TestCheckIndexSlots: entries that stand in the chain of another slot, or in none, are counted and told, and a rebuild of the index brings them back.
func TestCheckIndexSlots(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	const header = 40
	chain := func(b []byte, slot int) (n int32) {
		slots, entries := header, header+4*o.MaxHashSlotNum
		for at := binary.BigEndian.Uint32(b[slots+4*slot:]); at > 0; at = binary.BigEndian.Uint32(b[entries+20*int(at)+16:]) {
			n++
		}
		return n
	}
	root := filledStore(t, o, 300)
	dir := NewLayout(root).IndexDir()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	path := filepath.Join(dir, files[0].Name())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var lost []int // slots with entries
	for slot := 0; slot < o.MaxHashSlotNum && len(lost) < 2; slot++ {
		if chain(b, slot) > 0 {
			lost = append(lost, slot)
		}
	}
	require.Len(t, lost, 2)
	gone, moved := chain(b, lost[0]), chain(b, lost[1])
	copy(b[header+4*lost[0]:], b[header+4*lost[1]:][:4]) // the chain of the one hangs in the slot of the other, and in its own; that of the other in none
	require.NoError(t, os.WriteFile(path, b, 0o600))
	for _, deep := range []bool{false, true} {
		rep, err := Check(t.Context(), root, CheckOptions{Deep: deep})
		require.NoError(t, err)
		require.False(t, rep.Sound)
		told := 0
		for _, f := range rep.Findings {
			if f.Code == CheckIndexSlot {
				told++
				require.Contains(t, f.Text, fmt.Sprintf("%d entries are not in the chain of the slot of their hash, so no query finds them; %d are in the chains of other slots", gone, moved))
				require.Equal(t, path, f.File)
				require.EqualValues(t, header+4*lost[0], f.FileOffset)
			}
		}
		require.Equal(t, 1, told)
	}
	_, err = Rebuild(t.Context(), root, RebuildOptions{Index: true, Options: &o, Given: []string{}})
	require.NoError(t, err)
	requireSound(t, root)
}
