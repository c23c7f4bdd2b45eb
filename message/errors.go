package message

import (
	"errors"
	"fmt"
)

// Classes of decode failure. Each failed Decode is of exactly one, told by errors.Is.
var (
	// ErrEnd: nothing was ever written here.
	ErrEnd = errors.New("end of records")
	// ErrBlank: the bytes are a filler. It is no damage: the next record begins in the next file.
	ErrBlank = errors.New("filler, not a record")
	// ErrTorn: the beginning of a record whose end is missing.
	ErrTorn = errors.New("record is torn")
	// ErrCorrupt: bytes are there and cannot be a record.
	ErrCorrupt = errors.New("record is corrupt")
)

// DecodeError tells where and why bytes are no record.
type DecodeError struct {
	Class error  // ErrEnd, ErrBlank, ErrTorn or ErrCorrupt
	Field string // name of the field that failed, as in the drawing of the record
	At    int    // byte of that field, from the start of the record
	Got   int64  // value found; for a size or length in bytes
	Want  int64  // the value, or the bound, it had to meet
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode record: %s at byte %d: got %d, want %d: %v", e.Field, e.At, e.Got, e.Want, e.Class)
}

// Is matches the class.
func (e *DecodeError) Is(class error) bool { return class == e.Class }

// Classes of encode failure.
var (
	ErrTopicLength      = errors.New("topic length out of bounds")
	ErrPropertiesLength = errors.New("properties too long")
	ErrBodyLength       = errors.New("body too long")
	ErrRecordLength     = errors.New("body too long for a record")
	ErrNoHost           = errors.New("host without an address")
	// ErrBufferLength: the buffer is not as long as the record. It is the caller's mistake, not the message's.
	ErrBufferLength = errors.New("buffer has not the length of the record")
)

// LimitError tells which part of a message does not fit into a record. Sizes are bytes.
type LimitError struct {
	Class    error // one of the classes of encode failure
	Got      int
	Min, Max int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("encode message: %v: got %d bytes, want %d to %d", e.Class, e.Got, e.Min, e.Max)
}

// Is matches the class.
func (e *LimitError) Is(class error) bool { return class == e.Class }

// ErrPropertyForm is the class of a property string that reads back as other properties than were put into it.
var ErrPropertyForm = errors.New("malformed property string")

// PropertyError tells which element of a property string is none.
type PropertyError struct {
	At     int    // first byte of the element, from the start of the string
	Reason string // what is wrong with it
}

func (e *PropertyError) Error() string {
	return fmt.Sprintf("scan properties: element at byte %d: %s: %v", e.At, e.Reason, ErrPropertyForm)
}

// Is matches ErrPropertyForm.
func (e *PropertyError) Is(class error) bool { return class == ErrPropertyForm }
