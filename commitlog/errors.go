package commitlog

import (
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
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

// Classes of error of a Writer.
var (
	// ErrClosed: the log was closed. Readers answer it as well as writers.
	ErrClosed = mappedfile.ErrClosed
	// ErrLayout: the directory is no run of equally long files; a *FileError says where.
	ErrLayout = mappedfile.ErrLayout
	// ErrFault: bytes of a mapped file could not be read or written; a *FaultError says which.
	ErrFault = mmap.ErrFault
	// ErrFailed: an earlier write or sync failed. The log takes no more until it is opened again; reads go on.
	ErrFailed = errors.New("commit log has failed")
	// ErrFlushTimeout: the record is in the log and not durable yet.
	ErrFlushTimeout = errors.New("flush of the commit log did not end in time")
	// ErrBusy: no room at this moment.
	ErrBusy = errors.New("commit log is busy")
	// ErrSize: no file of the log can hold so many bytes.
	ErrSize = errors.New("too large for a file of the commit log")
	// ErrAllocate: the next file of the log cannot be made.
	ErrAllocate = errors.New("next file of the commit log cannot be made")
	// ErrPosition: bytes of another log do not belong at the end of this one.
	ErrPosition = errors.New("not the end of the commit log")
)

// FailedError carries the first error of writing or syncing: everything after it answers it. It matches ErrFailed.
type FailedError struct{ Err error }

func (e *FailedError) Error() string { return fmt.Sprintf("%v: %v", ErrFailed, e.Err) }

// Unwrap returns the first error.
func (e *FailedError) Unwrap() error { return e.Err }

// Is matches ErrFailed.
func (e *FailedError) Is(target error) bool { return target == ErrFailed }

// BusyReason says what a reservation would have to wait for.
type BusyReason int

// What reservations wait for.
const (
	BusyRing   BusyReason = iota // too many unfilled reservations
	BusyFile                     // the next file is being made
	BusyBuffer                   // memory for uncommitted bytes is full
	BusyFlush                    // too much is not durable: the disk does not keep up, or stands still
)

func (r BusyReason) String() string {
	switch r {
	case BusyRing:
		return "too many puts at once"
	case BusyFile:
		return "the next file is being made"
	case BusyBuffer:
		return "the write buffer is full"
	case BusyFlush:
		return "too many bytes wait for the disk"
	}
	return fmt.Sprintf("BusyReason(%d)", int(r))
}

// BusyError tells why there is no room at this moment. It matches ErrBusy.
type BusyError struct {
	Reason       BusyReason
	PendingBytes int64 // BusyBuffer, BusyFlush: bytes that wait
	LimitBytes   int64 // and how many may
}

func (e *BusyError) Error() string {
	if e.LimitBytes == 0 {
		return fmt.Sprintf("%v: %v", ErrBusy, e.Reason)
	}
	return fmt.Sprintf("%v: %v (%d bytes, limit %d)", ErrBusy, e.Reason, e.PendingBytes, e.LimitBytes)
}

// Is matches ErrBusy.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// SizeError tells that no file of the log can hold what was to be appended. It matches ErrSize.
type SizeError struct{ Bytes, MaxBytes int64 }

func (e *SizeError) Error() string {
	return fmt.Sprintf("append %d bytes, want 1 to %d: %v", e.Bytes, e.MaxBytes, ErrSize)
}

// Is matches ErrSize.
func (e *SizeError) Is(target error) bool { return target == ErrSize }

// AllocateError tells why the next file of the log cannot be made. Making it is tried again after a while, not by each put. It matches ErrAllocate.
type AllocateError struct {
	PhyOffset int64 // first byte of the file
	Err       error
}

func (e *AllocateError) Error() string { return fmt.Sprintf("%v: %v", ErrAllocate, e.Err) }

// Unwrap returns the cause.
func (e *AllocateError) Unwrap() error { return e.Err }

// Is matches ErrAllocate.
func (e *AllocateError) Is(target error) bool { return target == ErrAllocate }

// PositionError tells that raw bytes were offered for another place than the end of the log. It matches ErrPosition.
type PositionError struct{ PhyOffset, End int64 }

func (e *PositionError) Error() string {
	return fmt.Sprintf("append at physical offset %d: the commit log ends at %d: %v", e.PhyOffset, e.End, ErrPosition)
}

// Is matches ErrPosition.
func (e *PositionError) Is(target error) bool { return target == ErrPosition }

// FileError names the file that breaks the run of a log's files.
type FileError = mappedfile.FileError

// FaultError tells that a byte of a mapped file could not be touched: the file was cut shorter, or the disk failed.
type FaultError = mmap.FaultError

// GuardFault runs fn, which touches bytes of the log (of a Scanner's record, of Chunk), and returns its error. A fault on them becomes a *FaultError instead
// of the end of the process.
func GuardFault(fn func() error) error { return mmap.GuardFault(fn) }
