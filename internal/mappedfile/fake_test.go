package mappedfile

import (
	"io/fs"
	"sync/atomic"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// hookFS is the real filesystem with a hook before every operation; an error of the hook is the operation's. The hook gets
// the operation's name ("OpenFile", "Preallocate", ...) and the path.
type hookFS struct {
	mmap.FS
	hook func(op, path string) error
	open *atomic.Int64 // files open now
}

func newHookFS(hook func(op, path string) error) hookFS {
	return hookFS{FS: mmap.OS, hook: hook, open: new(atomic.Int64)}
}

func (h hookFS) OpenFile(path string, flag int, perm fs.FileMode) (mmap.File, error) {
	if err := h.hook("OpenFile", path); err != nil {
		return nil, err
	}
	f, err := h.FS.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	h.open.Add(1)
	return &hookFile{f, h}, nil
}

func (h hookFS) ReadDir(dir string) ([]fs.FileInfo, error) {
	if err := h.hook("ReadDir", dir); err != nil {
		return nil, err
	}
	return h.FS.ReadDir(dir)
}

func (h hookFS) Mkdir(dir string, perm fs.FileMode) error {
	if err := h.hook("Mkdir", dir); err != nil {
		return err
	}
	return h.FS.Mkdir(dir, perm)
}

func (h hookFS) Remove(path string) error {
	if err := h.hook("Remove", path); err != nil {
		return err
	}
	return h.FS.Remove(path)
}

func (h hookFS) SyncDir(dir string) error {
	if err := h.hook("SyncDir", dir); err != nil {
		return err
	}
	return h.FS.SyncDir(dir)
}

type hookFile struct {
	mmap.File
	h hookFS
}

func (f *hookFile) Truncate(size int64) error {
	if err := f.h.hook("Truncate", f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *hookFile) Preallocate(off, n int64) error {
	if err := f.h.hook("Preallocate", f.Name()); err != nil {
		return err
	}
	return f.File.Preallocate(off, n)
}

func (f *hookFile) Datasync() error {
	if err := f.h.hook("Datasync", f.Name()); err != nil {
		return err
	}
	return f.File.Datasync()
}

func (f *hookFile) Close() error {
	f.h.open.Add(-1)
	return f.File.Close()
}
