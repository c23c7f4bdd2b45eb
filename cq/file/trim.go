package file

import (
	"context"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
)

var _ cq.Trimmer = (*Store)(nil)

// TrimQueue cuts the end off a queue; see cq.Trimmer.
func (s *Store) TrimQueue(ctx context.Context, k cq.Key, end int64) error {
	s.flushing.Lock()
	defer s.flushing.Unlock()
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
	if err := q.findStateLocked(); err != nil {
		return fmt.Errorf("trim queue %s: %w", k, err)
	}
	files := q.files.Files()
	if len(files) == 0 || q.state.damage == nil && end >= q.state.max || end >= files[len(files)-1].End()/unitBytes {
		return nil
	}
	keep := false
	p := newProber(files)
	err := p.walk(p.first, func(slot int64, u cq.Unit) error { // mostly the first slot answers
		keep = slot < end && valid(u) && !u.IsPreBlank()
		if keep || slot >= end {
			return errStop
		}
		return nil
	})
	p.close()
	if err != nil {
		return fmt.Errorf("trim queue %s: %w", k, err)
	}
	if !keep {
		return s.removeLocked(q)
	}
	if err := q.files.Truncate(end * unitBytes); err != nil {
		return s.fail(fmt.Errorf("trim queue %s: %w", k, err))
	}
	s.undirty(q)
	defer q.forgetLocked()
	if err := q.truncateExtLocked(end); err != nil {
		return s.fail(fmt.Errorf("trim queue %s: extension files: %w", k, err))
	}
	return nil
}

// UnitFrom looks for a unit; see cq.Trimmer. What follows the end of a queue in its files is zero, or contradicts them.
func (s *Store) UnitFrom(k cq.Key, from int64) (int64, error) {
	q, ok := s.find(k)
	if !ok {
		return -1, nil
	}
	b, err := q.Bounds()
	if err != nil || from >= b.Max {
		return -1, err
	}
	return max(from, b.Min), nil
}
