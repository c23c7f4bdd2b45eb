package mappedfile

import (
	"path/filepath"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Gap is a stretch of a run of which no file is there, with files before and behind it.
type Gap struct {
	From, To int64  // positions of its first byte and behind its last one; whole files lie between
	Dir      string // where its files belong: the directory of the file before it, or the first one that may be written to
}

// Gaps returns the gaps in the run of files in dir and the directories of o, in order, and the length of its files. A file of length zero among others counts as missing.
// There are none in a run that Open would open, and none are told of one that something else keeps from that: lengths that differ, or names that are no multiple of the
// length. It opens no file and changes nothing.
func Gaps(dir string, o Options) (gaps []Gap, fileSize int64, err error) {
	q := &Queue{fs: o.FS, dir: filepath.Clean(dir)}
	if q.fs == nil {
		q.fs = mmap.OS
	}
	q.setDirs(o)
	l, err := listDirs(q.fs, q.dirs(), q.readOnly)
	if err != nil {
		return nil, 0, err
	}
	if fileSize = o.FileSize; fileSize == 0 {
		fileSize = commonSize(l.found)
	}
	var before *dirEntry
	for i := range l.found {
		e := &l.found[i]
		if e.size == 0 {
			continue
		}
		if e.size != fileSize || e.from%fileSize != 0 {
			return nil, fileSize, nil
		}
		if before != nil && before.from+fileSize < e.from {
			g := Gap{From: before.from + fileSize, To: e.from, Dir: before.dir}
			if before.readOnly && len(q.targets) > 0 {
				g.Dir = q.targets[0]
			}
			gaps = append(gaps, g)
		}
		before = e
	}
	return gaps, fileSize, nil
}
