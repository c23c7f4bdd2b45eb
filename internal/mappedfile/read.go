package mappedfile

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Reading what may not be in memory. A goroutine that touches such a page of a mapping blocks its thread and the processor's share of the scheduler with it, until the disk has
// answered; one that reads the file lets others run. So who reads old bytes asks InMemory first, and ReadAt when they are not.

// InMemory's answer holds for a piece of the file and for a while: the kernel is asked (a microsecond) once for each that is read.
const (
	residentPiece  = 256 << 10
	residentMillis = 1024
)

// stamps has for each piece of a file when it was last found to be in memory as a whole, in units of residentMillis; 0: never.
type stamps []atomic.Uint32

var started = time.Now()

// NowMs returns the time by the clock of InMemory, in ms, above 0.
func NowMs() int64 { return time.Since(started).Milliseconds() + 1 }

// InMemory tells whether bytes [off, off+n) of the file are in memory, nowMs being NowMs or a little earlier; of what was found to be in memory less than two
// seconds ago it is believed. What cannot be told is taken to be there. The caller holds the file.
func (f *File) InMemory(off, n, nowMs int64) bool {
	s := f.resident.Load()
	if s == nil {
		made := make(stamps, (f.size+residentPiece-1)/residentPiece)
		if f.resident.CompareAndSwap(nil, &made) {
			s = &made
		} else if s = f.resident.Load(); s == nil {
			s = &made
		}
	}
	now := uint32(nowMs/residentMillis) + 2 // 0 is never
	for i := off / residentPiece; i*residentPiece < off+n; i++ {
		at := &(*s)[i]
		if now-at.Load() <= 1 {
			continue
		}
		from := i * residentPiece
		to := min(from+residentPiece, f.size)
		if f.isResident(from, to) {
			at.Store(now)
			continue
		}
		if !f.isResident(max(off, from), min(off+n, to)) {
			return false
		}
	}
	return true
}

func (f *File) isResident(from, to int64) bool {
	all, err := f.heldRegion("ask for pages of").Resident(from, to-from)
	return all || err != nil
}

// ReadAt reads len(b) bytes at byte off of the file through a descriptor, which is kept as long as the mapping. The caller holds the file.
//
// Errors: ErrRemoved and others of OpenFile, and why the bytes cannot be read.
func (f *File) ReadAt(b []byte, off int64) error {
	h := f.reader.Load()
	if h == nil {
		var err error
		if h, err = f.openReader(); err != nil {
			return err
		}
	}
	if _, err := (*h).ReadAt(b, off); err != nil {
		return fmt.Errorf("read %d bytes of %s at %d: %w", len(b), f.Path(), off, err)
	}
	return nil
}

func (f *File) openReader() (*mmap.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.reader.Load(); h != nil {
		return h, nil
	}
	h, err := f.openAs(os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	f.reader.Store(&h)
	return &h, nil
}

// Readahead tells whether the kernel reads ahead of page faults.
func (q *Queue) Readahead() bool { return !q.random.Load() }

// SetReadahead lets the kernel read ahead of page faults from now on, or not: in the files that are mapped, and in those that will be.
func (q *Queue) SetReadahead(on bool) {
	q.random.Store(!on)
	advice := mmap.Random
	if on {
		advice = mmap.Normal
	}
	for _, f := range q.Files() {
		f.mu.Lock()
		if f.region != nil {
			_ = f.region.Advise(0, f.size, advice) // a hint
		}
		f.mu.Unlock()
	}
}
