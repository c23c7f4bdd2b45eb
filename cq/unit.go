package cq

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// Kind names a store of consume queues the way RocketMQ operators know it.
type Kind string

// The kinds of store.
const (
	KindFile    Kind = "file"    // mapped files, storeType=default
	KindRocks   Kind = "rocks"   // RocksDB, storeType=defaultRocksDB
	KindCombine Kind = "combine" // both, rocksdbCQDoubleWriteEnable=true
)

// NoTimestamp is the StoreTimestampMs of a unit whose store keeps no time (the file format).
const NoTimestamp int64 = -1

// LMQPrefix begins the name of a light queue. A light queue always has queue id 0.
const LMQPrefix = "%LMQ%"

// Key names one queue: a topic and a queue id >= 0.
type Key struct {
	Topic   string
	QueueID int32
}

// String returns topic/queueId, as an operator finds it on disk.
func (k Key) String() string { return fmt.Sprintf("%s/%d", k.Topic, k.QueueID) }

// IsLMQ tells whether the queue is a light queue.
func (k Key) IsLMQ() bool { return strings.HasPrefix(k.Topic, LMQPrefix) }

// Compare orders keys as a person lists them: by topic bytes, then queue id.
func (k Key) Compare(o Key) int {
	if c := strings.Compare(k.Topic, o.Topic); c != 0 {
		return c
	}
	return cmp.Compare(k.QueueID, o.QueueID)
}

// Unit is one consume queue entry (CqUnit). It occupies 20 bytes in a queue file and 28 in a RocksDB value; the layouts
// are drawn beside their codecs in cq/file and cq/rocks.
type Unit struct {
	PhyOffset        int64 // byte position of the record in the CommitLog
	TagsCode         int64 // hash of TAGS, delivery time of a delayed message, or an ext address (IsExtAddress)
	StoreTimestampMs int64 // store time of the record in ms since the epoch; NoTimestamp where the store keeps none
	Size             int32 // length of the whole record in bytes (TOTALSIZE)
}

// AppendUnit appends u to b as the 20 bytes that it has in a queue file, big-endian: position, size, tags code. It is the form that checksums of units are made of, since all stores agree in it.
func AppendUnit(b []byte, u Unit) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(u.PhyOffset))
	b = binary.BigEndian.AppendUint32(b, uint32(u.Size))
	return binary.BigEndian.AppendUint64(b, uint64(u.TagsCode))
}

// PreBlankSize marks a pre-blank unit: filler that the file format puts below a queue's first real unit.
const PreBlankSize int32 = math.MaxInt32

// IsPreBlank tells whether u is filler (phy 0, size 0x7FFFFFFF, tags 0).
// Source: ConsumeQueue.fillPreBlank, 5.5.0.
func (u Unit) IsPreBlank() bool { return u.Size == PreBlankSize && u.PhyOffset == 0 && u.TagsCode == 0 }

// lostTags is the tags code of a unit that keeps the slot of a lost record: no tags have it, so that readers who want some pass it over.
const lostTags int64 = 1 << 32

// LostUnit is what a queue file has in the slot of a record that the log has lost: filler, told from that below a queue's first unit by its tags code. RocketMQ 5.5.0 counts it as a
// unit, finds no record for it, and answers MESSAGE_WAS_REMOVING. RocksDB has no row for such a slot.
func LostUnit() Unit {
	return Unit{Size: PreBlankSize, TagsCode: lostTags, StoreTimestampMs: NoTimestamp}
}

// IsLost tells whether u keeps the slot of a lost record.
func (u Unit) IsLost() bool {
	return u.Size == PreBlankSize && u.PhyOffset == 0 && u.TagsCode == lostTags
}

// IsExtAddress tells whether a stored tags code is the address of a unit in the queue's extension files.
// Source: ConsumeQueueExt.isExtAddr, 5.5.0: addresses are <= Integer.MIN_VALUE - 1, hashes are not.
func IsExtAddress(tagsCode int64) bool { return tagsCode <= math.MinInt32-1 }

// ExtReader is a Reader of queues that may have extension files.
type ExtReader interface {
	// HasExtFile tells whether an extension file of queue k has the place that an address stands for.
	HasExtFile(k Key, address int64) bool
}

// IsExtLost tells whether the tags code of a unit, as a queue of r was read, is the address of an extension unit that is lost. Reading puts the tags code of an extension unit in the place
// of its address: one that stays is that of no unit, and where no file has the place either, nothing says that an address was meant, and the tags code is a wrong one.
func IsExtLost(r Reader, k Key, tagsCode int64) bool {
	if !IsExtAddress(tagsCode) {
		return false
	}
	x, ok := r.(ExtReader)
	return ok && x.HasExtFile(k, tagsCode)
}

// End returns the physical offset just past the record the unit points to.
func (u Unit) End() int64 { return u.PhyOffset + int64(u.Size) }

// SameRecord tells whether two units say the same about a message: position, size and tags code. Times are compared by
// the caller where both sides keep one.
func (u Unit) SameRecord(o Unit) bool {
	return u.PhyOffset == o.PhyOffset && u.Size == o.Size && u.TagsCode == o.TagsCode
}

// Entry is a unit together with the slot it belongs to.
type Entry struct {
	Key         Key
	QueueOffset int64
	Unit        Unit
}

// Bounds are the limits of one queue.
type Bounds struct {
	Min int64 // first readable slot, derived from the log's min physical offset; Max when nothing is readable
	Max int64 // next slot to be assigned (exclusive)

	// MinPhyOffset is the physical offset of the unit at Min, or -1 when Min == Max.
	MinPhyOffset int64
	// MaxPhyOffset is the physical offset just past the record of the last real unit, or -1 when there is none.
	MaxPhyOffset int64
	// LastPhyOffset is the physical offset of the start of that record, or -1 when there is none.
	LastPhyOffset int64
}

// Empty tells whether no slot is readable.
func (b Bounds) Empty() bool { return b.Min >= b.Max }
