package file

import (
	"encoding/binary"

	"github.com/tandemq/tandemmq/cq"
)

// A queue file is an array of units. All integers are big-endian and signed.
//
//	offset  width  name      type  meaning                                                       source
//	0       8      phy       i64   position of the record in the CommitLog                       ConsumeQueue.putMessagePositionInfo
//	8       4      size      i32   length of the whole record                                    ConsumeQueue.putMessagePositionInfo
//	12      8      tagsCode  i64   hash of TAGS, delivery time, or address of an extension unit  ConsumeQueue.putMessagePositionInfo
//
// Slot n of a queue lies at byte n*20 of the run of files. A file is named by the position of its first byte (20 digits)
// and holds a whole number of units; all files of a store have one length. Files are made in full length, so what was not
// written reads as zero.
//
// What 20 bytes can be:
//
//	unit       phy >= 0, size > 0                                                                ConsumeQueue.recover
//	pre-blank  phy 0, size 0x7FFFFFFF, tags 0: filler below the first slot, from the start of
//	           the first file                                                                    ConsumeQueue.fillPreBlank
//	synthetic  size 1, tags 0: written by Publish into the last slot of a queue without records; no
//	           record is one byte long. RocketMQ takes it for an expired unit and so keeps the max,
//	           which it would not with pre-blank alone
//	free       all zero: no unit was written here
//	damage     anything else
//
// Versions: 5.5.0.
const (
	unitBytes    = 20
	unitsPerPage = 4096 / unitBytes
	phyAt        = 0
	sizeAt       = 8
	tagsAt       = 12
	syntheticSz  = 1

	// DefaultFileBytes is the length of a queue file where no file tells another one: 300,000 units.
	// Source: MessageStoreConfig.mappedFileSizeConsumeQueue, 5.5.0.
	DefaultFileBytes = 300_000 * unitBytes
)

// preBlank is the filler below a queue's first slot.
var preBlank = cq.Unit{Size: cq.PreBlankSize, StoreTimestampMs: cq.NoTimestamp}

// synthetic returns the filler for the last slot of a queue whose records are all gone. phyOffset lies below the log's min.
func synthetic(phyOffset int64) cq.Unit {
	return cq.Unit{PhyOffset: phyOffset, Size: syntheticSz, StoreTimestampMs: cq.NoTimestamp}
}

// decodeUnit reads the 20 bytes at the start of b. Whatever they hold, it succeeds; judge with valid and filler.
func decodeUnit(b []byte) cq.Unit {
	_ = b[unitBytes-1]
	return cq.Unit{
		PhyOffset:        int64(binary.BigEndian.Uint64(b[phyAt:])),
		Size:             int32(binary.BigEndian.Uint32(b[sizeAt:])),
		TagsCode:         int64(binary.BigEndian.Uint64(b[tagsAt:])),
		StoreTimestampMs: cq.NoTimestamp,
	}
}

// putUnit writes the 20 bytes of u to the start of b.
func putUnit(b []byte, u cq.Unit) {
	_ = b[unitBytes-1]
	binary.BigEndian.PutUint64(b[phyAt:], uint64(u.PhyOffset))
	binary.BigEndian.PutUint32(b[sizeAt:], uint32(u.Size))
	binary.BigEndian.PutUint64(b[tagsAt:], uint64(u.TagsCode))
}

// valid tells whether RocketMQ counts u when it looks for the end of a queue; fillers do count.
// Source: ConsumeQueue.recover, 5.5.0.
func valid(u cq.Unit) bool { return u.PhyOffset >= 0 && u.Size > 0 }

// free tells whether nothing was ever written there.
func free(u cq.Unit) bool { return u.PhyOffset == 0 && u.Size == 0 && u.TagsCode == 0 }

// filler tells whether u keeps a slot without pointing to a record.
func filler(u cq.Unit) bool {
	return u.IsPreBlank() || isSynthetic(u) || u.IsLost()
}

func isSynthetic(u cq.Unit) bool { return u.Size == syntheticSz && u.TagsCode == 0 }
