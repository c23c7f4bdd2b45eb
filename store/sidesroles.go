package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
	"github.com/tandemq/tandemmq/message"
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
	// Differences are in words, the first ones of Different. Mending tells that the log has decided, or will: the queue is being built again on a side.
	Different   int64
	Differences []string
	Mending     bool
}

// OK tells that nothing was found.
func (v *SideVerdict) OK() bool { return v.Different == 0 }

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
	found, err := d.store.VerifyWith(ctx, k, combine.VerifyOptions{
		Level: combine.Units, From: v.From, Pace: func() error { return p.pause(ctx, 0) }, Each: s.take,
	})
	var damage *cq.CorruptError
	switch {
	case errors.As(err, &damage):
		v.add(err.Error())
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
	decided := false
	for i := range found.Differences {
		one := &found.Differences[i]
		v.add(fmt.Sprintf("%v of %s and %s", one, found.Kinds[0], found.Kinds[1]))
		if one.QueueOffset >= 0 && !decided {
			decided = d.judge(k, one.QueueOffset) != undecided
		}
	}
	v.Different = max(v.Different, found.Different+found.Missing)
	if v.OK() {
		return v, nil
	}
	if !decided { // of the ends: what is short is marked
		if err := d.verifyQueue(ctx, k); err != nil {
			return nil, err
		}
		if _, err := d.store.NextOffset(k); err != nil { // the same for a queue of which the log says nothing
			return nil, err
		}
	}
	for _, kind := range combinedKinds {
		v.Mending = v.Mending || d.store.IsDiverged(kind, k) && !d.hasGivenUp(kind, k)
	}
	return v, nil
}

// unserved tells whether no side is to have a queue.
func (d *sides) unserved(k cq.Key) bool {
	v := d.v.view
	v.mu.Lock()
	defer v.mu.Unlock()
	return d.unservedLocked(k)
}

func (d *sides) unservedLocked(k cq.Key) bool {
	v := d.v.view
	q := v.mu.known[k]
	return v.mu.barred[k] != nil || q != nil && (q.unitless || q.gone)
}

func (v *SideVerdict) add(what string) {
	v.Different++
	if len(v.Differences) < maxSideDifferences {
		v.Differences = append(v.Differences, what)
	}
}

// sampling is told of units that are the same.
type sampling struct {
	d    *sides
	v    *SideVerdict
	want int64

	step, next int64 // slots
	crc        uint32
	any        bool
	buf        [64 * fileUnitBytes]byte
	n          int
}

const fileUnitBytes = 20

func (s *sampling) take(slot int64, units [2]cq.Unit) error {
	if !s.any {
		s.any, s.crc, s.next = true, s.v.CRC, slot
	}
	u := &units[0]
	p := s.buf[s.n:]
	binary.BigEndian.PutUint64(p, uint64(u.PhyOffset))
	binary.BigEndian.PutUint32(p[8:], uint32(u.Size))
	binary.BigEndian.PutUint64(p[12:], uint64(u.TagsCode))
	if s.n += fileUnitBytes; s.n == len(s.buf) {
		s.crc, s.n = crc32.Update(s.crc, crc32.IEEETable, s.buf[:]), 0
	}
	if s.want <= 0 || slot < s.next {
		return nil
	}
	// The further on, the wider apart: about want records of a queue of any length, without knowing it.
	s.step = max(1, (slot-s.v.From)/s.want)
	s.next = slot + s.step
	for i, kind := range combinedKinds {
		if why := s.d.describes(kind, s.v.Key, &units[i]); why != "" {
			s.v.add(fmt.Sprintf("slot %d, %s side: %s", slot, kind, why))
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

// describes compares a unit with the record it points to, and says what is wrong, "" when nothing is. A record that has expired says nothing. Which slot it is in is no matter: RocketMQ has shifted queues
// (F1).
func (d *sides) describes(kind cq.Kind, k cq.Key, u *cq.Unit) (why string) {
	log := d.v.s.writer.Log()
	var held commitlog.Held
	defer held.Release()
	err := commitlog.GuardFault(func() error {
		b, err := log.Select(u.PhyOffset, u.Size, &held)
		if err != nil {
			return err
		}
		var r message.Record
		if err := r.Decode(b, true); err != nil {
			return err
		}
		_, owned := r.SlotIn(k.Topic, k.QueueID)
		switch {
		case r.PhyOffset != u.PhyOffset || !r.OwesUnit():
			why = fmt.Sprintf("no record of a queue begins at %d", u.PhyOffset)
		case !owned:
			why = fmt.Sprintf("the record at %d belongs to %s/%d", u.PhyOffset, r.Topic, r.QueueID)
		case r.TotalSize != u.Size:
			why = fmt.Sprintf("the record at %d has %d bytes, the unit says %d", u.PhyOffset, r.TotalSize, u.Size)
		case u.TagsCode != r.TagsCode(d.v.view.levels) && !cq.IsExtLost(d.side(kind), k, u.TagsCode):
			why = fmt.Sprintf("the record at %d has tags code %d, the unit says %d", u.PhyOffset, r.TagsCode(d.v.view.levels), u.TagsCode)
		case u.StoreTimestampMs != cq.NoTimestamp && u.StoreTimestampMs != r.StoreTimestampMs:
			why = fmt.Sprintf("the record at %d was stored at %d, the unit says %d", u.PhyOffset, r.StoreTimestampMs, u.StoreTimestampMs)
		}
		return nil
	})
	var gone *commitlog.RangeError
	if errors.As(err, &gone) && u.PhyOffset < gone.Min {
		return ""
	}
	if err != nil {
		return fmt.Sprintf("the record at %d cannot be read: %v", u.PhyOffset, err)
	}
	return why
}
