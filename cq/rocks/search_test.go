//go:build cgo

package rocks

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// plainQueue hides that a queue can search by itself.
type plainQueue struct{ cq.Queue }

var boundaries = []cq.Boundary{cq.BoundaryLower, cq.BoundaryUpper}

// requireBothWays searches in C and unit by unit; both have to answer want, or the same error.
func requireBothWays(t *testing.T, q cq.Queue, ms int64, b cq.Boundary) int64 {
	t.Helper()
	got, err := cq.OffsetByTime(q, ms, b, nil)
	plain, plainErr := cq.OffsetByTime(plainQueue{q}, ms, b, nil)
	require.Equal(t, plainErr == nil, err == nil, "%s at %d: %v, %v", b, ms, plainErr, err)
	if err != nil {
		for _, class := range []error{cq.ErrCorrupt, errors.ErrUnsupported, cq.ErrClosed} {
			require.Equal(t, errors.Is(plainErr, class), errors.Is(err, class), "%v, %v", plainErr, err)
		}
		return -1
	}
	require.Equal(t, plain, got, "%s at %d", b, ms)
	return got
}

// putTimes stores units with these times from slot 0 on, past the store: -1 leaves the slot empty, -2 makes the value too short, -3 the unit impossible, -4 the time
// unknown.
func putTimes(t *testing.T, s *Store, k cq.Key, times []int64) {
	t.Helper()
	const impossible, noTime = -3, -4
	rows(t, s, func(b *rocks.Batch) {
		prefix := appendUnitPrefix(nil, k)
		for i, ms := range times {
			u := cq.Unit{PhyOffset: int64(i) * 100, Size: 100, StoreTimestampMs: ms}
			switch ms {
			case -1:
				continue
			case -2:
				b.PutSlot(prefix, int64(i), make([]byte, unitBytes-1))
				continue
			case impossible:
				u.Size = 0
			case noTime:
				u.StoreTimestampMs = cq.NoTimestamp
			}
			b.PutSlot(prefix, int64(i), appendUnit(nil, u))
		}
	})
}

func timesQueue(t *testing.T, s *Store, k cq.Key, times []int64) cq.Queue {
	t.Helper()
	putTimes(t, s, k, times)
	s.mu.Lock()
	s.mu.ends.put(k, end{max: int64(len(times)), lastPhy: 0})
	s.mu.Unlock()
	q, ok := s.Queue(k)
	require.True(t, ok)
	return q
}

func TestTimeBound(t *testing.T) {
	s := openNew(t, testOptions())
	tests := map[string]struct {
		times        []int64
		ms           int64
		lower, upper int64
	}{
		"between":           {[]int64{10, 20, 30, 40}, 25, 2, 1},
		"at":                {[]int64{10, 20, 30, 40}, 20, 1, 1},
		"before":            {[]int64{10, 20, 30, 40}, 9, 0, 0},
		"behind":            {[]int64{10, 20, 30, 40}, 41, 4, 3},
		"a run":             {[]int64{10, 20, 20, 20, 20, 30}, 20, 1, 4},
		"one":               {[]int64{10}, 10, 0, 0},
		"a hole":            {[]int64{10, -1, -1, 40}, 20, 3, 0},
		"a short value":     {[]int64{10, -2, -2, 40}, 20, 3, 0},
		"a hole at min":     {[]int64{-1, -1, 30, 40}, 5, 2, 2}, // min is the first unit
		"a hole at the end": {[]int64{10, 20, -1, -2}, 30, 4, 1},
		"the end of time":   {[]int64{10, 20, 30, 40}, math.MaxInt64, 4, 3},
		"impossible":        {[]int64{10, 20, 30, -3}, 20, -1, -1},
		"no time":           {[]int64{10, 20, 30, -4}, 20, -1, -1},
	}
	id := int32(0)
	for name, tt := range tests {
		id++
		t.Run(name, func(t *testing.T) {
			q := timesQueue(t, s, cq.Key{Topic: "times", QueueID: id}, tt.times)
			require.Equal(t, tt.lower, requireBothWays(t, q, tt.ms, cq.BoundaryLower), "LOWER")
			require.Equal(t, tt.upper, requireBothWays(t, q, tt.ms, cq.BoundaryUpper), "UPPER")
		})
	}
}

// TestTimeBoundAsksTheLog: where a unit keeps no time the record is asked.
func TestTimeBoundAsksTheLog(t *testing.T) {
	s := openNew(t, testOptions())
	q := timesQueue(t, s, keyT, []int64{10, -4, 30, -4, 50, -4})
	at := func(u cq.Unit) (int64, error) { return u.PhyOffset/10 + 10, nil }
	got, err := cq.OffsetByTime(q, 40, cq.BoundaryLower, at)
	require.NoError(t, err)
	require.EqualValues(t, 3, got)
	_, _, err = q.(cq.TimeSearcher).TimeBound(0, 6, 40)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.NoError(t, s.Close())
	requireBothWays(t, q, 40, cq.BoundaryLower)
	_, _, err = q.(cq.TimeSearcher).TimeBound(0, 6, 40)
	require.ErrorIs(t, err, cq.ErrClosed)
}

// TestNegativeSlotsAreNoUnits: rows whose slot has the sign bit sort behind all others and belong to no queue's [Min, Max); a search that took them for
// neighbours went round for ever.
func TestNegativeSlotsAreNoUnits(t *testing.T) {
	s := openNew(t, testOptions())
	q := timesQueue(t, s, keyT, []int64{10, 20, -1, -1})
	rows(t, s, func(b *rocks.Batch) {
		for _, slot := range []int64{math.MinInt64, -5, -1} {
			b.PutSlot(appendUnitPrefix(nil, keyT), slot, appendUnit(nil, cq.Unit{Size: 1, StoreTimestampMs: 1}))
		}
	})
	require.EqualValues(t, 4, requireBothWays(t, q, 21, cq.BoundaryLower))
	require.EqualValues(t, 1, requireBothWays(t, q, 21, cq.BoundaryUpper))
	require.NoError(t, s.SetMinPhyOffset(150))
	b, err := q.Bounds()
	require.NoError(t, err)
	require.EqualValues(t, 4, b.Min)
	n, err := q.Read(2, make([]cq.Unit, 3))
	require.NoError(t, err)
	require.Zero(t, n)
}

// FuzzTimeBound: both ways of searching answer the same, whatever the times and values are, and end.
func FuzzTimeBound(f *testing.F) {
	f.Add([]byte{1, 2, 3, 3, 3, 9, 0xff, 0xfe, 20}, int64(3))
	f.Add([]byte{9, 8, 7, 0xfd, 6, 5, 0xfc}, int64(7))
	f.Add([]byte{0xff, 0xff, 0xff}, int64(-1))
	s, err := Open(f.TempDir()+"/cq", tailOptions(-1))
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, s.Close()) })
	f.Fuzz(func(t *testing.T, content []byte, ms int64) {
		if len(content) == 0 || len(content) > 300 {
			return
		}
		require.NoError(t, s.DropQueue(t.Context(), keyT))
		times := make([]int64, len(content))
		for i, c := range content {
			times[i] = int64(c)
			if c >= 0xfc { // hole, short, impossible, no time
				times[i] = int64(int8(c))
			}
		}
		q := timesQueue(t, s, keyT, times)
		for _, ms := range []int64{ms, int64(content[0]), int64(content[len(content)/2])} {
			for _, b := range boundaries {
				requireBothWays(t, q, ms, b)
			}
		}
	})
}

// FuzzRead: no value of a unit row, and no slot, makes a read panic, go round for ever or answer what can be no unit.
func FuzzRead(f *testing.F) {
	f.Add([]byte{}, int64(1), int64(0))
	f.Add(appendUnit(nil, unit(1)), int64(1), int64(0))
	f.Add(make([]byte, unitBytes+5), int64(2), int64(1))
	f.Add(appendUnit(nil, cq.Unit{PhyOffset: -1, Size: -1, StoreTimestampMs: -1}), int64(-1), int64(1))
	s, err := Open(f.TempDir()+"/cq", tailOptions(-1))
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, s.Close()) })
	f.Fuzz(func(t *testing.T, value []byte, slot, from int64) {
		ctx := t.Context()
		require.NoError(t, s.DropQueue(ctx, keyT))
		require.NoError(t, s.Append(ctx, entries(keyT, 0, 4)))
		require.NoError(t, s.AwaitReadable(ctx))
		rows(t, s, func(b *rocks.Batch) { b.PutSlot(appendUnitPrefix(nil, keyT), slot, value) })
		q, ok := s.Queue(keyT)
		require.True(t, ok)
		if _, err := q.Bounds(); err != nil {
			require.ErrorIs(t, err, cq.ErrCorrupt)
		}
		for _, from := range []int64{from, 0, 1, slot} {
			for _, n := range []int{0, 1, 2, 9} {
				mark := cq.Unit{PhyOffset: 7, Size: 7, TagsCode: 7, StoreTimestampMs: 7}
				dst := []cq.Unit{mark, mark, mark, mark, mark, mark, mark, mark, mark, mark}
				got, err := q.Read(from, dst[:n])
				require.True(t, got >= 0 && got <= n)
				if err != nil {
					require.True(t, errors.Is(err, cq.ErrCorrupt) || errors.Is(err, cq.ErrOffsetOutOfRange), "%v", err)
					require.Zero(t, got)
				}
				for _, u := range dst[:got] {
					require.True(t, u.Size > 0 && u.PhyOffset >= 0, "%+v", u)
				}
				for _, u := range dst[n:] {
					require.Equal(t, mark, u)
				}
			}
		}
		for _, b := range boundaries {
			requireBothWays(t, q, int64(binary.BigEndian.Uint16(append(value, 0, 0))), b)
		}
	})
}
