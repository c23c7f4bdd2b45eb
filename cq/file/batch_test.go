package file

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// batchBytes are units as RocketMQ lays them out, field by field.
func batchBytes(t testing.TB, units ...string) (b []byte) {
	for _, u := range units {
		one, err := hex.DecodeString(u)
		require.NoError(t, err)
		require.Len(t, one, 46)
		b = append(b, one...)
	}
	return b
}

const (
	//           phy                size       tagsCode           storeTime          msgBaseOffset      count  compacted  reserved
	batchUnit0 = "0000000000000064" + "00000190" + "000000000027a847" + "0000018bcfe56800" + "0000000000000007" + "0003" + "ffffffff" + "00000000"
	batchUnit1 = "00000000000001f4" + "00000064" + "0000000000000000" + "0000018bcfe56801" + "000000000000000a" + "0001" + "ffffffff" + "00000000"
	batchUnit2 = "0000000000000258" + "00000064" + "ffffffffffffffff" + "0000018bcfe56802" + "000000000000000b" + "7fff" + "ffffffff" + "00000000"
)

// batchFiles writes files of so many units each, from a unit number on.
func batchFiles(t testing.TB, dir string, perFile, first int, b []byte) {
	size := perFile * batchUnitBytes
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for from := first * batchUnitBytes; ; from += size {
		file := make([]byte, size)
		n := copy(file, b)
		b = b[n:]
		require.NoError(t, os.WriteFile(filepath.Join(dir, mappedfile.Name(int64(from))), file, 0o644))
		if len(b) == 0 {
			return
		}
	}
}

func TestBatchQueue(t *testing.T) {
	for _, first := range []int{0, 40} {
		root := t.TempDir()
		batchFiles(t, filepath.Join(root, "B", "3"), 2, first, batchBytes(t, batchUnit0, batchUnit1, batchUnit2))
		s := OpenBatch(root)
		keys := []cq.Key{}
		for k, err := range s.Queues() {
			require.NoError(t, err)
			keys = append(keys, k)
		}
		require.Equal(t, []cq.Key{{Topic: "B", QueueID: 3}}, keys)
		q, err := s.Queue(keys[0])
		require.NoError(t, err)
		from, next := q.Units()
		require.Equal(t, [2]int64{int64(first), int64(first) + 3}, [2]int64{from, next})
		least, most, err := q.Bounds()
		require.NoError(t, err)
		require.Equal(t, [2]int64{7, 11 + 32767}, [2]int64{least, most})
		u, err := q.Unit(from)
		require.NoError(t, err)
		require.Equal(t, BatchUnit{
			Unit:       cq.Unit{PhyOffset: 100, Size: 400, TagsCode: 0x27a847, StoreTimestampMs: 1700000000000},
			BaseOffset: 7, Count: 3, CompactedOffset: -1,
		}, u)
		for offset, want := range map[int64]int64{7: 0, 9: 0, 10: 1, 11: 2, 32777: 2} {
			n, _, err := q.Find(offset)
			require.NoError(t, err, "%d", offset)
			require.Equal(t, from+want, n, "%d", offset)
		}
		for _, offset := range []int64{-1, 6, 32778} {
			_, _, err := q.Find(offset)
			require.ErrorIs(t, err, cq.ErrOffsetOutOfRange, "%d", offset)
		}
		_, err = q.Unit(next)
		require.ErrorIs(t, err, cq.ErrOffsetOutOfRange)
		require.NoError(t, q.Close())
		require.NoError(t, q.Close())
	}
}

func TestBatchQueueWithNothing(t *testing.T) {
	root := t.TempDir()
	_, err := OpenBatch(root).Queue(cq.Key{Topic: "B"})
	require.ErrorIs(t, err, fs.ErrNotExist)
	for k, err := range OpenBatch(filepath.Join(root, "none")).Queues() {
		t.Fatal("a queue", k, err)
	}
	batchFiles(t, filepath.Join(root, "B", "0"), 2, 0, nil)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "B", "1"), 0o755))
	for id := range int32(2) {
		q, err := OpenBatch(root).Queue(cq.Key{Topic: "B", QueueID: id})
		require.NoError(t, err)
		least, next, err := q.Bounds()
		require.NoError(t, err)
		require.Zero(t, least+next)
		_, _, err = q.Find(0)
		require.ErrorIs(t, err, cq.ErrOffsetOutOfRange)
		require.NoError(t, q.Close())
	}
}

func TestBatchQueueDamage(t *testing.T) {
	whole := batchBytes(t, batchUnit0, batchUnit1, batchUnit2)
	for _, c := range []struct {
		name   string
		file   int64 // unit that the file begins with
		offset int64
		change func(b []byte)
	}{
		{"a hole in the last file", 2, 46, func(b []byte) { copy(b[3*46:], b[:46]); clear(b[2*46 : 3*46]) }},
		{"a byte where a unit could follow", 2, 46, func(b []byte) { b[3*46+45] = 1 }},
		{"no size", 2, 0, func(b []byte) { clear(b[2*46+8 : 2*46+12]) }},
		{"no messages", 2, 0, func(b []byte) { clear(b[2*46+36 : 2*46+38]) }},
		{"negative offset", 2, 0, func(b []byte) { b[2*46+28] = 0xff }},
		{"zeros in a file before the last", 0, 46, func(b []byte) { clear(b[46:92]) }},
		{"a message that no unit has", 2, 0, func(b []byte) { b[2*46+35] = 12 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			b := append(append([]byte{}, whole...), make([]byte, 46)...)
			c.change(b)
			dir := filepath.Join(root, "B", "0")
			batchFiles(t, dir, 2, 0, b)
			q, err := OpenBatch(root).Queue(cq.Key{Topic: "B"})
			if err == nil {
				_, _, err = q.Find(11)
				if err == nil {
					_, err = q.Unit(1)
				}
				require.NoError(t, q.Close())
			}
			var damage *cq.CorruptError
			require.ErrorAs(t, err, &damage)
			if c.name == "a hole in the last file" {
				c.offset = 46 + 7 // the first byte that is not zero
			}
			require.Equal(t, filepath.Join(dir, mappedfile.Name(c.file*46)), damage.File)
			require.Equal(t, c.offset, damage.Offset)
		})
	}
	root := t.TempDir()
	dir := filepath.Join(root, "B", "0")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, mappedfile.Name(0)), make([]byte, 100), 0o644))
	_, err := OpenBatch(root).Queue(cq.Key{Topic: "B"})
	require.ErrorIs(t, err, cq.ErrCorrupt)
}

// Whatever the files hold, a message is found in the unit that has it or not at all, and errors are those that are told.
func FuzzBatchQueue(f *testing.F) {
	f.Add(batchBytes(f, batchUnit0, batchUnit1, batchUnit2), int64(11))
	f.Add(batchBytes(f, batchUnit2, batchUnit0), int64(8))
	f.Fuzz(func(t *testing.T, b []byte, offset int64) {
		root := t.TempDir()
		batchFiles(t, filepath.Join(root, "B", "0"), 3, 0, b[:min(len(b), 20*batchUnitBytes)])
		q, err := OpenBatch(root).Queue(cq.Key{Topic: "B"})
		if err != nil {
			require.ErrorIs(t, err, cq.ErrCorrupt)
			return
		}
		n, u, err := q.Find(offset)
		if err == nil {
			first, next := q.Units()
			require.True(t, first <= n && n < next && u.BaseOffset <= offset && offset < u.End())
		} else {
			require.True(t, errors.Is(err, cq.ErrCorrupt) || errors.Is(err, cq.ErrOffsetOutOfRange), "%v", err)
		}
		require.NoError(t, q.Close())
	})
}
