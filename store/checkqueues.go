package store

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// checkedQueue is what a check knows of one queue.
type checkedQueue struct {
	key   cq.Key
	id    int
	sides [sideCount]checkedSide
	next  atomic.Int64 // one above the highest slot that a record in the log claims; 0: none does
}

type checkedSide struct {
	q       cq.Queue // nil: the side has no such queue
	bad     bool     // and it cannot be read, which is told
	b       cq.Bounds
	matched atomic.Int64 // units of [min, max) that a record in the log has met
	dirty   atomic.Bool  // some of those differ from it in size, tags or time
	empty   slotSet      // slots without a unit that a record in the log claims
}

// slotSet is some slots, in bounded memory.
type slotSet struct {
	mu    sync.Mutex
	slots map[int64]struct{}
	all   bool // there were too many to be told apart
}

// maxSlotSet bounds the slots of a set.
const maxSlotSet = 1 << 12

func (s *slotSet) add(slot int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all = s.all || len(s.slots) == maxSlotSet; s.all {
		return
	}
	if s.slots == nil {
		s.slots = make(map[int64]struct{})
	}
	s.slots[slot] = struct{}{}
}

func (s *slotSet) has(slot int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.slots[slot]
	return ok || s.all
}

// proven tells that each unit has met its record and is as that record says.
func (s *checkedSide) proven() bool { return s.matched.Load() == s.b.Max-s.b.Min && !s.dirty.Load() }

func (s *checkedSide) usable() bool { return s.q != nil && !s.bad }

// claimed notes that a record claims a slot.
func (q *checkedQueue) claimed(slot int64) {
	for {
		next := q.next.Load()
		if slot < next || q.next.CompareAndSwap(next, slot+1) {
			return
		}
	}
}

// older tells whether a physical offset lies before all records that the queue has units for, on every side that has any.
func (q *checkedQueue) older(phy int64) bool {
	has := false
	for i := range q.sides {
		if s := &q.sides[i]; s.usable() && !s.b.Empty() {
			if phy >= s.b.MinPhyOffset {
				return false
			}
			has = true
		}
	}
	return has
}

// bounds returns the least min and the greatest max of the sides.
func (q *checkedQueue) bounds() (least, most int64) {
	least = -1
	for i := range q.sides {
		if s := &q.sides[i]; s.usable() {
			if least < 0 || s.b.Min < least {
				least = s.b.Min
			}
			most = max(most, s.b.Max)
		}
	}
	return max(least, 0), most
}

// listQueues learns the queues of all sides and their bounds.
func (c *checker) listQueues() error {
	c.table = make(map[cq.Key]*checkedQueue)
	for s, v := range c.sides {
		if v == nil {
			continue
		}
		for k, err := range v.Queues.Queues() {
			if err != nil {
				return err
			}
			q := c.table[k]
			if q == nil {
				q = &checkedQueue{key: k}
				c.table[k] = q
				c.queues = append(c.queues, q)
				c.hasLight = c.hasLight || k.IsLMQ()
			}
			q.sides[s].q, _ = v.Queues.Queue(k)
		}
	}
	slices.SortFunc(c.queues, func(a, b *checkedQueue) int { return a.key.Compare(b.key) })
	for i, q := range c.queues {
		q.id = i
	}
	c.rep.Queues = int64(len(c.queues))
	add := c.phase("bounds", c.rep.Queues, "queues")
	err := c.parallel(len(c.queues), func() (func(int) error, func()) {
		return func(i int) error {
			add(1)
			return c.readBounds(c.queues[i])
		}, func() {}
	})
	for _, q := range c.queues {
		for s := range q.sides {
			if b := &q.sides[s].b; q.sides[s].usable() {
				c.rep.Units += b.Max - b.Min
			}
		}
	}
	return err
}

func (c *checker) readBounds(q *checkedQueue) error {
	for s := range q.sides {
		side := &q.sides[s]
		if side.q == nil {
			continue
		}
		var err error
		side.b, err = side.q.Bounds()
		switch b := &side.b; {
		case errors.Is(err, cq.ErrCorrupt):
			side.bad = true
			c.found.add(c.badQueue(q, s, err))
		case err != nil:
			return err
		case b.Min < 0 || b.Min > b.Max:
			side.bad = true
			f := queueFinding(CheckBadBounds, c.side(s), q.key, -1)
			f.Got, f.Want = fmt.Sprintf("min %d, max %d", b.Min, b.Max), "0 <= min <= max"
			f.Text = fmt.Sprintf("min is %d and max %d", b.Min, b.Max)
			c.found.add(f)
		}
	}
	return nil
}

// badQueue is the finding of a queue that contradicts itself.
func (c *checker) badQueue(q *checkedQueue, side int, err error) *CheckFinding {
	f := queueFinding(CheckBadQueue, c.side(side), q.key, -1)
	f.Text = err.Error()
	var ce *cq.CorruptError
	if errors.As(err, &ce) {
		f.File, f.FileOffset, f.Row, f.Got, f.Want = ce.File, ce.Offset, ce.Row, ce.Got, ce.Want
		f.Text = whatCorrupt(ce)
	}
	return f
}

// whatCorrupt says what is wrong, without the place: what was found, or what RocksDB says of a file of its own.
func whatCorrupt(ce *cq.CorruptError) string {
	if ce.Got == "" && ce.Want == "" && ce.Err != nil {
		return ce.Err.Error()
	}
	return fmt.Sprintf("got %s, want %s", ce.Got, ce.Want)
}

// unitFinding is about the unit in a slot.
func (c *checker) unitFinding(code CheckCode, q *checkedQueue, side int, slot int64) *CheckFinding {
	f := queueFinding(code, c.side(side), q.key, slot)
	where := q.sides[side].q.Where(slot)
	if side == sideFile {
		if i := strings.LastIndexByte(where, '+'); i >= 0 {
			if at, err := strconv.ParseInt(where[i+1:], 10, 64); err == nil {
				f.File, f.FileOffset = where[:i], at
				return f
			}
		}
	}
	f.Row = fmt.Sprintf("unit %s slot %d", q.key, slot)
	f.File = strings.TrimSuffix(where, " ("+f.Row+")")
	return f
}

// checkQueues goes over the queues once the log has been read.
func (c *checker) checkQueues() error {
	add := c.phase("queues", c.rep.Queues, "queues")
	return c.parallel(len(c.queues), func() (func(int) error, func()) {
		w := &queueReader{c: c}
		return func(i int) error {
			err := w.queue(c.queues[i])
			add(1)
			return err
		}, func() { atomic.AddInt64(&c.rep.Proven, w.proven) }
	})
}

// queueReader is one worker that goes over queues.
type queueReader struct {
	c      *checker
	a, b   [512]cq.Unit
	rec    message.Record
	proven int64
	// comparing tells that one side is held against the other.
	comparing bool
}

func (w *queueReader) queue(q *checkedQueue) error {
	for s := range q.sides {
		side := &q.sides[s]
		if !side.usable() {
			continue
		}
		if err := w.side(q, s); err != nil {
			return err
		}
		if next := q.next.Load(); next > side.b.Max {
			w.c.nextOffset(q, s, next)
		}
	}
	return w.compareSides(q)
}

// nextOffset reports that the log holds a record at or above the offset that the next put would get.
func (c *checker) nextOffset(q *checkedQueue, side int, next int64) {
	f := queueFinding(CheckNextOffset, c.side(side), q.key, -1)
	f.Severity = c.suspended()
	f.Got, f.Want = fmt.Sprintf("max %d", q.sides[side].b.Max), fmt.Sprintf("max %d", next)
	f.Text = fmt.Sprintf("max is %d, and a record in the log has slot %d: the next put would give offsets a second time", q.sides[side].b.Max, next-1)
	if side == sideFile && q.leftInFiles() {
		f.Severity = CheckWarning
		f.Text += " with files alone; RocksDB, which may have light queues alone, has it"
	}
	c.found.add(f)
}

// leftInFiles tells whether a light queue is in files too and goes on in RocksDB: files had it before RocksDB was told to have light queues alone.
//
// Source: CombineConsumeQueueStore, combineCQUseRocksdbForLmq, 5.5.0.
func (q *checkedQueue) leftInFiles() bool {
	f, r := &q.sides[sideFile], &q.sides[sideRocks]
	return q.key.IsLMQ() && f.usable() && r.usable() && r.b.Max > f.b.Max
}

func (w *queueReader) side(q *checkedQueue, s int) error {
	side := &q.sides[s]
	if err := w.belowMin(q, s); err != nil {
		return err
	}
	if !w.c.o.Deep {
		return w.ends(q, s)
	}
	w.proven += side.matched.Load()
	if side.matched.Load() == side.b.Max-side.b.Min {
		return nil
	}
	return w.check(q, s, side.b.Min, side.b.Max)
}

// check holds the units of [from, to) against the log.
func (w *queueReader) check(q *checkedQueue, s int, from, to int64) error {
	return w.eachUnit(q, s, from, to, func(slot int64, u *cq.Unit) error {
		good, err := w.c.checkUnit(q, s, slot, u, &w.rec)
		if good && !w.c.o.Deep {
			w.proven++
		}
		return err
	})
}

// belowMin looks at the unit before min, if it is still stored: its record must have left the log.
func (w *queueReader) belowMin(q *checkedQueue, s int) error {
	side := &q.sides[s]
	if side.b.Min == 0 {
		return nil
	}
	n, err := side.q.Read(side.b.Min-1, w.a[:1])
	if err != nil && !errors.Is(err, cq.ErrCorrupt) {
		return err
	}
	if u := &w.a[0]; err == nil && n == 1 && u.PhyOffset >= w.c.log.MinOffset() && w.c.log.MinOffset() >= 0 {
		f := w.c.unitFinding(CheckMinInexact, q, s, side.b.Min-1)
		f.PhyOffset = u.PhyOffset
		f.Got, f.Want = fmt.Sprintf("min %d", side.b.Min), fmt.Sprintf("min %d or less", side.b.Min-1)
		f.Text = fmt.Sprintf("min is %d, and the unit of slot %d points to %d, which the log still holds", side.b.Min, side.b.Min-1, u.PhyOffset)
		w.c.found.add(f)
	}
	return nil
}

// ends looks at the first and the last unit.
func (w *queueReader) ends(q *checkedQueue, s int) error {
	b := &q.sides[s].b
	if b.Empty() {
		return nil
	}
	if err := w.check(q, s, b.Min, b.Min+1); err != nil || b.Max-1 == b.Min {
		return err
	}
	return w.check(q, s, b.Max-1, b.Max)
}

// eachUnit calls fn for every unit of [from, to), and reports the slots that have none.
func (w *queueReader) eachUnit(q *checkedQueue, s int, from, to int64, fn func(slot int64, u *cq.Unit) error) error {
	lost := int64(-1) // the first slot of a run of lost records
	for at := from; at < to; {
		if err := w.c.ctx.Err(); err != nil {
			return err
		}
		n, err := q.sides[s].q.Read(at, w.a[:min(int64(len(w.a)), to-at)])
		if lost >= 0 && (n > 0 || err != nil || q.sides[s].empty.has(at)) {
			w.lostRecords(q, s, lost, at)
			lost = -1
		}
		switch {
		case n > 0:
		case err == nil && w.c.o.Deep && !q.sides[s].empty.has(at): // and all of the log was read
			if lost < 0 {
				lost = at
			}
			at++
			continue
		case err == nil || errors.Is(err, cq.ErrCorrupt):
			w.c.found.add(w.hole(q, s, at, err))
			at++
			continue
		default:
			return err
		}
		for i := range w.a[:n] {
			if err := fn(at+int64(i), &w.a[i]); err != nil {
				return err
			}
		}
		at += int64(n)
	}
	if lost >= 0 {
		w.lostRecords(q, s, lost, to)
	}
	return nil
}

// hole is the finding of a slot that holds no unit, or, where err says so, an impossible one.
func (w *queueReader) hole(q *checkedQueue, s int, at int64, err error) *CheckFinding {
	f := w.c.unitFinding(CheckHole, q, s, at)
	f.Got, f.Want = "no unit", "a unit"
	f.Text = fmt.Sprintf("slot %d holds no unit, and the queue runs from %d to %d", at, q.sides[s].b.Min, q.sides[s].b.Max)
	if err != nil {
		f.Code, f.Got, f.Text = CheckBadQueue, "an impossible unit", err.Error()
		var ce *cq.CorruptError
		if errors.As(err, &ce) {
			f.Got, f.Want = ce.Got, ce.Want
			f.Text = fmt.Sprintf("slot %d: %s", at, whatCorrupt(ce))
			if ce.Got == "" && ce.Row == "" { // a file of RocksDB
				f.Got, f.Want = "damage of a file", "a unit"
				f.File, f.FileOffset = ce.File, ce.Offset
			}
		}
	}
	return f
}

// lostRecords reports slots of [from, to), which have neither a unit nor a record in the log.
func (w *queueReader) lostRecords(q *checkedQueue, s int, from, to int64) {
	if w.comparing {
		return // told of each side by itself
	}
	f := w.c.unitFinding(CheckLostRecord, q, s, from)
	f.Severity = CheckWarning
	f.Got, f.Want = fmt.Sprintf("slots %d to %d", from, to-1), "their records"
	f.Text = fmt.Sprintf("slots %d to %d hold no unit, and no record in the log has them: the log has lost %d messages, and readers pass their slots", from, to-1, to-from)
	w.c.found.add(f)
}

// unitIsGood tells whether the record at phy is one that has that slot of that queue.
func (c *checker) unitIsGood(k cq.Key, slot, phy int64, r *message.Record) (bool, error) {
	release, err := c.log.Read(phy, 0, true, r)
	switch {
	case errors.Is(err, commitlog.ErrCorrupt) || errors.Is(err, commitlog.ErrOffsetOutOfRange):
		return false, nil
	case err != nil:
		return false, err
	}
	defer release()
	claim, ok := claimOf(r, k)
	return ok && claim == slot, nil
}

// checkUnit holds a unit against the log and reports what it points to, if that is not the record of its slot. The rest of the
// unit is compared where the log is not read: reading it does that.
func (c *checker) checkUnit(q *checkedQueue, side int, slot int64, u *cq.Unit, r *message.Record) (good bool, err error) {
	report := func(code CheckCode, got, want, format string, args ...any) *CheckFinding {
		f := c.unitFinding(code, q, side, slot)
		f.PhyOffset, f.Got, f.Want = u.PhyOffset, got, want
		f.Text = fmt.Sprintf("slot %d points to %d, ", slot, u.PhyOffset) + fmt.Sprintf(format, args...)
		return f
	}
	if first := max(c.log.MinOffset(), 0); u.PhyOffset >= c.end || u.PhyOffset < first {
		f := report(CheckOutsideLog, fmt.Sprintf("physical offset %d", u.PhyOffset), fmt.Sprintf("%d to %d", first, c.end),
			"and the log runs from %d to %d", first, c.end)
		if u.PhyOffset >= c.end {
			f.Severity = c.suspended()
		}
		c.found.add(f)
		return false, nil
	}
	release, err := c.log.Read(u.PhyOffset, 0, true, r)
	switch {
	case errors.Is(err, commitlog.ErrCorrupt) || errors.Is(err, commitlog.ErrOffsetOutOfRange):
		if c.lostToFiller(u.PhyOffset) {
			f := report(CheckLostRecord, "a filler", fmt.Sprintf("queue %s slot %d", q.key, slot), "which was written over records that the log has lost: readers pass the slot, and a queue that is built anew may give its offset again")
			f.Severity = CheckWarning
			c.found.add(f)
			return false, nil
		}
		got, want := gotWant(err)
		c.found.add(report(CheckNoRecord, got, want, "where no record is: %s", reasonText(err)))
		return false, nil
	case err != nil:
		return false, err
	}
	defer release()
	own := fmt.Sprintf("queue %s/%d slot %d", r.Topic, r.QueueID, r.QueueOffset)
	want := fmt.Sprintf("queue %s slot %d", q.key, slot)
	claim, ok := claimOf(r, q.key)
	switch {
	case !r.OwesUnit():
		c.found.add(report(CheckNoRecord, "a prepared or rolled back message", want, "a prepared or rolled back message, which has no unit"))
	case !ok:
		c.found.add(report(CheckOtherQueue, own, want, "the record of %s", own))
	case claim != slot:
		c.found.add(report(CheckOtherSlot, fmt.Sprintf("slot %d", claim), fmt.Sprintf("slot %d", slot), "the record of slot %d of this queue", claim))
	default:
		if u.PhyOffset < c.readFrom {
			c.compareUnit(q, side, slot, u, r)
		}
		return true, nil
	}
	if ok && claim >= slot {
		q.claimed(claim)
	}
	return false, nil
}
