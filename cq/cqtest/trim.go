package cqtest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

func trimmer(t *testing.T, s cq.Store) cq.Trimmer {
	t.Helper()
	tr, ok := s.(cq.Trimmer)
	if !ok {
		t.Skip("the store does not trim")
	}
	return tr
}

var trimCases = []testCase{
	{"a queue ends where it is cut, and others stay", func(t *testing.T, e *env) {
		const count = 120
		for _, end := range []int64{1, 2, 49, 50, 51, 100, count - 1, count, count + 1, 5000} {
			t.Run(fmt.Sprint(end), func(t *testing.T) {
				e := &env{Harness: e.Harness, dir: t.TempDir()}
				s, l := e.open(t, OpenOptions{}), NewLog(0)
				appendAll(t, s, l.PutN(2*count, keyA, keyB))
				_, before := l.Units(keyA)
				tr := trimmer(t, s)
				require.NoError(t, tr.TrimQueue(t.Context(), keyA, end))
				require.NoError(t, s.Flush(t.Context()))
				for range 2 {
					b := mustBounds(t, s, keyA)
					left := min(end, count)
					require.Equal(t, left, b.Max)
					require.Zero(t, b.Min)
					require.Equal(t, before[left-1].PhyOffset, b.LastPhyOffset)
					require.EqualValues(t, count, mustBounds(t, s, keyB).Max)
					var one [1]cq.Unit
					_, err := mustQueue(t, s, keyA).Read(left, one[:])
					require.ErrorIs(t, err, cq.ErrOffsetOutOfRange)
					at, err := trimmer(t, s).UnitFrom(keyA, left)
					require.NoError(t, err)
					require.EqualValues(t, -1, at)
					at, err = trimmer(t, s).UnitFrom(keyA, left-1)
					require.NoError(t, err)
					require.Equal(t, left-1, at)
					s = e.reopen(t, s, OpenOptions{})
				}
				l.StartQueue(keyA, min(end, count))
				later := l.PutN(5, keyA)
				appendAll(t, s, later)
				require.Equal(t, min(end, count)+5, mustBounds(t, s, keyA).Max)
			})
		}
	}},
	{"a queue that is cut to nothing leaves no trace", func(t *testing.T, e *env) {
		s, l := e.open(t, OpenOptions{}), NewLog(0)
		appendAll(t, s, l.PutN(60, keyA, keyB))
		require.NoError(t, trimmer(t, s).TrimQueue(t.Context(), keyA, 0))
		require.NoError(t, trimmer(t, s).TrimQueue(t.Context(), cq.Key{Topic: "absent"}, 3))
		require.NoError(t, s.Flush(t.Context()))
		for range 2 {
			require.Equal(t, []cq.Key{keyB}, keysOf(s))
			s = e.reopen(t, s, OpenOptions{})
		}
	}},
}
