package store

import (
	"encoding/binary"
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
