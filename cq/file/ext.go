package file

import (
	"encoding/binary"
	"math"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// An extension file (enableConsumeQueueExt) holds units of varying length, one behind the other, big-endian:
//
//	offset  width  name          type  meaning                                          source
//	0       2      size          i16   length of this unit; < 1: no unit follows here   ConsumeQueueExt.CqExtUnit.read
//	2       8      tagsCode      i64   hash of TAGS, as a plain unit would hold it      ConsumeQueueExt.CqExtUnit.read
//	10      8      msgStoreTime  i64   store time of the record, ms since the epoch     ConsumeQueueExt.CqExtUnit.read
//	18      2      bitMapSize    i16   length of the filter bit map                     ConsumeQueueExt.CqExtUnit.read
//	20      n      bitMap        byte  filter bits, not needed to resolve tags          ConsumeQueueExt.CqExtUnit.read
//
// Files are named like queue files and have one length per store (RocketMQ's default is 50,331,648 bytes). The queue's unit
// then holds, instead of the tags code, the address of the extension unit: its position plus the smallest i64.
// Source: ConsumeQueueExt.decorate and unDecorate, 5.5.0.
const (
	extUnitMinBytes = 20
	extSizeAt       = 0
	extTagsAt       = 2
)

// extPosition returns the position in the run of extension files that an address stands for.
func extPosition(address int64) int64 { return address - math.MinInt64 }

// resolveExt returns the tags code of the extension unit at that address. It is false when there is no such unit; the
// unit's own tags code, the address, then stands, which RocketMQ's filters take for "matches everything".
// Source: ConsumeQueue iterator, 5.5.0.
func resolveExt(ext *mappedfile.Queue, address int64) (tagsCode int64, ok bool) {
	pos := extPosition(address)
	f, ok := ext.Find(pos)
	if !ok {
		return 0, false
	}
	at := pos - f.From()
	if at+extUnitMinBytes > f.Size() {
		return 0, false
	}
	b, err := f.Hold()
	if err != nil {
		return 0, false
	}
	defer f.Release()
	err = mmap.GuardFault(func() error {
		u := b[at : at+extUnitMinBytes]
		size := int16(binary.BigEndian.Uint16(u[extSizeAt:]))
		ok = size >= extUnitMinBytes && at+int64(size) <= f.Size()
		tagsCode = int64(binary.BigEndian.Uint64(u[extTagsAt:]))
		return nil
	})
	return tagsCode, ok && err == nil
}
