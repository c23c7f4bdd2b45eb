//go:build cgo

package rocks

import (
	"sync"

	"github.com/tandemq/tandemmq/cq"
)

// readAhead holds what comes next in a queue that is read one stretch after the other, as a consumer does that is behind: an iterator costs as much as a hundred of its
// steps. Where a read begins at which the one before it ended, the units of several more are read with it.
//
// There is a fixed number of places, by the hash of the queue, and each belongs to the queue that was read last; a reader who finds it in use goes without. What is in it
// is of one epoch of the store: whoever changes or removes units begins another. Units that are put later only follow what is here.
//
// Safe for concurrent use. Nil and the zero value hold nothing.
type readAhead struct {
	mu    sync.Mutex
	key   cq.Key
	epoch int64
	next  int64     // slot at which the last read ended
	from  int64     // slot of the first of held
	held  []cq.Unit // a part of units
	units []cq.Unit // made when it is needed
}

const (
	aheadPlaces = 512
	// aheadUnits is what is read at once. The places take 4 MiB when all are in use.
	aheadUnits = 256
	// minAheadRead and maxAheadRead are between what reads it is worth: one unit is a bare get, and who reads much at once needs no help.
	minAheadRead, maxAheadRead = 8, aheadUnits / 2
)

// read is Read for a queue whose end and epoch are known, within its end.
func (a *readAhead) read(q *queue, e end, epoch, from int64, dst []cq.Unit) (int, error) {
	if a == nil || len(dst) < minAheadRead || len(dst) > maxAheadRead || !a.mu.TryLock() {
		return q.readUnits(from, dst)
	}
	defer a.mu.Unlock()
	if a.key != q.key || a.epoch != epoch {
		a.key, a.epoch, a.next, a.held = q.key, epoch, -1, nil
	}
	goesOn := from == a.next
	if at := from - a.from; at < 0 || at >= int64(len(a.held)) || a.held[at].PhyOffset < q.s.minPhy.Load() { // of what has expired, the database decides
		a.held = nil
		if !goesOn {
			n, err := q.readUnits(from, dst)
			a.next = from + int64(n)
			return n, err
		}
		if a.units == nil {
			a.units = make([]cq.Unit, aheadUnits)
		}
		n, err := q.readUnits(from, a.units[:min(aheadUnits, e.max-from)])
		if err != nil {
			return 0, err
		}
		a.from, a.held = from, a.units[:n]
	}
	n := copy(dst, a.held[from-a.from:])
	a.next = from + int64(n)
	return n, nil
}
