package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

func subscribe(t testing.TB, s *Store) *Subscription {
	t.Helper()
	u, err := s.SubscribeArrivals()
	require.NoError(t, err)
	return u
}

// Each message is told of once it can be read, queue by queue in order, with what its unit has.
func TestArrivalsCanBeRead(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		s := openStore(t, t.TempDir(), o)
		defer s.Close()
		u := subscribe(t, s)
		defer u.Close()
		putSome(t, s, 60)
		light := "%LMQ%a"
		want := map[cq.Key]int64{{Topic: "T"}: 60, {Topic: "T", QueueID: 1}: 60, {Topic: light}: 40, {Topic: "%LMQ%b0"}: 20, {Topic: "%LMQ%b1"}: 20}
		told := map[cq.Key]int64{}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var res GetResult
		var batch []Arrival
		for left := 200; left > 0; {
			var err error
			batch, err = u.Next(ctx, batch)
			require.NoError(t, err)
			for i := range batch {
				a := &batch[i]
				require.True(t, a.Single())
				require.Equal(t, told[a.Key], a.From, "%v", a.Key)
				told[a.Key] = a.MaxOffset
				left--
				get(t, s, GetRequest{Topic: a.Key.Topic, QueueID: a.Key.QueueID, Offset: a.From, MaxMessages: 1}, &res)
				require.Equal(t, GetFound.String(), res.Status.String(), "%v at %d", a.Key, a.From)
				require.Equal(t, a.PhyOffset, res.Messages[0].PhyOffset)
				require.Len(t, res.Messages[0].Record, int(a.Size))
				var r message.Record
				require.NoError(t, r.Decode(res.Messages[0].Record, true))
				require.Equal(t, r.StoreTimestampMs, a.StoreTimestampMs)
				require.Equal(t, r.TagsCode(nil), a.TagsCode)
			}
		}
		require.Equal(t, want, told)
		res.Release()
	})
}

// Whoever does not ask holds up nothing and takes memory by queues; nothing is left out.
func TestArrivalsAreFoldedForASlowListener(t *testing.T) {
	s := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	defer s.Close()
	u := subscribe(t, s)
	defer u.Close()
	const queues, each = 3, foldArrivals
	for i := range queues * each {
		m := plainMessage("T", "body")
		m.QueueID = int32(i % queues)
		_, err := s.Put(t.Context(), m)
		require.NoError(t, err)
	}
	awaitDispatch(t, s)
	batch, err := u.Next(t.Context(), nil)
	require.NoError(t, err)
	require.Less(t, len(batch), 2*foldArrivals)
	next := map[cq.Key]int64{}
	for i := range batch {
		a := &batch[i]
		require.Equal(t, next[a.Key], a.From)
		next[a.Key] = a.MaxOffset
	}
	for q := range int32(queues) {
		require.EqualValues(t, each, next[cq.Key{Topic: "T", QueueID: q}])
	}
	require.False(t, batch[0].Single())
}

// noted is a batch of one message each for that many queues.
func noted(queues int) []cq.Entry {
	batch := make([]cq.Entry, queues)
	for i := range batch {
		batch[i] = cq.Entry{Key: cq.Key{Topic: fmt.Sprintf("topic%d", i/8), QueueID: int32(i % 8)}}
	}
	return batch
}

// 100,000 queues, each with a reader that waits, are told of with memory by their number, however many messages come.
func TestArrivalsOfManyQueues(t *testing.T) {
	var a arrivals
	u, err := a.subscribe()
	require.NoError(t, err)
	batch := noted(100_000)
	for round := range int64(10) {
		for i := range batch {
			batch[i].QueueOffset = round
		}
		for i := 0; i < len(batch); i += followBatchRecords {
			a.note(batch[i:min(i+followBatchRecords, len(batch))])
		}
	}
	told, err := u.Next(t.Context(), nil)
	require.NoError(t, err)
	require.LessOrEqual(t, len(told), 2*len(batch)+foldArrivals)
	ends := map[cq.Key]int64{}
	for i := range told {
		require.Equal(t, ends[told[i].Key], told[i].From)
		ends[told[i].Key] = told[i].MaxOffset
	}
	require.Len(t, ends, len(batch))
	for k, end := range ends {
		require.EqualValues(t, 10, end, "%v", k)
	}
}

func TestArrivalsTakeNoMemory(t *testing.T) {
	var a arrivals
	batch := noted(1000)
	require.Zero(t, testing.AllocsPerRun(10, func() { a.note(batch) }), "nobody listens")
	u, err := a.subscribe()
	require.NoError(t, err)
	var told, other []Arrival
	once := func() {
		a.note(batch)
		told, _ = u.Next(t.Context(), other)
		told, other = other, told
	}
	once()
	once()
	require.Zero(t, testing.AllocsPerRun(10, once), "a listener that keeps up")
}

// A queue that lacked units when messages came for it is told of when it is whole: a reader that looked in between waits no longer.
func TestArrivalsOfAMendedQueue(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		o.MessageIndexEnable = false
		s := openStore(t, t.TempDir(), o)
		defer s.Close()
		put := func(n int) {
			for range n {
				_, err := s.Put(t.Context(), plainMessage("T", "body"))
				require.NoError(t, err)
			}
		}
		put(5)
		awaitDispatch(t, s)
		v, k := s.views.view, cq.Key{Topic: "T"}
		v.mending.Lock()
		v.mu.Lock()
		v.breakLocked(k, errors.New("found short by verify"))
		v.mu.Unlock()
		u := subscribe(t, s)
		defer u.Close()
		put(3)
		require.Eventually(t, func() bool { return s.views.behind() == 0 }, 20*time.Second, time.Millisecond)
		for told := int64(0); told < 8; { // too early
			batch, err := u.Next(t.Context(), nil)
			require.NoError(t, err)
			told = batch[len(batch)-1].MaxOffset
		}
		v.mending.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		batch, err := u.Next(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, []Arrival{{Key: k, MaxOffset: 8, PhyOffset: -1}}, batch)
		end, err := s.MaxOffset("T", 0)
		require.NoError(t, err)
		require.EqualValues(t, 8, end)
	})
}

func TestSubscriptionEnds(t *testing.T) {
	s := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	one, two := subscribe(t, s), subscribe(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := one.Next(ctx, nil)
	require.ErrorIs(t, err, context.Canceled)

	// What was told before it was closed is still there.
	putSome(t, s, 1)
	awaitDispatch(t, s)
	one.Close()
	one.Close()
	batch, err := one.Next(t.Context(), nil)
	require.NoError(t, err)
	require.NotEmpty(t, batch)
	_, err = one.Next(t.Context(), nil)
	require.ErrorIs(t, err, ErrClosed)

	batch, err = two.Next(t.Context(), nil)
	require.NoError(t, err)
	require.NotEmpty(t, batch)
	ended := make(chan error)
	go func() {
		_, err := two.Next(t.Context(), nil)
		ended <- err
	}()
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-ended, ErrClosed)
	_, err = s.SubscribeArrivals()
	require.ErrorIs(t, err, ErrClosed)

	s = openStore(t, t.TempDir(), putOptions())
	defer s.Close()
	_, err = s.SubscribeArrivals()
	require.ErrorContains(t, err, "buildConsumeQueues")
}

// BenchmarkArrival is the time from before a put until a subscriber has been told that it can be read.
func BenchmarkArrival(b *testing.B) {
	for _, kind := range viewKinds {
		b.Run("impl="+string(kind), func(b *testing.B) {
			o := DefaultOptions()
			o.StoreType = kind
			s, err := Open(b.TempDir(), o)
			if errors.Is(err, cq.ErrNoRocksDB) {
				b.Skip(err)
			}
			require.NoError(b, err)
			defer s.Close()
			u := subscribe(b, s)
			var batch []Arrival
			m := plainMessage("T", "body")
			for b.Loop() {
				if _, err := s.Put(b.Context(), m); err != nil {
					b.Fatal(err)
				}
				if batch, err = u.Next(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
