package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// MissingFileError tells that the file is missing that held a physical offset. It matches ErrCorrupt.
type MissingFileError struct {
	MissingFile
	PhyOffset int64
}

func (e *MissingFileError) Error() string {
	return fmt.Sprintf("read commit log at physical offset %d: %v", e.PhyOffset, e.MissingFile)
}

// Is matches ErrCorrupt.
func (e *MissingFileError) Is(target error) bool { return target == ErrCorrupt }

func (f MissingFile) String() string {
	return fmt.Sprintf("%s is missing (physical offsets %d to %d)", f.Path, f.From, f.To)
}

// Missing lists the files that Options.PassMissing passes over, in order; the caller must not change it.
func (l *Log) Missing() []MissingFile { return l.missing }

// Lacks tells whether phy is in a file that Missing lists.
func (l *Log) Lacks(phy int64) bool { return l.missingAt(phy, nil) != nil }

// openPastMissing opens a log of which files are missing between others: to readers a filler stands in the place of each, in memory. why is what keeps the log from being opened without.
func openPastMissing(dir string, o Options, why error) (*Log, error) {
	if _, layout := errors.AsType[*FileError](why); !layout {
		return nil, why
	}
	missing, err := MissingFiles(RecoveryOptions{Dir: dir, MoreDirs: o.MoreDirs, FS: o.FS})
	if err != nil || len(missing) == 0 {
		return nil, errors.Join(why, err)
	}
	o.PassMissing = false
	if o.FS == nil {
		o.FS = mmap.OS
	}
	o.FS = &patchedFS{o.FS, missing}
	l, err := Open(dir, o)
	if err != nil {
		return nil, err
	}
	l.missing = missing
	return l, nil
}

// missingAt says what is wrong with what was read at phy where that is a file that is missing, and returns err otherwise.
func (l *Log) missingAt(phy int64, err error) error {
	i, _ := slices.BinarySearchFunc(l.missing, phy, func(f MissingFile, phy int64) int {
		if phy >= f.To {
			return -1
		}
		return 1
	})
	if i < len(l.missing) && phy >= l.missing[i].From {
		return &MissingFileError{l.missing[i], phy}
	}
	return err
}

// patchedFS has fillers for files that are missing. Nothing is written to it.
type patchedFS struct {
	mmap.FS
	missing []MissingFile
}

// ReadDir lists them, too.
func (p *patchedFS) ReadDir(dir string) ([]fs.FileInfo, error) {
	list, err := p.FS.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range p.missing {
		if filepath.Dir(f.Path) != dir {
			continue
		}
		name := filepath.Base(f.Path)
		i, there := slices.BinarySearchFunc(list, name, func(i fs.FileInfo, name string) int { return strings.Compare(i.Name(), name) })
		if there { // of length zero
			list[i] = fillerInfo{f}
		} else {
			list = slices.Insert(list, i, fs.FileInfo(fillerInfo{f}))
		}
	}
	return list, nil
}

// OpenFile opens them, too.
func (p *patchedFS) OpenFile(path string, flag int, perm fs.FileMode) (mmap.File, error) {
	for _, f := range p.missing {
		if f.Path == path {
			return mmap.MemoryFile(path, f.To-f.From, message.AppendBlank(nil, int32(f.To-f.From)))
		}
	}
	return p.FS.OpenFile(path, flag, perm)
}

// fillerInfo is what ReadDir tells of one.
type fillerInfo struct{ f MissingFile }

// Name returns the name that the file had.
func (i fillerInfo) Name() string { return mappedfile.Name(i.f.From) }

// Size returns the length that it had.
func (i fillerInfo) Size() int64 { return i.f.To - i.f.From }

// Mode returns that of a file.
func (i fillerInfo) Mode() fs.FileMode { return 0o444 }

// ModTime returns no time.
func (i fillerInfo) ModTime() time.Time { return time.UnixMilli(0) }

// IsDir returns false.
func (i fillerInfo) IsDir() bool { return false }

// Sys returns nil.
func (i fillerInfo) Sys() any { return nil }
