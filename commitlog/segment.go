package commitlog

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// segment is a file of the log that is written to, or whose bytes are not all durable. It holds the mapping and a descriptor.
type segment struct {
	file      *mappedfile.File
	from, end int64
	data      []byte
	handle    mmap.File

	populated int64 // pages are brought in up to here, a physical offset; of the populator
	locked    bool  // in memory
}

func openSegment(f *mappedfile.File) (*segment, error) {
	data, err := f.Hold()
	if err != nil {
		return nil, err
	}
	h, err := f.OpenFile()
	if err != nil {
		f.Release()
		return nil, err
	}
	return &segment{file: f, from: f.From(), end: f.End(), data: data, handle: h, populated: f.From()}, nil
}

// populate brings in the pages of bytes [from, to), physical offsets, in pieces: while the kernel is at it nobody else can change the
// mappings of the process. Without support in the kernel the pages are touched.
//
// It returns how far it came.
func (s *segment) populate(from, to int64, stop func() bool) (int64, error) {
	from, to = max(from, s.from), min(to, s.end)
	data, err := s.file.Hold() // the writer may be done with the file before this is
	if err != nil {
		return from, err
	}
	defer s.file.Release()
	for from < to && !stop() {
		n := min(populatePiece, to-from)
		err = s.file.Advise(from-s.from, n, mmap.PopulateWrite)
		if errors.Is(err, errors.ErrUnsupported) {
			err = mmap.GuardFault(func() error {
				mmap.Touch(data[from-s.from : from-s.from+n])
				return nil
			})
		}
		if err != nil {
			return from, fmt.Errorf("bring in pages of %s at %d: %w", s.file.Path(), from-s.from, err)
		}
		from += n
	}
	return from, nil
}

func (s *segment) close() error {
	if s.locked {
		_ = s.file.UnlockMemory(0, s.file.Size()) // unmapping unlocks as well
	}
	s.file.Release()
	return s.handle.Close()
}

// segmentList are the segments that are not durable in full, and the current one.
type segmentList struct {
	mu struct {
		sync.Mutex
		list []*segment // ascending
	}
}

func (l *segmentList) add(s *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.list = append(l.mu.list, s)
}

// between appends to dst the segments that hold bytes of [from, to).
func (l *segmentList) between(dst []*segment, from, to int64) []*segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.mu.list {
		if s.from < to && s.end > from {
			dst = append(dst, s)
		}
	}
	return dst
}

// drop takes the segments out that end at or below flushed, but never the last one, and returns them.
func (l *segmentList) drop(flushed int64) (gone []*segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < len(l.mu.list)-1 && l.mu.list[n].end <= flushed {
		n++
	}
	gone = l.mu.list[:n:n]
	l.mu.list = l.mu.list[n:]
	return gone
}

// all takes out everything.
func (l *segmentList) all() []*segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.mu.list
	l.mu.list = nil
	return list
}
