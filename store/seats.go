package store

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// A record says which slot of its queue is its own, and no checksum covers that number. Who reads the log from its beginning can tell a wrong one by the records beside it:
//
//	n-1, x, n+1             x is n, whatever it says
//	n-1, n+3, n+4           n to n+2 are lost: a number that the next record goes on from is right
//	n-1, x, n               x has no place of its own: a repeat (F1), as it stands
//	x, n, n+1   x >= n      the queue's first record in the log is n-1
//
// Records are never given other numbers than these prove. What is lost leaves its slots empty.

// seat is what is known of the numbers of one queue, up to where the log has been read.
type seat struct {
	next  int64     // slot behind the last record that has a place
	end   int64     // physical offset behind that record
	count int64     // records that have a place
	first cq.Entry  // the first of them
	again bool      // there was a repeat
	held  *cq.Entry // a record that is not next: the one behind it will tell
}

// lostFits tells whether a queue may have so many slots without a record between two places in the log: as many as records can have been lost there, and some that were given to none
// (5.5.0 does so when a message names a light queue twice). With more than that the number is wrong.
func lostFits(slots, bytes int64) bool {
	return slots <= slotsBeforeLog || slots <= bytes/message.MinRecordSize
}

// seats finds out the slots of records, of which it is told in the order of the log.
type seats struct {
	queues map[cq.Key]*seat
	whole  bool // it was told of all that the log has
	logger *slog.Logger
	emit   func(e cq.Entry) // what has a place
	// redo: all that was emitted of a queue, one record, has had a wrong place.
	redo func(k cq.Key)
}

// add is told of a record.
func (s *seats) add(e cq.Entry) {
	q := s.queues[e.Key]
	if q == nil {
		if s.queues == nil {
			s.queues = make(map[cq.Key]*seat)
		}
		q = new(seat)
		s.queues[e.Key] = q
	}
	switch {
	case q.held != nil:
		s.resolve(q, e)
	case q.count == 0 && e.QueueOffset != unplaced:
		s.place(q, e, e.QueueOffset)
	case q.count > 0 && e.QueueOffset == q.next:
		s.place(q, e, q.next)
	default:
		q.held = &e
	}
}

// resolve finds out the place of the record that was held by the one behind it.
func (s *seats) resolve(q *seat, e cq.Entry) {
	h := *q.held
	q.held = nil
	switch {
	case q.count == 0 && e.QueueOffset > 0: // h is unplaced, and the first
		s.correct(q, h, e.QueueOffset-1)
	case q.count == 0:
		s.logger.Error("a record has no place in its queue", place(&h)...)
	case e.QueueOffset == q.next+1: // also where h is unplaced
		s.correct(q, h, q.next)
	case h.QueueOffset == unplaced:
		s.correct(q, h, q.next)
	case s.whole && q.count == 1 && !q.again && h.QueueOffset <= q.first.QueueOffset && h.QueueOffset > 0 && e.QueueOffset == h.QueueOffset+1:
		first := q.first
		s.redo(h.Key)
		q.count = 0
		s.correct(q, first, h.QueueOffset-1)
		s.place(q, h, h.QueueOffset)
	case h.QueueOffset < q.next: // a repeat, see F1
		q.again = true
		s.emit(h)
	case e.QueueOffset == q.next:
		s.logger.Error("a record has no place in its queue", place(&h)...)
	case e.QueueOffset == h.QueueOffset+1:
		s.place(q, h, h.QueueOffset)
	case e.QueueOffset > q.next && e.QueueOffset <= h.QueueOffset: // the numbers of both cannot be
		s.correct(q, h, q.next)
	default:
		s.jump(q, h)
	}
	s.add(e)
}

// jump places a record that is behind the next of its queue, and of which no other record tells anything.
func (s *seats) jump(q *seat, h cq.Entry) {
	if lostFits(h.QueueOffset-q.next, h.Unit.PhyOffset-q.end) {
		s.place(q, h, h.QueueOffset)
		return
	}
	s.correct(q, h, q.next)
}

// finish places what is held where the log ends.
func (s *seats) finish() {
	for _, q := range s.queues {
		h := q.held
		if h == nil {
			continue
		}
		q.held = nil
		switch {
		case q.count == 0:
			s.logger.Error("a record has no place in its queue", place(h)...)
		case h.QueueOffset == unplaced:
			s.correct(q, *h, q.next)
		case h.QueueOffset < q.next:
			s.emit(*h)
		default:
			s.jump(q, *h)
		}
	}
}

// oldest returns the physical offset of the first record that is held, phy when none below it is.
func (s *seats) oldest(phy int64) int64 {
	for _, q := range s.queues {
		if q.held != nil {
			phy = min(phy, q.held.Unit.PhyOffset)
		}
	}
	return phy
}

// correct places a record in a slot that is not what it says.
func (s *seats) correct(q *seat, e cq.Entry, slot int64) {
	s.logger.Error("a record says a wrong queue offset; its slot is known by the records beside it", append(place(&e), slog.Int64("slot", slot))...)
	s.place(q, e, slot)
}

func (s *seats) place(q *seat, e cq.Entry, slot int64) {
	e.QueueOffset = slot
	if q.count == 0 {
		q.first = e
	}
	q.next, q.end = slot+1, e.Unit.End()
	q.count++
	s.emit(e)
}

func place(e *cq.Entry) []any {
	return []any{slog.String("topic", e.Key.Topic), slog.Int("queueId", int(e.Key.QueueID)), slog.Int64("queueOffset", e.QueueOffset), slog.Int64("phyOffset", e.Unit.PhyOffset)}
}

// LostRange is slots of a queue whose records the log has lost: they have no unit.
type LostRange struct {
	Topic   string `json:"topic"`
	QueueID int32  `json:"queueId"`
	From    int64  `json:"from"` // the first slot
	To      int64  `json:"to"`   // the one behind the last
}

// mergeLost adds ranges that are not there yet, and returns all in order.
func mergeLost(list, more []LostRange) []LostRange {
	list = append(list, more...)
	slices.SortFunc(list, func(a, b LostRange) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.QueueID, b.QueueID), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return slices.Compact(list)
}
