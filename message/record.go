package message

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Magic numbers, the second field of everything in a log file.
//
// Source: MessageVersion, CommitLog, 5.5.0.
const (
	MagicV1    int32 = -626843481 // DA A3 20 A7: record, topic length in one byte
	MagicV2    int32 = -626843477 // DA A3 20 AB: record, topic length in two bytes
	MagicBlank int32 = -875286124 // CB D4 31 94: filler to the end of the file
)

// Sizes of the format, in bytes.
const (
	BlankHeaderSize = 8  // all of a filler that is written
	MinRecordSize   = 91 // V1, both hosts IPv4, everything else empty

	hostV4Size  = 8  // address 4, port 4
	hostV6Size  = 20 // address 16, port 4
	hostV6Extra = hostV6Size - hostV4Size
	// fixedSize is what is left of a record without hosts, topic length field, body, topic and properties.
	fixedSize = 74
)

// Offsets of the fields whose place does not depend on the hosts.
const (
	atTotalSize      = 0
	atMagic          = 4
	atBodyCRC        = 8
	atQueueID        = 12
	atFlag           = 16
	atQueueOffset    = 20
	atPhyOffset      = 28
	atSysFlag        = 36
	atBornTimestamp  = 40
	atBornHost       = 48
	bodyCRCMask      = math.MaxInt32 // a stored checksum has 31 bits
	bodyLenIPv4      = 84            // place of the body length when both hosts are IPv4
	bodyIPv4         = 88            // place of the body when both hosts are IPv4
	maxTopicV1Bytes  = 127           // longest topic we put into a V1 record
	maxTopicBytes    = 255
	maxPropertyBytes = math.MaxInt16
)

// Record is a decoded record. Its slices alias the input of Decode; nothing is copied.
//
// All integers are big-endian and signed, but the topic length. b and s are 8 for an IPv4 host and 20 for an IPv6 one, told
// by the SysFlag; t is 1 in V1 and 2 in V2; B, T, P are the lengths of body, topic and properties.
//
//	offset          width  name                       meaning
//	0               4      totalSize                  of the whole record, this field included: 74+b+s+B+t+T+P
//	4               4      magic                      MagicV1 or MagicV2
//	8               4      bodyCRC                    CRC-32 (IEEE) of the stored body, top bit cleared; 0 for no body
//	12              4      queueId
//	16              4      flag                       the producer's own, opaque
//	20              8      queueOffset                slot in queue (topic, queueId); 0 for prepared and rolled back
//	28              8      phyOffset                  position of this record in the CommitLog
//	36              4      sysFlag                    bits in sysflag.go
//	40              8      bornTimestamp              ms, producer's clock
//	48              b      bornHost                   address, port i32
//	48+b            8      storeTimestamp             ms, store's clock
//	56+b            s      storeHost                  address, port i32
//	56+b+s          4      reconsumeTimes
//	60+b+s          8      preparedTransactionOffset
//	68+b+s          4      bodyLen
//	72+b+s          B      body
//	72+b+s+B        t      topicLen                   unsigned
//	72+b+s+B+t      T      topic                      UTF-8
//	72+b+s+B+t+T    2      propertiesLen
//	74+b+s+B+t+T    P      properties                 properties.go
//
// Upstream reads the topic length signed. A V1 topic of 128 to 255 bytes, which it can write (it measures characters) and not
// read back, is a record here.
//
// Source: CommitLog.checkMessageAndReturnSize, MessageExtEncoder.encode, 5.5.0.
type Record struct {
	TotalSize        int32
	Magic            int32
	BodyCRC          int32
	QueueID          int32
	Flag             int32
	SysFlag          int32
	QueueOffset      int64
	PhyOffset        int64
	BornTimestampMs  int64
	StoreTimestampMs int64
	BornHost         []byte // 8 or 20 bytes, for DecodeHost
	StoreHost        []byte // 8 or 20 bytes, for DecodeHost

	ReconsumeTimes            int32
	PreparedTransactionOffset int64

	Body       []byte
	Topic      []byte
	Properties []byte

	Raw []byte // the whole record, TotalSize bytes
}

// Decode reads the record at the start of b, which may go on behind it. On error r is left as it was. Never panics,
// allocates only to build an error. With checkCRC the checksum of a non-empty body is verified.
//
// What stands at the start of b decides the class of the error, the first line that fits:
//
//	b is empty, or shorter than 8 bytes and all zero             ErrEnd
//	b is shorter than 8 bytes                                    ErrTorn     size or magic missing
//	size 0 and magic 0                                           ErrEnd      whatever stands behind: the caller looks there
//	magic BLANK, size >= 8                                       ErrBlank    whether it reaches the end of the file: the caller
//	size below 91 (negative, 0 with a magic, too small)          ErrCorrupt  no cut write leaves this: size goes first
//	magic is the beginning of a known one (down to none of its
//	bytes), zeros from there to the announced end                ErrTorn     a write stopped inside the header
//	magic unknown                                                ErrCorrupt
//	size beyond the end of b                                     ErrTorn     a damaged size looks the same
//	size below that of the empty record with these hosts         ErrCorrupt
//	body or topic would pass the announced end,
//	negative bodyLen or propertiesLen                            ErrCorrupt
//	lengths do not add up to size, zeros from propertiesLen
//	to the announced end                                         ErrTorn     a write stopped in header, body or topic
//	lengths do not add up to size                                ErrCorrupt
//	topic ends in a zero byte and there are no properties        ErrTorn     a write stopped in the topic
//	checksum of the body differs (checkCRC)                      ErrCorrupt
//
// The ErrTorn lines with zeros are what a process killed in the middle of a store into a zeroed, preallocated file leaves:
// the first k bytes of a record, then zeros, with the end of b far behind. A size cut in its last byte is a multiple of 256
// and falls under the first of them. A record cut inside its properties keeps all its lengths and its body: nothing but
// the property checksum (VerifyPropertyCRC) can tell, and without one it is a record, to upstream as well. (That properties
// end in a zero is no sign: a producer may send such a value, and must not be able to end a log by it.) Pages lost out of
// order leave zeros in the middle, which is ErrCorrupt (or ErrEnd for a lost header). So the class describes these bytes
// alone: that a log ends here, and not in the middle of good records, can only be said after a look behind them.
//
// Upstream counts a negative bodyLen or propertiesLen as 0. It never writes the former; it writes the latter for properties of
// a batch element beyond 32767 bytes and then takes the record for half a message, and its clients would lose their place in
// it. Both are ErrCorrupt here.
//
// Topic (but for that last byte), queue id, timestamps, offsets and properties are not judged.
//
// Source: CommitLog.checkMessageAndReturnSize, 5.5.0; it also parses properties, on purpose not done here.
func (r *Record) Decode(b []byte, checkCRC bool) error {
	if len(b) < BlankHeaderSize {
		return decodeShort(b)
	}
	size := int32(binary.BigEndian.Uint32(b[atTotalSize:]))
	magic := int32(binary.BigEndian.Uint32(b[atMagic:]))
	topicLenSize := 1
	if magic != MagicV1 {
		if magic != MagicV2 {
			return decodeNoMagic(b, size, magic)
		}
		topicLenSize = 2
	}
	if size < MinRecordSize {
		return &DecodeError{ErrCorrupt, "totalSize", atTotalSize, int64(size), MinRecordSize}
	}
	if int(size) > len(b) {
		return &DecodeError{ErrTorn, "totalSize", atTotalSize, int64(size), int64(len(b))}
	}
	b = b[:size:size]
	sysFlag := int32(binary.BigEndian.Uint32(b[atSysFlag:]))
	born, store := hostV4Size, hostV4Size
	if sysFlag&(FlagBornHostV6|FlagStoreHostV6) != 0 {
		if sysFlag&FlagBornHostV6 != 0 {
			born = hostV6Size
		}
		if sysFlag&FlagStoreHostV6 != 0 {
			store = hostV6Size
		}
	}
	// spare is what body, topic and properties have to share; each length read takes its part.
	spare := len(b) - fixedSize - born - store - topicLenSize
	if spare < 0 {
		return &DecodeError{ErrCorrupt, "totalSize", atTotalSize, int64(size), int64(len(b) - spare)}
	}
	tail := b[atBornHost+born:] // storeTimestamp, storeHost, reconsumeTimes, ...
	rest := tail[8+store:]      // reconsumeTimes, preparedTransactionOffset, bodyLen, body, ...
	bodyLen := int(int32(binary.BigEndian.Uint32(rest[12:])))
	if uint(bodyLen) > uint(spare) {
		return &DecodeError{ErrCorrupt, "bodyLen", len(b) - len(rest) + 12, int64(bodyLen), int64(spare)}
	}
	spare -= bodyLen
	body, names := rest[16:16+bodyLen:16+bodyLen], rest[16+bodyLen:]
	topicLen := int(names[0])
	if topicLenSize == 2 {
		topicLen = int(binary.BigEndian.Uint16(names))
	}
	if topicLen > spare {
		return &DecodeError{ErrCorrupt, "topicLen", len(b) - len(names), int64(topicLen), int64(spare)}
	}
	spare -= topicLen
	topic, last := names[topicLenSize:topicLenSize+topicLen:topicLenSize+topicLen], names[topicLenSize+topicLen:]
	if int(int16(binary.BigEndian.Uint16(last))) != spare {
		return decodeSizesDiffer(b, last, spare)
	}
	if spare == 0 && topicLen > 0 && topic[topicLen-1] == 0 {
		return &DecodeError{ErrTorn, "topic", len(b) - len(last) - 1, 0, 1}
	}
	bodyCRC := int32(binary.BigEndian.Uint32(b[atBodyCRC:]))
	if checkCRC && bodyLen > 0 {
		if got := checksum(body); got != bodyCRC {
			return &DecodeError{ErrCorrupt, "bodyCRC", atBodyCRC, int64(bodyCRC), int64(got)}
		}
	}
	r.TotalSize = size
	r.Magic = magic
	r.BodyCRC = bodyCRC
	r.QueueID = int32(binary.BigEndian.Uint32(b[atQueueID:]))
	r.Flag = int32(binary.BigEndian.Uint32(b[atFlag:]))
	r.SysFlag = sysFlag
	r.QueueOffset = int64(binary.BigEndian.Uint64(b[atQueueOffset:]))
	r.PhyOffset = int64(binary.BigEndian.Uint64(b[atPhyOffset:]))
	r.BornTimestampMs = int64(binary.BigEndian.Uint64(b[atBornTimestamp:]))
	r.StoreTimestampMs = int64(binary.BigEndian.Uint64(tail))
	r.BornHost = b[atBornHost : atBornHost+born : atBornHost+born]
	r.StoreHost = tail[8 : 8+store : 8+store]
	r.ReconsumeTimes = int32(binary.BigEndian.Uint32(rest))
	r.PreparedTransactionOffset = int64(binary.BigEndian.Uint64(rest[4:]))
	r.Body = body
	r.Topic = topic
	r.Properties = last[2:]
	r.Raw = b
	return nil
}

// decodeShort classes an input too short to hold a size and a magic.
func decodeShort(b []byte) error {
	class := ErrTorn
	if allZero(b) {
		class = ErrEnd
	}
	return &DecodeError{class, "totalSize", atTotalSize, int64(len(b)), BlankHeaderSize}
}

// decodeNoMagic classes a header without the magic of a record.
func decodeNoMagic(b []byte, size, magic int32) error {
	switch {
	case size == 0 && magic == 0:
		return &DecodeError{ErrEnd, "magic", atMagic, 0, int64(MagicV1)}
	case magic == MagicBlank && size >= BlankHeaderSize:
		return &DecodeError{ErrBlank, "magic", atMagic, int64(magic), int64(MagicV1)}
	case magic == MagicBlank:
		return &DecodeError{ErrCorrupt, "totalSize", atTotalSize, int64(size), BlankHeaderSize}
	case size < MinRecordSize:
		return &DecodeError{ErrCorrupt, "totalSize", atTotalSize, int64(size), MinRecordSize}
	case cutMagic(magic) && allZero(b[BlankHeaderSize:max(BlankHeaderSize, min(int(size), len(b)))]):
		return &DecodeError{ErrTorn, "magic", atMagic, int64(magic), int64(MagicV1)}
	}
	return &DecodeError{ErrCorrupt, "magic", atMagic, int64(magic), int64(MagicV1)}
}

// cutMagic tells whether m is what the first 0 to 3 bytes of a magic, followed by zeros, read as.
func cutMagic(m int32) bool {
	for _, whole := range [...]int32{MagicV1, MagicBlank} { // V2 differs from V1 in the last byte only
		for drop := 8; drop <= 32; drop += 8 {
			if m == int32(uint64(uint32(whole))>>drop<<drop) {
				return true
			}
		}
	}
	return false
}

// decodeSizesDiffer classes a record whose lengths do not add up: last begins with the properties length, which had to be
// want.
func decodeSizesDiffer(b, last []byte, want int) error {
	class := ErrCorrupt
	if allZero(last) {
		class = ErrTorn
	}
	return &DecodeError{class, "propertiesLen", len(b) - len(last), int64(int16(binary.BigEndian.Uint16(last))), int64(want)}
}

// BlankSize returns the size of the filler whose first 8 bytes stand at the start of b: the bytes from there to the end of
// the file. False when b is shorter, has another magic, or announces fewer than 8 bytes. Nothing behind the 8 bytes is
// looked at, nor has b to be as long as the filler.
//
//	offset  width  name       meaning
//	0       4      totalSize  bytes to the end of the file, these included
//	4       4      magic      MagicBlank
//	8       ...    undefined; zero in a fresh file
//
// Source: CommitLog.DefaultAppendMessageCallback.doAppend, 5.5.0.
func BlankSize(b []byte) (size int32, ok bool) {
	if len(b) < BlankHeaderSize || int32(binary.BigEndian.Uint32(b[atMagic:])) != MagicBlank {
		return 0, false
	}
	size = int32(binary.BigEndian.Uint32(b))
	return size, size >= BlankHeaderSize
}

// RecordSize returns the length in bytes that the record at the beginning of b says to have; false when no record begins there. Of b only the first BlankHeaderSize
// bytes are looked at.
func RecordSize(b []byte) (size int32, ok bool) {
	if len(b) < BlankHeaderSize {
		return 0, false
	}
	size, magic := int32(binary.BigEndian.Uint32(b)), int32(binary.BigEndian.Uint32(b[atMagic:]))
	return size, size >= MinRecordSize && (magic == MagicV1 || magic == MagicV2)
}

// checksum is the checksum the format uses throughout: CRC-32 (IEEE) without its top bit.
func checksum(b []byte) int32 { return int32(crc32.ChecksumIEEE(b) & bodyCRCMask) }

// VerifyBody is what Decode does about the checksum of the body when it is asked to: sum is the CRC-32 (IEEE) of Body.
func (r *Record) VerifyBody(sum uint32) error {
	if got := int32(sum & bodyCRCMask); len(r.Body) > 0 && got != r.BodyCRC {
		return &DecodeError{ErrCorrupt, "bodyCRC", atBodyCRC, int64(r.BodyCRC), int64(got)}
	}
	return nil
}

// allZero tells whether b holds nothing but zeros.
func allZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.NativeEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
