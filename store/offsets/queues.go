package offsets

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

// retryPrefix begins the topic in which RocketMQ keeps what a group failed to consume, until it is delivered again.
const retryPrefix = "%RETRY%"

// queues answers for the queues of a store what offsets are held against.
type queues struct {
	v *store.View
	// ids lists the queues of each topic, ascending.
	ids map[string][]int32
	// batch are topics whose queues no view reads: nothing can be said about their offsets.
	batch map[string]bool
	// topics is the broker's topic table; nil when it cannot be read.
	topics map[string]bool
}

func newQueues(v *store.View) (*queues, error) {
	keys, err := cq.SortedKeys(v.Queues)
	if err != nil {
		return nil, err
	}
	q := &queues{v: v, ids: map[string][]int32{}, batch: map[string]bool{}}
	for _, k := range keys {
		q.ids[k.Topic] = append(q.ids[k.Topic], k.QueueID)
	}
	batch, err := v.Layout.BatchTopics()
	if err != nil {
		return nil, err
	}
	for _, t := range batch {
		q.batch[t] = true
	}
	if names, known, err := v.Layout.Topics(); err == nil && known {
		q.topics = names
	}
	return q, nil
}

// bounds returns the limits of a queue; ok is false when the store has no such queue.
func (q *queues) bounds(k cq.Key) (b cq.Bounds, ok bool, err error) {
	queue, ok := q.v.Queues.Queue(k)
	if !ok {
		return b, false, nil
	}
	b, err = queue.Bounds()
	return b, true, err
}

// storeTime returns the store time in ms of the message in a slot; ok is false where there is none, or none any more.
func (q *queues) storeTime(k cq.Key, slot int64) (ms int64, ok bool, err error) {
	queue, there := q.v.Queues.Queue(k)
	if !there || slot < 0 {
		return 0, false, nil
	}
	var u [1]cq.Unit
	n, err := queue.Read(slot, u[:])
	switch {
	case errors.Is(err, cq.ErrOffsetOutOfRange) || errors.Is(err, cq.ErrCorrupt):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case n == 0:
		return 0, false, nil
	case u[0].StoreTimestampMs > 0:
		return u[0].StoreTimestampMs, true, nil
	}
	if ms, err = q.v.Log.StoreTimestamp(u[0].PhyOffset, u[0].Size); err != nil {
		return 0, false, nil //nolint:nilerr // the record is gone or damaged: the slot has no time, which is what is asked
	}
	return ms, true, nil
}

// byTime returns the first slot of a queue whose message was stored at or after ms, its max when there is none (cq.OffsetByTime).
func (q *queues) byTime(k cq.Key, ms int64) (int64, error) {
	at, ok, err := q.v.OffsetByTime(k, ms, cq.BoundaryLower)
	if err == nil && !ok {
		err = fmt.Errorf("search queue %s by time: it is not there any more", k)
	}
	return at, err
}

// Retry is the state of a group's retry queues: what the group failed to consume, and has not got again, is there.
type Retry struct {
	Topic string `json:"topic"`
	// Queues is how many there are, Messages how many messages they hold.
	Queues   int   `json:"queues"`
	Messages int64 `json:"messages"`
	// Waiting is how many of the messages lie at or above the group's offsets; queues without an offset count in full.
	Waiting int64 `json:"waiting"`
	// LastStoreMs is the store time of the newest message; nil when there is none.
	LastStoreMs *int64 `json:"lastStoreMs,omitempty"`
}

func (q *queues) retry(s *Source, group string) (*Retry, error) {
	r := &Retry{Topic: retryPrefix + group}
	for _, id := range q.ids[r.Topic] {
		k := Key{r.Topic, group, id}
		b, ok, err := q.bounds(k.Queue())
		if err != nil || !ok {
			continue // told of by the sweep when anybody has an offset there
		}
		r.Queues++
		r.Messages += b.Max - b.Min
		from := b.Min
		if v, has := s.Offsets[k]; has && v.Bad == "" {
			from = min(max(v.Offset, b.Min), b.Max)
		}
		r.Waiting += b.Max - from
		if ms, ok, err := q.storeTime(k.Queue(), b.Max-1); err != nil {
			return nil, err
		} else if ok && (r.LastStoreMs == nil || ms > *r.LastStoreMs) {
			r.LastStoreMs = &ms
		}
	}
	return r, nil
}

// Selection says which offsets are meant. "" and a negative queue id: all.
type Selection struct {
	Group, Topic string
	QueueID      int32
}

// All selects every offset.
func All() Selection { return Selection{QueueID: -1} }

func (s Selection) has(k Key) bool {
	return (s.Group == "" || s.Group == k.Group) && (s.Topic == "" || s.Topic == k.Topic) && (s.QueueID < 0 || s.QueueID == k.QueueID)
}

// pick returns the selected keys of a source, sorted by group, topic and queue.
func (s Selection) pick(offsets map[Key]Value) []Key {
	var keys []Key
	for k := range offsets {
		if s.has(k) {
			keys = append(keys, k)
		}
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i].Compare(keys[j]) < 0 })
	return keys
}

func (q *queues) known(topic string) bool {
	return q.topics == nil || q.topics[topic] || strings.HasPrefix(topic, cq.LMQPrefix)
}
