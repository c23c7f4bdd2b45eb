package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/internal/failpoint"
	"github.com/tandemq/tandemmq/message"
)

// indexSide is an index of messages by key. It follows the log by itself, so an index that is slow, gone or broken holds up neither puts nor queues; it is never a
// reason for a store not to open. A store has none, one or both: files (indexView) and RocksDB (rocksIndexView).
type indexSide interface {
	view
	feed() *indexFeed
	// durableTo is the physical offset up to which everything is in the index, durably.
	durableTo() int64
	// entries counts what is in it, about.
	entries() (int64, error)
	// expire removes what speaks of messages below minPhy alone, and returns how many files, or stretches of rows, that were.
	expire(minPhy int64) (removed int, err error)
	flush() error
	close() error
}

// indexFeed is how an index gets what it has to have.
type indexFeed struct {
	follow   *follower
	from, to int64 // of the log, what was missing when the store was opened
	off      bool  // it is not fed: it can be read, and stays as it is
}

func (f *indexFeed) feed() *indexFeed { return f }

// keyBatch is what an index is told of some messages, B its type.
type keyBatch[B any] interface {
	*B
	Add(r *message.DispatchRequest)
	Reset()
}

// keyIndex takes such batches.
type keyIndex[P any] interface {
	AppendBatch(b P) error
	Progress() (indexed, durable int64)
}

// indexing is the part of a view that gathers the keys of messages, and gives them to an index in batches.
type indexing[B any, P keyBatch[B]] struct {
	into    keyIndex[P]
	levels  *message.DelayLevels
	adding  P
	request message.DispatchRequest // what add tells, here so that it takes no memory
	batches batches[B]
}

func newIndexing[B any, P keyBatch[B]](into keyIndex[P], levels *message.DelayLevels) indexing[B, P] {
	return indexing[B, P]{into: into, levels: levels, adding: new(B), batches: newBatches[B]()}
}

func (x *indexing[B, P]) add(r *message.Record) {
	x.request = r.DispatchRequest(x.levels)
	x.adding.Add(&x.request)
	x.request = message.DispatchRequest{} // its slices are of the log's mapping
}

func (x *indexing[B, P]) turn() batch {
	b := x.adding
	x.adding = x.batches.get()
	return b
}

func (x *indexing[B, P]) deliver(_ context.Context, added batch, _ int64) error {
	b := added.(P)
	if err := x.into.AppendBatch(b); err != nil {
		return err
	}
	failpoint.Hit(failpoint.IndexAppended)
	b.Reset()
	x.batches.put(b)
	return nil
}

func (x *indexing[B, P]) durableTo() int64 {
	_, durable := x.into.Progress()
	return durable
}

// startFeed makes the follower of an index that has everything below from, -1 for nothing.
func (f *indexFeed) startFeed(s *Store, v view, from int64) {
	end := s.writer.Positions().Confirm
	log := s.writer.Log()
	f.from, f.to = recordFrom(log, min(max(from, log.MinOffset(), 0), end), end), end // a repair may have written over the record
	f.follow = newFollower(v, log, s.logger, f.from)
	f.follow.uncommitted = s.o.ReadUnCommitted
	if f.to-f.from > s.rebuildBytes && !f.off {
		s.logger.Warn("the index is built from the log while the store serves", slog.String("view", v.name()), slog.Int64("phyOffset", f.from), slog.Int64("bytes", f.to-f.from))
	}
}

// indexes lists the indexes that are fed, or all that are open.
func (v *views) indexes(all bool) []indexSide {
	var list []indexSide
	if v.index != nil && (all || !v.index.off) {
		list = append(list, v.index)
	}
	if v.rocksIndex != nil {
		list = append(list, v.rocksIndex)
	}
	return list
}

// keySources appends the indexes that answer queries, the preferred one first.
func (v *views) keySources(to []keySource) []keySource {
	add := func(x KeyIndex, name string, f *follower) {
		_, ms := x.Last()
		_, delivered := f.lastDelivered()
		to = append(to, keySource{x, name, f.from.Load(), max(ms, delivered)})
	}
	if v.index != nil {
		add(v.index.index, v.index.name(), v.index.follow)
	}
	if v.rocksIndex != nil {
		add(v.rocksIndex.index, v.rocksIndex.name(), v.rocksIndex.follow)
	}
	if len(to) == 2 && !v.s.o.IndexFileReadEnable {
		to[0], to[1] = to[1], to[0]
	}
	return to
}

// openIndexes opens the indexes that the options ask for. One that cannot be opened is reported and left alone.
func (v *views) openIndexes(unclean bool, levels *message.DelayLevels) {
	s := v.s
	if !s.o.MessageIndexEnable {
		return
	}
	var err error
	if s.o.IndexFileWriteEnable || s.o.IndexFileReadEnable {
		if v.index, err = s.openIndex(&v.checkpoint, unclean, levels); err != nil {
			s.reportIndex(indexName, err)
		}
	}
	if s.o.IndexRocksDBEnable {
		if v.rocksIndex, err = s.openRocksIndex(levels); err != nil {
			s.reportIndex(rocksIndexName, err)
		}
	}
}

// reportIndex says that the store goes on without an index.
func (s *Store) reportIndex(name string, err error) {
	s.logger.Error("the store goes on without its index: messages are not found by key until it can be opened", slog.String("view", name), slog.Any("err", err))
}

// indexName names the hash index.
const indexName = "index"

// indexView feeds the hash index.
type indexView struct {
	indexFeed
	indexing[index.Batch, *index.Batch]
	s     *Store
	index *index.Index
	hole  *indexHole // that was found when it was opened; nil: none
	noted int64      // the record that the file index-read speaks of, -1: it was not written yet. Used by flush
}

// openIndex opens the hash index and says from where it has to be fed. One that cannot be written can be read: it answers what it has.
func (s *Store) openIndex(c *Checkpoint, unclean bool, levels *message.DelayLevels) (*indexView, error) {
	o := index.Options{
		HashSlots: int32(s.o.MaxHashSlotNum), MaxEntries: int32(s.o.MaxIndexNum),
		Unclean: unclean, FlushedToMs: c.IndexMsgTimestampMs, Logger: s.o.Logger, FS: s.o.indexFS,
	}
	ix, err := index.Open(s.layout.IndexDir(), o)
	if err == nil {
		if err = ix.TruncateDirty(s.writer.Positions().Confirm); err != nil {
			err = errors.Join(fmt.Errorf("cut index to the log: %w", err), ix.Close())
		}
	}
	var hole *indexHole
	read := int64(-1)
	if err == nil {
		read = s.indexReadTo(ix)
		if hole = s.indexHole(ix, read, levels); hole != nil {
			// Entries are added in the order of the log alone, so those behind the hole are made again with what was in it.
			if err = ix.TruncateDirty(hole.to); err != nil {
				err = errors.Join(fmt.Errorf("cut index before its hole: %w", err), ix.Close())
			}
		}
	}
	off := !s.o.IndexFileWriteEnable
	if err != nil {
		o.ReadOnly = true
		readable, rerr := index.Open(s.layout.IndexDir(), o)
		if rerr != nil {
			return nil, fmt.Errorf("open index: %w", err)
		}
		if len(readable.Files()) == 0 {
			return nil, errors.Join(fmt.Errorf("open index: %w", err), readable.Close())
		}
		s.logger.Error("the index cannot be written: it answers what it has, and gets nothing more", slog.Any("err", err))
		ix, off = readable, true
		read = s.indexReadTo(ix)
		hole = s.indexHole(ix, read, levels)
	}
	v := newIndexView(s, ix, levels)
	v.off, v.hole = off, hole
	from := ix.DispatchFrom()
	if off && from >= 0 { // nothing will show what its last message still lacks
		from = recordEnd(s.writer.Log(), from)
	}
	if off && hole != nil {
		from = hole.from
	} else {
		from = max(from, read)
	}
	v.startFeed(s, v, from)
	return v, nil
}

// indexHole returns the first hole of the index behind read, nil without one, and says so.
func (s *Store) indexHole(ix *index.Index, read int64, levels *message.DelayLevels) *indexHole {
	hole, err := findIndexHole(s.writer.Log(), read, s.writer.Positions().Confirm, ix.Files(), levels)
	if err != nil {
		s.logger.Error("whether index files are missing is not known", slog.String("view", indexName), slog.Any("err", err))
	}
	if hole != nil {
		s.logger.Error("index files are missing: messages from there on are not all found by key until the index has been built again", slog.String("view", indexName),
			slog.Int64("phyOffset", hole.record), slog.Any("err", hole))
	}
	return hole
}

func newIndexView(s *Store, ix *index.Index, levels *message.DelayLevels) *indexView {
	return &indexView{s: s, index: ix, indexing: newIndexing(ix, levels), noted: -1}
}

func (v *indexView) name() string { return indexName }

func (v *indexView) entries() (n int64, err error) {
	for _, f := range v.index.Files() {
		n += int64(f.Entries)
	}
	return n, nil
}

func (v *indexView) expire(minPhy int64) (int, error) {
	n, err := v.index.Expire(minPhy)
	if errors.Is(err, index.ErrReadOnly) {
		err = nil // openIndex said so
	}
	return n, err
}

// flush makes the index durable, and notes how far it is.
func (v *indexView) flush() error {
	v.follow.last.Lock()
	last := v.follow.last.recordMark
	v.follow.last.Unlock()
	files := v.index.Files() // these have what last tells of
	switch err := v.index.Flush(); {
	case errors.Is(err, index.ErrReadOnly):
	case err != nil:
		return fmt.Errorf("flush index: %w", err)
	case !v.off:
		v.noteRead(last, files)
	}
	return nil
}

// close flushes and closes the index.
func (v *indexView) close() error { return errors.Join(v.flush(), v.index.Close()) }

// owedIndexes returns how many bytes of the log the index has not read that is behind most, and why one has stopped.
func (v *views) owedIndexes() (bytes int64, stopped error) {
	for _, x := range v.indexes(false) {
		bytes = max(bytes, v.s.writer.Positions().Wrote-x.feed().follow.from.Load())
		stopped = errors.Join(stopped, x.feed().follow.failure())
	}
	return bytes, stopped
}

// indexedTo returns the least physical offset that an index has come to, MaxInt64 without any, and the index.
func (v *views) indexedTo() (to int64, least indexSide) {
	to = math.MaxInt64
	for _, x := range v.indexes(false) {
		if n := x.feed().follow.from.Load(); n < to {
			to, least = n, x
		}
	}
	return to, least
}

// missingIndexes says which indexes the options ask for and could not be opened, or not be written.
func (v *views) missingIndexes() error {
	o := &v.s.o
	var err error
	if o.MessageIndexEnable && o.IndexFileWriteEnable && (v.index == nil || v.index.off) {
		err = errors.New("the index could not be opened")
	}
	if o.MessageIndexEnable && o.IndexRocksDBEnable && v.rocksIndex == nil {
		err = errors.Join(err, errors.New("the index in RocksDB could not be opened"))
	}
	return err
}
