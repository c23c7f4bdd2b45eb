package cq

import (
	"errors"
	"fmt"
	"math"
)

// Boundary says which of the units around a time is meant.
// Source: BoundaryType, 5.5.0, whose default is LOWER.
type Boundary int

const (
	// BoundaryLower is the first unit stored at the time or later.
	BoundaryLower Boundary = iota
	// BoundaryUpper is the last unit stored at the time or before.
	BoundaryUpper
)

// String names the boundary as RocketMQ's protocol does.
func (b Boundary) String() string {
	if b == BoundaryUpper {
		return "UPPER"
	}
	return "LOWER"
}

// TimeSearcher is a Queue that keeps store times and can search them at once, where OffsetByTime would read unit by unit.
type TimeSearcher interface {
	// TimeBound searches the slots [from, end), taking it that store times never fall: at is the first slot whose unit was stored at timestampMs or
	// later, end when there is none; below is the last slot with a unit before at, from-1 when there is none. It probes as OffsetByTime does, so that both
	// answer the same whatever the times are. The error matches errors.ErrUnsupported when a unit keeps no time, or the queue cannot search at present;
	// it is a *CorruptError when a unit is impossible.
	TimeBound(from, end, timestampMs int64) (below, at int64, err error)
}

// OffsetByTime returns the queue offset that belongs to a time in ms since the epoch:
//
//	LOWER  the first unit stored at that time or later; Max when all are older
//	UPPER  the last unit stored at that time or before; Min when all are newer
//
// The answer is always in [Min, Max] of Bounds; both are the same where nothing is left (F25).
//
// Times come from the units, or, where these keep none, from storeTime, which is asked for a few dozen units however long the queue is. It answers a
// negative number for a unit whose record is not there any more; an error of it ends the search. It may be nil where units keep their times.
//
// A slot without a unit, filler, and a unit without a time say nothing: the search goes on at the next unit above (F24). Units below Min have expired and are not
// looked at.
//
// The search halves: it asks for at most 65 times plus those without an answer, however many units have the same time, and steps over each hole at most
// once. Where the clock went back, so that times fall, it ends just the same, at a unit where the times left and right of it make it the boundary or at an end
// of the queue; which one of several is not defined. RocketMQ's search behaves like that too.
//
// Source: ConsumeQueue.getOffsetInQueueByTime, RocksDBConsumeQueueOffsetTable.getOffsetInQueueByTime, DefaultMessageStore (the clamp), 5.5.0. Those walk
// along equal times unit by unit.
func OffsetByTime(q Queue, timestampMs int64, b Boundary, storeTime func(Unit) (int64, error)) (int64, error) {
	limits, err := q.Bounds()
	if err != nil {
		return 0, fmt.Errorf("search by time: %w", err)
	}
	if limits.Empty() {
		return limits.Min, nil
	}
	bound := timestampMs
	if b == BoundaryUpper { // the last one before the first that is later
		bound = min(bound, math.MaxInt64-1) + 1
	}
	below, at, err := timeBound(q, limits, bound, storeTime)
	if err != nil {
		return 0, fmt.Errorf("search queue %s by time: %w", q.Key(), err)
	}
	if b == BoundaryUpper {
		return max(below, limits.Min), nil
	}
	return at, nil
}

func timeBound(q Queue, b Bounds, timestampMs int64, storeTime func(Unit) (int64, error)) (below, at int64, err error) {
	if s, ok := q.(TimeSearcher); ok {
		below, at, err = s.TimeBound(b.Min, b.Max, timestampMs)
		if !errors.Is(err, errors.ErrUnsupported) {
			return below, at, err
		}
	}
	s := timeSearch{q: q, storeTime: storeTime}
	return s.bound(b.Min, b.Max, timestampMs)
}

// timeSearch is one search that reads unit by unit.
type timeSearch struct {
	q         Queue
	storeTime func(Unit) (int64, error)
	units     [1]Unit
}

// bound is TimeSearcher.TimeBound. The shim of internal/rocks says the same in C, step for step.
func (s *timeSearch) bound(from, end, timestampMs int64) (below, at int64, err error) {
	below, at = from-1, end
	lo, hi := from, end
	// The last unit first: most who ask want what is new.
	for mid := end - 1; lo < hi; mid = lo + (hi-lo)/2 {
		slot, ms, err := s.first(mid, hi)
		switch {
		case err != nil:
			return 0, 0, err
		case slot == hi:
			hi = mid
		case ms >= timestampMs:
			at, hi = slot, mid
		default:
			below, lo = slot, slot+1
		}
	}
	return below, at, nil
}

// first returns the first unit of the slots [from, end) that has a time; end when there is none. What it steps over is no part of what the search still has to
// look at, whatever the answer: so each hole is stepped over once.
func (s *timeSearch) first(from, end int64) (slot, ms int64, err error) {
	for slot = from; slot < end; slot++ {
		if ms, err = s.time(slot); err != nil || ms >= 0 {
			return slot, ms, err
		}
	}
	return end, 0, nil
}

// time returns the store time of the unit in a slot, a negative number when there is none.
func (s *timeSearch) time(slot int64) (int64, error) {
	n, err := s.q.Read(slot, s.units[:])
	switch {
	case err != nil:
		return 0, err
	case n == 0:
		return NoTimestamp, nil
	}
	u := s.units[0]
	switch {
	case u.StoreTimestampMs >= 0:
		return u.StoreTimestampMs, nil
	case s.storeTime == nil:
		return 0, fmt.Errorf("the unit of slot %d keeps no store time: %w", slot, errors.ErrUnsupported)
	}
	return s.storeTime(u)
}
