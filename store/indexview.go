package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/internal/failpoint"
	"github.com/tandemq/tandemmq/message"
)

// indexView feeds the hash index. It follows the log by itself, so an index that is slow, gone or broken holds up neither puts nor queues; it is never a
// reason for a store not to open.
type indexView struct {
	s      *Store
	index  *index.Index
	follow *follower
	levels *message.DelayLevels

	adding  *index.Batch
	batches batches[index.Batch]

	from, to int64 // of the log, what was missing when the store was opened

	flushing sync.Mutex
}

// openIndex opens the index and says from where it has to be fed. An index that cannot be opened is reported and left alone.
func (s *Store) openIndex(c *Checkpoint, unclean bool, levels *message.DelayLevels) (*indexView, error) {
	end := s.writer.Positions().Confirm
	ix, err := index.Open(s.layout.IndexDir(), index.Options{
		HashSlots: int32(s.o.MaxHashSlotNum), MaxEntries: int32(s.o.MaxIndexNum),
		Unclean: unclean, FlushedToMs: c.IndexMsgTimestampMs, Logger: s.o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	if err := ix.TruncateDirty(end); err != nil {
		return nil, errors.Join(fmt.Errorf("cut index to the log: %w", err), ix.Close())
	}
	log := s.writer.Log()
	v := newIndexView(ix, levels)
	v.s, v.from, v.to = s, min(max(ix.DispatchFrom(), log.MinOffset(), 0), end), end
	v.follow = newFollower(v, log, s.logger, v.from)
	if end-v.from > s.rebuildBytes {
		s.logger.Warn("the index is built from the log while the store serves", slog.Int64("phyOffset", v.from), slog.Int64("bytes", end-v.from))
	}
	v.follow.uncommitted = s.o.ReadUnCommitted
	return v, nil
}

func newIndexView(ix *index.Index, levels *message.DelayLevels) *indexView {
	return &indexView{index: ix, levels: levels, adding: new(index.Batch), batches: newBatches[index.Batch]()}
}

func (v *indexView) name() string { return "index" }

func (v *indexView) add(r *message.Record) {
	d := r.DispatchRequest(v.levels)
	v.adding.Add(&d)
}

func (v *indexView) turn() batch {
	b := v.adding
	v.adding = v.batches.get()
	return b
}

func (v *indexView) deliver(_ context.Context, added batch, _ int64) error {
	b := added.(*index.Batch)
	if err := v.index.AppendBatch(b); err != nil {
		return err
	}
	failpoint.Hit(failpoint.IndexAppended)
	b.Reset()
	v.batches.put(b)
	return nil
}

// flush makes the index durable and returns indexMsgTimestamp for the checkpoint.
func (v *indexView) flush() (int64, error) {
	v.flushing.Lock()
	defer v.flushing.Unlock()
	if err := v.index.Flush(); err != nil {
		return 0, fmt.Errorf("flush index: %w", err)
	}
	return v.index.IndexMsgTimestampMs(), nil
}

// close flushes and closes the index.
func (v *indexView) close() error {
	_, err := v.flush()
	return errors.Join(err, v.index.Close())
}

// reportIndex says that the store goes on without its index.
func (s *Store) reportIndex(err error) {
	s.logger.Error("the store goes on without its index: messages are not found by key until it can be opened", slog.Any("err", err))
}
