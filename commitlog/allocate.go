package commitlog

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// Making files ahead. The allocator keeps the next two files of the log ready: of full length, with blocks, durable in their
// directory, mapped, and with the pages of their beginning brought in. The populator brings in pages ahead of the write position. Neither
// ever stands between a put and its bytes: a put that finds no next file is refused with the reason, and one that
// overtakes the populator takes the page faults itself.

// Limits of the allocator.
const (
	filesAhead    = 2
	populatePiece = 1 << 20               // MADV_POPULATE_WRITE of more at once holds everybody up who maps memory
	slowAllocate  = 10 * time.Millisecond // reported
	// After a failure the next try is that much later, twice as much after each further one.
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

type allocator struct {
	w    *Writer
	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	mu struct {
		sync.Mutex
		next   int64              // the file that a roll will ask for first
		ready  map[int64]*segment // by first byte
		err    *AllocateError     // of the last try; nil after a success
		closed bool
	}
}

func newAllocator(w *Writer, next int64) *allocator {
	a := &allocator{w: w, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	a.mu.next = next
	a.mu.ready = make(map[int64]*segment)
	go a.run()
	return a
}

// take returns the segment that begins at from and makes it part of the log; nil while it is being made; the error of the last try
// when that failed. It has the next ones made.
func (a *allocator) take(from int64) (*segment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.mu.ready[from]
	if s == nil {
		if a.mu.err != nil {
			return nil, a.mu.err
		}
		return nil, nil
	}
	if !a.inLog(s) {
		if err := a.w.queue.Adopt(s.file); err != nil {
			return nil, &AllocateError{PhyOffset: from, Err: err}
		}
	}
	delete(a.mu.ready, from)
	a.mu.next = s.end
	select {
	case a.wake <- struct{}{}:
	default:
	}
	return s, nil
}

// inLog tells whether the file is part of the log already: made ahead by an earlier process that died.
func (a *allocator) inLog(s *segment) bool { return s.from < a.w.queue.EndOffset() }

// run makes files until stop is closed; close joins it.
func (a *allocator) run() {
	defer close(a.done)
	backoff := minBackoff
	for {
		from, all := a.wanted()
		var timer *time.Timer
		var retry <-chan time.Time
		wake := a.wake
		if !all {
			err := a.make(from)
			if err == nil {
				backoff = minBackoff
				continue
			}
			a.w.stats.allocateFailures.Add(1)
			a.w.logger.Error("next commit log file cannot be made", slog.Int64("phyOffset", from), slog.Duration("retryIn", backoff), slog.Any("err", err))
			timer = time.NewTimer(backoff)
			retry, wake = timer.C, nil // puts do not cut the back-off short
			backoff = min(2*backoff, maxBackoff)
		}
		select {
		case <-a.stop:
			if timer != nil {
				timer.Stop()
			}
			return
		case <-retry:
		case <-wake:
		}
	}
}

// wanted returns the first of the files ahead that is not ready; all is true when there is none.
func (a *allocator) wanted() (from int64, all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	from = a.mu.next
	for range filesAhead {
		if a.mu.ready[from] == nil {
			return from, false
		}
		from += a.w.o.FileSize
	}
	return 0, true
}

// make makes one file ready.
func (a *allocator) make(from int64) error {
	start := time.Now()
	s, err := a.w.makeSegment(from)
	if err == nil && a.w.o.Mode == WriteMapped {
		to := s.from + min(a.w.o.PopulateAheadBytes, a.w.o.FileSize)
		if a.w.o.Warm {
			to = s.end
		}
		if s.populated, err = s.populate(s.from, to, a.stopping); err != nil {
			a.discard(s)
		}
	}
	elapsed := time.Since(start)
	a.mu.Lock()
	if err != nil {
		a.mu.err = &AllocateError{PhyOffset: from, Err: err}
	} else {
		a.mu.err = nil
		a.mu.ready[from] = s
	}
	a.mu.Unlock()
	a.w.space.wake()
	if err != nil {
		return err
	}
	a.w.stats.allocations.Add(1)
	if elapsed >= slowAllocate {
		a.w.stats.slowAllocations.Add(1)
		a.w.logger.Warn("commit log file took long to make", slog.String("file", s.file.Path()), slog.Duration("elapsed", elapsed))
	}
	return nil
}

func (a *allocator) stopping() bool {
	select {
	case <-a.stop:
		return true
	default:
		return false
	}
}

// discard removes a file that was made and is not needed.
func (a *allocator) discard(s *segment) {
	made := !a.inLog(s)
	if err := s.close(); err != nil {
		a.w.logger.Warn("close of a commit log file failed", slog.String("file", s.file.Path()), slog.Any("err", err))
	}
	if !made {
		return
	}
	if err := a.w.queue.Discard(s.file); err != nil {
		a.w.logger.Warn("unused commit log file stays", slog.String("file", s.file.Path()), slog.Any("err", err))
	}
}

// close ends the goroutine and removes the files that nothing was written to, so that a clean stop leaves none of them.
func (a *allocator) close() {
	close(a.stop)
	<-a.done
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := filesAhead - 1; i >= 0; i-- { // the last one first: a crash leaves no gap
		if s := a.mu.ready[a.mu.next+int64(i)*a.w.o.FileSize]; s != nil {
			a.discard(s)
		}
	}
	a.mu.ready = nil
}

// makeSegment opens the file that begins at from, and makes it when there is none. What it returns has its blocks.
func (w *Writer) makeSegment(from int64) (*segment, error) {
	f, there := w.queue.Find(from)
	if !there {
		var err error
		if f, err = w.queue.Create(from); err != nil {
			return nil, err
		}
	}
	s, err := w.openSegment(f)
	if err == nil && there {
		err = w.allocateRest(s, from)
	}
	if err != nil && !there {
		if derr := w.queue.Discard(f); derr != nil {
			err = fmt.Errorf("%w; and what was made of it stays: %w", err, derr)
		}
	}
	return s, err
}

// allocateRest reserves the blocks of a file from physical offset from on: other writers leave files sparse.
func (w *Writer) allocateRest(s *segment, from int64) error {
	err := s.handle.Preallocate(from-s.from, s.end-from)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		err = errors.Join(err, s.close())
	}
	return err
}

// openSegment opens a file for writing.
func (w *Writer) openSegment(f *mappedfile.File) (*segment, error) {
	s, err := openSegment(f)
	if err != nil {
		return nil, err
	}
	if w.o.LockMemory {
		if err := f.LockMemory(0, f.Size()); err != nil {
			w.logger.Warn("commit log file cannot be kept in memory", slog.String("file", f.Path()), slog.Any("err", err))
		} else {
			s.locked = true
		}
	}
	return s, nil
}

// populator brings in pages ahead of the write position.
type populator struct {
	w    *Writer
	kick func(wrote int64) // never blocks
	pos  chan int64
	stop chan struct{}
	done chan struct{}
}

// newPopulator starts it; without pages to bring in it does nothing.
func newPopulator(w *Writer) *populator {
	p := &populator{w: w, kick: func(int64) {}, pos: make(chan int64, 1), stop: make(chan struct{}), done: make(chan struct{})}
	if w.o.Mode != WriteMapped || w.o.PopulateAheadBytes == 0 {
		close(p.done)
		return p
	}
	p.kick = func(wrote int64) {
		select {
		case p.pos <- wrote:
		default: // one is waiting, and the next comes soon
		}
	}
	go p.run()
	return p
}

// run ends when stop is closed; close joins it.
func (p *populator) run() {
	defer close(p.done)
	for {
		select {
		case <-p.stop:
			return
		case wrote := <-p.pos:
			p.populate(wrote)
		}
	}
}

func (p *populator) populate(wrote int64) {
	for _, s := range p.w.segments.between(nil, wrote, wrote+p.w.o.PopulateAheadBytes) {
		from, to := max(s.populated, wrote), min(wrote+p.w.o.PopulateAheadBytes, s.end)
		if from >= to {
			continue
		}
		at, err := s.populate(from, to, p.stopping)
		s.populated = at
		p.w.stats.populatedBytes.Add(at - from)
		if err != nil {
			// Puts take the page faults then, and answer what is wrong with the file if it is.
			p.w.logger.Warn("pages of the commit log cannot be brought in ahead", slog.Any("err", err))
			s.populated = s.end
		}
	}
}

func (p *populator) stopping() bool {
	select {
	case <-p.stop:
		return true
	default:
		return false
	}
}

func (p *populator) close() {
	close(p.stop)
	<-p.done
}

// settled tells whether the next file is ready, or making it has failed.
func (a *allocator) settled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.ready[a.mu.next] != nil || a.mu.err != nil
}
