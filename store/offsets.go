package store

import (
	"math"
	"strings"
	"sync/atomic"

	"github.com/tandemq/tandemmq/internal/locks"
	"github.com/tandemq/tandemmq/message"
)

// offsetTable knows the next queue offset of every queue that was ever put to: the authority over queue offsets while the
// store is open.
//
// There are two classes of queues, which later have different stores behind them: light queues, whose names begin with
// %LMQ%, and all others. The name tells the class, so one table holds both and a put onto the topic %LMQ%x counts in the
// same row as a message that is also dispatched to %LMQ%x (RocketMQ keeps two counters there, for one queue). Only the
// number of light queues is kept apart, for their quota.
//
// The table is cut into stripes, each with a lock. A put holds the stripes of its queues from reading the offsets to the
// reservation of its place in the log, so that within a queue the order of offsets is the order of places; the log's own lock
// comes after them. A queue that nobody put to has no row: looking one up makes none, and a refused put leaves none.
//
// Source: QueueOffsetOperator, TopicQueueLock, 5.5.0.
type offsetTable struct {
	*locks.Striped
	rows []map[queueKey]*int64 // of each stripe: the next offset of a queue; 0 of one that was deleted
	// load returns the next offset of a queue that has no row yet, 0 for one that does not exist. nil: there is none without a row.
	load  func(topic string, id int32) (int64, error)
	light atomic.Int64 // light queues in the table, and those that running puts have announced
}

type queueKey struct {
	topic string
	id    int32
}

func newOffsetTable(stripes int) *offsetTable {
	t := &offsetTable{Striped: locks.NewStriped(locks.Mutex, stripes), rows: make([]map[queueKey]*int64, stripes)}
	for i := range t.rows {
		t.rows[i] = make(map[queueKey]*int64)
	}
	return t
}

// isLight tells whether a name is that of a light queue.
func isLight(topic string) bool { return strings.HasPrefix(topic, message.LMQPrefix) }

// rowLocked returns the row of a queue in stripe i, nil when there is none.
func (t *offsetTable) rowLocked(i int, topic string, id int32) *int64 {
	return t.rows[i][queueKey{topic, id}]
}

// rowBytesLocked is rowLocked for a name that is part of something else. No allocation.
func (t *offsetTable) rowBytesLocked(i int, topic []byte, id int32) *int64 {
	return t.rows[i][queueKey{string(topic), id}]
}

// findLocked is rowLocked, and makes the row of a queue that exists and has none yet.
func (t *offsetTable) findLocked(i int, topic string, id int32) (*int64, error) {
	if row := t.rowLocked(i, topic, id); row != nil || t.load == nil {
		return row, nil
	}
	next, err := t.load(topic, id)
	if err != nil || next <= 0 {
		return nil, err
	}
	t.addLocked(i, strings.Clone(topic), id, next)
	return t.rowLocked(i, topic, id), nil
}

// addLocked makes the row of a queue that has none, and keeps topic, which so must not be part of somebody's large buffer. A
// light queue must have been announced.
func (t *offsetTable) addLocked(i int, topic string, id int32, next int64) {
	t.rows[i][queueKey{topic, id}] = &next
}

// announceLight counts n new light queues if that makes no more than limit (below 0: no limit).
func (t *offsetTable) announceLight(n int, limit int64) bool {
	if total := t.light.Add(int64(n)); limit >= 0 && total > limit {
		t.light.Add(-int64(n))
		return false
	}
	return true
}

// next returns the next offset of a queue, 0 for one that was never put to. No allocation.
func (t *offsetTable) next(topic string, id int32) int64 {
	i := t.Stripe(topic, id)
	t.Lock(i)
	defer t.Unlock(i)
	if row, err := t.findLocked(i, topic, id); row != nil && err == nil {
		return *row
	}
	return 0
}

// raise makes next the least next offset of a queue; 0 and less change nothing.
func (t *offsetTable) raise(topic []byte, id int32, next int64) {
	if next <= 0 {
		return
	}
	i := t.StripeBytes(topic, id)
	t.Lock(i)
	defer t.Unlock(i)
	if row := t.rowBytesLocked(i, topic, id); row != nil {
		*row = max(*row, next)
		return
	}
	name := string(topic)
	if isLight(name) {
		t.light.Add(1)
	}
	t.addLocked(i, name, id, next)
}

// observe raises the offsets of the queues that own a unit for the record: its own, where an inner batch takes as many slots
// as it has messages, and those it is dispatched to besides.
//
// Both versions of records count (W27). Offsets that no put can have written, below 0 or at the end of 64 bits, do not.
//
// Source: CommitLog.getMessageNum, ConsumeQueue.multiDispatchLmqQueue, 5.5.0.
func (t *offsetTable) observe(r *message.Record) {
	if !r.OwesUnit() {
		return
	}
	n := int64(1)
	if r.SysFlag&message.FlagInnerBatch != 0 {
		d := r.DispatchRequest(nil)
		n = max(n, int64(d.BatchSize))
	}
	t.raise(r.Topic, r.QueueID, after(r.QueueOffset, n))
	r.MultiDispatch(func(name []byte, id int32, offset int64, ok bool) bool {
		if ok {
			t.raise(name, id, after(offset, 1))
		}
		return true
	})
}

// after returns the offset behind n units from offset on; 0 when there is no such number.
func after(offset, n int64) int64 {
	if offset < 0 || offset > math.MaxInt64-n {
		return 0
	}
	return offset + n
}

// passAll goes through all stripes: when it returns, every put that held one has let go of it.
func (t *offsetTable) passAll() {
	for i := range t.rows {
		t.Lock(i)
		t.Unlock(i)
	}
}
