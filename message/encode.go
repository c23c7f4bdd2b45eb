package message

import (
	"encoding/binary"
	"math"
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
}

// EncodedSize returns the bytes AppendTo appends. Every limit is one of bytes. Errors are *LimitError of class ErrTopicLength
// (empty, or more than 255), ErrPropertiesLength (more than 32767, the checksum property included), ErrBodyLength,
// ErrRecordLength (the record would pass 2 GiB), or ErrNoHost itself.
func (m *Message) EncodedSize() (int, error) {
	if len(m.Topic) == 0 || len(m.Topic) > maxTopicBytes {
		return 0, &LimitError{ErrTopicLength, len(m.Topic), 1, maxTopicBytes}
	}
	if m.MaxBodyBytes > 0 && len(m.Body) > m.MaxBodyBytes {
		return 0, &LimitError{ErrBodyLength, len(m.Body), 0, m.MaxBodyBytes}
	}
	properties := m.propertiesSize()
	if properties > maxPropertyBytes {
		return 0, &LimitError{ErrPropertiesLength, properties, 0, maxPropertyBytes}
	}
	if !m.BornHost.Addr.IsValid() || !m.StoreHost.Addr.IsValid() {
		return 0, ErrNoHost
	}
	size := fixedSize + m.BornHost.size() + m.StoreHost.size() + 1 + len(m.Topic) + properties
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
	magic := MagicV1
	if m.v2() {
		magic = MagicV2
	}
	sysFlag := m.SysFlag &^ (FlagBornHostV6 | FlagStoreHostV6)
	if !m.BornHost.Addr.Is4() {
		sysFlag |= FlagBornHostV6
	}
	if !m.StoreHost.Addr.Is4() {
		sysFlag |= FlagStoreHostV6
	}
	start := len(dst)
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(size))
	dst = be.AppendUint32(dst, uint32(magic))
	dst = be.AppendUint32(dst, uint32(checksum(m.Body)))
	dst = be.AppendUint32(dst, uint32(m.QueueID))
	dst = be.AppendUint32(dst, uint32(m.Flag))
	dst = be.AppendUint64(dst, uint64(m.QueueOffset))
	dst = be.AppendUint64(dst, uint64(m.PhyOffset))
	dst = be.AppendUint32(dst, uint32(sysFlag))
	dst = be.AppendUint64(dst, uint64(m.BornTimestampMs))
	dst = m.BornHost.appendTo(dst)
	dst = be.AppendUint64(dst, uint64(m.StoreTimestampMs))
	dst = m.StoreHost.appendTo(dst)
	dst = be.AppendUint32(dst, uint32(m.ReconsumeTimes))
	dst = be.AppendUint64(dst, uint64(m.PreparedTransactionOffset))
	dst = be.AppendUint32(dst, uint32(len(m.Body)))
	dst = append(dst, m.Body...)
	if m.v2() {
		dst = be.AppendUint16(dst, uint16(len(m.Topic)))
	} else {
		dst = append(dst, byte(len(m.Topic)))
	}
	dst = append(dst, m.Topic...)
	dst = be.AppendUint16(dst, uint16(m.propertiesSize()))
	if !m.PropertyCRC {
		return append(dst, m.Properties...), nil
	}
	dst = appendWithoutCRC(dst, m.Properties)
	dst = append(dst, emptyPropertyCRC...)
	PutPropertyCRC(dst[start:])
	return dst, nil
}

// propertiesSize returns the bytes of the property string as it will be stored.
func (m *Message) propertiesSize() int {
	if !m.PropertyCRC {
		return len(m.Properties)
	}
	return sizeWithoutCRC(m.Properties) + PropertyCRCSize
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
