package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/index"
	indexrocks "github.com/tandemq/tandemmq/index/rocks"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// Look-ups of single queues and records. None of them makes a queue, or anything else (W17).

// NoTime is the answer of StoreTime and EarliestTime where there is no message.
const NoTime int64 = -1

// OffsetByTime returns the queue offset that belongs to a store time in ms: with cq.BoundaryLower that of the first message stored then or later, with
// cq.BoundaryUpper that of the last one stored then or before. It is always within the bounds of the queue: max where all messages are older (lower), min where
// all are newer (upper) or none is left (F25). An unknown queue answers 0.
//
// A unit whose record is not there says nothing, and the search goes on at the next one (F24).
//
// Errors: ErrClosed, ErrBatchQueue, ErrRebuilding of a queue that is being built again, and that of a queue or log that cannot be read, with file or row.
//
// Source: DefaultMessageStore.getOffsetInQueueByTime, 5.5.0, which answers -1 for a RocksDB queue of which nothing is left.
func (s *Store) OffsetByTime(topic string, queueID int32, timestampMs int64, b cq.Boundary) (int64, error) {
	k := cq.Key{Topic: topic, QueueID: queueID}
	q, ok, err := s.queueFor("search by time", k)
	if err != nil || !ok {
		return 0, err
	}
	at, err := offsetByTime(q, s.writer.Log(), timestampMs, b)
	if err != nil {
		return 0, s.closedOr(err)
	}
	return at, nil
}

// StoreTime returns the store time in ms of the message at a queue offset, from its record; NoTime when the queue, the unit or the record is not there. Errors are
// those of OffsetByTime.
//
// Source: DefaultMessageStore.getMessageStoreTimeStamp, 5.5.0.
func (s *Store) StoreTime(topic string, queueID int32, queueOffset int64) (int64, error) {
	k := cq.Key{Topic: topic, QueueID: queueID}
	q, ok, err := s.queueFor("look up store time", k)
	if err != nil || !ok {
		return NoTime, err
	}
	ms, err := storeTimeAt(q, s.writer.Log(), queueOffset)
	if err != nil {
		return NoTime, fmt.Errorf("look up store time of %s at offset %d: %w", k, queueOffset, s.closedOr(err))
	}
	return ms, nil
}

// EarliestTime returns the store time in ms of the message at a queue's min offset; NoTime when nothing is left of the queue, or it is not there. Errors are
// those of OffsetByTime.
//
// Source: DefaultMessageStore.getEarliestMessageTime(topic, queueId), 5.5.0.
func (s *Store) EarliestTime(topic string, queueID int32) (int64, error) {
	k := cq.Key{Topic: topic, QueueID: queueID}
	q, ok, err := s.queueFor("look up earliest time", k)
	if err != nil || !ok {
		return NoTime, err
	}
	b, err := q.Bounds()
	ms := NoTime
	if err == nil && !b.Empty() {
		ms, err = storeTimeAt(q, s.writer.Log(), b.Min)
	}
	if err != nil {
		return NoTime, fmt.Errorf("look up earliest time of %s: %w", k, s.closedOr(err))
	}
	return ms, nil
}

// EarliestStoreTime returns the store time in ms of the first record of the log; NoTime when there is none, or the log begins with something else.
//
// Source: DefaultMessageStore.getEarliestMessageTime(), 5.5.0.
func (s *Store) EarliestStoreTime() (int64, error) {
	if s.closed.Load() {
		return NoTime, ErrClosed
	}
	log := s.writer.Log()
	ms, err := recordTime(log, max(log.MinOffset(), 0), 0)
	if err != nil {
		return NoTime, fmt.Errorf("look up earliest time: %w", s.closedOr(err))
	}
	return ms, nil
}

// MinOffset returns the offset of the first message of a queue that the log still has, its max when there is none; -1 for an unknown queue. Errors are those of
// OffsetByTime.
//
// Source: DefaultMessageStore.getMinOffsetInQueue, 5.5.0.
func (s *Store) MinOffset(topic string, queueID int32) (int64, error) {
	b, ok, err := s.boundsOf("look up min offset", topic, queueID)
	if err != nil || !ok {
		return -1, err
	}
	return b.Min, nil
}

// MaxOffset returns the offset behind the last message of a queue that can be read, 0 for an unknown queue; NextOffset counts what was put and is not dispatched
// yet. Errors are those of OffsetByTime.
//
// Source: DefaultMessageStore.getMaxOffsetInQueue with committed true, 5.5.0.
func (s *Store) MaxOffset(topic string, queueID int32) (int64, error) {
	b, ok, err := s.boundsOf("look up max offset", topic, queueID)
	if err != nil || !ok {
		return 0, err
	}
	return b.Max, nil
}

// ErrNoMessage is why MessageAt and MessageByID find nothing.
var ErrNoMessage = errors.New("no message is there")

// MessageAt reads the message that begins at a physical offset. The slices of r are valid until release is called, exactly once; on an error release is nil. The record is
// verified before any of it is believed: its magic, its lengths, that it says to be there, and the checksum of its body (W24).
//
// Errors: ErrNoMessage, with what is there instead: *commitlog.RangeError (expired, or not written yet), *commitlog.CorruptError; ErrClosed; those of a file
// that cannot be read.
//
// Source: DefaultMessageStore.lookMessageByOffset, 5.5.0, which takes any four bytes for a size.
func (s *Store) MessageAt(phyOffset int64, r *message.Record) (release func(), err error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if release, err = messageAt(s.writer.Log(), phyOffset, r); err != nil {
		return nil, s.closedOr(err)
	}
	return release, nil
}

// MessageByID is MessageAt of the message that an offset message id leads to (message.OffsetMsgID). A record that has another id, for it was stored by another host, is
// ErrNoMessage too: the id is that of another broker.
//
// Source: QueryMessageProcessor.viewMessageById, 5.5.0, which is given the offset alone.
func (s *Store) MessageByID(id string, r *message.Record) (release func(), err error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if release, err = messageByID(s.writer.Log(), id, r); err != nil {
		return nil, s.closedOr(err)
	}
	return release, nil
}

// queueFor returns a queue whose bounds are true as the log is now; ok is false when there is none.
func (s *Store) queueFor(what string, k cq.Key) (q cq.Queue, ok bool, err error) {
	switch {
	case s.closed.Load():
		return nil, false, ErrClosed
	case s.views == nil:
		return nil, false, fmt.Errorf("%s: the store was opened without consume queues (buildConsumeQueues=false)", what)
	case s.isBatchTopic(k.Topic):
		return nil, false, fmt.Errorf("%s of %s: %w", what, k.Topic, ErrBatchQueue)
	case !s.QueueReady(k): // before its bounds: those of a queue that was complete are true
		return nil, false, fmt.Errorf("%s of %s: %w", what, k, s.closedOr(ErrRebuilding))
	}
	if x := s.retention.expirer(); x != nil {
		if err := x.SetMinPhyOffset(s.Log().MinOffset()); err != nil {
			return nil, false, fmt.Errorf("%s of %s: %w", what, k, s.closedOr(err))
		}
	}
	q, ok = s.views.queues.Queue(k)
	switch {
	case !ok && s.closed.Load():
		return nil, false, ErrClosed
	case !ok && !s.QueueReady(k): // it was taken away meanwhile
		return nil, false, fmt.Errorf("%s of %s: %w", what, k, ErrRebuilding)
	}
	return q, ok, nil
}

func (s *Store) boundsOf(what, topic string, queueID int32) (b cq.Bounds, ok bool, err error) {
	k := cq.Key{Topic: topic, QueueID: queueID}
	q, ok, err := s.queueFor(what, k)
	if err != nil || !ok {
		return b, false, err
	}
	if b, err = q.Bounds(); err != nil {
		return b, false, fmt.Errorf("%s of %s: %w", what, k, s.closedOr(err))
	}
	return b, true, nil
}

// OffsetByTime is Store.OffsetByTime; ok is false for an unknown queue.
func (v *View) OffsetByTime(k cq.Key, timestampMs int64, b cq.Boundary) (queueOffset int64, ok bool, err error) {
	q, ok := v.Queues.Queue(k)
	if !ok {
		return 0, false, nil
	}
	queueOffset, err = offsetByTime(q, v.Log, timestampMs, b)
	return queueOffset, true, err
}

// MessageAt is Store.MessageAt.
func (v *View) MessageAt(phyOffset int64, r *message.Record) (release func(), err error) {
	return messageAt(v.Log, phyOffset, r)
}

// MessageByID is Store.MessageByID.
func (v *View) MessageByID(id string, r *message.Record) (release func(), err error) {
	return messageByID(v.Log, id, r)
}

// OpenIndex opens the message index, for reading; the sizes of its files are read off them. ErrNoIndex when the store has none. Files that are not right are left out, and
// told by Faults of the index.
func (v *View) OpenIndex() (*index.Index, error) {
	r := recovery{layout: v.Layout, base: DefaultOptions()}
	if err := r.indexSizes(); err != nil {
		return nil, err
	}
	if r.inTheWay != nil {
		return nil, fmt.Errorf("open index of store %s: %w: %w", v.Layout.Root, ErrNoIndex, r.inTheWay)
	}
	n, err := countEntries(v.Layout.IndexDir())
	if err == nil && n == 0 {
		err = fmt.Errorf("open index of store %s: %w", v.Layout.Root, ErrNoIndex)
	}
	if err != nil {
		return nil, err
	}
	return index.Open(v.Layout.IndexDir(), index.Options{HashSlots: int32(r.base.MaxHashSlotNum), MaxEntries: int32(r.base.MaxIndexNum), ReadOnly: true})
}

// IndexHole says what index files an index of OpenIndex lacks between or before those it has, by their headers and the log between them: the physical offset up to which nothing is missing, and the
// rest in words; "" when none is known to be gone.
func (v *View) IndexHole(x *index.Index) (completeTo int64, missing string, err error) {
	end, err := v.LogEnd()
	if err != nil {
		return -1, "", err
	}
	hole, err := findIndexHole(v.Log, v.indexRead(x, end), end, x.Files(), message.DefaultDelayLevels())
	if err != nil || hole == nil {
		return -1, "", err
	}
	return hole.from, hole.Error(), nil
}

// indexRead returns the physical offset up to which the log was read for the index, -1 where nothing tells.
func (v *View) indexRead(x *index.Index, end int64) int64 {
	to, _ := readIndexRead(mmap.OS, v.Layout, v.Log, end, x.Files()) // whoever opens the store says why not
	return to
}

// LogEnd returns the physical offset behind the last record. It reads the last file of the log.
func (v *View) LogEnd() (int64, error) {
	end, err := v.Log.End(commitlog.ScanOptions{})
	return end.Offset, err
}

// OpenRocksIndex opens the index in RocksDB, for reading. ErrNoIndex when the store has none.
func (v *View) OpenRocksIndex() (*indexrocks.Index, error) {
	dir := v.Layout.RocksIndexDir()
	if _, err := os.Stat(filepath.Join(dir, currentFile)); missing(err) { // also in a binary without RocksDB
		return nil, fmt.Errorf("open index of store %s: %w in RocksDB", v.Layout.Root, ErrNoIndex)
	}
	x, err := indexrocks.Open(dir, indexrocks.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	if phy, _ := x.Last(); phy < 0 && x.DispatchFrom() < 0 {
		return nil, errors.Join(fmt.Errorf("open index of store %s: %w in RocksDB", v.Layout.Root, ErrNoIndex), x.Close())
	}
	return x, nil
}

// Query is Store.Query over an index of OpenIndex or OpenRocksIndex.
func (v *View) Query(x KeyIndex, req QueryRequest, res *QueryResult) error {
	res.Release()
	end, err := v.LogEnd()
	if err != nil {
		return err
	}
	res.LogEnd = end
	phy, ms := x.Last()
	source := keySource{KeyIndex: x, name: indexName, indexedTo: phy, indexedMs: ms}
	if phy >= 0 {
		source.indexedTo = recordEnd(v.Log, phy)
	}
	if files, ok := x.(*index.Index); ok {
		to, missing, err := v.IndexHole(files)
		if err != nil {
			return err
		}
		source.indexedTo = max(source.indexedTo, v.indexRead(files, end))
		if missing != "" {
			source.indexedTo = to
		}
	}
	if r, ok := x.(*indexrocks.Index); ok {
		source.name = rocksIndexName
		if to := r.DispatchFrom(); to >= 0 {
			source.indexedTo = to
		}
	}
	q := querier{log: v.Log, sources: []keySource{source}, days: DefaultOptions().MaxRocksDBIndexQueryDays, req: req, res: res}
	if err := q.run(); err != nil {
		res.Release()
		return fmt.Errorf("query messages of %s by key %q: %w", req.Topic, req.Key, err)
	}
	return nil
}

func offsetByTime(q cq.Queue, log *commitlog.Log, timestampMs int64, b cq.Boundary) (int64, error) {
	return cq.OffsetByTime(q, timestampMs, b, func(u cq.Unit) (int64, error) { return recordTime(log, u.PhyOffset, u.Size) })
}

// storeTimeAt returns the store time of the record of a slot, NoTime where there is none.
func storeTimeAt(q cq.Queue, log *commitlog.Log, queueOffset int64) (int64, error) {
	u, ok, err := unitAt(q, queueOffset)
	if err != nil || !ok {
		return NoTime, err
	}
	return recordTime(log, u.PhyOffset, u.Size)
}

// unitAt returns the unit of a slot; ok is false where there is none.
func unitAt(q cq.Queue, queueOffset int64) (u cq.Unit, ok bool, err error) {
	var units [1]cq.Unit
	n, err := q.Read(queueOffset, units[:])
	if errors.Is(err, cq.ErrOffsetOutOfRange) {
		return u, false, nil
	}
	return units[0], err == nil && n > 0, err
}

// recordTime returns the store time of the record at phy, NoTime where no such record is. size is as in Log.Read.
func recordTime(log *commitlog.Log, phy int64, size int32) (int64, error) {
	ms, err := log.StoreTimestamp(phy, size)
	if absent(err) {
		return NoTime, nil
	}
	return ms, err
}

// absent tells an error of Log.Read that says that no record is there from one that says that nobody can tell.
func absent(err error) bool {
	return errors.Is(err, commitlog.ErrOffsetOutOfRange) || errors.Is(err, commitlog.ErrCorrupt)
}

func messageAt(log *commitlog.Log, phy int64, r *message.Record) (release func(), err error) {
	release, err = log.Read(phy, 0, true, r)
	if absent(err) {
		err = fmt.Errorf("%w: %w", ErrNoMessage, err)
	}
	return release, err
}

func messageByID(log *commitlog.Log, id string, r *message.Record) (release func(), err error) {
	host, phy, ok := message.ParseOffsetMsgID(id)
	if !ok {
		return nil, fmt.Errorf("%w: %q is no offset message id (32 hexadecimal digits, 56 of an IPv6 host)", ErrNoMessage, id)
	}
	if release, err = messageAt(log, phy, r); err != nil {
		return nil, fmt.Errorf("message %s: %w", id, err)
	}
	if has := message.DecodeHost(r.StoreHost); has != host {
		release()
		return nil, fmt.Errorf("message %s: %w: the record at physical offset %d was stored by %s, the id is of %s", id, ErrNoMessage, phy, has, host)
	}
	return release, nil
}
