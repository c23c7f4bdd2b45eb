package file

import (
	"context"

	"github.com/tandemq/tandemmq/cq"
)

// skipPart is how many slots are written over at once.
const skipPart = 1 << 15

// Skip has a queue go on at a slot; see cq.Skipper. The slots between get units that keep the slot of a lost record (cq.LostUnit): RocketMQ takes zeros for the end of
// the queue, and puts the next unit there, whatever its slot (F5).
func (s *Store) Skip(ctx context.Context, k cq.Key, to int64) error {
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	defer s.endWrite()
	q, ok := s.find(k)
	if !ok {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.skipLocked(ctx, to)
}

func (q *queue) skipLocked(ctx context.Context, to int64) error {
	q.closing = false // look how far the units go
	if err := q.toWriteLocked(); err != nil {
		return err
	}
	st := &q.state
	switch {
	case !st.present:
		return nil
	case st.damage != nil:
		return st.damage
	}
	if err := checkUnits(q.key, to); err != nil {
		return &cq.EntryError{Key: q.key, QueueOffset: to, Err: err}
	}
	b := make([]byte, 0, min(max(to-st.max, 0), skipPart)*unitBytes)
	for st.max < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(to-st.max, skipPart, q.s.perFile-st.max%q.s.perFile)
		for b = b[:0]; int64(len(b)) < n*unitBytes; {
			b = cq.AppendUnit(b, cq.LostUnit())
		}
		if err := q.writeLocked(b, st.max); err != nil {
			return err
		}
		if st.min == st.max { // nothing live: the first unit to come will be
			st.min += n
		}
		st.max += n
	}
	return nil
}

// Keeps tells whether a slot of a queue holds filler: the queue says itself that there is no unit, as the log has lost the record or the queue began behind. It is false where something
// that should be there is not, and for what cannot be read.
func (s *Store) Keeps(k cq.Key, slot int64) bool {
	q, ok := s.find(k)
	if !ok {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.closed.Load() || q.openFilesLocked() != nil {
		return false
	}
	u, err := q.unitLocked(slot)
	return err == nil && filler(u)
}
