package migrate

import (
	"context"
	"errors"
	"fmt"

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

// cursor walks one queue of the source. There is one for each, so that its size counts.
type cursor struct {
	key    cq.Key
	bounds cq.Bounds
	buf    []cq.Unit // read ahead; buf[pos] is the unit of slot
	slot   int64     // next slot to meet
	// fromPhy: records that start below it are not this pass's business for this queue.
	fromPhy int64
	// had is the queue's max offset before the pass moved it.
	had int64

	chunkFrom           int64 // bookkeeping of the backfill, as those of the next line
	id                  uint32
	chunkCount, chunkAt int32

	pos      int32 // in buf
	numbered bool  // a numbering notice was reported in full: of a queue the first one is
	built    bool  // the source does not have it: it is built from the log
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
	// known lists the topics of config/topics.json; nil when unknown.
	known map[string]bool
	// missing says what to do about queues that the source lacks.
	missing MissingQueues
	// light says that the store had light queues, whether or not the source has one.
	light bool
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
	source  sideReader
	kind    cq.Kind
	topics  map[string]*topicQueues
	cursors []*cursor
	queues  int // of a join that is over and has no cursors any more
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
	minAhead         = 1
	tickBytes        = 8 << 20
	maxDamage        = 50 // queues listed when a pass stops on damage
)

// newJoin prepares a pass over the queues of source from physical offset from (-1: from the log's beginning).
func newJoin(ctx context.Context, log *commitlog.Log, source cq.Reader, o joinOptions) (*join, error) {
	j := &join{joinOptions: o, ctx: ctx, log: log, source: newSideReader(source), kind: source.Kind(), topics: make(map[string]*topicQueues)}
	err := eachQueue(ctx, source, &j.found, func(k cq.Key, _ cq.Queue, b cq.Bounds) error {
		j.add(&cursor{key: k, bounds: b, slot: b.Min})
		return nil
	})
	if err != nil {
		return nil, err
	}
	j.ahead = readAhead(len(j.cursors))
	return j, nil
}

// readAhead is how many units of each of so many queues are read at a time.
func readAhead(queues int) int { return min(max(aheadBudgetUnits/max(queues, 1), minAhead), maxAhead) }

func (j *join) add(c *cursor) {
	t := j.topics[c.key.Topic]
	if t == nil {
		t = &topicQueues{}
		j.topics[c.key.Topic] = t
	}
	t.put(c.key.QueueID, c)
	c.id, c.had = uint32(len(j.cursors)), c.bounds.Max
	j.light = j.light || c.key.IsLMQ()
	j.cursors = append(j.cursors, c)
}

// seek moves every cursor to its first unit at or above phy, by binary search.
func (j *join) seek(phy int64) error {
	var one [1]cq.Unit
	for _, c := range j.cursors {
		if c.built {
			continue
		}
		lo, hi := c.bounds.Min, c.bounds.Max
		for lo < hi {
			mid := lo + (hi-lo)/2
			n, err := j.source.read(c.key, mid, one[:])
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

// seekBehind moves every cursor to the first unit that target lacks, and returns the physical offset at which a pass has
// to begin so that it meets all of them; it is at most from, where what neither side holds begins.
func (j *join) seekBehind(target cq.Reader, from int64) (int64, error) {
	var one [1]cq.Unit
	for _, c := range j.cursors {
		var has int64
		if target != nil {
			var err error
			if has, err = maxOf(target, c.key); err != nil {
				return 0, err
			}
		}
		c.slot = max(min(has, c.bounds.Max), c.bounds.Min)
		c.buf, c.pos = c.buf[:0], 0
		if c.slot >= c.bounds.Max {
			c.fromPhy = max(c.bounds.MaxPhyOffset, 0)
			continue
		}
		n, err := j.source.read(c.key, c.slot, one[:])
		if err != nil {
			return 0, err
		}
		if n == 1 {
			c.fromPhy = one[0].PhyOffset
			from = min(from, c.fromPhy)
		}
	}
	return from, nil
}

// peek returns the unit at the cursor's slot; ok is false when the queue has no more.
func (j *join) peek(c *cursor) (u *cq.Unit, ok bool, err error) {
	if int(c.pos) < len(c.buf) {
		return &c.buf[c.pos], true, nil
	}
	if c.built || c.slot >= c.bounds.Max {
		c.buf, c.pos = nil, 0
		return nil, false, nil
	}
	want := int(min(int64(j.ahead), c.bounds.Max-c.slot))
	if cap(c.buf) < want {
		c.buf = make([]cq.Unit, want)
	}
	c.buf, c.pos = c.buf[:want], 0
	n, err := j.source.read(c.key, c.slot, c.buf)
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
	if f.Where == "" && f.QueueOffset >= 0 && !c.built {
		f.Where = j.source.where(c.key, f.QueueOffset)
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
