package cqtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

var appendCases = []testCase{
	{"one unit at a time", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		for i := range 130 {
			ent := l.Put(allKeys[i%len(allKeys)])
			appendAll(t, s, []cq.Entry{ent})
			require.Equal(t, ent.QueueOffset+1, mustBounds(t, s, ent.Key).Max)
		}
		e.requireEqualsLog(t, s, l, 0)
	}},
	{"an empty batch is nothing", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		require.NoError(t, s.Append(t.Context(), nil))
		require.Empty(t, keysOf(s))
	}},
	{"the batch is not kept", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		batch := l.PutN(100, keyA, keyB)
		appendAll(t, s, batch)
		clear(batch)
		e.requireEqualsLog(t, s, l, 0)
		require.NoError(t, s.Flush(t.Context()))
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{}), l, 0)
	}},
	{"repeats are accepted and change nothing", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		batch := l.PutN(120, keyA, keyB)
		appendAll(t, s, batch)
		appendAll(t, s, batch)
		appendAll(t, s, batch[30:70])
		appendAll(t, s, append(append([]cq.Entry{}, batch[100:]...), l.PutN(40, keyA, keyB)...))
		e.requireEqualsLog(t, s, l, 0)
	}},
	{"repeats are accepted after a reopen", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		batch := l.PutN(120, keyA, keyB)
		appendAll(t, s, batch)
		s = e.reopen(t, s, OpenOptions{})
		appendAll(t, s, batch)
		appendAll(t, s, l.PutN(10, keyA, keyB))
		e.requireEqualsLog(t, s, l, 0)
	}},
	{"another unit in a taken slot is a conflict", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		batch := l.PutN(60, keyA)
		appendAll(t, s, batch)
		for name, change := range map[string]func(*cq.Unit){
			"position": func(u *cq.Unit) { u.PhyOffset++ },
			"size":     func(u *cq.Unit) { u.Size++ },
			"tags":     func(u *cq.Unit) { u.TagsCode++ },
		} {
			bad := batch[33]
			change(&bad.Unit)
			err := s.Append(t.Context(), []cq.Entry{bad})
			require.ErrorIs(t, err, cq.ErrDiverged, name)
			var ce *cq.ConflictError
			require.ErrorAs(t, err, &ce, name)
			require.Equal(t, keyA, ce.Key)
			require.EqualValues(t, 33, ce.QueueOffset)
			require.True(t, ce.Stored.SameRecord(batch[33].Unit), name)
			require.True(t, ce.New.SameRecord(bad.Unit), name)
		}
		e.requireEqualsLog(t, s, l, 0)
	}},
	{"a conflict keeps what was before it and nothing after", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		first := l.PutN(20, keyA)
		appendAll(t, s, first)
		before := l.PutN(4, keyA, keyB)
		bad := first[3]
		bad.Unit.Size++
		batch := append(append([]cq.Entry{}, before...), bad)
		lost := NewLog(l.end)
		lost.StartQueue(keyA, 22)
		batch = append(batch, lost.Put(keyA), lost.Put(keyLMQ))
		require.ErrorIs(t, s.Append(t.Context(), batch), cq.ErrDiverged)
		await(t, s) // what was accepted of it
		e.requireEqualsLog(t, s, l, 0)
		// The refusal is not a failed write: the store goes on.
		appendAll(t, s, l.PutN(6, keyA, keyB, keyLMQ))
		e.requireEqualsLog(t, s, l, 0)
	}},
	{"repeats and gaps are told from what was accepted, readable or not", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		batch := l.PutN(60, keyA, keyB)
		for from := 0; from < len(batch); from += 5 {
			require.NoError(t, s.Append(t.Context(), batch[max(0, from-3):from+5]))
		}
		far := NewLog(l.end)
		far.StartQueue(keyA, 31)
		require.ErrorIs(t, s.Append(t.Context(), []cq.Entry{far.Put(keyA)}), cq.ErrDiverged)
		bad := batch[58]
		bad.Unit.Size++
		require.ErrorIs(t, s.Append(t.Context(), []cq.Entry{bad}), cq.ErrDiverged)
		accepted, readable, durable := s.Progress()
		require.GreaterOrEqual(t, accepted, readable)
		require.GreaterOrEqual(t, readable, durable)
		await(t, s)
		e.requireEqualsLog(t, s, l, 0)
	}},
	{"a gap is refused and nothing of it is written", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(20, keyA, keyB))
		good := l.Put(keyA)
		far := NewLog(l.end)
		far.StartQueue(keyA, 12)
		gap := far.Put(keyA)
		err := s.Append(t.Context(), []cq.Entry{good, gap, far.Put(keyLMQ)})
		require.ErrorIs(t, err, cq.ErrDiverged)
		await(t, s)
		var ge *cq.GapError
		require.ErrorAs(t, err, &ge)
		require.Equal(t, cq.GapError{Key: keyA, Want: 12, Max: 11, PhyOffset: gap.Unit.PhyOffset}, *ge)
		e.requireEqualsLog(t, s, l, 0)
		require.NoError(t, s.Flush(t.Context()))
		s = e.reopen(t, s, OpenOptions{})
		e.requireEqualsLog(t, s, l, 0)
		appendAll(t, s, l.PutN(100, keyA, keyB))
		e.requireEqualsLog(t, s, l, 0)
	}},
	{"a queue may begin above slot 0", func(t *testing.T, e *env) {
		for _, start := range []int64{1, 20, 49, 50, 51, 137, 1_000_003} {
			k := cq.Key{Topic: "late", QueueID: int32(start)}
			s := e.open(t, OpenOptions{})
			l := NewLog(0) // the queue's first record may lie at physical offset 0
			l.StartQueue(k, start)
			batch := l.PutN(70, k)
			appendAll(t, s, batch[:1])
			require.Equal(t, cq.Bounds{
				Min: start, Max: start + 1, MinPhyOffset: 0,
				LastPhyOffset: 0, MaxPhyOffset: batch[0].Unit.End(),
			}, mustBounds(t, s, k))
			appendAll(t, s, batch[1:])
			check := func() {
				t.Helper()
				b := mustBounds(t, s, k)
				require.Equal(t, [2]int64{start, start + 70}, [2]int64{b.Min, b.Max})
				require.Len(t, readAll(t, mustQueue(t, s, k), b.Min, b.Max, 9), 70)
				for _, below := range []int64{0, start - 1} {
					n, err := mustQueue(t, s, k).Read(below, make([]cq.Unit, 100))
					require.NoError(t, err, "slot %d lies in the queue but holds no unit", below)
					require.Zero(t, n)
				}
			}
			check()
			// A slot below the first one is no longer stored: its repeat is accepted, unseen.
			old := batch[0]
			old.QueueOffset, old.Unit.Size = start-1, 91
			appendAll(t, s, []cq.Entry{old})
			check()
			require.NoError(t, s.Flush(t.Context()))
			s = e.reopen(t, s, OpenOptions{})
			check()
			appendAll(t, s, batch)
			appendAll(t, s, l.PutN(5, k))
			require.Equal(t, start+75, mustBounds(t, s, k).Max)
			require.NoError(t, s.Close())
		}
	}},
	{"progress follows append and flush", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		var last int64
		for range 3 {
			batch := l.PutN(10, keyA, keyB)
			last = batch[len(batch)-1].Unit.End()
			appendAll(t, s, batch)
			accepted, readable, durable := s.Progress()
			require.Equal(t, last, accepted)
			require.Equal(t, last, readable)
			require.LessOrEqual(t, durable, last)
			require.NoError(t, s.Flush(t.Context()))
			_, _, durable = s.Progress()
			require.Equal(t, last, durable)
		}
		require.Equal(t, last, s.DispatchFrom())
	}},
}
