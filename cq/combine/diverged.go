package combine

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tandemq/tandemmq/cq"
)

// Divergence is a queue that lacks something on one side.
type Divergence struct {
	Side cq.Kind
	Key  cq.Key
	Err  error // what tells it: a *cq.GapError, a *cq.ConflictError, a *BehindError, or another refusal
}

// BehindError tells that a queue ends earlier on one side than on the other.
type BehindError struct {
	Key           cq.Key
	Side, Other   cq.Kind
	Max, OtherMax int64 // of Side, 0 when it has no such queue, and of Other
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("queue %s: the %s side ends at slot %d, the %s side at %d", e.Key, e.Side, e.Max, e.Other, e.OtherMax)
}

// Is matches cq.ErrDiverged.
func (e *BehindError) Is(target error) bool { return target == cq.ErrDiverged }

// divergences are the queues that a side lacks something of.
type divergences struct {
	count atomic.Int64
	mu    sync.RWMutex
	m     map[cq.Key]error
}

func (d *divergences) has(k cq.Key) bool {
	if d.count.Load() == 0 {
		return false
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	_, ok := d.m[k]
	return ok
}

// add tells whether k is new.
func (d *divergences) add(k cq.Key, err error) (int64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.m[k]; ok {
		return 0, false
	}
	if d.m == nil {
		d.m = map[cq.Key]error{}
	}
	d.m[k] = err
	return d.count.Add(1), true
}

func (d *divergences) remove(k cq.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.m[k]; !ok {
		return false
	}
	delete(d.m, k)
	d.count.Add(-1)
	return true
}

// first returns why one of the queues is diverged that which picks, nil when none is.
func (d *divergences) first(which func(k cq.Key) bool) error {
	if d.count.Load() == 0 {
		return nil
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	for k, err := range d.m {
		if which(k) {
			return fmt.Errorf("%d queues are diverged there, %s for one: %w", len(d.m), k, err)
		}
	}
	return nil
}

func (d *divergences) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.m = nil
	d.count.Store(0)
}

// Diverged lists the queues that are diverged, by side and queue.
func (s *Store) Diverged() []Divergence {
	var out []Divergence
	for _, d := range s.sides {
		from := len(out)
		d.diverged.mu.RLock()
		for k, err := range d.diverged.m {
			out = append(out, Divergence{Side: d.kind, Key: k, Err: err})
		}
		d.diverged.mu.RUnlock()
		slices.SortFunc(out[from:], func(a, b Divergence) int { return a.Key.Compare(b.Key) })
	}
	return out
}

// IsDiverged tells whether a queue is diverged on the side of that kind.
func (s *Store) IsDiverged(kind cq.Kind, k cq.Key) bool {
	d, err := s.side(kind)
	return err == nil && d.diverged.has(k)
}

// MarkDiverged tells that the side of that kind lacks something of a queue: Append passes the queue over there, and reads go to the other side.
// It is reported as one that the Store found. A queue that is marked already stays as it is.
func (s *Store) MarkDiverged(kind cq.Kind, k cq.Key, err error) {
	s.write.Lock()
	defer s.write.Unlock()
	if d, unknown := s.side(kind); unknown == nil {
		s.divergeLocked(d, k, err)
	}
}

// maxDivergedLogged is up to how many diverged queues of a side the log warns of each; further ones are told at level debug.
const maxDivergedLogged = 100

// divergeLocked marks a queue, having waited until it can be read from the other side. The caller holds write.
func (s *Store) divergeLocked(d *side, k cq.Key, err error) {
	_ = s.awaitReadable(context.Background(), s.other(d)) // its failure is told by the next Append
	n, added := d.diverged.add(k, err)
	if !added {
		return
	}
	s.forgetQueue(k)
	level := slog.LevelWarn
	if n > maxDivergedLogged {
		level = slog.LevelDebug
	}
	s.log.LogAttrs(context.Background(), level, "queue diverged", slog.String("kind", string(d.kind)),
		slog.String("topic", k.Topic), slog.Int("queueId", int(k.QueueID)), slog.Any("err", err))
	if s.onDiverged != nil {
		s.onDiverged(Divergence{Side: d.kind, Key: k, Err: err})
	}
}

// Heal ends a divergence: the owner says that the side has everything of the queue that was appended so far.
func (s *Store) Heal(kind cq.Kind, k cq.Key) {
	s.write.Lock()
	defer s.write.Unlock()
	d, err := s.side(kind)
	if err != nil {
		return
	}
	_ = d.catchUp(context.Background()) // its failure is told by the next Append
	if d.diverged.remove(k) {
		s.forgetQueue(k)
	}
}

// forgetQueue makes a queue be looked at again when it is next read.
func (s *Store) forgetQueue(k cq.Key) {
	for _, d := range s.sides {
		d.reads.remove(k)
	}
	s.epoch.Add(1)
}

// lagging are the queues that are read from the side that is not preferred although what is appended may yet change that.
type lagging struct {
	mu   sync.Mutex
	keys map[cq.Key]struct{}
	all  bool // more than are kept
}

const maxLagging = 4096

func (l *lagging) add(k cq.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.keys) == maxLagging {
		l.all = true
		return
	}
	if l.keys == nil {
		l.keys = map[cq.Key]struct{}{}
	}
	l.keys[k] = struct{}{}
}

func (l *lagging) take() (keys map[cq.Key]struct{}, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys, all = l.keys, l.all
	l.keys, l.all = nil, false
	return keys, all
}

// lookAgain makes the queues be looked at again for which the preferred side may have caught up.
func (s *Store) lookAgain() {
	keys, all := s.lagging.take()
	switch {
	case all:
		s.forgetReads()
	case len(keys) > 0:
		for k := range keys {
			for _, d := range s.sides {
				d.reads.remove(k)
			}
		}
		s.epoch.Add(1)
	}
}

// keySet is a set of queues, 18 to 37 bytes for each however long their topics are: it keeps 128 bits of hash instead of the key, of which two
// among a million agree with a probability of 10^-27.
type keySet struct {
	mu sync.RWMutex
	m  map[[2]uint64]struct{}
	// cleared counts what was taken out, so that nothing is added on the strength of what was seen before.
	cleared uint64
}

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func hashKey(k cq.Key) [2]uint64 {
	return [2]uint64{maphash.Comparable(seeds[0], k), maphash.Comparable(seeds[1], k)}
}

func (t *keySet) has(k cq.Key) bool {
	h := hashKey(k)
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, ok := t.m[h]
	return ok
}

func (t *keySet) any() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.m) > 0
}

// moment is handed to add, to say when what is added was seen.
func (t *keySet) moment() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.cleared
}

func (t *keySet) add(moment uint64, k cq.Key) {
	h := hashKey(k)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cleared != moment {
		return
	}
	if t.m == nil {
		t.m = map[[2]uint64]struct{}{}
	}
	t.m[h] = struct{}{}
}

func (t *keySet) remove(k cq.Key) {
	h := hashKey(k)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleared++
	delete(t.m, h)
}

func (t *keySet) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleared++
	t.m = nil
}
