package mmap

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Preallocate reserves blocks for bytes [off, off+n) of f and extends the file when it is shorter, so that a full disk is
// an error here and not a SIGBUS at a store into a mapping. Bytes already there are kept. A filesystem that cannot reserve
// answers an error that matches errors.ErrUnsupported; the file is then unchanged.
func Preallocate(f *os.File, off, n int64) error {
	err := control(f, func(fd int) error {
		return retryEINTR(func() error { return unix.Fallocate(fd, 0, off, n) })
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		err = errors.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("reserve %d bytes of %s at %d: %w", n, f.Name(), off, err)
	}
	return nil
}

// Erase makes bytes [off, off+n) of f read as zero without changing the length of the file, and gives their blocks back
// where the filesystem can. The range must lie within the file. It is durable after Datasync. Mappings of the file see the
// zeros at once.
func Erase(f *os.File, off, n int64) error {
	if n == 0 {
		return nil
	}
	err := control(f, func(fd int) error {
		return retryEINTR(func() error {
			return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
		})
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		err = writeZeros(f, off, n)
	}
	if err != nil {
		return fmt.Errorf("erase %d bytes of %s at %d: %w", n, f.Name(), off, err)
	}
	return nil
}

func writeZeros(f *os.File, off, n int64) error {
	zeros := make([]byte, min(n, 1<<20))
	for n > 0 {
		w, err := f.WriteAt(zeros[:min(n, int64(len(zeros)))], off)
		if err != nil {
			return err
		}
		off, n = off+int64(w), n-int64(w)
	}
	return nil
}

// NextData returns the first range [from, to) at or above off in which f may hold bytes other than zero, as far as the
// filesystem knows: ranges that it left out are holes, or reserved and never written, and read as zero. from == to == the
// length of the file when nothing but holes follow. A filesystem that keeps no holes answers everything from off on. It moves the
// file position of f, so that two calls on one f must not run at the same time.
func NextData(f *os.File, off int64) (from, to int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return 0, 0, fmt.Errorf("find data in %s: %w", f.Name(), err)
	}
	size := st.Size()
	if off >= size {
		return size, size, nil
	}
	from, err = f.Seek(off, unix.SEEK_DATA)
	if err == nil {
		to, err = f.Seek(from, unix.SEEK_HOLE)
	}
	switch {
	case err == nil:
		return from, to, nil
	case errors.Is(err, unix.ENXIO): // no data at or above off
		return size, size, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return off, size, nil
	}
	return 0, 0, fmt.Errorf("find data in %s at %d: %w", f.Name(), off, err)
}

// Datasync makes the content of f durable, with the metadata needed to read it back (its length), but not its times. It
// covers stores made through mappings. After an error nothing can be said about any write since the last success: the
// kernel may have dropped the pages, so the caller must not try again and believe a later success.
func Datasync(f *os.File) error {
	err := control(f, func(fd int) error {
		return retryEINTR(func() error { return unix.Fdatasync(fd) })
	})
	if err != nil {
		return fmt.Errorf("sync %s: %w", f.Name(), err)
	}
	return nil
}

// SyncDir makes the entries of a directory durable: files created in, removed from or renamed into it.
func SyncDir(dir string) error {
	return onDir(dir, "sync directory", func(d *os.File) error { return d.Sync() })
}

// SyncFS makes everything written to the filesystem that holds dir durable. One call is cheaper than a sync per file when
// there are thousands of files.
func SyncFS(dir string) error {
	return onDir(dir, "sync filesystem of", func(d *os.File) error {
		return control(d, func(fd int) error { return retryEINTR(func() error { return unix.Syncfs(fd) }) })
	})
}

func onDir(dir, action string, call func(*os.File) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("%s %s: %w", action, dir, err)
	}
	err = call(d)
	_ = d.Close() // read-only
	if err != nil {
		return fmt.Errorf("%s %s: %w", action, dir, err)
	}
	return nil
}

// FreeBytes returns how many bytes an unprivileged process may still write to the filesystem that holds dir.
func FreeBytes(dir string) (int64, error) {
	_, free, err := usage(dir)
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return free, nil
}

func usage(dir string) (total, free int64, err error) {
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return 0, 0, err
	}
	free = int64(st.Bavail) * st.Bsize
	return int64(st.Blocks-st.Bfree)*st.Bsize + free, free, nil // what is kept for root is neither used nor to be had
}

// control runs fn on the descriptor of f, which cannot be closed meanwhile.
func control(f *os.File, fn func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := c.Control(func(fd uintptr) { inner = fn(int(fd)) }); err != nil {
		return os.ErrClosed // the one way in which Control fails
	}
	return inner
}

func retryEINTR(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// DropCache asks the kernel to forget what it has of f in memory. Pages that are dirty, or mapped by somebody, stay. A kernel or filesystem that cannot is no error.
func DropCache(f *os.File) error {
	err := control(f, func(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) })
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("drop the cache of %s: %w", f.Name(), err)
	}
	return nil
}
