package remoting

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// ErrServerClosed is what Serve returns after Shutdown or Close.
var ErrServerClosed = errors.New("server closed")

// Server serves connections of any number of listeners with one handler.
type Server struct {
	endpoint
	maxConnections int
	tlsMode        TLSMode
	tlsConfig      *tls.Config

	listeners struct {
		sync.Mutex
		open   map[net.Listener]struct{}
		closed bool
	}
	closeOnce sync.Once
	closeErr  error
}

// NewServer makes a server. It must be closed, by Shutdown or Close, even if Serve was never called.
func NewServer(h Handler, o ServerOptions) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("options of the server: %w", err)
	}
	classes, err := newClassTable(o.Classes)
	if err != nil {
		return nil, err
	}
	s := &Server{maxConnections: o.MaxConnections, tlsMode: o.TLS.Mode}
	if o.TLS.Mode != TLSDisabled {
		if s.tlsConfig, err = o.TLS.config(o.Logger); err != nil {
			return nil, err
		}
	}
	s.listeners.open = make(map[net.Listener]struct{})
	s.onClose, s.language, s.version = o.OnClose, o.Language, CurrentVersion
	s.init(o.Limits, h, classes, o.Logger)
	return s, nil
}

// Serve accepts connections of l until the server is closed, and closes l. It may be called for several listeners at once.
//
// Errors: ErrServerClosed; the error of Accept, if it is none that passes by.
func (s *Server) Serve(l net.Listener) error {
	s.listeners.Lock()
	if s.listeners.closed {
		s.listeners.Unlock()
		_ = l.Close()
		return ErrServerClosed
	}
	s.listeners.open[l] = struct{}{}
	s.listeners.Unlock()
	defer func() {
		s.listeners.Lock()
		delete(s.listeners.open, l)
		s.listeners.Unlock()
		_ = l.Close()
	}()
	wait := time.Duration(0)
	for {
		nc, err := l.Accept()
		if err != nil {
			if s.isClosed() {
				return ErrServerClosed
			}
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept: %w", err)
			}
			// Most of all: no descriptors left. They come back as connections end.
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			s.log.Warn("accept failed", logErr(err))
			select {
			case <-time.After(wait):
			case <-s.stop:
				return ErrServerClosed
			}
			continue
		}
		wait = 0
		c := newConn(&s.endpoint, nc)
		c.mode, c.config = s.tlsMode, s.tlsConfig
		if !s.add(c, s.maxConnections) {
			s.counts.refusedConns.Add(1)
			_ = nc.Close()
			continue
		}
		s.counts.accepted.Add(1)
	}
}

func (s *Server) isClosed() bool {
	s.listeners.Lock()
	defer s.listeners.Unlock()
	return s.listeners.closed
}

// GoAway has new requests of clients after V5_3_1 answered with 1500: they then open a connection to another broker. Older clients are
// still served. It is the first step of Shutdown.
func (s *Server) GoAway() { s.goingAway.Store(true) }

// Shutdown takes no more connections, goes away (see GoAway), waits until all requests are answered and the answers written, and closes. When
// ctx ends, it closes without waiting for more. Held requests are not waited for: their holder answers them before, or not at all.
//
// Errors: of ctx, with what was not finished; handlers that still run a while after their connections were closed.
func (s *Server) Shutdown(ctx context.Context) error {
	s.GoAway()
	s.closeListeners()
	s.refuseConns()
	var unfinished error
	ticker := time.NewTicker(drainInterval)
	defer ticker.Stop()
	for unfinished == nil && (s.classes.inFlight() > 0 || s.responses.used.Load() > 0) {
		select {
		case <-ctx.Done():
			unfinished = fmt.Errorf("shut down with %d requests in flight and %d bytes of answers unwritten: %w",
				s.classes.inFlight(), s.responses.used.Load(), ctx.Err())
		case <-ticker.C:
		}
	}
	return errors.Join(unfinished, s.Close())
}

// drainInterval is how often Shutdown looks whether all is answered.
const drainInterval = 2 * time.Millisecond

// Close ends everything at once.
//
// Errors: handlers that still run a while after their connections were closed.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		s.closeListeners()
		s.closeErr = s.end()
	})
	return s.closeErr
}

func (s *Server) closeListeners() {
	s.listeners.Lock()
	defer s.listeners.Unlock()
	s.listeners.closed = true
	for l := range s.listeners.open {
		_ = l.Close()
	}
}
