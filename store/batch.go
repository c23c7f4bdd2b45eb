package store

import (
	"errors"
	"fmt"
	"math"

	"github.com/tandemq/tandemmq/message"
)

// MaxBatchCount is the most messages of a batch. RocketMQ has no limit and counts in 16 bits, so that 40000 messages move the
// queue's next offset to -25536 (W3); here the count has 64 bits, and the limit bounds what one put holds up. An inner batch
// has at most 32767: its readers take the number for one of 16 bits.
const MaxBatchCount = 1 << 16

// batchElement is one message of a batch and the bytes of its record.
type batchElement struct {
	message.BatchElement
	size int
}

// checkBatch checks a batch and takes it apart.
func (p *putter) checkBatch() error {
	if err := p.checkEnvelope(); err != nil {
		return err
	}
	m := &p.msg
	if t := m.SysFlag & message.FlagTransactionMask; t != message.TransactionNone {
		return illegal("batch of transaction type %#x, want none", t)
	}
	if int64(len(m.Body)) > p.s.live().MaxMessageSize {
		return limitError(fmt.Errorf("body of the whole batch: %w", &message.LimitError{Class: message.ErrBodyLength, Got: len(m.Body), Max: int(p.s.live().MaxMessageSize)}))
	}
	scan, err := message.ScanProperties(m.Properties)
	if err != nil {
		return &PutError{PutMessageIllegal, err}
	}
	if scan.Has&message.HasDelay != 0 {
		level, err := numberProperty(m.Properties, message.PropertyDelay, 32)
		if err != nil {
			return err
		}
		if level > 0 {
			return illegal("batch of delay level %d, want none", level)
		}
	}
	if scan.Has&message.HasWait != 0 {
		p.wait = waits(m.Properties)
	}
	if scan.Has&message.HasUniqKey != 0 && p.s.isBatchTopic(m.Topic) {
		return p.checkInnerBatch(scan.Has)
	}
	if m.SysFlag&message.FlagInnerBatch != 0 {
		return illegal("inner batch for topic %q, which has no batch queues, or without property %s", m.Topic, message.PropertyUniqKey)
	}
	return p.checkElements()
}

// eachElement calls fn with the elements of the body and returns how many they are. The lengths in them are a client's, and believed
// only within the body (W22).
func (p *putter) eachElement(most int64, fn func(e message.BatchElement) error) (n int64, err error) {
	at := 0
	for body := p.msg.Body; at < len(body); n++ {
		if n == most {
			return n, illegal("batch of more than %d messages", most)
		}
		var e message.BatchElement
		length, err := e.Decode(body[at:])
		if err != nil {
			return n, illegal("batch element %d at byte %d: %s", n, at, elementFault(err))
		}
		if err := fn(e); err != nil {
			return n, &PutError{PutStatusOf(err), fmt.Errorf("batch element %d at byte %d: %w", n, at, reasonOf(err))}
		}
		at += length
	}
	if n == 0 {
		return 0, illegal("batch without messages")
	}
	return n, nil
}

// elementFault says why the bytes of a client are no element, in its terms: it sent no record, and tore none.
func elementFault(err error) string {
	var d *message.DecodeError
	switch {
	case !errors.As(err, &d):
		return err.Error()
	case d.At == 0:
		return fmt.Sprintf("%d bytes are left, want %d for an element without body and properties", d.Got, d.Want)
	case errors.Is(err, message.ErrTorn):
		return fmt.Sprintf("%s at its byte %d is %d, but %d bytes are left", d.Field, d.At, d.Got, d.Want)
	}
	return fmt.Sprintf("%s at its byte %d is %d, want 0 or more", d.Field, d.At, d.Got)
}

// checkElements prepares a batch that becomes one record for each element.
func (p *putter) checkElements() error {
	m := &p.msg
	m.PreparedTransactionOffset = 0
	var total int64
	n, err := p.eachElement(MaxBatchCount, func(e message.BatchElement) error {
		if err := p.checkElement(&e); err != nil {
			return err
		}
		total += int64(p.size)
		p.elements = append(p.elements, batchElement{e, p.size})
		return nil
	})
	if err != nil {
		return err
	}
	if most := min(p.s.maxRecord, math.MaxInt32); total > most {
		return illegal("%w: the whole batch has %d bytes in the log, want at most %d (a log file and the 8 bytes that end it)", errRecordSize, total, most)
	}
	p.size, p.count = int(total), n
	return nil
}

// checkElement makes p.msg the message of one element, checks it by the rules of a single one, sets p.size to the bytes of its
// record, and leaves the properties out of it that only the store writes.
func (p *putter) checkElement(e *message.BatchElement) (err error) {
	m := &p.msg
	m.Body, m.Properties = e.Body, e.Properties
	if p.size, err = p.recordSize(); err != nil {
		return err
	}
	scan, err := message.ScanProperties(e.Properties)
	if err != nil {
		return &PutError{PutMessageIllegal, err}
	}
	if err := checkReserved(m, scan.Has, false); err != nil {
		return err
	}
	if scan.Has&storeOnly == 0 {
		return nil
	}
	// Rare, so it may allocate: the client's bytes are not ours to change.
	m.Properties = message.AppendPropertiesWithout(nil, e.Properties, storeOnly)
	e.Properties = m.Properties
	p.size, err = p.recordSize()
	return err
}

// checkInnerBatch prepares a batch that stays one record.
//
// Source: SendMessageProcessor.sendBatchMessage, MessageDecoder.countInnerMsgNum, 5.5.0.
func (p *putter) checkInnerBatch(has message.PropertySet) error {
	m := &p.msg
	num, err := p.eachElement(maxInnerNum, func(message.BatchElement) error { return nil })
	if err != nil {
		return err
	}
	if err := checkReserved(m, has, true); err != nil {
		return err
	}
	m.SysFlag |= message.FlagNeedUnwrap | message.FlagInnerBatch
	p.beInner(num)
	if err := p.checkLight(has); err != nil {
		return err
	}
	return p.keepProperties(has&(storeOnly|message.HasInnerNum), num)
}
