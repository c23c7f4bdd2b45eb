package migrate

import (
	"errors"
	"fmt"
	"math"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// auditQueue is a queue on its sides. There is one for each queue of a part, so that its size counts.
type auditQueue struct {
	key   cq.Key
	id    int
	sides [2]auditSide
	apart int64 // records that stand in one slot on the one side and in another, or none, on the other
}

// auditSide is what an audit knows of a queue on one side.
type auditSide struct {
	of     *auditQueue
	reader *sideReader // nil: the side has no such queue
	bad    *badSide    // what contradicts itself; bounds are then as far as is known
	bounds cq.Bounds

	buf  []cq.Unit // read ahead
	from int64     // slot of buf[0]

	// shift is by how much the slots that records name lie above those of their units at present (F1); shifted counts the units that are beside theirs.
	shift, shifted int64
	// met is the slot behind the last one that a record has.
	met int64
	// firstSlot to lastSlot are right, or will be: those that a record was met in. lastSlot is -1 before the first one.
	firstSlot, firstPhy, lastSlot, lastPhy int64
	cut, raise                             int64
	mended                                 bool // some slot is not as it was
	cutting                                bool // everything from slot cut on goes
	gone                                   bool // the whole queue goes
	open                                   bool // nothing tells where it ends

	ends *provenEnds // nil: not looked for
	run  *run        // of slots that lack the same, not reported yet
}

// there tells whether the side has the queue.
func (s *auditSide) there() bool { return s.reader != nil }

// badSide is a queue that contradicts itself.
type badSide struct {
	err    error
	stored storedReader // reads it all the same; nil: nothing does
}

// readable tells whether what a queue holds can be read.
func (s *auditSide) readable() bool { return s.bad == nil || s.bad.stored != nil }

// run is a stretch of slots with one thing wrong.
type run struct {
	code     Code
	from, to int64
	phy      int64
}

// there is what a look at one side tells.
type there int

const (
	thereExempt there = iota // the side does not have such queues
	thereRight               // the record's unit
	thereHidden              // the same, below the beginning that the queue says it has
	thereWrong               // something else, or nothing, and the record's unit belongs there
	thereTaken               // the unit of another record that has the slot as well
	thereOld                 // the queue holds no unit of the record and should not: it was made anew since, or is shifted
)

// look is one side's answer.
type look struct {
	is   there
	code Code // what is wrong
	at   int64
	u    cq.Unit
	has  bool
}

// meet holds a record that has a slot against what each side has there.
func (a *audit) meet(q *auditQueue, r *message.Record, slot int64) error {
	want := unitOf(r)
	if a.plain(q, want, slot) {
		return nil
	}
	var looks [2]look
	count := [thereOld + 1]int{}
	for i := range a.sides {
		var err error
		if looks[i], err = a.look(q, i, r, want, slot); err != nil {
			return err
		}
		count[looks[i].is]++
	}
	placed := count[thereRight] + count[thereHidden]
	switch {
	case count[thereTaken] > 0 && count[thereRight] > 0:
		return a.twice(q, slot, want, looks)
	case count[thereTaken] > 0 || count[thereOld] > 0 && placed == 0:
		a.notice(Finding{
			Code: CodeSlotTaken, Topic: q.key.Topic, QueueID: q.key.QueueID, QueueOffset: slot, PhyOffset: r.PhyOffset,
			Text: fmt.Sprintf("the record at %d numbers itself %d but has no unit; the queue's numbering is kept", r.PhyOffset, slot),
		})
		return nil
	case placed == 2 && looks[0].at != looks[1].at, placed == 1 && count[thereOld] > 0:
		q.apart++
	}
	for i := range a.sides {
		l := &looks[i]
		if l.is == thereWrong && placed == 1 && q.apart == 0 { // as the other side has it
			if err := a.beside(&q.sides[i], r, want, l, looks[1-i].at); err != nil {
				return err
			}
		}
		switch l.is {
		case thereRight:
			q.sides[i].hold(l.at, r.PhyOffset)
		case thereWrong, thereHidden:
			if err := a.wrong(q, i, l, want); err != nil {
				return err
			}
		}
	}
	return nil
}

// plain tells whether a record is the next one of its queue and each side has it, in what was read ahead: so it is with nearly all.
func (a *audit) plain(q *auditQueue, want cq.Unit, slot int64) bool {
	for i := range a.sides {
		s := &q.sides[i]
		j := slot - s.from
		if slot != s.met || s.shift != 0 || slot < s.bounds.Min || j < 0 || j >= int64(len(s.buf)) {
			return false
		}
		u := &s.buf[j]
		if !want.SameRecord(*u) || u.StoreTimestampMs != cq.NoTimestamp && u.StoreTimestampMs != want.StoreTimestampMs {
			return false
		}
	}
	for i := range a.sides {
		q.sides[i].hold(slot, want.PhyOffset)
	}
	return true
}

// beside looks for a record in the slot in which the other side has it, beside the one that it names.
func (a *audit) beside(s *auditSide, r *message.Record, want cq.Unit, l *look, at int64) (err error) {
	if at == l.at {
		return nil
	}
	l.at = at
	if l.u, l.has, err = a.peek(s, at); err != nil || !l.has {
		return err
	}
	if l.code = CodeWrongPosition; l.u.PhyOffset == r.PhyOffset {
		if l.code = unlike(s.reader.Reader, s.of.key, r, want, l.u); l.code == "" {
			l.is = thereRight
		}
	}
	return nil
}

// hold notes that a slot holds the unit of a record, or will.
func (s *auditSide) hold(at, phy int64) {
	if s.lastSlot < 0 || at < s.firstSlot {
		s.firstSlot, s.firstPhy = at, phy
	}
	if at >= s.lastSlot {
		s.lastSlot, s.lastPhy = at, phy
	}
	s.met = max(s.met, at+1)
	if s.shift != 0 {
		s.shifted++
	}
}

// wrong reports a slot and has it mended.
func (a *audit) wrong(q *auditQueue, side int, l *look, want cq.Unit) error {
	s := &q.sides[side]
	if s.shift != 0 && !l.has {
		return nil // of a queue that is shifted nothing is made
	}
	if l.code == CodeMissingUnits || l.code == CodeMissingQueue || l.code == CodeHole || l.code == CodeHiddenUnits {
		if r := s.run; r != nil && r.code == l.code && r.to == l.at {
			r.to++
		} else {
			a.flush(q, side)
			s.run = &run{l.code, l.at, l.at + 1, want.PhyOffset}
		}
	} else {
		a.flush(q, side)
		f := a.finding(q, side, l.code, l.at, want.PhyOffset, fmt.Sprintf("slot %d has %s, and its record is %s", l.at, unitText(l.u), unitText(want)))
		f.Remedy = remedyRewrite
		a.report(f)
	}
	s.hold(l.at, want.PhyOffset)
	s.mended = true
	return a.mend(q, side, l.at, want)
}

func (a *audit) finding(q *auditQueue, side int, code Code, slot, phy int64, text string) Finding {
	f := Finding{Code: code, Topic: q.key.Topic, QueueID: q.key.QueueID, Side: a.sides[side].Kind(), QueueOffset: slot, PhyOffset: phy, Text: text}
	if s := &q.sides[side]; s.there() && slot >= 0 {
		f.Where = s.reader.where(q.key, slot)
	}
	return f
}

// flush reports the run of slots that has ended.
func (a *audit) flush(q *auditQueue, side int) {
	s := &q.sides[side]
	r := s.run
	if s.run = nil; r == nil {
		return
	}
	what := map[Code]string{
		CodeMissingQueue: "has no such queue, and the log has records of it",
		CodeMissingUnits: fmt.Sprintf("has no units for records of the log: it runs from %d to %d", s.bounds.Min, s.bounds.Max),
		CodeHole:         fmt.Sprintf("has no units inside the queue, which runs from %d to %d", s.bounds.Min, s.bounds.Max),
		CodeHiddenUnits:  fmt.Sprintf("has units that its beginning, %d, hides", s.bounds.Min),
	}[r.code]
	f := a.finding(q, side, r.code, r.from, r.phy, fmt.Sprintf("%s: it %s", slotsText(r.from, r.to), what))
	f.several(r.to - r.from)
	f.Remedy = remedyRewrite
	a.report(f)
}

func slotsText(from, to int64) string {
	if to == from+1 {
		return fmt.Sprintf("slot %d", from)
	}
	return fmt.Sprintf("slots %d to %d", from, to-1)
}

// twice deals with a slot of which the log has two records and each side another one.
func (a *audit) twice(q *auditQueue, slot int64, want cq.Unit, looks [2]look) error {
	for i := range a.sides {
		if looks[i].is == thereRight {
			q.sides[i].hold(looks[i].at, want.PhyOffset)
		}
	}
	taken, right := 0, 1
	if looks[1].is == thereTaken {
		taken, right = 1, 0
	}
	if looks[taken].u.PhyOffset < want.PhyOffset {
		return nil // told when the earlier of the two came by
	}
	loser, wins := taken, want
	if a.sides[right].Kind() != a.keep {
		c, err := a.ask(q.key, looks[taken].u)
		if err != nil || !c.belongs {
			return err
		}
		loser, wins = right, c.unit
	}
	f := a.finding(q, loser, CodeSlotTwice, slot, want.PhyOffset,
		fmt.Sprintf("slot %d belongs to the records at %d and at %d, and each side has another one; that of the %s side stays", slot, want.PhyOffset, looks[taken].u.PhyOffset, a.keep))
	f.Remedy = remedyRewrite
	a.report(f)
	q.sides[loser].hold(slot, wins.PhyOffset)
	q.sides[loser].mended = true
	return a.mend(q, loser, slot, wins)
}

// exempt tells whether a side does not have such queues: files of a store that keeps its light queues in RocksDB alone, or did for a while.
func (a *audit) exempt(q *auditQueue, side int) bool {
	return q.key.IsLMQ() && len(a.sides) == 2 && a.sides[side].Kind() == cq.KindFile && q.sides[1-side].there()
}

func (a *audit) look(q *auditQueue, side int, r *message.Record, want cq.Unit, slot int64) (l look, err error) {
	s := &q.sides[side]
	l = look{is: thereWrong, at: slot - s.shift}
	if !s.there() {
		if a.exempt(q, side) {
			return look{}, nil
		}
		l.code = CodeMissingQueue
		return l, nil
	}
	if l.u, l.has, err = a.unit(s, l.at); err != nil {
		return l, err
	}
	if !l.has || l.u.PhyOffset != r.PhyOffset {
		// The record may stand beside the slot that it names, as the next one of the queue all the same.
		next := max(s.met, s.bounds.Min)
		u, ok, err := a.peek(s, next)
		if err != nil {
			return l, err
		}
		if a.renumber || !ok || u.PhyOffset != r.PhyOffset {
			if !l.has {
				return a.lookEmpty(q, side, r, l)
			}
			return a.lookOther(q, side, r, want, l, slot)
		}
		s.shift, l.at, l.u, l.has = slot-next, next, u, true
	}
	if l.code = unlike(s.reader.Reader, s.of.key, r, want, l.u); l.code != "" {
		return l, nil
	}
	if l.is = thereRight; l.at < s.bounds.Min && s.bad == nil {
		l.is, l.code = thereHidden, CodeHiddenUnits
	} else if s.met < l.at {
		a.passed(q, side, l.at)
	}
	return l, nil
}

// unlike compares a unit of queue k of a side with what the record that it points to owes and names what differs, "" when nothing does.
func unlike(side cq.Reader, k cq.Key, r *message.Record, want, u cq.Unit) Code {
	switch {
	case u.Size != want.Size:
		return CodeWrongSize
	case u.TagsCode != want.TagsCode && !deliveryTime(r, u.TagsCode) && !cq.IsExtLost(side, k, u.TagsCode):
		return CodeWrongTags
	case u.StoreTimestampMs != cq.NoTimestamp && u.StoreTimestampMs != want.StoreTimestampMs:
		return CodeWrongTime
	}
	return ""
}

// lookEmpty judges a slot without a unit.
func (a *audit) lookEmpty(q *auditQueue, side int, r *message.Record, l look) (look, error) {
	s, b := &q.sides[side], q.sides[side].bounds
	l.code = CodeMissingUnits
	switch {
	case l.at >= b.Min && l.at < b.Max:
		l.code = CodeHole
		return l, nil
	case l.at < 0:
		l.is = thereOld
		return l, nil
	case s.ends == nil:
		var err error
		if s.ends, err = a.proveEnds(q, s); err != nil {
			return l, err
		}
	}
	if l.at >= b.Max && r.PhyOffset < s.ends.last || l.at < b.Min && r.PhyOffset >= s.ends.first {
		l.is = thereOld // the topic was deleted and made anew since
	}
	if l.is == thereWrong && l.at >= b.Max && a.exempt(q, side) {
		return look{}, nil
	}
	return l, nil
}

// provenEnds are the positions of a queue's first and last unit, where these lead to records of the queue: what is older than the last, or younger than the first, and has no slot in between,
// belongs to an earlier life of the queue.
type provenEnds struct{ first, last int64 }

func (a *audit) proveEnds(q *auditQueue, s *auditSide) (*provenEnds, error) {
	ends := provenEnds{first: math.MaxInt64, last: -1}
	if s.bounds.Empty() {
		return &ends, nil
	}
	for _, slot := range [...]int64{s.bounds.Min, s.bounds.Max - 1} {
		u, ok, err := a.peek(s, slot)
		if err != nil {
			return nil, err
		}
		c, err := a.ask(q.key, u)
		if err != nil {
			return nil, err
		}
		if !ok || !c.belongs || a.renumber && c.slot != slot {
			continue
		}
		if slot == s.bounds.Min {
			ends.first = u.PhyOffset
		}
		if slot == s.bounds.Max-1 {
			ends.last = u.PhyOffset
		}
	}
	return &ends, nil
}

// lookOther judges a slot that holds another unit than the record's.
func (a *audit) lookOther(q *auditQueue, side int, r *message.Record, want cq.Unit, l look, slot int64) (look, error) {
	s := &q.sides[side]
	if l.at < s.met && s.lastSlot >= l.at {
		l.is = thereTaken // by a record that came before
		return l, nil
	}
	c, err := a.ask(q.key, l.u)
	if err != nil {
		return l, err
	}
	if c.belongs && c.slot == slot {
		l.is = thereTaken
		return l, nil
	}
	if !a.renumber {
		skipped, err := a.skipped(q, s, r)
		if skipped || err != nil {
			l.is = thereOld
			return l, err
		}
		at, err := a.behind(q, s, r, want, l.at)
		if err != nil {
			return l, err
		}
		if at >= 0 {
			a.passed(q, side, at)
			s.shift, l.at, l.is = slot-at, at, thereRight
			return l, nil
		}
	}
	l.code = CodeWrongPosition
	if l.u.PhyOffset >= a.end {
		l.code = CodeUnitOutsideLog
	}
	return l, nil
}

// auditFollow is for how many units a queue is followed where a record has none.
const auditFollow = 1024

// skipped tells whether a queue goes on behind a record without a unit for it, its next units in slots below those that their records name (F1, F5): they lead to records of the queue in their order, up to
// where the numbers agree again or the queue ends.
func (a *audit) skipped(q *auditQueue, s *auditSide, r *message.Record) (bool, error) {
	before := r.PhyOffset
	shift := int64(0)
	begin := max(s.met, s.bounds.Min)
	for slot := begin; slot < min(s.bounds.Max, begin+auditFollow); slot++ {
		u, ok, err := a.peek(s, slot)
		if err != nil || !ok || u.PhyOffset <= before {
			return false, err
		}
		c, err := a.ask(q.key, u)
		if err != nil || !c.belongs {
			return false, err
		}
		k := c.slot - slot
		if slot == begin && k <= 0 {
			return false, nil
		}
		if k < shift {
			return true, nil
		}
		shift, before = k, u.PhyOffset
	}
	return shift > 0, nil
}

// behind returns the slot in which a record stands behind units that do not belong, in a queue that has more units than records from there to its end; -1 for none.
func (a *audit) behind(q *auditQueue, s *auditSide, r *message.Record, want cq.Unit, at int64) (int64, error) {
	end := s.bounds.Max - 1
	last, ok, err := a.peek(s, end)
	if err != nil || !ok {
		return -1, err
	}
	c, err := a.ask(q.key, last)
	if err != nil || !c.belongs || c.slot-end >= s.shift {
		return -1, err
	}
	for next := at + 1; next <= min(at+s.shift-(c.slot-end), at+auditResyncSlots, end); next++ {
		u, ok, err := a.peek(s, next)
		if err != nil {
			return -1, err
		}
		if ok && u.PhyOffset == r.PhyOffset && unlike(s.reader.Reader, s.of.key, r, want, u) == "" {
			return next, nil
		}
	}
	return -1, nil
}

// passed looks at units in slots that no record has had, below one that a record has.
func (a *audit) passed(q *auditQueue, side int, to int64) {
	s := &q.sides[side]
	from := max(s.met, s.bounds.Min)
	extra := run{code: CodeExtraUnits}
	say := func() {
		if extra.to > extra.from {
			f := a.finding(q, side, CodeExtraUnits, extra.from, extra.phy, fmt.Sprintf("%s: no record in the log has them, and the first points to %d", slotsText(extra.from, extra.to), extra.phy))
			f.several(extra.to - extra.from)
			a.report(f)
		}
		extra.from = extra.to
	}
	for slot := from; slot < to; slot++ {
		u, ok, err := a.peek(s, slot)
		if err != nil || !ok || u.PhyOffset < a.log.MinOffset() {
			continue // what cannot be read is told elsewhere
		}
		if a.lostAt(u.PhyOffset) {
			a.notice(a.finding(q, side, CodeLostRecord, slot, u.PhyOffset, fmt.Sprintf("slot %d points to %d, where the log has lost what was there: the unit stays", slot, u.PhyOffset)))
			continue
		}
		if extra.to != slot {
			say()
			extra.from, extra.phy = slot, u.PhyOffset
		}
		extra.to = slot + 1
	}
	say()
}

// unit returns the unit of a slot, read ahead. Slots are asked for in ascending order, mostly.
func (a *audit) unit(s *auditSide, slot int64) (u cq.Unit, ok bool, err error) {
	if i := slot - s.from; i >= 0 && i < int64(len(s.buf)) {
		return s.buf[i], true, nil
	}
	if slot < 0 || slot >= s.bounds.Max {
		return u, false, nil
	}
	want := int(min(int64(a.ahead), s.bounds.Max-slot))
	if cap(s.buf) < want {
		s.buf = make([]cq.Unit, want)
	}
	n, err := s.read(slot, s.buf[:want])
	if err != nil {
		s.buf = s.buf[:0]
		return u, false, err
	}
	if s.buf, s.from = s.buf[:n], slot; n == 0 {
		return u, false, nil
	}
	return s.buf[0], true, nil
}

// impossibleUnit tells whether a read failed over what is stored, and not over reading.
func impossibleUnit(err error) bool {
	return errors.Is(err, cq.ErrCorrupt) || errors.Is(err, cq.ErrOffsetOutOfRange)
}

// peek reads one unit and leaves alone what was read ahead.
func (a *audit) peek(s *auditSide, slot int64) (cq.Unit, bool, error) {
	if i := slot - s.from; i >= 0 && i < int64(len(s.buf)) {
		return s.buf[i], true, nil
	}
	if slot < 0 || slot >= s.bounds.Max || !s.there() {
		return cq.Unit{}, false, nil
	}
	var one [1]cq.Unit
	n, err := s.read(slot, one[:])
	return one[0], n == 1, err
}

func (s *auditSide) read(slot int64, dst []cq.Unit) (n int, err error) {
	if s.bad != nil && s.bad.stored != nil {
		n, err = s.bad.stored.ReadStored(slot, dst)
	} else {
		n, err = s.reader.read(s.of.key, slot, dst)
	}
	if impossibleUnit(err) {
		return 0, nil
	}
	return n, err
}
