package store

import (
	"bytes"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

var lightPrefix = []byte(message.LMQPrefix)

// meet looks a record up in one of its queues, on every side. Served by one side is served; how the sides differ is told by
// queue, not by record.
//
// A slot that holds no unit, or one that points to no record of that slot, is left to the pass over the queue, which comes
// because the queue's count does not add up: so each slot is told once.
func (w *logReader) meet(topic []byte, id int32, slot int64, r *message.Record) error {
	q := w.c.table[cq.Key{Topic: string(topic), QueueID: id}]
	if q == nil {
		w.c.absent(topic, id, slot, r)
		return nil
	}
	var served, beyond bool
	taken := int64(-1) // physical offset of the record that has the slot
	for s := range q.sides {
		side := &q.sides[s]
		switch {
		case side.q == nil:
			continue
		case side.bad: // told as a whole
			served = true
			continue
		case slot < side.b.Min:
			continue
		case slot >= side.b.Max:
			beyond = true
			continue
		}
		win, u, err := w.windows.at(q, s, slot)
		if err != nil {
			return err
		}
		if u != nil && u.PhyOffset == r.PhyOffset {
			served = true
			win.matched++
			win.dirty = w.c.compareUnit(q, s, slot, u, r) || win.dirty
			continue
		}
		good := false
		if u != nil {
			by := u.PhyOffset
			if good, err = w.c.unitIsGood(q.key, slot, by, &w.units.rec); err != nil {
				return err
			}
			taken = by
		}
		if u == nil {
			side.empty.add(slot)
		}
		if !good {
			served = true
			if err := w.badUnit(q, s, slot); err != nil {
				return err
			}
		}
	}
	if !q.older(r.PhyOffset) {
		q.claimed(slot)
	}
	switch {
	case served:
	case taken >= 0:
		w.c.taken(q, slot, r, taken)
	default:
		w.c.unserved(q, slot, r, beyond)
	}
	return nil
}

// badUnit reports what is wrong with a slot, in a shallow check: its pass over the queue looks at the ends alone.
func (w *logReader) badUnit(q *checkedQueue, s int, slot int64) error {
	if b := &q.sides[s].b; w.c.o.Deep || slot == b.Min || slot == b.Max-1 {
		return nil
	}
	return w.units.check(q, s, slot, slot+1)
}

// taken reports a record whose slot is another record's.
func (c *checker) taken(q *checkedQueue, slot int64, r *message.Record, by int64) {
	f := c.recordFinding(CheckDuplicateSlot, q.key, slot, r)
	if q.older(r.PhyOffset) {
		f.Code, f.Severity = CheckOlderTopic, CheckNotice
	}
	f.Got, f.Want = fmt.Sprintf("record %d", r.PhyOffset), fmt.Sprintf("record %d alone", by)
	f.Text = fmt.Sprintf("the record at %d claims slot %d, which belongs to the record at %d: it is served to nobody", r.PhyOffset, slot, by)
	c.found.add(f)
}

// recordFinding is about a record and the slot it claims in a queue.
func (c *checker) recordFinding(code CheckCode, k cq.Key, slot int64, r *message.Record) *CheckFinding {
	f := c.logPlace(queueFinding(code, checkSideLog, k, slot), r.PhyOffset)
	f.EndPhyOffset = r.PhyOffset + int64(r.TotalSize)
	return f
}

// unserved judges a record whose slot lies outside of its queue on every side.
func (c *checker) unserved(q *checkedQueue, slot int64, r *message.Record, beyond bool) {
	f := c.recordFinding(CheckNoUnit, q.key, slot, r)
	least, most := q.bounds()
	f.Got, f.Want = fmt.Sprintf("slots %d to %d", least, most-1), fmt.Sprintf("slot %d", slot)
	switch {
	case q.older(r.PhyOffset) && slot >= least:
		f.Code, f.Severity = CheckOlderTopic, CheckNotice
		f.Text = fmt.Sprintf("the record at %d, slot %d, is older than the queue: its topic was deleted and made anew", r.PhyOffset, slot)
	case beyond:
		f.Severity = c.undispatched(r.PhyOffset)
		f.Text = fmt.Sprintf("the record at %d, slot %d, has no unit: the queue ends at %d", r.PhyOffset, slot, most)
	default:
		f.Code = CheckBelowMin
		f.Text = fmt.Sprintf("the record at %d, slot %d, is in the log, and the queue begins at %d", r.PhyOffset, slot, least)
	}
	c.found.add(f)
}

// absent judges a record whose queue is on no side.
func (c *checker) absent(topic []byte, id int32, slot int64, r *message.Record) {
	light := bytes.HasPrefix(topic, lightPrefix)
	own := string(topic) == string(r.Topic)
	if !light && !own {
		return // dispatch to further ordinary queues may have been off: nothing on disk tells
	}
	name := string(topic)
	f := c.recordFinding(CheckMissingQueue, cq.Key{Topic: name, QueueID: id}, slot, r)
	switch {
	case c.owed.whole(cq.Key{Topic: name, QueueID: id}):
		f.Text = fmt.Sprintf("the record at %d, slot %d, belongs to it, and the queue has lost all its units: a rebuild of it has not ended", r.PhyOffset, slot)
	case light && !own && !c.hasLight:
		f.Code, f.Severity = CheckLightOff, CheckNotice
		f.Text = fmt.Sprintf("the record at %d names it, and the store has no light queue at all: dispatch to them was off", r.PhyOffset)
	case c.topics != nil && !c.topics[name] && !neverListed(name):
		f.Code, f.Severity = CheckDeletedTopic, CheckNotice
		f.Text = fmt.Sprintf("the record at %d, slot %d, is of a topic that the topic table does not list and that has no such queue: it was deleted", r.PhyOffset, slot)
	default:
		f.Severity = c.undispatched(r.PhyOffset)
		f.Text = fmt.Sprintf("the record at %d, slot %d, belongs to it, and there is no such queue", r.PhyOffset, slot)
		if c.topics == nil {
			f.Text += " (unless its topic was deleted: there is no topic table to tell)"
		}
	}
	c.found.add(f)
}

var checkDelayLevels = message.DefaultDelayLevels()

// compareUnit holds a unit against the record it points to and tells whether they differ.
func (c *checker) compareUnit(q *checkedQueue, side int, slot int64, u *cq.Unit, r *message.Record) (differ bool) {
	report := func(code CheckCode, what string, got, want int64) {
		differ = true
		f := c.unitFinding(code, q, side, slot)
		if code == CheckDelayTags {
			f.Severity = CheckNotice
		}
		f.PhyOffset, f.EndPhyOffset = r.PhyOffset, r.PhyOffset+int64(r.TotalSize)
		f.Got, f.Want = fmt.Sprintf("%s %d", what, got), fmt.Sprintf("%s %d", what, want)
		f.Text = fmt.Sprintf("slot %d says %s %d, the record at %d has %d", slot, what, got, r.PhyOffset, want)
		c.found.add(f)
	}
	if u.Size != r.TotalSize {
		report(CheckWrongSize, "size", int64(u.Size), int64(r.TotalSize))
	}
	if tags := r.TagsCode(checkDelayLevels); u.TagsCode != tags && !cq.IsExtLost(c.sides[side].Queues, q.key, u.TagsCode) {
		if string(r.Topic) == message.TopicSchedule && !cq.IsExtAddress(u.TagsCode) { // the broker's delay levels may be others
			report(CheckDelayTags, "due time", u.TagsCode, tags)
		} else {
			report(CheckWrongTags, "tags code", u.TagsCode, tags)
		}
	}
	if u.StoreTimestampMs != cq.NoTimestamp && u.StoreTimestampMs != r.StoreTimestampMs {
		report(CheckWrongTime, "store time", u.StoreTimestampMs, r.StoreTimestampMs)
	}
	return differ
}
