package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// interleaved runs fn once, right after the inner deliver has let go of the view's lock and before the follower stores its position: where
// the goroutine that mends may get the lock.
type interleaved struct {
	lateView
	once sync.Once
	fn   func()
}

func (v *interleaved) deliver(ctx context.Context, b batch, end int64) error {
	err := v.lateView.deliver(ctx, b, end)
	v.once.Do(v.fn)
	return err
}

// TestMendGetsTheBatchBeingDelivered: mend ends between deliver and f.from.Store; the units that deliver left out of the broken queue are nowhere.
func TestMendGetsTheBatchBeingDelivered(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		o.MessageIndexEnable = false
		root := t.TempDir()
		s := openStore(t, root, o)
		for range 50 {
			_, err := s.Put(t.Context(), plainMessage("T", "body"))
			require.NoError(t, err)
		}
		awaitDispatch(t, s)
		v := s.views
		// Stop the store's own follower, and go on with one that is the same but for the interleaving.
		v.stop()
		v.running.Wait()
		k := cq.Key{Topic: "T"}
		v.view.onBroken = nil
		v.view.mu.Lock()
		v.view.breakLocked(k, errors.New("found short by verify"))
		v.view.mu.Unlock()
		for range 5 {
			_, err := s.Put(t.Context(), plainMessage("T", "body"))
			require.NoError(t, err)
		}
		w := &interleaved{lateView: v.view, fn: func() {
			require.NoError(t, v.view.mend(t.Context(), s.Log()))
		}}
		v.follow.view = w
		require.NoError(t, v.follow.catchUp(t.Context(), s.Positions().Confirm, nil))
		require.NoError(t, s.Close()) // and the abort mark is taken away
		require.NoFileExists(t, NewLayout(root).AbortPath())
		requireWhole(t, root, o)
	})
}

// failingAppend fails the first Append of a batch once.
type failingAppend struct {
	cq.Store
	mu   sync.Mutex
	left int
}

func (f *failingAppend) Append(ctx context.Context, batch []cq.Entry) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left > 0 {
		f.left--
		return errors.New("a passing error")
	}
	return f.Store.Append(ctx, batch)
}

// TestMendGetsTheBatchBeingRetried: a batch that failed is delivered again without the units of a queue that was broken then and is mended now.
func TestMendGetsTheBatchBeingRetried(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		o.MessageIndexEnable = false
		root := t.TempDir()
		s := openStore(t, root, o)
		for range 50 {
			_, err := s.Put(t.Context(), plainMessage("T", "body"))
			require.NoError(t, err)
		}
		awaitDispatch(t, s)
		v := s.views
		v.stop()
		v.running.Wait()
		k := cq.Key{Topic: "T"}
		v.view.onBroken = nil
		v.view.mu.Lock()
		v.view.breakLocked(k, errors.New("found short by verify"))
		v.view.mu.Unlock()
		for range 5 {
			for _, topic := range []string{"T", "U"} {
				_, err := s.Put(t.Context(), plainMessage(topic, "body"))
				require.NoError(t, err)
			}
		}
		real := v.view.queues
		v.view.queues = &failingAppend{Store: real, left: 1}
		w := &interleaved{lateView: v.view, fn: func() {
			v.view.queues = real
			require.NoError(t, v.view.mend(t.Context(), s.Log()))
		}}
		v.follow.view = w
		require.NoError(t, v.follow.catchUp(t.Context(), s.Positions().Confirm, nil))
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(root).AbortPath())
		requireWhole(t, root, o)
	})
}

// TestBatchTopicOffsetsGoOn: with consume queues the offsets of batch topics begin at 0 after each open.
func TestBatchTopicOffsetsGoOn(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.IsBatchTopic = func(topic string) bool { return topic == "B" }
	root := t.TempDir()
	s := openStore(t, root, o)
	for i := range 3 {
		r, err := s.Put(t.Context(), plainMessage("B", "body"))
		require.NoError(t, err)
		require.EqualValues(t, i, r.Append.QueueOffset)
	}
	require.NoError(t, s.Close())
	s = openStore(t, root, o)
	r, err := s.Put(t.Context(), plainMessage("B", "body"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.EqualValues(t, 3, r.Append.QueueOffset)
}

// TestLightOffsetsGoOn: enableLmq without enableMultiDispatch: offsets of light queues begin at 0 after each open with file queues.
func TestLightOffsetsGoOn(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.EnableMultiDispatch = false
	root := t.TempDir()
	s := openStore(t, root, o)
	put := func() {
		m := plainMessage("T", "body")
		m.Properties = message.AppendProperty(nil, message.PropertyMultiDispatch, "%LMQ%a")
		_, err := s.Put(t.Context(), m)
		require.NoError(t, err)
	}
	for range 3 {
		put()
	}
	require.EqualValues(t, 3, s.NextOffset("%LMQ%a", 0))
	require.NoError(t, s.Close())
	s = openStore(t, root, o)
	got := s.NextOffset("%LMQ%a", 0)
	require.NoError(t, s.Close())
	require.EqualValues(t, 3, got)
}

// TestStaleQueueOffsetsNoteIsNotBelieved: the log loses its end (restored from a backup), the note stays; a later kill makes it count again.
func TestStaleQueueOffsetsNoteIsNotBelieved(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := t.TempDir()
	s := openStore(t, root, o)
	for range 20 {
		_, err := s.Put(t.Context(), plainMessage("T", "body"))
		require.NoError(t, err)
	}
	require.NoError(t, s.Flush())
	backup := t.TempDir()
	require.NoError(t, os.CopyFS(backup, os.DirFS(NewLayout(root).CommitLogDir())))
	for range 20 {
		_, err := s.Put(t.Context(), plainMessage("T", "body"))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close()) // note: T/0 40 at the log's end
	require.NoError(t, os.RemoveAll(NewLayout(root).CommitLogDir()))
	require.NoError(t, os.CopyFS(NewLayout(root).CommitLogDir(), os.DirFS(backup)))
	_, err := Open(root, o)
	require.ErrorIs(t, err, commitlog.ErrCorrupt, "it has lost its end")
	require.NoError(t, os.Remove(NewLayout(root).CheckpointPath())) // who promised that is gone
	s = openStore(t, root, o)
	require.EqualValues(t, 20, s.NextOffset("T", 0))
	for range 40 { // the log passes the note's position
		_, err := s.Put(t.Context(), plainMessage("U", "another body, of another length"))
		require.NoError(t, err)
	}
	awaitDispatch(t, s)
	copied := crash(t, root) // kill -9
	require.NoError(t, s.Close())
	s, err = Open(copied, o)
	require.NoError(t, err)
	r, err := s.Put(t.Context(), plainMessage("T", "body"))
	require.NoError(t, err)
	cerr := s.Close()
	require.EqualValues(t, 20, r.Append.QueueOffset)
	require.NoError(t, cerr)
	requireWhole(t, copied, o)
}

// TestLogWithAGapOpens: offsets in the log have a gap (5.5.0: a light queue named twice; damage in an old file): the store opens all the same.
func gapStore(t *testing.T, o Options, root string, to int64) {
	s := openStore(t, root, o)
	for range 5 {
		_, err := s.Put(t.Context(), plainMessage("T", "body"))
		require.NoError(t, err)
	}
	awaitDispatch(t, s)
	i := s.offsets.Stripe("T", 0)
	s.offsets.Lock(i)
	*s.offsets.rowLocked(i, "T", 0) = to // as in a log of 5.5.0
	s.offsets.Unlock(i)
	for range 3 {
		for _, topic := range []string{"T", "U"} {
			_, err := s.Put(t.Context(), plainMessage(topic, "body"))
			require.NoError(t, err)
		}
	}
	t.Log("first Close:", s.Close())
}

func TestLogWithAGapOpens(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		gapStore(t, o, root, 7)
		s, err := Open(root, o)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	})
}

// TestDamageInOldFileAndLostQueues: a damaged record in an older file and queues that have to be built: the store does not open.
func TestDamageInOldFileAndLostQueues(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		putSome(t, s, 200)
		require.NoError(t, s.Close())
		path := filepath.Join(NewLayout(root).CommitLogDir(), "00000000000000016384")
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		copy(b[4:], "????")
		require.NoError(t, os.WriteFile(path, b, 0o644))
		require.NoError(t, os.RemoveAll(NewLayout(root).ConsumeQueueDir()))
		if dir, _, found, _ := NewLayout(root).FindRocks(); found {
			require.NoError(t, os.RemoveAll(dir))
		}
		s, err = Open(root, o)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	})
}

// TestNegativeOffsetInLog: 5.5.0 writes negative queue offsets (W3): the store opens.
func TestPoisonOffsets(t *testing.T) {
	for _, off := range []int64{-25536, 1 << 62, 1<<63 - 1} {
		forEachKind(t, func(t *testing.T, o Options) {
			root := t.TempDir()
			ob := o
			ob.BuildConsumeQueues = false
			s := openStore(t, root, ob)
			_, err := s.Put(t.Context(), plainMessage("T", "body"))
			require.NoError(t, err)
			i := s.offsets.Stripe("T", 0)
			s.offsets.Lock(i)
			*s.offsets.rowLocked(i, "T", 0) = off
			s.offsets.Unlock(i)
			_, err = s.Put(t.Context(), plainMessage("T", "body"))
			require.NoError(t, err)
			_, err = s.Put(t.Context(), plainMessage("U", "body"))
			require.NoError(t, err)
			require.NoError(t, s.Close())
			s, err = Open(root, o)
			require.NoError(t, err, "offset %d", off)
			require.NoError(t, s.Close())
		})
	}
}

// TestOffsetsOfATopicMadeAnew: a topic that was deleted and made again (5.5.0: offsets begin at 0) and whose queues have to be built from the log.
func TestOffsetsOfATopicMadeAnew(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		ob := o
		ob.BuildConsumeQueues = false
		s := openStore(t, root, ob)
		for range 10 {
			_, err := s.Put(t.Context(), plainMessage("T", "old"))
			require.NoError(t, err)
		}
		i := s.offsets.Stripe("T", 0)
		s.offsets.Lock(i)
		*s.offsets.rowLocked(i, "T", 0) = 0
		s.offsets.Unlock(i)
		for range 3 {
			_, err := s.Put(t.Context(), plainMessage("T", "new"))
			require.NoError(t, err)
		}
		require.NoError(t, s.Close())
		s, err := Open(root, o)
		require.NoError(t, err)
		q, _ := s.views.queues.Queue(cq.Key{Topic: "T"})
		b, err := q.Bounds()
		require.NoError(t, err)
		r, err := s.Put(t.Context(), plainMessage("T", "after"))
		require.NoError(t, err)
		awaitDispatch(t, s)
		c := s.views.view.conflicts.Load()
		require.NoError(t, s.Close())
		require.GreaterOrEqual(t, r.Append.QueueOffset, b.Max, "the put got a slot that is taken; conflicts %d", c)
	})
}
