package remoting

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a connection, of a server or of a client: both sides may send requests. All methods may be called from any goroutine.
type Conn struct {
	ep     *endpoint
	id     uint64
	base   net.Conn // as accepted or dialled
	nc     net.Conn // base, or TLS over it
	remote string
	local  string
	raw    syscall.RawConn // of a plain TCP connection, otherwise nil
	mode   TLSMode         // of a server: until the first byte has come
	config *tls.Config     // where the mode is not TLSDisabled

	in    input
	out   output
	calls calls

	unanswered atomic.Int32 // requests of the peer, held ones left out
	attached   atomic.Pointer[any]
	active     atomic.Int64 // endpoint.now of the last read or write
	frameSince atomic.Int64 // endpoint.now when an incomplete frame was first seen; 0: there is none
	closing    atomic.Pointer[error]
	closed     chan struct{} // closed as soon as closing is set
	done       chan struct{}
}

// input belongs to the goroutine that reads.
type input struct {
	chunk *chunk
	r, w  int    // what is in chunk and not decoded
	size  int    // of the next chunk: large where reads fill it
	short int    // how many reads on end would have fitted into half a small chunk
	idle  []byte // what an idle connection without raw waits with
	raw   rawReader
}

func newConn(ep *endpoint, nc net.Conn) *Conn {
	c := &Conn{ep: ep, id: ep.lastID.Add(1), base: nc, nc: nc, remote: remoteOf(nc), mode: TLSDisabled, closed: make(chan struct{}), done: make(chan struct{})}
	if a := nc.LocalAddr(); a != nil {
		c.local = a.String()
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		c.raw, _ = tcp.SyscallConn() // fails on a closed connection only, and reading then fails too
	}
	c.in.size = smallChunk
	c.out.init()
	c.active.Store(ep.now.Load())
	return c
}

// ID is unique among the connections of its server or client, and never 0.
func (c *Conn) ID() uint64 { return c.id }

// RemoteAddr is the other side as ip:port.
func (c *Conn) RemoteAddr() string { return c.remote }

// LocalAddr is this side as ip:port; it tells the listener that the connection came through.
func (c *Conn) LocalAddr() string { return c.local }

// Attach keeps a value of the handler's with the connection.
func (c *Conn) Attach(v any) { c.attached.Store(&v) }

// Attached gives that value, nil where there is none.
func (c *Conn) Attached() any {
	if v := c.attached.Load(); v != nil {
		return *v
	}
	return nil
}

// Done is closed at the end of the connection.
func (c *Conn) Done() <-chan struct{} { return c.done }

// OverBudget reports whether more answers wait to be written than Limits allow, for all peers or for this one: a handler that answers a Ticket
// may then rather say SystemBusy than send something large.
func (c *Conn) OverBudget() bool { return c.ep.overBudget(c) }

// Close ends the connection. What waits to be written is dropped.
func (c *Conn) Close() { c.close(ErrClosed) }

func (c *Conn) close(cause error) {
	if !c.closing.CompareAndSwap(nil, &cause) {
		return
	}
	close(c.closed)
	_ = c.base.Close() // ends the read and any write; there is nothing to do about an error of closing
	c.out.shut()
}

// cause is why the connection was closed.
func (c *Conn) cause() error {
	if err := c.closing.Load(); err != nil {
		return *err
	}
	return ErrClosed
}

func (c *Conn) isClosed() bool { return c.closing.Load() != nil }

// watch is called with the time at least a hundred times within each timeout, or every second.
func (c *Conn) watch(now int64) {
	if now-c.active.Load() >= int64(c.ep.limits.IdleTimeout) {
		c.close(ErrIdle)
	} else if since := c.frameSince.Load(); since != 0 && now-since >= int64(c.ep.limits.FrameTimeout) {
		c.close(ErrFrameTimeout)
	}
	c.calls.expire(now)
}

// run serves the connection until its end.
func (c *Conn) run() {
	defer c.ep.goroutines.Done()
	err := c.read()
	c.close(err)
	c.out.drop(c.ep)
	c.ep.remove(c)
	if c.in.chunk != nil {
		c.in.chunk.release()
		c.in.chunk = nil
	}
	cause := c.cause()
	if errors.Is(cause, ErrMalformed) {
		c.ep.counts.malformed.Add(1)
	}
	c.calls.fail(fmt.Errorf("connection to %s: %w", c.remote, cause))
	close(c.done)
	c.ep.log.Debug("connection closed", logRemote(c), logErr(cause))
	if c.ep.onClose != nil {
		c.ep.onClose(c, cause)
	}
}

// read takes frames until the connection ends, and says why it did. Should a frame find a fault in this package, it costs the sender its
// connection and not everybody the process.
func (c *Conn) read() (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.ep.counts.panics.Add(1)
			c.ep.logPanic(c, new(Command), p)
			err = fmt.Errorf("reading failed: %v", p)
		}
	}()
	for {
		if err := c.fill(); err != nil {
			return err
		}
		if c.mode != TLSDisabled {
			if handshake, err := c.secure(); err != nil {
				return err
			} else if handshake {
				continue
			}
		}
		c.out.cork()
		err := c.frames()
		if c.out.uncork() {
			c.flush(true)
		}
		if err != nil {
			return err
		}
		c.out.await(c.ep.limits.MaxConnResponseBytes)
	}
}

// fill reads something.
func (c *Conn) fill() error {
	in := &c.in
	var n int
	var err error
	switch {
	case in.chunk != nil: // behind an incomplete frame
		n, err = c.nc.Read(in.chunk.buf[in.w:])
	case c.raw != nil:
		n, err = in.raw.read(c.raw, in)
	default:
		if in.idle == nil {
			in.idle = make([]byte, smallChunk/2)
		}
		if n, err = c.nc.Read(in.idle); n > 0 {
			in.chunk = newChunk(in.size)
			copy(in.chunk.buf, in.idle[:n])
		}
	}
	switch {
	case n > 0:
	case err == nil:
		return io.ErrNoProgress
	case errors.Is(err, io.EOF) && in.w > in.r:
		return io.ErrUnexpectedEOF
	default:
		return err
	}
	in.w += n
	if in.w == len(in.chunk.buf) {
		in.size, in.short = largeChunk, 0
	} else if n >= smallChunk/2 {
		in.short = 0
	} else if in.short++; in.short == shortReads {
		in.size, in.short = smallChunk, 0
	}
	c.active.Store(c.ep.now.Load())
	c.ep.counts.reads.Add(1)
	c.ep.counts.readBytes.Add(int64(n))
	return nil
}

// shortReads on end make the next chunk a small one.
const shortReads = 16

// reserve takes bytes from the budget of large frames, and waits until there are so many.
func (c *Conn) reserve(n int64) error {
	for !c.ep.requests.take(n) {
		select { // the watch closes a connection whose frame takes too long
		case <-c.closed:
			return c.cause()
		case <-time.After(reserveRetry):
		}
	}
	return nil
}

// reserveRetry is after how long a connection looks again whether there is room for its frame.
const reserveRetry = 5 * time.Millisecond

// frames handles all whole frames that have been read.
func (c *Conn) frames() error {
	in := &c.in
	for in.w-in.r >= 4 {
		n, err := c.frameLen()
		if err != nil {
			return err
		}
		if in.w-in.r < 4+n {
			break
		}
		frame := in.chunk.buf[in.r+4 : in.r+4+n : in.r+4+n]
		in.r += 4 + n
		if err := c.frame(frame); err != nil {
			return err
		}
		if c.out.pending.Load() > flushBytes && c.out.claim() {
			c.flush(true)
		}
	}
	if in.w == in.r {
		c.frameSince.Store(0)
		in.chunk.release()
		in.chunk, in.r, in.w = nil, 0, 0
		return nil
	}
	if c.frameSince.Load() == 0 {
		c.frameSince.Store(c.ep.now.Load())
	}
	return c.room()
}

// frameLen reads the length of the frame that begins at in.r.
func (c *Conn) frameLen() (int, error) {
	n := int64(int32(binary.BigEndian.Uint32(c.in.chunk.buf[c.in.r:])))
	if n < 4 || n > int64(c.ep.limits.MaxFrameBytes-4) {
		return 0, &FrameError{0, fmt.Sprintf("length %d is not from 4 to %d", n, c.ep.limits.MaxFrameBytes-4)}
	}
	return int(n), nil
}

// room makes room for more of an incomplete frame.
func (c *Conn) room() error {
	in := &c.in
	have, need := in.w-in.r, 4
	if have >= 4 {
		n, err := c.frameLen()
		if err != nil {
			return err
		}
		need += n
	}
	old := in.chunk
	if need <= len(old.buf)-in.r || len(old.buf)-in.w >= len(old.buf)/8 {
		return nil
	}
	size := max(need, in.size)
	if need > largeChunk {
		size = min(need, max(largeChunk, 4*have)) // memory grows with what has come, not with what was announced
	}
	ch := newChunk(size)
	switch {
	case old.budget != nil:
		ch.budget, ch.reserved = old.budget, old.reserved
		old.budget, old.reserved = nil, 0
	case size > unreservedBytes:
		if err := c.reserve(int64(need)); err != nil {
			ch.release()
			return err
		}
		ch.budget, ch.reserved = &c.ep.requests, int64(need)
	}
	copy(ch.buf, old.buf[in.r:in.w])
	old.release()
	in.chunk, in.r, in.w = ch, 0, have
	return nil
}

// frame handles one frame, without its length field.
func (c *Conn) frame(b []byte) error {
	r := requestPool.Get().(*request)
	r.Ext = r.fields[:0]
	if err := r.decode(b); err != nil {
		r.recycle()
		return err
	}
	if r.IsResponse() {
		c.ep.counts.responses.Add(1)
		resp := r.Command
		resp.Body = append([]byte(nil), r.Body...)
		r.fields = nil
		r.recycle()
		c.calls.answered(c.ep, &resp)
		return nil
	}
	c.ep.counts.requests.Add(1)
	if cap(r.Ext) > 0 {
		r.fields = r.Ext
	}
	r.in, r.conn = &r.inbound, c
	if len(r.Body) > 0 {
		r.chunk = c.in.chunk
		r.chunk.hold()
	}
	c.unanswered.Add(1)
	c.ep.serve(c, r)
	return nil
}

// secure looks at the first byte of a connection of a server: a frame begins with 0, a TLS handshake with 0x16. It reports whether what was
// read is part of a handshake, which it then does.
func (c *Conn) secure() (bool, error) {
	in, mode := &c.in, c.mode
	c.mode = TLSDisabled
	if in.chunk.buf[0] != 0x16 {
		if mode == TLSEnforcing {
			return false, errors.New("plaintext, where only TLS is taken")
		}
		return false, nil
	}
	begun := append([]byte(nil), in.chunk.buf[in.r:in.w]...)
	in.chunk.release()
	in.chunk, in.r, in.w = nil, 0, 0
	c.raw = nil
	secured := tls.Server(&begunConn{c.base, begun}, c.config)
	c.nc = secured
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		return false, fmt.Errorf("TLS handshake: %w", err)
	}
	return true, nil
}

// handshakeTimeout bounds the TLS handshake of an accepted connection.
const handshakeTimeout = 10 * time.Second

// begunConn is a connection of which something has been read.
type begunConn struct {
	net.Conn
	begun []byte
}

func (c *begunConn) Read(b []byte) (int, error) {
	if len(c.begun) > 0 {
		n := copy(b, c.begun)
		c.begun = c.begun[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}
