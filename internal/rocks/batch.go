//go:build cgo

package rocks

import (
	"encoding/binary"
	"slices"
)

// Family names one of the two families that RocketMQ uses, by its number in a batch.
type Family uint32

// The families. A new database gives "offset" number 1; Open reads the number off the database (DB.family).
const (
	// Units is the family "default".
	Units Family = iota
	// Offsets is the family "offset".
	Offsets
)

// Batch assembles the representation of a RocksDB WriteBatch in Go memory, so that writing it costs one call into C however
// many rows it has. The zero Batch is not ready; DB.NewBatch makes one.
//
//	offset  width  type           meaning
//	     0      8  u64, little    sequence number, 0 until RocksDB assigns one
//	     8      4  u32, little    number of rows
//	    12         rows           tag; the family's number as varint unless it is 0; key; value for puts, end for ranges
//
//	tag                default family   other family
//	put                         0x01           0x05
//	delete                      0x00           0x04
//	delete range                0x0F           0x0E
//
// Keys and values are preceded by their length as varint. TestBatchAgainstLibrary compares with the library's own.
// Source: rocksdb/db/write_batch.cc, dbformat.h (9.11.2).
type Batch struct {
	rep     []byte
	count   uint32
	offsets uint32 // number of the family "offset" in this database
}

const batchHeader = 12

// NewBatch returns an empty batch for this database.
func (db *DB) NewBatch() *Batch {
	return &Batch{rep: make([]byte, batchHeader, 4*kib), offsets: db.offsetsID}
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.rep = b.rep[:batchHeader]
	b.count = 0
}

// Count returns the number of rows.
func (b *Batch) Count() int { return int(b.count) }

// Put writes a row. Key and value are copied.
func (b *Batch) Put(f Family, key, value []byte) {
	b.row(f, 0x01, 0x05, key)
	b.bytes(value)
}

// PutSlot writes a row of the units' family whose key is prefix and slot.
func (b *Batch) PutSlot(prefix []byte, slot int64, value []byte) {
	b.count++
	b.rep = append(b.rep, 0x01)
	b.rep = binary.AppendUvarint(b.rep, uint64(len(prefix)+slotBytes))
	b.rep = slotKey(b.rep, prefix, slot)
	b.bytes(value)
}

// PutUnit is PutSlot with the value of a unit.
func (b *Batch) PutUnit(prefix []byte, slot int64, u Unit) {
	b.count++
	b.rep = append(b.rep, 0x01)
	b.rep = binary.AppendUvarint(b.rep, uint64(len(prefix)+slotBytes))
	b.rep = append(b.rep, prefix...)
	n := len(b.rep)
	b.rep = slices.Grow(b.rep, slotBytes+1+ValueBytes)[:n+slotBytes+1+ValueBytes]
	tail := (*[slotBytes + 1 + ValueBytes]byte)(b.rep[n:])
	binary.BigEndian.PutUint64(tail[0:], uint64(slot))
	tail[8] = ValueBytes
	binary.BigEndian.PutUint64(tail[9:], uint64(u.PhyOffset))
	binary.BigEndian.PutUint32(tail[17:], uint32(u.Size))
	binary.BigEndian.PutUint64(tail[21:], uint64(u.TagsCode))
	binary.BigEndian.PutUint64(tail[29:], uint64(u.StoreTimestampMs))
}

// Delete removes a row; an absent one is no error.
func (b *Batch) Delete(f Family, key []byte) { b.row(f, 0x00, 0x04, key) }

// DeleteRange removes all rows with start <= key < end.
func (b *Batch) DeleteRange(f Family, start, end []byte) {
	b.row(f, 0x0F, 0x0E, start)
	b.bytes(end)
}

func (b *Batch) row(f Family, plain, other byte, key []byte) {
	id := b.offsets
	if f == Units {
		id = 0
	}
	b.rowOf(id, plain, other, key)
}

// rowOf begins a row of the family of that number.
func (b *Batch) rowOf(id uint32, plain, other byte, key []byte) {
	b.count++
	if id == 0 {
		b.rep = append(b.rep, plain)
	} else {
		b.rep = binary.AppendUvarint(append(b.rep, other), uint64(id))
	}
	b.bytes(key)
}

func (b *Batch) bytes(p []byte) {
	b.rep = binary.AppendUvarint(b.rep, uint64(len(p)))
	b.rep = append(b.rep, p...)
}

// data returns the finished representation; it is valid until the next change.
func (b *Batch) data() []byte {
	binary.LittleEndian.PutUint32(b.rep[8:], b.count)
	return b.rep
}
