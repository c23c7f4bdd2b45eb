package file

import (
	"context"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
)

// Check reads every unit of a queue and returns a *cq.CorruptError for the first thing that contradicts the rest: what
// Bounds finds, a hole below the end, a unit whose record lies at or below its predecessor's, or filler above a record
// that is still in the log, unless it keeps the slot of a lost one. An unknown queue is no error.
func (s *Store) Check(ctx context.Context, k cq.Key) error {
	q, ok := s.find(k)
	if !ok {
		return nil
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	if err := q.openedRLocked(); err != nil {
		return err
	}
	if !q.state.present || q.state.damage != nil {
		return q.state.damage
	}
	p := newProber(q.files.Files())
	defer p.close()
	before := int64(-1)
	return p.walk(p.first, func(slot int64, u cq.Unit) error {
		if slot >= q.state.max {
			return errStop
		}
		if slot%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		path, at := p.place(slot)
		switch {
		case !valid(u):
			return hole(path, at, u)
		case u.IsLost():
			return nil
		case filler(u) && before >= s.minPhyOffset.Load():
			return &cq.CorruptError{
				File: path, Offset: at, Got: "filler",
				Want: fmt.Sprintf("a unit behind the one of position %d", before),
			}
		case filler(u):
			return nil
		case u.PhyOffset <= before:
			return &cq.CorruptError{
				File: path, Offset: at, Got: fmt.Sprintf("position %d", u.PhyOffset),
				Want: fmt.Sprintf("more than the %d of the unit before", before),
			}
		}
		before = u.PhyOffset
		return nil
	})
}
