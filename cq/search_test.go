package cq_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// listQueue is a queue in memory. A unit of size 0 is a hole.
type listQueue struct {
	min   int64
	units []cq.Unit // from slot 0 on
	reads int
	fail  error
}

func (q *listQueue) Key() cq.Key        { return cq.Key{Topic: "t", QueueID: 1} }
func (q *listQueue) Where(int64) string { return "memory" }

func (q *listQueue) Bounds() (cq.Bounds, error) {
	return cq.Bounds{Min: q.min, Max: int64(len(q.units))}, nil
}

func (q *listQueue) Read(from int64, dst []cq.Unit) (int, error) {
	if q.reads++; q.fail != nil {
		return 0, q.fail
	}
	if q.units[from].Size == 0 {
		return 0, nil
	}
	return copy(dst[:1], q.units[from:]), nil
}

// timesQueue makes a queue of units with these times; -1 stands for a hole.
func timesQueue(minSlot int64, times ...int64) *listQueue {
	q := &listQueue{min: minSlot}
	for i, ms := range times {
		u := cq.Unit{PhyOffset: int64(i) * 100, Size: 100, StoreTimestampMs: ms}
		if ms < 0 {
			u = cq.Unit{}
		}
		q.units = append(q.units, u)
	}
	return q
}

// linear is what OffsetByTime has to answer where times never fall.
func linear(q *listQueue, ms int64, b cq.Boundary) int64 {
	lower, upper := int64(len(q.units)), q.min
	for slot := lower - 1; slot >= q.min; slot-- {
		if u := q.units[slot]; u.Size > 0 && u.StoreTimestampMs >= ms {
			lower = slot
		}
	}
	for slot := q.min; slot < int64(len(q.units)); slot++ {
		if u := q.units[slot]; u.Size > 0 && u.StoreTimestampMs <= ms {
			upper = slot
		}
	}
	if b == cq.BoundaryUpper {
		return upper
	}
	return lower
}

func TestOffsetByTime(t *testing.T) {
	const hole = -1
	tests := []struct {
		name         string
		q            *listQueue
		ms           int64
		lower, upper int64
	}{
		{"before all", timesQueue(0, 10, 20, 30), 5, 0, 0},
		{"at the first", timesQueue(0, 10, 20, 30), 10, 0, 0},
		{"between", timesQueue(0, 10, 20, 30), 25, 2, 1},
		{"at one", timesQueue(0, 10, 20, 30), 20, 1, 1},
		{"at the last", timesQueue(0, 10, 20, 30), 30, 2, 2},
		{"behind all", timesQueue(0, 10, 20, 30), 31, 3, 2},
		{"the end of time", timesQueue(0, 10, 20, 30), math.MaxInt64, 3, 2},
		{"before time", timesQueue(0, 10, 20, 30), math.MinInt64, 0, 0},
		{"one unit, before", timesQueue(0, 10), 9, 0, 0},
		{"one unit, at", timesQueue(0, 10), 10, 0, 0},
		{"one unit, after", timesQueue(0, 10), 11, 1, 0},
		{"a run", timesQueue(0, 10, 20, 20, 20, 30), 20, 1, 3},
		{"all the same", timesQueue(0, 20, 20, 20, 20), 20, 0, 3},
		{"all the same, before", timesQueue(0, 20, 20, 20), 19, 0, 0},
		{"all the same, after", timesQueue(0, 20, 20, 20), 21, 3, 2},
		{"expired units do not count", timesQueue(2, 10, 10, 20, 30), 10, 2, 2},
		{"expired units do not count, at min", timesQueue(2, 20, 20, 20, 30), 20, 2, 2},
		{"nothing left", timesQueue(3, 10, 20, 30), 20, 3, 3},
		{"never a slot", timesQueue(0), 20, 0, 0},
		{"a hole in the middle", timesQueue(0, 10, hole, hole, 40), 20, 3, 0},
		{"a hole at min", timesQueue(0, hole, hole, 30, 40), 30, 2, 2},
		{"before a hole at min", timesQueue(0, hole, hole, 30, 40), 5, 2, 0},
		{"a hole at the end", timesQueue(0, 10, 20, hole, hole), 20, 1, 1},
		{"behind a hole at the end", timesQueue(0, 10, 20, hole, hole), 30, 4, 1},
		{"only holes", timesQueue(1, 10, hole, hole), 5, 3, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for b, want := range map[cq.Boundary]int64{cq.BoundaryLower: tt.lower, cq.BoundaryUpper: tt.upper} {
				got, err := cq.OffsetByTime(tt.q, tt.ms, b, nil)
				require.NoError(t, err)
				require.Equal(t, want, got, "%s", b)
				require.Equal(t, want, linear(tt.q, tt.ms, b), "the model, %s", b)
			}
		})
	}
}

// TestF24TimeSearchStepsOverHoles: a slot without a unit says nothing, wherever it lies, and costs one read.
func TestF24TimeSearchStepsOverHoles(t *testing.T) {
	const n = 4096
	for _, holes := range [][2]int{{0, 1}, {1, n - 1}, {n / 2, n/2 + 1}, {n / 4, n - 3}, {n - 2, n}, {7, 2000}} {
		times := make([]int64, n)
		for i := range times {
			if times[i] = int64(i); i >= holes[0] && i < holes[1] {
				times[i] = -1
			}
		}
		q := timesQueue(0, times...)
		for _, ms := range []int64{-1, 0, 1, 6, 7, 8, n / 2, n - 3, n - 2, n - 1, n} {
			for _, b := range []cq.Boundary{cq.BoundaryLower, cq.BoundaryUpper} {
				q.reads = 0
				got, err := cq.OffsetByTime(q, ms, b, nil)
				require.NoError(t, err)
				require.Equal(t, linear(q, ms, b), got, "holes %v, %s at %d", holes, b, ms)
				require.LessOrEqual(t, q.reads, holes[1]-holes[0]+20)
			}
		}
	}
}

// TestF25TimeSearchStaysInBounds: a queue of which nothing is left answers its max, and no time leads out of the bounds.
func TestF25TimeSearchStaysInBounds(t *testing.T) {
	for _, minSlot := range []int64{0, 1, 3} {
		q := timesQueue(minSlot, 10, 20, 30)
		for _, ms := range []int64{math.MinInt64, -1, 0, 9, 15, 30, 31, math.MaxInt64} {
			for _, b := range []cq.Boundary{cq.BoundaryLower, cq.BoundaryUpper} {
				got, err := cq.OffsetByTime(q, ms, b, nil)
				require.NoError(t, err)
				require.GreaterOrEqual(t, got, minSlot, "%s at %d", b, ms)
				require.LessOrEqual(t, got, int64(3), "%s at %d", b, ms)
			}
		}
	}
}

// TestFRD01FRD03LateAndEarlyTimes: a time behind the last unit is max to the lower boundary and the last unit to the upper one, never -1, and never less than there is.
func TestFRD01FRD03LateAndEarlyTimes(t *testing.T) {
	times := make([]int64, 1001) // slots 100 to 1000 are left
	for i := range times {
		times[i] = int64(i) * 10
	}
	times[100] = 1000
	for slot := 101; slot < 200; slot++ {
		times[slot] = 1000
	}
	q := timesQueue(100, times...)
	for _, tt := range []struct{ ms, lower, upper int64 }{
		{20_000, 1001, 1000},
		{10_001, 1001, 1000},
		{10_000, 1000, 1000},
		{2001, 201, 200},
		{2000, 200, 200},
		{1999, 200, 199},
		{1000, 100, 199},
		{999, 100, 100},
		{1, 100, 100},
		{math.MinInt64, 100, 100},
		{math.MaxInt64, 1001, 1000},
	} {
		lower, err := cq.OffsetByTime(q, tt.ms, cq.BoundaryLower, nil)
		require.NoError(t, err)
		require.Equal(t, tt.lower, lower, "LOWER at %d", tt.ms)
		upper, err := cq.OffsetByTime(q, tt.ms, cq.BoundaryUpper, nil)
		require.NoError(t, err)
		require.Equal(t, tt.upper, upper, "UPPER at %d", tt.ms)
	}
}

// TestOffsetByTimeIsLogarithmic: neither runs of one time nor a clock that goes back make a search long.
func TestOffsetByTimeIsLogarithmic(t *testing.T) {
	const n = 1 << 16
	clocks := map[string]func(i int) int64{
		"rises":       func(i int) int64 { return int64(i) },
		"stands":      func(int) int64 { return n / 2 },
		"two runs":    func(i int) int64 { return int64(i / (n / 2) * n) },
		"falls":       func(i int) int64 { return int64(n - i) },
		"steps back":  func(i int) int64 { return int64(i % (n / 3)) },
		"goes astray": func(i int) int64 { return int64(i*7919) % n },
	}
	for name, clock := range clocks {
		t.Run(name, func(t *testing.T) {
			times := make([]int64, n)
			for i := range times {
				times[i] = clock(i)
			}
			q := timesQueue(0, times...)
			for _, ms := range []int64{0, 1, n / 3, n / 2, n/2 + 1, n - 1, n, 2 * n} {
				for _, b := range []cq.Boundary{cq.BoundaryLower, cq.BoundaryUpper} {
					q.reads = 0
					got, err := cq.OffsetByTime(q, ms, b, nil)
					require.NoError(t, err)
					require.LessOrEqual(t, q.reads, 18)
					require.True(t, got >= 0 && got <= n)
					requireBoundary(t, q, ms, b, got)
				}
			}
		})
	}
}

// requireBoundary holds wherever the times lie: the unit found is on the right side of the time, and the one next to it on the other, or there is none.
func requireBoundary(t *testing.T, q *listQueue, ms int64, b cq.Boundary, got int64) {
	t.Helper()
	n := int64(len(q.units))
	if b == cq.BoundaryLower {
		require.True(t, got == n || q.units[got].StoreTimestampMs >= ms)
		require.True(t, got == 0 || q.units[got-1].StoreTimestampMs < ms)
		return
	}
	require.True(t, got == 0 || q.units[got].StoreTimestampMs <= ms)
	require.True(t, got == n-1 || q.units[got+1].StoreTimestampMs > ms)
}

func TestOffsetByTimeAsksTheLog(t *testing.T) {
	q := timesQueue(0, 0, 0, 0, 0, 0)
	for i := range q.units {
		q.units[i].StoreTimestampMs = cq.NoTimestamp
	}
	ofRecord := func(u cq.Unit) (int64, error) { return 10 + u.PhyOffset/10, nil } // 10, 20, 30, 40, 50
	got, err := cq.OffsetByTime(q, 30, cq.BoundaryLower, ofRecord)
	require.NoError(t, err)
	require.EqualValues(t, 2, got)

	gone := func(u cq.Unit) (int64, error) { // the records of slots 1 to 3 are not there any more
		if u.PhyOffset >= 100 && u.PhyOffset <= 300 {
			return -1, nil
		}
		return ofRecord(u)
	}
	got, err = cq.OffsetByTime(q, 15, cq.BoundaryLower, gone)
	require.NoError(t, err)
	require.EqualValues(t, 4, got)
	got, err = cq.OffsetByTime(q, 49, cq.BoundaryUpper, gone)
	require.NoError(t, err)
	require.Zero(t, got)

	broken := errors.New("broken")
	_, err = cq.OffsetByTime(q, 30, cq.BoundaryLower, func(cq.Unit) (int64, error) { return 0, broken })
	require.ErrorIs(t, err, broken)
	_, err = cq.OffsetByTime(q, 30, cq.BoundaryLower, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	q.fail = broken
	_, err = cq.OffsetByTime(q, 30, cq.BoundaryLower, ofRecord)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "t/1")
}

// searcher is a queue that searches by itself.
type searcher struct {
	*listQueue
	err   error
	calls int
}

func (s *searcher) TimeBound(from, end, _ int64) (below, at int64, err error) {
	s.calls++
	return from - 1, end, s.err
}

func TestTimeSearcherIsPreferred(t *testing.T) {
	s := &searcher{listQueue: timesQueue(0, 10, 20, 30)}
	got, err := cq.OffsetByTime(s, 20, cq.BoundaryLower, nil)
	require.NoError(t, err)
	require.EqualValues(t, 3, got, "the searcher's answer")
	require.Zero(t, s.reads)

	s.err = fmt.Errorf("no times: %w", errors.ErrUnsupported)
	got, err = cq.OffsetByTime(s, 20, cq.BoundaryLower, nil)
	require.NoError(t, err)
	require.EqualValues(t, 1, got)
	require.Equal(t, 2, s.calls)

	s.err = cq.ErrCorrupt
	_, err = cq.OffsetByTime(s, 20, cq.BoundaryLower, nil)
	require.ErrorIs(t, err, cq.ErrCorrupt)
}

// FuzzOffsetByTime makes queues of steps in time; -128 stands for a hole, other negative steps set the clock back. Rising times have one right answer; others only
// have to end within the bounds, soon.
func FuzzOffsetByTime(f *testing.F) {
	f.Add([]byte{0, 1, 1, 0, 5}, int64(3), uint8(0))
	f.Add([]byte{0, 0x80, 0x80, 1}, int64(0), uint8(1))
	f.Add([]byte{9, 0xf0, 0x80, 1, 0, 0, 0}, int64(7), uint8(2))
	f.Fuzz(func(t *testing.T, steps []byte, ms int64, minSlot uint8) {
		if len(steps) > 1<<12 {
			return
		}
		now, rising, holes := int64(1000), true, 0
		times := make([]int64, len(steps))
		for i, s := range steps {
			step := int64(int8(s))
			if step == math.MinInt8 {
				times[i] = -1
				holes++
				continue
			}
			rising = rising && step >= 0
			now = max(now+step, 0)
			times[i] = now
		}
		q := timesQueue(min(int64(minSlot), int64(len(times))), times...)
		for _, at := range []int64{ms, 1000 + ms%256, now, now + 1, now - 1} {
			for _, b := range []cq.Boundary{cq.BoundaryLower, cq.BoundaryUpper} {
				q.reads = 0
				got, err := cq.OffsetByTime(q, at, b, nil)
				require.NoError(t, err)
				require.LessOrEqual(t, q.reads, 14+holes)
				require.True(t, got >= q.min && got <= int64(len(times)), "%s at %d: %d", b, at, got)
				if rising {
					require.Equal(t, linear(q, at, b), got, "%s at %d", b, at)
				}
			}
		}
	})
}
