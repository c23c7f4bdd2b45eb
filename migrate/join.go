package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// The join walks the log once and meets each record with the next unit of its queue.
//
// A queue's units ascend in slot and in physical offset alike, so one cursor per queue is enough: when the record at P
// comes by, its queue's next unit either points to P (the pair is checked and emitted), or further on (the record has no
// unit: a notice or damage, see missing), or behind (no record of that queue starts there: damage). What is left in a
// cursor at the end of the log points outside it.

// emitFunc takes the row that belongs to slot of queue c. Rows of one queue come in slot order.
type emitFunc func(c *cursor, slot int64, u cq.Unit) error

// errStop ends a join early without an error of its own.
var errStop = errors.New("stop")

// cursor walks one queue of the source.
type cursor struct {
	q      cq.Queue // nil for a queue built from the log
	key    cq.Key
	bounds cq.Bounds
	buf    []cq.Unit // read ahead; buf[pos] is the unit of slot
	pos    int
	slot   int64 // next slot to meet
	// lastPhy is where the last met record starts; units must ascend.
	lastPhy int64
	// numbered counts the numbering notices, of which only the first is reported in full.
	numbered int64

	// chunk bookkeeping of the backfill
	id         uint32
	chunkFrom  int64
	chunkCount int
	chunkAt    int
}

// topicQueues are the cursors of one topic by queue id; nil where there is no such queue.
type topicQueues struct {
	byID    []*cursor
	sparse  map[int32]*cursor // ids beyond what a slice should hold
	deleted bool              // the topic table does not list it
	skipped bool              // already reported as missing, deleted or skipped
}

const denseQueueIDs = 1024

func (t *topicQueues) get(id int32) *cursor {
	if id >= 0 && int(id) < len(t.byID) {
		return t.byID[id]
	}
	return t.sparse[id]
}

func (t *topicQueues) put(id int32, c *cursor) {
	if id < 0 || id >= denseQueueIDs {
		if t.sparse == nil {
			t.sparse = make(map[int32]*cursor)
		}
		t.sparse[id] = c
		return
	}
	for int(id) >= len(t.byID) {
		t.byID = append(t.byID, nil)
	}
	t.byID[id] = c
}

// joinOptions say how a join treats what it meets.
type joinOptions struct {
	levels *message.DelayLevels
	// known lists the topics of config/topics.json; nil when unknown.
	known map[string]bool
	// missing says what to do about queues that the source lacks.
	missing MissingQueues
	// extendFromLog lets a queue that ends before the log be continued from the records' own numbers (rollback).
	extendFromLog bool
	// acceptTornTail treats bytes behind the last record that are no record as the log's end.
	acceptTornTail bool
}

// join is one pass.
type join struct {
	joinOptions
	ctx     context.Context
	log     *commitlog.Log
	kind    cq.Kind
	topics  map[string]*topicQueues
	cursors []*cursor
	ahead   int // units to read ahead per queue
	emit    emitFunc
	// between is called before each record, where every record that ends at or below phy has been emitted whole.
	between func(phy int64) error
	found   Findings // damage
	notices Findings
	built   []*cursor
	tick    func(phy int64) error // called about every tickBytes of log

	records, units int64
	lastTopic      string
	last           *topicQueues
}

const (
	aheadBudgetUnits = 1 << 20 // 32 MiB of cq.Unit over all queues
	maxAhead         = 2048
	minAhead         = 4
	tickBytes        = 8 << 20
	maxDamage        = 50 // queues listed when a pass stops on damage
)

// newJoin prepares a pass over the queues of source from physical offset from (-1: from the log's beginning).
func newJoin(ctx context.Context, log *commitlog.Log, source cq.Reader, o joinOptions) (*join, error) {
	j := &join{joinOptions: o, ctx: ctx, log: log, kind: source.Kind(), topics: make(map[string]*topicQueues)}
	if j.levels == nil {
		j.levels = message.DefaultDelayLevels()
	}
	for k := range source.Queues() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		q, ok := source.Queue(k)
		if !ok {
			continue
		}
		b, err := q.Bounds()
		if err != nil {
			var ce *cq.CorruptError
			if !errors.As(err, &ce) {
				return nil, err
			}
			j.found.Add(Finding{Code: CodeBadQueue, Topic: k.Topic, QueueID: k.QueueID, QueueOffset: -1, PhyOffset: -1, Text: err.Error()})
			if j.found.Len() >= maxDamage {
				break
			}
			continue
		}
		j.add(&cursor{q: q, key: k, bounds: b, slot: b.Min, lastPhy: -1})
	}
	j.ahead = min(max(aheadBudgetUnits/max(len(j.cursors), 1), minAhead), maxAhead)
	return j, nil
}

func (j *join) add(c *cursor) {
	t := j.topics[c.key.Topic]
	if t == nil {
		t = &topicQueues{}
		j.topics[c.key.Topic] = t
	}
	t.put(c.key.QueueID, c)
	c.id = uint32(len(j.cursors))
	j.cursors = append(j.cursors, c)
}

// seek moves every cursor to its first unit at or above phy, by binary search.
func (j *join) seek(phy int64) error {
	var one [1]cq.Unit
	for _, c := range j.cursors {
		if c.q == nil {
			continue
		}
		lo, hi := c.bounds.Min, c.bounds.Max
		for lo < hi {
			mid := lo + (hi-lo)/2
			n, err := c.q.Read(mid, one[:])
			if err != nil {
				return err
			}
			// A hole is met again by the pass, which reports it, whichever way the search turns.
			if n == 1 && one[0].PhyOffset >= phy {
				hi = mid
			} else {
				lo = mid + 1
			}
		}
		c.slot, c.buf, c.pos = lo, c.buf[:0], 0
	}
	return nil
}

// peek returns the unit at the cursor's slot; ok is false when the queue has no more.
func (j *join) peek(c *cursor) (u *cq.Unit, ok bool, err error) {
	if c.pos < len(c.buf) {
		return &c.buf[c.pos], true, nil
	}
	if c.q == nil || c.slot >= c.bounds.Max {
		return nil, false, nil
	}
	want := int(min(int64(j.ahead), c.bounds.Max-c.slot))
	if cap(c.buf) < want {
		c.buf = make([]cq.Unit, want)
	}
	c.buf, c.pos = c.buf[:want], 0
	n, err := c.q.Read(c.slot, c.buf)
	if err != nil {
		c.buf = c.buf[:0]
		return nil, false, err
	}
	c.buf = c.buf[:n]
	if n == 0 {
		return nil, false, j.damage(c, Finding{
			Code: CodeHole, QueueOffset: c.slot, PhyOffset: -1,
			Text: fmt.Sprintf("slot %d holds no unit, but the queue runs from %d to %d", c.slot, c.bounds.Min, c.bounds.Max),
		})
	}
	return &c.buf[0], true, nil
}

func (c *cursor) advance() {
	c.pos++
	c.slot++
}

// damage records a finding that ends the migration. It returns errStop: the place is known, and what follows in this
// pass would only repeat it.
func (j *join) damage(c *cursor, f Finding) error {
	f.Topic, f.QueueID = c.key.Topic, c.key.QueueID
	if f.Where == "" && f.QueueOffset >= 0 && c.q != nil {
		f.Where = where(c.q, f.QueueOffset)
	}
	j.found.Add(f)
	return errStop
}

// run walks the log from from (-1: its beginning) to its end and returns where that is.
func (j *join) run(from int64) (end int64, err error) {
	if j.found.Len() > 0 {
		return -1, nil
	}
	s := j.log.Scanner(from, commitlog.ScanOptions{CheckCRC: true})
	defer s.Close()
	next := max(from, j.log.MinOffset()) + tickBytes
	for s.Next() {
		r := s.Record()
		j.records++
		if err := j.step(r); err != nil {
			if errors.Is(err, errStop) {
				return -1, nil
			}
			return -1, err
		}
		if r.PhyOffset >= next {
			next = r.PhyOffset + tickBytes
			if err := j.ctx.Err(); err != nil {
				return -1, err
			}
			if j.tick != nil {
				if err := j.tick(r.PhyOffset + int64(r.TotalSize)); err != nil {
					return -1, err
				}
			}
		}
	}
	se := s.End()
	if err := s.Err(); err != nil {
		switch se.Kind {
		case commitlog.EndTorn:
			if !j.acceptTornTail {
				j.found.Add(Finding{Code: CodeTornLog, QueueOffset: -1, PhyOffset: se.Offset, Where: place(se.File, se.FileOffset), Text: err.Error()})
			}
		case commitlog.EndCorrupt:
			j.found.Add(Finding{Code: CodeCorruptLog, QueueOffset: -1, PhyOffset: se.Offset, Where: place(se.File, se.FileOffset), Text: err.Error()})
		default:
			return -1, err
		}
		if j.found.Len() > 0 {
			// Units that point at or behind the damage say what is lost with it.
			if err := j.leftovers(se.Offset); err != nil {
				return -1, err
			}
			return -1, nil
		}
	}
	if err := j.leftovers(se.Offset); err != nil {
		return -1, err
	}
	return se.Offset, nil
}

func place(file string, offset int64) string {
	if file == "" {
		return ""
	}
	return fmt.Sprintf("%s+%d", file, offset)
}

// leftovers reports units that no record answered.
func (j *join) leftovers(end int64) error {
	for _, c := range j.cursors {
		u, ok, err := j.peek(c)
		if err != nil && !errors.Is(err, errStop) {
			return err
		}
		if !ok {
			continue
		}
		f := Finding{Code: CodeUnitNoRecord, QueueOffset: c.slot, PhyOffset: u.PhyOffset}
		if u.PhyOffset >= end {
			f.Code = CodeUnitOutsideLog
			f.Text = fmt.Sprintf("slot %d points to %d, the log ends at %d", c.slot, u.PhyOffset, end)
		} else {
			f.Text = fmt.Sprintf("slot %d points to %d, where no record of this queue starts", c.slot, u.PhyOffset)
		}
		_ = j.damage(c, f)
		if j.found.Len() >= maxDamage {
			return nil
		}
	}
	return nil
}

func (j *join) step(r *message.Record) error {
	if j.between != nil {
		if err := j.between(r.PhyOffset); err != nil {
			return err
		}
	}
	return j.record(r)
}

// record meets one record with the units it owes.
func (j *join) record(r *message.Record) error {
	if !r.OwesUnit() {
		return nil
	}
	t := j.topic(r.Topic)
	c := t.get(r.QueueID)
	if c == nil {
		var err error
		if c, err = j.absent(t, r); err != nil {
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
		t = &topicQueues{deleted: j.known != nil && !j.known[string(name)]}
		j.topics[string(name)] = t
	}
	j.last, j.lastTopic = t, string(name)
	return t
}

// multi meets a record with the light queues (and other queues) it was dispatched to. Whether the store had multi
// dispatch on is not in the directory: only queues that exist in the source are asked.
func (j *join) multi(r *message.Record) error {
	var err error
	r.MultiDispatch(func(name []byte, queueID int32, queueOffset int64, ok bool) bool {
		t := j.topics[string(name)]
		if t == nil || !ok {
			return true
		}
		c := t.get(queueID)
		if c == nil {
			return true
		}
		err = j.meet(c, r, queueOffset, true)
		return err == nil
	})
	return err
}

// meet joins record r, which claims slot claimed of queue c.
func (j *join) meet(c *cursor, r *message.Record, claimed int64, light bool) error {
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
		c.numbered++
		f := Finding{Code: CodeNumbering, Topic: c.key.Topic, QueueID: c.key.QueueID, QueueOffset: c.slot, PhyOffset: r.PhyOffset}
		if c.numbered == 1 {
			f.Text = fmt.Sprintf("slot %d holds the record at %d, which numbers itself %d; the slot is kept", c.slot, r.PhyOffset, claimed)
			j.notices.Add(f)
		} else {
			j.notices.Counts[CodeNumbering]++
		}
	}
	slot := c.slot
	c.lastPhy = r.PhyOffset
	c.advance()
	j.units++
	return j.emit(c, slot, row)
}

// tags proves the stored tags code, and resolves one that is still an ext address.
func (j *join) tags(c *cursor, r *message.Record, row *cq.Unit) error {
	derived := r.TagsCode(j.levels)
	switch {
	case row.TagsCode == derived:
	case cq.IsExtAddress(row.TagsCode):
		row.TagsCode = derived // the extension unit is not there any more: recompute (G1)
	case string(r.Topic) == message.TopicSchedule:
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

// missingUnit judges a record that has no unit in its queue. u is the queue's next unit, nil at its end.
func (j *join) missingUnit(c *cursor, r *message.Record, claimed int64, u *cq.Unit, light bool) error {
	switch {
	case c.q == nil:
		return j.build(c, r, claimed)
	case u == nil && j.extendFromLog && claimed == c.slot:
		j.notices.Add(Finding{
			Code: CodeFromLog, Topic: c.key.Topic, QueueID: c.key.QueueID, QueueOffset: claimed, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("slot %d is taken from the log alone: the %s queue ends before it", claimed, j.kind),
		})
		return j.fromLog(c, r)
	case light:
		j.notices.Add(Finding{
			Code: CodeLMQWithout, Topic: c.key.Topic, QueueID: c.key.QueueID, QueueOffset: claimed, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("the record at %d names this queue, which holds no unit for it", r.PhyOffset),
		})
		return nil
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
	default:
		j.notices.Add(Finding{
			Code: CodeSlotTaken, Topic: c.key.Topic, QueueID: c.key.QueueID, QueueOffset: claimed, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("the record at %d numbers itself %d but has no unit; the queue's numbering is kept", r.PhyOffset, claimed),
		})
		return nil
	}
}

// MissingQueues says what to do about a queue that the log speaks of and the source does not have.
type MissingQueues string

// The choices.
const (
	MissingRefuse MissingQueues = "refuse" // damage, the default
	MissingBuild  MissingQueues = "build"  // build it from the log alone
	MissingSkip   MissingQueues = "skip"   // leave it out (a topic deleted on purpose)
)

// absent is asked for a record of a queue that the source does not have. It returns the cursor of a queue to be built,
// or nil when the record is to be passed over.
func (j *join) absent(t *topicQueues, r *message.Record) (*cursor, error) {
	key := cq.Key{Topic: string(r.Topic), QueueID: r.QueueID}
	report := func(code Code, text string) {
		if !t.skipped {
			t.skipped = true
			j.notices.Add(Finding{Code: code, Topic: key.Topic, QueueID: key.QueueID, QueueOffset: r.QueueOffset, PhyOffset: r.PhyOffset, Text: text})
		}
	}
	switch {
	case j.missing == MissingBuild:
		c := &cursor{key: key, slot: r.QueueOffset, bounds: cq.Bounds{Min: r.QueueOffset, Max: r.QueueOffset, MinPhyOffset: r.PhyOffset, LastPhyOffset: -1}, lastPhy: -1}
		j.add(c)
		j.built = append(j.built, c)
		j.notices.Add(Finding{
			Code: CodeBuiltQueue, Topic: key.Topic, QueueID: key.QueueID, QueueOffset: r.QueueOffset, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("the %s side has no such queue; it is built from the log, from slot %d on", j.kind, r.QueueOffset),
		})
		return c, nil
	case t.deleted:
		report(CodeDeletedTopic, "config/topics.json does not list the topic and no queue of it exists: its records are left alone")
		return nil, nil
	case j.missing == MissingSkip:
		report(CodeSkippedQueue, "records of this topic have no queue; left out as asked")
		return nil, nil
	default:
		c := &cursor{key: key}
		return nil, j.damage(c, Finding{
			Code: CodeMissingQueue, QueueOffset: r.QueueOffset, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("the record at %d (slot %d) belongs to it, but the %s side has no such queue (--missing-queues build makes it from the log, skip leaves it out)",
				r.PhyOffset, r.QueueOffset, j.kind),
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
	return j.emit(c, slot, cq.Unit{PhyOffset: r.PhyOffset, Size: r.TotalSize, TagsCode: r.TagsCode(j.levels), StoreTimestampMs: r.StoreTimestampMs})
}

// sortedKeys lists the queues of the join in key order.
func (j *join) sortedKeys() []*cursor {
	out := slices.Clone(j.cursors)
	slices.SortFunc(out, func(a, b *cursor) int { return a.key.Compare(b.key) })
	return out
}
