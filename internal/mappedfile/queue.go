package mappedfile

import (
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Options of Open.
type Options struct {
	// FS holds the directories. nil: mmap.OS.
	FS mmap.FS
	// Writable allows Create, WriteAt, Truncate, RemoveFirst and Sync. A read-only queue changes nothing on disk.
	Writable bool
	// FileSize is the length of every file in bytes. 0: read off the directory. A positive size that the files contradict
	// is an error; it is needed to write into an empty directory.
	FileSize int64
	// MoreDirs are further directories that hold files of this run and in which new ones may be made.
	MoreDirs []string
	// ReadOnlyDirs are directories whose files belong to the run and in which nothing is made, changed or removed. One that
	// is named as Dir or in MoreDirs too is read-only.
	ReadOnlyDirs []string
	// DirFull tells whether no new file should go into dir, as long as there is another. nil: no directory is full. It is
	// called while a file is being made and must not call the queue.
	//
	// A file goes into that one of the directories, sorted, which are not read-only and not full (of all that are not
	// read-only, when all are full) whose index is its number modulo their count.
	// Source: MultiPathMappedFileQueue.tryCreateMappedFile, 5.5.0.
	DirFull func(dir string) bool
	// Allocate reserves the blocks of a whole file when it is made, so that a full disk is an error there. Without it files
	// are sparse and WriteAt reserves a little ahead, from 4 KiB to 1 MiB, the more the further it is. A filesystem that cannot reserve is logged once at Warn; its files
	// stay sparse.
	Allocate bool
	// Readahead lets the kernel read ahead of page faults: for files that are read through. Without it a fault brings in the
	// page touched and no other, which is right for the many files of which a process touches a page or two: with the
	// kernel's readahead, up to megabytes of each, a pass over 100,000 queues turns the whole page cache over. Who reads
	// a longer piece then asks for it by File.Advise and mmap.WillNeed.
	Readahead bool
	// Logger gets what Open ignored (foreign names, empty files). nil: discard.
	Logger *slog.Logger
}

// Queue is a run of files in one directory or several.
type Queue struct {
	fs       mmap.FS
	dir      string
	targets  []string // directories in which files may be made, sorted
	readOnly []string
	dirFull  func(dir string) bool
	writable bool
	random   atomic.Bool
	allocate bool
	log      *slog.Logger
	fileSize atomic.Int64
	foreign  []string
	files    atomic.Pointer[[]*File] // ascending, without gap; replaced as a whole

	noReserve sync.Once  // the filesystem cannot reserve: logged
	removing  sync.Mutex // RemoveFirst and Truncate take turns; taken before mu
	syncing   sync.Mutex // calls of Sync take turns; taken before mu

	mu struct { // serialises writers and Close; Create and RemoveFirst do not hold it during their I/O
		sync.Mutex
		closed  bool
		failed  error               // sticky: first failed write or sync
		syncDir map[string]struct{} // directories whose entries changed since the last Sync
		made    []*File             // by Create and not adopted, ascending and without gap
		making  bool                // Create is at work behind the last of made
		empty   []string            // paths of the empty files that Open ignored
	}
}

// Open reads the directory dir and those of o. A missing directory is an empty one. It opens and maps no file and changes
// nothing.
//
// Only names of 20 digits count. Directories are ignored, other names are listed by Foreign and logged once. A last file of
// length zero is ignored and logged too: it was being made when the writer died. The same goes for one whose name another
// directory holds with bytes. Everything else that is no run of equal files is a *FileError that names the file: a length
// that differs from FileSize (given, or that of most files, or of the first), a name that is no multiple of it, a name that
// does not follow its predecessor, a name in two directories.
//
// Source: MappedFileQueue.load and checkSelf, 5.5.0, which give up on any foreign name and only log a gap.
func Open(dir string, o Options) (*Queue, error) {
	if o.FileSize < 0 {
		return nil, fmt.Errorf("open mapped files in %s: file size %d < 0", dir, o.FileSize)
	}
	q := &Queue{
		fs: o.FS, dir: filepath.Clean(dir), dirFull: o.DirFull, log: o.Logger,
		writable: o.Writable, allocate: o.Allocate,
	}
	q.random.Store(!o.Readahead)
	if q.fs == nil {
		q.fs = mmap.OS
	}
	if q.log == nil {
		q.log = slog.New(slog.DiscardHandler)
	}
	q.setDirs(o)
	l, err := listDirs(q.fs, q.dirs(), q.readOnly)
	if err != nil {
		return nil, err
	}
	size, err := check(l.found, o.FileSize)
	if err != nil {
		return nil, err
	}
	q.fileSize.Store(size)
	q.foreign = l.foreign
	q.mu.empty = l.empty
	files := make([]*File, len(l.found))
	for i, e := range l.found {
		files[i] = q.newFile(e.dir, e.from)
		files[i].readOnly = !o.Writable || e.readOnly
	}
	q.files.Store(&files)
	l.report(q.log)
	return q, nil
}

// setDirs sorts the directories into targets and readOnly, each one once.
func (q *Queue) setDirs(o Options) {
	for _, dir := range o.ReadOnlyDirs {
		if dir = filepath.Clean(dir); !slices.Contains(q.readOnly, dir) {
			q.readOnly = append(q.readOnly, dir)
		}
	}
	for _, dir := range append([]string{q.dir}, o.MoreDirs...) {
		if dir = filepath.Clean(dir); !slices.Contains(q.readOnly, dir) && !slices.Contains(q.targets, dir) {
			q.targets = append(q.targets, dir)
		}
	}
	slices.Sort(q.targets)
}

// dirs returns all directories.
func (q *Queue) dirs() []string { return slices.Concat(q.targets, q.readOnly) }

func (q *Queue) newFile(dir string, from int64) *File {
	f := &File{q: q, dir: dir, from: from, size: q.fileSize.Load()}
	f.state.Store(unmapped)
	f.release = f.Release
	return f
}

// Dir returns the directory, of several the one that was Open's argument.
func (q *Queue) Dir() string { return q.dir }

// FileSize returns the length of each file in bytes; 0 when the directory is empty and no size was given.
func (q *Queue) FileSize() int64 { return q.fileSize.Load() }

// Files returns the files in ascending order, a snapshot that the caller must not change.
func (q *Queue) Files() []*File { return *q.files.Load() }

// Foreign returns the paths that Open ignored because of their names, directories aside.
func (q *Queue) Foreign() []string { return slices.Clone(q.foreign) }

// MinOffset returns the position of the first byte, -1 when there is no file.
func (q *Queue) MinOffset() int64 {
	if files := q.Files(); len(files) > 0 {
		return files[0].from
	}
	return -1
}

// EndOffset returns the position just past the last file, -1 when there is none. It says nothing about content: a file is
// full of zeros until its owner writes to it.
func (q *Queue) EndOffset() int64 {
	if files := q.Files(); len(files) > 0 {
		return files[len(files)-1].End()
	}
	return -1
}

// Find returns the file that holds the byte at position off. Beside RemoveFirst it returns that file or none, never a
// neighbour; the file may be removed before it is held, and Hold then answers ErrRemoved.
func (q *Queue) Find(off int64) (*File, bool) {
	files := q.Files() // one snapshot for bounds and index
	if len(files) == 0 || off < files[0].from || off >= files[len(files)-1].End() {
		return nil, false
	}
	return files[(off-files[0].from)/files[0].size], true
}

// ChangedMs returns when the file that begins at from last changed, in Unix milliseconds, as FindByTime sees it. The error matches
// fs.ErrNotExist when there is no such file.
func (q *Queue) ChangedMs(from int64) (int64, error) {
	for _, dir := range q.dirs() {
		var l listing
		if err := l.add(q.fs, dir, false); err != nil {
			return 0, err
		}
		for _, e := range l.found {
			if e.from == from && e.size > 0 {
				return e.changedMs, nil
			}
		}
	}
	return 0, fmt.Errorf("time of %s in %s: %w", Name(from), q.dir, fs.ErrNotExist)
}

// FindByTime returns the first file whose last change was at ms (Unix milliseconds) or later; the last file when all are
// older; false when there is no file. It reads the directories, so it is for rare questions.
//
// A file changes when bytes are written to it or stored through its mapping; the kernel notes the latter only as it writes
// them back.
//
// Source: MappedFileQueue.getMappedFileByTime, 5.5.0.
func (q *Queue) FindByTime(ms int64) (f *File, ok bool, err error) {
	changed := make(map[int64]int64) // by first position
	for _, dir := range q.dirs() {
		var l listing
		if err := l.add(q.fs, dir, false); err != nil {
			return nil, false, err
		}
		for _, e := range l.found {
			if e.size > 0 {
				changed[e.from] = max(changed[e.from], e.changedMs)
			}
		}
	}
	files := q.Files()
	for _, f := range files {
		if at, ok := changed[f.from]; ok && at >= ms { // not ok: removed meanwhile
			return f, true, nil
		}
	}
	if len(files) == 0 {
		return nil, false, nil
	}
	return files[len(files)-1], true, nil
}

// Close makes every Hold fail with ErrClosed and unmaps what nobody holds; what is held is unmapped at its last Release. It
// makes nothing durable: call Sync before. Files made by Create and not adopted stay on disk: Discard them before. Idempotent.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.closed = true
	for _, f := range slices.Concat(q.Files(), q.mu.made) {
		f.retire(ErrClosed)
	}
	return nil
}
