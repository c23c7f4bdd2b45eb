package store

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

func putTopic(t *testing.T, s *Store, topic string, n int) {
	t.Helper()
	for i := range n {
		m := plainMessage(topic, "body")
		m.QueueID = int32(i % 2)
		_, err := s.Put(t.Context(), m)
		require.NoError(t, err)
	}
}

func maxOffsetOf(t *testing.T, s *Store, topic string) int64 {
	t.Helper()
	at, err := s.MaxOffset(topic, 1)
	require.NoError(t, err)
	return at
}

// TestFRF03DeleteTopic deletes a topic right after a restart, before any of its queues was touched, and while its last messages are not dispatched; it begins anew at 0, and does not come back by a
// restart.
func TestFRF03DeleteTopic(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		putTopic(t, s, "gone", 40)
		putTopic(t, s, "T", 40)
		require.NoError(t, s.Close())

		s = openStore(t, root, o)
		<-s.views.verified
		n, err := s.DeleteTopic(t.Context(), "gone")
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Zero(t, maxOffsetOf(t, s, "gone"))
		n, err = s.DeleteTopic(t.Context(), "gone")
		require.NoError(t, err)
		require.Zero(t, n)
		requireNoQueues(t, s, "gone")
		require.NoError(t, s.Close())

		s = openStore(t, root, o)
		<-s.views.verified
		requireNoQueues(t, s, "gone")
		require.EqualValues(t, 20, maxOffsetOf(t, s, "T"))
		putTopic(t, s, "gone", 6)
		require.Eventually(t, func() bool { return maxOffsetOf(t, s, "gone") == 3 }, 30*time.Second, time.Millisecond)
		putTopic(t, s, "gone", 4) // not all of them dispatched
		_, err = s.DeleteTopic(t.Context(), "gone")
		require.NoError(t, err)
		putTopic(t, s, "gone", 2)
		require.Eventually(t, func() bool { return maxOffsetOf(t, s, "gone") == 1 }, 30*time.Second, time.Millisecond)
		require.Zero(t, s.views.view.brokenNow.Load())
		require.NoError(t, s.Close())

		s = openStore(t, root, o)
		<-s.views.verified
		require.EqualValues(t, 1, maxOffsetOf(t, s, "gone"))
		require.Zero(t, s.views.view.brokenNow.Load())
		require.EqualValues(t, 1, s.NextOffset("gone", 1))
		if o.RocksdbCQDoubleWriteEnable {
			r, err := s.CompareSides(t.Context(), "")
			require.NoError(t, err)
			require.Zero(t, r.Different, r.Differences)
			require.EqualValues(t, 42, r.Units)
		}
		require.NoError(t, s.Close())
	})
}

// TestDeletedTopicStaysAwayAfterAKill: what a kill right after the answer leaves has nothing of the topic, although all that was noted of its queues was noted before.
func TestDeletedTopicStaysAwayAfterAKill(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		<-s.views.verified
		putTopic(t, s, "T", 6)
		putTopic(t, s, "gone", 6)
		require.Eventually(t, func() bool { return maxOffsetOf(t, s, "gone") == 3 }, 30*time.Second, time.Millisecond)
		require.NoError(t, s.views.flush(t.Context()))
		_, err := s.DeleteTopic(t.Context(), "gone")
		require.NoError(t, err)
		left := copyOpen(t, root)
		require.NoError(t, s.Close())

		s = openStore(t, left, o)
		<-s.views.verified
		require.Zero(t, s.views.view.brokenNow.Load())
		requireNoQueues(t, s, "gone")
		require.EqualValues(t, 3, maxOffsetOf(t, s, "T"))
		require.NoError(t, s.Close())
	})
}

func requireNoQueues(t *testing.T, s *Store, topic string) {
	t.Helper()
	keys, err := s.Queues()
	require.NoError(t, err)
	for _, k := range keys {
		require.NotEqual(t, topic, k.Topic)
	}
}

// TestDeleteTopicThatIsHeldUp: what is not dispatched in time keeps the topic.
func TestDeleteTopicThatIsHeldUp(t *testing.T) {
	s := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	<-s.views.verified
	putTopic(t, s, "T", 4)
	require.Eventually(t, func() bool { return maxOffsetOf(t, s, "T") == 2 }, 30*time.Second, time.Millisecond)
	keys := []cq.Key{{Topic: "T"}, {Topic: "T", QueueID: 1}}
	got, err := s.queuesOf("T")
	require.NoError(t, err)
	require.Equal(t, keys, got)
	s.views.view.mu.Lock()
	putTopic(t, s, "T", 2)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = s.deleteQueue(ctx, keys[0])
	s.views.view.mu.Unlock()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Eventually(t, func() bool { return maxOffsetOf(t, s, "T") == 3 }, 30*time.Second, time.Millisecond)
	require.NoError(t, s.Close())
	_, err = s.DeleteTopic(t.Context(), "T")
	require.ErrorIs(t, err, ErrClosed)
}

func TestUnits(t *testing.T) {
	s := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	defer s.Close()
	putTopic(t, s, "T", 6)
	require.Eventually(t, func() bool { return maxOffsetOf(t, s, "T") == 3 }, 30*time.Second, time.Millisecond)
	var units [8]cq.Unit
	n, b, ok, err := s.Units("T", 1, 1, units[:])
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 2, n)
	require.EqualValues(t, 3, b.Max)
	n, _, ok, err = s.Units("T", 1, 3, units[:])
	require.NoError(t, err)
	require.True(t, ok)
	require.Zero(t, n)
	_, _, ok, err = s.Units("U", 0, 0, units[:])
	require.NoError(t, err)
	require.False(t, ok)
	_, err = s.CompareSides(t.Context(), "")
	require.ErrorIs(t, err, ErrNotCombined)
}
