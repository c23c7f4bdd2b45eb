package store

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/logtest"
)

// countingTail counts how often a follower asks for more.
type countingTail struct {
	*commitlog.Writer
	asked atomic.Int64
}

func (c *countingTail) AwaitConfirm(ctx context.Context, from int64, uncommitted bool) bool {
	c.asked.Add(1)
	return c.Writer.AwaitConfirm(ctx, from, uncommitted)
}

// TestW18DispatchSleeps: dispatch is woken by what there is to do, and asks for it once.
func TestW18DispatchSleeps(t *testing.T) {
	s := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	tail := &countingTail{Writer: s.writer}
	f := newFollower(new(kept), s.Log(), slog.New(slog.DiscardHandler), 0)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.run(ctx, tail)
	}()
	for i := int64(1); i <= 3; i++ {
		_, err := s.Put(t.Context(), plainMessage("T", "body"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return f.from.Load() == s.Positions().Confirm && tail.asked.Load() == i+1 }, 5*time.Second, time.Millisecond)
		time.Sleep(20 * time.Millisecond) // nothing to do
		require.Equal(t, i+1, tail.asked.Load())
	}
	cancel()
	<-ended
	require.NoError(t, s.Close())
}

// TestW35NothingBehindMeansDone: the position of dispatch moves when the units are there, not before.
func TestW35NothingBehindMeansDone(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		s := openStore(t, t.TempDir(), o)
		for range 300 {
			_, err := s.Put(t.Context(), plainMessage("T", "body"))
			require.NoError(t, err)
			if s.views.behind() > 0 {
				continue
			}
			require.NoError(t, s.views.queues.AwaitReadable(t.Context()))
			q, ok := s.views.queues.Queue(cq.Key{Topic: "T"})
			require.True(t, ok)
			b, err := q.Bounds()
			require.NoError(t, err)
			require.Equal(t, s.NextOffset("T", 0), b.Max)
		}
		v, stands := s.views, make(chan struct{})
		v.view.mu.Lock() // delivery stands
		_, err := s.Put(t.Context(), plainMessage("T", "body"))
		require.NoError(t, err)
		go func() {
			time.Sleep(20 * time.Millisecond)
			close(stands)
		}()
		<-stands
		require.Positive(t, v.behind())
		v.view.mu.Unlock()
		awaitDispatch(t, s)
		require.NoError(t, s.Close())
	})
}

// TestW36CloseDrainsTheGroups: what was accepted is in the queues when the store is closed.
func TestW36CloseDrainsTheGroups(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		for range 3 {
			s := openStore(t, root, o)
			putSome(t, s, 300)
			end := s.Positions().Wrote
			require.NoError(t, s.Close())
			requireWhole(t, root, o)
			s = openStore(t, root, o)
			require.Equal(t, end, s.views.queues.DispatchFrom())
			require.NoError(t, s.Close())
		}
	})
}

// TestW17ReadsMakeNoQueue: whatever is asked of a queue that nobody put to, there is none afterwards, in memory or on disk.
func TestW17ReadsMakeNoQueue(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		putSome(t, s, 3)
		awaitDispatch(t, s)
		require.NoError(t, s.views.flush(t.Context()))
		keys, err := cq.SortedKeys(s.views.queues)
		require.NoError(t, err)
		for _, k := range []cq.Key{{Topic: "nobody"}, {Topic: "T", QueueID: 9}, {Topic: "%LMQ%nobody"}} {
			require.NoError(t, s.Get(&GetRequest{Topic: k.Topic, QueueID: k.QueueID, Offset: 0, MaxMessages: 1}, new(GetResult)))
			require.Zero(t, s.NextOffset(k.Topic, k.QueueID))
			require.Equal(t, QueueState{Ready: true}, s.QueueState(k))
			require.Nil(t, s.offsets.rowLocked(s.offsets.Stripe(k.Topic, k.QueueID), k.Topic, k.QueueID))
		}
		now, err := cq.SortedKeys(s.views.queues)
		require.NoError(t, err)
		require.Equal(t, keys, now)
		require.NoError(t, s.Close())
		require.NoDirExists(t, NewLayout(root).ConsumeQueueDir()+"/nobody")
		requireWhole(t, root, o)
	})
}

// Records that RocketMQ gives to further dispatchers are served like all others.
func TestRecordsOfOtherDispatchers(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		for option, topics := range map[string][]string{
			"transRocksDBEnable": {"RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"},
			"timerRocksDBEnable": {"rmq_sys_wheel_timer"},
			"enableCompaction":   {"a_compacted_topic"},
		} {
			root := t.TempDir()
			s := openStore(t, root, o)
			for _, topic := range topics {
				for i := range 3 {
					r, err := s.Put(t.Context(), plainMessage(topic, "body"))
					require.NoError(t, err)
					require.EqualValues(t, i, r.Append.QueueOffset)
				}
			}
			awaitDispatch(t, s)
			for _, topic := range topics {
				var res GetResult
				require.NoError(t, s.Get(&GetRequest{Topic: topic, MaxMessages: 32}, &res))
				require.Equal(t, GetFound, res.Status)
				require.Len(t, res.Messages, 3)
				res.Release()
			}
			require.NoError(t, s.Close())
			requireWhole(t, root, o)
			_, notes, err := ParseOptions(map[string]string{option: "true"})
			require.NoError(t, err)
			require.Contains(t, notes[0].String(), "stored and served like others")
		}
	})
}

// Topics of batch queues are refused by name: their messages are kept and counted, reads say why there are none, and the log names the topic once.
func TestBatchQueuesAreRefusedByName(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		var log logtest.Log
		o.Logger = log.Logger()
		o.IsBatchTopic = func(topic string) bool { return topic == "a_batch_topic" }
		root := t.TempDir()
		s := openStore(t, root, o)
		for i := range 3 {
			r, err := s.Put(t.Context(), plainMessage("a_batch_topic", "body"))
			require.NoError(t, err)
			require.EqualValues(t, i, r.Append.QueueOffset)
		}
		awaitDispatch(t, s)
		require.ErrorIs(t, s.Get(&GetRequest{Topic: "a_batch_topic", MaxMessages: 32}, new(GetResult)), ErrBatchQueue)
		require.NoError(t, s.Close())
		require.Equal(t, 1, strings.Count(log.String(), "batch queues are not supported"), log.String())
		require.Contains(t, log.String(), "topic=a_batch_topic")
		s = openStore(t, root, o)
		require.EqualValues(t, 3, s.NextOffset("a_batch_topic", 0))
		require.NoError(t, s.Close())
	})
}
