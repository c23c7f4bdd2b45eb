package combine

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
)

// Append hands each entry to both sides, in order; see cq.Appender. The sides that are responsible for an entry are those that are live
// and on which its queue is not diverged; for a light queue that RocksDB alone has, RocksDB.
//
//	every responsible side refuses an entry   answered, as cq.Appender says; where they differ in why, the queue is marked on the
//	                                          side without authority besides
//	one side refuses what the other accepts   the queue is diverged on that side; Append goes on
//	a write fails for good                    the side is given up and Append goes on; of the authority, it is answered
//	the authority refuses an entry otherwise  answered, e.g. for want of room, whatever the other side does
//
// A refusal is a *cq.GapError, a *cq.ConflictError, a *cq.QueueError, a *cq.EntryError, a *cq.DamagedError, or any error after which the side can still be written to. An entry that was passed
// over on every side is accepted. The batch is handed on as it is unless entries must be left out.
func (s *Store) Append(ctx context.Context, batch []cq.Entry) error {
	s.write.Lock()
	defer s.write.Unlock()
	if s.closed.Load() {
		return cq.ErrClosed
	}
	defer s.settle()
	if len(batch) == 0 {
		_, err := s.appendPart(ctx, batch, 0) // says what is wrong, if anything is
		return err
	}
	for from := 0; from < len(batch); {
		n, err := s.appendPart(ctx, batch, from)
		if n > from {
			s.accepted.Store(max(s.accepted.Load(), batch[n-1].Unit.End()))
		}
		if err != nil {
			return err
		}
		from = n
	}
	return nil
}

// settle gives up the sides that failed during an Append, now that the other one has what they had.
func (s *Store) settle() {
	for _, d := range s.sides {
		if d.gone != nil {
			s.giveUpLocked(d, d.gone)
			d.gone = nil
		}
	}
}

// takes tells whether d is responsible for the entries of k.
func (s *Store) takes(d *side, k cq.Key) bool {
	if !d.live() || d.gone != nil || d.diverged.has(k) {
		return false
	}
	only := s.alone(k)
	return only == nil || only == d
}

// picks tells whether there may be entries that d, though live, is not responsible for.
func (s *Store) picks(d *side) bool {
	return s.light != nil && s.light != d || d.diverged.count.Load() > 0
}

// appendPart appends entries from from on and returns the first place at which it has to be called again, which may be from itself once a
// side has been taken off; with an error, the place of the entry that it is about.
func (s *Store) appendPart(ctx context.Context, batch []cq.Entry, from int) (int, error) {
	to, err := s.beforeLost(batch, from)
	if err != nil {
		return from, err
	}
	a := s.authority.Load()
	b := s.other(a)
	switch liveA, liveB := a.live() && a.gone == nil, b.live() && b.gone == nil; {
	case liveA && liveB:
		first, second, to := s.plan(a, b, batch, from, to)
		p := pair{s: s, batch: batch, from: from, to: to, first: first, second: second}
		return p.append(ctx)
	case liveB:
		a = b
	case !liveA:
		return from, s.noSide()
	}
	r := s.hand(ctx, a, batch, from, to)
	return r.at, r.err
}

// noSide says why nothing can be appended.
func (s *Store) noSide() error {
	for _, d := range s.sides {
		if err := d.failure(); err != nil {
			return fmt.Errorf("append to combined queues: no side is left, the one of kind %s has failed: %w", d.kind, err)
		}
	}
	return errors.New("append to combined queues: both sides are held")
}

// beforeLost returns the end of what can be appended: an entry of a light queue can not once the one side that has it has failed.
func (s *Store) beforeLost(batch []cq.Entry, from int) (int, error) {
	if s.light == nil || s.light.held.Load() { // one that is held gets them from its owner
		return len(batch), nil
	}
	err := s.light.failure()
	if err == nil {
		err = s.light.gone
	}
	if err == nil {
		return len(batch), nil
	}
	for i := from; i < len(batch); i++ {
		if s.alone(batch[i].Key) == nil {
			continue
		}
		if i == from {
			return i, fmt.Errorf("append to queue %s, which the side of kind %s has alone: %w", batch[i].Key, s.light.kind, err)
		}
		return i, nil
	}
	return len(batch), nil
}

// plan says which side goes first, and how far. The first must not get past an entry that the second alone may refuse, or an error would leave
// later entries accepted. So the side that takes everything goes first; where each leaves something out, the
// part ends behind the next entry that is the second's alone.
func (s *Store) plan(a, b *side, batch []cq.Entry, from, to int) (first, second *side, end int) {
	if !s.picks(a) && !s.picks(b) {
		return a, b, to
	}
	onlyA, onlyB, nextB := 0, 0, to
	for i := from; i < to; i++ {
		ta, tb := s.takes(a, batch[i].Key), s.takes(b, batch[i].Key)
		switch {
		case ta && !tb:
			onlyA++
		case tb && !ta:
			if onlyB++; onlyB == 1 {
				nextB = i + 1
			}
		}
	}
	if onlyB > 0 && onlyA == 0 {
		return b, a, to
	}
	return a, b, nextB
}

// result is how far a side came.
type result struct {
	at   int   // the entry that err is about, or the end
	err  error // nil: everything was accepted
	kind kind
}

type kind int

const (
	accepted kind = iota
	refused       // the entry, by the contract of cq.Appender
	unfit         // the entry, for a reason of the side's own; it goes on
	broken        // the side cannot be written to any more
	stopped       // closed, read-only, or the context ended
)

// hand appends to d what it is responsible for among batch[from:to].
func (s *Store) hand(ctx context.Context, d *side, batch []cq.Entry, from, to int) result {
	err := d.Append(ctx, s.own(d, batch[from:to]))
	if err == nil {
		return result{at: to}
	}
	if r := judge(ctx, batch, from, to, err); r.kind != broken {
		return r
	}
	// Only the error of a failed write is answered again.
	if again := d.AwaitReadable(ctx); again != nil {
		return judge(ctx, batch, from, from, err)
	}
	for i := from; i < to; i++ {
		if !s.takes(d, batch[i].Key) {
			continue
		}
		if err := d.Append(ctx, batch[i:i+1]); err != nil {
			if r := judge(ctx, batch, i, i+1, err); r.kind != broken {
				return r
			}
			return result{at: i, err: err, kind: unfit}
		}
	}
	return result{at: to}
}

// judge classifies an error of an Append of batch[from:to]; broken is what it cannot tell.
func judge(ctx context.Context, batch []cq.Entry, from, to int, err error) result {
	if ctx.Err() != nil || errors.Is(err, cq.ErrClosed) || errors.Is(err, cq.ErrReadOnly) {
		return result{at: from, err: err, kind: stopped}
	}
	var (
		gap      *cq.GapError
		conflict *cq.ConflictError
		queue    *cq.QueueError
		entry    *cq.EntryError
		damaged  *cq.DamagedError
	)
	switch {
	case errors.As(err, &queue):
		for i := from; i < to; i++ {
			if batch[i].Key == queue.Key {
				return result{at: i, err: err, kind: refused}
			}
		}
	case errors.As(err, &damaged):
		for i := from; i < to; i++ {
			if len(damaged.Keys) == 1 && batch[i].Key == damaged.Keys[0] {
				return result{at: i, err: err, kind: refused}
			}
		}
	case errors.As(err, &entry):
		for i := from; i < to; i++ {
			if e := &batch[i]; e.QueueOffset == entry.QueueOffset && e.Unit.PhyOffset == entry.PhyOffset && e.Key == entry.Key {
				return result{at: i, err: err, kind: refused}
			}
		}
	case errors.As(err, &gap):
		for i := from; i < to; i++ {
			if e := &batch[i]; e.QueueOffset == gap.Want && e.Unit.PhyOffset == gap.PhyOffset && e.Key == gap.Key {
				return result{at: i, err: err, kind: refused}
			}
		}
	case errors.As(err, &conflict):
		for i := from; i < to; i++ {
			if e := &batch[i]; e.QueueOffset == conflict.QueueOffset && e.Unit.SameRecord(conflict.New) && e.Key == conflict.Key {
				return result{at: i, err: err, kind: refused}
			}
		}
	}
	return result{at: from, err: err, kind: broken}
}

// own returns the entries that d is responsible for: the same memory where that is all of them.
func (s *Store) own(d *side, batch []cq.Entry) []cq.Entry {
	if !s.picks(d) {
		return batch
	}
	for i := range batch {
		if s.takes(d, batch[i].Key) {
			continue
		}
		clear(d.entries)
		d.entries = append(d.entries[:0], batch[:i]...)
		for _, e := range batch[i+1:] {
			if s.takes(d, e.Key) {
				d.entries = append(d.entries, e)
			}
		}
		return d.entries
	}
	return batch
}

// pair appends part of a batch to two sides.
type pair struct {
	s             *Store
	batch         []cq.Entry
	from, to      int
	first, second *side
}

// append brings the second side up to the entry that the first one refuses, that included, and then judges. See appendPart for what it returns.
func (p *pair) append(ctx context.Context) (int, error) {
	a := p.s.hand(ctx, p.first, p.batch, p.from, p.to)
	switch a.kind {
	case stopped:
		return p.from, a.err
	case broken:
		return p.from, p.lose(p.first, a.err)
	}
	limit := a.at
	if a.err != nil && !p.final(p.first, a) {
		limit++
	}
	for b := p.from; b < limit; {
		r := p.s.hand(ctx, p.second, p.batch, b, limit)
		switch {
		case r.err == nil:
		case r.kind == stopped:
			return p.from, r.err
		case r.kind == broken:
			return p.from, p.lose(p.second, r.err)
		case a.err != nil && r.at == a.at:
			return r.at, p.both(a, r)
		case p.final(p.second, r):
			return r.at, r.err
		default:
			p.s.divergeLocked(p.second, p.batch[r.at].Key, r.err)
			r.at++
		}
		b = r.at
	}
	if a.err == nil {
		return p.to, nil
	}
	if p.final(p.first, a) {
		return a.at, a.err
	}
	p.s.divergeLocked(p.first, p.batch[a.at].Key, a.err)
	return a.at + 1, nil
}

// final tells whether a refusal by d is answered whatever the other side does.
func (p *pair) final(d *side, r result) bool {
	return !p.s.takes(p.s.other(d), p.batch[r.at].Key) || r.kind == unfit && d == p.s.authority.Load()
}

// lose takes a side off that cannot be written to, or answers why it cannot be done without.
func (p *pair) lose(d *side, err error) error {
	if !p.s.expendable(d) {
		return err
	}
	d.gone = err
	return nil
}

// both judges what both sides refuse: the authority's answer stands, and the other side has diverged if it has another reason.
func (p *pair) both(a, b result) error {
	authority, other, d := a, b, p.second
	if p.second == p.s.authority.Load() {
		authority, other, d = b, a, p.first
	}
	if !sameRefusal(authority.err, other.err) {
		p.s.divergeLocked(d, p.batch[a.at].Key, other.err)
	}
	return authority.err
}

func sameRefusal(a, b error) bool {
	var (
		gapA, gapB           *cq.GapError
		conflictA, conflictB *cq.ConflictError
	)
	switch {
	case errors.As(a, &gapA) && errors.As(b, &gapB):
		return gapA.Max == gapB.Max
	case errors.As(a, &conflictA) && errors.As(b, &conflictB):
		return conflictA.Stored.SameRecord(conflictB.Stored)
	}
	return !errors.Is(a, cq.ErrDiverged) && !errors.Is(b, cq.ErrDiverged)
}

// Noted passes it on to the sides; see cq.Noter. An entry that one side refuses is noted by its owner as what that side lacks (Options.OnDiverged).
func (s *Store) Noted() {
	for _, d := range s.sides {
		if n, ok := d.Store.(cq.Noter); ok {
			n.Noted()
		}
	}
}

// AwaitReadable returns when everything accepted before the call can be read from both sides, those that are held or have failed left out:
// from whichever a queue is read. A side that turns out to have failed is given up, except for the authority.
func (s *Store) AwaitReadable(ctx context.Context) error {
	return s.each(ctx, (*side).live, func(d *side) error { return d.AwaitReadable(ctx) })
}

// Flush returns when everything accepted before the call is durable on both sides. A held side is flushed as well; one that has failed is left
// out. A side whose flush fails for good is given up, except for the authority. An error that matches cq.ErrNoRoom says that a side waits for room, and nothing else is wrong. Queues for which the preferred side lagged are looked at again.
func (s *Store) Flush(ctx context.Context) error {
	defer s.lookAgain()
	return s.each(ctx, func(d *side) bool { return d.failed.Load() == nil }, func(d *side) error { return d.Flush(ctx) })
}

// each calls fn for the sides, both whatever the first one answers, and gives up the one that has failed where that can be done.
func (s *Store) each(ctx context.Context, which func(d *side) bool, fn func(d *side) error) error {
	if s.closed.Load() {
		return cq.ErrClosed
	}
	var errs []error
	var waits error
	for _, d := range s.sides {
		if !which(d) {
			continue
		}
		err := fn(d)
		if err == nil {
			continue
		}
		if errors.Is(err, cq.ErrNoRoom) { // it goes on by itself, or fails for good
			waits = fmt.Errorf("%s side: %w", d.kind, err)
			continue
		}
		if ctx.Err() != nil || errors.Is(err, cq.ErrClosed) || errors.Is(err, cq.ErrReadOnly) ||
			d == s.authority.Load() || !s.other(d).live() || d.AwaitReadable(ctx) == nil {
			errs = append(errs, err)
			continue
		}
		s.write.Lock()
		s.giveUpLocked(d, err)
		s.write.Unlock()
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return waits
}
