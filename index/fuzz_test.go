package index

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/tests/golden"
)

// FuzzFile opens files of RocketMQ's with any damage as an index, in every way, queries and goes on appending. Nothing panics or loops; what
// is answered lies in the file; after an unclean stop what is left agrees with itself, and a query finds what was appended.
//
// The damage is four bytes a piece: where, from the start of the file or, if odd, of its entries, and two bytes to put there; whatever
// is left over of it is how much shorter the file is.
func FuzzFile(f *testing.F) {
	l := layout{100, 400}
	o := Options{HashSlots: l.slots, MaxEntries: l.entries}
	var bases [][]byte
	for i, name := range []string{"file-roll", "combine-upgrade"} {
		paths, err := filepath.Glob(filepath.Join(golden.Unpack(f, name), "index", "*"))
		require.NoError(f, err)
		b, err := os.ReadFile(paths[len(paths)-1-i]) // one that is not full, and one that is
		require.NoError(f, err)
		bases = append(bases, b)
	}
	for mode := range uint8(8) {
		f.Add([]byte{}, "k1", mode, uint32(7))
		f.Add([]byte{0, 18, 1, 1}, "k1", mode, uint32(7))                           // indexCount
		f.Add([]byte{0, 13, 0, 3, 0, 13, 0, 2, 0, 41, 0, 9}, "k1", mode, uint32(7)) // entries
		f.Add([]byte{0}, "k1", mode, uint32(7))
	}
	f.Fuzz(func(t *testing.T, damage []byte, key string, mode uint8, word uint32) {
		b := append([]byte(nil), bases[mode>>2&1]...)
		for ; len(damage) >= 4; damage = damage[4:] {
			at := int64(damage[0])<<8 | int64(damage[1])
			if at%2 == 1 {
				at += l.entryAt(0)
			}
			copy(b[min(at, int64(len(b))):], damage[2:4])
		}
		b = b[:len(b)-len(damage)]
		fsys := faultfs.New(faultfs.Options{})
		fsys.MkdirAll(testDir)
		patch(t, fsys, firstName, 0, b...)
		patch(t, fsys, secondName, 0, b...)
		o := o
		o.FS, o.ReadOnly, o.Unclean = fsys, mode&1 != 0, mode&2 != 0
		x, err := Open(testDir, o)
		require.NoError(t, err)
		query := func(key string, q Query) Answer {
			q.Topic, q.Key = testTopic, key
			a, err := x.Query(q, func(phy int64) bool { require.GreaterOrEqual(t, phy, int64(0)); return len(key)%2 == 0 })
			require.NoError(t, err)
			require.LessOrEqual(t, a.Steps, int64(2*400))
			return a
		}
		query(key, Query{Max: 64, EndMs: maxTimestampMs})
		query(key, Query{Max: 3, BeginMs: int64(word) << 9, EndMs: int64(word) << 10, Type: TypeTag})
		x.Verify()
		if o.ReadOnly {
			require.NoError(t, x.Close())
			return
		}
		if o.Unclean {
			require.Empty(t, x.Verify())
		}
		if phy := x.DispatchFrom() + 1; phy > 0 {
			require.NoError(t, x.Append([]message.DispatchRequest{keyed(phy, startMs, "u2", key, "t")}))
			require.Equal(t, []int64{phy}, query("u2", Query{Max: 1, EndMs: maxTimestampMs}).PhyOffsets)
			if err := x.TruncateDirty(phy / 2); err != nil {
				require.ErrorIs(t, err, ErrCorrupt) // only now was all of it looked at
			}
		}
		if err := x.Close(); err != nil {
			require.ErrorIs(t, err, ErrFailed)
		}
		require.Zero(t, fsys.Mappings())
	})
}
