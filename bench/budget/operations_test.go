package budget

import (
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/index"
	indexrocks "github.com/tandemq/tandemmq/index/rocks"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// operation is one path whose allocations have a budget.
type operation struct {
	name  string
	rocks bool // needs RocksDB
	count func(t *testing.T) count
}

var operations = []operation{
	// A message into the log, and nothing beside it.
	{"put/async", false, func(t *testing.T) count { return countPut(t, store.AsyncFlush, 1, 2000) }},
	// Sixteen producers that wait for the disk: a flush answers several.
	{"put/sync", false, func(t *testing.T) count { return countPut(t, store.SyncFlush, 16, 30) }},
	// A message into the log and from there into its queue, in stretches of 256.
	{"dispatch/file", false, func(t *testing.T) count { return countDispatch(t, load.FileQueues) }},
	{"dispatch/rocks", true, func(t *testing.T) count { return countDispatch(t, load.RocksQueues) }},
	{"dispatch/combine", true, func(t *testing.T) count { return countDispatch(t, load.CombineRocks) }},
	// The same one by one: until a reader that waits has been woken and has got the message.
	{"arrive/file", false, func(t *testing.T) count { return countArrive(t, load.FileQueues) }},
	{"arrive/rocks", true, func(t *testing.T) count { return countArrive(t, load.RocksQueues) }},
	// A unit, of 512 that are handed over together, over 64 queues, until it can be read; of RocksDB that is the group commit.
	{"commit/file", false, func(t *testing.T) count { return countCommit(t, load.FileQueues) }},
	{"commit/rocks", true, func(t *testing.T) count { return countCommit(t, load.RocksQueues) }},
	{"commit/combine", true, func(t *testing.T) count { return countCommit(t, load.CombineRocks) }},
	// A message with a key and a unique key, of 256 that are handed over together.
	{"index/hash", false, countHashIndex},
	{"index/rocks", true, countRocksIndex},
	// A call for 32 messages of a queue.
	{"get/file", false, func(t *testing.T) count { return countGet(t, load.FileQueues, false) }},
	{"get/rocks", true, func(t *testing.T) count { return countGet(t, load.RocksQueues, false) }},
	{"get/combine", true, func(t *testing.T) count { return countGet(t, load.CombineRocks, false) }},
	// A search for one message by its key.
	{"query/hash", false, func(t *testing.T) count { return countGet(t, load.FileQueues, true) }},
}

const (
	topic      = "TopicOfTheBudget"
	queues     = 8 // of what is dispatched
	bodyBytes  = 100
	firstDigit = 5 // of the number in a message's key
)

// options are small files and nothing that runs now and then: what is counted shall be what was asked for.
func options(e load.Engine) store.Options {
	o := load.Options(e)
	o.MappedFileSizeCommitLog = 64 << 20
	o.PreallocateAheadBytes = 0
	o.MessageIndexEnable = false
	o.ShadowReadPercent = 0 // which answers are compared is decided by lot
	o.MaxHashSlotNum, o.MaxIndexNum = 10_000, 100_000
	o.Logger = slog.New(slog.DiscardHandler)
	return o
}

func openStore(t *testing.T, o store.Options) *store.Store {
	s, err := store.Open(t.TempDir(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// messages are put one after the other, over the queues in turn, without an allocation of their own. What is read has one queue: RocksDB stores keep the queues that were asked for
// lately in a table in which two may have one place, and then each takes it from the other.
type messages struct {
	s      *store.Store
	queues int64
	m      message.Message
	put    int64 // how many
}

func newMessages(s *store.Store, queues int64) *messages {
	host := message.Host{Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Port: 10911}
	return &messages{s: s, queues: queues, m: message.Message{
		Topic: topic, Body: make([]byte, bodyBytes), BornTimestampMs: time.Now().UnixMilli(), BornHost: host, StoreHost: host,
		Properties: []byte("KEYS\x01" + key(0) + "\x02TAGS\x01TagA\x02"),
	}}
}

func key(n int64) string { return fmt.Sprintf("%010d", n) }

// next is the next message.
func (p *messages) next() *message.Message {
	digits := p.m.Properties[firstDigit : firstDigit+10]
	for i, n := len(digits)-1, p.put; i >= 0; i, n = i-1, n/10 {
		digits[i] = byte('0' + n%10)
	}
	p.m.QueueID = int32(p.put % p.queues)
	p.put++
	return &p.m
}

// awaitLast returns when the last message is in its queue.
func (p *messages) awaitLast(t *testing.T) {
	n := p.put - 1
	k := cq.Key{Topic: topic, QueueID: int32(n % p.queues)}
	for start := time.Now(); ; runtime.Gosched() {
		b, ok, err := p.s.Bounds(k)
		if err != nil {
			t.Fatal(err)
		}
		if ok && b.Max > n/p.queues {
			return
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("%s ends at %d, want %d", k, b.Max, n/p.queues+1)
		}
	}
}

func countPut(t *testing.T, flush store.FlushDiskType, producers, each int) count {
	o := options(load.FileQueues)
	o.BuildConsumeQueues, o.FlushDiskType = false, flush
	s := openStore(t, o)
	begin, ended := make([]chan struct{}, producers), make(chan struct{}, producers)
	for i := range begin {
		begin[i] = make(chan struct{})
		p := newMessages(s, queues)
		go func() {
			for range begin[i] {
				for range each {
					if _, err := s.Put(t.Context(), p.next()); err != nil {
						t.Error(err)
					}
				}
				ended <- struct{}{}
			}
		}()
		defer close(begin[i])
	}
	return measure(producers*each, func() {
		for _, c := range begin {
			c <- struct{}{}
		}
		for range producers {
			<-ended
		}
	})
}

// countDispatch has messages confirmed, and so dispatched, 256 at a time, however fast who dispatches would be otherwise: what it costs to be woken is once in it.
func countDispatch(t *testing.T, e load.Engine) count {
	const stretches, stretch = 8, 256
	o := options(e)
	o.FlushDiskType = store.SyncFlush
	p := newMessages(openStore(t, o), queues)
	return measure(stretches*stretch, func() {
		for range stretches {
			for range stretch {
				if _, err := p.s.PutUnflushed(t.Context(), p.next()); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.s.Flush(); err != nil {
				t.Fatal(err)
			}
			p.awaitLast(t)
		}
	})
}

func countArrive(t *testing.T, e load.Engine) count {
	const each = 500
	s := openStore(t, options(e))
	p := newMessages(s, 1)
	u, err := s.SubscribeArrivals()
	require.NoError(t, err)
	defer u.Close()
	var told []store.Arrival
	var res store.GetResult
	defer res.Release()
	return measure(each, func() {
		for range each {
			if _, err := s.Put(t.Context(), p.next()); err != nil {
				t.Fatal(err)
			}
			if told, err = u.Next(t.Context(), told); err != nil || len(told) != 1 {
				t.Fatal(len(told), err)
			}
			req := store.GetRequest{Topic: told[0].Key.Topic, QueueID: told[0].Key.QueueID, Offset: told[0].From, MaxMessages: 32}
			if err := s.Get(&req, &res); err != nil || len(res.Messages) != 1 {
				t.Fatal(res.Status, err)
			}
		}
	})
}

func openQueues(t *testing.T, e load.Engine) (s cq.Store) {
	dir := t.TempDir()
	openFiles := func() cq.Store {
		f, err := file.Open(filepath.Join(dir, "file"), file.Options{})
		require.NoError(t, err)
		return f
	}
	openRocks := func() cq.Store {
		o := rocks.DefaultOptions()
		o.Create = true
		r, err := rocks.Open(filepath.Join(dir, "rocks"), o)
		require.NoError(t, err)
		return r
	}
	switch e {
	case load.FileQueues:
		s = openFiles()
	case load.RocksQueues:
		s = openRocks()
	default:
		c, err := combine.New(openFiles(), openRocks(), combine.Options{Preferred: cq.KindRocks, Authority: cq.KindRocks})
		require.NoError(t, err)
		s = c
	}
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func countCommit(t *testing.T, e load.Engine) count {
	const groups, group, keys = 8, 512, 64
	s := openQueues(t, e)
	batch, next := make([]cq.Entry, group), int64(0)
	for i := range batch {
		batch[i].Key = cq.Key{Topic: topic, QueueID: int32(i % keys)}
	}
	return measure(groups*group, func() {
		for range groups {
			for i := range batch {
				batch[i].QueueOffset, batch[i].Unit = next/keys, cq.Unit{PhyOffset: next * 1000, Size: 1000, StoreTimestampMs: 1_700_000_000_000 + next}
				next++
			}
			if err := s.Append(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			if err := s.AwaitReadable(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// requests makes messages for an index, of 256 at a time.
type requests struct {
	next  int64
	r     message.DispatchRequest
	topic []byte
	text  []byte
}

const requestBatch = 256

func (q *requests) each(add func(r *message.DispatchRequest)) {
	q.topic = append(q.topic[:0], topic...)
	for range requestBatch {
		q.text = strconv.AppendInt(append(q.text[:0], "key-"...), 1_000_000_000+q.next, 10)
		q.r = message.DispatchRequest{
			Topic: q.topic, PhyOffset: q.next * 1000, Size: 1000, StoreTimestampMs: 1_700_000_000_000 + q.next/600, Keys: q.text, UniqKey: q.text[4:], BatchSize: 1,
		}
		add(&q.r)
		q.next++
	}
}

// requestsBatch is what an index takes requests in.
type requestsBatch interface {
	Add(r *message.DispatchRequest)
	Reset()
}

// countIndexing counts what an index takes for a request, in batches, each of which is added to b and appended.
func countIndexing[B requestsBatch](t *testing.T, b B, appendBatch func(B) error) count {
	var q requests
	return measure(8*requestBatch, func() {
		for range 8 {
			b.Reset()
			q.each(b.Add)
			if err := appendBatch(b); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func countHashIndex(t *testing.T) count {
	x, err := index.Open(t.TempDir(), index.Options{HashSlots: 10_000, MaxEntries: 100_000})
	require.NoError(t, err)
	defer func() { require.NoError(t, x.Close()) }()
	return countIndexing(t, new(index.Batch), x.AppendBatch)
}

func countRocksIndex(t *testing.T) count {
	x, err := indexrocks.Open(t.TempDir(), indexrocks.Options{Create: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, x.Close()) }()
	return countIndexing(t, new(indexrocks.Batch), x.AppendBatch)
}

// countGet counts gets, or, if byKey is set, queries.
func countGet(t *testing.T, e load.Engine, byKey bool) count {
	const stored, calls = 4000, 500
	o := options(e)
	o.MessageIndexEnable = byKey
	p := newMessages(openStore(t, o), 1)
	for range stored {
		_, err := p.s.Put(t.Context(), p.next())
		require.NoError(t, err)
	}
	require.NoError(t, load.AwaitBuilt(t.Context(), p.s))
	n := int64(0)
	if byKey {
		var res store.QueryResult
		defer res.Release()
		keys := make([]string, stored)
		for i := range keys {
			keys[i] = key(int64(i))
		}
		return measure(calls, func() {
			for range calls {
				n = (n + 7) % stored
				if err := p.s.Query(store.QueryRequest{Topic: topic, Key: keys[n]}, &res); err != nil || len(res.Messages) != 1 {
					t.Fatal(len(res.Messages), err)
				}
			}
		})
	}
	var res store.GetResult
	defer res.Release()
	return measure(calls, func() {
		for range calls {
			n = (n + 7) % (stored - 32)
			if err := p.s.Get(&store.GetRequest{Topic: topic, Offset: n, MaxMessages: 32}, &res); err != nil || len(res.Messages) != 32 {
				t.Fatal(res.Status, err)
			}
		}
	})
}
