//go:build cgo

package rocks

import (
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// queue reads one queue. It holds no state of its own, so that it shows what the store holds, also after a truncation.
type queue struct {
	s      *Store
	key    cq.Key
	prefix []byte // key of its units up to the slot
	tail   *tailShard
	ahead  *readAhead
}

// Key returns the queue's name.
func (q *queue) Key() cq.Key { return q.key }

// Where names the database and the row of the slot's unit.
func (q *queue) Where(queueOffset int64) string {
	return fmt.Sprintf("%s (unit %s slot %d)", q.s.dir, q.key, queueOffset)
}

// Max returns the max of the queue, which is known even where its units cannot be read; 0 for one that has gone.
func (q *queue) Max() int64 {
	e, _, _ := q.end()
	return e.max
}

// end returns what is known of the queue, zero when it has gone, and the epoch of that.
func (q *queue) end() (e end, epoch int64, err error) {
	q.s.mu.RLock()
	defer q.s.mu.RUnlock()
	if q.s.mu.closed {
		return end{}, 0, q.s.closedError()
	}
	e, _ = q.s.mu.ends.get(q.key)
	return e, q.s.mu.epoch, nil
}

// learn changes what is known of the queue, unless the epoch is over.
func (q *queue) learn(epoch int64, change func(e *end)) {
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	if e, ok := q.s.mu.ends.get(q.key); ok && q.s.mu.epoch == epoch {
		change(&e)
		q.s.mu.ends.put(q.key, e)
	}
}

// Bounds returns the limits. Max is the max row's. Min is the first unit at or above both the min row's slot and the
// CommitLog's min physical offset. It is searched for, and remembered in memory until the log's min passes it. Nothing is written.
// Source: RocksDBConsumeQueueOffsetTable.getMinCqOffset, 5.5.0, without its writes.
func (q *queue) Bounds() (cq.Bounds, error) {
	none := cq.Bounds{MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1}
	round, err := q.s.reading()
	if err != nil {
		return none, err
	}
	b, err := q.bounds()
	if q.s.over(round) {
		return none, q.s.replacedError()
	}
	return b, err
}

func (q *queue) bounds() (cq.Bounds, error) {
	b := cq.Bounds{MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1}
	e, epoch, err := q.end()
	if err != nil || e.max == 0 {
		return b, err
	}
	b.Min, b.Max = e.max, e.max
	size, err := q.lastSize(e, epoch)
	if err != nil {
		return b, err
	}
	if size > 0 {
		b.LastPhyOffset, b.MaxPhyOffset = e.lastPhy, e.lastPhy+int64(size)
	}
	from := min(max(e.minSlot, e.derived), e.max)
	minPhy := q.s.minPhy.Load()
	if phy := e.derivedPhy - 1; phy >= max(minPhy, 0) && e.derived == from {
		b.Min, b.MinPhyOffset = from, phy
		return b, nil
	}
	_, at, err := q.s.db.LowerBound(q.prefix, from, e.max, minPhy)
	if err != nil {
		return b, q.s.wrap(err)
	}
	if at.Slot < 0 {
		return b, nil
	}
	b.Min, b.MinPhyOffset = at.Slot, at.Unit.PhyOffset
	if err := q.check(at.Slot, cq.Unit(at.Unit)); err != nil {
		return b, err
	}
	q.learn(epoch, func(e *end) {
		if at.Slot >= e.derived {
			e.derived, e.derivedPhy = at.Slot, at.Unit.PhyOffset+1
		}
	})
	return b, nil
}

// lastSize returns the size of the last unit's record, 0 when no real unit is left. The unit must agree with the max row.
func (q *queue) lastSize(e end, epoch int64) (int32, error) {
	if e.lastSize > 0 {
		return e.lastSize, nil
	}
	var u [1]cq.Unit
	n, err := rocks.ReadUnits(q.s.db, q.prefix, e.max-1, u[:])
	if err != nil {
		return 0, q.s.wrap(err)
	}
	minPhy := q.s.minPhy.Load()
	switch {
	case n == 0 && (e.lastPhy == 0 || minPhy < 0 || e.lastPhy < minPhy):
		return 0, nil // empty but advanced, or expired and removed
	case n == 0:
		return 0, &cq.CorruptError{
			File: q.s.dir, Offset: -1, Row: fmt.Sprintf("max row %s slot %d", q.key, e.max-1),
			Want: fmt.Sprintf("a unit of record %d", e.lastPhy), Got: "no unit",
		}
	case u[0].PhyOffset != e.lastPhy && e.lastPhy == 0:
		return 0, nil // a queue set to a new beginning; the unit is left from before it
	case u[0].PhyOffset != e.lastPhy:
		return 0, &cq.CorruptError{
			File: q.s.dir, Offset: -1, Row: fmt.Sprintf("max row %s slot %d", q.key, e.max-1),
			Want: fmt.Sprintf("record %d as in the unit", u[0].PhyOffset), Got: fmt.Sprintf("record %d", e.lastPhy),
		}
	}
	if err := q.check(e.max-1, u[0]); err != nil {
		return 0, err
	}
	q.learn(epoch, func(now *end) {
		if now.max == e.max {
			now.lastSize = u[0].Size
		}
	})
	return u[0].Size, nil
}

// check tells whether a stored unit can be one.
func (q *queue) check(slot int64, u cq.Unit) error {
	if u.Size > 0 && u.PhyOffset >= 0 {
		return nil
	}
	return &cq.CorruptError{
		File: q.s.dir, Offset: -1, Row: fmt.Sprintf("unit %s slot %d", q.key, slot),
		Want: "a position >= 0 and a size > 0", Got: fmt.Sprintf("position %d and size %d", u.PhyOffset, u.Size),
	}
}

// Read copies units of consecutive slots; see cq.Queue. One call into RocksDB, and none where the store still has them in memory.
func (q *queue) Read(from int64, dst []cq.Unit) (int, error) {
	if n := q.tail.read(q.prefix, from, q.s.minPhy.Load(), dst); n > 0 {
		return n, nil
	}
	round, err := q.s.reading()
	if err != nil {
		return 0, err
	}
	e, epoch, err := q.end()
	if err != nil {
		return 0, err
	}
	if from < 0 || from >= e.max {
		b, err := q.Bounds()
		if err != nil {
			b = cq.Bounds{Max: e.max}
		}
		return 0, &cq.RangeError{Key: q.key, Want: from, Min: b.Min, Max: b.Max}
	}
	n, err := q.ahead.read(q, e, epoch, from, dst[:min(int64(len(dst)), e.max-from)])
	if q.s.over(round) {
		return 0, q.s.replacedError()
	}
	return n, err
}

// readUnits reads from the database, up to a unit that cannot be one.
func (q *queue) readUnits(from int64, dst []cq.Unit) (int, error) {
	n, err := rocks.ReadUnits(q.s.db, q.prefix, from, dst)
	if err != nil {
		return 0, q.s.wrap(err)
	}
	for i := range dst[:n] {
		if err := q.check(from+int64(i), dst[i]); err != nil {
			if i > 0 {
				return i, nil // the next call, which begins here, reports it
			}
			return 0, err
		}
	}
	return n, nil
}

// TimeBound searches by store time in one call into RocksDB; see cq.TimeSearcher. Units keep their times here, unless whoever imported them knew none.
// Source: RocksDBConsumeQueueOffsetTable.getOffsetInQueueByTime, 5.5.0, with a lower-bound search for its walk along equal times.
func (q *queue) TimeBound(from, end, timestampMs int64) (below, at int64, err error) {
	round, err := q.s.reading()
	if err != nil {
		return 0, 0, err
	}
	switch e, _, err := q.end(); {
	case err != nil:
		return 0, 0, err
	case e.max < end: // it was cut, or replaced, since its bounds were asked for
		return 0, 0, errors.ErrUnsupported
	}
	below, at, stop, err := q.s.db.TimeBound(q.prefix, from, end, timestampMs)
	if q.s.over(round) {
		return 0, 0, q.s.replacedError()
	}
	if err != nil || stop == nil {
		return below, at, q.s.wrap(err)
	}
	if err := q.check(stop.Slot, cq.Unit(stop.Unit)); err != nil {
		return 0, 0, err
	}
	return 0, 0, fmt.Errorf("%s keeps no store time: %w", q.Where(stop.Slot), errors.ErrUnsupported)
}
