package compare

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// inputVersion is a part of the names of inputs: it changes when what makes them does.
const inputVersion = "2"

// ErrPrepared is what Input returns where nothing but it was wanted.
var ErrPrepared = errors.New("the input is there")

// Input returns the directory of that name in the cache, which begin makes once. It is not to be written to: see CopyInput.
func (r *Run) Input(name string, begin func(dir string) error) (string, error) {
	done := filepath.Join(r.Cache, name+"-v"+inputVersion)
	if _, err := os.Stat(done); err != nil {
		if err := r.makeInput(name, done, begin); err != nil {
			return "", err
		}
	}
	if r.Prepare {
		return "", ErrPrepared
	}
	return done, nil
}

func (r *Run) makeInput(name, done string, begin func(dir string) error) error {
	part, err := os.MkdirTemp(r.Cache, name+".part-")
	if err != nil {
		return err
	}
	if err := begin(filepath.Join(part, "input")); err != nil {
		return errors.Join(fmt.Errorf("make input %s: %w", name, err), os.RemoveAll(part))
	}
	if err := bare(filepath.Join(part, "input")); err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	err = os.Rename(filepath.Join(part, "input"), done)
	if _, there := os.Stat(done); there == nil {
		err = nil // another one was faster
	}
	return errors.Join(err, os.RemoveAll(part))
}

// bare gives back the blocks of files below dir that were reserved and not written: what the kernel has read ahead of them counts as data, and would be copied and written back as such, a gigabyte for
// a tenth of it.
func bare(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if err := calibrate.DropCache([]string{path}); err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(eraseHoles(f), f.Close())
	})
}

func eraseHoles(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); {
		from, to, err := mmap.NextData(f, at)
		if err == nil {
			err = mmap.Erase(f, at, from-at)
		}
		if err != nil {
			return err
		}
		at = to
	}
	return mmap.Datasync(f)
}

// CopyInput copies an input, holes as holes, into a directory that is not there yet, and writes it back: who opens it has not to wait for that.
func CopyInput(from, to string) error {
	if err := copyTree(from, to); err != nil {
		return err
	}
	syscall.Sync()
	return nil
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		return copyFile(path, filepath.Join(to, rel))
	})
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.Truncate(info.Size()); err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); {
		begin, end, err := mmap.NextData(in, at)
		if err != nil {
			return err
		}
		if _, err := in.Seek(begin, io.SeekStart); err != nil {
			return err
		}
		if _, err := out.Seek(begin, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(out, in, end-begin); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// freeBytes is what may still be written on the filesystem of dir.
func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}
