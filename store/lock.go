package store

import (
	"errors"
	"fmt"
	"os"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// InUseError tells that another process, most often a broker, holds the store, or that this one does already.
type InUseError struct {
	Root string
	PID  int   // the process, 0 when it cannot be told
	Err  error // *mmap.LockedError
}

func (e *InUseError) Error() string {
	switch e.PID {
	case 0:
		return fmt.Sprintf("store %s is in use by another process; stop the broker first", e.Root)
	case os.Getpid():
		return fmt.Sprintf("store %s is in use by this process itself (%d); close it first", e.Root, e.PID)
	}
	return fmt.Sprintf("store %s is in use by process %d; stop the broker first", e.Root, e.PID)
}

// Unwrap returns the lock's own error, which matches mmap.ErrLocked.
func (e *InUseError) Unwrap() error { return e.Err }

// Lock is a hold on a store directory. Close lets go of it.
type Lock struct{ file *mmap.FileLock }

// LockExclusive takes the store for writing, as a broker does: the same record lock on the first byte of the file lock,
// created when it is missing. It waits for nobody: *InUseError when any other process holds the store, shared or not.
//
// Source: DefaultMessageStore.start, 5.5.0.
func LockExclusive(root string) (*Lock, error) { return takeLock(root, true) }

// LockShared takes the store for reading: other readers are welcome, a writer is kept out. A store without a lock file was
// never held by anybody and is not held now: nothing is created, the Lock returned holds nothing. So a store on
// read-only media can be read.
func LockShared(root string) (*Lock, error) { return takeLock(root, false) }

func takeLock(root string, exclusive bool) (*Lock, error) {
	f, err := mmap.Lock(NewLayout(root).LockPath(), exclusive)
	var locked *mmap.LockedError
	switch {
	case errors.As(err, &locked):
		return nil, &InUseError{Root: NewLayout(root).Root, PID: locked.PID, Err: locked}
	case missing(err) && !exclusive:
		return &Lock{}, nil
	case err != nil:
		return nil, fmt.Errorf("lock store: %w", err)
	}
	return &Lock{file: f}, nil
}

// mark writes the text that RocketMQ keeps in the file.
func (l *Lock) mark() error { return l.file.WriteAll([]byte("lock")) }

// Close lets go of the store. Idempotent.
func (l *Lock) Close() error {
	if l == nil || l.file == nil {
		return nil
	}
	return l.file.Close()
}
