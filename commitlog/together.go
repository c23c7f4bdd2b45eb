package commitlog

import (
	"context"
	"runtime"
	"sync"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// Where a log ends is found out by reading it, checksums and all, which one processor does more slowly than memory and many a disk give it. So several read pieces
// of it at once. A piece begins with the first valid record behind its beginning, and is part of the log where the piece before it ends there:
//
//	piece      |        0        |        1        |        2        |
//	records    [  ][     ][   ][    ][   ][        ][  ] zeros ...
//	read       0────────────────────>1─────────────>2──> not to the end of the piece
//
// From the beginning of the last piece that is whole and joins on, one goes on alone, and tells what stands there. So a piece that begins in the wrong place, as in a body
// that holds a log, costs time and nothing else.
const pieceBytes = 8 << 20

// piece is a part of a file.
type piece struct {
	file     int   // in files
	from, to int64 // bytes of the file
}

// pieceRead is what was found in one.
type pieceRead struct {
	first, end     int64 // physical offsets of the first record, and behind the last
	records, bytes int64
	whole          bool // there are records from one to the other, and the end is that of the piece or behind it
}

// passed is what a scanner went over.
type passed struct{ records, bytes int64 }

// skipWhole moves a scanner with checksums that has not begun over pieces of so many bytes that are whole and join on to one another, but the last of them. What is wrong with the
// log is left for Next to tell. progress is told physical offsets; it may be nil, and is called by one goroutine at a time. When ctx ends, less is skipped.
func (s *Scanner) skipWhole(ctx context.Context, size int64, progress func(phy int64)) (p passed) {
	if s.over || s.to >= 0 || !s.o.CheckCRC || runtime.GOMAXPROCS(0) == 1 {
		return p
	}
	at := s.file.From() + int64(s.pos)
	var last pieceRead
	for _, f := range s.readPieces(ctx, s.pieces(size), progress) {
		if !f.whole || f.first != at {
			break
		}
		p.records, p.bytes = p.records+last.records, p.bytes+last.bytes
		last, at = f, f.end
	}
	if p.records > 0 {
		s.goTo(last.first)
	}
	return p
}

// pieces lists those from where the scanner stands.
func (s *Scanner) pieces(size int64) (list []piece) {
	from := int64(s.pos)
	for i := s.index; i < len(s.files); i++ {
		for f := s.files[i]; from < f.Size(); {
			to := min(from-from%size+size, f.Size())
			list = append(list, piece{i, from, to})
			from = to
		}
		from = 0
	}
	return list
}

// readPieces reads pieces in order, several at once, until one is not whole, and returns what was found in those before it.
func (s *Scanner) readPieces(ctx context.Context, pieces []piece, progress func(phy int64)) []pieceRead {
	found := make([]pieceRead, len(pieces))
	var mu sync.Mutex
	next, end := 0, len(pieces)
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			end = min(end, next)
		}
		if next >= end {
			return -1
		}
		if p := pieces[next]; progress != nil {
			progress(s.files[p.file].From() + p.from)
		}
		next++
		return next - 1
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(pieces)) {
		wg.Go(func() {
			for i := take(); i >= 0; i = take() {
				found[i] = s.readPiece(pieces[i], i == 0)
				if !found[i].whole {
					mu.Lock()
					end = min(end, i)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return found[:end]
}

// readPiece reads one. Where it is said to be exact, and at the beginning of a file, a record begins where the piece does, or the piece is not whole.
func (s *Scanner) readPiece(p piece, exact bool) (r pieceRead) {
	f := s.files[p.file]
	part := &Scanner{log: s.log, o: ScanOptions{CheckCRC: true, NoReadahead: true}, to: f.From() + p.to, files: s.files, index: p.file, alone: true, end: ScanEnd{NextValid: -1}}
	part.next = part.step
	defer part.Close()
	if part.open() != nil {
		return r
	}
	start := p.from
	if !exact && start > 0 {
		start = firstOf(f, part.data, p)
	}
	if start < 0 {
		return r
	}
	part.pos = int(start)
	_ = f.Advise(p.from, p.to-p.from, mmap.Sequential) // a hint
	for part.Next() {
		r.records++
		r.bytes += int64(part.Record().TotalSize)
	}
	r.first, r.end = f.From()+start, part.End().Offset
	r.whole = part.Err() == nil && r.end >= part.to
	return r
}

// firstOf returns the byte of the file at which the first record of a piece begins, -1 where none does. A filler is none: where the last piece of a file is nothing else, the one
// who goes on alone begins before it. Holes are not touched: the pages would count as data from then on.
func firstOf(f *mappedfile.File, data []byte, p piece) (start int64) {
	start = -1
	_ = mmap.GuardFault(func() error { // of a fault the one who goes on alone tells
		from, _, err := f.NextData(p.from)
		if err == nil && from < p.to {
			from = max(from, p.from)
			start = findRecord(f, data, from, from+magicAt, min(p.to+magicAt, f.Size()))
		}
		return nil
	})
	return start
}

// goTo moves a scanner to physical offset phy, at which a record begins.
func (s *Scanner) goTo(phy int64) {
	index := s.index
	for s.index < len(s.files)-1 && phy >= s.files[s.index].End() {
		s.index++
	}
	if s.index != index {
		if err := s.open(); err != nil {
			s.fail(err)
			return
		}
	}
	s.pos = int(phy - s.file.From())
}
