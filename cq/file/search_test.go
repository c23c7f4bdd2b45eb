package file

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// timeOf is the store time of the record that testUnit points to: ten units share one.
func timeOf(u cq.Unit) (int64, error) { return 1000 + (u.PhyOffset-10_000)/200/10, nil }

// TestOffsetByTime searches a queue of several files that begins with filler, of which the beginning has expired and in which units are missing.
func TestOffsetByTime(t *testing.T) {
	const first, last = 60, 260
	dir := t.TempDir()
	units := make([]cq.Unit, 0, 300)
	for slot := int64(perFile); slot < last; slot++ {
		u := testUnit(slot)
		if slot < first {
			u = preBlank
		}
		units = append(units, u)
	}
	putUnits(t, dir, testKey, perFile, units...)
	minPhy := testUnit(73).PhyOffset - 1 // between two records
	s := open(t, dir, Options{ReadOnly: true, MinPhyOffset: minPhy})
	q, ok := s.Queue(testKey)
	require.True(t, ok)
	b, err := q.Bounds()
	require.NoError(t, err)
	require.EqualValues(t, 73, b.Min)
	require.EqualValues(t, last, b.Max)
	for ms := int64(990); ms < 1040; ms++ {
		lower, err := cq.OffsetByTime(q, ms, cq.BoundaryLower, timeOf)
		require.NoError(t, err)
		require.Equal(t, min(max((ms-1000)*10, b.Min), b.Max), lower, "LOWER at %d", ms)
		upper, err := cq.OffsetByTime(q, ms, cq.BoundaryUpper, timeOf)
		require.NoError(t, err)
		require.Equal(t, min(max((ms-1000)*10+9, b.Min), b.Max-1), upper, "UPPER at %d", ms)
	}
	_, err = cq.OffsetByTime(q, 1000, cq.BoundaryLower, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

// TestFRD02RunOverFiles: of many units of one time the first and the last are found, in whichever files they are.
func TestFRD02RunOverFiles(t *testing.T) {
	dir := t.TempDir()
	putUnits(t, dir, testKey, 0, unitsOf(0, 8*perFile)...)
	s := open(t, dir, Options{ReadOnly: true})
	q, ok := s.Queue(testKey)
	require.True(t, ok)
	for _, run := range []struct{ from, to int64 }{
		{perFile - 1, perFile + 1}, {perFile, 2*perFile - 1}, {perFile - 3, 4*perFile + 7}, {0, 3 * perFile}, {2*perFile + 1, 8*perFile - 1}, {0, 8*perFile - 1},
	} {
		asked := 0
		storeTime := func(u cq.Unit) (int64, error) {
			asked++
			switch slot := (u.PhyOffset - testUnit(0).PhyOffset) / (testUnit(1).PhyOffset - testUnit(0).PhyOffset); {
			case slot < run.from:
				return 1000, nil
			case slot > run.to:
				return 3000, nil
			}
			return 2000, nil
		}
		lower, err := cq.OffsetByTime(q, 2000, cq.BoundaryLower, storeTime)
		require.NoError(t, err)
		require.Equal(t, run.from, lower)
		upper, err := cq.OffsetByTime(q, 2000, cq.BoundaryUpper, storeTime)
		require.NoError(t, err)
		require.Equal(t, run.to, upper)
		require.LessOrEqual(t, asked, 20)
	}
}

// TestF24HolesInFiles: units that are missing in the middle of a queue are stepped over by who reads and who searches.
func TestF24HolesInFiles(t *testing.T) {
	dir := t.TempDir()
	putUnits(t, dir, testKey, 0, unitsOf(0, 5*perFile)...)
	qdir := filepath.Join(dir, "consumequeue", testKey.Topic, "3")
	files, err := filepath.Glob(filepath.Join(qdir, "*"))
	require.NoError(t, err)
	patch(t, files[0], 20*20, make([]byte, 20*20)...) // slots 20 to 39
	s := open(t, dir, Options{ReadOnly: true})
	q, ok := s.Queue(testKey)
	require.True(t, ok)
	n, err := q.Read(15, make([]cq.Unit, 32))
	require.NoError(t, err)
	require.Equal(t, 5, n)
	n, err = q.Read(20, make([]cq.Unit, 32))
	require.NoError(t, err)
	require.Zero(t, n)
	for _, tt := range []struct{ ms, lower, upper int64 }{{1001, 10, 19}, {1002, 40, 19}, {1003, 40, 19}, {1004, 40, 49}, {1005, 50, 59}} {
		lower, err := cq.OffsetByTime(q, tt.ms, cq.BoundaryLower, timeOf)
		require.NoError(t, err)
		require.Equal(t, tt.lower, lower, "LOWER at %d", tt.ms)
		upper, err := cq.OffsetByTime(q, tt.ms, cq.BoundaryUpper, timeOf)
		require.NoError(t, err)
		require.Equal(t, tt.upper, upper, "UPPER at %d", tt.ms)
	}
}

// FuzzRead: no bytes in a queue file make a read panic, go round for ever or answer what can be no unit.
func FuzzRead(f *testing.F) {
	f.Add([]byte{}, int64(0), int64(0))
	f.Add(cq.AppendUnit(nil, testUnit(3)), int64(3*20), int64(3))
	f.Add(cq.AppendUnit(nil, preBlank), int64(0), int64(0))
	f.Add(cq.AppendUnit(nil, cq.Unit{PhyOffset: -1, Size: -1, TagsCode: math.MinInt64}), int64(7), int64(0))
	f.Add(cq.AppendUnit(nil, cq.Unit{PhyOffset: math.MaxInt64, Size: math.MaxInt32, TagsCode: math.MinInt64}), int64(49*20), int64(49))
	f.Fuzz(func(t *testing.T, content []byte, at, from int64) {
		const fileBytes = perFile * unitBytes
		dir := t.TempDir()
		putUnits(t, dir, testKey, 0, unitsOf(0, 2*perFile)...)
		for i, name := range []string{"00000000000000000000", "00000000000000001000"} {
			path := filepath.Join(dir, "consumequeue", testKey.Topic, "3", name)
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			if uint64(at)%2 == uint64(i) {
				copy(b[uint64(at)%fileBytes:], content)
			}
			require.NoError(t, os.WriteFile(path, b, 0o644))
		}
		s, err := Open(filepath.Join(dir, "consumequeue"), Options{ReadOnly: true, FileSizeBytes: fileBytes})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		q, ok := s.Queue(testKey)
		if !ok {
			return
		}
		b, err := q.Bounds()
		if err != nil {
			require.ErrorIs(t, err, cq.ErrCorrupt)
		} else {
			require.True(t, b.Min >= 0 && b.Min <= b.Max && b.Max <= 2*perFile, "%+v", b)
		}
		for _, from := range []int64{from, 0, perFile - 1, b.Max - 1} {
			for _, n := range []int{0, 1, 2, perFile, 300} {
				mark := cq.Unit{PhyOffset: 7, Size: 7, TagsCode: 7, StoreTimestampMs: 7}
				dst := make([]cq.Unit, n+1)
				for i := range dst {
					dst[i] = mark
				}
				got, err := q.Read(from, dst[:n])
				require.True(t, got >= 0 && got <= n)
				if err != nil {
					require.True(t, errors.Is(err, cq.ErrCorrupt) || errors.Is(err, cq.ErrOffsetOutOfRange), "%v", err)
					require.Zero(t, got)
				}
				for _, u := range dst[:got] {
					require.True(t, valid(u) && !u.IsPreBlank(), "%+v", u)
				}
				require.Equal(t, mark, dst[n])
			}
		}
		for _, boundary := range []cq.Boundary{cq.BoundaryLower, cq.BoundaryUpper} {
			slot, err := cq.OffsetByTime(q, int64(binary.BigEndian.Uint16(append(content, 0, 0))), boundary, timeOf)
			if err != nil {
				require.ErrorIs(t, err, cq.ErrCorrupt)
				continue
			}
			require.True(t, slot >= b.Min && slot <= b.Max, "%d of %+v", slot, b)
		}
	})
}

// TestReadahead: a walk in long reads asks for each piece once, as it comes to it; a short read asks for nothing.
func TestReadahead(t *testing.T) {
	const file, step = 10 * readaheadBytes, 256 * unitBytes
	asked, calls, at := int64(0), 0, int64(0)
	for ; at+step <= file; at += step {
		from, n := readahead(at, step, file)
		if n == 0 {
			require.LessOrEqual(t, at+step, asked, "at %d", at)
			continue
		}
		calls++
		require.Equal(t, at, from)
		require.LessOrEqual(t, from, asked)
		asked = from + n
		require.LessOrEqual(t, asked, int64(file))
	}
	require.EqualValues(t, file, asked)
	require.Equal(t, 10, calls)
	for _, at := range []int64{0, 20, readaheadBytes - 20, readaheadBytes} {
		_, n := readahead(at, unitsPerPage*unitBytes, file)
		require.Zero(t, n)
	}
	from, n := readahead(40, file, file)
	require.Equal(t, []int64{40, file - 40}, []int64{from, n})
}
