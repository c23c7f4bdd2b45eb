package remoting

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// flushBytes is how much gathers in a connection while requests that came together are handled, and how large a buffer is filled.
const flushBytes = 64 << 10

// keptBufBytes is the largest buffer that is kept for others.
const keptBufBytes = 1 << 20

var bufPool = sync.Pool{New: func() any {
	b := make([]byte, 0, flushBytes+smallChunk)
	return &b
}}

// segment is something to write: bytes, or a payload behind them.
type segment struct {
	buf *[]byte // nil: a payload
	pay *Payload
}

func (s *segment) release() {
	if s.buf == nil {
		s.pay.release()
	} else if cap(*s.buf) <= keptBufBytes {
		*s.buf = (*s.buf)[:0]
		bufPool.Put(s.buf)
	}
	s.buf, s.pay = nil, nil
}

// output is what waits to be written. Whoever finds it idle claims it and flushes it; others only add to it. While corked it is left to
// the reader, who flushes it when all requests of one read have been handled.
type output struct {
	pending atomic.Int64 // bytes in mu.segs and taken

	mu struct {
		sync.Mutex
		segs     []segment
		spare    []segment
		flushing bool // somebody has claimed it
		corked   bool
		closed   bool
	}
	changed sync.Cond // after a write, after the end of flushing, and when closed

	// Of who has claimed it:
	taken []segment
	from  int // bytes of taken[0] that are written
	raw   rawWriter
	vec   [][]byte
	// unwritten is vec while it is written; WriteTo shortens it.
	unwritten net.Buffers
}

func (o *output) init() { o.changed.L = &o.mu }

func (o *output) cork() {
	o.mu.Lock()
	o.mu.corked = true
	o.mu.Unlock()
}

// uncork reports whether the caller has to flush.
func (o *output) uncork() bool {
	o.mu.Lock()
	o.mu.corked = false
	o.mu.Unlock()
	return o.claim()
}

// claim reports whether there is something to flush that the caller must flush.
func (o *output) claim() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.flushing || o.mu.closed || len(o.mu.segs) == 0 {
		return false
	}
	o.mu.flushing = true
	return true
}

// await waits until no more than limit bytes wait.
func (o *output) await(limit int64) {
	if o.pending.Load() <= limit {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.pending.Load() > limit && !o.mu.closed {
		o.changed.Wait()
	}
}

// shut drops what comes from now on.
func (o *output) shut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.closed = true
	o.changed.Broadcast()
}

// drop waits for the end of flushing and releases what is left.
func (o *output) drop(ep *endpoint) {
	o.mu.Lock()
	for o.mu.flushing {
		o.changed.Wait()
	}
	left := append(o.taken, o.mu.segs...)
	o.taken, o.mu.segs = nil, nil
	o.mu.Unlock()
	ep.responses.used.Add(-o.pending.Swap(0))
	for i := range left {
		left[i].release()
	}
}

// write adds the frame of cmd, and flushes unless somebody else will. It does not wait for the peer. The payload is released in any case.
//
// Errors: ErrFrameTooLarge; why the connection was closed.
func (c *Conn) write(cmd *Command, e envelope, serializeType byte) error {
	o := &c.out
	bodyLen, pay := len(cmd.Body), cmd.Payload
	if pay != nil {
		bodyLen = int(pay.size())
	}
	o.mu.Lock()
	if o.mu.closed {
		o.mu.Unlock()
		pay.release()
		return fmt.Errorf("%w: connection to %s: %w", ErrNotSent, c.remote, c.cause())
	}
	if len(o.mu.segs) == 0 || o.mu.segs[len(o.mu.segs)-1].buf == nil || len(*o.mu.segs[len(o.mu.segs)-1].buf) >= flushBytes {
		o.mu.segs = append(o.mu.segs, segment{buf: bufPool.Get().(*[]byte)})
	}
	buf := o.mu.segs[len(o.mu.segs)-1].buf
	before := len(*buf)
	b, err := appendFrame(*buf, cmd, e, serializeType, bodyLen, c.ep.limits.MaxFrameBytes)
	if err != nil {
		if before == 0 {
			o.mu.segs[len(o.mu.segs)-1].release()
			o.mu.segs = o.mu.segs[:len(o.mu.segs)-1]
		}
		o.mu.Unlock()
		pay.release()
		return err
	}
	added := int64(0)
	copied := pay != nil && pay.copied()
	if copied {
		for _, s := range pay.Slices {
			b = append(b, s...)
		}
		c.ep.counts.copied.Add(1)
	} else if pay != nil {
		o.mu.segs = append(o.mu.segs, segment{pay: pay})
		added = pay.size()
	}
	*buf = b
	added += int64(len(b) - before)
	o.pending.Add(added)
	c.ep.responses.used.Add(added)
	mine := !o.mu.flushing && !o.mu.corked
	if mine {
		o.mu.flushing = true
	}
	o.mu.Unlock()
	if copied {
		pay.release()
	}
	if mine && c.unanswered.Load() > 1 {
		go c.flush(true) // more answers are to come: those that do until it runs leave in one write
	} else if mine {
		c.flush(false)
	}
	return nil
}

// flush writes until nothing waits. The caller has claimed the output. Where it must not wait for the peer, a goroutine goes on with what the
// socket's buffer does not take.
func (c *Conn) flush(mayWait bool) {
	o := &c.out
	for {
		if len(o.taken) == 0 {
			o.mu.Lock()
			if o.mu.closed || len(o.mu.segs) == 0 {
				o.mu.flushing = false
				o.changed.Broadcast()
				o.mu.Unlock()
				return
			}
			o.taken, o.mu.segs, o.from = o.mu.segs, o.mu.spare[:0], 0
			o.mu.spare = nil
			o.mu.Unlock()
		}
		all := o.taken
		err := c.writeSome(mayWait)
		if err != nil {
			c.close(fmt.Errorf("write: %w", err))
			o.mu.Lock()
			o.mu.flushing = false // drop releases what is left
			o.changed.Broadcast()
			o.mu.Unlock()
			return
		}
		if len(o.taken) == 0 {
			o.mu.Lock()
			o.mu.spare = all[:0]
			o.changed.Broadcast()
			o.mu.Unlock()
		} else if !mayWait {
			go c.flush(true) // joined by drop: the output is still claimed
			return
		}
	}
}

// writeSome writes of what is taken: all of it if it may wait, and otherwise what can be written at once.
func (c *Conn) writeSome(mayWait bool) error {
	o := &c.out
	if !mayWait {
		if c.raw == nil || len(o.taken) > 1 || o.taken[0].buf == nil {
			return nil
		}
		n, err := o.raw.write(c.raw, (*o.taken[0].buf)[o.from:])
		if n > 0 {
			c.wrote(int64(n))
			if o.from += n; o.from == len(*o.taken[0].buf) {
				o.taken[0].release()
				o.taken = o.taken[1:]
				o.from = 0
			}
		}
		return err
	}
	for len(o.taken) > 0 {
		n := 0
		var err error
		if pay := o.taken[0].pay; pay != nil && pay.File != nil {
			n = 1
			err = c.sendFile(pay)
		} else {
			n, err = c.writeVec()
		}
		if err != nil {
			return err
		}
		for i := range o.taken[:n] {
			o.taken[i].release()
		}
		o.taken = o.taken[n:]
		o.from = 0
	}
	return nil
}

// writeVec writes segments up to the next file.
func (c *Conn) writeVec() (int, error) {
	o := &c.out
	vec := o.vec[:0]
	n := 0
	for ; n < len(o.taken); n++ {
		s := &o.taken[n]
		switch {
		case s.buf != nil:
			b := *s.buf
			if n == 0 {
				b = b[o.from:]
			}
			vec = append(vec, b)
			continue
		case s.pay.File == nil:
			vec = append(vec, s.pay.Slices...)
			c.ep.counts.gathered.Add(1)
			continue
		}
		break
	}
	o.vec = vec
	var err error
	var size int64
	if len(vec) == 1 {
		var m int
		m, err = c.nc.Write(vec[0])
		size = int64(m)
	} else {
		o.unwritten = vec
		size, err = o.unwritten.WriteTo(c.nc)
	}
	c.wrote(size)
	clear(o.vec)
	return n, err
}

// wrote counts what is written.
func (c *Conn) wrote(n int64) {
	c.out.pending.Add(-n)
	c.ep.responses.used.Add(-n)
	c.active.Store(c.ep.now.Load())
	c.ep.counts.writes.Add(1)
	c.ep.counts.writtenBytes.Add(n)
}
