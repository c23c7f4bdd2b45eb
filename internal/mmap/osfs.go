package mmap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OS is the filesystem of the machine.
var OS FS = osFS{}

type osFS struct{}

func (osFS) OpenFile(path string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

func (osFS) ReadDir(dir string) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	infos := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			if _, lerr := os.Lstat(path); errors.Is(lerr, fs.ErrNotExist) {
				continue // gone since the directory was read; a link to nowhere would still be there
			}
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func (osFS) Mkdir(dir string, perm fs.FileMode) error { return os.Mkdir(dir, perm) }

func (osFS) Remove(path string) error { return os.Remove(path) }

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

func (osFS) SyncDir(dir string) error { return SyncDir(dir) }

func (osFS) Usage(dir string) (total, free int64, err error) {
	if total, free, err = usage(dir); err != nil {
		return 0, 0, fmt.Errorf("space of %s: %w", dir, err)
	}
	return total, free, nil
}

// osFile is an *os.File with the functions of this package as methods. The file is no embedded field: its Read, Write and
// Seek would be reachable by a type assertion.
type osFile struct{ f *os.File }

var _ File = (*osFile)(nil)

func (o *osFile) Name() string { return o.f.Name() }

func (o *osFile) Size() (int64, error) {
	st, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (o *osFile) ReadAt(b []byte, off int64) (int, error) { return o.f.ReadAt(b, off) }

func (o *osFile) WriteAt(b []byte, off int64) (int, error) { return o.f.WriteAt(b, off) }

func (o *osFile) Truncate(size int64) error { return o.f.Truncate(size) }

func (o *osFile) Preallocate(off, n int64) error { return Preallocate(o.f, off, n) }

func (o *osFile) Erase(off, n int64) error { return Erase(o.f, off, n) }

func (o *osFile) NextData(off int64) (from, to int64, err error) { return NextData(o.f, off) }

func (o *osFile) Datasync() error { return Datasync(o.f) }

// StartWriteback asks for SYNC_FILE_RANGE_WRITE alone. The flags that wait would also take note of a write error on behalf of
// this descriptor, and the Datasync after it would then know nothing of it.
func (o *osFile) StartWriteback(off, n int64) error {
	if n == 0 { // means "to the end" to the kernel
		return nil
	}
	err := control(o.f, func(fd int) error {
		return retryEINTR(func() error { return unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE) })
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		err = errors.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("start to write %d bytes of %s at %d: %w", n, o.f.Name(), off, err)
	}
	return nil
}

func (o *osFile) Map(size int64, writable bool) (Mapping, error) {
	r, err := Map(o.f, size, writable)
	if err != nil {
		return nil, err // and not r, which would be a Mapping that is not nil
	}
	return r, nil
}

func (o *osFile) Close() error { return o.f.Close() }
