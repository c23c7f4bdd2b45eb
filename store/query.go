package store

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/message"
)

// QueryRequest says which messages are looked for.
type QueryRequest struct {
	Topic string
	Key   string
	// Type is the kind of key. 0: one of KEYS, or the unique key.
	Type index.Type
	// Max is how many are wanted at most; 0: MaxQueryResults, which bounds it.
	Max int
	// BeginMs and EndMs bound the store time in ms, both included. EndMs 0: no bound.
	BeginMs, EndMs int64
	// OnRejected is told of each hit that is none, and why. nil: nobody.
	OnRejected func(phyOffset int64, why string)
}

// MaxQueryResults is how many messages a Query answers at most. Source: MessageStoreConfig.maxMsgsNumBatch, 5.5.0.
const MaxQueryResults = 64

// maxQuerySteps bounds how many entries of the index one Query looks at: some seconds of work.
const maxQuerySteps = 50_000_000

// QueryResult is the answer of Query. The zero value is ready to be used, by one goroutine at a time, any number of times.
type QueryResult struct {
	// Messages are in the order of the log, until Release. Their QueueOffset is that of the record.
	Messages []Message
	Bytes    int
	// IndexedTo is the physical offset up to which messages are in the index: one behind it may be in the log and not be found yet.
	// -1 when nothing is.
	IndexedTo int64
	// Answer says how it was found: files and entries looked at, hits that were turned down. Its LastMs and LastPhyOffset are what clients are told.
	Answer index.Answer

	held commitlog.Held
}

// Release lets go of the messages. Idempotent.
func (r *QueryResult) Release() {
	r.held.Release()
	clear(r.Messages)
	r.Messages, r.Bytes, r.IndexedTo, r.Answer = r.Messages[:0], 0, -1, index.Answer{}
}

// ErrNoIndex is what Query answers where there is no index.
var ErrNoIndex = errors.New("the store has no message index")

// Query looks for the newest messages of a topic by key, into res, which it releases first. The index has hashes only: each message answered was compared with its
// record, topic, key and time, so what merely has the same hash is not answered, and does not count (I7).
//
// An index that lags, is built again or cannot be read is no reason for queues or puts to wait. Errors: ErrClosed; ErrNoIndex, where messageIndexEnable is off or the
// index could not be opened; that of an index that cannot be read.
//
// Source: DefaultMessageStore.queryMessage, 5.5.0, which answers by hash.
func (s *Store) Query(req QueryRequest, res *QueryResult) error {
	res.Release()
	switch {
	case s.closed.Load():
		return ErrClosed
	case !s.flags.CanRead():
		return fmt.Errorf("query messages: %w", s.flagsError())
	case s.views == nil || s.views.index == nil:
		return ErrNoIndex
	}
	q := querier{log: s.writer.Log(), index: s.views.index.index, req: req, res: res}
	res.IndexedTo = s.views.index.follow.from.Load()
	if err := q.run(); err != nil {
		res.Release()
		if s.closed.Load() {
			return ErrClosed
		}
		return fmt.Errorf("query messages of %s by key %q: %w", req.Topic, req.Key, err)
	}
	return nil
}

// querier looks up one key.
type querier struct {
	log    *commitlog.Log
	index  *index.Index
	req    QueryRequest
	res    *QueryResult
	record message.Record
	failed error // what kept a hit from being compared
}

func (q *querier) run() (err error) {
	req, res := &q.req, q.res
	most := MaxQueryResults
	if req.Max > 0 {
		most = min(req.Max, most)
	}
	if req.EndMs == 0 {
		req.EndMs = math.MaxInt64
	}
	res.Answer, err = q.index.Query(index.Query{
		Topic: req.Topic, Key: req.Key, Type: req.Type, Max: most, BeginMs: req.BeginMs, EndMs: req.EndMs, MaxSteps: maxQuerySteps,
	}, q.accept)
	if err = errors.Join(err, q.failed); err != nil {
		return err
	}
	slices.SortFunc(res.Messages, func(a, b Message) int { return int(min(max(a.PhyOffset-b.PhyOffset, -1), 1)) })
	return nil
}

// accept decides by the record whether a hit is one, and keeps it.
func (q *querier) accept(phy int64) bool {
	if q.failed != nil {
		return false
	}
	var b []byte
	var why string
	err := commitlog.GuardFault(func() (err error) {
		b, why, err = q.hit(phy)
		return err
	})
	var gone *commitlog.RangeError
	switch {
	case errors.As(err, &gone):
		why = "its record is not in the log: it has expired, or was not written"
	case err != nil:
		q.failed = err
		return false
	}
	if why != "" {
		if q.req.OnRejected != nil {
			q.req.OnRejected(phy, why)
		}
		return false
	}
	q.res.Messages = append(q.res.Messages, Message{Record: b, QueueOffset: q.record.QueueOffset, PhyOffset: phy})
	q.res.Bytes += len(b)
	return true
}

const notRecord = "no record is there"

// hit returns the record at phy if it is what is looked for, and otherwise why it is not.
func (q *querier) hit(phy int64) (b []byte, why string, err error) {
	head, err := q.bytes(phy, message.BlankHeaderSize)
	if err != nil {
		return nil, "", err
	}
	size, ok := message.RecordSize(head)
	if !ok {
		return nil, notRecord, nil
	}
	b, err = q.bytes(phy, size)
	if err != nil {
		return nil, "", err
	}
	r := &q.record
	switch {
	case r.Decode(b, false) != nil || r.PhyOffset != phy:
		return nil, notRecord, nil
	case string(r.Topic) != q.req.Topic:
		return nil, "its message is of another topic", nil
	case r.StoreTimestampMs < q.req.BeginMs || r.StoreTimestampMs > q.req.EndMs:
		return nil, "its message was stored at another time", nil
	case !hasKey(r, q.req.Key, q.req.Type):
		return nil, "its message has other keys of the same hash", nil
	}
	return b, "", nil
}

// bytes returns bytes of the log, which may be old.
func (q *querier) bytes(phy int64, size int32) (b []byte, err error) {
	b, _, err = q.log.SelectCold(phy, size, &q.res.held)
	return b, err
}

// hasKey tells whether a record has a key of a type.
func hasKey(r *message.Record, key string, t index.Type) bool {
	if t == index.TypeTag {
		tags, ok := r.Property(message.PropertyTags)
		return ok && string(tags) == key
	}
	if unique, ok := r.Property(message.PropertyUniqKey); ok && string(unique) == key {
		return true
	}
	keys, _ := r.Property(message.PropertyKeys)
	for word := range bytes.SplitSeq(keys, []byte(" ")) {
		if len(word) > 0 && string(word) == key {
			return true
		}
	}
	return false
}
