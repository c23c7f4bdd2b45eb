package mmap

import "io/fs"

// FS is what file queues need of a filesystem. OS is the real one; internal/faultfs is one in memory that fails and crashes
// on demand. Whoever writes a log or a queue goes through it, so that every operation that can fail or be cut off by a power
// loss can be made to.
//
// Errors of all methods of an FS, its Files and their Mappings name the path and wrap the cause, so that errors.Is works for
// fs.ErrNotExist, fs.ErrExist, fs.ErrClosed, errors.ErrUnsupported and the numbers of package syscall, ENOSPC above all. The
// one exception is io.EOF of File.ReadAt, which stands alone as io.ReaderAt demands. What a method promises to be durable,
// and nothing else, survives a loss of power; of everything else any subset of 4 KiB pages, lengths and directory entries
// may. All methods may be called concurrently, those of File and Mapping with the limits told there.
type FS interface {
	// OpenFile opens a file as os.OpenFile does; flags are those of package os, but for O_APPEND, which WriteAt does not
	// go with. A file that it creates is durable after Datasync of the file and SyncDir of its directory, in either order.
	OpenFile(path string, flag int, perm fs.FileMode) (File, error)
	// ReadDir lists a directory, sorted by name, following links: an entry has the name of the link and tells what the link
	// points to. An entry that vanishes meanwhile is left out; a link that points nowhere is an error.
	ReadDir(dir string) ([]fs.FileInfo, error)
	// Mkdir makes one directory, whose entry is durable after SyncDir of its parent. An error that matches fs.ErrExist
	// when there is something of that name.
	Mkdir(dir string, perm fs.FileMode) error
	// Remove unlinks a file or an empty directory. Open files and mappings of it stay usable; its blocks are given back
	// when the last of them is gone.
	Remove(path string) error
	// Rename moves the file from to the name to, replacing a file there. Nobody ever sees to missing, and a loss of power
	// before SyncDir leaves the one file or the other under it; the content of the moved file is as durable as it was.
	Rename(from, to string) error
	// SyncDir makes the entries of a directory durable: files created in, removed from or renamed into it.
	SyncDir(dir string) error
	// Usage returns how many bytes the filesystem that holds dir has and how many of them an unprivileged process may still
	// take.
	Usage(dir string) (total, free int64, err error)
}

// File is an open file. All methods may be called concurrently, NextData excepted, which moves the file position. After
// Close all of them but Name answer an error that matches fs.ErrClosed.
type File interface {
	// Name returns the path it was opened by.
	Name() string
	// Size returns the length in bytes.
	Size() (int64, error)
	// ReadAt and WriteAt are those of io.ReaderAt and io.WriterAt: all of b, or an error and how much was done. Mappings of
	// the file see what was written at once, and a read sees what was stored through a mapping. WriteAt extends the file;
	// bytes skipped so read as zero. A WriteAt that failed may have written any part of b, also more than it counts.
	ReadAt(b []byte, off int64) (int, error)
	WriteAt(b []byte, off int64) (int, error)
	// Truncate sets the length; bytes gained read as zero and have no blocks.
	Truncate(size int64) error
	// Preallocate reserves blocks for bytes [off, off+n), see the function Preallocate.
	Preallocate(off, n int64) error
	// Erase makes bytes [off, off+n) read as zero, see the function Erase.
	Erase(off, n int64) error
	// NextData finds the next bytes that are not in a hole, see the function NextData. Its calls on one File exclude each
	// other.
	NextData(off int64) (from, to int64, err error)
	// Datasync makes content and length durable, as they were when it was called, stores through mappings included; of
	// what is stored meanwhile any part may be. After an error nothing can be said about any write since the last success;
	// trying again and believing a later success loses data.
	Datasync() error
	// StartWriteback has the kernel begin to write bytes [off, off+n), widened to whole pages, and does not wait for the
	// disk, but for room in its queue when that is full. It promises nothing: the write that Datasync has to wait for later
	// is only shorter, and an error of that write is still answered by Datasync. n == 0 does nothing. An error that matches
	// errors.ErrUnsupported means it does nothing here.
	StartWriteback(off, n int64) error
	// Map maps bytes [0, size), see the function Map. Several mappings of a file, also of different sizes, share their
	// bytes. The descriptor must be open for reading, and for writing too when the mapping is to be writable: else an error
	// that matches fs.ErrPermission.
	Map(size int64, writable bool) (Mapping, error)
	// Close closes the descriptor; mappings stay. It makes nothing durable.
	Close() error
}

// Mapping is the bytes of a file in memory: a *Region, or what stands for one in a test. All methods may be called
// concurrently; Flush, Advise, Lock, Unlock and Resident answer an error outside of the mapping and after Unmap (ErrUnmapped).
type Mapping interface {
	// Bytes returns the mapped bytes, valid until Unmap, nil afterwards. Storing into a mapping that is not writable kills
	// the process.
	Bytes() []byte
	// Flush makes bytes [off, off+n), widened to whole pages, durable, with the length of the file. What was said of a
	// failed Datasync holds for a failed Flush.
	Flush(off, n int64) error
	// Advise gives advice about bytes [off, off+n), see Region.Advise.
	Advise(off, n int64, a Advice) error
	// Lock reads bytes [off, off+n), widened to whole pages, and keeps them in memory until Unlock or Unmap. Locks do not
	// nest: one Unlock ends any number of them. An error when the process may lock no more, of which it is no sign that
	// part of the range is not locked.
	Lock(off, n int64) error
	// Unlock lets bytes [off, off+n) be dropped from memory again.
	Unlock(off, n int64) error
	// Resident tells whether all of bytes [off, off+n) are in memory at this moment, so that touching them waits for no disk, see Region.Resident.
	Resident(off, n int64) (bool, error)
	// Unmap ends the mapping; idempotent. It waits for running calls of the other methods. Nobody may touch the bytes
	// afterwards.
	Unmap() error
}
