package migrate

import (
	"fmt"

	"github.com/tandemq/tandemmq/cq"
)

// finish judges what is left of a queue when the log has been read.
func (a *audit) finish(q *auditQueue) error {
	for i := range a.sides {
		a.flush(q, i)
	}
	for i := range a.sides {
		if s := &q.sides[i]; s.there() {
			if err := a.tail(q, i); err != nil {
				return err
			}
		}
	}
	if len(a.sides) == 2 {
		a.against(q)
	}
	for i := range a.sides {
		s := &q.sides[i]
		if s.bad == nil || s.mended { // what is wrong with it has been told
			continue
		}
		f := badQueue(q.key, s.bad.err)
		f.Side = a.sides[i].Kind()
		if s.mended = s.lastSlot >= 0; s.mended {
			f.Remedy = remedyRewrite
		}
		a.report(f)
	}
	if err := a.settle(q); err != nil {
		return err
	}
	for i := range q.sides {
		q.sides[i].buf = nil
	}
	return nil
}

// tail judges the units behind the last one that a record has.
func (a *audit) tail(q *auditQueue, side int) error {
	s := &q.sides[side]
	if s.shifted > 0 && q.apart == 0 {
		a.notice(a.finding(q, side, CodeNumbering, -1, -1, fmt.Sprintf("%d units stand beside the slots that their records name; they are kept", s.shifted)))
	}
	from := max(s.met, s.bounds.Min)
	if s.bad != nil {
		from = s.met
	}
	keep := from // what is below stays
	first := run{}
	for slot := from; slot < s.bounds.Max; slot++ {
		if slot%4096 == 0 && a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		u, ok, err := a.unit(s, slot)
		if err != nil {
			return err
		}
		switch {
		case !ok:
			continue
		case u.PhyOffset < a.log.MinOffset(), a.lostAt(u.PhyOffset):
			keep = slot + 1
			if u.PhyOffset >= a.log.MinOffset() {
				a.notice(a.finding(q, side, CodeLostRecord, slot, u.PhyOffset, fmt.Sprintf("slot %d points to %d, where the log has lost what was there: the unit stays", slot, u.PhyOffset)))
			}
			continue
		}
		code := CodeDirtyTail
		if u.PhyOffset >= a.end {
			code = CodeUnitOutsideLog
		}
		if first.code == "" {
			first = run{code, slot, slot, u.PhyOffset}
		}
	}
	if first.code != "" && first.from >= keep {
		whole := s.lastSlot < 0 && first.from == s.bounds.Min
		text := fmt.Sprintf("%s: no record in the log has them; the first points to %d, and the log ends at %d", slotsText(first.from, s.bounds.Max), first.phy, a.end)
		if whole && first.code == CodeDirtyTail {
			first.code, text = CodeExtraQueue, fmt.Sprintf("none of its %d units leads to a record of it", s.bounds.Max-s.bounds.Min)
		}
		f := a.finding(q, side, first.code, first.from, first.phy, text)
		f.several(s.bounds.Max - first.from)
		switch {
		case first.code == CodeUnitOutsideLog && !a.acceptLoss: // the log may have lost its end, and with it what these were given for
			s.open = true
		case whole && s.bounds.Min > 0:
			s.open = true
		case whole:
			f.Remedy, s.gone = remedyDrop, true
		default:
			f.Remedy, s.cut, s.cutting = remedyCut, first.from, true
		}
		a.report(f)
	} else if first.code != "" {
		f := a.finding(q, side, CodeExtraUnits, first.from, first.phy, fmt.Sprintf("slot %d: no record in the log has it, and units behind it stay", first.from))
		a.report(f)
	}
	if t, ok := a.sides[side].(cq.Trimmer); ok && a.sides[side].Kind() == cq.KindRocks {
		hidden, err := t.UnitFrom(q.key, s.bounds.Max)
		if err != nil {
			return err
		}
		if hidden >= 0 {
			f := a.finding(q, side, CodeDirtyRows, hidden, -1, fmt.Sprintf("there is a row for slot %d, behind the queue's end at %d: left by a truncation of RocketMQ", hidden, s.bounds.Max))
			f.Remedy = remedyCut
			a.report(f)
			if !s.cutting && !s.gone {
				s.cut, s.cutting = max(s.bounds.Max, s.met), true
			}
		}
	}
	return nil
}

// next is where a queue will go on on a side.
func (s *auditSide) next() int64 {
	switch {
	case s.gone:
		return 0
	case s.cutting:
		return max(s.met, s.cut)
	}
	return max(s.met, s.bounds.Max)
}

// against holds what will be of a queue on one side against the other.
func (a *audit) against(q *auditQueue) {
	x, y := &q.sides[0], &q.sides[1]
	if a.exempt(q, 0) || a.exempt(q, 1) {
		return
	}
	if q.apart > 0 {
		side := 0
		if x.shifted == 0 || y.shifted > 0 && a.sides[0].Kind() == a.keep {
			side = 1
		}
		a.report(a.finding(q, side, CodeShifted, -1, -1, fmt.Sprintf("%d units stand beside the slots that their records and the other side have; --renumber has them stand where the records say", q.sides[side].shifted)))
		return
	}
	ex, ey := x.next(), y.next()
	if x.open || y.open {
		return
	}
	if ex == ey {
		a.minima(q)
		return
	}
	low, to := 0, ey
	if ey < ex {
		low, to = 1, ex
	}
	s := &q.sides[low]
	code, text := CodeLowMax, fmt.Sprintf("the queue goes on at %d, on the other side at %d", s.next(), to)
	if !s.there() && s.lastSlot < 0 {
		code, text = CodeMissingQueue, fmt.Sprintf("it has no such queue, of which nothing is left in the log; on the other side it goes on at %d", to)
	}
	s.raise, s.mended = to, true
	f := a.finding(q, low, code, -1, -1, text)
	f.Remedy = remedyRaise
	a.report(f)
}

// minima compares beginnings where nothing else is wrong: whatever is, moves them.
func (a *audit) minima(q *auditQueue) {
	x, y := &q.sides[0], &q.sides[1]
	if x.mended || y.mended || x.cutting || y.cutting || !x.there() || !y.there() || x.bad != nil || y.bad != nil || x.bounds.Min == y.bounds.Min {
		return
	}
	side := 0
	if y.bounds.Min > x.bounds.Min {
		side = 1
	}
	s := &q.sides[side]
	f := a.finding(q, side, CodeMinDiffers, -1, -1, fmt.Sprintf("it begins at %d, on the other side at %d", s.bounds.Min, q.sides[1-side].bounds.Min))
	if s.mended = s.lastSlot >= 0 && s.bounds.Min > s.firstSlot; s.mended {
		f.Remedy = remedyRewrite
	}
	a.report(f)
}

// What a repair does.
const (
	remedyRewrite = "rewritten from the log"
	remedyCut     = "cut off"
	remedyDrop    = "removed"
	remedyRaise   = "goes on where the other side does"
)
