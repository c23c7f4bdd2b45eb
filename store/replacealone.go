package store

import (
	"context"
	"log/slog"

	"github.com/tandemq/tandemmq/cq"
)

// replaceAlone replaces the RocksDB that has all the queues. Dispatch is held up while that is done, and then goes on from the log's beginning; see runRebuild for what follows.
// Readers are refused from the beginning on what a queue does not have yet.
func (v *views) replaceAlone(ctx context.Context) (err error) {
	r, target := v.s.replacing, v.replaceable()
	v.view.mending.Lock() // who holds it may wait for dispatch
	defer v.view.mending.Unlock()
	r.what.Store(replacesAll)
	r.round.Add(1)
	v.dispatching.halt()
	taken := false
	defer func() {
		if taken && err != nil {
			return // there is no database: readers are refused until there is one
		}
		r.what.Store(replacesNothing)
		v.follow.failed.Store(nil)
		v.dispatching.resume(ctx)
	}()
	v.flushing.Lock()
	defer v.flushing.Unlock()
	ends := v.nextSlots(target)
	if err := v.noteEnds(ends); err != nil {
		return err
	}
	v.durableTo.Store(0) // from here on the log is needed
	taken = true
	if err := target.Replace(ctx, v.setAsideDamaged); err != nil {
		return err
	}
	r.why.Store(nil)
	begin, end := max(v.s.Log().MinOffset(), 0), v.s.writer.Positions().Confirm
	if err := v.view.beginAnew(begin, end, ends); err != nil {
		return err
	}
	v.ends.Store(&ends)
	v.endsOwed, v.noted = true, -1
	v.rebuild.Store(newRebuild(begin, end))
	v.follow.rewind(begin)
	v.s.logger.Warn("consume queues are built from the log while the store serves", slog.String("view", v.view.name()), slog.Int64("phyOffset", begin), slog.Int64("bytes", end-begin))
	return nil
}

// nextSlots returns where each queue ends, by RocksDB or by what was dispatched, whichever is later.
func (v *views) nextSlots(target replaceable) map[cq.Key]int64 {
	ends := target.NextSlots()
	old := v.ends.Load()
	if r := v.rebuild.Load(); !r.ended() && old != nil { // one that was not whole yet
		for k, next := range *old {
			ends[k] = max(ends[k], next)
		}
	}
	v.view.mu.Lock()
	defer v.view.mu.Unlock()
	for k, q := range v.view.mu.known {
		if !q.unitless && !q.gone && q.next > 0 {
			ends[k] = max(ends[k], q.next)
		}
	}
	return ends
}

// beginAnew forgets what was delivered: the log is dispatched from begin on to queues that have nothing, whose ends are kept.
func (v *queueView) beginAnew(begin, end int64, ends map[cq.Key]int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for k, next := range ends {
		v.mu.known[k] = &queueState{next: next}
	}
	clear(v.mu.broken)
	clear(v.mu.mended)
	v.brokenNow.Store(0)
	v.mu.saved = false
	v.mu.delivered, v.mu.last = begin, recordMark{phy: -1}
	v.freshBelow = end
	return v.saveBrokenLocked()
}
