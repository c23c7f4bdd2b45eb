package file

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// perFile is how many units a file of these tests holds.
const perFile = 50

var testKey = cq.Key{Topic: "t", QueueID: 3}

func testUnit(slot int64) cq.Unit {
	return cq.Unit{PhyOffset: 10_000 + slot*200, Size: 150, TagsCode: slot - 7, StoreTimestampMs: cq.NoTimestamp}
}

// open opens dir/consumequeue and checks at the end that no mapping is left over.
func open(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(filepath.Join(dir, "consumequeue"), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.Zero(t, mmap.Mapped(), "mappings left over")
	})
	return s
}

// putUnits writes slots from on as RocketMQ lays them out, without any code of this package: files in full length, zeros
// behind the last unit and below the first one.
func putUnits(t *testing.T, dir string, k cq.Key, from int64, units ...cq.Unit) {
	t.Helper()
	qdir := filepath.Join(dir, "consumequeue", k.Topic, strconv.Itoa(int(k.QueueID)))
	require.NoError(t, os.MkdirAll(qdir, 0o755))
	for i, u := range units {
		slot := from + int64(i)
		path := filepath.Join(qdir, mappedfile.Name(slot/perFile*perFile*20))
		if st, err := os.Stat(path); err != nil || st.Size() == 0 {
			require.NoError(t, os.WriteFile(path, make([]byte, perFile*20), 0o644))
		}
		patch(t, path, slot%perFile*20, cq.AppendUnit(nil, u)...)
	}
}

func patch(t *testing.T, path string, at int64, b ...byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func unitsOf(from, to int64) []cq.Unit {
	var out []cq.Unit
	for slot := from; slot < to; slot++ {
		out = append(out, testUnit(slot))
	}
	return out
}

func repeated(u cq.Unit, n int) []cq.Unit {
	out := make([]cq.Unit, n)
	for i := range out {
		out[i] = u
	}
	return out
}

// path returns the path of the file of testKey that holds a slot.
func path(dir string, slot int64) string {
	return filepath.Join(dir, "consumequeue", testKey.Topic, strconv.Itoa(int(testKey.QueueID)), mappedfile.Name(slot/perFile*perFile*20))
}

func bounds(t *testing.T, s *Store, k cq.Key) cq.Bounds {
	t.Helper()
	q, ok := s.Queue(k)
	require.True(t, ok)
	b, err := q.Bounds()
	require.NoError(t, err)
	return b
}
