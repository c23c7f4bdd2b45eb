package file

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/logtest"
)

func sortedKeys(s *Store) []cq.Key {
	keys, err := cq.SortedKeys(s)
	if err != nil {
		panic(err)
	}
	return keys
}

func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "consumequeue")
	topics := []string{"CURRENT", "LOCK", "%RETRY%g", "%LMQ%a|b", "topic_1-x", "000012.sst", "日本", strings.Repeat("x", 255)}
	var want []cq.Key
	for _, topic := range topics {
		k := cq.Key{Topic: topic, QueueID: 2}
		putUnits(t, dir, k, 0, unitsOf(0, 2)...)
		want = append(want, k)
	}
	slices.SortFunc(want, cq.Key.Compare)
	// What lies beside queues: RocksDB's files, directories that are no queue, queues that never had a slot.
	for _, name := range []string{"IDENTITY", "000004.log", "MANIFEST-000005", "OPTIONS-000007", "LOCK/3", "LOCK/plain"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte("not a topic"), 0o644))
	}
	for _, name := range []string{"empty-topic", "LOCK/x", "LOCK/007", "LOCK/-1", "LOCK/5"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, name), 0o755))
	}
	putUnits(t, dir, cq.Key{Topic: "zeros", QueueID: 0}, 0, cq.Unit{})
	moved := filepath.Join(dir, "other-disk")
	require.NoError(t, os.Rename(filepath.Join(root, "topic_1-x"), moved))
	require.NoError(t, os.Symlink(moved, filepath.Join(root, "topic_1-x")))

	var log logtest.Log
	s := open(t, dir, Options{ReadOnly: true, Logger: log.Logger()})
	require.EqualValues(t, 1000, s.FileSizeBytes())
	require.Equal(t, want, sortedKeys(s))
	for _, k := range want {
		require.EqualValues(t, 2, bounds(t, s, k).Max)
	}
	for _, foreign := range []string{"LOCK/x", "LOCK/007", "LOCK/-1"} {
		require.Contains(t, log.String(), filepath.Join(root, foreign))
	}
	require.NotContains(t, log.String(), "sst")
	for _, k := range []cq.Key{
		{Topic: "LOCK", QueueID: 5},
		{Topic: "LOCK", QueueID: 3},
		{Topic: "LOCK", QueueID: 7},
		{Topic: "zeros"},
		{Topic: "IDENTITY"},
		{Topic: "LOCK/2"},
		{Topic: "."},
		{Topic: ".."},
		{Topic: "a\x00b"},
		{Topic: "LOCK", QueueID: -1},
	} {
		_, ok := s.Queue(k)
		require.False(t, ok, "queue %q", k)
	}
}

func TestFileSize(t *testing.T) {
	put := func(t *testing.T, dir, topic string, bytes int) {
		qdir := filepath.Join(dir, "consumequeue", topic, "0")
		require.NoError(t, os.MkdirAll(qdir, 0o755))
		b := append(cq.AppendUnit(nil, testUnit(0)), make([]byte, bytes-unitBytes)...)
		require.NoError(t, os.WriteFile(filepath.Join(qdir, "00000000000000000000"), b, 0o644))
	}
	t.Run("nothing there", func(t *testing.T) {
		require.EqualValues(t, 6_000_000, open(t, t.TempDir(), Options{}).FileSizeBytes())
	})
	t.Run("given", func(t *testing.T) {
		require.EqualValues(t, 40, open(t, t.TempDir(), Options{FileSizeBytes: 40}).FileSizeBytes())
	})
	topics := []string{"a", "b", "c", "d"}
	for _, cut := range topics { // each of them, as nobody knows which one is listed first
		t.Run("one cut file is outvoted: "+cut, func(t *testing.T) {
			dir := t.TempDir()
			for _, topic := range topics {
				put(t, dir, topic, 2000)
			}
			require.NoError(t, os.Truncate(filepath.Join(dir, "consumequeue", cut, "0", "00000000000000000000"), 1980))
			s := open(t, dir, Options{})
			require.EqualValues(t, 2000, s.FileSizeBytes())
			q, ok := s.Queue(cq.Key{Topic: cut})
			require.True(t, ok)
			_, err := q.Bounds()
			require.ErrorContains(t, err, "got 1980 bytes, want 2000 bytes")
			require.Contains(t, sortedKeys(s), cq.Key{Topic: cut}, "what cannot be read is not hidden")
		})
	}
	t.Run("contradicts what is given", func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir, "a", 2000)
		s := open(t, dir, Options{FileSizeBytes: 1000})
		q, _ := s.Queue(cq.Key{Topic: "a"})
		_, err := q.Bounds()
		require.ErrorIs(t, err, cq.ErrCorrupt)
		require.ErrorContains(t, err, "got 2000 bytes, want 1000 bytes")
		require.ErrorIs(t, s.Append(t.Context(), []cq.Entry{{Key: cq.Key{Topic: "a"}, QueueOffset: 1, Unit: testUnit(1)}}), cq.ErrCorrupt)
		require.NoError(t, s.Append(t.Context(), []cq.Entry{{Key: testKey, Unit: testUnit(0)}}), "no reason to stop the others")
	})
	t.Run("no multiple of a unit", func(t *testing.T) {
		_, err := Open(t.TempDir(), Options{FileSizeBytes: 50})
		require.ErrorContains(t, err, "50")
	})
	t.Run("no directory", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "plain")
		require.NoError(t, os.WriteFile(name, nil, 0o644))
		_, err := Open(name, Options{})
		require.ErrorContains(t, err, name)
	})
}

func TestBoundsOfFillers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		from   int64
		units  []cq.Unit
		minPhy int64
		want   cq.Bounds
		gone   bool
	}{
		{name: "zeros at slot 0 never had a slot", units: repeated(cq.Unit{}, 3), gone: true},
		{
			name: "zeros in a later file tell the max", from: 100, units: repeated(cq.Unit{}, 3),
			want: cq.Bounds{Min: 100, Max: 100, MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1},
		},
		{
			name: "nothing but pre-blank", units: repeated(preBlank, 7),
			want: cq.Bounds{Min: 7, Max: 7, MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1},
		},
		{
			name: "a whole file of pre-blank", units: repeated(preBlank, 50),
			want: cq.Bounds{Min: 50, Max: 50, MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1},
		},
		{
			name: "pre-blank below units, log from 0", units: append(repeated(preBlank, 7), testUnit(7), testUnit(8)),
			want: cq.Bounds{Min: 7, Max: 9, MinPhyOffset: testUnit(7).PhyOffset, MaxPhyOffset: testUnit(8).End(), LastPhyOffset: testUnit(8).PhyOffset},
		},
		{
			name: "pre-blank below expired units", units: append(repeated(preBlank, 7), testUnit(7), testUnit(8)), minPhy: 1 << 40,
			want: cq.Bounds{Min: 9, Max: 9, MinPhyOffset: -1, MaxPhyOffset: testUnit(8).End(), LastPhyOffset: testUnit(8).PhyOffset},
		},
		{
			name: "synthetic", units: append(repeated(preBlank, 7), synthetic(0)), minPhy: 5,
			want: cq.Bounds{Min: 8, Max: 8, MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1},
		},
		{
			name: "synthetic that lies in the log's range", units: append(repeated(preBlank, 7), synthetic(900)), minPhy: 5,
			want: cq.Bounds{Min: 8, Max: 8, MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1},
		},
		{
			name: "synthetic below units", units: append(repeated(preBlank, 7), synthetic(0), testUnit(8)),
			want: cq.Bounds{Min: 8, Max: 9, MinPhyOffset: testUnit(8).PhyOffset, MaxPhyOffset: testUnit(8).End(), LastPhyOffset: testUnit(8).PhyOffset},
		},
		{
			name: "expired units, pre-blank, units", units: slices.Concat(unitsOf(0, 60), repeated(preBlank, 60), unitsOf(120, 130)),
			minPhy: testUnit(90).PhyOffset,
			want:   cq.Bounds{Min: 120, Max: 130, MinPhyOffset: testUnit(120).PhyOffset, MaxPhyOffset: testUnit(129).End(), LastPhyOffset: testUnit(129).PhyOffset},
		},
		{
			name: "first files deleted", from: 150, units: unitsOf(150, 310), minPhy: testUnit(222).PhyOffset,
			want: cq.Bounds{Min: 222, Max: 310, MinPhyOffset: testUnit(222).PhyOffset, MaxPhyOffset: testUnit(309).End(), LastPhyOffset: testUnit(309).PhyOffset},
		},
		{
			name: "the last file is exactly full", units: unitsOf(0, 100),
			want: cq.Bounds{Max: 100, MinPhyOffset: testUnit(0).PhyOffset, MaxPhyOffset: testUnit(99).End(), LastPhyOffset: testUnit(99).PhyOffset},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			putUnits(t, dir, testKey, tc.from, tc.units...)
			s := open(t, dir, Options{MinPhyOffset: tc.minPhy, FileSizeBytes: perFile * 20})
			if tc.gone {
				_, ok := s.Queue(testKey)
				require.False(t, ok)
				require.Empty(t, sortedKeys(s))
				return
			}
			require.Equal(t, tc.want, bounds(t, s, testKey))
			require.Equal(t, tc.want.MaxPhyOffset, s.DispatchFrom())
			require.NoError(t, s.Check(t.Context(), testKey))
			// Whatever keeps the max, the queue goes on there.
			u := testUnit(tc.want.Max)
			u.PhyOffset += tc.minPhy
			require.NoError(t, s.Append(t.Context(), []cq.Entry{{Key: testKey, QueueOffset: tc.want.Max, Unit: u}}))
			b := bounds(t, s, testKey)
			require.Equal(t, tc.want.Max+1, b.Max)
			require.NoError(t, s.Close())
			require.Equal(t, b, bounds(t, open(t, dir, Options{MinPhyOffset: tc.minPhy}), testKey))
		})
	}
}

func extUnit(size int16, tags int64, bitmap ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(size))
	b = binary.BigEndian.AppendUint64(b, uint64(tags))
	b = binary.BigEndian.AppendUint64(b, 1_700_000_000_000)
	b = binary.BigEndian.AppendUint16(b, uint16(len(bitmap)))
	return append(b, bitmap...)
}

func TestExtensionUnits(t *testing.T) {
	const extFile = 400
	dir := t.TempDir()
	extDir := filepath.Join(dir, "consumequeue_ext", "t", "3")
	require.NoError(t, os.MkdirAll(extDir, 0o755))
	content := make([]byte, 2*extFile)
	copy(content, extUnit(28, 2598919, 1, 2, 3, 4, 5, 6, 7, 8))
	copy(content[28:], extUnit(20, -5))
	copy(content[100:], extUnit(19, 6)) // shorter than its own header
	copy(content[395:], extUnit(-1, 0)) // end marker; the unit would pass the end of the file
	copy(content[extFile:], extUnit(20, 646394))
	copy(content[extFile+370:], extUnit(40, 7)) // passes the end
	require.NoError(t, os.WriteFile(filepath.Join(extDir, "00000000000000000000"), content[:extFile], 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(extDir, "00000000000000000400"), content[extFile:], 0o644))

	cases := []struct{ position, want int64 }{ // want 0: the address stays
		{0, 2598919}, {28, -5}, {extFile, 646394}, {48, 0}, {100, 0}, {395, 0}, {extFile + 370, 0}, {2 * extFile, 0}, {math.MaxInt64 / 2, 0},
	}
	var units, want []cq.Unit
	for i, c := range cases {
		u := testUnit(int64(i))
		u.TagsCode = c.position + math.MinInt64
		units = append(units, u)
		if c.want != 0 {
			u.TagsCode = c.want
		}
		want = append(want, u)
	}
	putUnits(t, dir, testKey, 0, units...)
	other := cq.Key{Topic: "t", QueueID: 4} // the same addresses, no extension files
	putUnits(t, dir, other, 0, units...)
	s := open(t, dir, Options{})
	read := func(k cq.Key) []cq.Unit {
		q, ok := s.Queue(k)
		require.True(t, ok)
		buf := make([]cq.Unit, 20)
		n, err := q.Read(0, buf)
		require.NoError(t, err)
		return buf[:n]
	}
	require.Equal(t, want, read(testKey))
	require.Equal(t, units, read(other))
	for _, c := range cases {
		address := c.position + math.MinInt64
		require.Equal(t, c.position < 2*extFile, cq.IsExtLost(s, testKey, address), c.position)
		require.False(t, cq.IsExtLost(s, other, address), c.position)
	}
	require.False(t, cq.IsExtLost(s, testKey, math.MinInt32-1))
	// A replay brings the plain tags code: a repeat, not a conflict.
	require.NoError(t, s.Append(t.Context(), []cq.Entry{{Key: testKey, QueueOffset: 1, Unit: want[1]}}))
	bad := want[1]
	bad.TagsCode++
	require.ErrorIs(t, s.Append(t.Context(), []cq.Entry{{Key: testKey, QueueOffset: 1, Unit: bad}}), cq.ErrDiverged)

	require.NoError(t, s.DropQueue(t.Context(), testKey))
	require.NoDirExists(t, extDir)
	require.Equal(t, units, read(other))
}
