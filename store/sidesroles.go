package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
)

// What a migration in a running store asks of its sides: who has which role, how far each is, and whether they are the same.

// SideRoles say what each side of a combined store is for: see combine.Roles.
type SideRoles = combine.Roles

// combined returns the sides of an open store.
func (s *Store) combined() (*sides, error) {
	switch {
	case s.closed.Load():
		return nil, ErrClosed
	case s.views == nil || s.views.sides == nil:
		return nil, ErrNotCombined
	}
	return s.views.sides, nil
}

// SideRoles returns who has which role. ErrNotCombined where there is one store of queues.
func (s *Store) SideRoles() (SideRoles, error) {
	d, err := s.combined()
	if err != nil {
		return SideRoles{}, err
	}
	return d.store.Roles(), nil
}

// SetSideRoles gives the sides their roles, all at once, with whatever was put readable on both. A side that gets something to do and lacks anything of what it gets is refused.
func (s *Store) SetSideRoles(r SideRoles) error {
	d, err := s.combined()
	if err != nil {
		return err
	}
	return d.store.SetRoles(r)
}

// SideState is how far a side of a combined store is.
type SideState struct {
	Kind cq.Kind
	// Comparing tells that not all queues of the store have been compared with the log since it was opened: what the side lacks is not known yet.
	Comparing bool
	// Filling is there while the side is filled from the log as a whole; To moves as the log grows.
	Filling *Rebuilding
	// History is where the log ended when that began: what lies behind it came later.
	History int64
	// Diverged are queues that lack something there and are built again; Given are those that were given up: they differ, and the log does not tell which side is right, or the side cannot have them.
	Diverged, Given int
	// Met counts the queues that were found to lack something there since the store was opened, by whoever met that, each as often as it was found; MetLast are the last ones, the newest at the end.
	Met     int64
	MetLast []MetQueue
	// Replaced counts how often the side was taken away since the store was opened, as it was damaged.
	Replaced int64
	// Failure is why the side will not come to have what it lacks; nil while it may.
	Failure error
}

// Whole tells whether the side has whatever was dispatched.
func (s *SideState) Whole() bool {
	return !s.Comparing && s.Filling == nil && s.Diverged == 0 && s.Given == 0 && s.Failure == nil
}

// SideStates returns how far the sides are.
func (s *Store) SideStates() (map[cq.Kind]SideState, error) {
	d, err := s.combined()
	if err != nil {
		return nil, err
	}
	states := make(map[cq.Kind]SideState, len(combinedKinds))
	for _, kind := range combinedKinds {
		st := SideState{Kind: kind, Comparing: !d.v.compared(), Diverged: d.diverged(kind), Given: d.differ(kind), Failure: d.store.Failure(kind)}
		st.Met, st.MetLast = d.met.get(kind)
		if kind == cq.KindRocks {
			st.Replaced = d.v.s.replacing.round.Load()
		}
		if d.holds(kind) {
			st.Filling = d.fillMark(kind)
			if st.History = st.Filling.To; d.held == kind && !d.hold.ended() {
				st.History = d.hold.to
			}
			if why := d.failed.Load(); why != nil && st.Failure == nil {
				st.Failure = *why
			}
		}
		states[kind] = st
	}
	return states, nil
}

// fillMark is how far a side is that is held.
func (d *sides) fillMark(kind cq.Kind) *Rebuilding {
	var r Rebuilding
	if d.held == kind && !d.hold.ended() {
		r = Rebuilding{From: d.hold.from, To: d.hold.to, Done: d.hold.from}
	}
	if f := d.fill.Load(); f != nil {
		r.Done, r.To = max(f.at.Load(), r.From), max(f.to.Load(), r.To)
	}
	return &r
}

// VerifySidesOptions of VerifySides.
type VerifySidesOptions struct {
	// Samples is about how many records of the log are decoded for each queue, the last one among them; 0: none.
	Samples int64
	// Begin says from which slot on the units of a queue are compared, and with which checksum of those before; nil: from its first, with 0.
	Begin func(k cq.Key) (from int64, crc uint32)
	// Only says which queues are compared; nil: all.
	Only func(k cq.Key) bool
	// Kept says below which slot of a queue the log is not asked, as somebody has chosen what stays (KeepSide); nil: it is always asked.
	Kept func(k cq.Key) (to int64)
	// Share is how many parts of the time are waited for each part that is worked; more while puts are slow (SetBackfillPace).
	Share int
}

// SideVerdict is what was found of one queue.
type SideVerdict struct {
	Key    cq.Key
	Bounds cq.Bounds // when that began; of a light queue that one side has alone, of that side
	// From and To bound the slots whose units were compared; CRC is the CRC-32 over the units up to To, each in the 20 bytes of the file format, begun with what Begin returned.
	From, To int64
	CRC      uint32
	Units    int64 // compared
	Records  int64 // of the log, decoded and compared with their units
	Alone    bool  // a light queue that one side has alone, as it should: compared with nothing
	// Different counts what was found: slots, ends, and samples that are not as their records say. Found are the first ones, adjacent slots together.
	Different int64
	Found     []Finding
	// Mending tells that the log has decided, or will: the queue is being built again on a side.
	Mending bool
}

// VerifySides compares the queues on both sides while the store goes on: bounds with nothing being appended, then each unit up to there, and some with their records in the log. What differs is
// judged by the log: where it proves one side right, the queue is built again on the other, soon. each is told of every queue, in the order of names; an error of it ends the comparison.
//
// Errors: ErrNotCombined; ErrRebuilding, with the reason, while a side is being filled or was given up; those of a side that cannot be read; ctx.
func (s *Store) VerifySides(ctx context.Context, o VerifySidesOptions, each func(v *SideVerdict) error) error {
	d, err := s.combined()
	if err != nil {
		return err
	}
	keys, err := s.Queues()
	if err != nil {
		return err
	}
	release := s.brake.use()
	defer release()
	p := &braking{b: &s.brake, share: o.Share}
	for _, k := range keys {
		if o.Only != nil && !o.Only(k) {
			continue
		}
		for _, kind := range combinedKinds {
			if err := errors.Join(d.store.Failure(kind), d.heldError(kind)); err != nil {
				return fmt.Errorf("%w: %w", ErrRebuilding, err)
			}
		}
		v, err := d.verdict(ctx, k, &o, p)
		if err != nil {
			return s.closedOr(err)
		}
		if v == nil {
			continue
		}
		if err := each(v); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (d *sides) heldError(kind cq.Kind) error {
	if d.holds(kind) {
		return d.lacks(kind)
	}
	return nil
}

// verdict compares one queue; nil: no side is to have it.
func (d *sides) verdict(ctx context.Context, k cq.Key, o *VerifySidesOptions, p *braking) (*SideVerdict, error) {
	if d.unserved(k) {
		return nil, nil
	}
	v := &SideVerdict{Key: k}
	if o.Begin != nil {
		v.From, v.CRC = o.Begin(k)
	}
	s := sampling{d: d, v: v, want: o.Samples}
	if o.Kept != nil {
		s.kept = o.Kept(k)
	}
	found, err := d.store.VerifyWith(ctx, k, combine.VerifyOptions{
		Level: combine.Units, From: v.From, Pace: func() error { return p.pause(ctx, 0) }, Each: s.take, Differs: v.differs,
	})
	var damage *cq.CorruptError
	switch {
	case errors.As(err, &damage):
		v.add(Finding{Class: "bad-queue", Side: d.damagedSide(damage), From: -1, What: err.Error()})
	case err != nil:
		return nil, err
	}
	if v.Alone = found.Alone; v.Alone {
		q, ok := d.side(cq.KindRocks).Queue(k)
		if !ok {
			return nil, nil
		}
		v.Bounds, err = q.Bounds()
		v.From, v.To = v.Bounds.Min, v.Bounds.Max
		return v, err
	}
	at := 0
	if !found.Present[0] {
		at = 1
	}
	v.Bounds, v.From, v.To, v.Units = found.Bounds[at], found.From, found.To, found.Compared
	v.CRC = s.sum()
	for i := range found.Differences {
		if one := &found.Differences[i]; one.QueueOffset < 0 {
			v.add(findingOfEnds(one))
		}
	}
	return v, d.decide(ctx, v)
}

// decide has the log say which side is wrong in what was found of a queue. That side is marked, and the queue built again there.
func (d *sides) decide(ctx context.Context, v *SideVerdict) error {
	if v.OK() {
		return nil
	}
	k, decided := v.Key, false
	for i := range v.Found { // before a side is marked: what is being built again says nothing of a slot
		if one := &v.Found[i]; one.From >= 0 && !one.sampled && one.Side == "" {
			one.Side = d.wrongSide(k, one.From)
		}
	}
	for i := range v.Found {
		if one := &v.Found[i]; one.From >= 0 && !one.sampled && !decided {
			decided = d.judge(k, one.From) != undecided
		}
	}
	if !decided { // of the ends: what is short is marked
		marked, err := d.verifyQueue(ctx, k)
		if err != nil {
			return err
		}
		decided = marked
		if _, err := d.store.NextOffset(k); err != nil { // the same for a queue of which the log says nothing
			return err
		}
	}
	v.Mending = decided // it may be built by now
	for _, kind := range combinedKinds {
		v.Mending = v.Mending || d.store.IsDiverged(kind, k) && !d.hasGivenUp(kind, k)
	}
	return nil
}

// unserved tells whether no side is to have a queue.
func (d *sides) unserved(k cq.Key) bool {
	v := d.v.view
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.unservedLocked(k)
}

func (v *queueView) unservedLocked(k cq.Key) bool {
	q := v.mu.known[k]
	return v.mu.barred[k] != nil || q != nil && (q.unitless || q.gone)
}

// sampling is told of units that are the same.
type sampling struct {
	d    *sides
	v    *SideVerdict
	want int64
	kept int64 // lower slots are not held against the log

	step, next int64 // slots
	crc        uint32
	any        bool
	buf        [64 * unitBytes]byte
	n          int
}

func (s *sampling) take(slot int64, units [2]cq.Unit) error {
	if !s.any {
		s.any, s.crc, s.next = true, s.v.CRC, slot
	}
	if s.n = len(cq.AppendUnit(s.buf[:s.n], units[0])); s.n == len(s.buf) {
		s.crc, s.n = crc32.Update(s.crc, crc32.IEEETable, s.buf[:]), 0
	}
	if s.want <= 0 || slot < s.next || slot < s.kept {
		return nil
	}
	// The further on, the wider apart: about want records of a queue of any length, without knowing it.
	s.step = max(1, (slot-s.v.From)/s.want)
	s.next = slot + s.step
	for i, kind := range combinedKinds {
		if class, why, _ := s.d.v.describes(s.d.side(kind), s.v.Key, &units[i], true); why != "" {
			s.v.add(Finding{Class: class, Side: kind, From: slot, To: slot + 1, What: why, sampled: true})
		}
	}
	s.v.Records++
	return nil
}

func (s *sampling) sum() uint32 {
	if !s.any {
		return s.v.CRC
	}
	return crc32.Update(s.crc, crc32.IEEETable, s.buf[:s.n])
}
