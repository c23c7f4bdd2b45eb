//go:build cgo

package rocks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// TestF39DeleteTopicLeavesNothing: units, max rows and min rows go, also those that nothing else speaks of, and nothing of topics with a like name.
func TestF39DeleteTopicLeavesNothing(t *testing.T) {
	o := testOptions()
	o.RocksDB.AvoidFlushDuringShutdown = true // it is durable by itself
	s := openNew(t, o)
	others := []cq.Key{{Topic: "topi"}, {Topic: "topic1"}, {Topic: "topjc"}, {Topic: "Topic"}}
	for _, k := range others {
		appendAll(t, s, entries(k, 0, 3))
	}
	appendAll(t, s, append(entries(keyT, 0, 9), entries(cq.Key{Topic: "topic"}, 5, 7)...))
	rows(t, s, func(b *rocks.Batch) {
		putRow(b, cq.Key{Topic: "topic", QueueID: 8}, tagMin, 5, 5) // a min row without a max row
		putUnits(b, cq.Key{Topic: "topic", QueueID: 9}, 0, 4)       // units without either
		putUnits(b, cq.Key{Topic: "topic", QueueID: 1 << 30}, 0, 4) // at the end of the range
		putRow(b, keyT, tagMin, 2000, 2)
	})
	require.NoError(t, s.Flush(t.Context()))
	n, err := s.DeleteTopic(t.Context(), "topic")
	require.NoError(t, err)
	require.Equal(t, 3, n)
	for range 2 {
		require.Equal(t, len(others), countKeys(t, s))
		require.Equal(t, 3*len(others), countRows(t, s, rocks.Units))
		require.Equal(t, len(others)+1, countRows(t, s, rocks.Offsets), "max rows and the checkpoint")
		require.EqualValues(t, 8100, s.DispatchFrom())
		s = reopen(t, s, o)
	}
	n, err = s.DeleteTopic(t.Context(), "topic")
	require.NoError(t, err)
	require.Zero(t, n)
	appendAll(t, s, entries(keyT, 40, 42), "it may begin anew anywhere")
	require.EqualValues(t, 40, boundsOf(t, s, keyT).Min)
	require.Equal(t, 2, countRows(t, s, rocks.Units)-3*len(others))
	s = reopen(t, s, testOptions())
	_, err = s.DeleteTopic(t.Context(), "")
	require.ErrorContains(t, err, "topic is empty")
}

// TestDeleteTopicKeepsTheCheckpoint: its row has the form of a topic's.
func TestDeleteTopicKeepsTheCheckpoint(t *testing.T) {
	s := openNew(t, testOptions())
	k := cq.Key{Topic: checkpointTopic, QueueID: 1}
	appendAll(t, s, entries(k, 0, 3))
	n, err := s.DeleteTopic(t.Context(), checkpointTopic)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	k.QueueID = 0
	require.ErrorContains(t, s.Append(t.Context(), entries(k, 0, 3)), "would be the checkpoint")
	require.EqualValues(t, 2100, reopen(t, s, testOptions()).DispatchFrom())
}

// TestF32CleanDirtyWantsToKnowATopic: a list of topics that names none of those stored is no reason to remove all.
func TestF32CleanDirtyWantsToKnowATopic(t *testing.T) {
	s := openNew(t, testOptions())
	light := cq.Key{Topic: cq.LMQPrefix + "x"}
	appendAll(t, s, append(append(entries(cq.Key{Topic: "a"}, 0, 2), entries(cq.Key{Topic: "b", QueueID: 4}, 0, 2)...), entries(light, 0, 2)...))
	rows(t, s, func(b *rocks.Batch) { putRow(b, cq.Key{Topic: "c"}, tagMin, 5, 5) })
	n, err := s.CleanDirty(t.Context(), func(string) bool { return false })
	var nothing *NothingKeptError
	require.ErrorAs(t, err, &nothing)
	require.Equal(t, NothingKeptError{Dir: s.dir, Topics: 3}, *nothing)
	require.Zero(t, n)
	require.Equal(t, 3, countKeys(t, s))

	n, err = s.CleanDirty(t.Context(), func(string) bool { return true })
	require.NoError(t, err)
	require.Zero(t, n)
	asked := map[string]int{}
	n, err = s.CleanDirty(t.Context(), func(topic string) bool { asked[topic]++; return topic == "b" || asked[topic] == 2 && topic == "a" })
	require.NoError(t, err)
	require.Equal(t, 1, n, "a was known when it was asked for again")
	require.Equal(t, map[string]int{"a": 2, "b": 1, "c": 2}, asked)
	n, err = s.CleanDirty(t.Context(), func(topic string) bool { return topic == "b" })
	require.NoError(t, err)
	require.Equal(t, 1, n)
	s = reopen(t, s, testOptions())
	require.Equal(t, 2, countKeys(t, s))
	require.Equal(t, 3, countRows(t, s, rocks.Offsets), "two max rows and the checkpoint")
	require.EqualValues(t, 2, boundsOf(t, s, light).Max)
}

// TestF31StatsTellSizes: what is on disk and in memory is told, and nothing of files that are not RocksDB's.
func TestF31StatsTellSizes(t *testing.T) {
	s := openNew(t, testOptions())
	appendAll(t, s, entries(keyT, 0, 500))
	before, err := s.Stats()
	require.NoError(t, err)
	require.Zero(t, before.Units.TableBytes)
	require.Greater(t, before.Units.MemtableBytes, int64(500*unitBytes))
	require.NoError(t, s.Flush(t.Context()))
	after, err := s.Stats()
	require.NoError(t, err)
	require.Positive(t, after.Units.TableBytes)
	require.Positive(t, after.Offsets.TableBytes)
	require.Less(t, after.Units.MemtableBytes, before.Units.MemtableBytes)
	require.EqualValues(t, 500, after.Units.Rows)
	files := 0
	for _, n := range after.Units.Files {
		files += n
	}
	require.Equal(t, 1, files)
	require.GreaterOrEqual(t, after.DiskBytes, before.DiskBytes+after.Units.TableBytes+after.Offsets.TableBytes)
	require.Zero(t, after.BackgroundErrors)
	require.False(t, after.WriteStopped)
	requireUnits(t, s, keyT, 0, units(0, 500))
	read, err := s.Stats()
	require.NoError(t, err)
	require.Greater(t, read.Units.CacheBytes, after.Units.CacheBytes)
	require.NoError(t, s.Close())
	_, err = s.Stats()
	require.ErrorIs(t, err, cq.ErrClosed)
}

// TestF2NothingDispatchedIsNotZero: the record at 0 is dispatched, since "nothing yet" is -1.
func TestF2NothingDispatchedIsNotZero(t *testing.T) {
	s := openNew(t, testOptions())
	require.EqualValues(t, -1, s.DispatchFrom())
	s = reopen(t, s, testOptions())
	require.EqualValues(t, -1, s.DispatchFrom())
	appendAll(t, s, entries(keyT, 0, 1))
	require.EqualValues(t, 100, s.DispatchFrom(), "the end of the record at 0")
}

// TestF28EndsOfRecords: every position told is the end of a record, the max row alone keeps its start.
func TestF28EndsOfRecords(t *testing.T) {
	s := openNew(t, testOptions())
	appendAll(t, s, entries(keyT, 0, 4))
	for range 2 {
		b := boundsOf(t, s, keyT)
		require.EqualValues(t, 3100, b.MaxPhyOffset)
		require.EqualValues(t, 3000, b.LastPhyOffset)
		require.EqualValues(t, 3100, s.DispatchFrom())
		s = reopen(t, s, testOptions())
	}
}

// TestF10CompactAfterReopen: merging works again after a stop.
func TestF10CompactAfterReopen(t *testing.T) {
	s := openNew(t, testOptions())
	for i := range int64(3) {
		appendAll(t, s, entries(keyT, 10*i, 10*i+10))
		require.NoError(t, s.Flush(t.Context()))
		require.NoError(t, s.SetMinPhyOffset(5000*(i+1)))
		require.NoError(t, s.Compact(t.Context(), nil))
		require.EqualValues(t, 10*i+10-5*(i+1), countRows(t, s, rocks.Units))
		s = reopen(t, s, testOptions())
	}
}

// TestF38ExpiredUnitsGoByThemselves: a compaction that nobody asked for drops what has expired, and tables are rewritten at an age.
func TestF38ExpiredUnitsGoByThemselves(t *testing.T) {
	o := testOptions()
	o.RocksDB.DisableAutoCompactions = false
	s := openNew(t, o)
	require.Positive(t, DefaultOptions().RocksDB.Units.RewriteAfter)
	require.NoError(t, s.SetMinPhyOffset(1_000_000))
	for i := range int64(8) { // of two queues: tables that lie apart are moved, not rewritten
		appendAll(t, s, append(entries(keyT, 100*i, 100*i+100), entries(cq.Key{Topic: "other"}, 100*i, 100*i+100)...))
		require.NoError(t, s.Flush(t.Context()))
	}
	require.Eventually(t, func() bool { return countRows(t, s, rocks.Units) < 1600 }, 10*time.Second, 10*time.Millisecond)
	require.EqualValues(t, 800, boundsOf(t, s, keyT).Min)
}
