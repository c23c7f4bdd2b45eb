package mappedfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// RemoveFirst unlinks the first file, durably when it returns nil. The last file is never removed. Holders keep its bytes; it
// is unmapped when the last of them releases it, and delays nothing but that.
//
// When the file cannot be unlinked it stays first in the queue, the error says why, and the next call tries again. Other
// errors: ErrReadOnly, of the queue or of the file's directory; ErrClosed; a failed sync of the directory, which is sticky
// (see WriteAt) since files removed later could be gone after a crash and this one back, a gap.
//
// The file is looked for by Find until it is unlinked; Hold and OpenFile of it answer ErrRemoved from then on. Writers are not
// held up meanwhile.
//
// Source: MappedFileQueue.deleteExpiredFileByTime and DefaultMappedFile.destroy, 5.5.0, which reports success whether or
// not the file could be unlinked.
func (q *Queue) RemoveFirst() error {
	q.removing.Lock()
	defer q.removing.Unlock()
	f, err := q.first()
	if err != nil {
		return fmt.Errorf("remove first mapped file in %s: %w", q.dir, err)
	}
	done, err := q.unlink(f)
	if !done {
		return fmt.Errorf("remove first mapped file: %w", err)
	}

	q.mu.Lock()
	defer q.mu.Unlock()
	files := q.Files()[1:]
	q.files.Store(&files)
	if err != nil {
		return q.failIfDirLocked(fmt.Errorf("remove first mapped file: %w", err))
	}
	return nil
}

// first returns the file that RemoveFirst may remove.
func (q *Queue) first() (*File, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.writableLocked(); err != nil {
		return nil, err
	}
	files := q.Files()
	switch {
	case len(files) == 0:
		return nil, errors.New("there is none")
	case len(files) == 1:
		return nil, fmt.Errorf("%s is the only one", files[0].Path())
	case files[0].readOnly:
		return nil, fmt.Errorf("%s: %w", files[0].Path(), ErrReadOnly)
	}
	return files[0], nil
}

// Truncate removes everything at and above position off, durably when it returns nil: files that begin there are unlinked,
// last one first and each durably before the next, so that a crash leaves no gap; the rest of the file that holds off reads
// as zero. A position at or above EndOffset does nothing. Holders of an unlinked file keep its bytes; holders of the cut file
// see the zeros. Empty files there, which Open ignored, go first: behind the cut they would be a second one at the end, or a gap.
//
// It is refused, and nothing changed, when a file that it had to touch is in a read-only directory, or while there are files
// made by Create and not adopted: Discard them before. An error of the disk is sticky, see WriteAt.
//
// Source: MappedFileQueue.truncateDirtyFiles, 5.5.0, which leaves the old bytes to be found again at the next start.
func (q *Queue) Truncate(off int64) error {
	q.removing.Lock()
	defer q.removing.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.mayTruncateLocked(off); err != nil {
		return fmt.Errorf("truncate mapped files in %s: %w", q.dir, err)
	}
	if err := q.removeEmptyLocked(off); err != nil {
		return q.failLocked(fmt.Errorf("truncate mapped files: %w", err))
	}
	files := q.Files()
	keep := len(files)
	for keep > 0 && files[keep-1].from >= off {
		keep--
		f := files[keep]
		done, err := q.unlink(f)
		if done {
			left := files[:keep:keep]
			q.files.Store(&left)
		}
		if err != nil {
			return q.failLocked(fmt.Errorf("truncate mapped files: %w", err))
		}
	}
	if keep > 0 && files[keep-1].End() > off {
		if err := files[keep-1].erase(off - files[keep-1].from); err != nil {
			return q.failLocked(err)
		}
	}
	return nil
}

// removeEmptyLocked removes, durably, the files at and above position off that Open ignored because they were empty, and that still are.
func (q *Queue) removeEmptyLocked(off int64) error {
	for len(q.mu.empty) > 0 {
		path := q.mu.empty[len(q.mu.empty)-1]
		from, _ := ParseName(filepath.Base(path))
		if n, err := q.sizeOf(path); from >= off && err == nil && n == 0 && !slices.Contains(q.readOnly, filepath.Dir(path)) {
			if err := q.fs.Remove(path); err != nil {
				return err
			}
			if err := q.syncDir(filepath.Dir(path)); err != nil {
				return err
			}
		}
		q.mu.empty = q.mu.empty[:len(q.mu.empty)-1]
	}
	return nil
}

func (q *Queue) mayTruncateLocked(off int64) error {
	if err := q.writableLocked(); err != nil {
		return err
	}
	if off < 0 {
		return fmt.Errorf("position %d < 0", off)
	}
	for _, f := range q.Files() {
		if f.End() > off && f.readOnly {
			return fmt.Errorf("%s: %w", f.Path(), ErrReadOnly)
		}
	}
	if len(q.mu.made) > 0 || q.mu.making {
		return errors.New("files made ahead have to be discarded first")
	}
	return nil
}

// erase zeroes the file from byte at on and syncs it.
func (f *File) erase(at int64) error {
	h, err := f.OpenFile()
	if err != nil {
		return fmt.Errorf("truncate mapped file: %w", err)
	}
	defer func() { _ = h.Close() }() // synced below, or failed already
	f.reservedAt, f.reservedTo = 0, 0
	if err := h.Erase(at, f.size-at); err != nil {
		return err
	}
	return h.Datasync()
}
