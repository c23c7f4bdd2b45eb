package remoting

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain checks that no test has left a goroutine behind. Fuzzing leaves one of its own.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	if code == 0 && flag.Lookup("test.fuzz").Value.String() == "" {
		for range 500 { // those that have ended may still be counted for a moment
			if runtime.NumGoroutine() <= before {
				os.Exit(0)
			}
			time.Sleep(10 * time.Millisecond)
		}
		buf := make([]byte, 1<<20)
		os.Stderr.Write(buf[:runtime.Stack(buf, true)])
		code = 1
	}
	os.Exit(code)
}

// serve starts a server on loopback, which ends with the test.
func serve(t testing.TB, h Handler, change ...func(*ServerOptions)) (*Server, string) {
	t.Helper()
	o := DefaultServerOptions()
	for _, f := range change {
		f(&o)
	}
	s, err := NewServer(h, o)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, ErrServerClosed)
	})
	return s, l.Addr().String()
}

// client makes a client that ends with the test.
func client(t testing.TB, change ...func(*ClientOptions)) *Client {
	t.Helper()
	o := DefaultClientOptions()
	for _, f := range change {
		f(&o)
	}
	c, err := NewClient(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// echo answers with fields and body of the request.
var echo = HandlerFunc(func(c *Conn, req *Command) {
	c.Respond(req, &Command{Ext: req.Ext, Body: req.Body})
})

// rawConn is a client that writes bytes.
type rawConn struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *rawConn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(time.Minute))) // a hang is a failure
	return &rawConn{nc, t, bufio.NewReader(nc)}
}

func (c *rawConn) send(b ...byte) {
	c.t.Helper()
	_, err := c.Write(b)
	require.NoError(c.t, err)
}

func (c *rawConn) request(code, opaque int32, change ...func(*Command)) {
	c.t.Helper()
	req := &Command{Code: code, Opaque: opaque, Version: CurrentVersion}
	for _, f := range change {
		f(req)
	}
	b, err := AppendFrame(nil, req)
	require.NoError(c.t, err)
	c.send(b...)
}

// receive reads a response.
func (c *rawConn) receive() *Command {
	c.t.Helper()
	cmd, err := readFrame(c.r)
	require.NoError(c.t, err)
	require.True(c.t, cmd.IsResponse())
	require.Equal(c.t, V5_5_0, cmd.Version)
	return cmd
}

// requireClosed reads to the end of the connection, where nothing else must come.
func (c *rawConn) requireClosed() {
	c.t.Helper()
	rest, err := io.ReadAll(c.r)
	if err != nil { // bytes of ours that the server did not read make it a reset
		require.ErrorContains(c.t, err, "reset")
	}
	require.Empty(c.t, rest)
}

func readFrame(r io.Reader) (*Command, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(head))
	copy(frame, head)
	if _, err := io.ReadFull(r, frame[4:]); err != nil {
		return nil, err
	}
	return DecodeFrame(frame)
}

// Conditions that take no more than a moment are waited for so long.
const (
	waitFor = 30 * time.Second
	tick    = time.Millisecond
)

// byteConn writes a byte at a time.
type byteConn struct{ net.Conn }

func (c *byteConn) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := c.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

func oneWay(c *Command) { c.Flag |= FlagOneWay }

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
