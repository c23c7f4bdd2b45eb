package mmap

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrLocked is the class of a LockedError.
var ErrLocked = errors.New("locked by another process")

// LockedError tells that a lock is held elsewhere.
type LockedError struct {
	Path string
	PID  int // process that holds the lock; 0 when it could not be told (it has just let go, or lives in another namespace)
}

func (e *LockedError) Error() string {
	switch e.PID {
	case 0:
		return fmt.Sprintf("lock %s: held by another process", e.Path)
	case os.Getpid():
		return fmt.Sprintf("lock %s: already held by this process (pid %d)", e.Path, e.PID)
	}
	return fmt.Sprintf("lock %s: held by process %d", e.Path, e.PID)
}

// Is matches ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

type inode struct{ dev, ino uint64 }

// held lists the locks of this process. The kernel's record locks do not exclude a process from itself, and they vanish
// when any descriptor of the file is closed, so this table answers before the file is opened at all.
var held struct {
	sync.Mutex
	m map[inode]*heldLock
}

type heldLock struct {
	file      *os.File
	exclusive bool
	refs      int
}

// FileLock is a lock on byte [0,1) of a file. Close lets go of it; so does the end of the process.
type FileLock struct {
	path string
	id   inode
	h    *heldLock
	once sync.Once
	err  error
}

// Lock takes the lock of a store directory without waiting. It is a traditional POSIX record lock (fcntl F_SETLK) on
// bytes [0,1), which is what FileChannel.lock(0,1,shared) takes, so a RocketMQ broker and this module exclude each other.
// An exclusive lock opens the file for writing and creates it when it is missing; a shared lock opens it for reading only
// and never creates it (a missing file is fs.ErrNotExist). Several shared locks may be held, by one process too.
//
// Errors: *LockedError when the lock is held elsewhere, by this process too; otherwise the error of the system call.
//
// The trap of these locks: they belong to the process and the inode, and the kernel drops them when the process closes
// ANY descriptor of that file, however it was opened. As long as a FileLock is held nothing in this process may open the
// lock file, not even to read or copy it (os.ReadFile closes what it opened); FileLock.ReadAll and FileLock.WriteAll work
// on the one descriptor there is.
//
// Source: DefaultMessageStore.start, 5.5.0.
func Lock(path string, exclusive bool) (*FileLock, error) {
	held.Lock()
	defer held.Unlock()
	if id, err := inodeOf(path); err == nil {
		if h := held.m[id]; h != nil {
			if exclusive || h.exclusive {
				return nil, &LockedError{Path: path, PID: os.Getpid()}
			}
			h.refs++
			return &FileLock{path: path, id: id, h: h}, nil
		}
	}
	flags, kind := os.O_RDONLY, int16(unix.F_RDLCK)
	if exclusive {
		flags, kind = os.O_RDWR|os.O_CREATE, unix.F_WRLCK
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := setLock(f, kind); err != nil {
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			err = &LockedError{Path: path, PID: holder(f, kind)}
		} else {
			err = fmt.Errorf("lock %s: %w", path, err)
		}
		_ = f.Close() // nothing was written, and this process holds no lock on it
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	id := inodeOfInfo(st)
	h := &heldLock{file: f, exclusive: exclusive, refs: 1}
	if held.m == nil {
		held.m = make(map[inode]*heldLock)
	}
	held.m[id] = h
	return &FileLock{path: path, id: id, h: h}, nil
}

func setLock(f *os.File, kind int16) error {
	return control(f, func(fd int) error {
		return unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: 0, Len: 1})
	})
}

// holder asks who stands in the way of a lock of that kind.
func holder(f *os.File, kind int16) int {
	fl := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: 0, Len: 1}
	err := control(f, func(fd int) error { return unix.FcntlFlock(uintptr(fd), unix.F_GETLK, &fl) })
	if err != nil || fl.Type == unix.F_UNLCK || fl.Pid < 0 {
		return 0
	}
	return int(fl.Pid)
}

func inodeOf(path string) (inode, error) {
	st, err := os.Stat(path)
	if err != nil {
		return inode{}, err
	}
	return inodeOfInfo(st), nil
}

func inodeOfInfo(st fs.FileInfo) inode {
	sys := st.Sys().(*syscall.Stat_t)
	return inode{dev: uint64(sys.Dev), ino: sys.Ino} //nolint:unconvert // Dev is narrower on some architectures
}

// ReadAll returns the content of the lock file, read through the descriptor that holds the lock.
func (l *FileLock) ReadAll() ([]byte, error) {
	b, err := io.ReadAll(io.NewSectionReader(l.h.file, 0, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read lock file %s: %w", l.path, err)
	}
	return b, nil
}

// WriteAll replaces the content of the lock file, through the descriptor that holds the (exclusive) lock, and syncs it.
// RocketMQ writes the four letters "lock".
func (l *FileLock) WriteAll(b []byte) error {
	_, err := l.h.file.WriteAt(b, 0)
	if err == nil {
		err = l.h.file.Truncate(int64(len(b)))
	}
	if err == nil {
		err = l.h.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write lock file %s: %w", l.path, err)
	}
	return nil
}

// Close lets go of the lock. The file stays: removing it would let two processes lock two different inodes. Idempotent.
func (l *FileLock) Close() error {
	l.once.Do(func() {
		held.Lock()
		defer held.Unlock()
		if l.h.refs--; l.h.refs > 0 {
			return
		}
		delete(held.m, l.id)
		if err := l.h.file.Close(); err != nil {
			l.err = fmt.Errorf("unlock %s: %w", l.path, err)
		}
	})
	return l.err
}
