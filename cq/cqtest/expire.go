package cqtest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// expirer returns the side of s that expires; a store without one passes these cases over.
func expirer(t *testing.T, s cq.Store) cq.Expirer {
	t.Helper()
	x, ok := s.(cq.Expirer)
	if !ok {
		t.Skip("the store does not expire")
	}
	return x
}

func mustExpire(t *testing.T, s cq.Store) cq.Expired {
	t.Helper()
	done, err := expirer(t, s).Expire(t.Context(), 0)
	require.NoError(t, err)
	return done
}

var expireCases = []testCase{
	{"min moves with the log at once", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(1000)
		batch := l.PutN(205, keyA, keyB)
		appendAll(t, s, batch)
		e.requireEqualsLog(t, s, l, 0)
		for _, minPhy := range []int64{
			999, batch[0].Unit.PhyOffset, batch[0].Unit.PhyOffset + 1, batch[1].Unit.PhyOffset + 1, batch[2].Unit.PhyOffset, batch[77].Unit.PhyOffset + 3,
			batch[78].Unit.End(), batch[150].Unit.PhyOffset, batch[203].Unit.PhyOffset, batch[203].Unit.PhyOffset + 1, batch[204].Unit.PhyOffset, l.end,
		} {
			require.NoError(t, expirer(t, s).SetMinPhyOffset(minPhy))
			e.requireEqualsLog(t, s, l, minPhy)
		}
		require.NoError(t, expirer(t, s).SetMinPhyOffset(0), "a log's min never falls")
		e.requireEqualsLog(t, s, l, l.end)
	}},
	{"expired units go and nothing else", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		batch := l.PutN(1500, keyA, keyA1, keyLMQ)
		appendAll(t, s, batch)
		for _, i := range []int{0, 1, 299, 300, 700, 1498} {
			minPhy := batch[i].Unit.PhyOffset
			require.NoError(t, expirer(t, s).SetMinPhyOffset(minPhy))
			mustExpire(t, s)
			e.requireEqualsLog(t, s, l, minPhy)
			require.Zero(t, mustExpire(t, s), "nothing is left to be done")
			s = e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy})
			e.requireEqualsLog(t, s, l, minPhy)
		}
	}},
	{"min moves inside the only file", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		batch := l.PutN(20, keyA)
		appendAll(t, s, batch)
		minPhy := batch[7].Unit.PhyOffset
		require.NoError(t, expirer(t, s).SetMinPhyOffset(minPhy))
		mustExpire(t, s)
		e.requireEqualsLog(t, s, l, minPhy)
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy}), l, minPhy)
	}},
	{"a queue whose records are all gone keeps its max", func(t *testing.T, e *env) {
		for _, n := range []int{1, 20, 50, 51, 99, 100, 250} { // at, before and behind the ends of files
			k := cq.Key{Topic: "gone", QueueID: int32(n)}
			s := e.open(t, OpenOptions{})
			l := NewLog(0)
			appendAll(t, s, l.PutN(n, k))
			for range 3 {
				require.NoError(t, expirer(t, s).SetMinPhyOffset(l.end))
				mustExpire(t, s)
				b := mustBounds(t, s, k)
				require.Equal(t, [2]int64{int64(n), int64(n)}, [2]int64{b.Min, b.Max}, "%s", k)
				require.EqualValues(t, -1, b.MinPhyOffset)
				require.NoError(t, s.Flush(t.Context()))
				s = e.reopen(t, s, OpenOptions{MinPhyOffset: l.end})
			}
			next := l.Put(k)
			appendAll(t, s, []cq.Entry{next})
			b := mustBounds(t, s, k)
			require.Equal(t, [2]int64{int64(n), int64(n) + 1}, [2]int64{b.Min, b.Max}, "%s", k)
			require.Equal(t, next.Unit.PhyOffset, b.MinPhyOffset)
			require.NoError(t, s.Close())
			e.dir = t.TempDir()
		}
	}},
	{"a queue that begins late", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		l.StartQueue(keyA, 73)
		batch := l.PutN(120, keyA)
		appendAll(t, s, batch)
		for _, i := range []int{0, 5, 90} {
			minPhy := batch[i].Unit.PhyOffset
			require.NoError(t, expirer(t, s).SetMinPhyOffset(minPhy))
			mustExpire(t, s)
			e.requireEqualsLog(t, s, l, minPhy)
			s = e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy})
			e.requireEqualsLog(t, s, l, minPhy)
		}
	}},
	{"what was not flushed outlives an expiry", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(120, keyA))
		minPhy := l.end
		appendAll(t, s, l.PutN(130, keyA))
		require.NoError(t, expirer(t, s).SetMinPhyOffset(minPhy))
		mustExpire(t, s)
		require.NoError(t, s.Flush(t.Context()))
		appendAll(t, s, l.PutN(60, keyA))
		require.NoError(t, s.Flush(t.Context()))
		e.requireEqualsLog(t, s, l, minPhy)
		e.requireEqualsLog(t, e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy}), l, minPhy)
	}},
	{"a cut after an expiry", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		batch := l.PutN(300, keyA, keyB)
		appendAll(t, s, batch)
		minPhy := batch[130].Unit.PhyOffset
		require.NoError(t, expirer(t, s).SetMinPhyOffset(minPhy))
		mustExpire(t, s)
		l.Cut(batch[200].Unit.PhyOffset)
		require.NoError(t, s.TruncateDirty(t.Context(), batch[200].Unit.PhyOffset))
		e.requireEqualsLog(t, s, l, minPhy)
		appendAll(t, s, l.PutN(100, keyA, keyB))
		e.requireEqualsLog(t, s, l, minPhy)
	}},
	{"reading and appending beside it", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		x := expirer(t, s)
		l := NewLog(0)
		appendAll(t, s, l.PutN(200, keyA))
		var wg sync.WaitGroup
		stop := make(chan struct{})
		var faults [2]error
		for i := range faults {
			wg.Go(func() {
				q, units := mustQueue(t, s, keyA), make([]cq.Unit, 10)
				for {
					select {
					case <-stop:
						return
					default:
					}
					b, err := q.Bounds()
					if err == nil && b.Min < b.Max {
						_, err = q.Read(b.Min, units)
					}
					if err != nil && !errors.Is(err, cq.ErrOffsetOutOfRange) {
						faults[i] = err
						return
					}
				}
			})
		}
		for range 40 {
			batch := l.PutN(50, keyA)
			appendAll(t, s, batch)
			require.NoError(t, x.SetMinPhyOffset(batch[0].Unit.PhyOffset))
			mustExpire(t, s)
			require.NoError(t, s.Flush(t.Context()))
		}
		close(stop)
		wg.Wait()
		for _, err := range faults {
			require.NoError(t, err)
		}
	}},
	{"at random", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		expirer(t, s)
		l, r := NewLog(0), rand.New(rand.NewPCG(5, 0))
		minPhy, keys := int64(0), []cq.Key{keyA, keyA1, keyB, keyLMQ}
		for range 60 {
			switch r.IntN(5) {
			case 0:
				s = e.reopen(t, s, OpenOptions{MinPhyOffset: minPhy})
			case 1:
				minPhy += r.Int64N(l.end - minPhy + 1)
				require.NoError(t, expirer(t, s).SetMinPhyOffset(minPhy))
			case 2:
				mustExpire(t, s)
			default:
				appendAll(t, s, l.PutN(1+r.IntN(120), keys[:1+r.IntN(len(keys))]...))
			}
			e.requireEqualsLog(t, s, l, minPhy)
		}
	}},
}
