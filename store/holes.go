package store

import (
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// A reader may meet a slot inside a queue that has no unit, or an impossible one: pages that a loss of power kept from the disk, or a disk that forgets. The ends of a queue do
// not tell of it, so it is found where it is met, and is never stepped over before the log was asked.

// hole says what becomes of a slot of k, inside its bounds, that holds no unit; why is the queue's own error, if it has one.
//
//	again           the other side of a combined store has the unit, and is read from now on: the slot is to be read again
//	ErrRebuilding   the log may have the record: dispatch has not come there yet, or the queue is being built again, which this call may have begun
//	neither         the log has been asked, and has nothing for the slot: it is stepped over
//	another error   queueDamagePolicy wants nothing to be built
func (v *views) hole(k cq.Key, slot int64, why error) (again bool, err error) {
	if v.sides != nil {
		switch v.sides.judge(k, slot) {
		case decided:
			return true, nil
		case waiting:
			return false, ErrRebuilding
		}
		if why != nil && v.s.replacing.owed() {
			return false, ErrRebuilding
		}
		if len(v.sides.responsible(k)) == 1 {
			return false, nil
		}
	} else if !v.hasFiles() {
		if v.s.replacing.alone() {
			return false, ErrRebuilding
		}
		return false, why // RocksDB has checksums of its own; what is gone from it is no matter of pages
	}
	if !v.rebuild.Load().ended() { // dispatch is on its way, and may fill it
		return false, ErrRebuilding
	}
	files := v.queues
	if v.sides != nil {
		files = v.sides.side(cq.KindFile)
	}
	if f, ok := files.(keeper); ok && f.Keeps(k, slot) { // it was built without
		return false, nil
	}
	if why == nil {
		why = fmt.Errorf("slot %d of queue %s has no unit: %w", slot, k, cq.ErrCorrupt)
	}
	if v.s.o.QueueDamagePolicy == QueueDamageRefuse {
		return false, why
	}
	if errors.Is(why, mmap.ErrFault) || errors.Is(why, mmap.ErrShort) { // no unit can be put there
		why = fmt.Errorf("%w: %w", errDamaged, why)
	}
	if v.view.breakHole(k, slot, why) {
		return false, ErrRebuilding
	}
	return false, nil
}

// keeper tells which slots are without a unit because the log has no record for them.
type keeper interface {
	Keeps(k cq.Key, slot int64) bool
}

// breakHole has a queue built again of which a slot has no unit, unless that was done since the store was opened. It tells whether the queue is being built.
func (v *queueView) breakHole(k cq.Key, slot int64, why error) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.broken[k] != nil {
		return true
	}
	q := v.mu.known[k]
	if q == nil || slot < q.filled || v.mu.barred[k] != nil { // of a queue that is not known the log has nothing
		return false
	}
	v.breakLocked(k, why)
	return true
}

// noteFilledLocked notes up to where a queue has what the log has: a slot below that has no unit belongs to a record that the log lost.
func (v *queueView) noteFilledLocked(k cq.Key) {
	q := v.mu.known[k]
	queue, ok := v.queues.Queue(k)
	if q == nil || !ok {
		return
	}
	if b, err := queue.Bounds(); err == nil {
		q.filled = b.Max
	}
}
