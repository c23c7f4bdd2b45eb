//go:build cgo

package rocks

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/tandemq/tandemmq/cq"
)

// tailCache holds the newest units of queues that were written to lately, so that who reads at the end of a queue needs no call into C and no look at
// the table of ends.
//
// Units come from commits alone, in the order of slots, and never from reads: what was invalidated cannot come back from a reader that was late. Whoever
// changes or removes stored units calls forget or clear once the change is made and before he returns; what put got meanwhile stays out of it, as writers exclude one
// another. What a queue has here is always a run of slots that ends at its last commit.
//
// Its memory is bounded over all queues, and split over shards by the hash of the queue. When a shard is full, its hand goes over its tails: one that was read
// since it passed stays, one that was not gives its memory to the queue that wants some. When a few steps find nothing the queue goes without, or keeps the memory it has,
// in which newer units replace the oldest.
//
// Safe for concurrent use. The zero value holds nothing.
type tailCache struct {
	seed   maphash.Seed
	shards []tailShard // a power of two; none: off
}

type tailShard struct {
	mu    sync.RWMutex
	tails map[string]*tail // by the key of the queue's units up to the slot
	ring  []*tail          // the same, in no order
	hand  int
	bytes int64
	limit int64
	_     [64]byte // neighbours share no cache line
}

// tail is the end of one queue: slots [next-count, next). Slot s lies at s modulo the length of units, a power of two.
type tail struct {
	read  atomic.Bool // since the hand passed
	at    int         // in the shard's ring
	key   string
	units []cq.Unit
	next  int64
	count int64
}

const (
	tailShards   = 32
	minTailUnits = 8
	maxTailUnits = 2048
	// maxTailSteps is how far the hand goes to make room for one queue.
	maxTailSteps = 8
	// tailBytes is what a tail takes beside its units and its key, roughly: itself, its places in map and ring.
	tailBytes     = int64(unsafe.Sizeof(tail{})) + 64
	tailUnitBytes = int64(unsafe.Sizeof(cq.Unit{}))
	// minTailShardBytes is the least that a shard is worth having for.
	minTailShardBytes = 4 << 10
)

// init makes room for that many bytes; 0 or less leaves the cache off.
func (t *tailCache) init(bytes int64) {
	n := int64(tailShards)
	for n > 1 && bytes/n < minTailShardBytes {
		n /= 2
	}
	if bytes/n < minTailShardBytes {
		return
	}
	t.seed = maphash.MakeSeed()
	t.shards = make([]tailShard, n)
	for i := range t.shards {
		t.shards[i].tails = map[string]*tail{}
		t.shards[i].limit = bytes / n
	}
}

// shard returns where the queue with that key of units belongs; nil when the cache is off.
func (t *tailCache) shard(prefix []byte) *tailShard {
	if len(t.shards) == 0 {
		return nil
	}
	return &t.shards[maphash.Bytes(t.seed, prefix)&uint64(len(t.shards)-1)]
}

// put adds n units, which follow one another from slot from on, when they can be read from the database and the queue's end says so. prefix is the key of the
// queue's units up to the slot; it is not kept. next yields the units in order. Units that do not follow what is there replace it.
func (t *tailCache) put(prefix []byte, from int64, n int, next func() cq.Unit) {
	s := t.shard(prefix)
	if s == nil || n <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.tails[string(prefix)]
	if q == nil {
		if q = s.enter(prefix, n); q == nil {
			return
		}
	}
	if q.next != from {
		q.next, q.count = from, 0
	}
	if q.count+int64(n) > int64(len(q.units)) {
		s.grow(q, q.count+int64(n))
	}
	room := len(q.units)
	for i := range n {
		u := next()
		if i >= n-room { // those before would be replaced at once
			q.units[(from+int64(i))&int64(room-1)] = u
		}
	}
	q.next = from + int64(n)
	q.count = min(q.count+int64(n), int64(room))
}

// read copies units from slot from on into dst and returns how many: 0 when the unit of that slot is not here or its record lies below minPhy, where the
// database decides.
func (s *tailShard) read(prefix []byte, from, minPhy int64, dst []cq.Unit) int {
	if s == nil || len(dst) == 0 {
		return 0
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	q := s.tails[string(prefix)]
	if q == nil || from >= q.next || from < q.next-q.count {
		return 0
	}
	at := from & int64(len(q.units)-1)
	if q.units[at].PhyOffset < minPhy {
		return 0
	}
	if !q.read.Load() {
		q.read.Store(true)
	}
	if n := int64(len(dst)); q.next-from < n {
		dst = dst[:q.next-from]
	}
	n := copy(dst, q.units[at:])
	return n + copy(dst[n:], q.units)
}

// forget drops what is known of a queue.
func (t *tailCache) forget(prefix []byte) {
	s := t.shard(prefix)
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.tails[string(prefix)]; q != nil {
		s.leave(q)
	}
}

// clear drops everything.
func (t *tailCache) clear() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		clear(s.tails)
		s.ring, s.hand, s.bytes = nil, 0, 0
		s.mu.Unlock()
	}
}

// enter makes a tail for n units, nil when there is no room.
func (s *tailShard) enter(prefix []byte, n int) *tail {
	room := minTailUnits
	for room < min(n, maxTailUnits) {
		room *= 2
	}
	own := tailBytes + int64(len(prefix))
	units := s.room(nil, own, room)
	if units == nil {
		if units = s.room(nil, own, minTailUnits); units == nil {
			return nil
		}
	}
	q := &tail{at: len(s.ring), key: string(prefix), units: units}
	s.tails[q.key] = q
	s.ring = append(s.ring, q)
	s.bytes += q.bytes()
	return q
}

// grow gives a tail room for want units, or as much as there is.
func (s *tailShard) grow(q *tail, want int64) {
	room := int64(len(q.units))
	for room < min(want, maxTailUnits) {
		room *= 2
	}
	if room == int64(len(q.units)) {
		return
	}
	units := s.room(q, -tailUnitBytes*int64(len(q.units)), int(room))
	if units == nil {
		return
	}
	for slot := q.next - q.count; slot < q.next; slot++ {
		units[slot&(room-1)] = q.units[slot&int64(len(q.units)-1)]
	}
	s.bytes += tailUnitBytes * (room - int64(len(q.units)))
	q.units = units
}

// room returns memory for n units when the shard can hold them and extra bytes, making others leave. The memory of one that leaves is used again. keep stays.
func (s *tailShard) room(keep *tail, extra int64, n int) []cq.Unit {
	need := extra + tailUnitBytes*int64(n)
	if need > s.limit/4 {
		return nil
	}
	var units []cq.Unit
	for steps := 0; s.bytes+need > s.limit; steps++ {
		if steps == maxTailSteps || len(s.ring) == 0 {
			return nil
		}
		if s.hand >= len(s.ring) {
			s.hand = 0
		}
		q := s.ring[s.hand]
		if q == keep || q.read.Swap(false) {
			s.hand++
			continue
		}
		s.leave(q)
		if len(q.units) == n {
			units = q.units
		}
	}
	if units == nil {
		units = make([]cq.Unit, n)
	}
	return units
}

// leave removes a tail.
func (s *tailShard) leave(q *tail) {
	delete(s.tails, q.key)
	last := len(s.ring) - 1
	s.ring[q.at] = s.ring[last]
	s.ring[q.at].at = q.at
	s.ring[last] = nil
	s.ring = s.ring[:last]
	s.bytes -= q.bytes()
}

// bytes is the memory that a tail takes.
func (q *tail) bytes() int64 {
	return tailBytes + int64(len(q.key)) + tailUnitBytes*int64(len(q.units))
}
