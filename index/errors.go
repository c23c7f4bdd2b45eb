package index

import (
	"errors"
	"fmt"
)

// Classes of error, told by errors.Is.
var (
	// ErrClosed: the index was closed.
	ErrClosed = errors.New("index is closed")
	// ErrReadOnly: the index was opened for reading.
	ErrReadOnly = errors.New("index is read-only")
	// ErrCorrupt is the class of a FileError.
	ErrCorrupt = errors.New("index file is corrupt")
	// ErrFailed: an earlier operation left it unknown what is on the disk. It wraps the cause. The index takes no more until it
	// is opened again as after an unclean stop.
	ErrFailed = errors.New("index has failed")
	// ErrNoRocksDB is what the RocksDB index answers in a binary built with CGO_ENABLED=0.
	ErrNoRocksDB = errors.New("this binary was built without cgo and has no RocksDB; build it with CGO_ENABLED=1")
)

// FileError tells that a file cannot be an index file of this geometry, or contradicts itself.
type FileError struct {
	Path string
	Err  error // what was found
}

func (e *FileError) Error() string { return fmt.Sprintf("index file %s: %v", e.Path, e.Err) }

// Is matches ErrCorrupt.
func (e *FileError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap returns what was found.
func (e *FileError) Unwrap() error { return e.Err }
