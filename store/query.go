package store

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

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
	// BeginMs and EndMs bound the store time in ms, both included. EndMs 0: no upper bound, and if BeginMs is 0 too, the default window: the last MaxRocksDBIndexQueryDays days
	// up to the newest message that is indexed, whichever index is asked. Whoever wants all of it says so: EndMs math.MaxInt64.
	BeginMs, EndMs int64
	// BelowPhyOffset asks for messages below that physical offset alone: QueryResult.NextBelow of the query before, for the next older ones. 0: all.
	BelowPhyOffset int64
	// Explain is filled with how the answer came about. nil: nothing of it is noted.
	Explain *QueryExplanation
}

// QueryExplanation is how a Query came to its answer.
type QueryExplanation struct {
	Indexes  []IndexLook   `json:"indexes"`  // that were asked, in this order
	Rejected []RejectedHit `json:"rejected"` // at most 1000; Answer.Rejected has their number
}

// IndexLook is what was done in one index.
type IndexLook struct {
	Name      string           `json:"name"`      // "index" or "rocks index"
	IndexedTo int64            `json:"indexedTo"` // as in QueryResult
	IndexedMs int64            `json:"indexedTimestamp"`
	Files     []index.FileLook `json:"files"`             // newest first; hours of an index in RocksDB
	Failure   string           `json:"failure,omitempty"` // why it did not answer
}

// RejectedHit is a hit that is no message with the key.
type RejectedHit struct {
	PhyOffset int64  `json:"phyOffset"`
	Why       string `json:"why"`
}

// maxExplainedHits bounds a QueryExplanation.
const maxExplainedHits = 1000

// MaxQueryResults is how many messages a Query answers at most. Source: MessageStoreConfig.maxMsgsNumBatch, 5.5.0.
const MaxQueryResults = 64

// maxQuerySteps bounds how many entries of the index one Query looks at: some seconds of work.
const maxQuerySteps = 50_000_000

// QueryResult is the answer of Query. The zero value is ready to be used, by one goroutine at a time, any number of times.
type QueryResult struct {
	// Messages are in the order of the log, until Release. Their QueueOffset is that of the record.
	Messages []Message
	Bytes    int
	// IndexedTo is the physical offset up to which messages are in the index, and IndexedMs the store time (ms) of the last of them, as far as that is known: what is behind may be in the log and not be
	// found yet. -1 and 0 when nothing is indexed.
	IndexedTo, IndexedMs int64
	// LogEnd is where the messages end that readers may see, when the query began.
	LogEnd int64
	// BeginMs and EndMs are the bounds that were used.
	BeginMs, EndMs int64
	// NextBelow is the BelowPhyOffset of a query for the next older messages, 0 when there are none.
	NextBelow int64
	// Answer says how it was found: files and entries looked at, hits that were turned down. Its LastMs and LastPhyOffset are what clients are told.
	Answer index.Answer

	held commitlog.Held
}

// Complete tells whether everything that is in the log was in the index, so that what was not found is absent, within the bounds and unless Answer.Limited, and not merely not indexed yet.
func (r *QueryResult) Complete() bool { return r.IndexedTo >= r.LogEnd }

// Release lets go of the messages. Idempotent.
func (r *QueryResult) Release() {
	r.held.Release()
	clear(r.Messages)
	*r = QueryResult{Messages: r.Messages[:0], IndexedTo: -1, held: r.held}
}

// ErrNoIndex is what Query answers where there is no index.
var ErrNoIndex = errors.New("the store has no message index")

// Query looks for the newest messages of a topic by key, into res, which it releases first. The index has hashes only: each message answered was compared with its
// record, topic, key and time, so what merely has the same hash is not answered, and does not count (I7).
//
// With two indexes the one that indexFileReadEnable prefers is asked, and the other too where that has come further, or the first cannot be read: turning one on or off hides nothing (I14).
//
// An index that lags, is built again or cannot be read is no reason for queues or puts to wait. Errors: ErrClosed; ErrNoIndex, where there is none or
// it could not be opened; that of an index that cannot be read.
//
// Source: DefaultMessageStore.queryMessage, 5.5.0, which answers by hash.
func (s *Store) Query(req QueryRequest, res *QueryResult) error {
	res.Release()
	switch {
	case s.closed.Load():
		return ErrClosed
	case !s.flags.CanRead():
		return fmt.Errorf("query messages: %w", s.flagsError())
	case s.views == nil:
		return ErrNoIndex
	}
	var sources [2]keySource
	q := querier{log: s.writer.Log(), sources: s.views.keySources(sources[:0]), days: s.live().MaxRocksDBIndexQueryDays, req: req, res: res}
	if len(q.sources) == 0 {
		return ErrNoIndex
	}
	res.LogEnd = s.writer.Positions().Confirm
	if err := q.run(); err != nil {
		res.Release()
		if s.closed.Load() {
			return ErrClosed
		}
		return fmt.Errorf("query messages of %s by key %q: %w", req.Topic, req.Key, err)
	}
	return nil
}

// KeyIndex is an index of messages by key: *index.Index, or that of package index/rocks.
type KeyIndex interface {
	Query(q index.Query, accept func(phyOffset int64) bool) (index.Answer, error)
	// Last returns physical offset and store time (ms) of the last message that it has, -1 and 0 without one.
	Last() (phyOffset, storeMs int64)
}

// keySource is an index, and how far it has come.
type keySource struct {
	KeyIndex
	name                 string
	indexedTo, indexedMs int64
}

// querier looks up one key.
type querier struct {
	log     *commitlog.Log
	sources []keySource // the first is asked
	days    int         // of the default window
	req     QueryRequest
	res     *QueryResult
	record  message.Record
	failed  error // what kept a hit from being compared
}

func (q *querier) run() error {
	req, res := &q.req, q.res
	most := MaxQueryResults
	if req.Max > 0 {
		most = min(req.Max, most)
	}
	for _, s := range q.sources {
		res.IndexedMs = max(res.IndexedMs, s.indexedMs)
	}
	if req.EndMs == 0 {
		req.EndMs = math.MaxInt64
		if req.BeginMs == 0 {
			req.BeginMs = max(0, res.IndexedMs-int64(q.days)*(24*time.Hour).Milliseconds())
		}
	}
	res.BeginMs, res.EndMs, res.IndexedMs = req.BeginMs, req.EndMs, 0
	var errs []error
	for i := range q.sources {
		s := &q.sources[i]
		if i > 0 && len(errs) == 0 && s.indexedTo <= q.sources[0].indexedTo {
			break
		}
		if err := q.ask(s, most); err != nil {
			errs = append(errs, err)
			continue
		}
		res.IndexedTo, res.IndexedMs = max(res.IndexedTo, s.indexedTo), max(res.IndexedMs, s.indexedMs)
	}
	if err := errors.Join(errs...); q.failed != nil || res.IndexedTo < 0 && err != nil {
		return errors.Join(err, q.failed)
	}
	slices.SortFunc(res.Messages, func(a, b Message) int { return int(min(max(a.PhyOffset-b.PhyOffset, -1), 1)) })
	if n := len(res.Messages) - most; n > 0 { // of two indexes
		for i := range n {
			res.Bytes -= len(res.Messages[i].Record)
		}
		res.Messages = slices.Delete(res.Messages, 0, n)
	}
	if len(res.Messages) == most {
		res.NextBelow = res.Messages[0].PhyOffset
	}
	return nil
}

// ask asks one index.
func (q *querier) ask(s *keySource, most int) error {
	req, a := &q.req, &q.res.Answer
	look := index.Query{
		Topic: req.Topic, Key: req.Key, Type: req.Type, Max: most, BeginMs: req.BeginMs, EndMs: req.EndMs, BelowPhyOffset: req.BelowPhyOffset, MaxSteps: maxQuerySteps,
	}
	var told *IndexLook
	if req.Explain != nil {
		req.Explain.Indexes = append(req.Explain.Indexes, IndexLook{Name: s.name, IndexedTo: s.indexedTo, IndexedMs: s.indexedMs, Files: []index.FileLook{}})
		told = &req.Explain.Indexes[len(req.Explain.Indexes)-1]
		look.Looked = func(f index.FileLook) { told.Files = append(told.Files, f) }
	}
	got, err := s.Query(look, q.accept)
	if told != nil && err != nil {
		told.Failure = err.Error()
	}
	if got.LastPhyOffset >= a.LastPhyOffset {
		a.LastMs, a.LastPhyOffset = got.LastMs, got.LastPhyOffset
	}
	a.PhyOffsets = append(a.PhyOffsets, got.PhyOffsets...)
	a.Files, a.Steps, a.Rejected, a.BadLinks, a.Limited = a.Files+got.Files, a.Steps+got.Steps, a.Rejected+got.Rejected, a.BadLinks+got.BadLinks, a.Limited || got.Limited
	return err
}

// accept decides by the record whether a hit is one, and keeps it.
func (q *querier) accept(phy int64) bool {
	if q.failed != nil {
		return false
	}
	for i := range q.res.Messages {
		if q.res.Messages[i].PhyOffset == phy {
			return true // the other index has it as well
		}
	}
	var b []byte
	var why string
	err := commitlog.GuardFault(func() (err error) {
		b, why, err = q.hit(phy)
		return err
	})
	if err != nil {
		if why = whyAbsent(err); why == "" {
			q.failed = err
			return false
		}
	}
	if why != "" {
		if e := q.req.Explain; e != nil && len(e.Rejected) < maxExplainedHits {
			e.Rejected = append(e.Rejected, RejectedHit{phy, why})
		}
		return false
	}
	q.res.Messages = append(q.res.Messages, Message{Record: b, QueueOffset: q.record.QueueOffset, PhyOffset: phy})
	q.res.Bytes += len(b)
	return true
}

// whyAbsent says in words why the log does not have a record; "": err is something else.
func whyAbsent(err error) string {
	var gone *commitlog.RangeError
	var missing *commitlog.MissingFileError
	switch {
	case errors.As(err, &gone):
		return "its record is not in the log: it has expired, or was not written"
	case errors.As(err, &missing):
		return missing.String()
	}
	return ""
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
