package message

import (
	"encoding/binary"
	"iter"
)

// BatchElement is one message of a batch as a producer sends it: the body of the request is elements end to end. The store
// makes a record of each (or keeps the body whole, as an inner batch). Slices alias the input.
//
//	offset  width  name           meaning
//	0       4      size           of the element: 22+B+P; written, not read
//	4       4      magic          0; not read
//	8       4      bodyCRC        0; not read
//	12      4      flag
//	16      4      bodyLen
//	20      B      body
//	20+B    2      propertiesLen
//	22+B    P      properties
//
// Source: MessageDecoder.encodeMessage, MessageExtEncoder.encode of a MessageExtBatch, 5.5.0.
type BatchElement struct {
	Flag       int32
	Body       []byte
	Properties []byte
}

const batchElementFixed = 22

// Decode reads the element at the start of b and returns its length. Like upstream it goes by the inner lengths and does not
// look at size, magic and bodyCRC. Errors are *DecodeError: ErrTorn when b ends too early, ErrCorrupt for a negative length.
// Never panics, allocates only to build an error.
func (e *BatchElement) Decode(b []byte) (n int, err error) {
	if len(b) < batchElementFixed {
		return 0, &DecodeError{ErrTorn, "batch element", 0, int64(len(b)), batchElementFixed}
	}
	spare := len(b) - batchElementFixed
	body := int(int32(binary.BigEndian.Uint32(b[16:])))
	if body < 0 {
		return 0, &DecodeError{ErrCorrupt, "bodyLen", 16, int64(body), 0}
	}
	if body > spare {
		return 0, &DecodeError{ErrTorn, "bodyLen", 16, int64(body), int64(spare)}
	}
	spare -= body
	at := 20 + body
	properties := int(int16(binary.BigEndian.Uint16(b[at:])))
	if properties < 0 {
		return 0, &DecodeError{ErrCorrupt, "propertiesLen", at, int64(properties), 0}
	}
	if properties > spare {
		return 0, &DecodeError{ErrTorn, "propertiesLen", at, int64(properties), int64(spare)}
	}
	n = at + 2 + properties
	e.Flag = int32(binary.BigEndian.Uint32(b[12:]))
	e.Body = b[20:at:at]
	e.Properties = b[at+2 : n : n]
	return n, nil
}

// AppendTo appends the element. Errors are *LimitError of class ErrPropertiesLength or ErrRecordLength; dst is then returned
// as it was.
func (e *BatchElement) AppendTo(dst []byte) ([]byte, error) {
	if len(e.Properties) > maxPropertyBytes {
		return dst, &LimitError{ErrPropertiesLength, len(e.Properties), 0, maxPropertyBytes}
	}
	size, err := withBody(batchElementFixed+len(e.Properties), len(e.Body))
	if err != nil {
		return dst, err
	}
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(size))
	dst = be.AppendUint64(dst, 0)
	dst = be.AppendUint32(dst, uint32(e.Flag))
	dst = be.AppendUint32(dst, uint32(len(e.Body)))
	dst = append(dst, e.Body...)
	dst = be.AppendUint16(dst, uint16(len(e.Properties)))
	return append(dst, e.Properties...), nil
}

// BatchElements yields the elements of the body of a batch request. It ends behind the first error, whose At counts from
// the start of the failing element.
func BatchElements(body []byte) iter.Seq2[BatchElement, error] {
	return func(yield func(BatchElement, error) bool) {
		for len(body) > 0 {
			var e BatchElement
			n, err := e.Decode(body)
			if !yield(e, err) || err != nil {
				return
			}
			body = body[n:]
		}
	}
}
