package store

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tandemq/tandemmq/message"
)

// What a put refuses, all in bytes and before any lock or offset is taken.
//
//	topic          1 to 255 bytes; over 127 a V2 record, refused without autoMessageVersionOnTopicLen   MESSAGE_ILLEGAL
//	               a byte below 0x20, 0x7F or '/' in it, "." and ".."                                   MESSAGE_ILLEGAL
//	queue id       below 0                                                                              MESSAGE_ILLEGAL
//	hosts          without an address                                                                   MESSAGE_ILLEGAL
//	body           over maxMessageSize                                                                  MESSAGE_ILLEGAL
//	properties     over 32767, those that the store adds included                                       PROPERTIES_SIZE_EXCEEDED
//	record         over a log file less 8 bytes (W1)                                                    MESSAGE_ILLEGAL
//	properties     an element that is not name 0x01 value: a separator in a value (W23)                 MESSAGE_ILLEGAL
//	INNER_NUM      without the flag of an inner batch; with it, not a number from 1 to 32767            MESSAGE_ILLEGAL
//	inner batch    on a topic that has no batch queues                                                  MESSAGE_ILLEGAL
//	DELAY          on SCHEDULE_TOPIC_XXXX, no 32-bit number (W48)                                       MESSAGE_ILLEGAL
//	INNER_MULTI_DISPATCH with enableLmq, on a topic that is dispatched by it: see lmq.go (W4)           MESSAGE_ILLEGAL
//
// The record's other limit in RocketMQ, maxMessageSize and 64 KiB, follows from these. Light queues change none of them (W47).
//
// A topic is a directory's name in file queues, so it must be one; and a record without properties whose topic ends in a zero
// byte reads as torn (message.Record.Decode): a producer must not be able to end a log.
//
// The reserved properties are judged because RocketMQ judges a record by them: one whose INNER_NUM and INNER_BASE, or DELAY
// on the schedule topic, are no numbers counts as corrupt there, and its next clean start cuts the log at it.

// maxInnerNum is what readers take INNER_NUM for: 16 bits, signed.
const maxInnerNum = math.MaxInt16

var errRecordSize = errors.New("record too long")

// lateProperties says which properties are added under the locks, when their values are known.
type lateProperties uint8

const (
	lateBase  lateProperties = 1 << iota // INNER_BASE
	lateLight                            // INNER_MULTI_QUEUE_OFFSET
)

// storeOnly are the properties that nobody but the store writes.
const storeOnly = message.HasMultiQueueOffset | message.HasInnerBase

// checkEnvelope checks what concerns no single record and sets what the options say about all.
func (p *putter) checkEnvelope() error {
	m := &p.msg
	if err := checkTopic(m.Topic); err != nil {
		return &PutError{PutMessageIllegal, err}
	}
	if m.QueueID < 0 {
		return illegal("queue id is %d, want 0 or more", m.QueueID)
	}
	m.PropertyCRC = p.s.o.EnabledAppendPropCRC
	m.V1Only = !p.s.o.AutoMessageVersionOnTopicLen
	m.MaxBodyBytes = int(p.s.live().MaxMessageSize)
	p.late, p.count, p.wait = 0, 0, true
	p.stripes = p.stripes[:0]
	p.stripe = p.s.offsets.Stripe(m.Topic, m.QueueID)
	if t := m.SysFlag & message.FlagTransactionMask; t == message.TransactionNone || t == message.TransactionCommit {
		p.count = 1
		p.stripes = append(p.stripes, p.stripe)
	}
	return nil
}

// checkTopic tells why a name can be no topic. How long it may be the encoder knows.
func checkTopic[T string | []byte](topic T) error {
	for i := range len(topic) {
		if c := topic[i]; c < 0x20 || c == 0x7F || c == '/' {
			return fmt.Errorf("topic %q: byte %d is %#02x, which no topic can have", topic, i, c)
		}
	}
	if string(topic) == "." || string(topic) == ".." {
		return fmt.Errorf("topic %q: no directory can have that name", topic)
	}
	return nil
}

// recordSize returns the bytes of the record of p.msg, if it keeps all limits.
func (p *putter) recordSize() (int, error) {
	size, err := p.msg.EncodedSize()
	if err != nil {
		return 0, limitError(err)
	}
	if int64(size) > p.s.maxRecord {
		return 0, illegal("%w: %d bytes, want at most %d (a log file and the 8 bytes that end it)", errRecordSize, size, p.s.maxRecord)
	}
	return size, nil
}

// checkMessage checks a single message and completes it but for what the locks are needed for.
func (p *putter) checkMessage() (err error) {
	if err := p.checkEnvelope(); err != nil {
		return err
	}
	m := &p.msg
	if p.size, err = p.recordSize(); err != nil {
		return err
	}
	scan, err := message.ScanProperties(m.Properties)
	if err != nil {
		return &PutError{PutMessageIllegal, err}
	}
	inner := m.SysFlag&message.FlagInnerBatch != 0
	if scan.Has == 0 && !inner {
		return nil
	}
	if err := checkReserved(m, scan.Has, inner); err != nil {
		return err
	}
	if inner {
		num, err := p.innerNum(scan.Has)
		if err != nil {
			return err
		}
		p.beInner(num)
	}
	if err := p.checkLight(scan.Has); err != nil {
		return err
	}
	if scan.Has&message.HasWait != 0 {
		p.wait = waits(m.Properties)
	}
	return p.keepProperties(scan.Has&storeOnly, 0)
}

// checkUnflushed is checkMessage of a message that is not waited for.
func (p *putter) checkUnflushed() error {
	err := p.checkMessage()
	p.wait = false
	return err
}

// checkReserved checks the reserved properties that a record is judged by.
func checkReserved(m *message.Message, has message.PropertySet, inner bool) error {
	if has&message.HasInnerNum != 0 && !inner {
		return illegal("property %s in a message that is no inner batch", message.PropertyInnerNum)
	}
	if has&message.HasDelay != 0 && m.Topic == message.TopicSchedule {
		if _, err := numberProperty(m.Properties, message.PropertyDelay, 32); err != nil {
			return err
		}
	}
	return nil
}

// numberProperty returns the value of a property that must be a decimal number of so many bits.
func numberProperty(properties []byte, name string, bits int) (int64, error) {
	value, _ := message.FindProperty(properties, name)
	n, err := strconv.ParseInt(string(value), 10, bits)
	if err != nil {
		return 0, illegal("property %s is %q, want a number of %d bits", name, value, bits)
	}
	return n, nil
}

// innerNum returns the number of messages of an inner batch that came as one.
func (p *putter) innerNum(has message.PropertySet) (int64, error) {
	if !p.s.isBatchTopic(p.msg.Topic) {
		return 0, illegal("inner batch for topic %q, which has no batch queues", p.msg.Topic)
	}
	if has&message.HasInnerNum == 0 {
		return 0, illegal("inner batch without property %s", message.PropertyInnerNum)
	}
	num, err := numberProperty(p.msg.Properties, message.PropertyInnerNum, 16)
	if err != nil {
		return 0, err
	}
	if num < 1 {
		return 0, illegal("property %s is %d, want 1 to %d", message.PropertyInnerNum, num, maxInnerNum)
	}
	return num, nil
}

// beInner makes the message one that takes num offsets, if it takes any, and tells readers the first of them.
func (p *putter) beInner(num int64) {
	p.late |= lateBase
	if p.count != 0 {
		p.count = num
	}
}

// waits tells whether the producer waits for the disk.
//
// Source: Message.isWaitStoreMsgOK, 5.5.0.
func waits(properties []byte) bool {
	value, ok := message.FindProperty(properties, message.PropertyWait)
	return !ok || strings.EqualFold(string(value), "true")
}

// keepProperties leaves those out that are named by drop, and makes way for those that the store adds: with innerNum above
// 0 that property now, the late ones under the locks.
func (p *putter) keepProperties(drop message.PropertySet, innerNum int64) (err error) {
	if drop == 0 && p.late == 0 {
		return nil
	}
	p.kept = message.AppendPropertiesWithout(p.kept[:0], p.msg.Properties, drop)
	if innerNum > 0 {
		p.text = strconv.AppendInt(p.text[:0], innerNum, 10)
		p.kept = appendOwn(p.kept, message.PropertyInnerNum, p.text)
	}
	p.msg.Properties = p.kept
	p.size, err = p.recordSize()
	return err
}

// complete adds the late properties and sets p.size again. The stripes of the light queues are held. It changes nothing but
// p, so it may be done again, and after an error nothing was taken.
func (p *putter) complete() (err error) {
	p.props = append(p.props[:0], p.kept...)
	if p.late&lateBase != 0 {
		p.text = strconv.AppendInt(p.text[:0], p.msg.QueueOffset, 10)
		p.props = appendOwn(p.props, message.PropertyInnerBase, p.text)
	}
	if p.late&lateLight != 0 {
		p.text = p.appendLightOffsets(p.text[:0])
		p.props = appendOwn(p.props, message.PropertyMultiQueueOffset, p.text)
	}
	p.msg.Properties = p.props
	p.size, err = p.recordSize()
	return err
}

// appendOwn is message.AppendProperty for a value of bytes.
func appendOwn(dst []byte, name string, value []byte) []byte {
	dst = append(dst, name...)
	dst = append(dst, 1)
	dst = append(dst, value...)
	return append(dst, 2)
}
