package mappedfile

import (
	"container/list"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// unmapped is the state of a file without a mapping; a state >= 0 counts the holders of its mapping.
const unmapped = -1

// File is one file of a Queue.
type File struct {
	q        *Queue
	dir      string
	from     int64
	size     int64
	readOnly bool   // the queue's or its directory's
	release  func() // f.Release, made once so that Releaser allocates nothing

	// state goes from unmapped to 1 under mu, when region and data are set; from 0 to unmapped under mu, when they are
	// taken away. Between values >= 0 it moves without a lock.
	state  atomic.Int64
	gone   atomic.Pointer[error] // why the file can no longer be held; nil while it can
	recent atomic.Bool           // held again since it was mapped, or since the clock's hand last passed
	ending atomic.Bool           // its name is being unlinked: a missing file is no surprise

	reader   atomic.Pointer[mmap.File] // of ReadAt; nil: not needed yet. Set under mu, and taken away with the mapping
	resident atomic.Pointer[stamps]    // of InMemory; nil: nobody has asked. Taken away with the mapping

	mu     sync.Mutex // mapping and unmapping; never waits for I/O of another file
	region mmap.Mapping
	data   []byte
	place  *list.Element // in the ring; guarded by mappings

	// Of a writable queue, guarded by Queue.mu.
	reservedTo int64 // blocks are reserved up to here (in-file), counted from reservedAt
	reservedAt int64
	dirty      bool
	unnamed    []string // directories whose sync the file's name waits for
}

// From returns the position of the file's first byte.
func (f *File) From() int64 { return f.from }

// Size returns the length of the file in bytes, the same for all files of a queue.
func (f *File) Size() int64 { return f.size }

// End returns the position just past the file.
func (f *File) End() int64 { return f.from + f.size }

// ReadOnly tells whether nothing of the file may be changed: the queue is read-only, or its directory.
func (f *File) ReadOnly() bool { return f.readOnly }

// Path returns the path of the file.
func (f *File) Path() string { return filepath.Join(f.dir, Name(f.from)) }

// Hold maps the file if it is not mapped and returns its bytes, all of them. They stay valid until the matching Release,
// whatever happens to the queue meanwhile: Close, Truncate and the removal of the file wait with unmapping for the last
// holder. Bytes of a read-only queue must not be written to.
//
// Errors: ErrClosed or ErrRemoved; ErrLimit when as many files as may be mapped are held at this moment; otherwise why the
// file cannot be opened or mapped (a file that became shorter than its queue's FileSize included). Call Release only
// after success.
func (f *File) Hold() ([]byte, error) {
	for {
		n := f.state.Load()
		if n < 0 {
			return f.holdSlow()
		}
		if f.state.CompareAndSwap(n, n+1) {
			break
		}
	}
	if err := f.gone.Load(); err != nil {
		f.Release()
		return nil, fmt.Errorf("hold %s: %w", f.Path(), *err)
	}
	f.touch()
	return f.data, nil
}

func (f *File) touch() {
	if !f.recent.Load() {
		f.recent.Store(true)
	}
}

func (f *File) holdSlow() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.gone.Load(); err != nil {
		return nil, fmt.Errorf("hold %s: %w", f.Path(), *err)
	}
	// Only detach takes a mapping away, and it needs mu: a mapping seen here stays.
	if f.region != nil {
		f.state.Add(1)
		f.touch()
		return f.data, nil
	}
	if err := reserve(); err != nil {
		return nil, fmt.Errorf("hold %s: %w", f.Path(), err)
	}
	r, err := f.mapFile()
	if err != nil {
		unreserve()
		return nil, err
	}
	f.region, f.data = r, r.Bytes()
	enter(f)
	f.state.Store(1)
	return f.data, nil
}

func (f *File) mapFile() (mmap.Mapping, error) {
	h, err := f.OpenFile()
	if err != nil {
		return nil, fmt.Errorf("hold mapped file: %w", err)
	}
	defer func() { _ = h.Close() }() // the mapping keeps the file
	return f.mapOpen(h)
}

// mapBy maps a file that is new through its descriptor, which saves opening it. When there is no room for a mapping at this moment, Hold finds some or
// says so.
func (f *File) mapBy(h mmap.File) error {
	if reserve() != nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.region != nil { // somebody holds it already
		unreserve()
		return nil
	}
	r, err := f.mapOpen(h)
	if err != nil {
		unreserve()
		return err
	}
	f.region, f.data = r, r.Bytes()
	enter(f)
	f.state.Store(0)
	return nil
}

func (f *File) mapOpen(h mmap.File) (mmap.Mapping, error) {
	r, err := h.Map(f.size, !f.readOnly)
	if err == nil && f.q.random.Load() {
		_ = r.Advise(0, f.size, mmap.Random) // a hint: without it only slower
	}
	return r, err
}

// OpenFile opens the file: for reading and writing if the queue is writable and the file's directory is not read-only,
// otherwise for reading. The caller closes it. Its bytes are those of the mapping, whichever way they were written. What is
// written and synced through it is the caller's affair: Sync of the queue knows only of WriteAt.
//
// Errors: ErrRemoved, also while RemoveFirst is at work on the file; ErrClosed; otherwise why the file cannot be opened.
func (f *File) OpenFile() (mmap.File, error) {
	flags := os.O_RDWR
	if f.readOnly {
		flags = os.O_RDONLY
	}
	return f.openAs(flags)
}

func (f *File) openAs(flags int) (mmap.File, error) {
	if err := f.gone.Load(); err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Path(), *err)
	}
	h, err := f.q.fs.OpenFile(f.Path(), flags, 0)
	if errors.Is(err, fs.ErrNotExist) && (f.ending.Load() || f.gone.Load() != nil) {
		err = fmt.Errorf("open %s: %w", f.Path(), ErrRemoved)
	}
	return h, err
}

// Release gives back one Hold. The bytes must not be touched afterwards.
func (f *File) Release() {
	switch n := f.state.Add(-1); {
	case n < 0:
		panic(fmt.Sprintf("mappedfile: %s released more often than held", f.Path()))
	case n == 0 && f.gone.Load() != nil:
		f.unmapIdle()
	}
}

// Releaser returns Release as a function value, for those who hand a hold on. It allocates nothing.
func (f *File) Releaser() func() { return f.release }

// NextData returns the first range [from, to) at or above byte off of the file that may hold bytes other than zero; both are
// Size when only holes follow. See mmap.NextData.
func (f *File) NextData(off int64) (from, to int64, err error) {
	h, err := f.OpenFile()
	if err != nil {
		return 0, 0, fmt.Errorf("find data in mapped file: %w", err)
	}
	defer func() { _ = h.Close() }() // nothing was written
	return h.NextData(off)
}

// Advise passes advice about bytes [off, off+n) of the file to the kernel. The caller holds the file.
func (f *File) Advise(off, n int64, a mmap.Advice) error {
	return f.heldRegion("advise").Advise(off, n, a)
}

// LockMemory keeps bytes [off, off+n) of the file in memory (mlock) until UnlockMemory or until the file is unmapped; so it
// lasts no longer than the hold, unless nobody needs the mapping's place. The caller holds the file. An error when the process
// may lock no more.
func (f *File) LockMemory(off, n int64) error { return f.heldRegion("lock").Lock(off, n) }

// UnlockMemory undoes LockMemory. The caller holds the file.
func (f *File) UnlockMemory(off, n int64) error { return f.heldRegion("unlock").Unlock(off, n) }

func (f *File) heldRegion(action string) mmap.Mapping {
	if f.state.Load() <= 0 {
		panic(fmt.Sprintf("mappedfile: %s %s without holding it", action, f.Path()))
	}
	return f.region
}

// retire makes Hold fail with err and unmaps the file, now or when its last holder releases it.
func (f *File) retire(err error) {
	f.gone.CompareAndSwap(nil, &err)
	f.unmapIdle()
}

func (f *File) unmapIdle() {
	if v, ok := f.detach(false); ok {
		leave(f)
		v.unmap()
	}
}

// victim is a mapping that was taken from its file and has no holder.
type victim struct {
	region mmap.Mapping
	reader *mmap.File // nil: none
}

func (v victim) unmap() {
	if v.reader != nil {
		_ = (*v.reader).Close() // nothing was written
	}
	// The only error of munmap is a wrong address, which Region rules out.
	if err := v.region.Unmap(); err != nil {
		panic(err)
	}
}

// detach takes the mapping from a file without holders. The table of mappings calls it with try set, as it holds its own
// lock then and holdSlow takes the two in the other order.
func (f *File) detach(try bool) (victim, bool) {
	if !try {
		f.mu.Lock()
	} else if !f.mu.TryLock() {
		return victim{}, false
	}
	defer f.mu.Unlock()
	if f.region == nil || !f.state.CompareAndSwap(0, unmapped) {
		return victim{}, false
	}
	v := victim{f.region, f.reader.Swap(nil)}
	f.region, f.data = nil, nil
	f.resident.Store(nil)
	return v, true
}
