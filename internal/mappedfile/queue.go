package mappedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

// Options of Open.
type Options struct {
	// Writable allows WriteAt, Truncate and Sync. A read-only queue changes nothing on disk.
	Writable bool
	// FileSize is the length of every file in bytes. 0: read off the directory. A positive size that the files contradict
	// is an error; it is needed to write into an empty directory.
	FileSize int64
	// Readahead lets the kernel read ahead of page faults: for files that are read through. Without it a fault brings in the
	// page touched and no other, which is right for the many files of which a process touches a page or two: with the
	// kernel's readahead, up to megabytes of each, a pass over 100,000 queues turns the whole page cache over. Who reads
	// a longer piece then asks for it by File.Advise and mmap.WillNeed.
	Readahead bool
	// Logger gets what Open ignored (foreign names). nil: discard.
	Logger *slog.Logger
}

// Queue is a run of files in one directory.
type Queue struct {
	dir      string
	writable bool
	random   bool
	fileSize atomic.Int64
	foreign  []string
	files    atomic.Pointer[[]*File] // ascending, without gap; replaced as a whole

	mu struct { // serialises writers and Close
		sync.Mutex
		closed  bool
		failed  error               // sticky: first failed write or sync
		syncDir map[string]struct{} // directories whose entries changed since the last Sync
	}
}

// Open reads the directory dir. A missing directory is an empty queue. It opens and maps no file.
//
// Only names of 20 digits count. Directories are ignored, other names are listed by Foreign and logged once. A last file of
// length zero is ignored too: it was being made when the writer died. Everything else that is no run of equal files is a
// *FileError that names the file: a length that differs from FileSize (given, or that of most files, or of the first), a
// name that is no multiple of it, a name that does not follow its predecessor.
//
// Source: MappedFileQueue.load and checkSelf, 5.5.0, which give up on any foreign name and only log a gap.
func Open(dir string, o Options) (*Queue, error) {
	if o.FileSize < 0 {
		return nil, fmt.Errorf("open mapped files in %s: file size %d < 0", dir, o.FileSize)
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	found, foreign, err := listFiles(dir)
	if err != nil {
		return nil, err
	}
	size, err := check(dir, found, o.FileSize)
	if err != nil {
		return nil, err
	}
	q := &Queue{dir: dir, writable: o.Writable, random: !o.Readahead, foreign: foreign}
	q.fileSize.Store(size)
	files := make([]*File, len(found))
	for i, e := range found {
		files[i] = q.newFile(e.from)
	}
	q.files.Store(&files)
	for _, name := range foreign {
		log.Warn("ignored foreign file", slog.String("file", filepath.Join(dir, name)))
	}
	return q, nil
}

func (q *Queue) newFile(from int64) *File {
	f := &File{q: q, from: from, size: q.fileSize.Load()}
	f.state.Store(unmapped)
	f.release = f.Release
	return f
}

type dirEntry struct{ from, size int64 }

// listFiles returns the files with 20-digit names in ascending order, without a zero-length last one, and the foreign names.
func listFiles(dir string) (found []dirEntry, foreign []string, err error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list mapped files: %w", err)
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name())) // follows links: a segment may live on another disk
		if errors.Is(err, fs.ErrNotExist) && e.Type()&fs.ModeSymlink == 0 {
			continue // expired while we were looking
		}
		if err != nil {
			return nil, nil, fmt.Errorf("list mapped files: %w", err)
		}
		if info.IsDir() {
			continue
		}
		from, ok := ParseName(e.Name())
		if !ok || !info.Mode().IsRegular() {
			foreign = append(foreign, e.Name())
			continue
		}
		found = append(found, dirEntry{from, info.Size()})
	}
	if n := len(found); n > 0 && found[n-1].size == 0 {
		found = found[:n-1]
	}
	return found, foreign, nil
}

// check returns the file size of the run, or the first file that is not part of it. want 0: taken from the files.
func check(dir string, found []dirEntry, want int64) (int64, error) {
	size := want
	if size == 0 {
		size = commonSize(found)
	}
	for i, e := range found {
		fail := func(got, want string) error {
			return &FileError{Path: filepath.Join(dir, Name(e.from)), Offset: e.from, Got: got, Want: want}
		}
		switch {
		case size == 0:
			return 0, fail("0 bytes", "some bytes, or no file behind it")
		case e.size != size:
			return 0, fail(fmt.Sprintf("%d bytes", e.size), fmt.Sprintf("%d bytes", size))
		case i > 0 && e.from != found[i-1].from+size:
			return 0, fail("this name after "+Name(found[i-1].from), "file "+Name(found[i-1].from+size)+" next")
		case e.from%size != 0:
			return 0, fail("this name", fmt.Sprintf("a multiple of the file size %d", size))
		case e.from+size < e.from:
			return 0, fail("this name", "positions below 2^63")
		}
	}
	return size, nil
}

// commonSize returns the length that most files have; of equally frequent ones that of the earlier file. 0 when no file has
// any bytes.
func commonSize(found []dirEntry) (size int64) {
	count := make(map[int64]int)
	for _, e := range found {
		if e.size > 0 {
			count[e.size]++
		}
	}
	for _, e := range found {
		if count[e.size] > count[size] {
			size = e.size
		}
	}
	return size
}

// Dir returns the directory.
func (q *Queue) Dir() string { return q.dir }

// FileSize returns the length of each file in bytes; 0 when the directory is empty and no size was given.
func (q *Queue) FileSize() int64 { return q.fileSize.Load() }

// Files returns the files in ascending order, a snapshot that the caller must not change.
func (q *Queue) Files() []*File { return *q.files.Load() }

// Foreign returns the names that Open ignored, directories aside.
func (q *Queue) Foreign() []string { return slices.Clone(q.foreign) }

// MinOffset returns the position of the first byte, -1 when there is no file.
func (q *Queue) MinOffset() int64 {
	if files := q.Files(); len(files) > 0 {
		return files[0].from
	}
	return -1
}

// EndOffset returns the position just past the last file, -1 when there is none.
func (q *Queue) EndOffset() int64 {
	if files := q.Files(); len(files) > 0 {
		return files[len(files)-1].End()
	}
	return -1
}

// Find returns the file that holds the byte at position off.
func (q *Queue) Find(off int64) (*File, bool) {
	files := q.Files()
	if len(files) == 0 || off < files[0].from || off >= files[len(files)-1].End() {
		return nil, false
	}
	return files[(off-files[0].from)/files[0].size], true
}

// Close makes every Hold fail with ErrClosed and unmaps what nobody holds; what is held is unmapped at its last Release. It
// makes nothing durable: call Sync before. Idempotent.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.closed = true
	for _, f := range q.Files() {
		f.retire(ErrClosed)
	}
	return nil
}
