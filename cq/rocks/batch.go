//go:build cgo

package rocks

import "github.com/tandemq/tandemmq/cq"

// maxBatchUnits bounds what is written as one change.
const maxBatchUnits = 4096

// unitBatch is what becomes readable at once: accepted units, chained queue by queue. Its memory is reused.
type unitBatch struct {
	number uint32 // as in endRow; never 0
	units  []pendingUnit
	queues []pendingQueue
	keys   []byte // the keys of the queues' units up to the slot, one behind the other
	phy    int64  // all units of records below it are in this batch or an earlier one
	row    int64  // the checkpoint row that is written with it, -1 for none
}

// pendingUnit is a unit of a batch.
type pendingUnit struct {
	unit cq.Unit
	next int32 // the next one of the same queue, -1 for none
}

// pendingQueue is a queue of a batch.
type pendingQueue struct {
	key         cq.Key
	row         uint32 // in the endTable
	from        int64  // slot of the first unit; those of the others follow
	first, last int32  // units
	count       int32
	keyAt       uint32 // in keys
	keyLen      uint16
}

func (b *unitBatch) reset(number uint32) {
	clear(b.queues) // lets go of topics
	b.number, b.units, b.queues, b.keys, b.phy = number, b.units[:0], b.queues[:0], b.keys[:0], -1
	b.row = -1
}

// add appends an entry of the queue in that row, with which all units of records below phy are there.
func (b *unitBatch) add(row uint32, r *endRow, e *cq.Entry, phy int64) {
	at := int32(len(b.units))
	b.units = append(b.units, pendingUnit{unit: e.Unit, next: -1})
	if r.batch != b.number {
		r.batch, r.group = b.number, uint16(len(b.queues))
		keyAt := len(b.keys)
		b.keys = appendUnitPrefix(b.keys, e.Key)
		b.queues = append(b.queues, pendingQueue{
			key: e.Key, row: row, from: e.QueueOffset, first: at, keyAt: uint32(keyAt), keyLen: uint16(len(b.keys) - keyAt),
		})
	} else {
		b.units[b.queues[r.group].last].next = at
	}
	q := &b.queues[r.group]
	q.last = at
	q.count++
	r.next = e.QueueOffset + 1
	b.phy = max(b.phy, phy)
}

// prefix returns the key of the queue's units up to the slot.
func (b *unitBatch) prefix(q *pendingQueue) []byte { return b.keys[q.keyAt : q.keyAt+uint32(q.keyLen)] }

// end returns the end that the batch gives a queue which had old.
func (b *unitBatch) end(q *pendingQueue, old end) end {
	last := &b.units[q.last].unit
	if old.max == 0 { // the queue begins here
		old.minSlot = q.from
	}
	old.max, old.lastPhy, old.lastSize = q.from+int64(q.count), last.PhyOffset, last.Size
	return old
}
