package migrate

import (
	"bytes"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/migrate/state"
)

// record meets one record with the units it owes.
func (j *join) record(r *message.Record) error {
	if !r.OwesUnit() {
		return nil
	}
	t := j.topic(r.Topic)
	c := t.get(r.QueueID)
	if c == nil {
		var err error
		if c, err = j.absent(t, cq.Key{Topic: string(r.Topic), QueueID: r.QueueID}, r.QueueOffset, r); err != nil {
			return err
		}
	}
	if c != nil {
		if err := j.meet(c, r, r.QueueOffset, false); err != nil {
			return err
		}
	}
	if bytes.Contains(r.Properties, multiDispatch) {
		return j.multi(r)
	}
	return nil
}

var multiDispatch = []byte(message.PropertyMultiDispatch)

// topic returns the queues of a topic, with a one-entry cache: neighbours in the log often share it.
func (j *join) topic(name []byte) *topicQueues {
	if j.last != nil && string(name) == j.lastTopic {
		return j.last
	}
	t := j.topics[string(name)]
	if t == nil {
		t = &topicQueues{deleted: j.known != nil && !j.known[string(name)] && !systemTopic(string(name))}
		j.topics[string(name)] = t
	}
	j.last, j.lastTopic = t, string(name)
	return t
}

// multi meets a record with the light queues (and other queues) it was dispatched to. Whether the store had multi
// dispatch on is not in the directory. A store that holds a light queue had it on: then each one that a record names must
// be there. A store that holds none at all gets a notice.
func (j *join) multi(r *message.Record) error {
	var err error
	r.MultiDispatch(func(name []byte, queueID int32, queueOffset int64, ok bool) bool {
		if !ok {
			return true
		}
		t, light := j.topics[string(name)], bytes.HasPrefix(name, lightPrefix)
		var c *cursor
		if t != nil {
			c = t.get(queueID)
		}
		if c == nil && light {
			if t == nil {
				t = &topicQueues{}
				j.topics[string(name)] = t
			}
			c, err = j.absentLight(t, cq.Key{Topic: string(name), QueueID: queueID}, queueOffset, r)
		}
		if c != nil && err == nil {
			err = j.meet(c, r, queueOffset, light)
		}
		return err == nil
	})
	return err
}

var lightPrefix = []byte(cq.LMQPrefix)

// absentLight is asked for a light queue that the source does not have.
func (j *join) absentLight(t *topicQueues, key cq.Key, claimed int64, r *message.Record) (*cursor, error) {
	if j.light || j.missing == MissingBuild {
		return j.absent(t, key, claimed, r)
	}
	f := queueFinding(CodeLMQWithout, key, fmt.Sprintf("the record at %d names it, but the %s side has no light queues at all: dispatch to them was off", r.PhyOffset, j.kind))
	f.QueueOffset, f.PhyOffset = claimed, r.PhyOffset
	j.notices.Add(f)
	return nil, nil
}

// meet joins record r, which claims slot claimed of queue c.
func (j *join) meet(c *cursor, r *message.Record, claimed int64, light bool) error {
	if r.PhyOffset < c.fromPhy {
		return nil
	}
	u, ok, err := j.peek(c)
	if err != nil {
		return err
	}
	if !ok || u.PhyOffset > r.PhyOffset {
		return j.missingUnit(c, r, claimed, u, light)
	}
	if u.PhyOffset < r.PhyOffset {
		return j.damage(c, Finding{
			Code: CodeUnitNoRecord, QueueOffset: c.slot, PhyOffset: u.PhyOffset,
			Text: fmt.Sprintf("slot %d points to %d, where no record of this queue starts (the queue's next record is at %d)", c.slot, u.PhyOffset, r.PhyOffset),
		})
	}
	if u.Size != r.TotalSize {
		return j.damage(c, Finding{
			Code: CodeWrongSize, QueueOffset: c.slot, PhyOffset: u.PhyOffset,
			Text: fmt.Sprintf("slot %d says size %d, the record at %d has %d", c.slot, u.Size, r.PhyOffset, r.TotalSize),
		})
	}
	row := *u
	if err := j.tags(c, r, &row); err != nil {
		return err
	}
	if row.StoreTimestampMs != cq.NoTimestamp && row.StoreTimestampMs != r.StoreTimestampMs {
		return j.damage(c, Finding{
			Code: CodeWrongTime, QueueOffset: c.slot, PhyOffset: u.PhyOffset,
			Text: fmt.Sprintf("slot %d says store time %d, the record at %d has %d", c.slot, u.StoreTimestampMs, r.PhyOffset, r.StoreTimestampMs),
		})
	}
	row.StoreTimestampMs = r.StoreTimestampMs
	if claimed != c.slot {
		f := Finding{Code: CodeNumbering, Topic: c.key.Topic, QueueID: c.key.QueueID, QueueOffset: c.slot, PhyOffset: r.PhyOffset}
		if !c.numbered {
			c.numbered = true
			f.Text = fmt.Sprintf("slot %d holds the record at %d, which numbers itself %d; the slot is kept", c.slot, r.PhyOffset, claimed)
			j.notices.Add(f)
		} else {
			j.notices.Counts[CodeNumbering]++
		}
	}
	slot := c.slot
	c.advance()
	j.units++
	return j.emit(c, slot, row)
}

// tags proves the stored tags code, and recomputes one whose extension unit is lost.
func (j *join) tags(c *cursor, r *message.Record, row *cq.Unit) error {
	derived := r.TagsCode(defaultLevels)
	switch {
	case row.TagsCode == derived:
	case cq.IsExtLost(j.source.Reader, c.key, row.TagsCode):
		row.TagsCode = derived // the extension unit is not there any more: recompute (G1)
	case deliveryTime(r, row.TagsCode):
		j.notices.Add(Finding{
			Code: CodeDelayTags, Topic: c.key.Topic, QueueID: c.key.QueueID, QueueOffset: c.slot, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("slot %d is due at %d, the default delay levels say %d; the stored value is kept", c.slot, row.TagsCode, derived),
		})
	default:
		return j.damage(c, Finding{
			Code: CodeWrongTags, QueueOffset: c.slot, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("slot %d says tags code %d, the record at %d has %d", c.slot, row.TagsCode, r.PhyOffset, derived),
		})
	}
	return nil
}

// deliveryTime tells whether the tags code of a unit that leads to r is when a delayed message is due, which the broker's own levels made.
func deliveryTime(r *message.Record, tagsCode int64) bool {
	return string(r.Topic) == message.TopicSchedule && !cq.IsExtAddress(tagsCode)
}

// missingUnit judges a record that has no unit in its queue. u is the queue's next unit, nil at its end.
func (j *join) missingUnit(c *cursor, r *message.Record, claimed int64, u *cq.Unit, light bool) error {
	switch {
	case c.built:
		return j.build(c, r, claimed)
	case u == nil && j.extendFromLog && claimed == c.slot:
		j.notices.Add(Finding{
			Code: CodeFromLog, Topic: c.key.Topic, QueueID: c.key.QueueID, QueueOffset: claimed, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("slot %d is taken from the log alone: the %s queue ends before it", claimed, j.kind),
		})
		return j.fromLog(c, r)
	case u == nil && j.extendFromLog && c.bounds.Empty() && c.slot == c.had && claimed > c.slot:
		// What lay between has expired from the log; nothing readable is on this side of the gap.
		c.slot = claimed
		return j.missingUnit(c, r, claimed, nil, light)
	case u == nil && j.extendFromLog && claimed < c.slot && r.PhyOffset > c.bounds.LastPhyOffset:
		return j.damage(c, Finding{
			Code: CodeSourceBehind, QueueOffset: claimed, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("the record at %d numbers itself %d, below the queue's end %d: the topic was deleted and made anew, and the log alone cannot tell which of its records count",
				r.PhyOffset, claimed, c.slot),
		})
	case u == nil && r.PhyOffset > c.bounds.LastPhyOffset && claimed >= c.bounds.Max:
		return j.damage(c, Finding{
			Code: CodeSourceBehind, QueueOffset: claimed, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("the record at %d (slot %d) has no unit: the queue ends at %d, before the log does", r.PhyOffset, claimed, c.bounds.Max),
		})
	case claimed < c.bounds.Min && (c.bounds.Empty() || r.PhyOffset < c.bounds.MinPhyOffset):
		return j.damage(c, Finding{
			Code: CodeMissingUnits, QueueOffset: claimed, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("the record at %d (slot %d) is in the log, but the queue begins at %d", r.PhyOffset, claimed, c.bounds.Min),
		})
	case light:
		j.notices.Add(Finding{
			Code: CodeLMQWithout, Topic: c.key.Topic, QueueID: c.key.QueueID, QueueOffset: claimed, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("the record at %d names this queue, which holds no unit for it", r.PhyOffset),
		})
		return nil
	default:
		j.notices.Add(Finding{
			Code: CodeSlotTaken, Topic: c.key.Topic, QueueID: c.key.QueueID, QueueOffset: claimed, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("the record at %d numbers itself %d but has no unit; the queue's numbering is kept", r.PhyOffset, claimed),
		})
		return nil
	}
}

// MissingQueues says what to do about a queue that the log speaks of and the source does not have.
type MissingQueues = state.MissingQueues

// The choices.
const (
	MissingRefuse MissingQueues = "refuse" // damage, the default
	MissingBuild  MissingQueues = "build"  // build it from the log alone
	MissingSkip   MissingQueues = "skip"   // leave it out (a topic deleted on purpose)
)

// absent is asked for a record of a queue that the source does not have. It returns the cursor of a queue to be built,
// or nil when the record is to be passed over.
func (j *join) absent(t *topicQueues, key cq.Key, claimed int64, r *message.Record) (*cursor, error) {
	// Every record left out counts; the first of a topic is told in full.
	report := func(code Code, text string) {
		if t.skipped {
			j.notices.Counts[code]++
			return
		}
		t.skipped = true
		j.notices.Add(Finding{Code: code, Topic: key.Topic, QueueID: key.QueueID, QueueOffset: claimed, PhyOffset: r.PhyOffset, Text: text})
	}
	switch {
	case j.missing == MissingBuild:
		c := &cursor{key: key, built: true, slot: claimed, bounds: cq.Bounds{Min: claimed, Max: claimed, MinPhyOffset: r.PhyOffset, LastPhyOffset: -1}}
		j.add(c)
		j.built = append(j.built, c)
		j.notices.Add(Finding{
			Code: CodeBuiltQueue, Topic: key.Topic, QueueID: key.QueueID, QueueOffset: claimed, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("the %s side has no such queue; it is built from the log, from slot %d on", j.kind, claimed),
		})
		return c, nil
	case t.deleted:
		report(CodeDeletedTopic, "config/topics.json does not list the topic and no queue of it exists: its records are left alone")
		return nil, nil
	case j.missing == MissingSkip:
		report(CodeSkippedQueue, "records of this topic have no queue; left out as asked")
		return nil, nil
	default:
		c := &cursor{key: key, built: true}
		return nil, j.damage(c, Finding{
			Code: CodeMissingQueue, QueueOffset: claimed, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("the record at %d (slot %d) belongs to it, but the %s side has no such queue (--missing-queues build makes it from the log, skip leaves it out)",
				r.PhyOffset, claimed, j.kind),
		})
	}
}

// build adds a record to a queue that is made from the log alone: its own numbers count, and they must be consecutive.
func (j *join) build(c *cursor, r *message.Record, claimed int64) error {
	if claimed != c.slot {
		return j.damage(c, Finding{
			Code: CodeMissingQueue, QueueOffset: c.slot, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("cannot be built from the log: after slot %d comes the record at %d, which numbers itself %d", c.slot-1, r.PhyOffset, claimed),
		})
	}
	return j.fromLog(c, r)
}

// fromLog emits a row made from the record alone and moves the queue's end behind it.
func (j *join) fromLog(c *cursor, r *message.Record) error {
	slot := c.slot
	if c.bounds.Empty() {
		c.bounds.Min, c.bounds.MinPhyOffset = slot, r.PhyOffset
	}
	c.slot++
	c.bounds.Max, c.bounds.LastPhyOffset, c.bounds.MaxPhyOffset = c.slot, r.PhyOffset, r.PhyOffset+int64(r.TotalSize)
	j.units++
	return j.emit(c, slot, cq.Unit{PhyOffset: r.PhyOffset, Size: r.TotalSize, TagsCode: r.TagsCode(defaultLevels), StoreTimestampMs: r.StoreTimestampMs})
}
