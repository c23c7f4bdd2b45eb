package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// viewMode is where a store has its consume queues. Every test of the whole store runs in each of them.
type viewMode struct {
	name  string
	set   func(o *store.Options)
	kinds []cq.Kind // that are looked at afterwards

	lightInRocks bool // of two kinds, RocksDB alone has light queues
}

// has tells whether one of the kinds keeps a queue.
func (m viewMode) has(kind cq.Kind, q queue) bool {
	return kind == cq.KindRocks || !m.lightInRocks || !cq.Key{Topic: q.Topic}.IsLMQ()
}

// combined tells whether the store has its queues twice.
func (m viewMode) combined() bool { return len(m.kinds) > 1 }

// viewModes are filled further where RocksDB is built in.
var viewModes = []viewMode{
	{name: "files", set: func(*store.Options) {}, kinds: []cq.Kind{cq.KindFile}},
}

// moreModes are those of single tests.
var moreModes []viewMode

func viewModeOf(name string) viewMode {
	for _, m := range slices.Concat(viewModes, moreModes) {
		if m.name == name {
			return m
		}
	}
	panic("no such mode: " + name)
}

// Sizes of the stores: small, so that everything rolls, fills and expires.
const (
	workLogFile  = 64 << 10
	workKeep     = 4 // log files that retention leaves, of a process that is killed
	lossKeep     = 1 // of a store that loses power
	workQueueIDs = 3
)

// options of a store whose queues are as m says and whose log is written as p says.
func (m viewMode) options(p putMode) store.Options {
	o := store.DefaultOptions()
	o.MappedFileSizeCommitLog = workLogFile
	o.PreallocateAheadBytes = 16 << 10
	o.MappedFileSizeConsumeQueue = 20 * 100
	o.MaxHashSlotNum, o.MaxIndexNum = 100, 400
	o.EnableLmq, o.EnableMultiDispatch = true, true
	o.FlushConsumeQueueThoroughInterval = 7 * time.Millisecond
	o.FlushIntervalCommitLog = 20 * time.Millisecond
	o.FileReservedTime = 0
	o.DeleteFileBatchMax = 2
	o.DeleteCommitLogFilesInterval, o.DeleteConsumeQueueFilesInterval = time.Millisecond, time.Millisecond
	m.set(&o)
	p.set(&o)
	return o
}

// workTopics get plain messages; the last one gets few, so that all it has expires and its offsets have to be known nevertheless.
var workTopics = []string{"plain", "other", "seldom"}

var workLights = []string{"%LMQ%a", "%LMQ%b", "%LMQ%c"}

// workQueues are all queues that a workload puts to.
func workQueues() (all []queue) {
	for _, topic := range workTopics {
		for id := range int32(workQueueIDs) {
			all = append(all, queue{topic, id})
		}
	}
	for _, topic := range workLights {
		all = append(all, queue{topic, 0})
	}
	for level := range int32(3) {
		all = append(all, queue{message.TopicSchedule, level})
	}
	return append(all, queue{"half", 0})
}

var workTags = []string{"", "A", "red", "polygenelubricants"} // the last one has the hash math.MinInt32

// indexKey is the key by which the index finds a message.
func indexKey(k key) string { return fmt.Sprintf("k%d-%d-%d-%d", k.Run, k.Producer, k.N, k.I) }

func properties(pairs ...string) []byte {
	var b []byte
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			b = append(append(append(append(b, pairs[i]...), 1), pairs[i+1]...), 2)
		}
	}
	return b
}

// workMessage draws a message. More than one: it is a batch of so many.
func workMessage(rng *rand.Rand, k key) (m *message.Message, count int) {
	topic := workTopics[rng.IntN(2)]
	if k.N < 2 || rng.IntN(80) == 0 {
		topic = workTopics[2]
	}
	m = putMessage(topic, int32(rng.IntN(workQueueIDs)))
	tags, wait, light, delay := workTags[rng.IntN(len(workTags))], "", "", ""
	if rng.IntN(4) == 0 {
		wait = "false"
	}
	switch kind := rng.IntN(24); {
	case kind < 3: // a batch
		count = 2 + rng.IntN(8)
		for i := range count {
			e := message.BatchElement{Body: bodyOf(key{k.Run, k.Producer, k.N, i})}
			e.Properties = properties(message.PropertyKeys, indexKey(key{k.Run, k.Producer, k.N, i}), message.PropertyTags, tags)
			m.Body, _ = e.AppendTo(m.Body) // of these sizes it always fits
		}
		m.Properties = properties(message.PropertyWait, wait)
		return m, count
	case kind < 7: // light queues
		light = strings.Join(slices.Clone(workLights)[:1+rng.IntN(len(workLights))], ",")
	case kind == 7: // prepared or rolled back: in no queue
		m.Topic, m.QueueID, m.SysFlag = "half", 0, message.TransactionPrepared
		if rng.IntN(2) == 0 {
			m.SysFlag = message.TransactionRollback
		}
	case kind == 8:
		m.SysFlag = message.TransactionCommit
	case kind < 11: // delayed
		level := 1 + rng.IntN(3)
		m.Topic, m.QueueID, delay = message.TopicSchedule, int32(level-1), strconv.Itoa(level)
	}
	m.Body = bodyOf(k)
	m.Properties = properties(message.PropertyKeys, indexKey(k), message.PropertyTags, tags, message.PropertyWait, wait,
		message.PropertyMultiDispatch, light, message.PropertyDelay, delay)
	return m, 1
}

// owesUnit tells whether a message of that flag is in its queue.
func owesUnit(sysFlag int32) bool { return sysFlag>>2&3 == 0 || sysFlag>>2&3 == 2 }

// putWork puts one message or batch. ok is false when it was not acknowledged because the machine is slow.
func putWork(s *store.Store, rng *rand.Rand, k key) (a acked, ok bool, err error) {
	m, count := workMessage(rng, k)
	a = acked{First: k, Count: count, Topic: m.Topic, QueueID: m.QueueID, Unitless: !owesUnit(m.SysFlag)}
	put := s.Put
	if count > 1 {
		put = s.PutBatch
	}
	r, err := put(context.Background(), m)
	var pe *store.PutError
	if errors.As(err, &pe) && (pe.Status == store.PutOSPageCacheBusy || pe.Status == store.PutFlushDiskTimeout) {
		return a, false, nil
	}
	if err != nil {
		return a, false, fmt.Errorf("put to %s/%d: %w", m.Topic, m.QueueID, err)
	}
	a.Offset, a.Phy, a.Bytes, a.Committed = r.Append.QueueOffset, r.Append.PhyOffset, int64(r.Append.Bytes), s.Positions().Committed
	return a, true, nil
}

// consumed is what a consumer got of a queue in one go, a line of JSON.
type consumed struct {
	Queue queue
	From  int64 // where it asked
	Next  int64 // where it asks next
	At    []int64
	Keys  []key
	Bad   string // an answer that no consumer may get
}

// consumer reads queues in order.
type consumer struct {
	next map[queue]int64
	res  store.GetResult
}

// pull reads some of a queue. nil: there is nothing yet.
func (c *consumer) pull(s *store.Store, q queue) (*consumed, error) {
	from := c.next[q]
	err := s.Get(&store.GetRequest{Topic: q.Topic, QueueID: q.ID, Offset: from, MaxMessages: 16}, &c.res)
	if errors.Is(err, store.ErrRebuilding) {
		return nil, nil // later
	}
	if err != nil {
		return nil, err
	}
	defer c.res.Release()
	got := &consumed{Queue: q, From: from, Next: c.res.NextOffset}
	switch c.res.Status {
	case store.GetOffsetOverflowOne, store.GetQueueEmpty:
		return nil, nil
	case store.GetNoQueue:
		if from == 0 {
			return nil, nil
		}
		got.Bad = "the queue is gone"
	case store.GetOffsetOverflowBadly, store.GetOffsetFoundNull, store.GetNoMatchedMessage:
		got.Bad = fmt.Sprintf("%v, queue [%d, %d)", c.res.Status, c.res.MinOffset, c.res.MaxOffset)
	case store.GetFound, store.GetOffsetTooSmall, store.GetMessageWasRemoving: // the last two: it has expired, which the checker of the run looks after
	}
	for _, m := range c.res.Messages {
		var r message.Record
		if err := r.Decode(m.Record, true); err != nil {
			return nil, err
		}
		k, ok := keyOf(r.Body)
		if !ok {
			got.Bad = fmt.Sprintf("offset %d: nobody put the body %q", m.QueueOffset, r.Body)
		}
		got.At, got.Keys = append(got.At, m.QueueOffset), append(got.Keys, k)
	}
	if got.Next <= from {
		got.Bad += fmt.Sprintf("; %v goes on at %d", c.res.Status, got.Next)
	}
	c.next[q] = got.Next
	return got, nil
}
