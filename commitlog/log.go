package commitlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// defaultProbeBytes bounds how much data is searched for a valid record behind damage: four files of upstream's default
// size. The heads of all files are looked at whatever the bound.
const defaultProbeBytes = 4 << 30

// Options of Open.
type Options struct {
	// FS is where the log lives. nil: mmap.OS.
	FS mmap.FS
	// MoreDirs are further directories with files of the log.
	MoreDirs []string
	// PassMissing opens a log of which files are missing between others, see Log.Missing: scans pass their places, and what was there is a *MissingFileError to Read. Only names and lengths tell of them.
	PassMissing bool
	// Logger gets the names of foreign files. nil: discard.
	Logger *slog.Logger
}

// Log is an open CommitLog directory. Its methods may be called concurrently.
type Log struct {
	queue      *mappedfile.Queue
	probeBytes int64
	readable   func() int64 // of a log that is being written to: where readers stop; nil: nowhere
	missing    []MissingFile
}

// Open reads the directory dir; a missing one is an empty log. No record is read. The file size is that of the files.
//
// Errors: *FileError names the file whose length or name breaks the run.
func Open(dir string, o Options) (*Log, error) {
	q, err := mappedfile.Open(dir, mappedfile.Options{FS: o.FS, MoreDirs: o.MoreDirs, Readahead: true, Logger: o.Logger})
	if err != nil {
		err = fmt.Errorf("open commit log: %w", err)
		if o.PassMissing {
			return openPastMissing(dir, o, err)
		}
		return nil, err
	}
	return &Log{queue: q, probeBytes: defaultProbeBytes}, nil
}

// Dir returns the directory.
func (l *Log) Dir() string { return l.queue.Dir() }

// FileSize returns the length of each file in bytes, 0 when there is no file.
func (l *Log) FileSize() int64 { return l.queue.FileSize() }

// MinOffset returns the physical offset of the first byte of the first file, -1 when there is no file. Above 0 when the
// older files have expired.
func (l *Log) MinOffset() int64 { return l.queue.MinOffset() }

// Close closes the log. Records that are held stay valid until released. Idempotent.
func (l *Log) Close() error { return l.queue.Close() }

// Read decodes the record at physical offset phy into r. size is its expected length in bytes, as a queue unit or index entry
// has it; size <= 0 leaves it to the record. Verified are: phy and the end of the record lie in one file, the magic, lengths
// that add up, size, PhyOffset == phy, and with checkCRC the checksum of the body.
//
// On success the slices of r are valid until release is called, exactly once. On error release is nil and r is as it was,
// or holds what was found when only size or PhyOffset are wrong; its slices must not be touched.
//
// Errors: *RangeError when there is no such file (the record has expired, or never was); *CorruptError when no such record
// stands there; *FaultError, ErrClosed, and why a file could not be mapped.
//
// Source: CommitLog.getMessage, lookMessageByOffset, 5.5.0, which trust any four bytes to be a size (W24, W25).
func (l *Log) Read(phy int64, size int32, checkCRC bool, r *message.Record) (release func(), err error) {
	f, ok := l.queue.Find(phy)
	to := l.readTo()
	if !ok || phy >= to || l.readable != nil && int64(size) > to-phy {
		return nil, &RangeError{PhyOffset: phy, Min: l.queue.MinOffset(), Max: to}
	}
	data, err := f.Hold()
	if errors.Is(err, mappedfile.ErrRemoved) { // meanwhile
		return nil, &RangeError{PhyOffset: phy, Min: max(f.End(), l.queue.MinOffset()), Max: to}
	}
	if err != nil {
		return nil, fmt.Errorf("read commit log at physical offset %d: %w", phy, err)
	}
	data = data[:min(f.Size(), to-f.From())]
	err = mmap.GuardFault(func() error { return readAt(f, data, phy-f.From(), size, checkCRC, r) })
	if err != nil {
		f.Release()
		return nil, l.missingAt(phy, err)
	}
	return f.Releaser(), nil
}

// readTo returns the position at which readers stop: the end of the files, or of what has been written to a log that is being written to. -1
// without files.
func (l *Log) readTo() int64 {
	to := l.queue.EndOffset()
	if l.readable != nil {
		to = min(to, l.readable())
	}
	return to
}

// readAt decodes the record at byte pos of a file and verifies that it belongs there.
func readAt(f *mappedfile.File, data []byte, pos int64, size int32, checkCRC bool, r *message.Record) error {
	fail := func(got, want string, cause error) error {
		return &CorruptError{File: f.Path(), Offset: pos, PhyOffset: f.From() + pos, Got: got, Want: want, Err: cause}
	}
	if left := int64(len(data)) - pos; int64(size) > left {
		return fail(fmt.Sprintf("%d bytes to the end of the file", left), fmt.Sprintf("a record of %d bytes", size), nil)
	}
	if err := r.Decode(data[pos:], checkCRC); err != nil {
		return fail("", "", err)
	}
	if size > 0 && r.TotalSize != size {
		return fail(fmt.Sprintf("a record of %d bytes", r.TotalSize), fmt.Sprintf("%d bytes", size), nil)
	}
	if r.PhyOffset != f.From()+pos {
		return fail(fmt.Sprintf("a record of physical offset %d", r.PhyOffset), fmt.Sprintf("%d", f.From()+pos), nil)
	}
	return nil
}

// StoreTimestamp returns the store time in ms of the record at phy. Arguments and errors are those of Read.
func (l *Log) StoreTimestamp(phy int64, size int32) (int64, error) {
	var r message.Record
	release, err := l.Read(phy, size, false, &r)
	if err != nil {
		return 0, err
	}
	release()
	return r.StoreTimestampMs, nil
}

// End tells how the log ends. It scans from the last file that begins with a record or a filler, so it costs at most
// one file and what follows it, and says nothing about damage in earlier files. The error is nil for every kind of end that
// could be told; it is non-nil only when the log could not be read.
func (l *Log) End(o ScanOptions) (ScanEnd, error) {
	s, err := l.endScanner(math.MaxInt64, o)
	if err != nil {
		return ScanEnd{}, err
	}
	defer s.Close()
	s.skipWhole(context.Background(), pieceBytes, nil)
	for s.Next() {
	}
	var end *EndError
	if err := s.Err(); err != nil && !errors.As(err, &end) {
		return ScanEnd{}, err
	}
	return s.End(), nil
}

// endScanner returns a scanner from the last file that begins with a record or a filler, or from the file of physical offset
// durableTo if that is an earlier one.
func (l *Log) endScanner(durableTo int64, o ScanOptions) (*Scanner, error) {
	from := l.MinOffset()
	files := l.queue.Files()
	for i := len(files) - 1; i > 0; i-- {
		if files[i].From() > durableTo {
			continue
		}
		ok, err := begins(files[i], o.CheckCRC)
		if err != nil {
			return nil, err
		}
		if ok {
			from = files[i].From()
			break
		}
	}
	return l.Scanner(from, o), nil
}

// begins tells whether a file begins with a record or a filler.
func begins(f *mappedfile.File, checkCRC bool) (ok bool, err error) {
	data, err := f.Hold()
	if err != nil {
		return false, fmt.Errorf("read commit log: %w", err)
	}
	defer f.Release()
	err = mmap.GuardFault(func() error {
		size, blank := message.BlankSize(data)
		ok = blank && int64(size) == f.Size() || validAt(f, data, 0, checkCRC)
		return nil
	})
	return ok, err
}

// validAt tells whether a whole record stands at byte pos of a file, one that has not lost its tail.
func validAt(f *mappedfile.File, data []byte, pos int64, checkCRC bool) bool {
	var r message.Record
	return r.Decode(data[pos:], checkCRC) == nil && r.PhyOffset == f.From()+pos && !lostTail(f, data, pos, &r)
}
