package cqtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

var minCases = []testCase{
	{"min follows the log's min physical offset", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(1000)
		batch := l.PutN(205, keyA)
		l.PutN(1, keyB) // a queue with one unit, and the last one
		appendAll(t, s, batch)
		_, b := l.Units(keyB)
		appendAll(t, s, []cq.Entry{{Key: keyB, Unit: b[0]}})
		for _, tc := range []struct {
			name   string
			minPhy int64
		}{
			{"no minimum", 0},
			{"below every record", 999},
			{"at the first", batch[0].Unit.PhyOffset},
			{"just past the first start", batch[0].Unit.PhyOffset + 1},
			{"at the second", batch[1].Unit.PhyOffset},
			{"inside a record", batch[20].Unit.PhyOffset + 50},
			{"in the middle", batch[101].Unit.PhyOffset},
			{"between two records", batch[2].Unit.End() + 1},
			{"late", batch[199].Unit.PhyOffset},
			{"at the last", batch[204].Unit.PhyOffset},
			{"past the last start", batch[204].Unit.PhyOffset + 1},
			{"past every record", l.end},
			{"far away", 1 << 50},
		} {
			s = e.reopen(t, s, OpenOptions{MinPhyOffset: tc.minPhy})
			t.Log(tc.name)
			e.requireEqualsLog(t, s, l, tc.minPhy)
		}
	}},
	{"min of a queue that begins above slot 0", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(500)
		l.StartQueue(keyA, 73)
		batch := l.PutN(90, keyA)
		appendAll(t, s, batch)
		for _, i := range []int{0, 1, 30, 89} {
			minPhy := batch[i].Unit.PhyOffset
			s = e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy})
			e.requireEqualsLog(t, s, l, minPhy)
		}
	}},
	{"an expired queue goes on at its max", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(33, keyA))
		minPhy := l.end
		s = e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy})
		n, err := mustQueue(t, s, keyA).Read(33, make([]cq.Unit, 1))
		require.ErrorIs(t, err, cq.ErrOffsetOutOfRange)
		require.Zero(t, n)
		appendAll(t, s, l.PutN(40, keyA))
		e.requireEqualsLog(t, s, l, minPhy)
		require.NoError(t, s.Flush(t.Context()))
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy}), l, minPhy)
	}},
	{"a lower minimum shows the units again", func(t *testing.T, e *env) {
		// Min is derived at every open and never stored.
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(33, keyA))
		s = e.reopen(t, s, OpenOptions{MinPhyOffset: l.end})
		require.True(t, mustBounds(t, s, keyA).Empty())
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{}), l, 0)
	}},
}
