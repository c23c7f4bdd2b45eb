package store

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// While RocksDB is held, a light queue that it alone has is not there, which is no reason to build it by itself: dispatch would leave out its units when the hold ends, and
// RocksDB's row would speak of them.
func TestLightQueuesOfAHeldSideAreNotBroken(t *testing.T) {
	needRocksDB(t)
	o := combineOptions()
	o.MessageIndexEnable = false
	root := filledStore(t, only(o, StoreTypeFile), 100)
	o.CombineCQUseRocksdbForLmq = true
	o.CombineCQPreferCQType, o.CombineAssignOffsetCQType = StoreTypeRocksDB, StoreTypeFile
	og, g := gated(o, 0)
	s := openStore(t, root, og)
	defer s.Close()
	defer g.release()
	require.True(t, s.views.sides.store.Held(cq.KindRocks))
	m := plainMessage("T", "to a light queue")
	m.Properties = message.AppendProperty(nil, message.PropertyMultiDispatch, "%LMQ%a")
	s.views.view.mending.Lock() // what is broken stays so
	_, err := s.Put(t.Context(), m)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.views.behind() == 0 }, 20*time.Second, time.Millisecond)
	broken := s.views.view.brokenNow.Load()
	s.views.view.mending.Unlock()
	require.Zero(t, broken)
	g.release()
	awaitSides(t, s)
	require.NoError(t, s.Close())
	v, err := OpenView(root, ViewOptions{Kind: cq.KindRocks})
	require.NoError(t, err)
	defer v.Close()
	q, ok := v.Queues.Queue(cq.Key{Topic: "%LMQ%a"})
	require.True(t, ok)
	b, err := q.Bounds()
	require.NoError(t, err)
	require.EqualValues(t, 69, b.Max)
}

// Queues that RocksDB alone lacks units of are noted, as its row speaks of all its queues: who opens it alone builds them, a store with files alone keeps the note.
func TestQueuesShortInRocksDBAreNoted(t *testing.T) {
	needRocksDB(t)
	o := combineOptions()
	o.MessageIndexEnable = false
	k := cq.Key{Topic: "T", QueueID: 1}
	lost := errors.New("lost")
	noted := func(t *testing.T) (root string) {
		root = filledStore(t, o, 100)
		s := openStore(t, root, o)
		defer s.Close()
		awaitSides(t, s)
		s.views.sides.mending.Lock() // nobody mends it
		unlock := sync.OnceFunc(s.views.sides.mending.Unlock)
		defer unlock()
		s.views.sides.store.MarkDiverged(cq.KindRocks, k, lost)
		putSome(t, s, 1)
		require.Eventually(t, func() bool {
			b, err := os.ReadFile(s.layout.brokenQueuesPath())
			return err == nil && string(b) == `{"queues":[{"topic":"T","queueId":1,"side":"rocks"}]}`+"\n"
		}, 20*time.Second, time.Millisecond)
		require.NoError(t, s.views.queues.Flush(t.Context()))
		s.views.stop()
		unlock()
		s.views.running.Wait()
		return copyOpen(t, root)
	}
	t.Run("RocksDB alone", func(t *testing.T) {
		root := noted(t)
		one := only(o, StoreTypeRocksDB)
		s := openStore(t, root, one)
		defer s.Close()
		require.NoError(t, s.awaitViews(t.Context()))
		require.EqualValues(t, 101, s.NextOffset("T", 1))
		require.Len(t, readAll(t, s, "T", 1), 101)
		require.NoError(t, s.Close())
		require.NoFileExists(t, s.layout.brokenQueuesPath())
		requireWhole(t, root, one)
	})
	t.Run("files alone, then RocksDB", func(t *testing.T) {
		root := noted(t)
		for _, kind := range []StoreType{StoreTypeFile, StoreTypeRocksDB} {
			s := openStore(t, root, only(o, kind))
			if kind == StoreTypeFile { // a note of its own comes and goes
				s.views.view.mu.Lock()
				s.views.view.breakLocked(cq.Key{Topic: "T"}, lost)
				s.views.view.mu.Unlock()
			}
			awaitDispatch(t, s)
			require.NoError(t, s.awaitViews(t.Context()))
			require.EqualValues(t, 101, s.NextOffset("T", 1))
			require.NoError(t, s.Close())
			requireWhole(t, root, only(o, kind))
		}
	})
	t.Run("combined", func(t *testing.T) {
		root := noted(t)
		s := openStore(t, root, o)
		defer s.Close()
		awaitSides(t, s)
		require.NoError(t, s.Close())
		require.NoFileExists(t, s.layout.brokenQueuesPath())
		requireWhole(t, root, o)
	})
}

// A queue diverges in the middle of one Append, RocksDB flushes what came behind it, and the process is killed before the queue is noted: who opens RocksDB alone finds that it lacks a unit,
// since the checkpoint row did not pass the record.
func TestKilledBeforeADivergenceIsNoted(t *testing.T) {
	o := combineOptions()
	root := t.TempDir()
	s := openCombined(t, root, o)
	putSome(t, s, 30)
	awaitSides(t, s)
	rocks := s.views.sides.side(cq.KindRocks)
	view := s.views.view
	view.mu.Lock() // what is put meanwhile comes as one batch
	q, ok := rocks.Queue(cq.Key{Topic: "T", QueueID: 1})
	require.True(t, ok)
	b, err := q.Bounds()
	require.NoError(t, err)
	require.NoError(t, rocks.TruncateDirty(t.Context(), b.LastPhyOffset)) // of the last record of all
	for _, id := range []int32{0, 1, 0, 0} {
		m := plainMessage("T", "behind it")
		m.QueueID = id
		_, err := s.Put(t.Context(), m)
		require.NoError(t, err)
	}
	var copied string
	save := view.saveBroken
	view.saveBroken = func(mended map[cq.Key]int64) error {
		if copied == "" {
			assert.NoError(t, rocks.Flush(context.Background()))
			copied = crash(t, root)
		}
		return save(mended)
	}
	view.mu.Unlock()
	awaitDispatch(t, s)
	awaitSides(t, s)
	require.Empty(t, s.views.sides.store.Diverged())
	require.NoError(t, s.Close())
	requireWhole(t, root, o)

	require.NotEmpty(t, copied)
	require.NoFileExists(t, NewLayout(copied).brokenQueuesPath())
	s = openStore(t, copied, only(o, StoreTypeRocksDB))
	require.NoError(t, s.awaitViews(t.Context()))
	require.Len(t, readAll(t, s, "T", 1), 31)
	require.NoError(t, s.Close())
	requireWhole(t, copied, only(o, StoreTypeRocksDB))
}
