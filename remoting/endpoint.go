package remoting

import (
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Why connections end.
var (
	ErrClosed       = errors.New("connection closed")
	ErrIdle         = errors.New("connection idle for too long")
	ErrFrameTimeout = errors.New("frame incomplete for too long")
)

// endpoint is what a Server and a Client have in common: connections, and what watches over them.
type endpoint struct {
	limits        Limits
	handler       Handler
	classes       *classTable
	onClose       func(c *Conn, cause error)
	language      Language
	version       int32
	serializeType byte // of requests
	log           *slog.Logger

	requests  budget // bytes of large frames
	responses budget // bytes that wait to be written
	counts    counts
	goingAway atomic.Bool
	now       atomic.Int64 // unix nanoseconds, as of the last look of watch
	lastID    atomic.Uint64

	goroutines sync.WaitGroup // of connections, workers and watch
	stop       chan struct{}  // ends watch

	conns struct {
		sync.Mutex
		open   map[*Conn]struct{}
		closed bool // no more are taken
	}
}

func (ep *endpoint) init(l Limits, h Handler, classes *classTable, log *slog.Logger) {
	ep.limits, ep.handler, ep.classes, ep.log = l, h, classes, log
	if ep.log == nil {
		ep.log = slog.New(slog.DiscardHandler)
	}
	ep.requests.limit, ep.responses.limit = l.MaxRequestBytes, l.MaxResponseBytes
	ep.conns.open = make(map[*Conn]struct{})
	ep.stop = make(chan struct{})
	ep.now.Store(time.Now().UnixNano())
	ep.goroutines.Add(1)
	go ep.watch()
}

// watch closes connections whose time is over and ends calls that have waited too long.
func (ep *endpoint) watch() {
	defer ep.goroutines.Done()
	every := min(ep.limits.IdleTimeout, ep.limits.FrameTimeout) / 100
	ticker := time.NewTicker(min(max(every, time.Millisecond), time.Second))
	defer ticker.Stop()
	for {
		select {
		case <-ep.stop:
			return
		case t := <-ticker.C:
			now := t.UnixNano()
			ep.now.Store(now)
			for _, c := range ep.snapshot() {
				c.watch(now)
			}
		}
	}
}

func (ep *endpoint) snapshot() []*Conn {
	ep.conns.Lock()
	defer ep.conns.Unlock()
	all := make([]*Conn, 0, len(ep.conns.open))
	for c := range ep.conns.open {
		all = append(all, c)
	}
	return all
}

// add begins to serve a connection; false: the endpoint is closed, or has limit connections.
func (ep *endpoint) add(c *Conn, limit int) bool {
	ep.conns.Lock()
	defer ep.conns.Unlock()
	if ep.conns.closed || limit > 0 && len(ep.conns.open) >= limit {
		return false
	}
	ep.conns.open[c] = struct{}{}
	ep.goroutines.Add(1)
	go c.run()
	return true
}

func (ep *endpoint) remove(c *Conn) {
	ep.conns.Lock()
	defer ep.conns.Unlock()
	delete(ep.conns.open, c)
}

// refuseConns has no more connections taken.
func (ep *endpoint) refuseConns() {
	ep.conns.Lock()
	defer ep.conns.Unlock()
	ep.conns.closed = true
}

// joinTimeout is how long closing waits for goroutines after their connections were closed. Only a handler that hangs takes so long.
const joinTimeout = 5 * time.Second

// end closes all connections and joins all goroutines.
func (ep *endpoint) end() error {
	ep.refuseConns()
	for _, c := range ep.snapshot() {
		c.close(ErrClosed)
	}
	close(ep.stop)
	joined := make(chan struct{})
	go func() {
		ep.goroutines.Wait()
		close(joined)
	}()
	timer := time.NewTimer(joinTimeout)
	defer timer.Stop()
	select {
	case <-joined:
		return nil
	case <-timer.C:
		return errors.New("close: handlers are still running")
	}
}

func (ep *endpoint) logPanic(c *Conn, req *Command, value any) {
	ep.log.Error("a handler panicked", logCode(req.Code), logRemote(c), slog.Any("panic", value), slog.String("stack", string(debug.Stack())))
}

func logCode(code int32) slog.Attr { return slog.String("request", RequestCodeName(code)) }
func logRemote(c *Conn) slog.Attr  { return slog.String("remote", c.remote) }
func logErr(err error) slog.Attr   { return slog.Any("err", err) }

// counts are what Stats tells.
type counts struct {
	accepted, refusedConns, malformed                 atomic.Int64
	requests, responses, late                         atomic.Int64
	overload, goAway, panics, tooLarge, answeredTwice atomic.Int64
	readBytes, reads, writtenBytes, writes            atomic.Int64
	copied, gathered, sentFiles, copiedFiles          atomic.Int64
}

// Stats are counts since the start, but for the first four.
type Stats struct {
	Connections   int   // open now
	InFlight      int64 // requests that are not answered, held ones left out
	RequestBytes  int64 // reserved for large frames
	ResponseBytes int64 // waiting to be written

	Accepted, RefusedConnections int64 // connections taken, and those over the limit
	Malformed                    int64 // connections closed for a malformed frame
	Requests, Responses          int64 // frames received
	LateResponses                int64 // of which nobody was waiting
	Overload, GoAway             int64 // requests refused with 2 and with 1500
	Panics                       int64
	TooLarge                     int64 // answers that did not fit into a frame
	AnsweredTwice                int64 // faults of handlers
	Reads, ReadBytes             int64 // system calls and what they brought
	Writes, WrittenBytes         int64
	// How payloads were sent: copied behind their headers, as they are by writev, files by sendfile, and files through memory.
	Copied, Gathered, SentFiles, CopiedFiles int64
}

// Stats gives a snapshot.
func (ep *endpoint) Stats() Stats {
	ep.conns.Lock()
	open := len(ep.conns.open)
	ep.conns.Unlock()
	n := &ep.counts
	return Stats{
		Connections: open, InFlight: ep.classes.inFlight(), RequestBytes: ep.requests.used.Load(), ResponseBytes: ep.responses.used.Load(),
		Accepted: n.accepted.Load(), RefusedConnections: n.refusedConns.Load(), Malformed: n.malformed.Load(),
		Requests: n.requests.Load(), Responses: n.responses.Load(), LateResponses: n.late.Load(),
		Overload: n.overload.Load(), GoAway: n.goAway.Load(), Panics: n.panics.Load(), TooLarge: n.tooLarge.Load(), AnsweredTwice: n.answeredTwice.Load(),
		Reads: n.reads.Load(), ReadBytes: n.readBytes.Load(), Writes: n.writes.Load(), WrittenBytes: n.writtenBytes.Load(),
		Copied: n.copied.Load(), Gathered: n.gathered.Load(), SentFiles: n.sentFiles.Load(), CopiedFiles: n.copiedFiles.Load(),
	}
}

// remoteOf names the other side of a connection.
func remoteOf(nc net.Conn) string {
	if a := nc.RemoteAddr(); a != nil {
		return a.String()
	}
	return ""
}
