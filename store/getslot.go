package store

import (
	"fmt"
	"log/slog"

	"github.com/tandemq/tandemmq/cq"
)

// A unit may lead to another message of its queue: a hand or a disk has put a neighbour's unit there. Served as it stands it would have a consumer get that message twice, and miss the one whose slot it is. But
// RocketMQ 5.5.0 leaves whole queues of which no slot is that of its record (F1, F5), and these are to be read as they are. So the record's own number is only what raises the question.

// slotVerdict is what becomes of a unit whose record claims another slot.
type slotVerdict int

const (
	slotServed slotVerdict = iota // as it is: nothing is known that is better
	slotAgain                     // the slot is to be read again: it is another unit's now
	slotPassed                    // its message has a slot of its own in the queue, where it is served
)

// misplaced tells whether the record just decoded, of a unit in slot, is one of the queue's own messages and claims another slot. Light queues have their numbers elsewhere.
func (g *getter) misplaced(slot int64) bool {
	r := &g.record
	return r.QueueOffset != slot && r.OwesUnit() && string(r.Topic) == g.req.Topic
}

// otherSlot says what becomes of units[i], in slot, whose record is misplaced.
func (g *getter) otherSlot(units []cq.Unit, i int, slot int64) slotVerdict {
	if d := g.s.views.sides; d != nil && slot >= g.sameTo && g.judged != slot+1 && g.otherSide(d, units[i:], slot) {
		return slotAgain
	}
	own := g.record.QueueOffset
	if own >= g.res.MaxOffset || own < g.res.MinOffset {
		return slotServed
	}
	var there [1]cq.Unit
	if at := int64(i) + own - slot; at >= 0 && at < int64(len(units)) {
		there[0] = units[at]
	} else if n, err := g.queue.Read(own, there[:]); err != nil || n == 0 {
		return slotServed
	}
	if there[0].PhyOffset != units[i].PhyOffset {
		return slotServed
	}
	return slotPassed
}

// otherSide tells whether the slot of units[0] is another unit's, as the other side has it.
func (g *getter) otherSide(d *sides, units []cq.Unit, slot int64) bool {
	k := g.queue.Key()
	if !d.mayJudge(k) {
		g.judged = slot + 1
		return g.changed(&units[0], slot)
	}
	if g.other == nil {
		g.other = new([getBatch]cq.Unit)
	}
	if n := d.sameUnits(k, units, slot, g.other); n > 0 {
		g.sameTo = slot + int64(n)
		return false
	}
	return g.otherwise(slot) || g.changed(&units[0], slot)
}

// mayJudge tells whether both sides are to have a queue, so that asking the log which one is right leads to something.
func (d *sides) mayJudge(k cq.Key) bool {
	if len(d.responsible(k)) < len(combinedKinds) {
		return false
	}
	for _, kind := range combinedKinds {
		if d.holds(kind) || d.store.Failure(kind) != nil || d.store.IsDiverged(kind, k) || d.hasGivenUp(kind, k) {
			return false
		}
	}
	return true
}

// changed tells whether a slot has another unit now: the queue has come to be read from its other side.
func (g *getter) changed(was *cq.Unit, slot int64) bool {
	var now [1]cq.Unit
	n, err := g.queue.Read(slot, now[:])
	return err == nil && n == 1 && !now[0].SameRecord(*was)
}

// sameUnits returns of how many units, from slot on, both sides have the same: mostly all, as a queue that RocketMQ has shifted is shifted on both. buf is room to read into.
func (d *sides) sameUnits(k cq.Key, units []cq.Unit, slot int64, buf *[getBatch]cq.Unit) int {
	same := len(units)
	for _, kind := range d.responsible(k) {
		q, ok := d.side(kind).Queue(k)
		if !ok {
			return 0
		}
		n, err := q.Read(slot, buf[:same])
		if err != nil {
			return 0
		}
		for i := range n {
			if !buf[i].SameRecord(units[i]) {
				n = i
				break
			}
		}
		same = n
		if same == 0 {
			return 0
		}
	}
	return same
}

// foundByGet keeps what a reader met, for those who watch the sides: the log has decided which one is right, and the queue is built again on the other.
func (d *sides) foundByGet(k cq.Key, slot int64) {
	what := fmt.Sprintf("queue %s: a reader met slot %d, which leads elsewhere on one side; the log tells which is right, and the queue is built again on the other side", k, slot)
	d.v.s.logger.Error("a unit leads to another message than that of its slot, and is not served: the queue is read from the other side", slog.String("topic", k.Topic),
		slog.Int("queueId", int(k.QueueID)), slog.Int64("queueOffset", slot))
	d.shadow.keep(k, []string{what}, 1)
}
