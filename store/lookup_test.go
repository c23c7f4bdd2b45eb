package store

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// putOverTime puts messages whose store times rise, several at one time.
func putOverTime(t *testing.T, s *Store, times int) {
	t.Helper()
	for range times {
		putSome(t, s, 3)
		time.Sleep(2 * time.Millisecond)
	}
	awaitDispatch(t, s)
}

// storeTimes returns the store times of a queue's messages by their records, and the offset of the first.
func storeTimes(t *testing.T, s *Store, topic string, id int32) (times []int64, first int64) {
	t.Helper()
	k := cq.Key{Topic: topic, QueueID: id}
	units, from := unitsOf(t, s.Log(), s.o)
	for _, u := range units[k] {
		ms, err := s.Log().StoreTimestamp(u.PhyOffset, u.Size)
		require.NoError(t, err)
		times = append(times, ms)
	}
	return times, from[k]
}

// requireByTime compares every answer with that of a search which looks at all messages.
func requireByTime(t *testing.T, s *Store, topic string, id int32) {
	t.Helper()
	times, first := storeTimes(t, s, topic, id)
	require.NotEmpty(t, times)
	asked := []int64{math.MinInt64, -1, 0, times[0] - 1, times[len(times)-1] + 1, math.MaxInt64}
	for _, ms := range times {
		asked = append(asked, ms, ms+1)
	}
	for _, ms := range asked {
		lower, upper := first+int64(len(times)), first
		for i := len(times) - 1; i >= 0 && times[i] >= ms; i-- {
			lower = first + int64(i)
		}
		for i := 0; i < len(times) && times[i] <= ms; i++ {
			upper = first + int64(i)
		}
		got, err := s.OffsetByTime(topic, id, ms, cq.BoundaryLower)
		require.NoError(t, err)
		require.Equal(t, lower, got, "LOWER %d", ms)
		got, err = s.OffsetByTime(topic, id, ms, cq.BoundaryUpper)
		require.NoError(t, err)
		require.Equal(t, upper, got, "UPPER %d", ms)
	}
}

func TestOffsetByTime(t *testing.T) {
	forEachSide(t, func(t *testing.T, o Options) {
		s := openStore(t, t.TempDir(), o)
		defer s.Close()
		putOverTime(t, s, 6)
		requireByTime(t, s, "T", 0)
		requireByTime(t, s, "T", 1)
		requireByTime(t, s, "%LMQ%a", 0)
	})
}

// The answers at the edges of a queue. Source: DefaultMessageStore, 5.5.0.
func TestLookupsAtTheEdges(t *testing.T) {
	forEachSide(t, func(t *testing.T, o Options) {
		s := openStore(t, t.TempDir(), o)
		defer s.Close()
		ms, err := s.EarliestStoreTime()
		require.NoError(t, err)
		require.Equal(t, NoTime, ms, "an empty log")
		putOverTime(t, s, 2)
		times, _ := storeTimes(t, s, "T", 0)
		for _, tt := range []struct {
			name      string
			offset    int64
			storeTime int64
		}{
			{"first", 0, times[0]}, {"last", 5, times[5]}, {"next to come", 6, NoTime}, {"far beyond", math.MaxInt64, NoTime}, {"negative", -1, NoTime},
		} {
			ms, err := s.StoreTime("T", 0, tt.offset)
			require.NoError(t, err, tt.name)
			require.Equal(t, tt.storeTime, ms, tt.name)
		}
		ms, err = s.EarliestTime("T", 0)
		require.NoError(t, err)
		require.Equal(t, times[0], ms)
		ms, err = s.EarliestStoreTime()
		require.NoError(t, err)
		require.Equal(t, times[0], ms)
		low, err := s.MinOffset("T", 0)
		require.NoError(t, err)
		require.Zero(t, low)
		high, err := s.MaxOffset("T", 0)
		require.NoError(t, err)
		require.EqualValues(t, 6, high)
	})
}

// TestW17LookupsMakeNothing: queues that nobody put to are answered as RocketMQ answers them, and are not there afterwards.
func TestW17LookupsMakeNothing(t *testing.T) {
	forEachSide(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		defer s.Close()
		putSome(t, s, 1)
		awaitDispatch(t, s)
		before := listTree(root)
		for _, q := range []struct {
			topic string
			id    int32
		}{{"X", 0}, {"T", 7}, {"T", -1}, {"%LMQ%none", 0}, {"", 0}, {strings.Repeat("x", 300), 0}} {
			for _, edge := range []cq.Boundary{cq.BoundaryLower, cq.BoundaryUpper} {
				at, err := s.OffsetByTime(q.topic, q.id, 1, edge)
				require.NoError(t, err)
				require.Zero(t, at)
			}
			for _, look := range []func() (int64, error){
				func() (int64, error) { return s.StoreTime(q.topic, q.id, 0) },
				func() (int64, error) { return s.EarliestTime(q.topic, q.id) },
				func() (int64, error) { return s.MinOffset(q.topic, q.id) },
			} {
				got, err := look()
				require.NoError(t, err)
				require.EqualValues(t, -1, got)
			}
			high, err := s.MaxOffset(q.topic, q.id)
			require.NoError(t, err)
			require.Zero(t, high)
			for _, at := range []int64{-1, 0, 7, math.MaxInt64} {
				var res GetResult
				get(t, s, GetRequest{Topic: q.topic, QueueID: q.id, Offset: at}, &res)
				require.Equal(t, GetNoQueue, res.Status)
				require.Zero(t, res.NextOffset)
			}
			var found QueryResult
			require.NoError(t, s.Query(QueryRequest{Topic: q.topic, Key: "key"}, &found))
			require.Empty(t, found.Messages)
			_, ok := s.views.queues.Queue(cq.Key{Topic: q.topic, QueueID: q.id})
			require.False(t, ok)
		}
		require.Equal(t, before, listTree(root))
	})
}

// TestF25ExpiredQueueByTime: the log's beginning expires, and with it all of a queue: answers stay within the bounds, from the moment on at which the log is
// shorter.
func TestF25ExpiredQueueByTime(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		w := newWorld()
		s := openStore(t, t.TempDir(), w.in(o))
		defer s.Close()
		for range 3 {
			_, err := s.Put(t.Context(), plainMessage("old", "body"))
			require.NoError(t, err)
		}
		fillLog(t, s, 3)
		require.Len(t, s.CleanNow(t.Context()).Removed, 3)
		for _, ms := range []int64{0, math.MaxInt64} {
			for _, edge := range []cq.Boundary{cq.BoundaryLower, cq.BoundaryUpper} {
				at, err := s.OffsetByTime("old", 0, ms, edge)
				require.NoError(t, err)
				require.EqualValues(t, 3, at)
			}
		}
		ms, err := s.EarliestTime("old", 0)
		require.NoError(t, err)
		require.Equal(t, NoTime, ms)
		ms, err = s.StoreTime("old", 0, 2)
		require.NoError(t, err)
		require.Equal(t, NoTime, ms, "its record is gone")
		low, err := s.MinOffset("old", 0)
		require.NoError(t, err)
		require.EqualValues(t, 3, low)
		requireByTime(t, s, "T", 0)
		times, first := storeTimes(t, s, "T", 1)
		require.Positive(t, first)
		ms, err = s.EarliestTime("T", 1)
		require.NoError(t, err)
		require.Equal(t, times[0], ms)
	})
}

// TestW50ByTimeFollowsTheLogAtOnce: what the log has lost this moment is no answer, before anything that lies behind it has been told.
func TestW50ByTimeFollowsTheLogAtOnce(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		s := openStore(t, t.TempDir(), newWorld().in(o))
		defer s.Close()
		fillLog(t, s, 3)
		for range 3 {
			_, removed, err := s.writer.RemoveFirst()
			require.NoError(t, err)
			require.True(t, removed)
			requireByTime(t, s, "T", 0)
			times, _ := storeTimes(t, s, "T", 1)
			ms, err := s.EarliestTime("T", 1)
			require.NoError(t, err)
			require.Equal(t, times[0], ms)
		}
	})
}

// TestF24ByTimeStepsOverLostRecords: units whose record is not there have no time.
func TestF24ByTimeStepsOverLostRecords(t *testing.T) {
	s := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	defer s.Close()
	putOverTime(t, s, 1)
	s.views.view.mu.Lock() // nobody appends beside this
	wrote := s.Positions().Wrote
	require.NoError(t, s.views.queues.Append(t.Context(), []cq.Entry{
		{Key: cq.Key{Topic: "T"}, QueueOffset: 3, Unit: cq.Unit{PhyOffset: wrote - 1, Size: 91}},
		{Key: cq.Key{Topic: "T"}, QueueOffset: 4, Unit: cq.Unit{PhyOffset: wrote + 1000, Size: 100}},
	}))
	s.views.view.mu.Unlock()
	times, _ := storeTimes(t, s, "T", 0)
	at, err := s.OffsetByTime("T", 0, times[2], cq.BoundaryUpper)
	require.NoError(t, err)
	require.EqualValues(t, 2, at)
	at, err = s.OffsetByTime("T", 0, times[2]+1, cq.BoundaryLower)
	require.NoError(t, err)
	require.EqualValues(t, 5, at)
	ms, err := s.StoreTime("T", 0, 3)
	require.NoError(t, err)
	require.Equal(t, NoTime, ms)
}

// TestW24MessageAt: what does not begin a record is no message, whatever its bytes say.
func TestW24MessageAt(t *testing.T) {
	s := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	putSome(t, s, 3)
	var r message.Record
	scan := s.Log().Scanner(-1, commitlog.ScanOptions{})
	defer scan.Close()
	starts := map[int64]bool{}
	for scan.Next() {
		phy := scan.Record().PhyOffset
		starts[phy] = true
		id := message.OffsetMsgID(scan.Record().StoreHost, phy)
		for _, look := range []func() (func(), error){
			func() (func(), error) { return s.MessageAt(phy, &r) },
			func() (func(), error) { return s.MessageByID(id, &r) },
			func() (func(), error) { return s.MessageByID(strings.ToLower(id), &r) },
		} {
			release, err := look()
			require.NoError(t, err)
			require.Equal(t, scan.Record().Raw, r.Raw)
			release()
		}
		other := message.OffsetMsgID([]byte{1, 2, 3, 4, 0, 0, 0, 1}, phy)
		_, err := s.MessageByID(other, &r)
		require.ErrorIs(t, err, ErrNoMessage)
		require.ErrorContains(t, err, "the id is of /1.2.3.4:1")
	}
	require.Len(t, starts, 6)
	end := s.Positions().Wrote
	for phy := int64(-3); phy < end+100; phy++ {
		if starts[phy] {
			continue
		}
		_, err := s.MessageAt(phy, &r)
		require.ErrorIs(t, err, ErrNoMessage, "%d", phy)
	}
	for _, id := range []string{"", "7F0000010000", strings.Repeat("Z", 32), message.OffsetMsgID([]byte{127, 0, 0, 1, 0, 0, 0, 1}, math.MaxInt64), message.OffsetMsgID([]byte{127, 0, 0, 1, 0, 0, 0, 1}, -1)} {
		_, err := s.MessageByID(id, &r)
		require.ErrorIs(t, err, ErrNoMessage, id)
	}
	require.NoError(t, s.Close())
	for _, err := range []error{
		func() error { _, err := s.MessageAt(0, &r); return err }(),
		func() error { _, err := s.MessageByID("", &r); return err }(),
		func() error { _, err := s.OffsetByTime("T", 0, 0, cq.BoundaryLower); return err }(),
		func() error { _, err := s.StoreTime("T", 0, 0); return err }(),
		func() error { _, err := s.EarliestTime("T", 0); return err }(),
		func() error { _, err := s.EarliestStoreTime(); return err }(),
		func() error { _, err := s.MaxOffset("T", 0); return err }(),
	} {
		require.ErrorIs(t, err, ErrClosed)
	}
}
