package commitlog

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// EndKind says what lies behind the last valid record.
type EndKind int

// The kinds of end.
const (
	EndNone    EndKind = iota // the scan has not ended, or could not read on
	EndClean                  // only zeros up to the end of the last file
	EndTorn                   // bytes that are no record, and no valid record behind them
	EndCorrupt                // bytes that are no record, and valid records behind them (or too much data to be sure)
)

func (k EndKind) String() string {
	switch k {
	case EndNone:
		return "no end"
	case EndClean:
		return "clean end"
	case EndTorn:
		return "torn end"
	case EndCorrupt:
		return "corruption"
	}
	return "EndKind(" + strconv.Itoa(int(k)) + ")"
}

// ScanEnd tells where and how a scan ended.
type ScanEnd struct {
	// Offset is the physical offset just past the last valid record, where the next one would start. Behind a filler that is
	// the start of the next file, or the filler itself when there is no next file: it would be overwritten.
	Offset int64
	Kind   EndKind
	// File and FileOffset are the same place. FileOffset is the length of the file when the last file is full. File is empty
	// when there is no file.
	File       string
	FileOffset int64
	// Reason tells what was found instead of a record, as a *CorruptError; nil at a clean end.
	Reason error
	// NextValid is the physical offset of the first valid record found behind the damage; -1 when none was found.
	NextValid int64
}

// ScanOptions of Log.Scanner and Log.End.
type ScanOptions struct {
	// CheckCRC verifies the checksum of each body. The search behind damage does so always.
	CheckCRC bool
	// To is the physical offset at which the scan ends cleanly, a record boundary; 0: the end of the log. Of a log that is being written to, the
	// scan ends at what was committed when it began, if that is earlier.
	To int64
	// NoReadahead omits the advice to read ahead: for a scan of a few records.
	NoReadahead bool
}

// Scanner yields the records of a log in order. It is used by one goroutine and must be closed. It keeps one file held.
type Scanner struct {
	log  *Log
	o    ScanOptions
	next func() error // s.step, made once: a method value allocates

	to    int64 // the scan ends here; -1: where the log does
	alone bool  // damage is left for another scanner to look behind
	files []*mappedfile.File
	index int              // of file in files
	file  *mappedfile.File // held while not nil
	data  []byte           // of file
	pos   int              // next byte of file

	rec   message.Record
	valid bool // rec holds a record that Next answered
	over  bool
	end   ScanEnd
	err   error
}

// Scanner returns a scanner of the records from physical offset from on, which must be the start of a record or of a file;
// anywhere else the scan finds damage. From -1, or from below MinOffset, it starts at MinOffset. Beyond the end of the files, or of what was
// committed to a log that is being written to, its error is a *RangeError.
func (l *Log) Scanner(from int64, o ScanOptions) *Scanner {
	end := l.readTo() // before the list of files, which then holds it
	s := &Scanner{log: l, o: o, to: -1, files: l.queue.Files(), end: ScanEnd{NextValid: -1}}
	s.next = s.step
	if o.To > 0 || l.readable != nil {
		s.to = end
		if o.To > 0 {
			s.to = min(s.to, o.To)
		}
	}
	if len(s.files) == 0 {
		if from > 0 {
			s.fail(&RangeError{PhyOffset: from, Min: -1, Max: -1})
			return s
		}
		s.finish(EndClean, nil, -1)
		return s
	}
	first := s.files[0]
	from = max(from, first.From())
	if from > end {
		s.fail(&RangeError{PhyOffset: from, Min: first.From(), Max: end})
		return s
	}
	s.index = int(min((from-first.From())/first.Size(), int64(len(s.files)-1)))
	if err := s.open(); err != nil {
		s.fail(err)
		return s
	}
	s.pos = int(from - s.file.From())
	return s
}

// open holds the file at index and goes to its beginning. Of the ways to read ahead the plain advice measured best, on
// cached pages and on cold ones: WILLNEED and POPULATE_READ in pieces of 1 to 16 MiB cost more than they saved.
func (s *Scanner) open() error {
	f := s.files[s.index]
	data, err := f.Hold()
	if err != nil {
		return fmt.Errorf("scan commit log at physical offset %d: %w", f.From(), err)
	}
	s.letGo()
	s.file, s.data, s.pos = f, data, 0
	s.advise(mmap.Sequential)
	return nil
}

// advise passes advice about the held file on. It is a hint: when it fails the scan is only slower.
func (s *Scanner) advise(a mmap.Advice) {
	if !s.o.NoReadahead {
		_ = s.file.Advise(0, s.file.Size(), a)
	}
}

func (s *Scanner) letGo() {
	if s.file != nil {
		s.advise(mmap.Normal) // the mapping stays, for readers of single records
		s.file.Release()
		s.file, s.data = nil, nil
	}
}

// Next goes to the next record. False at the end of the log, clean or not, and when reading fails; Err tells.
func (s *Scanner) Next() bool {
	s.valid = false
	if s.over {
		return false
	}
	if err := mmap.GuardFault(s.next); err != nil {
		s.fail(fmt.Errorf("scan commit log at %s+%d (physical offset %d): %w", s.file.Path(), s.pos, s.file.From()+int64(s.pos), err))
	}
	return s.valid
}

// step decodes the record at pos, or goes on to the next file, or ends the scan.
func (s *Scanner) step() error {
	for {
		here := s.file.From() + int64(s.pos)
		if s.to >= 0 && here >= s.to {
			s.finish(EndClean, nil, -1)
			return nil
		}
		err := s.rec.Decode(s.data[s.pos:], s.o.CheckCRC)
		if err == nil {
			if s.rec.PhyOffset != here {
				return s.damage(s.corrupt(fmt.Sprintf("a record of physical offset %d", s.rec.PhyOffset), strconv.FormatInt(here, 10), nil))
			}
			if !s.published(here) && lostTail(s.file, s.data, int64(s.pos), &s.rec) {
				return s.damage(s.corrupt(lostTailGot(int64(s.pos), &s.rec), "whole properties, or a record behind them", nil))
			}
			s.pos += int(s.rec.TotalSize)
			s.valid = true
			return nil
		}
		left := len(s.data) - s.pos
		size, blank := message.BlankSize(s.data[s.pos:])
		switch {
		case blank && int(size) != left:
			return s.damage(s.corrupt(fmt.Sprintf("a filler of %d bytes", size), fmt.Sprintf("%d bytes to the end of the file", left), nil))
		case blank && s.index == len(s.files)-1:
			s.finish(EndClean, nil, -1)
			return nil
		case blank:
			s.index++
			if err := s.open(); err != nil {
				return err
			}
		default:
			return s.damage(s.corrupt("", "", err))
		}
	}
}

// published tells whether what stands at physical offset phy was published to this process: then it is whole.
func (s *Scanner) published(phy int64) bool { return s.log.readable != nil && phy < s.to }

func (s *Scanner) corrupt(got, want string, cause error) *CorruptError {
	return &CorruptError{File: s.file.Path(), Offset: int64(s.pos), PhyOffset: s.file.From() + int64(s.pos), Got: got, Want: want, Err: cause}
}

// damage ends the scan where no record and no filler stands: it looks at what follows to tell the kind of the end.
func (s *Scanner) damage(reason *CorruptError) error {
	if s.alone {
		return reason
	}
	p, err := s.log.probe(s.files, s.index, int64(s.pos))
	if err != nil {
		return err
	}
	if errors.Is(reason.Err, message.ErrEnd) && p.dirtyAt >= 0 {
		// Zeros here, so what is wrong is what follows.
		reason.Err = nil
		reason.Got = fmt.Sprintf("zeros, then data at physical offset %d", p.dirtyAt)
		reason.Want = "a record, a filler, or zeros to the end of the log"
	}
	switch {
	case p.nextValid >= 0 || p.gaveUp:
		s.finish(EndCorrupt, reason, p.nextValid)
	case p.dirtyAt >= 0:
		s.finish(EndTorn, reason, -1)
	default:
		s.finish(EndClean, nil, -1)
	}
	return nil
}

// finish ends the scan at pos.
func (s *Scanner) finish(kind EndKind, reason *CorruptError, nextValid int64) {
	s.over = true
	s.end = ScanEnd{Kind: kind, NextValid: nextValid}
	if s.file != nil {
		s.end.Offset = s.file.From() + int64(s.pos)
		s.end.File, s.end.FileOffset = s.file.Path(), int64(s.pos)
	}
	if reason != nil {
		s.end.Reason = reason
		s.err = &EndError{s.end}
	}
	s.letGo()
}

// fail ends the scan with an error that says nothing about the log's end.
func (s *Scanner) fail(err error) {
	s.over, s.valid = true, false
	s.err = err
	s.letGo()
}

// Record returns the record that Next went to. It and its slices are valid until the next call of Next or Close.
func (s *Scanner) Record() *message.Record { return &s.rec }

// Err returns nil while the scan goes on and after a clean end; *EndError after an end that is torn or corrupt; otherwise
// why the log could not be read: *RangeError, *FaultError, ErrClosed, or the system's error.
func (s *Scanner) Err() error { return s.err }

// End tells how the scan ended; its Kind is EndNone while the scan goes on and after an error of reading.
func (s *Scanner) End() ScanEnd { return s.end }

// Close lets go of the file. Idempotent.
func (s *Scanner) Close() {
	s.over, s.valid = true, false
	s.letGo()
}
