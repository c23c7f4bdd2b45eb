// Package conffile reads and replaces the small files of a configuration, as RocketMQ 5.5.0 keeps them: <name> and its former content in <name>.bak.
//
// A file is written to a temporary name, synced and renamed over the old one, which stays as .bak: at any instant one of the two is whole. A file that cannot be
// read is set aside as .broken when its .bak can.
package conffile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tandemq/tandemmq/internal/laxjson"
)

// Suffixes of a file's twins.
const (
	backupSuffix = ".bak"    // what the file was before it was last written, as 5.5.0 calls it
	brokenSuffix = ".broken" // one that could not be read
	newSuffix    = ".tmp"    // the next one, while it is written
)

// FileError tells which file could not be read or written, and why.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// errEmpty says that a file holds nothing: a write that was cut off.
var errEmpty = errors.New("it is empty")

// Load decodes the file into v, or its backup where the file is missing or bad; found is false when there is neither. A bad file that a
// good backup stands in for is set aside and comes back as note, an error that an operator should see. reset empties v before
// the second attempt.
func Load(path string, v any, reset func()) (found bool, note, err error) {
	bad := decode(path, v)
	if bad == nil {
		return true, nil, nil
	}
	missing := errors.Is(bad, fs.ErrNotExist)
	if unread := (*fs.PathError)(nil); !missing && errors.As(bad, &unread) {
		return false, nil, bad // a file that cannot be read now may be whole
	}
	reset()
	switch err := decode(path+backupSuffix, v); {
	case err == nil && missing:
		return true, nil, nil // a write that was cut off between its two renames
	case err == nil:
		if err := os.Rename(path, path+brokenSuffix); err != nil {
			return false, nil, &FileError{path, err}
		}
		return true, fmt.Errorf("%w; %s was taken, and the file set aside as %s", bad, filepath.Base(path)+backupSuffix, filepath.Base(path)+brokenSuffix), nil
	case missing && errors.Is(err, fs.ErrNotExist):
		reset()
		return false, nil, nil
	case missing:
		return false, nil, err
	case errors.Is(err, fs.ErrNotExist):
		return false, nil, bad
	default:
		return false, nil, errors.Join(bad, err)
	}
}

// Peek decodes the file into v, or its backup where the file is missing or bad, and changes nothing; found is false when there is neither. reset empties v before the second
// attempt. The error is about the file, when its backup cannot stand in for it.
func Peek(path string, v any, reset func()) (found bool, err error) {
	bad := decode(path, v)
	if bad == nil {
		return true, nil
	}
	reset()
	err = decode(path+backupSuffix, v)
	if err == nil {
		return true, nil
	}
	reset()
	if errors.Is(bad, fs.ErrNotExist) {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	return false, bad
}

func decode(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return &FileError{path, err}
	}
	if len(b) == 0 {
		return &FileError{path, errEmpty}
	}
	if err := laxjson.Unmarshal(b, v); err != nil {
		return &FileError{path, err}
	}
	return nil
}

// Replace writes the file anew, with the permissions that it has, and keeps the old one as its backup.
func Replace(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return &FileError{path, err}
	}
	old, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &FileError{path, err}
	}
	if err := writeSynced(path+newSuffix, b, old); err != nil {
		return errors.Join(&FileError{path, err}, os.Remove(path+newSuffix))
	}
	if err := os.Rename(path, path+backupSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &FileError{path, err}
	}
	if err := os.Rename(path+newSuffix, path); err != nil {
		return &FileError{path, err}
	}
	return syncDir(path)
}

// writeSynced writes a file in the place of old, if there is one.
func writeSynced(path string, b []byte, old fs.FileInfo) (err error) {
	mode := fs.FileMode(0o666) // less what the process masks
	if old != nil {
		mode = old.Mode().Perm()
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if old != nil {
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(path string) (err error) {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return &FileError{path, err}
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.Sync(); err != nil {
		return &FileError{path, err}
	}
	return nil
}
