//go:build cgo

package rocks

import (
	"context"
	"math"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

var _ cq.Trimmer = (*Store)(nil)

// TrimQueue cuts the end off a queue; see cq.Trimmer. Its rows change in one step.
func (s *Store) TrimQueue(ctx context.Context, k cq.Key, end int64) error {
	if err := validKey(k); err != nil {
		return err
	}
	if err := s.beginChange(ctx); err != nil {
		return err
	}
	defer s.write.Unlock()
	e, ok := s.end(k)
	w := &s.write.rows
	switch {
	case end <= 0:
		w.deleteQueue(k)
		e.max = 0
	default:
		_, last := appendUnitRange(nil, nil, k)
		w.batch.DeleteRange(rocks.Units, appendUnitKey(nil, k, end), last)
		if !ok || e.max <= end {
			break
		}
		var u [1]cq.Unit
		n, err := rocks.ReadUnits(s.db, appendUnitPrefix(nil, k), end-1, u[:])
		if err != nil {
			return s.wrap(err)
		}
		e.max, e.lastPhy, e.lastSize, e.derived, e.derivedPhy = end, 0, 0, 0, 0
		if n == 1 {
			e.lastPhy = max(u[0].PhyOffset, 0)
		}
		w.putMax(k, e)
	}
	if err := s.db.Write(w.batch, false); err != nil {
		return s.stick(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch++
	s.tail.forget(appendUnitPrefix(nil, k))
	switch {
	case !ok: // nothing is published of it yet
	case e.max == 0:
		s.mu.ends.remove(k)
	default:
		s.mu.ends.settle(k, e)
	}
	return nil
}

// UnitFrom looks for a unit; see cq.Trimmer. One seek.
func (s *Store) UnitFrom(k cq.Key, from int64) (int64, error) {
	if err := validKey(k); err != nil {
		return -1, err
	}
	_, at, err := s.db.LowerBound(appendUnitPrefix(nil, k), from, math.MaxInt64, math.MinInt64)
	if err != nil {
		return -1, s.wrap(err)
	}
	return at.Slot, nil
}
