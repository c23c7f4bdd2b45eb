package combine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandemq/tandemmq/cq"
)

// Progress returns the least over the sides that are neither held nor failed; see the package comment. A side to which nothing was appended that
// it does not show, or has not made durable, counts as far as the batches have come, whatever was in them for it.
func (s *Store) Progress() (accepted, readable, durable int64) {
	accepted = s.accepted.Load() // first: each side has accepted that much
	readable, durable = accepted, accepted
	for _, d := range s.sides {
		if !d.live() {
			continue
		}
		// What is compared with a may only be found to be less than it was.
		_, r, f := d.Progress()
		a, _, _ := d.Progress()
		if r < a {
			readable = min(readable, r)
		}
		if f < a {
			durable = min(durable, f)
		}
	}
	return accepted, readable, min(durable, readable)
}

// DispatchFrom returns the smaller of both sides', held or not; see the package comment.
func (s *Store) DispatchFrom() int64 {
	return min(s.sides[0].DispatchFrom(), s.sides[1].DispatchFrom())
}

// writing calls fn for the sides, both whatever the first one answers, while nothing is appended, and then forgets what was known.
func (s *Store) writing(which func(d *side) bool, forget func(), fn func(d *side) error) error {
	s.write.Lock()
	defer s.write.Unlock()
	if s.closed.Load() {
		return cq.ErrClosed
	}
	defer forget()
	var errs []error
	for _, d := range s.sides {
		if !which(d) {
			continue
		}
		if err := fn(d); err != nil {
			errs = append(errs, fmt.Errorf("%s side: %w", d.kind, err))
		}
	}
	return errors.Join(errs...)
}

func (d *side) works() bool { return d.failed.Load() == nil }

// TruncateDirty cuts both sides, a held one as well: nothing may be left that the log does not have. One that has failed is left out.
func (s *Store) TruncateDirty(ctx context.Context, phyOffset int64) error {
	return s.writing((*side).works, s.forgetReads, func(d *side) error {
		s.accepted.Store(min(s.accepted.Load(), phyOffset))
		return d.TruncateDirty(ctx, phyOffset)
	})
}

// SetMinPhyOffset tells both sides. A value that is not greater than the one before changes nothing.
func (s *Store) SetMinPhyOffset(minPhy int64) error {
	if s.closed.Load() {
		return cq.ErrClosed
	}
	if s.minPhy.Load() >= minPhy {
		return nil
	}
	var errs []error
	for _, d := range s.sides {
		if err := d.Store.(cq.Expirer).SetMinPhyOffset(minPhy); d.works() {
			errs = append(errs, err)
		}
	}
	if s.topics.Load() != nil {
		s.preferred.Load().reads.clear()
	}
	s.other(s.preferred.Load()).reads.clear()
	s.epoch.Add(1) // a side that begins later than the other may not any more
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for old := s.minPhy.Load(); old < minPhy && !s.minPhy.CompareAndSwap(old, minPhy); old = s.minPhy.Load() {
	}
	return nil
}

// Expire trims both sides, one after the other; a side that is held, or has failed, is left out. Files and bytes are those of both, and queues
// that lost something on both count once where they are the same.
func (s *Store) Expire(ctx context.Context, pause time.Duration) (done cq.Expired, err error) {
	if s.closed.Load() {
		return done, cq.ErrClosed
	}
	var errs []error
	for _, d := range s.sides {
		if !d.live() {
			continue
		}
		n, err := d.Store.(cq.Expirer).Expire(ctx, pause)
		done.Queues = max(done.Queues, n.Queues)
		done.Files += n.Files
		done.Bytes += n.Bytes
		if err != nil {
			errs = append(errs, fmt.Errorf("%s side: %w", d.kind, err))
		}
	}
	return done, errors.Join(errs...)
}

// CheckName answers the error of a side when every side that is responsible for the queue refuses it.
func (s *Store) CheckName(k cq.Key) (err error) {
	for _, d := range s.sides {
		if only := s.alone(k); only != nil && only != d {
			continue
		}
		c, ok := d.Store.(cq.NameChecker)
		if !ok {
			return nil
		}
		if err = c.CheckName(k); err == nil {
			return nil
		}
	}
	return err
}

// Import stores the runs on both sides; see cq.Importer. A side that is held, or has failed, is left out.
func (s *Store) Import(ctx context.Context, runs []cq.Run) error {
	return s.writing((*side).live, s.forgetReads, func(d *side) error {
		return d.Store.(cq.Importer).Import(ctx, keep(s, d, runs, func(r *cq.Run) cq.Key { return r.Key }))
	})
}

// Publish makes the queues visible on both sides; see cq.Importer. A side that is held, or has failed, is left out.
func (s *Store) Publish(ctx context.Context, ends []cq.QueueEnd, dispatchFrom int64) error {
	return s.writing((*side).live, s.forgetReads, func(d *side) error {
		return d.Store.(cq.Importer).Publish(ctx, keep(s, d, ends, func(e *cq.QueueEnd) cq.Key { return e.Key }), dispatchFrom)
	})
}

// keep leaves out what the other side has alone.
func keep[T any](s *Store, d *side, all []T, key func(*T) cq.Key) []T {
	if s.light == nil || s.light == d {
		return all
	}
	out := make([]T, 0, len(all))
	for i := range all {
		if s.alone(key(&all[i])) == nil {
			out = append(out, all[i])
		}
	}
	return out
}

// DropQueue removes a queue from both sides, so that it begins anew on both and is no longer diverged. A held side keeps what it has, which
// may be right; the queue counts as diverged on it, and its owner builds it there again.
func (s *Store) DropQueue(ctx context.Context, k cq.Key) error {
	return s.writing((*side).works, func() { s.forgetQueue(k) }, func(d *side) error {
		if d.held.Load() {
			s.divergeLocked(d, k, fmt.Errorf("queue %s was dropped while the side was held: %w", k, cq.ErrDiverged))
			return nil
		}
		if err := d.Store.(cq.Importer).DropQueue(ctx, k); err != nil {
			return err
		}
		d.diverged.remove(k)
		return nil
	})
}

// Skip has a queue go on at a slot on the sides that it is appended to; see cq.Skipper.
func (s *Store) Skip(ctx context.Context, k cq.Key, to int64) error {
	return s.writing(func(d *side) bool { return s.takes(d, k) }, func() {}, func(d *side) error {
		skipper, ok := d.Store.(cq.Skipper)
		if !ok {
			return fmt.Errorf("skip slots of queue %s below %d: %w", k, to, errors.ErrUnsupported)
		}
		return skipper.Skip(ctx, k, to)
	})
}

// Close closes both sides. Idempotent.
func (s *Store) Close() error {
	s.write.Lock()
	defer s.write.Unlock()
	if s.closed.Swap(true) {
		return nil
	}
	return errors.Join(s.sides[0].Close(), s.sides[1].Close())
}

// NextOffset returns the slot that the next message of a queue takes: the authority's max, of what was accepted. It is 0 for a queue that no side has.
//
// An offset is never given twice: where the other side ends later, which it does only when the authority has lost something, the larger one counts. While the authority is suspended the other side
// has the say.
// Sides that end at different slots are told as a divergence of the one that ends earlier, unless one of them is held or has failed.
//
// It answers the error of the authority when that cannot be written to, or cannot be read for this queue. It waits for the batch that is being appended.
func (s *Store) NextOffset(k cq.Key) (int64, error) {
	s.write.Lock()
	defer s.write.Unlock()
	if s.closed.Load() {
		return 0, cq.ErrClosed
	}
	d := s.authority.Load()
	if !d.live() && s.other(d).live() { // it is suspended
		d = s.other(d)
	}
	if only := s.alone(k); only != nil {
		if err := only.failure(); err != nil {
			return 0, fmt.Errorf("next offset of queue %s, which the side of kind %s has alone: %w", k, only.kind, err)
		}
		return s.endLocked(only, k)
	}
	next, err := s.endLocked(d, k)
	if err != nil {
		return 0, err
	}
	other := s.other(d)
	most, err := s.endLocked(other, k)
	both := d.live() && other.live()
	switch {
	case err != nil && both && !errors.Is(err, cq.ErrClosed):
		s.divergeLocked(other, k, err)
	case err != nil:
	case most > next:
		if both {
			s.divergeLocked(d, k, &BehindError{Key: k, Side: d.kind, Other: other.kind, Max: next, OtherMax: most})
		}
		next = most
	case most < next && both:
		s.divergeLocked(other, k, &BehindError{Key: k, Side: other.kind, Other: d.kind, Max: most, OtherMax: next})
	}
	return next, nil
}

// endLocked returns where a queue ends on a side, with all that was accepted there.
func (s *Store) endLocked(d *side, k cq.Key) (int64, error) {
	if err := s.awaitReadable(context.Background(), d); err != nil {
		return 0, err
	}
	q, ok := d.Queue(k)
	if !ok {
		return 0, nil
	}
	b, err := q.Bounds()
	return b.Max, err
}
