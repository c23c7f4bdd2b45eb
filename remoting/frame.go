package remoting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// A frame:
//
//	offset        size       field
//	0             4          length, big-endian int32: counts everything after itself
//	4             1          serialize type: 0 JSON header, 1 binary ("ROCKETMQ") header
//	5             3          headerLen, unsigned, big-endian
//	8             headerLen  header
//	8+headerLen   rest       body
//
// Source: RemotingCommand.encode and decode, NettyDecoder, 5.5.0.

// DefaultMaxFrameBytes is the limit of RocketMQ's servers and Java client for a frame, its 4 bytes of length included.
const DefaultMaxFrameBytes = 16 << 20

// maxExtFields bounds the fields of one header; real ones have fewer than 40.
const maxExtFields = 512

const (
	typeJSON   = 0
	typeBinary = 1
)

// frameHead is the length of what stands before the header.
const frameHead = 8

// ErrMalformed is the class of errors of frames that cannot be decoded. They close their connection.
var ErrMalformed = errors.New("malformed frame")

// FrameError tells where a frame is malformed.
type FrameError struct {
	Offset int // in the frame, its length field included
	Reason string
}

func (e *FrameError) Error() string {
	return fmt.Sprintf("malformed frame: byte %d: %s", e.Offset, e.Reason)
}

// Is reports whether target is ErrMalformed.
func (e *FrameError) Is(target error) bool { return target == ErrMalformed }

// ErrFrameTooLarge is the class of errors of commands that do not fit into a frame.
var ErrFrameTooLarge = errors.New("frame too large")

// DecodeFrame decodes one whole frame, its length field included. The command shares no memory with it.
//
// Errors: *FrameError.
func DecodeFrame(frame []byte) (*Command, error) {
	if len(frame) < frameHead {
		return nil, &FrameError{len(frame), "shorter than its 8 bytes of lengths"}
	}
	if n := int64(int32(binary.BigEndian.Uint32(frame))); n != int64(len(frame)-4) {
		return nil, &FrameError{0, fmt.Sprintf("length %d of a frame with %d bytes after it", n, len(frame)-4)}
	}
	c := new(Command)
	if err := c.decode(slices.Clone(frame[4:])); err != nil {
		return nil, err
	}
	return c, nil
}

// decode fills c, which must be new or cleared, from a frame without its length field. The bytes of the header are overwritten. The body
// refers to b; nothing else does.
func (c *Command) decode(b []byte) error {
	if len(b) < 4 {
		return &FrameError{4, "no room for the length of the header"}
	}
	word := binary.BigEndian.Uint32(b)
	headerLen := int(word & 0xFFFFFF)
	if headerLen > len(b)-4 {
		return &FrameError{5, fmt.Sprintf("header of %d bytes in a frame with %d left", headerLen, len(b)-4)}
	}
	header := b[4 : 4+headerLen]
	switch word >> 24 {
	case typeJSON:
		if err := c.decodeJSON(header); err != nil {
			return err
		}
	case typeBinary:
		if err := c.decodeBinary(header); err != nil {
			return err
		}
	default:
		return &FrameError{4, fmt.Sprintf("serialize type %d is neither 0 nor 1", word>>24)}
	}
	c.Body = nil
	if body := b[4+headerLen:]; len(body) > 0 {
		c.Body = body[:len(body):len(body)]
	}
	return nil
}

// AppendFrame appends the frame of c with a JSON header: compact, keys in order, all fields as strings, nothing escaped that need not be.
//
// Errors: ErrFrameTooLarge for lengths that the frame cannot hold. Payload is ignored.
func AppendFrame(dst []byte, c *Command) ([]byte, error) {
	return appendFrame(dst, c, c.envelope(), typeJSON, len(c.Body), math.MaxInt32)
}

// AppendBinaryFrame appends the frame of c with a binary header. Its code and version have 16 bits.
//
// Errors: ErrFrameTooLarge for lengths that the frame cannot hold. Payload is ignored.
func AppendBinaryFrame(dst []byte, c *Command) ([]byte, error) {
	return appendFrame(dst, c, c.envelope(), typeBinary, len(c.Body), math.MaxInt32)
}

// envelope is what a connection puts in place of a command's own values, without writing to it.
type envelope struct {
	opaque, flag, version int32
	language              Language
}

func (c *Command) envelope() envelope { return envelope{c.Opaque, c.Flag, c.Version, c.Language} }

// appendFrame appends a frame that announces bodyLen bytes of body and carries c.Body. Dst is unchanged on error.
func appendFrame(dst []byte, c *Command, e envelope, serializeType byte, bodyLen, maxBytes int) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	if serializeType == typeBinary {
		dst = appendBinaryHeader(dst, c, e)
	} else {
		dst = appendJSONHeader(dst, c, e)
	}
	headerLen := len(dst) - start - frameHead
	if headerLen > 0xFFFFFF || frameHead+headerLen+bodyLen > maxBytes {
		return dst[:start], fmt.Errorf("%w: header of %d and body of %d bytes", ErrFrameTooLarge, headerLen, bodyLen)
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(4+headerLen+bodyLen))
	binary.BigEndian.PutUint32(dst[start+4:], uint32(serializeType)<<24|uint32(headerLen))
	return append(dst, c.Body...), nil
}
