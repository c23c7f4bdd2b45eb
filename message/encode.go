package message

import (
	"encoding/binary"
	"math"
	"slices"
)

// Message is what an encoder takes: the fields of a Record as a producer and the store give them.
type Message struct {
	Topic            string
	QueueID          int32
	QueueOffset      int64
	PhyOffset        int64
	Flag             int32
	SysFlag          int32 // the two V6 bits are set and cleared by the hosts, whatever is given
	BornTimestampMs  int64
	StoreTimestampMs int64
	BornHost         Host
	StoreHost        Host
	ReconsumeTimes   int32

	PreparedTransactionOffset int64

	Body       []byte
	Properties []byte // see AppendProperty
	// PropertyCRC appends the checksum property of PutPropertyCRC, in place of one that Properties may contain.
	PropertyCRC bool
	// MaxBodyBytes is the longest body accepted; 0 leaves only the limit of the record, 2 GiB.
	MaxBodyBytes int
	// V1Only refuses a topic longer than 127 bytes; without it such a topic makes a V2 record, which clients before 5.0 cannot
	// read. It is autoMessageVersionOnTopicLen turned off.
	V1Only bool
}

// EncodedSize returns the bytes of the record. Every limit is one of bytes. Errors are *LimitError of class ErrTopicLength
// (empty, or more than 255, under V1Only 127), ErrPropertiesLength (more than 32767, the checksum property included),
// ErrBodyLength, ErrRecordLength (the record would pass 2 GiB), or ErrNoHost itself.
func (m *Message) EncodedSize() (int, error) {
	topic := len(m.Topic)
	properties := len(m.Properties)
	if m.PropertyCRC {
		properties = sizeWithoutCRC(m.Properties) + PropertyCRCSize
	}
	maxTopic := maxTopicBytes
	if m.V1Only {
		maxTopic = maxTopicV1Bytes
	}
	switch {
	case topic == 0 || topic > maxTopic:
		return 0, &LimitError{ErrTopicLength, topic, 1, maxTopic}
	case m.MaxBodyBytes > 0 && len(m.Body) > m.MaxBodyBytes:
		return 0, &LimitError{ErrBodyLength, len(m.Body), 0, m.MaxBodyBytes}
	case properties > maxPropertyBytes:
		return 0, &LimitError{ErrPropertiesLength, properties, 0, maxPropertyBytes}
	case !m.BornHost.Addr.IsValid() || !m.StoreHost.Addr.IsValid():
		return 0, ErrNoHost
	}
	size := fixedSize + m.BornHost.size() + m.StoreHost.size() + 1 + topic + properties
	if m.v2() {
		size++
	}
	return withBody(size, len(m.Body))
}

// withBody adds the body to the size of the rest; the sum is stored in 31 bits.
func withBody(rest, body int) (int, error) {
	if body > math.MaxInt32-rest {
		return 0, &LimitError{ErrRecordLength, body, 0, math.MaxInt32 - rest}
	}
	return rest + body, nil
}

// v2 tells whether the topic needs a V2 record. Upstream decides by characters, we by bytes: the two differ for topics which
// are not ASCII, and there upstream cannot read back what it wrote.
func (m *Message) v2() bool { return len(m.Topic) > maxTopicV1Bytes }

// AppendTo appends the record: V2 when the topic is longer than 127 bytes, the body's checksum computed, the V6 bits set by the
// hosts. It does not allocate when dst has room for EncodedSize bytes. On error, the errors of EncodedSize, dst is returned
// as it was.
//
// Source: MessageExtEncoder.encode, 5.5.0.
func (m *Message) AppendTo(dst []byte) ([]byte, error) {
	size, err := m.EncodedSize()
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = slices.Grow(dst, size)[:start+size]
	m.put(dst[start:])
	return dst, nil
}

// PutTo writes the record of AppendTo over dst, which has exactly EncodedSize bytes and may hold anything. Every byte of dst
// is written, the first 8 last; dst is read for the checksum property alone. No allocation. Errors are those of
// EncodedSize, and a *LimitError of class ErrBufferLength for a dst of another length; dst is then as it was.
//
// It takes what one copy and one checksum of the body take, and about 17 ns. The two add up as they do apart, so a checksum made
// beforehand would save nothing.
func (m *Message) PutTo(dst []byte) error {
	size, err := m.EncodedSize()
	if err != nil {
		return err
	}
	if len(dst) != size {
		return &LimitError{ErrBufferLength, len(dst), size, size}
	}
	m.put(dst)
	return nil
}

// put writes the record over dst, which has the bytes EncodedSize returned. Size and magic come last: a process that is killed while it
// encodes into a mapped file leaves no record there whose properties, which no checksum covers, are half copied.
func (m *Message) put(dst []byte) {
	magic := MagicV1
	if m.v2() {
		magic = MagicV2
	}
	head := uint64(len(dst))<<32 | uint64(uint32(magic))
	m.putRest(dst, head)
	binary.BigEndian.PutUint64(dst[atTotalSize:], head)
}

// putRest writes everything but head, the first 8 bytes. It is not inlined, so that nothing of it comes later than what follows.
//
//go:noinline
func (m *Message) putRest(dst []byte, head uint64) {
	bodyCRC := checksum(m.Body)
	sysFlag := m.SysFlag &^ (FlagBornHostV6 | FlagStoreHostV6)
	if !m.BornHost.Addr.Is4() {
		sysFlag |= FlagBornHostV6
	}
	if !m.StoreHost.Addr.Is4() {
		sysFlag |= FlagStoreHostV6
	}
	be := binary.BigEndian
	_ = dst[MinRecordSize-1]
	be.PutUint32(dst[atBodyCRC:], uint32(bodyCRC))
	be.PutUint32(dst[atQueueID:], uint32(m.QueueID))
	be.PutUint32(dst[atFlag:], uint32(m.Flag))
	be.PutUint64(dst[atQueueOffset:], uint64(m.QueueOffset))
	be.PutUint64(dst[atPhyOffset:], uint64(m.PhyOffset))
	be.PutUint32(dst[atSysFlag:], uint32(sysFlag))
	be.PutUint64(dst[atBornTimestamp:], uint64(m.BornTimestampMs))
	var tail []byte // reconsumeTimes and on
	if sysFlag&(FlagBornHostV6|FlagStoreHostV6) == 0 {
		// The common case apart, with every offset a constant: 5 ns less.
		born, store := m.BornHost.Addr.As4(), m.StoreHost.Addr.As4()
		be.PutUint32(dst[48:], be.Uint32(born[:]))
		be.PutUint32(dst[52:], uint32(m.BornHost.Port))
		be.PutUint64(dst[56:], uint64(m.StoreTimestampMs))
		be.PutUint32(dst[64:], be.Uint32(store[:]))
		be.PutUint32(dst[68:], uint32(m.StoreHost.Port))
		tail = dst[72:]
	} else {
		tail = dst[atBornHost:]
		tail = tail[m.BornHost.put(tail):]
		be.PutUint64(tail, uint64(m.StoreTimestampMs))
		tail = tail[8:]
		tail = tail[m.StoreHost.put(tail):]
	}
	_ = tail[15]
	be.PutUint32(tail, uint32(m.ReconsumeTimes))
	be.PutUint64(tail[4:], uint64(m.PreparedTransactionOffset))
	be.PutUint32(tail[12:], uint32(len(m.Body)))
	tail = tail[16:]
	tail = tail[copy(tail, m.Body):]
	if m.v2() {
		be.PutUint16(tail, uint16(len(m.Topic)))
		tail = tail[2:]
	} else {
		tail[0] = byte(len(m.Topic))
		tail = tail[1:]
	}
	tail = tail[copy(tail, m.Topic):]
	be.PutUint16(tail, uint16(len(tail)-2))
	tail = tail[2:]
	if !m.PropertyCRC {
		copy(tail, m.Properties)
		return
	}
	tail = tail[:len(tail)-PropertyCRCSize]
	if len(tail) == len(m.Properties) { // nothing to drop, which would be ten bytes or more, and no separator to add
		copy(tail, m.Properties)
	} else {
		AppendPropertiesWithout(tail[:0], m.Properties, HasCRC)
	}
	putPropertyCRC(dst, head)
}

// Message returns the message that encodes to this record; Body and Properties alias it. Encoding gives the same bytes for
// every record whose version follows from its topic's length in bytes, whose topic is not empty and whose checksum is right.
func (r *Record) Message() Message {
	return Message{
		Topic:                     string(r.Topic),
		QueueID:                   r.QueueID,
		QueueOffset:               r.QueueOffset,
		PhyOffset:                 r.PhyOffset,
		Flag:                      r.Flag,
		SysFlag:                   r.SysFlag,
		BornTimestampMs:           r.BornTimestampMs,
		StoreTimestampMs:          r.StoreTimestampMs,
		BornHost:                  DecodeHost(r.BornHost),
		StoreHost:                 DecodeHost(r.StoreHost),
		ReconsumeTimes:            r.ReconsumeTimes,
		PreparedTransactionOffset: r.PreparedTransactionOffset,
		Body:                      r.Body,
		Properties:                r.Properties,
	}
}

// AppendBlank appends the 8 bytes of a filler that reaches over size bytes, these included. The bytes behind them are the
// caller's to leave as they are. It panics when size is below 8: no room may be left that a filler cannot mark.
func AppendBlank(dst []byte, size int32) []byte {
	if size < BlankHeaderSize {
		panic("message: filler of fewer than 8 bytes")
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	magic := MagicBlank
	return binary.BigEndian.AppendUint32(dst, uint32(magic))
}
