//go:build cgo

package rocks

// #cgo noescape tmq_read_units
// #cgo nocallback tmq_read_units
// #cgo noescape tmq_time_bound
// #cgo nocallback tmq_time_bound
// #cgo noescape tmq_lower_bound
// #cgo nocallback tmq_lower_bound
// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"fmt"
	"runtime"
)

// ValueBytes is the length of a unit's value:
//
//	offset  width  type  field
//	     0      8  i64   PhyOffset
//	     8      4  i32   Size
//	    12      8  i64   TagsCode
//	    20      8  i64   StoreTimestampMs
//
// All big-endian. A longer value is read by its first 28 bytes, a shorter one is no unit.
// Source: RocksDBConsumeQueueTable, 5.5.0.
const ValueBytes = 28

// slotBytes is the length of the slot number, big-endian, that ends the key of a unit.
const slotBytes = 8

// Unit is a unit as the shim lays it out in memory: 32 bytes, the last 4 of them padding.
type Unit struct {
	PhyOffset        int64
	TagsCode         int64
	StoreTimestampMs int64
	Size             int32
}

// UnitLayout admits any type of Unit's layout, so that callers pass slices of their own type.
type UnitLayout interface {
	~struct {
		PhyOffset        int64
		TagsCode         int64
		StoreTimestampMs int64
		Size             int32
	}
}

// ReadUnits copies into dst the units of consecutive slots of one queue, beginning at slot from, and returns how many: it
// stops at the end of dst or at the first slot that holds no unit. prefix is the queue's key up to the slot.
// One call into C.
func ReadUnits[T UnitLayout](db *DB, prefix []byte, from int64, dst []T) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	if err := db.enter(); err != nil {
		return 0, err
	}
	defer db.leave()
	var buf [keyBuffer]byte
	key := slotKey(buf[:0], prefix, from)
	var cErr *C.char
	n := C.tmq_read_units(rawDB(db.c), rawReadOptions(db.read), rawFamily(db.units), bytesPointer(key), C.size_t(len(key)),
		unitsPointer(dst), C.int64_t(len(dst)), &cErr)
	runtime.KeepAlive(db)
	if text := takeError(cErr); text != "" {
		return 0, db.fail("read units", text)
	}
	return int(n), nil
}

// Found is a unit and its slot; Slot is -1 when there is none.
type Found struct {
	Slot int64
	Unit Unit
}

// LowerBound searches the slots [from, end) of one queue, in which physical offsets rise, for the boundary at phyOffset: at
// is the first unit whose record starts at or above it, below the last one whose record starts under it. Slots without a
// unit are passed over. About two seeks per halving, in one call into C.
func (db *DB) LowerBound(prefix []byte, from, end, phyOffset int64) (below, at Found, err error) {
	if err := db.enter(); err != nil {
		return Found{}, Found{}, err
	}
	defer db.leave()
	var buf [keyBuffer]byte
	key := slotKey(buf[:0], prefix, from)
	var (
		cErr    *C.char
		cBelow  C.tmq_found
		cAt     C.tmq_found
		convert = func(f C.tmq_found) Found { return Found{Slot: int64(f.slot), Unit: unitFromC(f.unit)} }
	)
	C.tmq_lower_bound(rawDB(db.c), rawReadOptions(db.read), rawFamily(db.units), bytesPointer(key), C.size_t(len(key)),
		C.int64_t(end), C.int64_t(phyOffset), &cBelow, &cAt, &cErr)
	if text := takeError(cErr); text != "" {
		return Found{}, Found{}, db.fail(fmt.Sprintf("search units from slot %d", from), text)
	}
	return convert(cBelow), convert(cAt), nil
}

// TimeBound searches the slots [from, end) of one queue, in which store times rise or stay, for the boundary at timestampMs: at is the first slot whose
// unit was stored then or later, end when there is none; below is the last slot with a unit before it, from-1 when there is none. Slots without a unit are
// passed over. One seek per halving, in one call into C, however the times lie.
//
// stop is not nil where the search met a unit that tells no time, and then everything else is nothing: a unit that is none (size or position) or one
// without a store time.
func (db *DB) TimeBound(prefix []byte, from, end, timestampMs int64) (below, at int64, stop *Found, err error) {
	if err := db.enter(); err != nil {
		return 0, 0, nil, err
	}
	defer db.leave()
	var buf [keyBuffer]byte
	key := slotKey(buf[:0], prefix, from)
	var (
		cErr   *C.char
		cBelow C.tmq_found
		cAt    C.tmq_found
	)
	is := C.tmq_time_bound(rawDB(db.c), rawReadOptions(db.read), rawFamily(db.units), bytesPointer(key), C.size_t(len(key)),
		C.int64_t(end), C.int64_t(timestampMs), &cBelow, &cAt, &cErr)
	if text := takeError(cErr); text != "" {
		return 0, 0, nil, db.fail(fmt.Sprintf("search units by time from slot %d", from), text)
	}
	if is != C.TMQ_DONE {
		return 0, 0, &Found{Slot: int64(cAt.slot), Unit: unitFromC(cAt.unit)}, nil
	}
	return int64(cBelow.slot), int64(cAt.slot), nil, nil
}

// keyBuffer holds the keys of all topics that RocketMQ can write (300 bytes) without allocation.
const keyBuffer = 320

func slotKey(dst, prefix []byte, slot int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, prefix...), uint64(slot))
}
