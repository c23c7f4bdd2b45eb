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

// ErrClientClosed is what calls return after Close.
var ErrClientClosed = errors.New("client closed")

// Client has one connection per address, made when it is first needed and made anew after it broke.
type Client struct {
	endpoint
	dialTimeout time.Duration
	tlsConfig   *tls.Config
	sign        func(req *Command)

	pool struct {
		sync.Mutex
		byAddr map[string]*slot
		closed bool
	}
	closeOnce sync.Once
	closeErr  error
}

// slot is the place of one address; its lock is held while dialling.
type slot struct {
	dialling chan struct{} // holds one token
	mu       sync.Mutex
	conn     *Conn
}

// NewClient makes a client, without a connection. It must be closed.
func NewClient(o ClientOptions) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("options of the client: %w", err)
	}
	h := o.Handler
	if h == nil {
		h = Mux{}
	}
	classes, err := newClassTable([]Class{{Name: "peer", Workers: 8, MaxInFlight: 10_000}})
	if err != nil {
		return nil, err
	}
	c := &Client{dialTimeout: o.DialTimeout, tlsConfig: o.TLS, sign: o.Sign}
	c.pool.byAddr = make(map[string]*slot)
	c.onClose, c.language, c.version = o.OnClose, o.Language, o.Version
	if o.BinaryHeaders {
		c.serializeType = typeBinary
	}
	c.init(o.Limits, h, classes, o.Logger)
	return c, nil
}

// Conn gives the connection to addr, an open one or a new one.
//
// Errors: of ctx, of dialling, ErrClientClosed.
func (c *Client) Conn(ctx context.Context, addr string) (*Conn, error) {
	c.pool.Lock()
	if c.pool.closed {
		c.pool.Unlock()
		return nil, ErrClientClosed
	}
	s := c.pool.byAddr[addr]
	if s == nil {
		s = &slot{dialling: make(chan struct{}, 1)}
		c.pool.byAddr[addr] = s
	}
	c.pool.Unlock()
	if conn := s.open(); conn != nil {
		return conn, nil
	}
	select {
	case s.dialling <- struct{}{}:
		defer func() { <-s.dialling }()
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to %s: %w", addr, ctx.Err())
	}
	if conn := s.open(); conn != nil { // another caller has made it meanwhile
		return conn, nil
	}
	conn, err := c.dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	s.mu.Lock()
	s.conn = conn
	s.mu.Unlock()
	return conn, nil
}

func (s *slot) open() *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && s.conn.isClosed() {
		s.conn = nil
	}
	return s.conn
}

// leave has the next call make a new connection. The old one goes on until its calls are answered, or it is idle.
func (c *Client) leave(addr string, conn *Conn) {
	c.pool.Lock()
	s := c.pool.byAddr[addr]
	c.pool.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == conn {
		s.conn = nil
	}
}

func (c *Client) dial(ctx context.Context, addr string) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.dialTimeout)
	defer cancel()
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if c.tlsConfig != nil {
		config := c.tlsConfig
		if config.ServerName == "" && !config.InsecureSkipVerify {
			config = config.Clone()
			if config.ServerName, _, err = net.SplitHostPort(addr); err != nil {
				_ = nc.Close()
				return nil, err
			}
		}
		secured := tls.Client(nc, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = nc.Close()
			return nil, err
		}
		nc = secured
	}
	conn := newConn(&c.endpoint, nc)
	if !c.add(conn, 0) {
		_ = nc.Close()
		return nil, ErrClientClosed
	}
	return conn, nil
}

// Invoke sends a request to addr and waits for the answer, see Conn.Invoke. A request that could not be sent because its connection had just
// ended, or that was answered with 1500, is sent once more over a new connection.
func (c *Client) Invoke(ctx context.Context, addr string, req *Command) (*Command, error) {
	for again := true; ; again = false {
		conn, err := c.Conn(ctx, addr)
		if err != nil {
			return nil, err
		}
		c.prepare(req)
		resp, err := conn.Invoke(ctx, req)
		switch {
		case again && errors.Is(err, ErrNotSent):
		case again && err == nil && resp.Code == GoAway:
			c.leave(addr, conn)
		default:
			return resp, err
		}
	}
}

// InvokeAsync sends a request to addr, see Conn.InvokeAsync. Connecting may wait; ctx is for that alone.
func (c *Client) InvokeAsync(ctx context.Context, addr string, req *Command, timeout time.Duration, answer func(resp *Command, err error)) {
	conn, err := c.Conn(ctx, addr)
	if err != nil {
		answer(nil, err)
		return
	}
	c.prepare(req)
	conn.InvokeAsync(req, timeout, answer)
}

// OneWay sends a request that is not answered, see Conn.OneWay.
func (c *Client) OneWay(ctx context.Context, addr string, req *Command) error {
	conn, err := c.Conn(ctx, addr)
	if err != nil {
		return err
	}
	c.prepare(req)
	return conn.OneWay(req)
}

func (c *Client) prepare(req *Command) {
	if c.sign != nil {
		c.sign(req)
	}
}

// Close ends all connections; calls that wait end with an error.
func (c *Client) Close() error {
	c.closeOnce.Do(func() {
		c.pool.Lock()
		c.pool.closed = true
		c.pool.Unlock()
		c.closeErr = c.end()
	})
	return c.closeErr
}
