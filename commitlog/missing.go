package commitlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// A log of which a file in the middle is gone is no run of files, and cannot be opened. A filler that is as long as the file takes its place: readers of the log step over it, and no physical
// offset moves.
//
//	before  | file | nothing              | file |
//	after   | file | filler of a whole file | file |

// MissingFile is a file of the log that is not there, while files before and behind it are.
type MissingFile struct {
	Path string `json:"file"`
	From int64  `json:"phyOffset"` // of its first byte
	To   int64  `json:"to"`        // physical offset behind its last byte
}

// MissingFiles returns the files that are missing in the middle of the log that o describes, none where something else keeps it from being opened. It changes nothing.
func MissingFiles(o RecoveryOptions) (list []MissingFile, err error) {
	gaps, size, err := mappedfile.Gaps(o.Dir, mappedfile.Options{FS: o.FS, MoreDirs: o.MoreDirs, ReadOnlyDirs: o.ReadOnlyDirs, FileSize: o.FileSize})
	if err != nil {
		return nil, fmt.Errorf("look for missing files of the commit log: %w", err)
	}
	for _, g := range gaps {
		if n := (g.To - g.From) / size; n > maxLostFiles {
			return nil, fmt.Errorf("look for missing files of the commit log: %d files of %d bytes are missing from physical offset %d on; want at most %d", n, size, g.From, maxLostFiles)
		}
		for from := g.From; from < g.To; from += size {
			list = append(list, MissingFile{Path: filepath.Join(g.Dir, mappedfile.Name(from)), From: from, To: from + size})
		}
	}
	return list, nil
}

// FillMissing makes the files of list, which MissingFiles told, each one a filler over its whole length; they take hardly any room. What was missing is noted in a directory of
// o.SetAsideDir first. Each file is there as a whole or not at all; cut off, the rest is still missing.
func FillMissing(ctx context.Context, o RecoveryOptions, list []MissingFile) error {
	if o.ReadOnly {
		return fmt.Errorf("fill in files of the commit log: %w", mappedfile.ErrReadOnly)
	}
	if len(list) == 0 {
		return nil
	}
	if o.FS == nil {
		o.FS = mmap.OS
	}
	a, err := newAside(o.FS, o.SetAsideDir, "fill in missing files", list[0].To-list[0].From, time.Now())
	if err != nil {
		return err
	}
	for _, f := range list {
		a.manifest.Damage = append(a.manifest.Damage, Damage{From: f.From, To: f.To, File: f.Path, Reason: "the file was missing: a filler is in its place"})
	}
	if err := a.write(); err != nil {
		return err
	}
	for _, f := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := makeFiller(o.FS, f); err != nil {
			return fmt.Errorf("fill in %s: %w", f.Path, err)
		}
		if o.Logger != nil {
			o.Logger.Warn("a file of the commit log is missing: a filler takes its place", slog.String("file", f.Path), slog.Int64("phyOffset", f.From))
		}
	}
	return a.done()
}

// makeFiller makes one such file under another name and gives it its own when it is durable.
func makeFiller(fsys mmap.FS, f MissingFile) error {
	tmp := f.Path + ".tmp"
	h, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err = h.WriteAt(message.AppendBlank(nil, int32(f.To-f.From)), 0); err == nil {
		err = h.Truncate(f.To - f.From)
	}
	if err == nil {
		err = h.Datasync()
	}
	if err = errors.Join(err, h.Close()); err == nil {
		err = fsys.Rename(tmp, f.Path)
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(tmp))
	}
	return fsys.SyncDir(filepath.Dir(f.Path))
}
