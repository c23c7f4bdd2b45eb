package mappedfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// dirEntry is a file of the run as a directory shows it.
type dirEntry struct {
	dir        string
	from, size int64
	changedMs  int64 // last change, Unix milliseconds
	readOnly   bool
}

func (e dirEntry) path() string { return filepath.Join(e.dir, Name(e.from)) }

// listing is what Open finds in the directories of a queue.
type listing struct {
	found   []dirEntry // ascending, each name once
	empty   []string   // paths of files of length zero that are none of the run
	foreign []string   // paths of names that are not ours
}

// listDirs reads all directories and merges them by name. A name in two directories is an error, unless all but one of the
// files are empty: a file that was being made when the writer died has no bytes.
func listDirs(fsys mmap.FS, dirs, readOnly []string) (listing, error) {
	var l listing
	for _, dir := range dirs {
		if err := l.add(fsys, dir, slices.Contains(readOnly, dir)); err != nil {
			return listing{}, err
		}
	}
	// Of equal names the one with bytes comes first.
	slices.SortStableFunc(l.found, func(a, b dirEntry) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(min(b.size, 1), min(a.size, 1)))
	})
	run := l.found[:0]
	for _, e := range l.found {
		if len(run) == 0 || run[len(run)-1].from != e.from {
			run = append(run, e)
			continue
		}
		if e.size != 0 {
			return listing{}, &FileError{
				Path: e.path(), Offset: e.from,
				Got: "a second file of this name beside " + run[len(run)-1].path(), Want: "each name in one directory",
			}
		}
		l.empty = append(l.empty, e.path())
	}
	if n := len(run); n > 0 && run[n-1].size == 0 {
		l.empty = append(l.empty, run[n-1].path())
		run = run[:n-1]
	}
	l.found = run
	return l, nil
}

func (l *listing) add(fsys mmap.FS, dir string, readOnly bool) error {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) && !dangling(err, dir) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list mapped files: %w", err)
	}
	for _, info := range entries {
		if info.IsDir() {
			continue
		}
		from, ok := ParseName(info.Name())
		if !ok || !info.Mode().IsRegular() {
			l.foreign = append(l.foreign, filepath.Join(dir, info.Name()))
			continue
		}
		l.found = append(l.found, dirEntry{dir, from, info.Size(), info.ModTime().UnixMilli(), readOnly})
	}
	return nil
}

// dangling tells the error of a link in dir that points nowhere from that of a missing dir.
func dangling(err error, dir string) bool {
	var pe *fs.PathError
	return errors.As(err, &pe) && pe.Path != dir
}

// report logs once what is not part of the run.
func (l *listing) report(log *slog.Logger) {
	for _, path := range l.foreign {
		log.Warn("ignored foreign file", slog.String("file", path))
	}
	for _, path := range l.empty {
		log.Warn("ignored empty file, left by a writer that died making it", slog.String("file", path))
	}
}

// check returns the file size of the run, or the first file that is not part of it. want 0: taken from the files.
func check(found []dirEntry, want int64) (int64, error) {
	size := want
	if size == 0 {
		size = commonSize(found)
	}
	for i, e := range found {
		fail := func(got, want string) error {
			return &FileError{Path: e.path(), Offset: e.from, Got: got, Want: want}
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
