//go:build cgo

package rocks

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/failpoint"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// rowsPerBatch bounds the memory of batches that touch every queue.
const rowsPerBatch = 4096

// TruncateDirty removes every unit whose record starts at or above phyOffset and lowers the max rows of the queues concerned
// and the checkpoint; durable when it returns nil. The exact boundary is searched for in each queue and everything from there
// on deleted, so that no dirty unit is left above max. Units that a min row hides go with the rest of a queue that loses all
// that is visible.
//
// The checkpoint goes first: cut off in the middle, the store is dispatched to again from phyOffset.
// Source: RocksDBConsumeQueueStore.truncateDirty, 5.5.0, with a lower-bound search for its stop at an equal probe.
func (s *Store) TruncateDirty(ctx context.Context, phyOffset int64) error {
	return s.truncate(ctx, phyOffset, false)
}

// TruncateDirtyKeepingMax is TruncateDirty for a log whose beginning may have expired: a queue that loses all of its units, but begins above slot 0, goes on where they
// began, as an empty queue, since those before them were given to messages that are gone. Its rows change in one step: cut off anywhere, no slot is given twice.
func (s *Store) TruncateDirtyKeepingMax(ctx context.Context, phyOffset int64) error {
	return s.truncate(ctx, phyOffset, true)
}

func (s *Store) truncate(ctx context.Context, phyOffset int64, keepMax bool) error {
	if err := s.beginChange(ctx); err != nil {
		return err
	}
	defer s.write.Unlock()
	s.mu.RLock()
	checkpoint := min(s.mu.dispatched, max(phyOffset, 0))
	var dirty []cq.Key
	for k, e := range s.mu.ends.all() {
		if e.lastPhy >= phyOffset {
			dirty = append(dirty, k)
		}
	}
	lower, row := checkpoint < s.mu.dispatched, s.mu.row
	s.mu.RUnlock()
	if !lower && len(dirty) == 0 {
		return nil
	}
	slices.SortFunc(dirty, CompareKeys)

	w := &s.write.rows
	if checkpoint < row {
		w.putCheckpoint(checkpoint)
	}
	cut := make(map[cq.Key]end, min(len(dirty), rowsPerBatch)) // max 0: gone
	for _, k := range dirty {
		if len(cut) == rowsPerBatch {
			if err := s.applyCutLocked(ctx, checkpoint, cut); err != nil {
				return err
			}
		}
		e, err := s.cutQueue(w, k, phyOffset, keepMax)
		if err != nil {
			return err
		}
		cut[k] = e
	}
	if err := s.applyCutLocked(ctx, checkpoint, cut); err != nil {
		return err
	}
	failpoint.Hit(failpoint.QueueTruncated)
	if err := s.db.Flush(); err != nil {
		return s.stick(err)
	}
	s.mu.Lock()
	s.mu.durable = s.mu.dispatched
	s.mu.Unlock()
	s.log.Info("queues truncated", slog.Int64("phyOffset", phyOffset), slog.Int("queues", len(dirty)))
	return nil
}

// cutQueue adds to the batch what truncates one queue and returns its new end.
func (s *Store) cutQueue(w *rowWriter, k cq.Key, phyOffset int64, keepMax bool) (end, error) {
	old, _ := s.end(k)
	prefix := appendUnitPrefix(nil, k)
	below, _, err := s.db.LowerBound(prefix, min(old.minSlot, old.max), old.max, phyOffset)
	if err != nil {
		return end{}, s.wrap(err)
	}
	if below.Slot < 0 {
		return s.cutWhole(w, k, phyOffset, keepMax)
	}
	e := end{max: below.Slot + 1, lastPhy: below.Unit.PhyOffset, lastSize: below.Unit.Size, minSlot: old.minSlot}
	_, last := appendUnitRange(nil, nil, k)
	w.batch.DeleteRange(rocks.Units, appendUnitKey(nil, k, e.max), last)
	w.putMax(k, e)
	return e, nil
}

// cutWhole adds to the batch what removes all units of a queue, and the queue with them unless its max is kept.
func (s *Store) cutWhole(w *rowWriter, k cq.Key, phyOffset int64, keepMax bool) (end, error) {
	first := int64(0)
	if q, ok := s.Queue(k); ok && keepMax {
		b, err := q.Bounds()
		if err != nil && !errors.Is(err, cq.ErrCorrupt) {
			return end{}, err
		}
		if err == nil {
			first = b.Min
		}
	}
	w.deleteQueue(k)
	if first == 0 {
		return end{}, nil
	}
	e := end{max: first, minSlot: first}
	w.putMax(k, e)
	w.putRow(k, tagMin, max(phyOffset, 0), first)
	return e, nil
}

// applyCutLocked writes the batch and makes it visible.
func (s *Store) applyCutLocked(ctx context.Context, checkpoint int64, cut map[cq.Key]end) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.db.Write(s.write.rows.batch, false); err != nil {
		return s.stick(err)
	}
	s.write.rows.batch.Reset()
	s.commit.lowerAccepted(checkpoint)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch++
	s.mu.dispatched = min(s.mu.dispatched, checkpoint)
	s.mu.row = min(s.mu.row, checkpoint)
	s.mu.durable = min(s.mu.durable, checkpoint)
	for k, e := range cut {
		s.tail.forget(appendUnitPrefix(nil, k))
		if e.max == 0 {
			s.mu.ends.remove(k)
		} else {
			s.mu.ends.settle(k, e)
		}
	}
	clear(cut)
	return nil
}
