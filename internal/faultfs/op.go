package faultfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Kind is what an operation does.
type Kind string

// The kinds of operation. Size, Unlock, Unmap and Close are none: nothing depends on them.
const (
	Open           Kind = "open" // OpenFile of a file that is there
	Create         Kind = "create"
	ReadDir        Kind = "readdir"
	Mkdir          Kind = "mkdir"
	Remove         Kind = "remove"
	Rename         Kind = "rename" // To is the new path
	SyncDir        Kind = "syncdir"
	Usage          Kind = "usage"
	ReadAt         Kind = "read"
	WriteAt        Kind = "write"
	Truncate       Kind = "truncate" // Off is the new length; also OpenFile with O_TRUNC
	Preallocate    Kind = "preallocate"
	Erase          Kind = "erase"
	NextData       Kind = "nextdata"
	Datasync       Kind = "datasync"
	StartWriteback Kind = "writeback"
	Map            Kind = "map" // N is the size
	Flush          Kind = "flush"
	Advise         Kind = "advise" // all but the next
	Populate       Kind = "populate"
	Lock           Kind = "lock"
)

// Changes reports whether an operation of this kind changes what is seen or what survives. A loss of power at any other is
// no different from one at the next that does, but for stores through mappings.
func (k Kind) Changes() bool {
	switch k {
	case Create, Mkdir, Remove, Rename, SyncDir, WriteAt, Truncate, Preallocate, Erase, Datasync, Flush, Populate:
		return true
	}
	return false
}

// Op is one operation.
type Op struct {
	Index  int64 // 0, 1, 2, … over the life of the FS, in the order in which they began
	Kind   Kind
	Path   string // as given by the caller
	To     string // Rename
	Off, N int64  // bytes [Off, Off+N), where it has a range
}

func (o Op) String() string {
	if o.Kind == Rename {
		return fmt.Sprintf("#%d %s %s to %s", o.Index, o.Kind, o.Path, o.To)
	}
	return fmt.Sprintf("#%d %s %s [%d, +%d)", o.Index, o.Kind, o.Path, o.Off, o.N)
}

// Partial is an error for Inject to return: a WriteAt or ReadAt does its first N bytes and then fails with Err. Any other
// operation fails with Err and does nothing.
type Partial struct {
	N   int
	Err error
}

func (p *Partial) Error() string { return fmt.Sprintf("after %d bytes: %v", p.N, p.Err) }

// Unwrap returns Err.
func (p *Partial) Unwrap() error { return p.Err }

// done returns how many of n bytes are done before err.
func done(err error, n int) int {
	var p *Partial
	switch {
	case err == nil:
		return n
	case errors.As(err, &p):
		return min(max(p.N, 0), n)
	}
	return 0
}

// Inject has before called for every operation before it takes effect, in the goroutine that makes it and with no lock held:
// it may block, and it may call methods of the FS (whose operations are seen by it as well). An error fails the operation,
// which the caller sees wrapped. Nil takes the function away.
func (f *FS) Inject(before func(op Op) error) { f.before.Store(&before) }

// Observe has after called for every operation after it took effect or failed, with what it answers, under the same
// conditions.
func (f *FS) Observe(after func(op Op, err error)) { f.after.Store(&after) }

// Ops returns how many operations have begun.
func (f *FS) Ops() int64 { return f.ops.Load() }

// run makes an operation: effect is called with f.mu held and with the error that was injected, which it returns after what is
// to happen all the same.
func (f *FS) run(op Op, effect func(injected error) error) error {
	op.Index = f.ops.Add(1) - 1
	var err error
	if before := f.before.Load(); before != nil && *before != nil {
		err = (*before)(op)
	}
	f.mu.Lock()
	err = effect(err)
	f.mu.Unlock()
	if err != nil && err != io.EOF { //nolint:errorlint // io.EOF alone is no failure
		if op.Kind == Rename {
			err = &os.LinkError{Op: string(op.Kind), Old: op.Path, New: op.To, Err: err}
		} else {
			err = &fs.PathError{Op: string(op.Kind), Path: op.Path, Err: err}
		}
	}
	if after := f.after.Load(); after != nil && *after != nil {
		(*after)(op, err)
	}
	return err
}

// unlessFailed is for operations that do nothing when they fail.
func unlessFailed(effect func() error) func(error) error {
	return func(injected error) error {
		if injected != nil {
			return injected
		}
		return effect()
	}
}
