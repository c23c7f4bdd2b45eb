package store

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// judgement is what the log says of a slot.
type judgement int

const (
	undecided judgement = iota // the log proves the unit of no side, or that of both
	decided                    // a side was marked diverged, and is built again: the slot is read from the other
	waiting                    // the queue is being built again on a side, and may have the unit then
)

// judge has the log say which side has the right unit in a slot. A side is right whose unit points to a record that says itself that the slot is its own, and has its tags. When one is and the
// other is not, the other side of the queue is diverged from then on. Where both are, RocketMQ has given the slot twice (F1) and nothing is changed: the difference is logged, and counted in ViewMark.Differ.
//
// Nothing is appended meanwhile, and what was can be read, so that neither side is ahead for the time of a batch.
func (d *sides) judge(k cq.Key, slot int64) judgement {
	kinds := d.responsible(k)
	if len(kinds) < len(combinedKinds) {
		return undecided
	}
	v := d.v.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if d.store.AwaitReadable(context.Background()) != nil { // dispatch tells
		return undecided
	}
	var units [len(combinedKinds)]cq.Unit
	var has, right [len(combinedKinds)]bool
	for i, kind := range kinds {
		switch {
		case d.store.Failure(kind) != nil || d.holds(kind) || d.hasGivenUp(kind, k):
			return undecided
		case d.store.IsDiverged(kind, k):
			return waiting
		}
		if q, ok := d.side(kind).Queue(k); ok {
			var u [1]cq.Unit
			n, err := q.Read(slot, u[:]) // an impossible unit, or none, is as good as an error
			units[i], has[i] = u[0], err == nil && n == 1
		}
		right[i] = has[i] && d.proves(kind, k, slot, &units[i])
	}
	switch {
	case !right[0] && !right[1], right[0] && right[1] && units[0].PhyOffset == units[1].PhyOffset:
		return undecided
	case right[0] && right[1]:
		d.reportTwice(k, slot, units)
		return undecided
	}
	wrong := 0
	if right[0] {
		wrong = 1
	}
	found := "no unit"
	if has[wrong] {
		found = unitText(&units[wrong])
	}
	d.store.MarkDiverged(kinds[wrong], k, fmt.Errorf("%w: slot %d has %s, and %s by the log", cq.ErrDiverged, slot, found, unitText(&units[1-wrong])))
	return decided
}

// reportTwice tells, once a queue, that the log has two records of one slot, and each side another one.
func (d *sides) reportTwice(k cq.Key, slot int64, units [2]cq.Unit) {
	other := otherKind(d.store.Authority())
	if d.hasGivenUp(other, k) {
		return
	}
	d.giveUp(other, k)
	d.v.s.logger.Error("the log has two records of one slot of a queue, and each side of the consume queues has another; both stay", slog.String("topic", k.Topic),
		slog.Int("queueId", int(k.QueueID)), slog.Int64("queueOffset", slot), slog.String("file", unitText(&units[0])), slog.String("rocks", unitText(&units[1])))
}

// proves tells whether the log has a record where a unit points, which says that the slot is its own. A tags code that is in a file of its own, which is lost, counts as right.
func (d *sides) proves(kind cq.Kind, k cq.Key, slot int64, u *cq.Unit) (yes bool) {
	_ = d.v.record(u, false, func(r *message.Record) { // what cannot be read proves nothing
		if r.TotalSize != u.Size || r.PhyOffset != u.PhyOffset || !r.OwesUnit() {
			return
		}
		if u.TagsCode != r.TagsCode(d.v.view.levels) && !cq.IsExtLost(d.side(kind), k, u.TagsCode) {
			return
		}
		if string(r.Topic) == k.Topic && r.QueueID == k.QueueID {
			yes = r.QueueOffset == slot
			return
		}
		r.MultiDispatch(func(queue []byte, queueID int32, queueOffset int64, ok bool) bool {
			yes = ok && string(queue) == k.Topic && queueID == k.QueueID && queueOffset == slot
			return !yes
		})
	})
	return yes
}
