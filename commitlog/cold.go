package commitlog

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// coldPiece is how much SelectCold reads at once: of a topic whose messages follow one another, what comes next is there already.
const coldPiece = 64 << 10

// SelectCold is Select for records that may not be in memory. Those that are come from the mapping, as from Select. Others are read from their file into memory that h gives
// back at Release: touching them in the mapping would block the processor's share of the Go scheduler until the disk has answered, and delay whoever else is to run there,
// puts and readers at the log's end among them. cold tells that it was so.
//
// What is in memory is asked of the kernel once for each piece of 256 KiB and believed for two seconds. Errors are those of Select, and that of a file that cannot be read.
func (l *Log) SelectCold(phy int64, size int32, h *Held) (b []byte, cold bool, err error) {
	b, err = l.Select(phy, size, h) // holds the file, and touches nothing of it
	if err != nil {
		return nil, false, err
	}
	end := phy + int64(size)
	if phy >= h.from && end <= h.from+int64(len(h.piece)) {
		return h.piece[phy-h.from : end-h.from : end-h.from], true, nil
	}
	f := h.files[len(h.files)-1]
	if h.nowMs == 0 {
		h.nowMs = mappedfile.NowMs()
	}
	if f.InMemory(phy-f.From(), int64(size), h.nowMs) {
		return b, false, nil
	}
	n := int64(size)
	if l.queue.Readahead() {
		n = max(n, min(coldPiece, min(f.End(), l.readTo())-phy))
	}
	buf := getBuffer(n)
	piece := (*buf)[:n]
	if err := f.ReadAt(piece, phy-f.From()); err != nil {
		putBuffer(buf)
		if errors.Is(err, mappedfile.ErrRemoved) || errors.Is(err, mappedfile.ErrClosed) {
			return b, true, nil // the mapping, which is held, has it
		}
		return nil, true, fmt.Errorf("read commit log at physical offset %d: %w", phy, err)
	}
	h.read, h.piece, h.from = append(h.read, buf), piece, phy
	return piece[:size:size], true, nil
}

// Readahead tells whether the kernel reads ahead of page faults in the log's files, and SelectCold behind what it was asked for.
func (l *Log) Readahead() bool { return l.queue.Readahead() }

// SetReadahead changes that from now on.
func (l *Log) SetReadahead(on bool) { l.queue.SetReadahead(on) }

// buffers of coldPiece and doubles of it, up to what the largest records need; larger ones are not kept.
var buffers [8]sync.Pool

// bufferClass returns the smallest class of buffers that hold n bytes.
func bufferClass(n int64) int { return bits.Len64(uint64((n - 1) / coldPiece)) }

func getBuffer(n int64) *[]byte {
	class := bufferClass(n)
	if class < len(buffers) {
		if b, ok := buffers[class].Get().(*[]byte); ok {
			return b
		}
		n = coldPiece << class
	}
	b := make([]byte, n)
	return &b
}

func putBuffer(b *[]byte) {
	if class := bufferClass(int64(len(*b))); class < len(buffers) && len(*b) == coldPiece<<class {
		buffers[class].Put(b)
	}
}
