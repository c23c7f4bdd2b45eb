package rocks

import (
	"bytes"
	"encoding/binary"

	"github.com/tandemq/tandemmq/cq"
)

// Rows of the database, all numbers big-endian and signed. L is the length of the topic in bytes (UTF-8). Rows sort by length
// of topic, then topic, queue id and slot.
//
//	unit row, family "default"
//	offset   width  name        meaning
//	0            4  i32         L
//	4            1  0x01
//	5            L  bytes       topic
//	5+L          1  0x01
//	6+L          4  i32         queue id
//	10+L         1  0x01
//	11+L         8  i64         slot (queue offset)            key: 19+L bytes
//	value        8  i64         PhyOffset, start of the record
//	             4  i32         Size, length of the whole record
//	             8  i64         TagsCode
//	             8  i64         StoreTimestampMs               value: 28 bytes
//
//	max row and min row, family "offset"
//	0        5+L+1              L, 0x01, topic, 0x01 as above
//	6+L          3  bytes       "max" or "min"
//	9+L          1  0x01
//	10+L         4  i32         queue id                       key: 14+L bytes
//	value        8  i64         PhyOffset, start of the record
//	             8  i64         slot                           value: 16 bytes
//	max: the last slot (inclusive) and its record; 0 where a queue is empty but advanced
//	min: the first visible slot and its record
//
//	checkpoint row, family "offset": the key of a max row of queue 0 of the topic "CHECKPOINT_TOPIC" (30 bytes)
//	value        8  i64         end of the last record dispatched
//
//	delete range of one queue, family "default": from L 0x01 topic 0x01 queue id 0x00 to … 0x02 (11+L bytes each, end excluded)
//
// Readers pass over rows of "offset" whose key has 14 bytes or less or whose value has not 16, which leaves out the
// checkpoint; a tag other than "max" counts as min.
//
// Source: RocksDBConsumeQueueTable, RocksDBConsumeQueueOffsetTable, 5.5.0.
const (
	ctrl         = 0x01
	unitKeyBytes = 19 // without the topic
	rowKeyBytes  = 14 // without the topic
	rowBytes     = 16
	unitBytes    = 28

	checkpointTopic = "CHECKPOINT_TOPIC"
)

// MaxTopicBytes is the longest topic that can be written.
// Source: RocksDBConsumeQueueTable, key buffers of 300 bytes, 5.5.0.
const MaxTopicBytes = 281

var (
	tagMax = [3]byte{'m', 'a', 'x'}
	tagMin = [3]byte{'m', 'i', 'n'}

	checkpointKey = appendRowKey(nil, cq.Key{Topic: checkpointTopic}, tagMax)
)

func appendTopic(dst []byte, topic string) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(topic)))
	dst = append(dst, ctrl)
	dst = append(dst, topic...)
	return append(dst, ctrl)
}

// appendUnitPrefix appends the key of a unit up to the slot.
func appendUnitPrefix(dst []byte, k cq.Key) []byte {
	dst = appendTopic(dst, k.Topic)
	dst = binary.BigEndian.AppendUint32(dst, uint32(k.QueueID))
	return append(dst, ctrl)
}

func appendUnitKey(dst []byte, k cq.Key, slot int64) []byte {
	return binary.BigEndian.AppendUint64(appendUnitPrefix(dst, k), uint64(slot))
}

// appendUnitRange appends the ends of the range that covers all units of a queue.
func appendUnitRange(start, end []byte, k cq.Key) ([]byte, []byte) {
	start = appendUnitPrefix(start, k)
	end = appendUnitPrefix(end, k)
	start[len(start)-1] = 0x00
	end[len(end)-1] = 0x02
	return start, end
}

func appendUnit(dst []byte, u cq.Unit) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(u.PhyOffset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(u.Size))
	dst = binary.BigEndian.AppendUint64(dst, uint64(u.TagsCode))
	return binary.BigEndian.AppendUint64(dst, uint64(u.StoreTimestampMs))
}

func appendRowKey(dst []byte, k cq.Key, tag [3]byte) []byte {
	dst = appendTopic(dst, k.Topic)
	dst = append(dst, tag[:]...)
	dst = append(dst, ctrl)
	return binary.BigEndian.AppendUint32(dst, uint32(k.QueueID))
}

// appendMaxKey appends the key of the max row of the queue whose units have that prefix.
func appendMaxKey(dst, unitPrefix []byte) []byte {
	id := len(unitPrefix) - 5
	dst = append(dst, unitPrefix[:id]...)
	dst = append(dst, tagMax[:]...)
	dst = append(dst, ctrl)
	return append(dst, unitPrefix[id:id+4]...)
}

func appendRow(dst []byte, phyOffset, slot int64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(phyOffset))
	return binary.BigEndian.AppendUint64(dst, uint64(slot))
}

// decodeRowKey takes the key of a max or min row apart; topic aliases key.
func decodeRowKey(key []byte) (topic []byte, queueID int32, isMax, ok bool) {
	n := len(key) - rowKeyBytes
	if n <= 0 || int(binary.BigEndian.Uint32(key)) != n {
		return nil, 0, false, false
	}
	topic = key[5 : 5+n]
	isMax = bytes.Equal(key[6+n:9+n], tagMax[:])
	return topic, int32(binary.BigEndian.Uint32(key[10+n:])), isMax, true
}

func decodeRow(value []byte) (phyOffset, slot int64, ok bool) {
	if len(value) != rowBytes {
		return 0, 0, false
	}
	return int64(binary.BigEndian.Uint64(value)), int64(binary.BigEndian.Uint64(value[8:])), true
}

// CompareKeys orders queues as their rows are: by length of topic first.
func CompareKeys(a, b cq.Key) int {
	if d := len(a.Topic) - len(b.Topic); d != 0 {
		return d
	}
	return a.Compare(b)
}
