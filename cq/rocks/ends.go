//go:build cgo

package rocks

import (
	"hash/maphash"
	"iter"

	"github.com/tandemq/tandemmq/cq"
)

// end is what is known of a queue without reading a unit.
type end struct {
	max      int64 // next slot
	lastPhy  int64 // of the max row
	minSlot  int64 // of the min row, 0 without one: units below stay invisible
	derived  int64 // where the last search found min, 0 if there was none; never above it
	lastSize int32 // size of the unit at max-1; 0 when it has not been looked at
}

// endTable is a map from queue to end for a million queues: about 64 bytes for each and its topic, without a pointer that the
// garbage collector would have to follow (a Go map took twice as much). Rows stay where they are until they are removed.
// Not safe for concurrent use.
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
	topicAt  uint32 // piece of topics and position in it
	topicLen uint16 // 0: the row is free
	hash     uint32
	queueID  int32
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

func (t *endTable) len() int { return t.count }

func (t *endTable) get(k cq.Key) (end, bool) {
	place, ok := t.find(k, t.hash(k))
	if !ok {
		return end{}, false
	}
	return t.row(t.index[place] - 1).end, true
}

// put sets the end of k, whose topic has 1 to 65,535 bytes.
func (t *endTable) put(k cq.Key, e end) {
	hash := t.hash(k)
	place, ok := t.find(k, hash)
	if ok {
		t.row(t.index[place] - 1).end = e
		return
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
	*t.row(i) = endRow{end: e, hash: hash, queueID: k.QueueID, topicLen: uint16(len(k.Topic)), topicAt: t.storeTopic(k.Topic)}
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
		if r.topicLen == 0 {
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
