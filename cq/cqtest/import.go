package cqtest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// runs cuts the units of the given keys into one run each: the part of its queue between slots lo and hi (exclusive,
// counted from the queue's first unit).
func (l *Log) runs(lo, hi int, keys ...cq.Key) []cq.Run {
	var out []cq.Run
	for _, k := range keys {
		from, units := l.Units(k)
		h := min(hi, len(units))
		if lo < h {
			out = append(out, cq.Run{Key: k, From: from + int64(lo), Units: slices.Clone(units[lo:h])})
		}
	}
	return out
}

// ends returns what Publish is told about a log of which nothing has expired.
func (l *Log) ends() []cq.QueueEnd {
	var out []cq.QueueEnd
	for _, k := range l.Keys() {
		from, units := l.Units(k)
		out = append(out, cq.QueueEnd{
			Key: k, Min: from, MinPhyOffset: units[0].PhyOffset,
			Max: from + int64(len(units)), LastPhyOffset: units[len(units)-1].PhyOffset,
		})
	}
	return out
}

// lastEnd returns the end of the last record that has a unit.
func (l *Log) lastEnd() int64 {
	end := int64(-1)
	for _, m := range l.units {
		for _, u := range m {
			end = max(end, u.End())
		}
	}
	return end
}

var importCases = []testCase{
	{"whole queues in one call", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		im := e.importer(t, s)
		l := NewLog(0)
		l.PutN(360, allKeys...)
		runs := l.runs(0, 1000, keyLMQ, keyB, keyA1, keyA, keyCur, keyRetry)
		require.NoError(t, im.Import(t.Context(), runs))
		for _, r := range runs {
			clear(r.Units) // not kept
		}
		require.NoError(t, im.Publish(t.Context(), l.ends(), l.lastEnd()))
		e.requireEqualsLog(t, s, l, 0)
		require.Equal(t, l.lastEnd(), s.DispatchFrom())
		s = e.reopen(t, s, OpenOptions{})
		e.requireEqualsLog(t, s, l, 0)
		require.Equal(t, l.lastEnd(), s.DispatchFrom())
	}},
	{"queues that begin above slot 0", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		im := e.importer(t, s)
		l := NewLog(5000)
		for i, k := range allKeys {
			l.StartQueue(k, []int64{1, 49, 50, 51, 137, 1_000_003}[i])
		}
		l.PutN(360, allKeys...)
		require.NoError(t, im.Import(t.Context(), l.runs(0, 1000, allKeys...)))
		require.NoError(t, im.Publish(t.Context(), l.ends(), l.lastEnd()))
		e.requireEqualsLog(t, s, l, 0)
		s = e.reopen(t, s, OpenOptions{MinPhyOffset: 5000})
		e.requireEqualsLog(t, s, l, 5000)
		appendAll(t, s, l.PutN(300, allKeys...))
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{MinPhyOffset: 5000}), l, 5000)
	}},
	{"a queue over several calls", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		im := e.importer(t, s)
		l := NewLog(0)
		l.StartQueue(keyB, 33)
		l.PutN(450, keyA, keyB, keyLMQ)
		lo := 0
		for _, n := range []int{1, 30, 19, 1, 49, 50} {
			require.NoError(t, im.Import(t.Context(), l.runs(lo, lo+n, keyLMQ, keyA)))
			require.NoError(t, im.Import(t.Context(), l.runs(lo, lo+n, keyB)))
			lo += n
		}
		require.Equal(t, 150, lo)
		require.NoError(t, im.Publish(t.Context(), l.ends(), l.lastEnd()))
		e.requireEqualsLog(t, s, l, 0)
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{}), l, 0)
	}},
	{"the whole import repeated", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		l.StartQueue(keyB, 33)
		l.PutN(450, keyA, keyB, keyLMQ)
		for range 3 {
			im := e.importer(t, s)
			require.NoError(t, im.Import(t.Context(), l.runs(0, 60, keyA, keyB, keyLMQ)))
			require.NoError(t, im.Import(t.Context(), l.runs(60, 150, keyA, keyB, keyLMQ)))
			require.NoError(t, im.Publish(t.Context(), l.ends(), l.lastEnd()))
			require.NoError(t, im.Publish(t.Context(), l.ends(), l.lastEnd()))
			e.requireEqualsLog(t, s, l, 0)
			s = e.reopen(t, s, OpenOptions{})
			e.requireEqualsLog(t, s, l, 0)
		}
	}},
	{"repeated from its beginning after a stop in the middle", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		l.StartQueue(keyB, 33)
		l.PutN(300, keyA, keyB)
		require.NoError(t, e.importer(t, s).Import(t.Context(), l.runs(0, 77, keyA, keyB)))
		s = e.reopen(t, s, OpenOptions{})
		im := e.importer(t, s)
		require.NoError(t, im.Import(t.Context(), l.runs(0, 150, keyA, keyB)))
		require.NoError(t, im.Publish(t.Context(), l.ends(), l.lastEnd()))
		e.requireEqualsLog(t, s, l, 0)
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{}), l, 0)
	}},
	{"resumed where it was stopped", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		l.StartQueue(keyB, 33)
		l.PutN(300, keyA, keyB)
		for lo := 0; lo < 150; lo += 25 {
			require.NoError(t, e.importer(t, s).Import(t.Context(), l.runs(lo, lo+25, keyA, keyB)))
			s = e.reopen(t, s, OpenOptions{})
		}
		require.NoError(t, e.importer(t, s).Publish(t.Context(), l.ends(), l.lastEnd()))
		e.requireEqualsLog(t, s, l, 0)
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{}), l, 0)
	}},
	{"a slot that holds another unit is overwritten", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		im := e.importer(t, s)
		wrong := NewLog(7)
		wrong.PutN(260, keyA, keyB)
		require.NoError(t, im.Import(t.Context(), wrong.runs(0, 130, keyA, keyB)))
		l := NewLog(100_000)
		l.PutN(300, keyA, keyB)
		require.NoError(t, im.Import(t.Context(), l.runs(0, 150, keyA, keyB)))
		require.NoError(t, im.Publish(t.Context(), l.ends(), l.lastEnd()))
		e.requireEqualsLog(t, s, l, 0)
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{}), l, 0)
	}},
	{"publish never lowers a max", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		im := e.importer(t, s)
		l := NewLog(0)
		l.PutN(160, keyA, keyB)
		early := l.ends()
		earlyEnd := l.lastEnd()
		require.NoError(t, im.Import(t.Context(), l.runs(0, 1000, keyA, keyB)))
		require.NoError(t, im.Publish(t.Context(), early, earlyEnd))
		appendAll(t, s, l.PutN(41, keyB, keyA))
		for range 2 {
			require.NoError(t, im.Publish(t.Context(), early, earlyEnd))
			e.requireEqualsLog(t, s, l, 0)
			s = e.reopen(t, s, OpenOptions{})
			im = e.importer(t, s)
			e.requireEqualsLog(t, s, l, 0)
		}
	}},
	{"an import beside queues that are in use", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		live, l := NewLog(0), NewLog(0)
		appendAll(t, s, live.PutN(120, keyA, keyLMQ))
		l.PutN(100, keyB)
		im := e.importer(t, s)
		require.NoError(t, im.Import(t.Context(), l.runs(0, 1000, keyB)))
		require.NoError(t, im.Publish(t.Context(), l.ends(), l.lastEnd()))
		for _, k := range live.Keys() {
			require.EqualValues(t, 60, mustBounds(t, s, k).Max)
		}
		require.EqualValues(t, 100, mustBounds(t, s, keyB).Max)
		require.Len(t, keysOf(s), 3)
	}},
	{"a queue of which no record is left is empty but advanced", func(t *testing.T, e *env) {
		const minPhy = 1 << 20
		for _, tc := range []struct {
			max, lastPhy int64
		}{{1, 0}, {49, 0}, {50, 0}, {51, 4711}, {77, 0}, {2000, minPhy - 500}} {
			k := cq.Key{Topic: "gone", QueueID: int32(tc.max)}
			s := e.open(t, OpenOptions{MinPhyOffset: minPhy})
			end := cq.QueueEnd{Key: k, Min: tc.max, MinPhyOffset: minPhy, Max: tc.max, LastPhyOffset: tc.lastPhy}
			for range 2 {
				require.NoError(t, e.importer(t, s).Publish(t.Context(), []cq.QueueEnd{end}, minPhy))
				for range 2 {
					b := mustBounds(t, s, k)
					require.Equal(t, [2]int64{tc.max, tc.max}, [2]int64{b.Min, b.Max})
					require.True(t, b.Empty())
					require.EqualValues(t, -1, b.MinPhyOffset)
					require.Contains(t, keysOf(s), k)
					_, err := mustQueue(t, s, k).Read(tc.max, make([]cq.Unit, 1))
					require.ErrorIs(t, err, cq.ErrOffsetOutOfRange)
					n, err := mustQueue(t, s, k).Read(tc.max-1, make([]cq.Unit, 1))
					require.NoError(t, err)
					require.Zero(t, n, "slot %d holds no unit", tc.max-1)
					s = e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy})
				}
			}
			l := NewLog(minPhy)
			l.StartQueue(k, tc.max)
			appendAll(t, s, l.PutN(60, k))
			for range 2 {
				b := mustBounds(t, s, k)
				require.Equal(t, [2]int64{tc.max, tc.max + 60}, [2]int64{b.Min, b.Max})
				require.EqualValues(t, minPhy, b.MinPhyOffset)
				require.Len(t, readAll(t, mustQueue(t, s, k), b.Min, b.Max, 7), 60)
				s = e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy})
			}
			require.NoError(t, s.Close())
		}
	}},
	{"an expired part is left out", func(t *testing.T, e *env) {
		// The source still stores units below the log's min; the import begins at the first one that can be served.
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		batch := l.PutN(300, keyA, keyB)
		minPhy := batch[120].Unit.PhyOffset
		s = e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy})
		im := e.importer(t, s)
		require.NoError(t, im.Import(t.Context(), l.runs(60, 150, keyA, keyB)))
		ends := l.ends()
		for i := range ends {
			_, units := l.Units(ends[i].Key)
			ends[i].Min, ends[i].MinPhyOffset = 60, units[60].PhyOffset
		}
		require.NoError(t, im.Publish(t.Context(), ends, l.lastEnd()))
		e.requireEqualsLog(t, s, l, minPhy)
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy}), l, minPhy)
	}},
	{"an older copy whose records are all gone is continued", func(t *testing.T, e *env) {
		// As after a way back: the target stopped at slot 40 long ago, the log now begins with the record of slot 200.
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		batch := l.PutN(260, keyA)
		appendAll(t, s, batch[:40])
		minPhy := batch[200].Unit.PhyOffset
		s = e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy})
		im := e.importer(t, s)
		require.NoError(t, im.Import(t.Context(), l.runs(200, 260, keyA)))
		end := cq.QueueEnd{Key: keyA, Min: 200, MinPhyOffset: minPhy, Max: 260, LastPhyOffset: batch[259].Unit.PhyOffset}
		require.NoError(t, im.Publish(t.Context(), []cq.QueueEnd{end}, l.lastEnd()))
		e.requireEqualsLog(t, s, l, minPhy)
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy}), l, minPhy)
	}},
	{"a dropped queue is gone with all its units", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(360, allKeys...))
		im := e.importer(t, s)
		for _, k := range []cq.Key{keyB, keyA1, keyLMQ, keyB, {Topic: "nobody", QueueID: 1}} {
			require.NoError(t, im.DropQueue(t.Context(), k), "drop %s", k)
			delete(l.units, k)
			e.requireEqualsLog(t, s, l, 0)
		}
		// It may begin anew, shorter, and shows nothing of what it was: in this store and in the next one.
		for i, k := range []cq.Key{keyB, keyLMQ} {
			l.StartQueue(k, int64(3*i))
			appendAll(t, s, l.PutN(5, k))
			e.requireEqualsLog(t, s, l, 0)
			s = e.reopen(t, s, OpenOptions{})
			e.requireEqualsLog(t, s, l, 0)
		}
	}},
	{"a queue that is in use gets its history below what it has", func(t *testing.T, e *env) {
		// As when units are written to both stores from some moment on and the older ones follow.
		s := e.open(t, OpenOptions{})
		im := e.importer(t, s)
		l := NewLog(0)
		old := l.PutN(3*170, keyA, keyB, keyLMQ)
		require.Len(t, old, 510)
		live := l.PutN(3*20, keyA, keyB, keyLMQ)
		appendAll(t, s, live[:30])
		require.NoError(t, im.Import(t.Context(), l.runs(0, 33, keyA, keyB)))
		require.NoError(t, im.Import(t.Context(), l.runs(10, 170, keyLMQ))) // its first ten have expired
		require.NoError(t, im.Import(t.Context(), l.runs(33, 170, keyA, keyB)))
		appendAll(t, s, live[30:])
		for slot := range int64(10) {
			delete(l.units[keyLMQ], slot)
		}
		ends := l.ends()
		for i := range ends {
			last := live[20]
			ends[i].Max, ends[i].LastPhyOffset = 177, last.Unit.PhyOffset // less than is there by now
		}
		require.NoError(t, im.Publish(t.Context(), ends, live[20].Unit.End()))
		e.requireEqualsLog(t, s, l, 0)
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{}), l, 0)
	}},
}
