package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// abortMark is the file abort of an open store: whoever finds it knows that the store was not closed in order.
type abortMark struct {
	fs    mmap.FS
	path  string
	found bool // it was there before
}

// markAbort makes the file, durably, with the number of this process in it as RocketMQ writes it (nobody reads it). One that is there
// already stays, with the new number.
//
// Source: DefaultMessageStore.createTempFile, 5.5.0.
func markAbort(fsys mmap.FS, path string) (abortMark, error) {
	a := abortMark{fs: fsys, path: path}
	f, err := fsys.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		a.found = true
		f, err = fsys.OpenFile(path, os.O_WRONLY, 0o644)
	}
	if err != nil {
		return a, fmt.Errorf("write the abort mark: %w", err)
	}
	pid := strconv.AppendInt(nil, int64(os.Getpid()), 10)
	if _, err = f.WriteAt(pid, 0); err == nil {
		err = f.Truncate(int64(len(pid)))
	}
	if err == nil {
		err = f.Datasync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fsys.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return a, fmt.Errorf("write the abort mark: %w", err)
	}
	return a, nil
}

// undo removes the file if markAbort made it.
func (a *abortMark) undo() error {
	if a.found {
		return nil
	}
	return a.remove()
}

// remove removes the file.
func (a *abortMark) remove() error {
	err := a.fs.Remove(a.path)
	if err == nil {
		err = a.fs.SyncDir(filepath.Dir(a.path))
	}
	if err != nil {
		return fmt.Errorf("remove the abort mark: %w", err)
	}
	return nil
}

// makeDir makes a directory, and those above it, durably.
func makeDir(fsys mmap.FS, dir string) error {
	err := fsys.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		if err := makeDir(fsys, filepath.Dir(dir)); err != nil {
			return err
		}
		err = fsys.Mkdir(dir, 0o755)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(dir))
	}
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return nil
}
