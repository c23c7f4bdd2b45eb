package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// W50: right after an expiry what lies below the queue's true minimum is out of range, and no later message is handed out for it.
func TestW50MinFollowsTheLogAtOnce(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		w := newWorld()
		s := openStore(t, t.TempDir(), w.in(o))
		fillLog(t, s, 3)
		k := cq.Key{Topic: "T"}
		q, ok := s.views.queues.Queue(k)
		require.True(t, ok)
		old := readUnits(t, q, 0, 10)
		for {
			_, first := unitsOf(t, s.Log(), o)
			b, ok, err := s.Bounds(k)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, first[k], b.Min)
			if b.Min > 0 {
				var r message.Record
				_, err := s.Log().Read(old[0].PhyOffset, old[0].Size, true, &r)
				require.ErrorIs(t, err, commitlog.ErrOffsetOutOfRange)
			}
			if _, _, err := s.writer.RemoveFirst(); err != nil { // without anything behind it
				break
			}
		}
		_, ok, err := s.Bounds(cq.Key{Topic: "none"})
		require.NoError(t, err)
		require.False(t, ok)
		require.NoError(t, s.Close())
	})
}

// FR-C01 and FR-C13: of a queue all of whose messages have gone, min is max, and both stay through restarts; the next message goes on there.
func TestFRC01QueueWithNothingLeft(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		w := newWorld()
		root := t.TempDir()
		o = w.in(o)
		s := openStore(t, root, o)
		for range 30 {
			_, err := s.Put(t.Context(), newMessage("early"))
			require.NoError(t, err)
		}
		fillLog(t, s, 3)
		require.Len(t, s.CleanNow(t.Context()).Removed, 3)
		requireTrimmed(t, s)
		k := cq.Key{Topic: "early"}
		for range 3 {
			b, ok, err := s.Bounds(k)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, [2]int64{30, 30}, [2]int64{b.Min, b.Max})
			require.NoError(t, s.Close())
			s = openStore(t, root, o)
		}
		require.Equal(t, int64(30), s.NextOffset("early", 0))
		r, err := s.Put(t.Context(), newMessage("early"))
		require.NoError(t, err)
		require.Equal(t, int64(30), r.Append.QueueOffset)
		awaitDispatch(t, s)
		requireExpired(t, s.Log(), s.views.queues, o)
		require.NoError(t, s.Close())
	})
}

// FR-C02: min moves inside a queue's only file.
func TestFRC02MinInsideTheOnlyFile(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		w := newWorld()
		o.MappedFileSizeConsumeQueue = 1 << 20
		s := openStore(t, t.TempDir(), w.in(o))
		fillLog(t, s, 2)
		require.Len(t, s.CleanNow(t.Context()).Removed, 2)
		requireTrimmed(t, s)
		b, _, err := s.Bounds(cq.Key{Topic: "T"})
		require.NoError(t, err)
		require.Positive(t, b.Min)
		require.NoError(t, s.Close())
	})
}

// FR-C06: a reader delays its own file alone, keeps what it reads, and shows in a count for as long as it does.
func TestFRC06ReaderKeepsItsFile(t *testing.T) {
	w := newWorld()
	s := openStore(t, t.TempDir(), w.in(viewOptions(StoreTypeFile)))
	fillLog(t, s, 3)
	before := s.Retention().Lingering
	var r message.Record
	release, err := s.Log().Read(0, 0, true, &r)
	require.NoError(t, err)
	body := string(r.Body)
	require.Len(t, s.CleanNow(t.Context()).Removed, 3)
	require.Equal(t, before+1, s.Retention().Lingering)
	require.Equal(t, body, string(r.Body))
	release()
	require.Equal(t, before, s.Retention().Lingering)
	require.NoError(t, s.Close())
}

// FR-C10: who asks for the minimum in whatever way gets the same, at any moment while files go.
func TestFRC10OneMinimum(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		w := newWorld()
		s := openStore(t, t.TempDir(), w.in(o))
		fillLog(t, s, 4)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			k, low := cq.Key{Topic: "T"}, int64(0)
			for {
				select {
				case <-stop:
					return
				default:
				}
				minPhy := s.Log().MinOffset()
				b, _, err := s.Bounds(k)
				if err != nil || b.Min < low || b.MinPhyOffset < minPhy {
					t.Errorf("min %d at %d, was %d and the log's min %d: %v", b.Min, b.MinPhyOffset, low, minPhy, err)
					return
				}
				low = b.Min
			}
		})
		require.Len(t, s.CleanNow(t.Context()).Removed, 4)
		close(stop)
		wg.Wait()
		requireTrimmed(t, s)
		require.NoError(t, s.Close())
	})
}

// What a view has not got is not removed: queues, durably; an index; queues that are being built again.
func TestViewsKeepWhatTheyNeed(t *testing.T) {
	w := newWorld()
	s := openStore(t, t.TempDir(), w.in(viewOptions(StoreTypeFile)))
	fillLog(t, s, 3)
	v := s.views
	v.flushing.Lock() // nothing becomes durable
	require.Contains(t, s.needed(1), "file queues are durable up to 0")
	v.flushing.Unlock()
	require.NoError(t, v.flush(t.Context()))
	require.Empty(t, s.needed(3*s.o.MappedFileSizeCommitLog))
	end := v.index.follow.from.Load()
	v.index.follow.from.Store(100)
	require.Contains(t, s.CleanNow(t.Context()).Kept.Why, "index has come to 100")
	v.index.follow.from.Store(end)
	v.view.brokenNow.Store(2)
	require.Contains(t, s.CleanNow(t.Context()).Kept.Why, "file queues: 2 of them are being built again")
	require.NoError(t, v.flush(t.Context()))
	v.view.brokenNow.Store(0)
	require.Len(t, s.CleanNow(t.Context()).Removed, 3)
	require.NoError(t, s.Close())

	o := w.in(putOptions())
	o.MappedFileSizeCommitLog = 1 << 14
	s = openStore(t, t.TempDir(), o)
	for s.Positions().Wrote < 2<<14 {
		_, err := s.Put(t.Context(), newMessage("T"))
		require.NoError(t, err)
	}
	require.NoError(t, s.Flush())
	require.Contains(t, s.CleanNow(t.Context()).Kept.Why, "no consume queues are built here")
	require.NoError(t, s.Close())
}

// Puts, removals, trims, restarts and kills in any order: queues and log agree after each, and no offset is ever given twice.
func TestRetentionAtRandom(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		for seed := range uint64(3) {
			r := rand.New(rand.NewPCG(seed, 1))
			w := newWorld()
			o := w.in(o)
			o.FlushDiskType = AsyncFlush
			root := t.TempDir()
			s := openStore(t, root, o)
			next := map[cq.Key]int64{}
			agree := func(what string) {
				t.Helper()
				awaitDispatch(t, s)
				for k, n := range next {
					require.Equal(t, n, s.NextOffset(k.Topic, k.QueueID), "%s, seed %d, %s", what, seed, k)
				}
				requireExpired(t, s.Log(), s.views.queues, o)
			}
			for range 40 {
				switch n := r.IntN(10); {
				case n < 5:
					topic := fmt.Sprintf("T%d", r.IntN(4))
					for range 1 + r.IntN(60) {
						m := plainMessage(topic, strings.Repeat("x", r.IntN(300)))
						m.QueueID = r.Int32N(2)
						res, err := s.Put(t.Context(), m)
						require.NoError(t, err)
						k := cq.Key{Topic: topic, QueueID: m.QueueID}
						require.Equal(t, next[k], res.Append.QueueOffset, "%s, seed %d", k, seed)
						next[k]++
					}
					require.NoError(t, s.Flush())
					agree("put")
				case n < 7:
					<-s.views.verified
					s.retention.s.o.DeleteFileBatchMax = 1 + r.IntN(3)
					s.CleanNow(t.Context())
					agree("clean")
				case n < 8:
					s.retention.trim(t.Context())
					agree("trim")
				case n < 9:
					require.NoError(t, s.Close())
					s = openStore(t, root, o)
					agree("restart")
				default:
					copied := crash(t, root)
					require.NoError(t, s.Close())
					root = copied
					s = openStore(t, root, o)
					agree("kill")
				}
			}
			require.NoError(t, s.Close())
		}
	})
}
