package file

import (
	"slices"
	"sync"
)

// maxOpenQueues is how many queues keep their list of files in memory (about 400 bytes each). Queues with unflushed
// units stay beyond it. Mappings have a bound of their own, in internal/mappedfile.
const maxOpenQueues = 1 << 16

// stepsPerEntry bounds how far the hand goes for one queue that enters. Without a bound every queue beyond the limit would
// cost a round over all the others, in vain, while those have unflushed units: quadratic in the number of queues. The
// table grows beyond its limit instead, and each entry after the flush closes up to so many.
const stepsPerEntry = 64

// openTable knows the queues that hold an open list of files and closes the idle ones when there are too many. Like the
// table of mappings it evicts by the clock algorithm, so that a reader pays one flag and no lock.
type openTable struct {
	mu     sync.Mutex
	limit  int
	ring   []*queue
	hand   int
	closed bool // none enters any more
}

// enter adds q, which its caller has locked, unless it is there; it closes idle queues until there is room, as far as
// stepsPerEntry goes. false: the store was closed, and the caller lets go of what it has opened.
func (t *openTable) enter(q *queue) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	if q.ring >= 0 {
		return true
	}
	for tries := min(2*len(t.ring), stepsPerEntry); len(t.ring) >= t.limit && tries > 0; tries-- {
		t.stepLocked()
	}
	q.ring = len(t.ring)
	t.ring = append(t.ring, q)
	return true
}

// close has none enter any more, and returns those that are there.
func (t *openTable) close() []*queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return slices.Clone(t.ring)
}

// stepLocked looks at one queue of the ring and closes it when it is idle. It only tries the queue's lock: the caller of
// enter holds another queue's.
func (t *openTable) stepLocked() {
	if t.hand >= len(t.ring) {
		t.hand = 0
	}
	c := t.ring[t.hand]
	if c.recent.Swap(false) || !c.mu.TryLock() {
		t.hand++
		return
	}
	defer c.mu.Unlock()
	if c.dirty || c.flushing {
		t.hand++
		return
	}
	t.leaveLocked(c)
	c.dropFiles()
}

// leave removes q, which its caller has locked.
func (t *openTable) leave(q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaveLocked(q)
}

func (t *openTable) leaveLocked(q *queue) {
	if q.ring < 0 {
		return
	}
	last := len(t.ring) - 1
	moved := t.ring[last]
	t.ring[q.ring] = moved
	moved.ring = q.ring
	t.ring[last] = nil
	t.ring = t.ring[:last]
	q.ring = -1
}
