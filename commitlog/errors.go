package commitlog

import (
	"errors"
	"fmt"
)

// Classes of error.
var (
	// ErrCorrupt: what is stored contradicts itself, or what was asked for is not there.
	ErrCorrupt = errors.New("commit log is corrupt")
	// ErrTorn: the log ends in bytes that are no record.
	ErrTorn = errors.New("commit log ends in a torn record")
	// ErrOffsetOutOfRange: the log has no file for a physical offset.
	ErrOffsetOutOfRange = errors.New("physical offset out of range")
)

// CorruptError tells which bytes are not the record they should be. It matches ErrCorrupt, and through Err the classes of
// the message package (message.ErrEnd when the place was never written).
type CorruptError struct {
	File      string // path
	Offset    int64  // byte in the file where the record begins, or should
	PhyOffset int64  // the same place as a physical offset
	Want, Got string // what was expected and found, in words or digits; may be empty
	Err       error  // cause; may be nil
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("read commit log record at %s+%d (physical offset %d): %s", e.File, e.Offset, e.PhyOffset, e.what())
}

// what says what is wrong, without the place.
func (e *CorruptError) what() string {
	switch {
	case e.Err == nil:
		return fmt.Sprintf("got %s, want %s", e.Got, e.Want)
	case e.Got == "" && e.Want == "":
		return e.Err.Error()
	}
	return fmt.Sprintf("got %s, want %s: %v", e.Got, e.Want, e.Err)
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// Is matches ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// RangeError tells that no file of the log holds a physical offset. It matches ErrOffsetOutOfRange.
type RangeError struct {
	PhyOffset int64
	Min, Max  int64 // the files hold [Min, Max); both -1 when there is no file
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("read commit log at physical offset %d: outside of the files, [%d, %d)", e.PhyOffset, e.Min, e.Max)
}

// Is matches ErrOffsetOutOfRange.
func (e *RangeError) Is(target error) bool { return target == ErrOffsetOutOfRange }

// EndError is the error of a scan that did not end cleanly. It matches ErrTorn or ErrCorrupt by the kind of the end, and
// nothing else: it does not unwrap to its Reason, because what makes a log torn is, taken by itself, often a corrupt record.
type EndError struct{ ScanEnd }

func (e *EndError) Error() string {
	s := fmt.Sprintf("scan commit log: %s at %s+%d (physical offset %d)", e.Kind, e.File, e.FileOffset, e.Offset)
	switch {
	case e.Kind == EndCorrupt && e.NextValid >= 0:
		s += fmt.Sprintf(", next valid record at physical offset %d", e.NextValid)
	case e.Kind == EndCorrupt:
		s += ", search for a next valid record given up"
	}
	var c *CorruptError
	if errors.As(e.Reason, &c) {
		return s + ": " + c.what() // the place is told already
	}
	return fmt.Sprintf("%s: %v", s, e.Reason)
}

// Is matches the class.
func (e *EndError) Is(target error) bool {
	return target == ErrTorn && e.Kind == EndTorn || target == ErrCorrupt && e.Kind == EndCorrupt
}
