package mappedfile

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"syscall"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Blocks are reserved ahead of writes, as many again as the file has behind it, within these bounds: a queue file is 6 MB long and mostly sparse.
// Reserving all of it would take 600 GB for 100,000 queues, and 64 KiB at least still 6 GB.
const (
	reserveLeast = 4 << 10
	reserveMost  = 1 << 20
)

// WriteAt stores b at position off. A write that reaches past the last file makes the next ones, so off may be at most
// EndOffset; in an empty queue the first file is made where its name is a multiple of FileSize. The bytes are visible to
// readers of the mappings at once and durable after Sync.
//
// Blocks are reserved before bytes are stored, so that a full disk is an error and no fault: one that matches syscall.ENOSPC or
// syscall.EDQUOT, leaves at most the beginning of b stored, and passes when there is room again. Any other error of the disk is
// sticky: every later WriteAt, Sync, Truncate, Create, Adopt and RemoveFirst answers it, since nobody knows what reached the
// disk. Other errors: ErrReadOnly, of the queue or of a file's directory; ErrClosed; ErrLimit and ErrRemoved, which may leave
// the beginning of b stored; a position out of range, the end of the last file below 2^63 included.
func (q *Queue) WriteAt(b []byte, off int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.writableLocked(); err != nil {
		return fmt.Errorf("write mapped files in %s: %w", q.dir, err)
	}
	if err := q.mayWriteLocked(off, int64(len(b))); err != nil {
		return fmt.Errorf("write mapped files in %s: %w", q.dir, err)
	}
	size := q.FileSize()
	for len(b) > 0 {
		f, ok := q.Find(off)
		if !ok {
			var err error
			if f, err = q.createLocked(off-off%size, off%size, off%size+int64(len(b))); err != nil {
				return q.failUnlessFullLocked(err)
			}
		}
		at := off - f.from
		n := min(int64(len(b)), f.size-at)
		if err := f.write(b[:n], at); err != nil {
			if errors.Is(err, ErrLimit) || errors.Is(err, ErrRemoved) {
				return err // says nothing about the disk
			}
			return q.failUnlessFullLocked(err)
		}
		b, off = b[n:], off+n
	}
	return nil
}

// mayWriteLocked refuses positions and files that WriteAt must not touch, before anything is stored.
func (q *Queue) mayWriteLocked(off, n int64) error {
	size := q.FileSize()
	if size == 0 {
		return errNoSize
	}
	files := q.Files()
	if off < 0 || len(files) > 0 && (off < files[0].from || off > files[len(files)-1].End()) {
		return fmt.Errorf("position %d is outside [%d, %d]", off, q.MinOffset(), q.EndOffset())
	}
	if most := math.MaxInt64 / size * size; n > most-off {
		return fmt.Errorf("%d bytes at position %d reach past the last file, which ends at %d", n, off, most)
	}
	if len(q.readOnly) > 0 {
		for _, f := range files {
			if f.readOnly && f.from < off+n && f.End() > off {
				return fmt.Errorf("%s: %w", f.Path(), ErrReadOnly)
			}
		}
	}
	if (len(q.mu.made) > 0 || q.mu.making) && off+n > q.EndOffset() {
		return errors.New("the next file was made ahead and is not adopted")
	}
	return nil
}

func (q *Queue) writableLocked() error {
	switch {
	case !q.writable:
		return ErrReadOnly
	case q.mu.closed:
		return ErrClosed
	}
	return q.mu.failed
}

func (q *Queue) failLocked(err error) error {
	if q.mu.failed == nil {
		q.mu.failed = err
	}
	return err
}

// failUnlessFullLocked makes an error sticky, but for a full disk: that was found out before anything was stored.
func (q *Queue) failUnlessFullLocked(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return q.failIfDirLocked(err)
	}
	return q.failLocked(err)
}

// write stores b at byte at of the file. The caller holds Queue.mu.
func (f *File) write(b []byte, at int64) error {
	if err := f.reserve(at, at+int64(len(b))); err != nil {
		return err
	}
	data, err := f.Hold()
	if err != nil {
		return err
	}
	defer f.Release()
	f.dirty = true
	return mmap.GuardFault(func() error {
		copy(data[at:], b)
		return nil
	})
}

// reserve sees that bytes [from, to) have blocks. Of earlier reservations it remembers one range: writes go forward.
func (f *File) reserve(from, to int64) error {
	if from >= f.reservedAt && to <= f.reservedTo {
		return nil
	}
	start, end := f.reservation(from, to)
	h, err := f.OpenFile()
	if err != nil {
		return fmt.Errorf("write mapped file: %w", err)
	}
	defer func() { _ = h.Close() }() // wrote no data
	return f.reserveBy(h, start, end)
}

func (f *File) reserveBy(h mmap.File, start, end int64) error {
	if err := h.Preallocate(start, end-start); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	f.reservedAt, f.reservedTo = start, end
	return nil
}

// reservation returns the range to reserve for bytes [from, to): up to the next multiple of as much as lies before it, in powers of two.
func (f *File) reservation(from, to int64) (start, end int64) {
	ahead := int64(reserveLeast)
	for ahead < reserveMost && 2*ahead <= from {
		ahead *= 2
	}
	end = (to + ahead - 1) / ahead * ahead
	return from - from%reserveLeast, min(end, max(f.size, to))
}

// createLocked makes the file at from, for a write to its bytes [at, to); it is durable after Sync. The file before it is so at once: of two names that are not
// durable a crash may leave the later one alone.
func (q *Queue) createLocked(from, at, to int64) (*File, error) {
	if files := q.Files(); len(files) > 0 && len(files[len(files)-1].unnamed) > 0 {
		last := files[len(files)-1]
		if err := q.syncAll([]*File{last}, last.unnamed); err != nil {
			return nil, q.failLocked(err)
		}
		last.unnamed = nil
	}
	f, h, changed, err := q.makeFile(from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = h.Close() }() // synced by Sync
	f.dirty, f.unnamed = true, changed
	if q.mu.syncDir == nil {
		q.mu.syncDir = make(map[string]struct{})
	}
	for _, dir := range changed {
		q.mu.syncDir[dir] = struct{}{}
	}
	q.appendLocked(f)
	if !q.allocate {
		start, end := f.reservation(at, min(to, f.size))
		if err := f.reserveBy(h, start, end); err != nil {
			return nil, err
		}
	}
	return f, f.mapBy(h)
}

// Sync returns nil when everything written before the call is durable: the bytes, the files and their directory entries.
// Concurrent writes may go on; they are covered or not. Calls take turns. An error is sticky.
func (q *Queue) Sync() error {
	q.syncing.Lock() // what a call has begun to sync is not durable for the next one before it is done
	defer q.syncing.Unlock()
	q.mu.Lock()
	if err := q.writableLocked(); err != nil {
		q.mu.Unlock()
		return fmt.Errorf("sync mapped files in %s: %w", q.dir, err)
	}
	var dirty []*File
	for _, f := range q.Files() {
		if f.dirty {
			f.dirty = false
			dirty = append(dirty, f)
		}
	}
	dirs := slices.Sorted(maps.Keys(q.mu.syncDir))
	q.mu.syncDir = nil
	q.mu.Unlock()

	err := q.syncAll(dirty, dirs)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		return q.failLocked(err)
	}
	for _, f := range dirty {
		f.unnamed = nil
	}
	return nil
}

// syncAll syncs files first, then directories, so that a durable name never lacks its length.
func (q *Queue) syncAll(files []*File, dirs []string) error {
	for _, f := range files {
		h, err := f.OpenFile()
		if errors.Is(err, ErrRemoved) {
			continue // truncated meanwhile
		}
		if err != nil {
			return fmt.Errorf("sync mapped file: %w", err)
		}
		err = h.Datasync()
		_ = h.Close() // synced
		if err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		if err := q.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
