package cqtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

var readCases = []testCase{
	{"an empty store has nothing", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		require.NotEmpty(t, s.Kind())
		require.Empty(t, keysOf(s))
		require.EqualValues(t, -1, s.DispatchFrom())
		accepted, readable, durable := s.Progress()
		require.Equal(t, []int64{-1, -1, -1}, []int64{accepted, readable, durable})
		require.NoError(t, s.Flush(t.Context()))
	}},
	{"units come back with bounds", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(300, allKeys...))
		e.requireEqualsLog(t, s, l, 0)
	}},
	{"any buffer length gives the same units", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(4096)
		appendAll(t, s, l.PutN(211, keyA))
		_, units := l.Units(keyA)
		for i := range units {
			units[i] = e.stored(units[i])
		}
		q := mustQueue(t, s, keyA)
		for _, chunk := range []int{1, 2, 7, 50, 1000} {
			for _, from := range []int64{0, 1, 49, 50, 51, 210} {
				require.Equal(t, units[from:], readAll(t, q, from, 211, chunk), "chunk %d from %d", chunk, from)
			}
		}
	}},
	{"a read writes nothing behind the units it returns", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(3, keyA))
		mark := cq.Unit{PhyOffset: 77, Size: 77, TagsCode: 77, StoreTimestampMs: 77}
		dst := []cq.Unit{mark, mark, mark, mark, mark}
		n, err := mustQueue(t, s, keyA).Read(1, dst)
		require.NoError(t, err)
		require.Contains(t, []int{1, 2}, n)
		for _, u := range dst[n:] {
			require.Equal(t, mark, u)
		}
		n, err = mustQueue(t, s, keyA).Read(1, nil)
		require.NoError(t, err)
		require.Zero(t, n)
	}},
	{"outside the bounds is a range error", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(5, keyA))
		for _, from := range []int64{-1, -1 << 62, 5, 6, 1 << 60} {
			n, err := mustQueue(t, s, keyA).Read(from, make([]cq.Unit, 1))
			require.ErrorIs(t, err, cq.ErrOffsetOutOfRange, "from %d", from)
			var re *cq.RangeError
			require.ErrorAs(t, err, &re)
			require.Equal(t, cq.RangeError{Key: keyA, Want: from, Min: 0, Max: 5}, *re)
			require.Zero(t, n)
		}
	}},
	{"an unknown queue leaves no trace", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(2, keyA))
		require.NoError(t, s.Flush(t.Context()))
		before := e.tree(t)
		unknown := []cq.Key{
			{Topic: "nobody", QueueID: 0},
			{Topic: keyA.Topic, QueueID: 5},
			{Topic: keyA.Topic, QueueID: -1},
			{Topic: "topic", QueueID: 0},
			{Topic: cq.LMQPrefix + "x", QueueID: 0},
			{Topic: "", QueueID: 0},
			{Topic: "..", QueueID: 0},
			{Topic: "a/b", QueueID: 0},
		}
		for _, k := range unknown {
			_, ok := s.Queue(k)
			require.False(t, ok, "queue %q", k)
		}
		require.Equal(t, []cq.Key{keyA}, keysOf(s))
		require.Equal(t, before, e.tree(t))
		s = e.reopen(t, s, OpenOptions{})
		require.Equal(t, []cq.Key{keyA}, keysOf(s))
	}},
	{"the snapshot of keys may be left early", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(12, allKeys...))
		n := 0
		for _, err := range s.Queues() {
			require.NoError(t, err)
			if n++; n == 2 {
				break
			}
		}
		require.Equal(t, 2, n)
	}},
}
