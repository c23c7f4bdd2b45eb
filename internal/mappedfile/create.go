package mappedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Create makes the file that begins at position from, in full length, reading as zero, with its blocks when Options.Allocate
// is set. When it returns, the file and its directory entry are durable. The file may be held, written to and synced, but it
// is no part of the queue before Adopt. Create does its I/O without hindering other calls, so it can run ahead of need on a
// goroutine of its own.
//
// from is EndOffset, or the end of the last file made and not adopted; in an empty queue any multiple of FileSize. A file is
// made only behind one that exists, so that a crash leaves no gap.
//
// On error no file is left behind, and a later call may try again: the error wraps the cause (syscall.ENOSPC, fs.ErrExist
// for a file of that name with bytes in any of the directories), or is ErrReadOnly or ErrClosed. Two errors leave more: a
// file that cannot be unlinked either is cut to length zero, which Open ignores and the next Create takes away; and a failed
// sync of a directory is sticky, see WriteAt. There is one file per position in all directories: an empty one of that name,
// left by a writer that died, is taken over, or removed durably where it is in another directory.
func (q *Queue) Create(from int64) (*File, error) {
	if err := q.startMaking(from); err != nil {
		return nil, fmt.Errorf("create mapped file %s in %s: %w", Name(max(from, 0)), q.dir, err)
	}
	f, err := q.makeDurable(from)

	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.making = false
	if err == nil && q.mu.closed {
		_, uerr := q.unlink(f)
		err = fmt.Errorf("create mapped file %s: %w", f.Path(), errors.Join(ErrClosed, uerr))
	}
	if err != nil {
		return nil, q.failIfDirLocked(err)
	}
	q.mu.made = append(q.mu.made, f)
	return f, nil
}

// startMaking checks that from is the next position and bars other calls of Create.
func (q *Queue) startMaking(from int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.writableLocked(); err != nil {
		return err
	}
	size := q.FileSize()
	end := q.EndOffset()
	if n := len(q.mu.made); n > 0 {
		end = q.mu.made[n-1].End()
	}
	switch {
	case size == 0:
		return errNoSize
	case from < 0 || from%size != 0 || from > math.MaxInt64-size:
		return fmt.Errorf("position %d is no multiple of the file size %d in [0, 2^63-%d)", from, size, size)
	case end >= 0 && from != end:
		return fmt.Errorf("position %d is not the next one, %d", from, end)
	case q.mu.making:
		return fmt.Errorf("the file is being made by another call")
	}
	q.mu.making = true
	return nil
}

// makeDurable makes the file at from and syncs all that it needs to be found again.
func (q *Queue) makeDurable(from int64) (*File, error) {
	f, h, changed, err := q.makeFile(from)
	if err != nil {
		return nil, err
	}
	if err := h.Datasync(); err != nil {
		return nil, fmt.Errorf("create mapped file %s: %w", f.Path(), errors.Join(err, q.takeBack(f, h)))
	}
	_ = h.Close() // synced
	for _, dir := range changed {
		if err := q.syncDir(dir); err != nil {
			_, uerr := q.unlink(f)
			return nil, fmt.Errorf("create mapped file %s: %w", f.Path(), errors.Join(err, uerr))
		}
	}
	return f, nil
}

// makeFile makes the file at from in full length, and its directory if it has to. On error there is no such file.
// changed are the directories whose entries it changed, to be synced in this order.
func (q *Queue) makeFile(from int64) (f *File, h mmap.File, changed []string, err error) {
	dir, err := q.dirFor(from)
	if err != nil {
		return nil, nil, nil, err
	}
	f = q.newFile(dir, from)
	fail := func(err error) (*File, mmap.File, []string, error) {
		return nil, nil, nil, fmt.Errorf("create mapped file %s: %w", f.Path(), err)
	}
	if err := q.onlyIn(dir, from); err != nil {
		return fail(err)
	}
	if changed, err = q.mkdir(dir); err != nil {
		return fail(err)
	}
	// Not O_EXCL: a file of length zero that a dying writer left behind is taken over.
	if h, err = q.fs.OpenFile(f.Path(), os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return fail(err)
	}
	n, err := h.Size()
	if err == nil && n != 0 {
		err = fmt.Errorf("%w with %d bytes", fs.ErrExist, n)
	}
	if err != nil {
		_ = h.Close() // somebody else's
		return fail(err)
	}
	if err := q.fill(f, h); err != nil {
		return fail(errors.Join(err, q.takeBack(f, h)))
	}
	return f, h, append(changed, dir), nil
}

// fill gives the file its length, and its blocks if the queue wants them. The length comes first: filesystems make it grow
// along with the blocks, piece by piece, and a crash in between would leave a file of odd length.
func (q *Queue) fill(f *File, h mmap.File) error {
	if err := h.Truncate(f.size); err != nil {
		return err
	}
	if !q.allocate {
		return nil
	}
	err := h.Preallocate(0, f.size)
	if errors.Is(err, errors.ErrUnsupported) {
		q.noReserve.Do(func() {
			q.log.Warn("filesystem cannot reserve blocks: a full disk will be noticed late", slog.String("file", f.Path()), slog.Any("err", err))
		})
		return nil
	}
	if err == nil {
		f.reservedTo = f.size
	}
	return err
}

// takeBack closes h and removes the half-made file, durably, so that one made later in another directory is the only one. It
// is cut first: what cannot be unlinked is then at least seen to be a leftover, and holds no blocks.
func (q *Queue) takeBack(f *File, h mmap.File) error {
	_ = h.Truncate(0)
	_ = h.Close()
	_, err := q.unlink(f)
	return err
}

// unlink removes the file durably and ends its mapping. done tells that the name is gone, which an error may only leave
// without durability.
func (q *Queue) unlink(f *File) (done bool, err error) {
	f.ending.Store(true)
	if err := q.fs.Remove(f.Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.ending.Store(false)
		return false, err
	}
	f.retire(ErrRemoved)
	return true, q.syncDir(f.dir)
}

// dirFor returns the directory for the file at from.
func (q *Queue) dirFor(from int64) (string, error) {
	dirs := q.targets
	if len(dirs) == 0 {
		return "", fmt.Errorf("create mapped file %s: all directories are read-only: %w", Name(from), ErrReadOnly)
	}
	if len(dirs) > 1 && q.dirFull != nil {
		if free := slices.DeleteFunc(slices.Clone(dirs), q.dirFull); len(free) > 0 {
			dirs = free
		}
	}
	return dirs[from/q.FileSize()%int64(len(dirs))], nil
}

// onlyIn sees that no directory but dir holds the file at from: empty ones are removed, others are an error. An empty file in
// a read-only directory has to stay; Open prefers the one with bytes.
func (q *Queue) onlyIn(dir string, from int64) error {
	for _, other := range q.dirs() {
		if other == dir {
			continue
		}
		path := filepath.Join(other, Name(from))
		n, err := q.sizeOf(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case n != 0:
			return fmt.Errorf("%w in another directory: %s with %d bytes", fs.ErrExist, path, n)
		case slices.Contains(q.readOnly, other):
			continue
		}
		if err := q.fs.Remove(path); err != nil {
			return err
		}
		if err := q.syncDir(other); err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue) sizeOf(path string) (int64, error) {
	h, err := q.fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = h.Close() }() // read-only
	return h.Size()
}

// mkdir makes dir and its missing parents, and returns where entries were added.
func (q *Queue) mkdir(dir string) (changed []string, err error) {
	err = q.fs.Mkdir(dir, 0o755)
	switch parent := filepath.Dir(dir); {
	case err == nil:
		return []string{parent}, nil
	case errors.Is(err, fs.ErrExist):
		return nil, nil
	case errors.Is(err, fs.ErrNotExist) && parent != dir:
		if changed, err = q.mkdir(parent); err != nil {
			return nil, err
		}
		more, err := q.mkdir(dir)
		return append(changed, more...), err
	}
	return nil, err
}

// dirSyncError marks a failed sync of a directory, after which nobody knows which names are durable.
type dirSyncError struct{ error }

func (e dirSyncError) Unwrap() error { return e.error }

func (q *Queue) syncDir(dir string) error {
	if err := q.fs.SyncDir(dir); err != nil {
		return dirSyncError{err}
	}
	return nil
}

// failIfDirLocked makes err sticky if it comes from syncing a directory.
func (q *Queue) failIfDirLocked(err error) error {
	var de dirSyncError
	if errors.As(err, &de) {
		return q.failLocked(err)
	}
	return err
}

// Adopt makes f, the first file made by Create and not adopted, the last of the queue. It does no I/O.
func (q *Queue) Adopt(f *File) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.writableLocked(); err != nil {
		return fmt.Errorf("adopt %s: %w", f.Path(), err)
	}
	if len(q.mu.made) == 0 || q.mu.made[0] != f {
		return fmt.Errorf("adopt %s: it is not the next file made", f.Path())
	}
	if end := q.EndOffset(); end >= 0 && end != f.from {
		return fmt.Errorf("adopt %s: the queue ends at %d", f.Path(), end)
	}
	q.mu.made = q.mu.made[1:]
	q.appendLocked(f)
	return nil
}

func (q *Queue) appendLocked(f *File) {
	files := slices.Concat(q.Files(), []*File{f})
	q.files.Store(&files)
}

// Discard removes f, the last file made by Create and not adopted, durably. Holders keep its bytes. When it cannot be
// unlinked it stays as it was, and Discard may be tried again. A failed sync of the directory is sticky, see WriteAt.
func (q *Queue) Discard(f *File) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch n := len(q.mu.made); {
	case q.mu.closed:
		return fmt.Errorf("discard %s: %w", f.Path(), ErrClosed)
	case n == 0 || q.mu.made[n-1] != f || q.mu.making:
		return fmt.Errorf("discard %s: it is not the last file made", f.Path())
	}
	done, err := q.unlink(f)
	if done {
		q.mu.made = q.mu.made[:len(q.mu.made)-1]
	}
	if err != nil {
		return q.failIfDirLocked(fmt.Errorf("discard mapped file: %w", err))
	}
	return nil
}
