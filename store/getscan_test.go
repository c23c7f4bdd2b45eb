package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// A call ends with the queue's file, as RocketMQ's does, unless it has found nothing and may look at another; in RocksDB there are no files.
// Source: DefaultMessageStore.getMessage, 5.5.0.
func TestGetEndsWithTheFile(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		s := openStore(t, t.TempDir(), o) // 50 units a file
		defer s.Close()
		putSome(t, s, 160)
		awaitDispatch(t, s)
		filed := o.StoreType == StoreTypeFile
		next := func(files, rocks int64) int64 {
			if filed {
				return files
			}
			return rocks
		}
		var res GetResult
		get(t, s, GetRequest{Topic: "T", Offset: 45}, &res)
		require.Equal(t, next(50, 77), res.NextOffset)
		require.Len(t, res.Messages, int(res.NextOffset)-45)
		get(t, s, GetRequest{Topic: "T", Offset: res.NextOffset}, &res)
		require.Equal(t, next(82, 109), res.NextOffset)

		none := Filter{Unit: func(int64) bool { return false }}
		get(t, s, GetRequest{Topic: "T", Offset: 45, Filter: &none}, &res)
		require.Equal(t, next(50, 160), res.NextOffset)
		require.Equal(t, GetNoMatchedMessage, res.Status)

		asked := 0
		later := Filter{Unit: func(int64) bool { asked++; return asked > 7 }} // slots 52 and up
		s.o.TravelCqFileNumWhenGetMessage = 2
		get(t, s, GetRequest{Topic: "T", Offset: 45, Filter: &later, MaxMessages: 100}, &res)
		require.Equal(t, GetFound, res.Status)
		require.Equal(t, next(84, 84), res.NextOffset, "32 messages")
		get(t, s, GetRequest{Topic: "T", Offset: 45, Filter: &none}, &res)
		require.Equal(t, next(100, 160), res.NextOffset)
		get(t, s, GetRequest{Topic: "T", Offset: 45}, &res)
		require.Equal(t, next(50, 77), res.NextOffset, "it has found something")
		res.Release()
	})
}

// fullQueue is a queue without end whose units all lie in the log's first record.
type fullQueue struct{ reads, units int64 }

func (*fullQueue) Key() cq.Key                { return cq.Key{Topic: "T"} }
func (*fullQueue) Where(int64) string         { return "" }
func (*fullQueue) Bounds() (cq.Bounds, error) { return cq.Bounds{Max: 1 << 50}, nil }
func (q *fullQueue) Read(_ int64, dst []cq.Unit) (int, error) {
	q.reads++
	q.units += int64(len(dst))
	for i := range dst {
		dst[i] = cq.Unit{Size: 100, StoreTimestampMs: cq.NoTimestamp}
	}
	return len(dst), nil
}

// TestFRC08GetIsBounded: the work of a call is bounded whatever is asked for and whatever the filter says, and where to go on is told.
func TestFRC08GetIsBounded(t *testing.T) {
	s := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	defer s.Close()
	putSome(t, s, 1)
	none := Filter{Unit: func(int64) bool { return false }}
	for _, tt := range []struct {
		count, filterSize int
		units             int64
	}{
		{1, 16000, 800},
		{800, 16000, 800},
		{801, 16000, 801},
		{0, 16000, 800},
		{-1, 16000, 800},
		{1, 410, 21},
		{1, 400, 20},
		{math.MinInt64, 0, 1},
		{math.MaxInt32 / 20, 16000, maxScannedUnits},
		{1, math.MaxInt32, maxScannedUnits},
		{math.MaxInt32/20 + 1, 16000, 800},
		{math.MaxInt32, 16000, 800},
		{math.MaxInt64, 16000, 800}, // as RocketMQ, which counts bytes in 32 bits
	} {
		s.o.MaxFilterMessageSize = tt.filterSize
		q, res := &fullQueue{}, GetResult{MaxOffset: 1 << 50}
		req := GetRequest{Topic: "T", Offset: 7, MaxMessages: tt.count, Filter: &none}
		g := getter{s: s, o: s.live(), req: req, res: &res, queue: q, log: s.writer.Log()}
		require.NoError(t, g.scan())
		require.Equal(t, tt.units, q.units, "%+v", tt)
		require.Equal(t, 7+tt.units, res.NextOffset)
		require.LessOrEqual(t, q.reads, tt.units/8+1)
		require.Equal(t, GetNoMatchedMessage, res.Status)
		res.Release()
	}
}

// Slots without a unit are stepped over, one call going on behind them, where the queue says itself that the log has lost their records. Others are not: see holes_test.go.
func TestF24GetStepsOverHoles(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root, viewOptions(StoreTypeFile))
	defer s.Close()
	putSome(t, s, 12)
	awaitDispatch(t, s)
	f, err := os.OpenFile(filepath.Join(NewLayout(root).ConsumeQueueDir(), "T", "0", fmt.Sprintf("%020d", 0)), os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	for _, slot := range []int64{3, 4, 9, 10, 11} {
		_, err := f.WriteAt(lostSlot(), slot*unitBytes)
		require.NoError(t, err)
	}
	var res GetResult
	for _, tt := range []struct {
		at, count, next int64
		status          GetStatus
		found           []string
	}{
		{0, 32, 12, GetFound, []string{"body 0", "body 1", "body 2", "body 5", "body 6", "body 7", "body 8"}},
		{2, 2, 6, GetFound, []string{"body 2", "body 5"}},
		{3, 1, 6, GetFound, []string{"body 5"}},
		{4, 1, 6, GetFound, []string{"body 5"}},
		{9, 32, 12, GetOffsetFoundNull, nil},
		{11, 1, 12, GetOffsetFoundNull, nil},
	} {
		get(t, s, GetRequest{Topic: "T", Offset: tt.at, MaxMessages: int(tt.count)}, &res)
		require.Equal(t, tt.status, res.Status, "%+v", tt)
		require.Equal(t, tt.next, res.NextOffset, "%+v", tt)
		require.Equal(t, tt.found, bodies(t, &res))
	}
	res.Release()
}

// Which limits count is decided by where the next message lies: near enough to the log's end it is taken to be in memory.
// Source: DefaultMessageStore.estimateInMemByCommitOffset, isTheBatchFull, 5.5.0.
func TestGetMemoryAndDisk(t *testing.T) {
	s := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	defer s.Close()
	var ends []int64
	for range 40 {
		r, err := s.Put(t.Context(), plainMessage("T", "of one length"))
		require.NoError(t, err)
		ends = append(ends, r.Append.PhyOffset)
	}
	awaitDispatch(t, s)
	end := s.Log().EndOffset()
	s.o.AccessMessageInMemoryMaxRatio = 100
	s.memory = memoryBytes((end - ends[30] + 99) / 100 * 100) // messages 30 and up, to 100 bytes
	inMem := 0
	for _, phy := range ends {
		if phy >= end-s.memory.share(100) {
			inMem++
		}
	}
	require.Equal(t, 10, inMem)
	s.o.MaxTransferCountOnMessageInMemory = 12
	var res GetResult
	for _, tt := range []struct{ at, next int64 }{
		{0, 8},   // 8 from disk
		{20, 28}, // likewise
		{22, 34}, // 8 reach message 30, and from there on 12 count
		{23, 35},
		{29, 40},
		{30, 40},
	} {
		get(t, s, GetRequest{Topic: "T", Offset: tt.at}, &res)
		require.Equal(t, tt.next, res.NextOffset, "from %d", tt.at)
		require.Equal(t, tt.next <= 30, res.SuggestSlave, "from %d", tt.at)
	}
	get(t, s, GetRequest{Topic: "T", Offset: 40}, &res)
	require.False(t, res.SuggestSlave)
	res.Release()
}

// Units that lead to where the log has nothing are stepped over, each for itself: what follows them is found. RocketMQ passes over everything below the end of the file that
// such a unit would be in.
func TestGetGoesOnBehindLostRecords(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root, viewOptions(StoreTypeFile))
	defer s.Close()
	putSome(t, s, 11)
	awaitDispatch(t, s)
	lost := binary.BigEndian.AppendUint64(nil, uint64(s.Positions().Wrote+4*s.o.MappedFileSizeCommitLog))
	lost = append(lost, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0)
	harmSlot(t, root, "0", 8, lost)
	harmSlot(t, root, "0", 9, lost)
	var res GetResult
	get(t, s, GetRequest{Topic: "T", Offset: 7}, &res)
	require.Equal(t, []string{"body 7", "body 10"}, bodies(t, &res))
	require.EqualValues(t, 11, res.NextOffset)
	get(t, s, GetRequest{Topic: "T", Offset: 8, MaxMessages: 1}, &res)
	require.Equal(t, []string{"body 10"}, bodies(t, &res))
	none := Filter{Record: func(*message.Record) bool { return false }}
	get(t, s, GetRequest{Topic: "T", Offset: 8, Filter: &none}, &res)
	require.Equal(t, GetNoMatchedMessage, res.Status, "that of the last one")
	require.EqualValues(t, 11, res.NextOffset)
	res.Release()
}
