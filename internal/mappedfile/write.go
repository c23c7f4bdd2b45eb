package mappedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// reserveAhead is how many bytes of blocks are reserved at a time ahead of writes. A queue file is 6 MB long and mostly
// sparse: reserving all of it would take 600 GB for 100,000 queues.
const reserveAhead = 64 << 10

// WriteAt stores b at position off. A write that reaches past the last file makes the next ones, so off may be at most
// EndOffset; in an empty queue the first file is made where its name is a multiple of FileSize. The bytes are visible to
// readers of the mappings at once and durable after Sync.
//
// Blocks are reserved before bytes are stored, so that a full disk is an error and no fault. An error of the disk is
// sticky: every later WriteAt, Truncate and Sync answers it, since nobody knows what reached the disk. Other errors:
// ErrReadOnly, ErrClosed, ErrLimit, a position out of range.
func (q *Queue) WriteAt(b []byte, off int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.writableLocked(); err != nil {
		return fmt.Errorf("write mapped files in %s: %w", q.dir, err)
	}
	size := q.FileSize()
	if size == 0 {
		return fmt.Errorf("write mapped files in %s: the directory is empty and no file size was given", q.dir)
	}
	if files := q.Files(); off < 0 || off+int64(len(b)) < off || len(files) > 0 && (off < files[0].from || off > files[len(files)-1].End()) {
		return fmt.Errorf("write mapped files in %s: position %d is outside [%d, %d]", q.dir, off, q.MinOffset(), q.EndOffset())
	}
	for len(b) > 0 {
		f, ok := q.Find(off)
		if !ok {
			var err error
			if f, err = q.createLocked(off - off%size); err != nil {
				return q.failLocked(err)
			}
		}
		at := off - f.from
		n := min(int64(len(b)), f.size-at)
		if err := f.write(b[:n], at); err != nil {
			if errors.Is(err, ErrLimit) {
				return err // says nothing about the disk
			}
			return q.failLocked(err)
		}
		b, off = b[n:], off+n
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
	start := from - from%reserveAhead
	end := min((to+reserveAhead-1)/reserveAhead*reserveAhead, f.size)
	h, err := os.OpenFile(f.Path(), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("write mapped file: %w", err)
	}
	err = mmap.Preallocate(h, start, end-start)
	_ = h.Close() // wrote no data
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	f.reservedAt, f.reservedTo = start, end
	return nil
}

// createLocked makes the file at from, in full length and sparse, and the directory if it has to.
func (q *Queue) createLocked(from int64) (*File, error) {
	if err := q.mkdirLocked(q.dir); err != nil {
		return nil, err
	}
	f := q.newFile(from)
	// Not O_EXCL: a file of length zero that a dying writer left behind is taken over.
	h, err := os.OpenFile(f.Path(), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create mapped file: %w", err)
	}
	st, err := h.Stat()
	if err == nil && st.Size() != 0 {
		err = fmt.Errorf("the file exists and has %d bytes", st.Size())
	}
	if err == nil {
		err = h.Truncate(f.size)
	}
	if cerr := h.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("create mapped file %s: %w", f.Path(), err)
	}
	f.dirty = true
	q.changedLocked(q.dir)
	old := q.Files()
	files := slices.Concat(old, []*File{f})
	q.files.Store(&files)
	return f, nil
}

// mkdirLocked makes dir and its missing parents, and remembers where entries were added.
func (q *Queue) mkdirLocked(dir string) error {
	err := os.Mkdir(dir, 0o755)
	switch parent := filepath.Dir(dir); {
	case err == nil:
		q.changedLocked(parent)
		return nil
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist) && parent != dir:
		if err := q.mkdirLocked(parent); err != nil {
			return err
		}
		return q.mkdirLocked(dir)
	}
	return fmt.Errorf("create directory of mapped files: %w", err)
}

func (q *Queue) changedLocked(dir string) {
	if q.mu.syncDir == nil {
		q.mu.syncDir = make(map[string]struct{})
	}
	q.mu.syncDir[dir] = struct{}{}
}

// Sync returns nil when everything written before the call is durable: the bytes, the files and their directory entries.
// Concurrent writes may go on; they are covered or not. An error is sticky.
func (q *Queue) Sync() error {
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
	dirs := q.mu.syncDir
	q.mu.syncDir = nil
	q.mu.Unlock()

	err := syncAll(dirty, dirs)
	if err != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.failLocked(err)
	}
	return nil
}

// syncAll syncs files first, then directories, so that a durable name never lacks its length.
func syncAll(files []*File, dirs map[string]struct{}) error {
	for _, f := range files {
		h, err := os.OpenFile(f.Path(), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) && f.gone.Load() != nil {
			continue // truncated meanwhile
		}
		if err != nil {
			return fmt.Errorf("sync mapped file: %w", err)
		}
		err = mmap.Datasync(h)
		_ = h.Close() // synced
		if err != nil {
			return err
		}
	}
	for dir := range dirs {
		if err := mmap.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// Truncate removes everything at and above position off, durably when it returns nil: files that begin there are unlinked,
// last one first so that a crash leaves no gap; the rest of the file that holds off reads as zero. A position at or
// above EndOffset does nothing. Holders of an unlinked file keep its bytes; holders of the cut file see the zeros.
//
// Source: MappedFileQueue.truncateDirtyFiles, 5.5.0, which leaves the old bytes to be found again at the next start.
func (q *Queue) Truncate(off int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.writableLocked(); err != nil {
		return fmt.Errorf("truncate mapped files in %s: %w", q.dir, err)
	}
	if off < 0 {
		return fmt.Errorf("truncate mapped files in %s: position %d < 0", q.dir, off)
	}
	files := q.Files()
	keep := len(files)
	for keep > 0 && files[keep-1].from >= off {
		keep--
		f := files[keep]
		if err := os.Remove(f.Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return q.failLocked(fmt.Errorf("truncate mapped files: %w", err))
		}
		left := files[:keep:keep]
		q.files.Store(&left)
		f.retire(ErrRemoved)
	}
	if keep < len(files) {
		if err := mmap.SyncDir(q.dir); err != nil {
			return q.failLocked(err)
		}
	}
	if keep > 0 && files[keep-1].End() > off {
		if err := files[keep-1].erase(off - files[keep-1].from); err != nil {
			return q.failLocked(err)
		}
	}
	return nil
}

// erase zeroes the file from byte at on and syncs it.
func (f *File) erase(at int64) error {
	h, err := os.OpenFile(f.Path(), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("truncate mapped file: %w", err)
	}
	defer func() { _ = h.Close() }() // synced below, or failed already
	f.reservedAt, f.reservedTo = 0, 0
	if err := mmap.Erase(h, at, f.size-at); err != nil {
		return err
	}
	return mmap.Datasync(h)
}
