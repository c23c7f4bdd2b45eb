package index

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// reserveBytes is how far ahead of the entries blocks are reserved.
const reserveBytes = 64 << 10

// nameDigits is the length of a file name: yyyyMMddHHmmssSSS.
const nameDigits = 17

// file is one index file. The fields of the header that queries need are atomic; everything else belongs to whoever holds
// Index.writing.
type file struct {
	image
	path   string
	number int64 // the name
	f      mmap.File
	m      mmap.Mapping

	head     header
	reserved int64 // blocks are there below this byte of the file
	dirty    bool  // stored to since the last Flush began
	synced   bool  // full, and all of it durable

	beginMs atomic.Int64
	endMs   atomic.Int64
	endPhy  atomic.Int64
	count   atomic.Int32 // entries below it may be read
}

// parseName returns the number that a file is named by; false for a file that is none of ours.
func parseName(name string) (number int64, ok bool) {
	if len(name) != nameDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(name, 10, 63)
	return int64(n), err == nil
}

func formatName(number int64) string { return fmt.Sprintf("%0*d", nameDigits, number) }

// nameAt returns the number of a file made at t.
//
// Source: UtilAll.timeMillisToHumanString, 5.5.0.
func nameAt(t time.Time) int64 {
	date := int64(t.Year())*1e4 + int64(t.Month())*1e2 + int64(t.Day())
	clock := int64(t.Hour())*1e4 + int64(t.Minute())*1e2 + int64(t.Second())
	return date*1e9 + clock*1e3 + int64(t.Nanosecond())/1e6
}

// openFile maps a file. An error of class ErrCorrupt says that its length or its header is none of this geometry; the file is
// closed then.
func openFile(fsys mmap.FS, path string, number int64, l layout, writable bool) (*file, error) {
	flag := os.O_RDONLY
	if writable {
		flag = os.O_RDWR
	}
	h, err := fsys.OpenFile(path, flag, 0)
	if err != nil {
		return nil, fmt.Errorf("open index file: %w", err)
	}
	f := &file{path: path, number: number, f: h}
	if err := f.load(l, writable); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *file) load(l layout, writable bool) error {
	size, err := f.f.Size()
	if err != nil {
		return fmt.Errorf("open index file: %w", err)
	}
	if size != l.fileBytes() {
		return &FileError{f.path, fmt.Errorf("%d bytes, want %d (%d slots, %d entries)", size, l.fileBytes(), l.slots, l.entries)}
	}
	if f.m, err = f.f.Map(size, writable); err != nil {
		return fmt.Errorf("open index file: %w", err)
	}
	f.image = image{l, f.m.Bytes()}
	return mmap.GuardFault(func() error {
		f.head = f.header()
		if err := f.check(&f.head); err != nil {
			return &FileError{f.path, err}
		}
		f.publish()
		return nil
	})
}

// createFile makes an empty file with a durable name; a crash may leave it without its length. It begins where after ends, which
// RocketMQ expects of it. On error no file is left behind.
func createFile(fsys mmap.FS, dir string, number int64, l layout, after *file) (_ *file, err error) {
	path := filepath.Join(dir, formatName(number))
	h, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("make index file: %w", err)
	}
	f := &file{path: path, number: number, f: h}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make index file: %w", err), f.close(), fsys.Remove(path))
		}
	}()
	size := l.fileBytes()
	if err := h.Truncate(size); err != nil {
		return nil, err
	}
	if f.m, err = h.Map(size, true); err != nil {
		return nil, err
	}
	f.image = image{l, f.m.Bytes()}
	if err := f.reserve(0, headerBytes); err != nil {
		return nil, err
	}
	if err := f.reserve(l.entryAt(0), size); err != nil {
		return nil, err
	}
	f.head.count = 1
	if after != nil {
		f.head.beginMs, f.head.endMs = after.head.endMs, after.head.endMs
		f.head.beginPhy, f.head.endPhy = after.head.endPhy, after.head.endPhy
	}
	if err := mmap.GuardFault(func() error { f.setHeader(&f.head); return nil }); err != nil {
		return nil, err
	}
	f.publish()
	return f, fsys.SyncDir(dir)
}

// reserve has blocks reserved from byte off on, up to 64 KiB, but not beyond end. A filesystem that cannot is left to it: a full disk
// is then a fault.
func (f *file) reserve(off, end int64) error {
	n := min(reserveBytes, end-off)
	err := f.f.Preallocate(off, n)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("reserve %d bytes of %s at %d: %w", n, f.path, off, err)
	}
	f.reserved = off + n
	return nil
}

// publish shows queries the header.
func (f *file) publish() {
	f.beginMs.Store(f.head.beginMs)
	f.endMs.Store(f.head.endMs)
	f.endPhy.Store(f.head.endPhy)
	f.count.Store(f.head.count)
}

func (f *file) full() bool  { return f.head.count >= f.entries }
func (f *file) empty() bool { return f.head.count <= 1 }

// close unmaps and closes. Nobody may use the bytes any more.
func (f *file) close() error {
	var errs []error
	if f.m != nil {
		errs = append(errs, f.m.Unmap())
	}
	if f.f != nil {
		errs = append(errs, f.f.Close())
	}
	return errors.Join(errs...)
}
