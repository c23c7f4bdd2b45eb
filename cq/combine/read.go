package combine

import (
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/tandemq/tandemmq/cq"
)

// queue reads one queue from whichever side is to be read at the time of the call.
type queue struct {
	s     *Store
	key   cq.Key
	sides [2]atomic.Pointer[cq.Queue] // found so far
	at    atomic.Pointer[target]
}

// target is where a queue is read as long as the epoch lasts.
type target struct {
	epoch uint64
	q     cq.Queue
}

// Queue returns the queue when a side that is read has it.
func (s *Store) Queue(k cq.Key) (cq.Queue, bool) {
	q := &queue{s: s, key: k}
	if q.choose() == nil {
		return nil, false
	}
	return q, true
}

// side returns the queue of a side, nil when there is none.
func (q *queue) side(d *side) cq.Queue {
	at := &q.sides[0]
	if d == q.s.sides[1] {
		at = &q.sides[1]
	}
	if p := at.Load(); p != nil {
		return *p
	}
	found, ok := d.Queue(q.key)
	if !ok {
		return nil
	}
	at.Store(&found)
	return found
}

// view is what a side has of a queue.
type view struct {
	d       *side
	q       cq.Queue
	b       cq.Bounds
	err     error // of the bounds
	present bool
}

func (q *queue) look(d *side) view {
	v := view{d: d}
	if d.held.Load() {
		return v
	}
	if v.q = q.side(d); v.q == nil {
		return v
	}
	v.b, v.err = v.q.Bounds()
	v.present = v.err != nil || v.b.Max > 0
	return v
}

// covers tells whether v has whatever o has, and whether that is certain: what o has can not be told when it cannot be read.
func (v *view) covers(o *view) (covers, certain bool) {
	switch {
	case !v.present || v.err != nil:
		return false, false
	case !o.present:
		return true, true
	case o.err != nil:
		return true, false
	}
	return v.b.Max >= o.b.Max && (v.b.Min <= o.b.Min || o.b.Empty()), true
}

// usable tells whether d may be read as one that has all of k.
func (d *side) usable(k cq.Key) bool { return d.live() && !d.diverged.has(k) }

// choose returns the queue to read, nil when there is none, and remembers it where only a new epoch can change the answer.
func (q *queue) choose() cq.Queue {
	epoch := q.s.epoch.Load() // before all that it counts the changes of
	found, lasts := q.route()
	if found != nil && lasts {
		q.at.Store(&target{epoch: epoch, q: found})
	}
	return found
}

func (q *queue) route() (found cq.Queue, lasts bool) {
	s := q.s
	if d := s.alone(q.key); d != nil {
		if d.held.Load() {
			return nil, false
		}
		found = q.side(d)
		return found, found != nil
	}
	p := s.preferred.Load()
	if p.usable(q.key) && p.ready.has(q.key) {
		if found = q.side(p); found != nil {
			return found, true
		}
	}
	// The other side first: what is appended meanwhile then speaks for the preferred one, and nobody sees a queue's max fall.
	moment := p.ready.moment()
	other := q.look(s.other(p))
	preferred := q.look(p)
	switch {
	case !other.present && !preferred.present:
		return nil, false
	case !preferred.present:
		return other.q, false
	}
	if covers, certain := preferred.covers(&other); covers && p.usable(q.key) {
		if certain {
			p.ready.add(moment, q.key)
		}
		return preferred.q, certain
	}
	if covers, certain := other.covers(&preferred); covers && other.d.usable(q.key) {
		// A preferred side that only ends earlier may be about to catch up.
		begunLater := preferred.err == nil && !other.b.Empty() && preferred.b.Min > other.b.Min
		return other.q, certain && (begunLater || !p.usable(q.key))
	}
	return later(&preferred, &other).q, false
}

// later returns the view that ends later, of equal ones that which begins earlier; a is to be preferred. An error counts for nothing.
func later(a, b *view) *view {
	switch {
	case !b.present || b.err != nil:
		return a
	case a.err != nil || b.b.Max > a.b.Max || b.b.Max == a.b.Max && b.b.Min < a.b.Min:
		return b
	}
	return a
}

// Ready tells whether the side of that kind has whatever the other has of a queue, as the package comment defines it. A side is ready for a queue that neither
// has.
func (s *Store) Ready(kind cq.Kind, k cq.Key) bool {
	d, err := s.side(kind)
	if err != nil || !d.usable(k) {
		return false
	}
	if only := s.alone(k); only != nil {
		return only == d
	}
	q := &queue{s: s, key: k}
	other := q.look(s.other(d))
	mine := q.look(d)
	covers, _ := mine.covers(&other)
	return covers || !mine.present && !other.present
}

func (q *queue) current() cq.Queue {
	if t := q.at.Load(); t != nil && t.epoch == q.s.epoch.Load() {
		return t.q
	}
	return q.choose()
}

// Key returns the queue's name.
func (q *queue) Key() cq.Key { return q.key }

// Where tells it for the side that is read at present.
func (q *queue) Where(queueOffset int64) string {
	if at := q.current(); at != nil {
		return at.Where(queueOffset)
	}
	return fmt.Sprintf("queue %s slot %d", q.key, queueOffset)
}

// Bounds returns the limits on the side that is read. They are those of a queue that was never there when no side has it any more.
func (q *queue) Bounds() (cq.Bounds, error) {
	if at := q.current(); at != nil {
		return at.Bounds()
	}
	b := cq.Bounds{MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1}
	if q.s.closed.Load() {
		return b, cq.ErrClosed
	}
	return b, nil
}

// Read copies units from the side that is read.
func (q *queue) Read(from int64, dst []cq.Unit) (int, error) {
	if at := q.current(); at != nil {
		return at.Read(from, dst)
	}
	if q.s.closed.Load() {
		return 0, cq.ErrClosed
	}
	return 0, &cq.RangeError{Key: q.key, Want: from}
}

// Queues yields the keys of both sides, each once, those of a held side left out. It keeps no list: what RocksDB has is taken off what the
// files have by asking for each.
func (s *Store) Queues() iter.Seq2[cq.Key, error] {
	return func(yield func(cq.Key, error) bool) {
		quick, slow := s.sides[0], s.sides[1]
		if slow.kind == cq.KindRocks {
			quick, slow = slow, quick
		}
		var errs []error
		list := func(d *side, without *side) bool {
			if d.held.Load() {
				return true
			}
			for k, err := range d.Queues() {
				if err != nil {
					errs = append(errs, err)
					break
				}
				if only := s.alone(k); only != nil && only != d {
					continue
				}
				if without != nil && !without.held.Load() {
					if _, ok := without.Queue(k); ok {
						continue
					}
				}
				if !yield(k, nil) {
					return false
				}
			}
			return true
		}
		if !list(quick, nil) || !list(slow, quick) {
			return
		}
		if err := errors.Join(errs...); err != nil {
			yield(cq.Key{}, err)
		}
	}
}
