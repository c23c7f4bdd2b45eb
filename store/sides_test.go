package store

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// openCombined opens a combined store, for which every rebuild is a large one.
func openCombined(t *testing.T, root string, o Options) *Store {
	t.Helper()
	needRocksDB(t)
	o.MessageIndexEnable = false // it would be left behind at each Close
	s := newStore(o)
	s.layout = NewLayout(root)
	s.rebuildBytes = 2000
	require.NoError(t, s.open())
	return s
}

// awaitSides waits until both sides have everything and were compared.
func awaitSides(t *testing.T, s *Store) {
	t.Helper()
	require.Eventually(t, func() bool {
		return s.views.behind() == 0 && s.views.compared() && s.views.sides.lacking() == nil
	}, 20*time.Second, time.Millisecond, "%v", s.views.sides.lacking())
}

// only returns the options for one side alone.
func only(o Options, t StoreType) Options {
	o.StoreType, o.RocksdbCQDoubleWriteEnable = t, false
	return o
}

// readAll reads a queue from a store and returns the bodies.
func readAll(t *testing.T, s *Store, topic string, id int32) (list []string) {
	t.Helper()
	var res GetResult
	defer res.Release()
	for at := int64(0); ; at = res.NextOffset {
		get(t, s, GetRequest{Topic: topic, QueueID: id, Offset: at}, &res)
		if res.Status != GetFound {
			require.Equal(t, GetOffsetOverflowOne, res.Status)
			return list
		}
		list = append(list, bodies(t, &res)...)
	}
}

// A RocksDB that is new beside file queues is filled from the log while the files serve, and then has all of it; the way back is the same.
func TestF14SideThatLacksHistoryIsFilled(t *testing.T) {
	for _, from := range viewKinds {
		t.Run("from "+string(from.kind()), func(t *testing.T) {
			needRocksDB(t)
			root := t.TempDir()
			s := openStore(t, root, only(combineOptions(), from))
			putSome(t, s, 300)
			require.NoError(t, s.Close())

			o := combineOptions()
			o.CombineCQPreferCQType = StoreTypeRocksDB
			if from == StoreTypeRocksDB {
				o.CombineCQPreferCQType = StoreTypeFile
			}
			filling := make(chan struct{})
			o.rebuildStep = func(int64) { <-filling }
			s = openCombined(t, root, o)
			require.EqualValues(t, 300, s.NextOffset("T", 0))
			require.Len(t, readAll(t, s, "T", 1), 300, "served by the side that has it")
			require.Eventually(t, func() bool { return s.Watermarks().Views[string(otherKind(from.kind()))+" queues"].BehindMs > 0 }, 10*time.Second, time.Millisecond)
			close(filling)
			putSome(t, s, 10)
			awaitSides(t, s)
			require.Len(t, readAll(t, s, "T", 1), 310)
			require.True(t, s.views.sides.store.Ready(otherKind(from.kind()), cq.Key{Topic: "T"}))
			require.NoError(t, s.Close())
			requireWhole(t, root, o)
			require.NoFileExists(t, NewLayout(root).rebuildMarkPath())
		})
	}
}

// A fill that is cut off goes on where it was, and nothing that is noted claims more than there is.
func TestF14FillIsResumed(t *testing.T) {
	for _, from := range viewKinds {
		t.Run("from "+string(from.kind()), func(t *testing.T) {
			needRocksDB(t)
			root := t.TempDir()
			s := openStore(t, root, only(combineOptions(), from))
			putSome(t, s, 300)
			require.NoError(t, s.Close())

			o := combineOptions()
			closed := make(chan struct{})
			o.rebuildStep = func(int64) { <-closed }
			s = openCombined(t, root, o)
			go func(stopped <-chan struct{}) {
				<-stopped // by Close
				close(closed)
			}(s.views.stopped)
			require.Error(t, s.Close())
			require.FileExists(t, NewLayout(root).AbortPath())

			o.rebuildStep = nil
			s = openCombined(t, root, o)
			awaitSides(t, s)
			require.NoError(t, s.Close())
			requireWhole(t, root, o)
		})
	}
}

// The sequence file, combined, RocksDB alone, combined, files alone: no unit is shifted, no offset given twice, no queue begun anew.
func TestSidesTakeTurns(t *testing.T) {
	needRocksDB(t)
	root := t.TempDir()
	both := combineOptions()
	steps := []Options{
		only(both, StoreTypeFile), both, only(both, StoreTypeRocksDB), both, only(both, StoreTypeFile), only(both, StoreTypeRocksDB), both,
	}
	want := 0
	for i, o := range steps {
		o.MessageIndexEnable = false
		s := newStore(o)
		s.layout = NewLayout(root)
		if o.RocksdbCQDoubleWriteEnable { // one side alone would be refused for as much
			s.rebuildBytes = 2000
		}
		require.NoError(t, s.open(), "step %d", i)
		require.EqualValues(t, want, s.NextOffset("T", 0), "step %d", i)
		putSome(t, s, 40)
		want += 40
		require.Eventually(t, func() bool { return s.views.behind() == 0 && s.views.compared() && s.views.sides.lacking() == nil }, 20*time.Second, time.Millisecond)
		require.Len(t, readAll(t, s, "T", 0), want, "step %d", i)
		require.NoError(t, s.Close(), "step %d", i)
		requireWhole(t, root, o)
	}
}

// cutSide removes the newest n units of a queue on one side of a closed store, without the log knowing.
func cutSide(t *testing.T, root string, o Options, kind StoreType, k cq.Key, n int64) {
	t.Helper()
	v, err := OpenView(root, ViewOptions{Kind: kind.kind()})
	require.NoError(t, err)
	q, ok := v.Queues.Queue(k)
	require.True(t, ok)
	b, err := q.Bounds()
	require.NoError(t, err)
	var u [1]cq.Unit
	_, err = q.Read(b.Max-n, u[:])
	require.NoError(t, err)
	require.NoError(t, v.Close())
	s := newStore(only(o, kind))
	s.layout = NewLayout(root)
	w, err := s.openWriter()
	require.NoError(t, err)
	s.writer = w
	queues := &views{s: s}
	require.NoError(t, queues.openQueues())
	require.NoError(t, queues.queues.TruncateDirty(t.Context(), u[0].PhyOffset))
	require.NoError(t, queues.queues.Close())
	require.NoError(t, w.Close())
}

// One side cut by 20 units, started under each preference and authority: no offset is given twice, and both sides are whole again (F16).
func TestF16ASideThatIsShortIsRepaired(t *testing.T) {
	needRocksDB(t)
	for _, cut := range viewKinds {
		for _, prefer := range viewKinds {
			for _, assign := range viewKinds {
				t.Run(string(cut.kind()+" cut, "+prefer.kind()+" preferred, "+assign.kind()+" assigns"), func(t *testing.T) {
					root := t.TempDir()
					o := combineOptions()
					o.CombineCQPreferCQType, o.CombineAssignOffsetCQType = prefer, assign
					s := openCombined(t, root, o)
					putSome(t, s, 100)
					awaitSides(t, s)
					require.NoError(t, s.Close())
					cutSide(t, root, o, cut, cq.Key{Topic: "T"}, 20)

					s = openCombined(t, root, o)
					require.EqualValues(t, 100, s.NextOffset("T", 0))
					putSome(t, s, 5)
					awaitSides(t, s)
					require.Len(t, readAll(t, s, "T", 0), 105)
					require.NoError(t, s.Close())
					requireWhole(t, root, o)
				})
			}
		}
	}
}

// A queue that is lost on one side, or lacks its beginning there, is read from the other and built again.
func TestSidesMendEachOther(t *testing.T) {
	needRocksDB(t)
	for _, lost := range viewKinds {
		for name, begin := range map[string]bool{"as a whole": false, "its beginning": true} {
			t.Run(string(lost.kind())+" lost "+name, func(t *testing.T) {
				root := t.TempDir()
				o := combineOptions()
				o.CombineCQPreferCQType = lost
				s := openCombined(t, root, o)
				putSome(t, s, 60)
				awaitSides(t, s)
				k := cq.Key{Topic: "T", QueueID: 1}
				side := s.views.sides.side(lost.kind())
				s.views.view.mu.Lock()
				q, _ := side.Queue(k)
				units := make([]cq.Unit, 10)
				n, err := q.Read(50, units)
				require.NoError(t, err)
				require.Equal(t, 10, n)
				require.NoError(t, side.(cq.Dropper).DropQueue(t.Context(), k))
				if begin {
					batch := make([]cq.Entry, 10)
					for i := range batch {
						batch[i] = cq.Entry{Key: k, QueueOffset: 50 + int64(i), Unit: units[i]}
					}
					require.NoError(t, side.Append(t.Context(), batch))
				}
				s.views.view.mu.Unlock()
				require.NoError(t, s.Close())

				s = openCombined(t, root, o)
				require.EqualValues(t, 60, s.NextOffset("T", 1))
				require.Len(t, readAll(t, s, "T", 1), 60)
				awaitSides(t, s)
				require.NoError(t, s.Close())
				requireWhole(t, root, o)
			})
		}
	}
}

// Preference and authority change while puts and reads go on.
func TestSidesSwitchWhileServing(t *testing.T) {
	o := combineOptions()
	root := t.TempDir()
	s := openCombined(t, root, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil && ctx.Err() == nil; i++ {
			kind := viewKinds[i%2].kind()
			err = errors.Join(s.Prefer(kind), s.GiveAuthority(kind))
			time.Sleep(time.Millisecond)
		}
		done <- err
	}()
	var res GetResult
	next := int64(0)
	for range 200 {
		putSome(t, s, 1)
		get(t, s, GetRequest{Topic: "T", Offset: next}, &res)
		require.GreaterOrEqual(t, res.NextOffset, next, "reads never go back")
		next = res.NextOffset
	}
	res.Release()
	cancel()
	require.NoError(t, <-done)
	require.NoError(t, s.Close())
	requireWhole(t, root, o)
	require.ErrorIs(t, s.Prefer(cq.KindFile), ErrClosed)
	one := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	defer one.Close()
	require.ErrorIs(t, one.Prefer(cq.KindFile), ErrNotCombined)
}

// Light queues that RocksDB has alone have no file, and go on over restarts.
func TestLightQueuesInRocksDBAlone(t *testing.T) {
	o := combineOptions()
	o.CombineCQUseRocksdbForLmq = true
	root := t.TempDir()
	for i := range 3 {
		s := openCombined(t, root, o)
		putSome(t, s, 30)
		awaitSides(t, s)
		require.Len(t, readAll(t, s, "%LMQ%a", 0), 20*(i+1))
		require.NoError(t, s.Close())
	}
	entries, err := os.ReadDir(NewLayout(root).ConsumeQueueDir())
	require.NoError(t, err)
	for _, e := range entries {
		require.False(t, e.IsDir() && e.Name() != "T", e.Name())
	}
}

// Light queues that files had before RocksDB was told to have them alone stay where they end there, which the check says and takes for no error.
func TestLightQueuesLeftInFiles(t *testing.T) {
	o := combineOptions()
	root := t.TempDir()
	for _, alone := range []bool{false, true} {
		o.CombineCQUseRocksdbForLmq = alone
		s := openCombined(t, root, o)
		putSome(t, s, 30)
		awaitSides(t, s)
		require.NoError(t, s.Close())
	}
	rep, err := Check(t.Context(), root, CheckOptions{Deep: true})
	require.NoError(t, err)
	require.True(t, rep.Sound, "%v", rep.Findings)
	require.Positive(t, rep.Warnings)
	s := openCombined(t, root, only(o, StoreTypeFile))
	require.EqualValues(t, 40, s.NextOffset("%LMQ%a", 0), "with files alone, none is given twice")
	<-s.views.verified
	awaitDispatch(t, s) // the files get what they lack
	require.NoError(t, s.Close())
}

// The checkpoint speaks of file queues alone (F37): time with RocksDB alone does not move what it says of them.
func TestF37CheckpointSpeaksOfFilesAlone(t *testing.T) {
	needRocksDB(t)
	root := t.TempDir()
	both := combineOptions()
	s := openStore(t, root, only(both, StoreTypeFile))
	putSome(t, s, 10)
	require.NoError(t, s.Close())
	_, err := Recover(t.Context(), root, RecoverOptions{Kind: cq.KindRocks, Create: true, Options: &both})
	require.NoError(t, err)
	before, err := ReadCheckpoint(NewLayout(root).CheckpointPath())
	require.NoError(t, err)
	require.Positive(t, before.LogicsPhysicalOffset)
	s = openStore(t, root, only(both, StoreTypeRocksDB))
	putSome(t, s, 10)
	require.NoError(t, s.Close())
	after, err := ReadCheckpoint(NewLayout(root).CheckpointPath())
	require.NoError(t, err)
	require.Equal(t, before.LogicsPhysicalOffset, after.LogicsPhysicalOffset)
	require.Greater(t, after.LogFlushedOffset, before.LogFlushedOffset)
}

// A queue that was built again and then is not what the other side has stays as it is: it is told, read from the other side, and holds up nothing.
func TestSidesThatDifferAreLeftAlone(t *testing.T) {
	o := combineOptions()
	root := t.TempDir()
	s := openCombined(t, root, o)
	putSome(t, s, 30)
	awaitSides(t, s)
	k := cq.Key{Topic: "T", QueueID: 1}
	s.views.view.mu.Lock()
	rocks := s.views.sides.side(cq.KindRocks)
	q, _ := rocks.Queue(k)
	batch := make([]cq.Entry, 30)
	for i := range batch {
		var u [1]cq.Unit
		_, err := q.Read(int64(i), u[:])
		require.NoError(t, err)
		if i == 7 {
			u[0].TagsCode++
		}
		batch[i] = cq.Entry{Key: k, QueueOffset: int64(i), Unit: u[0]}
	}
	require.NoError(t, rocks.(cq.Dropper).DropQueue(t.Context(), k))
	require.NoError(t, rocks.Append(t.Context(), batch))
	require.NoError(t, s.views.sides.side(cq.KindFile).(cq.Dropper).DropQueue(t.Context(), k))
	s.views.view.mu.Unlock()
	require.NoError(t, s.Close())

	for range 2 {
		s = openCombined(t, root, o)
		putSome(t, s, 1)
		awaitSides(t, s)
		require.NoError(t, s.views.flush(t.Context()))
		require.Empty(t, s.needed(0))
		require.Equal(t, s.NextOffset("T", 0), int64(len(readAll(t, s, "T", 1))))
		require.NoError(t, s.Close())
	}
}

// Differ tells of it.
func TestWatermarksCountSidesThatDiffer(t *testing.T) {
	s := openCombined(t, t.TempDir(), combineOptions())
	defer s.Close()
	putSome(t, s, 3)
	awaitSides(t, s)
	s.views.sides.giveUp(cq.KindFile, cq.Key{Topic: "T"})
	m := s.Watermarks().Views
	require.Equal(t, 1, m["file queues"].Differ)
	require.Zero(t, m["rocks queues"].Differ)
	require.Equal(t, m["combine queues"].Dispatched, m["rocks queues"].Dispatched)
}
