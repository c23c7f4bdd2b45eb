package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/logtest"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
)

func get(t *testing.T, s *Store, req GetRequest, res *GetResult) {
	t.Helper()
	if req.MaxMessages == 0 {
		req.MaxMessages = 32
	}
	require.NoError(t, s.Get(&req, res))
}

// bodies returns the bodies of what was found.
func bodies(t *testing.T, res *GetResult) (list []string) {
	t.Helper()
	for _, m := range res.Messages {
		var r message.Record
		require.NoError(t, r.Decode(m.Record, true))
		require.Equal(t, m.PhyOffset, r.PhyOffset)
		list = append(list, string(r.Body))
	}
	return list
}

// The table of statuses and next offsets. Source: DefaultMessageStore.getMessage, 5.5.0.
func TestGetStatus(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		s := openStore(t, t.TempDir(), o)
		defer s.Close()
		putSome(t, s, 30)
		awaitDispatch(t, s)
		tests := []struct {
			name            string
			topic           string
			offset          int64
			status          GetStatus
			next, low, high int64
			found           int
		}{
			{"unknown topic", "X", 7, GetNoQueue, 0, 0, 0, 0},
			{"negative", "T", -1, GetOffsetTooSmall, 0, 0, 30, 0},
			{"from the beginning", "T", 0, GetFound, 30, 0, 30, 30},
			{"in the middle", "T", 11, GetFound, 30, 0, 30, 19},
			{"the last", "T", 29, GetFound, 30, 0, 30, 1},
			{"the next to come", "T", 30, GetOffsetOverflowOne, 30, 0, 30, 0},
			{"beyond", "T", 31, GetOffsetOverflowBadly, 30, 0, 30, 0},
			{"far beyond", "T", 1 << 60, GetOffsetOverflowBadly, 30, 0, 30, 0},
			{"light queue", "%LMQ%a", 3, GetFound, 20, 0, 20, 17},
		}
		var res GetResult
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				get(t, s, GetRequest{Topic: tt.topic, Offset: tt.offset}, &res)
				require.Equal(t, tt.status.String(), res.Status.String())
				require.Equal(t, tt.next, res.NextOffset)
				require.Equal(t, tt.low, res.MinOffset)
				require.Equal(t, tt.high, res.MaxOffset)
				require.Len(t, res.Messages, tt.found)
				for i, m := range res.Messages {
					require.Equal(t, tt.offset+int64(i), m.QueueOffset)
				}
			})
		}
		get(t, s, GetRequest{Topic: "T", QueueID: 1, Offset: 4, MaxMessages: 2}, &res)
		require.Equal(t, []string{"body 4", "body 5"}, bodies(t, &res))
		require.EqualValues(t, 6, res.NextOffset)
		res.Release()
		_, ok := s.views.queues.Queue(cq.Key{Topic: "X"})
		require.False(t, ok, "asking made a queue")
	})
}

// A SLAVE does not send its readers back: it may be behind what they have seen.
func TestGetOnASlaveKeepsTheOffset(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := t.TempDir()
	s := openStore(t, root, o)
	putSome(t, s, 5)
	require.NoError(t, s.Close())
	o.BrokerRole = Slave
	s = openStore(t, root, o)
	defer s.Close()
	var res GetResult
	for _, at := range []int64{-3, 77} {
		get(t, s, GetRequest{Topic: "T", Offset: at}, &res)
		require.Equal(t, at, res.NextOffset)
	}
}

func TestGetLimits(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	s := openStore(t, t.TempDir(), o)
	defer s.Close()
	for i := range 40 {
		_, err := s.Put(t.Context(), plainMessage("T", string(bytes.Repeat([]byte{'a' + byte(i%26)}, 300))))
		require.NoError(t, err)
	}
	awaitDispatch(t, s)
	var res GetResult
	get(t, s, GetRequest{Topic: "T", MaxMessages: 1}, &res)
	size := res.Bytes
	found := func(req GetRequest) int {
		req.Topic = "T"
		get(t, s, req, &res)
		require.Equal(t, GetFound, res.Status)
		require.EqualValues(t, len(res.Messages), res.NextOffset)
		require.Equal(t, size*len(res.Messages), res.Bytes)
		return len(res.Messages)
	}
	require.Equal(t, 7, found(GetRequest{MaxMessages: 7}))
	require.Equal(t, 32, found(GetRequest{MaxMessages: 100}), "32 from memory")
	require.Equal(t, 1, found(GetRequest{MaxMessages: 100, MaxBytes: 1}), "one at least")
	require.Equal(t, 3, found(GetRequest{MaxMessages: 100, MaxBytes: 3 * size}))
	require.Equal(t, 2, found(GetRequest{MaxMessages: 100, MaxBytes: 3*size - 1}))
	s.o.MaxTransferBytesOnMessageInMemory = 5 * size
	require.Equal(t, 5, found(GetRequest{MaxMessages: 100}))
	s.memory = 0 // everything is on disk
	require.Equal(t, 8, found(GetRequest{MaxMessages: 100}))
	require.True(t, res.SuggestSlave)
	s.o.MaxTransferBytesOnMessageInDisk = 2*size + 1
	require.Equal(t, 2, found(GetRequest{MaxMessages: 100}))
}

// A filter that refuses everything bounds the call, and the reader goes on behind what was looked at.
func TestGetFilter(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		o.MaxFilterMessageSize = 10 * unitBytes
		s := openStore(t, t.TempDir(), o)
		defer s.Close()
		putSome(t, s, 36)
		awaitDispatch(t, s)
		var res GetResult
		var asked []int64
		none := Filter{Unit: func(code int64) bool { asked = append(asked, code); return false }}
		get(t, s, GetRequest{Topic: "T", MaxMessages: 4, Filter: &none}, &res)
		require.Equal(t, GetNoMatchedMessage, res.Status)
		require.EqualValues(t, 10, res.NextOffset)
		require.Len(t, asked, 10)
		tag1 := int64(message.HashUTF16(0, []byte("tag1")))
		one := Filter{Unit: func(code int64) bool { return code == tag1 }}
		var got []string
		for at := int64(0); at < 36; at = res.NextOffset {
			get(t, s, GetRequest{Topic: "T", Offset: at, MaxMessages: 4, Filter: &one}, &res)
			require.Greater(t, res.NextOffset, at)
			got = append(got, bodies(t, &res)...)
		}
		require.Len(t, got, 12)
		require.Equal(t, "body 34", got[11])
		odd := Filter{Record: func(r *message.Record) bool { return (r.Body[len(r.Body)-1]-'0')%2 == 1 }}
		get(t, s, GetRequest{Topic: "T", Offset: 1, MaxMessages: 4, Filter: &odd}, &res)
		require.Equal(t, []string{"body 1", "body 3", "body 5", "body 7"}, bodies(t, &res))
		require.EqualValues(t, 8, res.NextOffset)
	})
}

// Messages stay valid while they are held, whatever becomes of the store.
func TestGetResultOutlivesTheStore(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.MappedFileSizeConsumeQueue = 60 * unitBytes
	s := openStore(t, t.TempDir(), o)
	putSome(t, s, 60) // several log files
	awaitDispatch(t, s)
	var res GetResult
	get(t, s, GetRequest{Topic: "T", Offset: 30}, &res)
	require.Len(t, res.Messages, 30)
	require.NoError(t, s.Close())
	require.Equal(t, "body 59", bodies(t, &res)[29])
	require.ErrorIs(t, s.Get(&GetRequest{Topic: "T", MaxMessages: 1}, new(GetResult)), ErrClosed)
	res.Release()
	res.Release()
	require.Empty(t, res.Messages)
}

// A unit whose record is not a message of the queue is stepped over, and counted.
func TestGetStepsOverStrayUnits(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.BuildConsumeQueues = true
	s := openStore(t, t.TempDir(), o)
	defer s.Close()
	putSome(t, s, 3)
	awaitDispatch(t, s)
	other, ok := s.views.queues.Queue(cq.Key{Topic: "T", QueueID: 1})
	require.True(t, ok)
	var u [1]cq.Unit
	_, err := other.Read(1, u[:])
	require.NoError(t, err)
	s.views.view.mu.Lock() // nobody appends beside this
	beyond := cq.Unit{PhyOffset: s.Positions().Wrote + 1000, Size: 100}
	require.NoError(t, s.views.queues.Append(t.Context(), []cq.Entry{
		{Key: cq.Key{Topic: "T"}, QueueOffset: 3, Unit: u[0]},
		{Key: cq.Key{Topic: "T"}, QueueOffset: 4, Unit: cq.Unit{PhyOffset: u[0].PhyOffset + 1, Size: u[0].Size}},
		{Key: cq.Key{Topic: "T"}, QueueOffset: 5, Unit: beyond},
	}))
	s.views.view.mu.Unlock()
	var res GetResult
	get(t, s, GetRequest{Topic: "T", Offset: 2}, &res)
	require.Equal(t, []string{"body 2"}, bodies(t, &res))
	require.EqualValues(t, 6, res.NextOffset)
	get(t, s, GetRequest{Topic: "T", Offset: 3}, &res)
	require.Equal(t, GetMessageWasRemoving, res.Status)
	require.EqualValues(t, 6, res.NextOffset)
	require.EqualValues(t, 6, s.Watermarks().StrayUnits)
}

// Records of a log that is damaged while it is served are passed, which is counted and told with their place, not once for each.
func TestGetTellsOfDamageInTheLog(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	var told logtest.Log
	o.Logger = told.Logger()
	root := t.TempDir()
	s := openStore(t, root, o)
	defer s.Close()
	putSome(t, s, 10)
	awaitDispatch(t, s)
	var res GetResult
	get(t, s, GetRequest{Topic: "T", MaxMessages: 32}, &res)
	require.Len(t, res.Messages, 10)
	first, last := res.Messages[2].PhyOffset, res.Messages[5].PhyOffset
	res.Release()
	f, err := os.OpenFile(filepath.Join(s.layout.CommitLogDir(), mappedfile.Name(0)), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, last-first), first)
	require.NoError(t, errors.Join(err, f.Close()))
	get(t, s, GetRequest{Topic: "T", MaxMessages: 32}, &res)
	require.Equal(t, GetFound, res.Status)
	require.Len(t, res.Messages, 7)
	require.EqualValues(t, 3, s.Watermarks().StrayUnits)
	require.Equal(t, 1, strings.Count(told.String(), "leads to no message"))
	require.Contains(t, told.String(), fmt.Sprintf("topic=T queueId=0 queueOffset=2 phyOffset=%d", first))
}

// A store needs a directory: none is not the current one.
func TestOpenRefusesNoDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := Open("", viewOptions(StoreTypeFile))
	require.ErrorContains(t, err, "no directory was named")
	left, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestGetAllocatesNothingPerMessage(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.MappedFileSizeCommitLog = 1 << 20
	s := openStore(t, t.TempDir(), o)
	defer s.Close()
	for i := range 64 {
		_, err := s.Put(t.Context(), plainMessage("T", fmt.Sprint(i)))
		require.NoError(t, err)
	}
	awaitDispatch(t, s)
	var res GetResult
	req := GetRequest{Topic: "T", MaxMessages: 32}
	allocs := testing.AllocsPerRun(100, func() { _ = s.Get(&req, &res) })
	require.LessOrEqual(t, allocs, 3.0, "a call")
	require.Len(t, res.Messages, 32)
	res.Release()
}

func BenchmarkGet(b *testing.B) {
	for _, kind := range viewKinds {
		b.Run(string(kind.kind()), func(b *testing.B) {
			o := viewOptions(kind)
			o.MappedFileSizeCommitLog, o.MappedFileSizeConsumeQueue, o.MessageIndexEnable = 1<<30, 6_000_000, false
			s, err := Open(b.TempDir(), o)
			if err != nil {
				b.Skip(err)
			}
			defer s.Close()
			m := plainMessage("T", string(make([]byte, 1024)))
			const messages = 200_000
			for range messages {
				if _, err := s.Put(b.Context(), m); err != nil {
					b.Fatal(err)
				}
			}
			for s.views.behind() > 0 {
			}
			for _, n := range []int{1, 32} {
				b.Run(fmt.Sprint(n), func(b *testing.B) {
					var res GetResult
					req := GetRequest{Topic: "T", MaxMessages: n}
					b.ReportAllocs()
					for b.Loop() {
						if err := s.Get(&req, &res); err != nil || len(res.Messages) == 0 {
							b.Fatal(err, res.Status)
						}
						req.Offset = res.NextOffset % (messages - 32)
					}
					b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "messages/s")
				})
			}
		})
	}
}
