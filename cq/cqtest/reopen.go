package cqtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var reopenCases = []testCase{
	{"an empty store stays empty", func(t *testing.T, e *env) {
		s := e.reopen(t, e.open(t, OpenOptions{}), OpenOptions{})
		require.Empty(t, keysOf(s))
		require.EqualValues(t, -1, s.DispatchFrom())
	}},
	{"flushed units are there", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		batch := l.PutN(250, allKeys...)
		appendAll(t, s, batch)
		require.NoError(t, s.Flush(t.Context()))
		s = e.reopen(t, s, OpenOptions{})
		e.requireEqualsLog(t, s, l, 0)
		require.Equal(t, batch[len(batch)-1].Unit.End(), s.DispatchFrom())
	}},
	{"a clean close keeps what was accepted without a flush", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(250, allKeys...))
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{}), l, 0)
	}},
	{"appending goes on across many reopens", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		for _, n := range []int{1, 48, 1, 1, 49, 50, 50, 3} {
			appendAll(t, s, l.PutN(n, keyA))
			appendAll(t, s, l.PutN(n, keyLMQ, keyCur))
			s = e.reopen(t, s, OpenOptions{})
			e.requireEqualsLog(t, s, l, 0)
		}
	}},
	{"each queue may be looked up before the snapshot is taken", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(60, allKeys...))
		s = e.reopen(t, s, OpenOptions{})
		for _, k := range allKeys {
			require.EqualValues(t, 10, mustBounds(t, s, k).Max)
		}
		e.requireEqualsLog(t, s, l, 0)
	}},
}
