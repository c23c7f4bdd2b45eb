package cq

import (
	"errors"
	"fmt"
)

// Classes of error. The types below match them with errors.Is.
var (
	ErrClosed           = errors.New("consume queue store is closed")
	ErrOffsetOutOfRange = errors.New("queue offset out of range")
	ErrCorrupt          = errors.New("consume queue is corrupt")
	ErrReadOnly         = errors.New("consume queue store is open read-only")
	ErrDiverged         = errors.New("consume queue diverges")
	// ErrNoRoom is what Flush answers while the disk is full and the store waits for room: what was accepted is readable and not durable yet, and nothing is lost. The next Flush may succeed.
	ErrNoRoom = errors.New("the disk of the consume queues is full")
	// ErrNoRocksDB is what every call of the RocksDB store answers in a binary built with CGO_ENABLED=0.
	ErrNoRocksDB = errors.New("this binary was built without cgo and has no RocksDB; build it with CGO_ENABLED=1")
)

// CorruptError tells where stored data contradicts itself.
type CorruptError struct {
	File   string // path of the file, or of the RocksDB directory
	Offset int64  // byte position in the file; -1 where the place is a row (then Row says which) or the whole file
	Row    string // e.g. "unit t/3 slot 7"; empty for a place in a file
	Want   string // what was expected, in words or digits
	Got    string // what was found
	Err    error  // cause, may be nil
}

func (e *CorruptError) Error() string {
	where := e.File
	if e.Offset >= 0 {
		where = fmt.Sprintf("%s+%d", e.File, e.Offset)
	}
	if e.Row != "" {
		where += " (" + e.Row + ")"
	}
	s := "read consume queue at " + where
	if e.Got != "" || e.Want != "" {
		s += fmt.Sprintf(": got %s, want %s", e.Got, e.Want)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// Is matches ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// DamagedError tells which queues could not be dealt with because what is stored of them contradicts itself, or is not there any more. The others were. An Append names one.
type DamagedError struct {
	Keys []Key
	Err  error // of the first
}

func (e *DamagedError) Error() string {
	if len(e.Keys) == 1 {
		return e.Err.Error()
	}
	return fmt.Sprintf("%d damaged queues, the first: %v", len(e.Keys), e.Err)
}

// Unwrap returns what is wrong with the first.
func (e *DamagedError) Unwrap() error { return e.Err }

// RangeError tells that a queue offset lies outside the queue.
type RangeError struct {
	Key      Key
	Want     int64 // the queue offset asked for
	Min, Max int64 // the queue's bounds; Max is exclusive
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("read queue %s at offset %d: outside [%d, %d)", e.Key, e.Want, e.Min, e.Max)
}

// Is matches ErrOffsetOutOfRange.
func (e *RangeError) Is(target error) bool { return target == ErrOffsetOutOfRange }

// QueueError tells that a store can hold nothing of a queue, by reason of its name: it is too long, is no possible name of a directory, or something else lies where its
// directory has to be. Nothing was written. It is not sticky: other queues are written to as before, so a caller may leave out all entries of the queue.
type QueueError struct {
	Key Key
	Err error // the cause
}

func (e *QueueError) Error() string {
	return fmt.Sprintf("queue %q cannot be kept: %v", e.Key.String(), e.Err)
}

// Unwrap returns the cause.
func (e *QueueError) Unwrap() error { return e.Err }

// EntryError tells that a store can hold no unit for an entry, whatever else it holds: a number is out of range. It is not sticky. What is wrong with a whole queue is a
// QueueError.
type EntryError struct {
	Key         Key
	QueueOffset int64
	PhyOffset   int64 // the record the entry points to
	Err         error
}

func (e *EntryError) Error() string {
	return fmt.Sprintf("append to queue %s: slot %d (record at %d): %v", e.Key, e.QueueOffset, e.PhyOffset, e.Err)
}

// Unwrap returns the cause.
func (e *EntryError) Unwrap() error { return e.Err }

// GapError tells that an append would leave slots without a unit.
type GapError struct {
	Key       Key
	Want      int64 // the slot of the entry
	Max       int64 // the queue's next slot
	PhyOffset int64 // the record the entry points to
}

func (e *GapError) Error() string {
	return fmt.Sprintf("append to queue %s: slot %d (record at %d) would leave a gap after %d units", e.Key, e.Want, e.PhyOffset, e.Max)
}

// Is matches ErrDiverged.
func (e *GapError) Is(target error) bool { return target == ErrDiverged }

// ConflictError tells that a slot already holds another unit.
type ConflictError struct {
	Key         Key
	QueueOffset int64
	Stored, New Unit
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("append to queue %s: slot %d holds record %d size %d tags %d, not record %d size %d tags %d", e.Key, e.QueueOffset,
		e.Stored.PhyOffset, e.Stored.Size, e.Stored.TagsCode, e.New.PhyOffset, e.New.Size, e.New.TagsCode)
}

// Is matches ErrDiverged.
func (e *ConflictError) Is(target error) bool { return target == ErrDiverged }
