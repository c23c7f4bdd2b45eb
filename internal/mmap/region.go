package mmap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrUnmapped answers the use of a Region after Unmap.
var ErrUnmapped = errors.New("region is unmapped")

// Advice tells the kernel how a range of a mapping is going to be used.
type Advice int

// The kinds of advice. The Populate kinds are not hints: when Advise returns nil the pages are present.
const (
	Normal        Advice = iota // nothing special: undoes Sequential and Random
	Sequential                  // read ahead aggressively; pages behind are the first to be dropped
	Random                      // do not read ahead
	WillNeed                    // start reading now, in the background
	DontNeed                    // drop the pages from this mapping; a shared file mapping loses nothing
	PopulateRead                // read and map all pages before returning (Linux 5.14)
	PopulateWrite               // the same, made writable: allocates blocks, so that a full disk is an error and no SIGBUS
)

var kernelAdvice = map[Advice]int{
	Normal: unix.MADV_NORMAL, Sequential: unix.MADV_SEQUENTIAL, Random: unix.MADV_RANDOM, WillNeed: unix.MADV_WILLNEED, DontNeed: unix.MADV_DONTNEED,
	PopulateRead: unix.MADV_POPULATE_READ, PopulateWrite: unix.MADV_POPULATE_WRITE,
}

var pageSize = int64(os.Getpagesize())

// Region is a shared mapping of the first bytes of a file. The descriptor it was made from may be closed at once: the
// mapping keeps the file's inode, also after the file is unlinked.
type Region struct {
	path string

	mu struct {
		sync.RWMutex        // Flush, Advise, Lock, Unlock and Resident hold it shared, Unmap exclusively
		data         []byte // nil once unmapped
	}
}

// Map maps bytes [0, size) of f, read-only unless writable. The size must be positive and the file at least that long:
// bytes of a mapping beyond the end of its file cannot be touched, so a shorter file is an error here and not a fault
// later.
func Map(f *os.File, size int64, writable bool) (*Region, error) {
	if size <= 0 || size > int64(^uint(0)>>1) {
		return nil, fmt.Errorf("map %s: size %d is out of range", f.Name(), size)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	if st.Size() < size {
		return nil, fmt.Errorf("map %s: %w: it has %d bytes, want %d", f.Name(), ErrShort, st.Size(), size)
	}
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	var data []byte
	err = control(f, func(fd int) error {
		var err error
		data, err = unix.Mmap(fd, 0, int(size), prot, unix.MAP_SHARED)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of %s: %w", size, f.Name(), err)
	}
	r := &Region{path: f.Name()}
	r.mu.data = data
	live.add(r, data)
	return r, nil
}

// Bytes returns the mapped bytes, or nil after Unmap. The slice is valid until Unmap. Writing to it when the region is
// not writable kills the process.
func (r *Region) Bytes() []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.mu.data
}

// Flush makes bytes [off, off+n) durable: when it returns nil, what was stored there before the call is on the disk
// (msync with MS_SYNC, which also writes the metadata needed to find the bytes again). n == 0 does nothing.
func (r *Region) Flush(off, n int64) error {
	return r.onRange("flush", off, n, func(b []byte) error { return unix.Msync(b, unix.MS_SYNC) })
}

// Advise gives the kernel advice about bytes [off, off+n), widened to whole pages. A kernel that does not know one of
// the Populate kinds answers an error that matches errors.ErrUnsupported. Pages that a Populate kind cannot make present are
// an error that matches syscall.EFAULT, whose cause the kernel does not tell: the device failed, the file was cut shorter,
// or, under PopulateWrite, the disk is full. The error matches syscall.ENOSPC as well when the filesystem has less room than
// the range could need. Some of the pages may then be present.
func (r *Region) Advise(off, n int64, a Advice) error {
	code, ok := kernelAdvice[a]
	if !ok {
		return fmt.Errorf("advise %s: unknown advice %d", r.path, a)
	}
	return r.onRange("advise", off, n, func(b []byte) error {
		err := retryEINTR(func() error { return unix.Madvise(b, code) })
		if err != nil && (a == PopulateRead || a == PopulateWrite) {
			return r.populateError(err, a, int64(len(b)))
		}
		return err
	})
}

// populateError explains why n bytes could not be populated.
//
// Source: madvise(2): EINVAL from a kernel before 5.14; EFAULT where a touch would have raised SIGBUS; EHWPOISON for a page
// of broken memory.
func (r *Region) populateError(err error, a Advice, n int64) error {
	switch {
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("populate pages: %w", errors.ErrUnsupported)
	case !errors.Is(err, unix.EFAULT):
		return fmt.Errorf("populate pages: %w", err)
	}
	if a == PopulateWrite {
		if _, free, uerr := usage(filepath.Dir(r.path)); uerr == nil && free < n {
			return fmt.Errorf("populate pages: %w (%d bytes free): %w", unix.ENOSPC, free, err)
		}
	}
	return fmt.Errorf("populate pages: disk full or read error: %w", err)
}

// Lock reads bytes [off, off+n), widened to whole pages, and keeps them in memory until Unlock or Unmap (mlock). Locks do not
// nest. An error that matches syscall.ENOMEM, EPERM or EAGAIN when the process may lock no more (RLIMIT_MEMLOCK).
func (r *Region) Lock(off, n int64) error { return r.onRange("lock pages of", off, n, unix.Mlock) }

// Unlock lets bytes [off, off+n), widened to whole pages, be dropped from memory again.
func (r *Region) Unlock(off, n int64) error {
	return r.onRange("unlock pages of", off, n, unix.Munlock)
}

// residentPages is how many pages the kernel is asked about at once.
const residentPages = 64

// Resident tells whether the pages of bytes [off, off+n) are in the page cache, whether or not this process has touched them (mincore). Of a file
// that this process could not open for writing the kernel says that they are (Linux 5.2).
func (r *Region) Resident(off, n int64) (all bool, err error) {
	err = r.onRange("ask for pages of", off, n, func(b []byte) error {
		var pages [residentPages]byte
		for all = true; len(b) > 0 && all; {
			size := min(int64(len(b)), residentPages*pageSize)
			if err := mincore(b[:size], &pages); err != nil {
				return err
			}
			for _, in := range pages[:(size+pageSize-1)/pageSize] {
				all = all && in&1 != 0
			}
			b = b[size:]
		}
		return nil
	})
	return all && err == nil, err
}

// mincore asks about the pages of b, which begins at one.
func mincore(b []byte, pages *[residentPages]byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(unsafe.Pointer(pages)))
	if errno != 0 {
		return errno
	}
	return nil
}

func (r *Region) onRange(action string, off, n int64, call func([]byte) error) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.mu.data == nil {
		return fmt.Errorf("%s %s: %w", action, r.path, ErrUnmapped)
	}
	size := int64(len(r.mu.data))
	if off < 0 || n < 0 || off > size || n > size-off {
		return fmt.Errorf("%s %s: range [%d, +%d) outside [0, %d)", action, r.path, off, n, size)
	}
	if n == 0 {
		return nil
	}
	start := off &^ (pageSize - 1) // the kernel wants whole pages
	if err := call(r.mu.data[start : off+n]); err != nil {
		return fmt.Errorf("%s %s at %d, %d bytes: %w", action, r.path, off, n, err)
	}
	return nil
}

// Unmap ends the mapping. It is idempotent: a second call does nothing and returns nil, so that it can never hit a mapping
// that took over the address. Stores that were not flushed are not lost: they stay in the page cache.
func (r *Region) Unmap() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	data := r.mu.data
	if data == nil {
		return nil
	}
	live.remove(r) // before the address can be reused
	r.mu.data = nil
	if err := unix.Munmap(data); err != nil {
		return fmt.Errorf("unmap %s: %w", r.path, err)
	}
	return nil
}

// live knows the address ranges of all regions of the process. It is read only when a fault has to be explained.
var live regions

type regions struct {
	sync.Mutex
	m map[*Region]span
}

type span struct{ from, to uintptr }

func (l *regions) add(r *Region, data []byte) {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	l.Lock()
	defer l.Unlock()
	if l.m == nil {
		l.m = make(map[*Region]span)
	}
	l.m[r] = span{from, from + uintptr(len(data))}
}

func (l *regions) remove(r *Region) {
	l.Lock()
	defer l.Unlock()
	delete(l.m, r)
}

// find returns the region that holds addr and the byte position in it.
func (l *regions) find(addr uintptr) (path string, off int64, ok bool) {
	l.Lock()
	defer l.Unlock()
	for r, s := range l.m {
		if addr >= s.from && addr < s.to {
			return r.path, int64(addr - s.from), true
		}
	}
	return "", 0, false
}

// Mapped returns how many regions of this process are mapped. Tests use it to find leaks.
func Mapped() int {
	live.Lock()
	defer live.Unlock()
	return len(live.m)
}
