//go:build cgo

package rocks

import (
	"hash/maphash"
	"iter"

	"github.com/tandemq/tandemmq/cq"
)

// end is what is known of a queue without reading a unit.
type end struct {
	max     int64 // next slot
	lastPhy int64 // of the max row
	minSlot int64 // of the min row, 0 without one: units below stay invisible
	derived int64 // where the last search found min, 0 if there was none; never above it
	// derivedPhy is where the record of the unit at derived lies, plus 1; 0 when no search has found a unit there.
	derivedPhy int64
	lastSize   int32 // size of the unit at max-1; 0 when it has not been looked at
}

// endTable is a map from queue to end for a million queues: about 90 bytes for each and its topic, without a pointer that the
// garbage collector would have to follow (a Go map took twice as much). Rows stay where they are until they are removed.
//
// A row comes when the first unit of a queue is accepted and is hidden until that unit is readable (its max is 0 until then).
//
// It needs two locks, Store.write and Store.mu: rows come and go under both, so that whoever holds either may look a queue up; the part
// "end" of a row belongs to Store.mu, the part "accepted" to Store.write.
type endTable struct {
	seed   maphash.Seed
	rows   []*[rowsPerChunk]endRow
	count  int
	free   []uint32 // rows to be used again
	next   uint32   // first row never used
	index  []uint32 // open addressing, linear probing: row+1, or 0; at most half full; a power of two long
	topics [][]byte // texts of topics, each in one piece
}

type endRow struct {
	end
	accepted
	topicAt  uint32 // piece of topics and position in it
	hash     uint32
	queueID  int32
	topicLen uint16 // 0: the row is free
}

// accepted is what Append knows of a queue beside its end.
type accepted struct {
	next  int64  // next slot, with what is not yet readable; 0 if the queue has nothing
	batch uint32 // number of the batch that last took a unit of the queue, 0 for none
	group uint16 // number of the queue in it
}

const (
	rowsPerChunk = 1024
	topicChunk   = 1 << 16
	minIndex     = 1 << 10
)

func newEndTable() *endTable {
	return &endTable{seed: maphash.MakeSeed(), index: make([]uint32, minIndex)}
}

func (t *endTable) row(i uint32) *endRow { return &t.rows[i/rowsPerChunk][i%rowsPerChunk] }

func (t *endTable) topic(r *endRow) []byte {
	at := r.topicAt % topicChunk
	return t.topics[r.topicAt/topicChunk][at : at+uint32(r.topicLen)]
}

func (t *endTable) hash(k cq.Key) uint32 { return uint32(maphash.Comparable(t.seed, k)) }

// find returns the place of k in the index, or the free place where it belongs.
func (t *endTable) find(k cq.Key, hash uint32) (place uint32, ok bool) {
	mask := uint32(len(t.index) - 1)
	for place = hash & mask; t.index[place] != 0; place = (place + 1) & mask {
		r := t.row(t.index[place] - 1)
		if r.hash == hash && r.queueID == k.QueueID && string(t.topic(r)) == k.Topic {
			return place, true
		}
	}
	return place, false
}

// len counts the rows, hidden ones too.
func (t *endTable) len() int { return t.count }

// get returns the end of k; false where it has none or is hidden.
func (t *endTable) get(k cq.Key) (end, bool) {
	place, ok := t.find(k, t.hash(k))
	if !ok {
		return end{}, false
	}
	e := t.row(t.index[place] - 1).end
	return e, e.max > 0
}

// put sets the end of k and leaves alone what has been accepted of it.
func (t *endTable) put(k cq.Key, e end) { t.row(t.place(k)).end = e }

// settle sets the end of k, of which everything accepted is readable.
func (t *endTable) settle(k cq.Key, e end) {
	r := t.row(t.place(k))
	r.end, r.next = e, e.max
}

// lookup returns the number of k's row, hidden or not.
func (t *endTable) lookup(k cq.Key) (row uint32, ok bool) {
	place, ok := t.find(k, t.hash(k))
	if !ok {
		return 0, false
	}
	return t.index[place] - 1, true
}

// place returns the number of k's row, making a hidden one where there is none. The topic has 1 to 65,535 bytes.
func (t *endTable) place(k cq.Key) uint32 {
	hash := t.hash(k)
	place, ok := t.find(k, hash)
	if ok {
		return t.index[place] - 1
	}
	if 2*(t.count+1) > len(t.index) {
		t.grow()
		place, _ = t.find(k, hash)
	}
	i := t.next
	if n := len(t.free); n > 0 {
		i = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		if int(i) == len(t.rows)*rowsPerChunk {
			t.rows = append(t.rows, new([rowsPerChunk]endRow))
		}
		t.next++
	}
	t.index[place] = i + 1
	t.count++
	*t.row(i) = endRow{hash: hash, queueID: k.QueueID, topicLen: uint16(len(k.Topic)), topicAt: t.storeTopic(k.Topic)}
	return i
}

// storeTopic keeps the text of a topic and returns its place. Queues of one topic that follow one another share it.
func (t *endTable) storeTopic(topic string) uint32 {
	n := len(t.topics)
	if n > 0 {
		piece := t.topics[n-1]
		if at := len(piece) - len(topic); at >= 0 && string(piece[at:]) == topic {
			return uint32((n-1)*topicChunk + at)
		}
	}
	if n == 0 || len(t.topics[n-1])+len(topic) > topicChunk {
		t.topics = append(t.topics, make([]byte, 0, topicChunk))
		n++
	}
	at := len(t.topics[n-1])
	t.topics[n-1] = append(t.topics[n-1], topic...)
	return uint32((n-1)*topicChunk + at)
}

// grow doubles the index.
func (t *endTable) grow() {
	old := t.index
	t.index = make([]uint32, 2*len(old))
	mask := uint32(len(t.index) - 1)
	for _, i := range old {
		if i == 0 {
			continue
		}
		place := t.row(i-1).hash & mask
		for t.index[place] != 0 {
			place = (place + 1) & mask
		}
		t.index[place] = i
	}
}

// remove forgets k. The text of its topic stays.
func (t *endTable) remove(k cq.Key) {
	hole, ok := t.find(k, t.hash(k))
	if !ok {
		return
	}
	i := t.index[hole] - 1
	*t.row(i) = endRow{}
	t.free = append(t.free, i)
	t.count--
	// Rows behind the hole move up to it unless that would be before their own place.
	mask := uint32(len(t.index) - 1)
	for place := (hole + 1) & mask; t.index[place] != 0; place = (place + 1) & mask {
		own := t.row(t.index[place]-1).hash & mask
		if (place-own)&mask >= (place-hole)&mask {
			t.index[hole] = t.index[place]
			hole = place
		}
	}
	t.index[hole] = 0
}

// chunk appends the keys of the n-th chunk of rows to dst; false behind the last.
func (t *endTable) chunk(n int, dst []cq.Key) ([]cq.Key, bool) {
	if n >= len(t.rows) {
		return dst, false
	}
	topic := ""
	for i := range t.rows[n] {
		r := &t.rows[n][i]
		if r.topicLen == 0 || r.max == 0 {
			continue
		}
		if text := t.topic(r); string(text) != topic {
			topic = string(text)
		}
		dst = append(dst, cq.Key{Topic: topic, QueueID: r.queueID})
	}
	return dst, true
}

// all yields every queue, in no order.
func (t *endTable) all() iter.Seq2[cq.Key, end] {
	return func(yield func(cq.Key, end) bool) {
		for n := range t.rows {
			keys, _ := t.chunk(n, nil)
			for _, k := range keys {
				if e, ok := t.get(k); ok && !yield(k, e) {
					return
				}
			}
		}
	}
}
