package mmap

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
)

// ErrFault is the class of a FaultError.
var ErrFault = errors.New("fault on mapped memory")

// ErrShort is why a file cannot be mapped that has fewer bytes than are to be mapped.
var ErrShort = errors.New("the file is too short")

// FaultError tells that a byte of a mapping could not be read or written: the file was cut shorter, the disk was full when
// a page of a sparse file was first stored to, or the device failed.
type FaultError struct {
	Path   string  // the mapped file
	Offset int64   // byte position in it
	Addr   uintptr // the address
	Full   bool    // the filesystem has next to no room left: it matches syscall.ENOSPC as well
}

func (e *FaultError) Error() string {
	return fmt.Sprintf("touch mapped file %s at %d: %v (file cut, disk full or read error)", e.Path, e.Offset, ErrFault)
}

// Is matches ErrFault, and syscall.ENOSPC where there is no room.
func (e *FaultError) Is(target error) bool {
	return target == ErrFault || e.Full && target == syscall.ENOSPC
}

// nextToNoRoom is how much is left of a filesystem that has no room for a page somebody touches: what it keeps for itself differs.
const nextToNoRoom = 1 << 20

// GuardFault runs fn and returns its error. When fn faults on memory of a live Region (SIGBUS), the fault becomes a
// *FaultError; every other panic passes, a fault on memory that is not (or no longer) mapped included, because that is
// our own mistake. The goroutine's previous setting of debug.SetPanicOnFault is restored, so calls may be nested.
//
// It costs some ten nanoseconds, so wrap a batch of accesses and not each one. It guards only the calling
// goroutine, only while fn runs. What fn had half done when it faulted (a partial copy, a lock taken without defer) stays.
func GuardFault(fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			err = faultOf(r)
		}
	}()
	return fn()
}

// faultOf explains a recovered panic value, or panics again with it.
func faultOf(r any) error {
	if e, ok := r.(runtime.Error); ok {
		if a, ok := e.(interface{ Addr() uintptr }); ok {
			if path, off, ok := live.find(a.Addr()); ok {
				_, free, err := usage(filepath.Dir(path))
				return &FaultError{Path: path, Offset: off, Addr: a.Addr(), Full: err == nil && free < nextToNoRoom}
			}
		}
	}
	panic(r)
}
