package combine

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"slices"
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

// maxRetries bounds how often a read is done again as something was switched meanwhile.
const maxRetries = 8

// target is where a queue is read as long as the epoch lasts.
type target struct {
	epoch uint64
	q     cq.Queue
}

// recentQueues is how many queues are kept that were asked for lately, so that asking for one of them again takes no memory. One is given out again as long as nothing has changed
// where queues are read; behind that it would have to be found anew on the sides too, where it may have been dropped and made again.
const recentQueues = 1024

// Queue returns the queue when a side that is read has it.
func (s *Store) Queue(k cq.Key) (cq.Queue, bool) {
	at := &s.recent[maphash.Comparable(seeds[0], k)%recentQueues]
	if q := at.Load(); q != nil && q.key == k {
		if t := q.at.Load(); t != nil && !q.over(t) {
			return q, true
		}
	}
	q := &queue{s: s, key: k}
	if q.choose() == nil {
		return nil, false
	}
	at.Store(q)
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

// covers tells whether v has whatever o has. What cannot be read counts for nothing.
func (v *view) covers(o *view) bool {
	switch {
	case !v.present || v.err != nil:
		return false
	case !o.present || o.err != nil:
		return true
	}
	return v.b.Max >= o.b.Max && (v.b.Min <= o.b.Min || o.b.Empty())
}

// usable tells whether d may be read as one that has all of k.
func (d *side) usable(k cq.Key) bool { return d.live() && !d.diverged.has(k) }

// choose returns the queue to read, nil when there is none.
func (q *queue) choose() *target {
	t := &target{epoch: q.s.epoch.Load()} // before all that it counts the changes of
	if t.q = q.route(); t.q == nil {
		return nil
	}
	q.at.Store(t)
	return t
}

func (q *queue) route() cq.Queue {
	s := q.s
	if d := s.alone(q.key); d != nil {
		if d.held.Load() {
			return nil
		}
		return q.side(d)
	}
	p := s.prefer(q.key)
	o := s.other(p)
	for _, d := range []*side{p, o} {
		if !d.reads.has(q.key) {
			continue
		}
		if found := q.side(d); found != nil {
			return found
		}
	}
	if q.side(p) == nil && q.side(o) == nil {
		return nil
	}
	return q.decide()
}

// decide says from which side the queue is read until further notice. It is done while nothing is appended and all that was can be read, so that
// what a side lacks then it really lacks; later on one side may seem to be ahead for the time of a batch, and if readers followed that, a queue's
// max could fall. It waits for the other side only where the preferred one lacks something: what the other has accepted and does not show, the preferred one has too, if it
// is appended to.
func (q *queue) decide() cq.Queue {
	s := q.s
	s.write.Lock()
	defer s.write.Unlock()
	p := s.prefer(q.key)
	moments := [2]uint64{s.sides[0].reads.moment(), s.sides[1].reads.moment()}
	_ = s.awaitReadable(context.Background(), p) // what comes of an error is the next Append's to say
	other := q.look(s.other(p))
	preferred := q.look(p)
	if !p.usable(q.key) || !preferred.covers(&other) {
		_ = s.awaitReadable(context.Background(), s.other(p))
		other, preferred = q.look(s.other(p)), q.look(p)
	}
	chosen, mayChange := pick(&preferred, &other, q.key)
	if chosen == nil {
		return nil
	}
	for i, d := range s.sides {
		if d == chosen.d {
			d.reads.add(moments[i], q.key)
		}
	}
	if mayChange {
		s.lagging.add(q.key)
	}
	return chosen.q
}

// pick returns the view to read, nil when there is none. mayChange tells that the preferred side may catch up by what is appended.
func pick(preferred, other *view, k cq.Key) (chosen *view, mayChange bool) {
	switch p, o := preferred.d.usable(k), other.d.usable(k); {
	case !preferred.present && !other.present:
		return nil, false
	case !preferred.present:
		return other, p
	case p && preferred.covers(other):
		return preferred, false
	case o && other.covers(preferred):
		return other, p && preferred.b.Max < other.b.Max
	default:
		return later(preferred, other), p
	}
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
	s.write.Lock()
	defer s.write.Unlock()
	_ = s.awaitReadable(context.Background(), s.sides[:]...) // a side that has failed for good is found out by Append
	q := &queue{s: s, key: k}
	other := q.look(s.other(d))
	mine := q.look(d)
	return mine.covers(&other) || !mine.present && !other.present
}

// Served tells whether whatever was accepted of the queues of batch can be read already where they are read: from the preferred side, while AwaitReadable may
// still have to wait for the other one. False may also be said where that is not known.
func (s *Store) Served(batch []cq.Entry) bool {
	p := s.preferred.Load()
	if s.topics.Load() != nil || !p.live() || p.diverged.count.Load() > 0 || s.other(p).reads.any() {
		return false
	}
	if s.light != nil && s.light != p && slices.ContainsFunc(batch, func(e cq.Entry) bool { return e.Key.IsLMQ() }) {
		return false
	}
	accepted, readable, _ := p.Progress()
	return readable >= accepted
}

// current returns where the queue is read, nil when it is nowhere.
func (q *queue) current() *target {
	if t := q.at.Load(); t != nil && t.epoch == q.s.epoch.Load() {
		return t
	}
	return q.choose()
}

// over tells that what was read from t may be behind what is read elsewhere by now.
func (q *queue) over(t *target) bool { return t.epoch != q.s.epoch.Load() }

// Key returns the queue's name.
func (q *queue) Key() cq.Key { return q.key }

// Where tells it for the side that is read at present.
func (q *queue) Where(queueOffset int64) string {
	if t := q.current(); t != nil {
		return t.q.Where(queueOffset)
	}
	return fmt.Sprintf("queue %s slot %d", q.key, queueOffset)
}

// Bounds returns the limits on the side that is read. They are those of a queue that was never there when no side has it any more.
func (q *queue) Bounds() (cq.Bounds, error) {
	for range maxRetries {
		t := q.current()
		if t == nil {
			break
		}
		if b, err := t.q.Bounds(); !q.over(t) {
			return b, err
		}
	}
	if t := q.current(); t != nil {
		return t.q.Bounds()
	}
	b := cq.Bounds{MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1}
	if q.s.closed.Load() {
		return b, cq.ErrClosed
	}
	return b, nil
}

// Read copies units from the side that is read.
func (q *queue) Read(from int64, dst []cq.Unit) (int, error) {
	for range maxRetries {
		t := q.current()
		if t == nil {
			break
		}
		if n, err := t.q.Read(from, dst); !q.over(t) {
			return n, err
		}
	}
	if t := q.current(); t != nil {
		return t.q.Read(from, dst)
	}
	if q.s.closed.Load() {
		return 0, cq.ErrClosed
	}
	return 0, &cq.RangeError{Key: q.key, Want: from}
}

// FileEnd is that of the side that is read.
func (q *queue) FileEnd(slot int64) int64 {
	if t := q.current(); t != nil {
		if side, ok := t.q.(cq.Filed); ok {
			return side.FileEnd(slot)
		}
	}
	return math.MaxInt64
}

// TimeBound has the side that is read search by time, if it can and is the one that is read throughout.
func (q *queue) TimeBound(from, end, timestampMs int64) (below, at int64, err error) {
	if t := q.current(); t != nil {
		if side, ok := t.q.(cq.TimeSearcher); ok {
			if below, at, err = side.TimeBound(from, end, timestampMs); !q.over(t) {
				return below, at, err
			}
		}
	}
	return 0, 0, errors.ErrUnsupported
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
