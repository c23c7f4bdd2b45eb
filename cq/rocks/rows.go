//go:build cgo

package rocks

import (
	"encoding/binary"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// rowWriter collects rows into a WriteBatch. Its memory is reused.
type rowWriter struct {
	batch *rocks.Batch
	key   []byte
	value []byte
}

// start empties the batch.
func (w *rowWriter) start(db *rocks.DB) {
	if w.batch == nil {
		w.batch = db.NewBatch()
	}
	w.batch.Reset()
}

func (w *rowWriter) putRow(k cq.Key, tag [3]byte, phyOffset, slot int64) {
	w.key = appendRowKey(w.key[:0], k, tag)
	w.value = appendRow(w.value[:0], phyOffset, slot)
	w.batch.Put(rocks.Offsets, w.key, w.value)
}

func (w *rowWriter) putMax(k cq.Key, e end) { w.putRow(k, tagMax, e.lastPhy, e.max-1) }

func (w *rowWriter) putCheckpoint(phyOffset int64) {
	w.value = binary.BigEndian.AppendUint64(w.value[:0], uint64(phyOffset))
	w.batch.Put(rocks.Offsets, checkpointKey, w.value)
}

// deleteQueue removes the units and the rows of a queue.
func (w *rowWriter) deleteQueue(k cq.Key) {
	first, last := appendUnitRange(nil, nil, k)
	w.batch.DeleteRange(rocks.Units, first, last)
	for _, tag := range [][3]byte{tagMax, tagMin} {
		w.key = appendRowKey(w.key[:0], k, tag)
		w.batch.Delete(rocks.Offsets, w.key)
	}
}
