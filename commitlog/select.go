package commitlog

import (
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// Held keeps the bytes valid that Select returned. The zero value keeps nothing. It is used by one goroutine at a time, and may be used again after Release.
type Held struct {
	files []*mappedfile.File
	data  []byte // of the last of files

	read  []*[]byte // what SelectCold has read
	piece []byte    // the last of it, which begins at physical offset from
	from  int64
	nowMs int64 // mappedfile.NowMs, 0 for not asked yet
}

// Release lets go of everything. The bytes must not be touched afterwards.
func (h *Held) Release() {
	for i, f := range h.files {
		f.Release()
		h.files[i] = nil
	}
	h.files, h.data = h.files[:0], nil
	for i, b := range h.read {
		putBuffer(b)
		h.read[i] = nil
	}
	h.read, h.piece, h.nowMs = h.read[:0], nil, 0
}

// Select returns the size bytes of the log at physical offset phy, which are in one file, and notes in h what keeps them valid: one hold for each file,
// however many bytes are taken from it one after the other. Nothing is verified; touching the bytes may fault, see GuardFault.
//
// Errors: *RangeError when the log does not have them (they have expired, or were never written), or not in one file; ErrClosed, and why a file could not be mapped.
//
// Source: CommitLog.getMessage, 5.5.0.
func (l *Log) Select(phy int64, size int32, h *Held) ([]byte, error) {
	to := l.readTo()
	end := phy + int64(size)
	if phy < 0 || size <= 0 || end > to || end < phy {
		return nil, &RangeError{PhyOffset: phy, Min: l.queue.MinOffset(), Max: to}
	}
	if n := len(h.files); n > 0 {
		if f := h.files[n-1]; phy >= f.From() && end <= f.End() {
			return h.data[phy-f.From() : end-f.From() : end-f.From()], nil
		}
	}
	f, ok := l.queue.Find(phy)
	if !ok || end > f.End() {
		return nil, &RangeError{PhyOffset: phy, Min: l.queue.MinOffset(), Max: to}
	}
	if len(l.missing) > 0 && l.Lacks(phy) {
		return nil, l.missingAt(phy, nil)
	}
	data, err := f.Hold()
	if errors.Is(err, mappedfile.ErrRemoved) { // meanwhile
		return nil, &RangeError{PhyOffset: phy, Min: max(f.End(), l.queue.MinOffset()), Max: to}
	}
	if err != nil {
		return nil, fmt.Errorf("read commit log at physical offset %d: %w", phy, err)
	}
	h.files, h.data = append(h.files, f), data
	return data[phy-f.From() : end-f.From() : end-f.From()], nil
}

// EndOffset returns the position at which readers stop, -1 when there is no file.
func (l *Log) EndOffset() int64 { return l.readTo() }
