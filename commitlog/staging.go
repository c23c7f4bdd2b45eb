package commitlog

import (
	"fmt"
	"sync"
)

// chunkBytes is the size of a piece of staging memory. A piece is written with one call; from some 100 KiB on a larger one
// gains nothing.
const chunkBytes = 1 << 20

// staging is memory for reserved bytes that are not yet in the files: a list of chunks, each a run of bytes of one file.
//
//	oldest chunk                newest chunk
//	|== written ==|-- filled --||-- filled --| free |
//	              committed                  next reservation
//
// The newest chunk is extended under the put lock while the filled part before it is being written: they do not overlap. How much may be
// staged is for the caller to bound; chunks that are done are used again.
type staging struct {
	mu struct {
		sync.Mutex
		chunks []*chunk // oldest first
		spare  []*chunk
	}
}

// chunk holds bytes [from, from+len(bytes)) of the log.
type chunk struct {
	segment *segment
	from    int64
	bytes   []byte // its length grows under staging.mu; the array never moves
	sealed  bool   // nothing is added any more
}

// maxSpareChunks bounds the memory that is kept for later.
const maxSpareChunks = 8

// take returns the memory of n bytes at position from of the log, in segment s. The caller holds the put lock; reservations come without
// gap, but for fillers.
func (g *staging) take(s *segment, from int64, n int) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.newestLocked()
	if c == nil || c.segment != s || cap(c.bytes)-len(c.bytes) < n {
		if c != nil {
			c.sealed = true
		}
		c = g.freshLocked(n)
		c.segment, c.from = s, from
		g.mu.chunks = append(g.mu.chunks, c)
	}
	at := len(c.bytes)
	c.bytes = c.bytes[: at+n : cap(c.bytes)]
	return c.bytes[at : at+n : at+n]
}

func (g *staging) newestLocked() *chunk {
	if n := len(g.mu.chunks); n > 0 {
		return g.mu.chunks[n-1]
	}
	return nil
}

func (g *staging) freshLocked(n int) *chunk {
	if k := len(g.mu.spare); k > 0 && n <= chunkBytes {
		c := g.mu.spare[k-1]
		g.mu.spare = g.mu.spare[:k-1]
		return c
	}
	return &chunk{bytes: make([]byte, 0, max(n, chunkBytes))}
}

// next returns the oldest chunk and its bytes between the positions from and to, nil when it has none there. A chunk that is sealed and
// done is let go of on the way.
func (g *staging) next(from, to int64) (*chunk, []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.mu.chunks) > 0 {
		c := g.mu.chunks[0]
		start, end := max(from, c.from), min(to, c.from+int64(len(c.bytes)))
		if start < end {
			return c, c.bytes[start-c.from : end-c.from]
		}
		if !c.sealed || c.from+int64(len(c.bytes)) > from {
			return nil, nil
		}
		g.mu.chunks = g.mu.chunks[1:]
		g.recycleLocked(c)
	}
	return nil, nil
}

func (g *staging) recycleLocked(c *chunk) {
	if cap(c.bytes) == chunkBytes && len(g.mu.spare) < maxSpareChunks {
		*c = chunk{bytes: c.bytes[:0]}
		g.mu.spare = append(g.mu.spare, c)
	}
}

// Commit writes what r reserved into the log's file, if it is not there yet: from then on it survives the process. It is for who does not wait for the
// flush, in the modes that collect in memory.
func (w *Writer) Commit(r *Reservation) error { return w.commitTo(max(r.end, w.pos.Wrote())) }

// commitTo writes everything staged below to, which is published, into the files, or finds that somebody has. Then readers see it. One
// goroutine writes at a time, so that those that come meanwhile find much written for them.
func (w *Writer) commitTo(to int64) error {
	if w.staging == nil {
		w.pos.AdvanceCommitted(to)
	}
	if w.committed() >= to {
		return w.diskFailure()
	}
	w.committing.Lock()
	defer w.committing.Unlock()
	if err := w.diskFailure(); err != nil || w.committed() >= to {
		return err
	}
	for at := w.committed(); ; {
		c, b := w.staging.next(at, to)
		if c == nil {
			break
		}
		at = max(at, c.from)
		if _, err := c.segment.handle.WriteAt(b, at-c.segment.from); err != nil {
			return w.failDisk(fmt.Errorf("write commit log at physical offset %d, %d bytes: %w", at, len(b), err))
		}
		at += int64(len(b))
		w.stats.committedBytes.Add(int64(len(b)))
	}
	w.pos.AdvanceCommitted(to)
	w.space.wake()
	w.tail.wake()
	return nil
}
