package cqtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// skipFrom and skipTo are the slots of lost records in the queue of holed: more than a file of the least size has.
const (
	skipFrom = 40
	skipTo   = 140
)

// holed appends a queue of which the log has lost records in the middle, and another one without a loss.
func holed(t *testing.T, s cq.Store, l *Log) {
	t.Helper()
	appendAll(t, s, l.PutN(2*skipFrom, keyA, keyB))
	l.StartQueue(keyA, skipTo)
	later := l.PutN(200, keyA, keyB)
	var gap *cq.GapError
	require.ErrorAs(t, s.Append(t.Context(), later), &gap)
	require.NoError(t, skipper(t, s).Skip(t.Context(), keyA, skipTo))
	appendAll(t, s, later)
}

func skipper(t *testing.T, s cq.Store) cq.Skipper {
	t.Helper()
	sk, ok := s.(cq.Skipper)
	if !ok {
		t.Skip("the store does not skip")
	}
	return sk
}

// requireHoled checks the queue of holed: bounds by that min of the log, each unit in its slot, and none where records were lost.
func (e *env) requireHoled(t *testing.T, s cq.Reader, l *Log, minPhy int64) {
	t.Helper()
	b := mustBounds(t, s, keyA)
	_, units := l.Units(keyA)
	want := cq.Bounds{Min: skipTo + 100, Max: skipTo + 100, MinPhyOffset: -1, LastPhyOffset: units[len(units)-1].PhyOffset, MaxPhyOffset: units[len(units)-1].End()}
	q := mustQueue(t, s, keyA)
	var one [3]cq.Unit
	for slot := want.Max - 1; slot >= 0; slot-- {
		u, there := l.units[keyA][slot]
		if there && u.PhyOffset >= minPhy {
			want.Min, want.MinPhyOffset = slot, u.PhyOffset
		}
		n, err := q.Read(slot, one[:])
		require.NoError(t, err)
		if !there {
			require.Zero(t, n, "slot %d", slot)
			continue
		}
		if u.PhyOffset >= minPhy {
			require.Positive(t, n, "slot %d", slot)
			require.True(t, u.SameRecord(one[0]), "slot %d: %v, want %v", slot, one[0], u) // which side a combined store reads from is no matter
		}
		if slot < skipFrom {
			require.LessOrEqual(t, slot+int64(n), int64(skipFrom))
		}
	}
	require.Equal(t, want, b)
}

var skipCases = []testCase{
	{"slots of lost records stay without a unit", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		holed(t, s, l)
		for range 2 {
			e.requireHoled(t, s, l, 0)
			s = e.reopen(t, s, OpenOptions{})
		}
		_, units := l.Units(keyA)
		for i, u := range units { // whatever the search probes
			if i%7 == 0 || i >= skipFrom-2 && i <= skipFrom+2 {
				s = e.reopen(t, s, OpenOptions{MinPhyOffset: u.PhyOffset})
				e.requireHoled(t, s, l, u.PhyOffset)
			}
		}
	}},
	{"its min moves over them", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		x, ok := s.(cq.Expirer)
		if !ok {
			t.Skip("the store does not expire")
		}
		l := NewLog(0)
		holed(t, s, l)
		_, units := l.Units(keyA)
		for _, u := range units {
			require.NoError(t, x.SetMinPhyOffset(u.PhyOffset))
			e.requireHoled(t, s, l, u.PhyOffset)
		}
	}},
	{"repeats change nothing", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		holed(t, s, l)
		_, units := l.Units(keyA)
		for i, u := range units {
			slot := int64(i)
			if slot >= skipFrom {
				slot += skipTo - skipFrom
			}
			require.NoError(t, s.Append(t.Context(), []cq.Entry{{Key: keyA, QueueOffset: slot, Unit: u}}))
		}
		require.NoError(t, skipper(t, s).Skip(t.Context(), keyA, 3))
		require.NoError(t, skipper(t, s).Skip(t.Context(), cq.Key{Topic: "absent"}, 3))
		await(t, s)
		e.requireHoled(t, s, l, 0)
		_, there := s.Queue(cq.Key{Topic: "absent"})
		require.False(t, there)
	}},
	{"what is cut goes with the slots before it", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		holed(t, s, l)
		cut := l.units[keyA][skipTo].PhyOffset
		require.NoError(t, s.TruncateDirty(t.Context(), cut))
		l.Cut(cut)
		l.StartQueue(keyA, skipFrom)
		e.requireEqualsLog(t, s, l, 0)
		appendAll(t, s, l.PutN(100, keyA, keyB))
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{}), l, 0)
	}},
	{"a stop before the next unit", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		before := l.PutN(skipFrom, keyA)
		appendAll(t, s, before)
		require.NoError(t, skipper(t, s).Skip(t.Context(), keyA, skipTo))
		s = e.reopen(t, s, OpenOptions{})
		b := mustBounds(t, s, keyA)
		require.EqualValues(t, 0, b.Min)
		require.Contains(t, []int64{skipFrom, skipTo}, b.Max)
		require.Equal(t, before[skipFrom-1].Unit.PhyOffset, b.LastPhyOffset)
		require.NoError(t, skipper(t, s).Skip(t.Context(), keyA, skipTo))
		l.StartQueue(keyA, skipTo)
		appendAll(t, s, l.PutN(100, keyA))
		e.requireHoled(t, s, l, 0)
	}},
}
