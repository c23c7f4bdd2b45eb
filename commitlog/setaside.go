package commitlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// What a repair takes out of the log is set aside first: nothing is gone for good, and whoever knows better can put it back.
//
//	<SetAsideDir>/20260102T150405.123456789Z/     when, UTC
//	    manifest.json                             what was found and done, Manifest
//	    00000000000000065536+1234.broken          bytes of the file of that name from byte 1234 on
//	    00000000000000131072                      a whole file of the log, moved here
const (
	manifestName    = "manifest.json"
	manifestVersion = 1
	brokenSuffix    = ".broken"
	setAsideTime    = "20060102T150405.000000000Z"
	copyPiece       = 1 << 20
)

// Manifest tells what a repair did. It is written before the log is changed, and again when all is done.
type Manifest struct {
	Version  int         `json:"version"`
	Time     time.Time   `json:"time"`
	Action   string      `json:"action"` // "torn tail", "mend", "accept-loss"
	Done     bool        `json:"done"`
	FileSize int64       `json:"fileSize"`
	CutAt    int64       `json:"cutAt"` // physical offset at which the log was cut, -1: it was not
	Damage   []Damage    `json:"damage"`
	Saved    []Saved     `json:"saved"`
	Given    []Sacrifice `json:"sacrificed,omitempty"`
}

// Saved is a piece of the log that was set aside.
type Saved struct {
	PhyOffset int64  `json:"phyOffset"`
	Bytes     int64  `json:"bytes"`
	From      string `json:"from"` // path of the log's file
	As        string `json:"as"`   // name beside the manifest
	Moved     bool   `json:"moved,omitempty"`
}

// Sacrifice is a valid record that had to be written over.
type Sacrifice struct {
	PhyOffset   int64  `json:"phyOffset"`
	Bytes       int64  `json:"bytes"`
	Topic       string `json:"topic"`
	QueueID     int32  `json:"queueId"`
	QueueOffset int64  `json:"queueOffset"`
}

// aside is one directory of things set aside.
type aside struct {
	fs       mmap.FS
	dir      string
	manifest Manifest
}

// newAside makes the directory, durably with what is above it.
func newAside(fsys mmap.FS, parent, action string, fileSize int64, now time.Time) (*aside, error) {
	if parent == "" {
		return nil, errors.New("set bytes of the commit log aside: no directory was named for it")
	}
	if err := mkdirAll(fsys, parent); err != nil {
		return nil, fmt.Errorf("set bytes of the commit log aside: %w", err)
	}
	name := now.UTC().Format(setAsideTime)
	dir := filepath.Join(parent, name)
	err := fsys.Mkdir(dir, 0o755)
	for n := 2; errors.Is(err, fs.ErrExist); n++ {
		dir = filepath.Join(parent, name+"-"+strconv.Itoa(n))
		err = fsys.Mkdir(dir, 0o755)
	}
	if err == nil {
		err = fsys.SyncDir(parent)
	}
	if err != nil {
		return nil, fmt.Errorf("set bytes of the commit log aside: %w", err)
	}
	m := Manifest{Version: manifestVersion, Time: now.UTC(), Action: action, FileSize: fileSize, CutAt: -1, Damage: []Damage{}, Saved: []Saved{}}
	return &aside{fs: fsys, dir: dir, manifest: m}, nil
}

// mkdirAll makes a directory and those above it, durably.
func mkdirAll(fsys mmap.FS, dir string) error {
	err := fsys.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		if err := mkdirAll(fsys, filepath.Dir(dir)); err != nil {
			return err
		}
		err = fsys.Mkdir(dir, 0o755)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fsys.SyncDir(filepath.Dir(dir)) // one that is there may not be durable yet
}

// save copies bytes [from, to) of the log, physical offsets, file by file. The manifest is the caller's to write.
func (a *aside) save(q *mappedfile.Queue, from, to int64) error {
	for from < to {
		f, ok := q.Find(from)
		if !ok {
			return &RangeError{PhyOffset: from, Min: q.MinOffset(), Max: q.EndOffset()}
		}
		end := min(to, f.End())
		name := fmt.Sprintf("%s+%d%s", mappedfile.Name(f.From()), from-f.From(), brokenSuffix)
		if err := a.copy(f, name, from-f.From(), end-f.From()); err != nil {
			return fmt.Errorf("set bytes of the commit log aside: %w", err)
		}
		a.manifest.Saved = append(a.manifest.Saved, Saved{PhyOffset: from, Bytes: end - from, From: f.Path(), As: name})
		from = end
	}
	return nil
}

// copy copies bytes [from, to) of f into a file of that name, durably. Holes stay holes.
func (a *aside) copy(f *mappedfile.File, name string, from, to int64) (err error) {
	data, err := f.Hold()
	if err != nil {
		return err
	}
	defer f.Release()
	w, err := a.fs.OpenFile(filepath.Join(a.dir, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := w.Truncate(to - from); err != nil {
		return err
	}
	piece := make([]byte, min(copyPiece, to-from)) // read here, so that a fault is an error and no crash
	for pos := from; pos < to; {
		start, end, err := f.NextData(pos)
		if err != nil {
			return err
		}
		for end = min(end, to); start < end; {
			n := 0
			if err := mmap.GuardFault(func() error {
				n = copy(piece, data[start:end])
				return nil
			}); err != nil {
				return err
			}
			if _, err := w.WriteAt(piece[:n], start-from); err != nil {
				return err
			}
			start += int64(n)
		}
		pos = max(end, pos+1)
	}
	return w.Datasync()
}

// write writes the manifest, durably with the names beside it: the old one or the new one is there whenever power is lost.
func (a *aside) write() error {
	b, err := json.MarshalIndent(a.manifest, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(a.dir, manifestName)
	f, err := a.fs.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(append(b, '\n'), 0); err == nil {
		err = f.Datasync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = a.fs.Rename(path+".tmp", path)
	}
	if err == nil {
		err = a.fs.SyncDir(a.dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// done says that the repair is complete.
func (a *aside) done() error {
	a.manifest.Done = true
	return a.write()
}

// ReadManifest reads the manifest in a directory of bytes set aside.
func ReadManifest(fsys mmap.FS, dir string) (m Manifest, err error) {
	if fsys == nil {
		fsys = mmap.OS
	}
	path := filepath.Join(dir, manifestName)
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return m, err
	}
	defer func() { _ = f.Close() }() // only read
	size, err := f.Size()
	if err != nil {
		return m, err
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); err != nil && (n < len(b) || !errors.Is(err, io.EOF)) {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("read %s: %w", path, err)
	}
	return m, nil
}

// leastTail is how many bytes of a torn tail are worth keeping: fewer are the beginning of a record's header.
const leastTail = 32

// setTailAside sets aside what is going to be cut off at physical offset from, to its last byte that is not zero.
func (w *Writer) setTailAside(from int64) error {
	if w.o.SetAsideDir == "" {
		return nil
	}
	last, err := lastByte(w.queue, from)
	if err != nil || last-from < leastTail {
		return err
	}
	a, err := newAside(w.o.FS, w.o.SetAsideDir, "torn tail", w.o.FileSize, time.Now())
	if err != nil {
		return err
	}
	a.manifest.CutAt = from
	if err := a.save(w.queue, from, last); err != nil {
		return err
	}
	w.logger.Warn("what is cut off is set aside", slog.String("dir", a.dir), slog.Int64("bytes", last-from))
	return a.done() // the cut is repeated should it be interrupted, with what is left then
}
