package cqtest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

var truncateCases = []testCase{
	{"at every depth no dirty unit survives", func(t *testing.T, e *env) {
		for _, keep := range []int{0, 1, 2, 3, 7, 60, 147, 148, 149, 150, 151, 200, 298, 299, 300} {
			t.Run(fmt.Sprintf("keep %d of 300", keep), func(t *testing.T) {
				e := &env{Harness: e.Harness, dir: t.TempDir()}
				s := e.open(t, OpenOptions{})
				l := NewLog(0)
				batch := append(l.PutN(294, keyA, keyB, keyLMQ), l.PutN(6, keyCur)...)
				appendAll(t, s, batch)
				cut := l.end
				if keep < len(batch) {
					cut = batch[keep].Unit.PhyOffset
				}
				require.NoError(t, s.TruncateDirty(t.Context(), cut))
				l.Cut(cut)
				e.requireEqualsLog(t, s, l, 0)
				require.LessOrEqual(t, s.DispatchFrom(), cut)
				s = e.reopen(t, s, OpenOptions{})
				e.requireEqualsLog(t, s, l, 0)
				require.LessOrEqual(t, s.DispatchFrom(), cut)
				// Other records take the place of the dirty ones; fewer, so that an old one behind them would show.
				appendAll(t, s, l.PutN(20, keyB, keyA, keyCur))
				e.requireEqualsLog(t, s, l, 0)
				s = e.reopen(t, s, OpenOptions{})
				e.requireEqualsLog(t, s, l, 0)
				appendAll(t, s, l.PutN(300, keyA, keyB, keyLMQ, keyCur))
				e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{}), l, 0)
			})
		}
	}},
	{"everything", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(200, allKeys...))
		require.NoError(t, s.TruncateDirty(t.Context(), 0))
		for range 2 {
			require.Empty(t, keysOf(s))
			for _, k := range allKeys {
				_, ok := s.Queue(k)
				require.False(t, ok, "queue %s keeps a trace", k)
			}
			s = e.reopen(t, s, OpenOptions{})
			require.LessOrEqual(t, s.DispatchFrom(), int64(0))
		}
	}},
	{"a record that begins below the cut stays", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		batch := l.PutN(9, keyA)
		appendAll(t, s, batch)
		require.NoError(t, s.TruncateDirty(t.Context(), batch[4].Unit.PhyOffset+1))
		require.EqualValues(t, 5, mustBounds(t, s, keyA).Max)
		s = e.reopen(t, s, OpenOptions{})
		require.EqualValues(t, 5, mustBounds(t, s, keyA).Max)
	}},
	{"a queue that began above slot 0 and loses all keeps no trace", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(3, keyA))
		cut := l.end
		l.StartQueue(keyB, 73)
		appendAll(t, s, l.PutN(80, keyB))
		require.NoError(t, s.TruncateDirty(t.Context(), cut))
		l.Cut(cut)
		e.requireEqualsLog(t, s, l, 0)
		s = e.reopen(t, s, OpenOptions{})
		e.requireEqualsLog(t, s, l, 0)
		l.StartQueue(keyB, 9) // it may begin anew elsewhere
		appendAll(t, s, l.PutN(50, keyB))
		e.requireEqualsLog(t, s, l, 0)
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{}), l, 0)
	}},
	{"expired units are no dirty ones", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(80, keyA, keyB))
		minPhy := l.end
		appendAll(t, s, l.PutN(80, keyB))
		s = e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy})
		require.NoError(t, s.TruncateDirty(t.Context(), minPhy))
		for range 2 {
			for _, k := range []cq.Key{keyA, keyB} {
				b := mustBounds(t, s, k)
				require.Equal(t, [2]int64{40, 40}, [2]int64{b.Min, b.Max}, "%s", k)
			}
			s = e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy})
		}
	}},
	{"twice is once", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		batch := l.PutN(100, keyA, keyB)
		appendAll(t, s, batch)
		cut := batch[31].Unit.PhyOffset
		require.NoError(t, s.TruncateDirty(t.Context(), cut))
		require.NoError(t, s.TruncateDirty(t.Context(), cut))
		l.Cut(cut)
		e.requireEqualsLog(t, s, l, 0)
	}},
	{"straight after opening, before anything is read", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		batch := l.PutN(300, allKeys...)
		appendAll(t, s, batch)
		s = e.reopen(t, s, OpenOptions{})
		cut := batch[3].Unit.PhyOffset // three queues keep one unit, three lose all
		require.NoError(t, s.TruncateDirty(t.Context(), cut))
		l.Cut(cut)
		s = e.reopen(t, s, OpenOptions{})
		e.requireEqualsLog(t, s, l, 0)
	}},
}
