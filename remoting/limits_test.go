package remoting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipes is a listener whose connections are in memory, for tests in which time is virtual.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

// TestT05Idle: a silent connection is closed after 120 s, one with a heartbeat each 30 s is not, and neither is one that only reads answers.
func TestT05Idle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 10)
		o := DefaultServerOptions()
		o.OnClose = func(_ *Conn, cause error) { causes <- cause }
		conns := make(chan *Conn, 1)
		s, err := NewServer(HandlerFunc(func(c *Conn, req *Command) {
			select {
			case conns <- c:
			default: // there is but one that sends requests
			}
			c.Respond(req, &Command{})
		}), o)
		require.NoError(t, err)
		l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		ended := make(chan error)
		go func() { ended <- s.Serve(l) }()

		start := time.Now()
		silent, beating, half := l.dial(), l.dial(), l.dial()
		heartbeat, err := AppendFrame(nil, &Command{Code: Heartbeat})
		require.NoError(t, err)
		go func() {
			for i := range 8 { // part of a frame, and then a byte each 40 s: it is never idle
				if _, err := half.Write(heartbeat[i : i+1]); err != nil {
					return
				}
				time.Sleep(40 * time.Second)
			}
		}()
		closed := make(chan time.Duration)
		go func() {
			_, _ = silent.Read(make([]byte, 1))
			closed <- time.Since(start)
		}()
		halfClosed := make(chan time.Duration, 1)
		go func() {
			_, _ = half.Read(make([]byte, 1))
			halfClosed <- time.Since(start)
		}()
		beat := func() {
			_, err := beating.Write(heartbeat)
			require.NoError(t, err)
			_, err = readFrame(beating)
			require.NoError(t, err)
		}
		for range 4 {
			beat()
			time.Sleep(30 * time.Second)
		}
		beat()
		after := <-closed
		require.GreaterOrEqual(t, after, 120*time.Second)
		require.LessOrEqual(t, after, 125*time.Second)
		first := <-causes
		second := <-causes
		require.ElementsMatch(t, []error{ErrIdle, ErrFrameTimeout}, []error{first, second})
		require.LessOrEqual(t, <-halfClosed, 125*time.Second)
		for range 10 {
			time.Sleep(30 * time.Second)
			beat()
		}
		require.Equal(t, 1, s.Stats().Connections)

		// A held request is answered by and by; the client need not say anything.
		time.Sleep(100 * time.Second)
		c := <-conns
		go func() { _, _ = readFrame(beating) }()
		require.NoError(t, c.OneWay(&Command{Code: NotifyConsumerIDsChanged}))
		time.Sleep(100 * time.Second)
		require.Equal(t, 1, s.Stats().Connections)
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, ErrServerClosed)
		_ = beating.Close()
		time.Sleep(time.Hour) // the writer of half ends
	})
}

// TestHalfOpen: connections that say nothing, or half a frame, cost little and disturb nobody.
func TestHalfOpen(t *testing.T) {
	count := 10_000
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	count = min(count, int(limit.Cur)/2-200)
	if raceBuild {
		count = min(count, 500)
	}
	s, addr := serve(t, echo, func(o *ServerOptions) { o.MaxConnections = count + 1 })
	heads := [][]byte{nil, {0}, {0, 0xff, 0xff, 0xf0}, {0, 0xff, 0xff, 0xf0, 0, 0, 0, 50, '{'}, {0, 0, 0, 50, 0, 0, 0, 40, '{'}}
	conns := make([]net.Conn, 0, count)
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
		require.Eventually(t, func() bool { return s.Stats().Connections == 0 }, waitFor, tick)
	}()
	for i := range count {
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		conns = append(conns, c)
		_, err = c.Write(heads[i%len(heads)])
		require.NoError(t, err)
	}
	c := dial(t, addr)
	c.request(1, 5)
	require.Equal(t, int32(5), c.receive().Opaque)
	require.Equal(t, count+1, s.Stats().Connections)
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	// What earlier tests left may be collected in between, so that it can be less than nothing.
	perConn := (int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse)) / int64(count)
	t.Logf("%d connections take %d bytes of memory each, both ends together", count, perConn)
	require.Less(t, perConn, int64(64<<10))
	require.Zero(t, s.Stats().RequestBytes, "announced lengths alone take no memory")
	over := dial(t, addr)
	over.requireClosed()
	require.Eventually(t, func() bool { return s.Stats().RefusedConnections == 1 }, waitFor, tick)
	require.NoError(t, c.Close())
}

// TestLargeFramesWait: frames over the budget wait for the ones before them, and all come through.
func TestLargeFramesWait(t *testing.T) {
	var most atomic.Int64
	var s *Server
	s, addr := serve(t, HandlerFunc(func(c *Conn, req *Command) {
		used := s.Stats().RequestBytes
		for old := most.Load(); used > old && !most.CompareAndSwap(old, used); old = most.Load() {
		}
		go c.Respond(req, &Command{Body: req.Body[:10]})
	}), func(o *ServerOptions) { o.MaxRequestBytes = 3 << 20 })
	c := client(t)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer nc.Close()
			b, _ := AppendFrame(nil, &Command{Code: 1, Opaque: int32(i), Body: pattern(i, 1<<20)})
			if _, err = nc.Write(b); err != nil {
				t.Error(err)
				return
			}
			resp, err := readFrame(nc)
			if err != nil || string(resp.Body) != string(pattern(i, 10)) {
				t.Errorf("%v %v", resp, err)
			}
		})
	}
	wg.Wait()
	resp, err := c.Invoke(within(t), addr, &Command{Code: 1, Body: make([]byte, 5<<20)})
	require.NoError(t, err, "a frame of more than the budget goes alone")
	require.Len(t, resp.Body, 10)
	require.LessOrEqual(t, most.Load(), int64(6<<20))
	require.Positive(t, most.Load())
	require.Eventually(t, func() bool { return s.Stats().RequestBytes == 0 }, waitFor, tick)
}

func TestClassesDoNotStarveOneAnother(t *testing.T) {
	release := make(chan struct{})
	var running, most atomic.Int64
	s, addr := serve(t, Mux{
		PullMessage: func(c *Conn, req *Command) {
			n := running.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			<-release
			running.Add(-1)
			c.Respond(req, &Command{})
		},
		SendMessageV2: echo,
		Heartbeat:     func(c *Conn, req *Command) { c.Hold(req) },
	}, func(o *ServerOptions) {
		o.Classes = []Class{
			{Name: "pull", Codes: []int32{PullMessage}, Workers: 2, MaxInFlight: 5},
			{Name: "rest", MaxInFlight: 1},
		}
	})
	c := dial(t, addr)
	for i := range 8 {
		c.request(PullMessage, int32(i))
	}
	for range 3 { // those over the limit are refused at once
		got := c.receive()
		require.Equal(t, SystemBusy, got.Code)
		require.GreaterOrEqual(t, got.Opaque, int32(5))
		require.Contains(t, got.Remark, "[OVERLOAD]5 requests of class pull are in flight")
	}
	for i := range 3 { // a held request is not in flight
		c.request(Heartbeat, int32(100+i))
	}
	c.request(SendMessageV2, 200)
	require.Equal(t, int32(200), c.receive().Opaque, "sends go on")
	require.Equal(t, int64(5), s.Stats().InFlight)
	close(release)
	for range 5 {
		require.Equal(t, Success, c.receive().Code)
	}
	require.LessOrEqual(t, most.Load(), int64(2))
	require.Equal(t, int64(3), s.Stats().Overload)
	require.Eventually(t, func() bool { return s.Stats().InFlight == 0 }, waitFor, tick)
}

func TestWaitedTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := DefaultServerOptions()
		o.Classes = []Class{{Name: "all", Workers: 1, MaxInFlight: 10, MaxWait: 5 * time.Second}}
		s, err := NewServer(HandlerFunc(func(c *Conn, req *Command) {
			time.Sleep(4 * time.Second)
			c.Respond(req, &Command{})
		}), o)
		require.NoError(t, err)
		l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		ended := make(chan error)
		go func() { ended <- s.Serve(l) }()
		nc := l.dial()
		var all []byte
		for i := range 3 {
			all, err = AppendFrame(all, &Command{Code: 1, Opaque: int32(i)})
			require.NoError(t, err)
		}
		_, err = nc.Write(all)
		require.NoError(t, err)
		for i := range 3 {
			got, err := readFrame(nc)
			require.NoError(t, err)
			require.Equal(t, int32(i), got.Opaque)
			if i < 2 {
				require.Equal(t, Success, got.Code)
			} else {
				require.Equal(t, SystemBusy, got.Code)
				require.Contains(t, got.Remark, "[TIMEOUT_CLEAN_QUEUE]")
			}
		}
		_ = nc.Close()
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, ErrServerClosed)
	})
}

// TestSlowClient: a client that does not read its answers is not read from, and others are served meanwhile.
func TestSlowClient(t *testing.T) {
	const (
		requests      = 2000
		requestBytes  = 8 << 10 // altogether more than sockets take
		responseBytes = 64 << 10
	)
	for _, workers := range []int{0, 4} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			var served atomic.Int64
			s, addr := serve(t, HandlerFunc(func(c *Conn, req *Command) {
				served.Add(1)
				c.Respond(req, &Command{Body: make([]byte, responseBytes)})
			}), func(o *ServerOptions) {
				o.MaxConnResponseBytes = 1 << 20
				o.Classes = []Class{{Name: "all", Workers: workers, MaxInFlight: 10_000, RefuseOverBudget: true}}
			})
			slow := dial(t, addr)
			require.NoError(t, slow.Conn.(*net.TCPConn).SetReadBuffer(64<<10))
			written := make(chan error, 1)
			go func() {
				for i := range requests {
					b, _ := AppendFrame(nil, &Command{Code: PullMessage, Opaque: int32(i), Body: make([]byte, requestBytes)})
					if _, err := slow.Write(b); err != nil {
						written <- err
						return
					}
				}
				written <- nil
			}()
			require.Eventually(t, func() bool { return s.Stats().ResponseBytes > 0 }, waitFor, tick)
			for before := int64(-1); before != served.Load(); time.Sleep(100 * time.Millisecond) { // until it stands still
				before = served.Load()
			}
			require.Less(t, served.Load(), int64(requests/2), "it was read from although it does not read")
			// Over the limit go what one read brings, or what workers are at, and refusals.
			require.LessOrEqual(t, s.Stats().ResponseBytes, int64(1<<20+9*(responseBytes+1000)+requests*250))
			other := dial(t, addr)
			for i := range 10 {
				other.request(9, int32(i))
				require.Len(t, other.receive().Body, responseBytes)
			}
			busy := 0
			for range requests {
				if got := slow.receive(); got.Code == SystemBusy {
					busy++
				} else {
					require.Len(t, got.Body, responseBytes)
				}
			}
			require.NoError(t, <-written)
			require.Equal(t, int64(busy), s.Stats().Overload)
			require.Equal(t, int64(requests-busy+10), served.Load())
			require.Eventually(t, func() bool { return s.Stats().ResponseBytes == 0 && s.Stats().InFlight == 0 }, waitFor, tick)
		})
	}
}

func TestRefusedOverBudget(t *testing.T) {
	s, addr := serve(t, echo, func(o *ServerOptions) {
		o.MaxResponseBytes = 1000
		o.Classes = []Class{{Name: "pull", Codes: []int32{PullMessage}, MaxInFlight: 10, RefuseOverBudget: true}, {Name: "rest", MaxInFlight: 10}}
	})
	s.responses.used.Add(2000)
	c := dial(t, addr)
	c.request(PullMessage, 1)
	got := c.receive()
	require.Equal(t, SystemBusy, got.Code)
	require.Contains(t, got.Remark, "[OVERLOAD]")
	c.request(Heartbeat, 2)
	require.Equal(t, Success, c.receive().Code)
	s.responses.used.Add(-2000)
	c.request(PullMessage, 3)
	require.Equal(t, Success, c.receive().Code)
}

// The budget may be spent while a request waits for a worker.
func TestRefusedOverBudgetAfterWaiting(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	s, addr := serve(t, HandlerFunc(func(c *Conn, req *Command) {
		close(started)
		<-release
		c.Respond(req, &Command{})
	}), func(o *ServerOptions) {
		o.Classes = []Class{{Name: "all", Workers: 1, MaxInFlight: 10, RefuseOverBudget: true}}
	})
	c := dial(t, addr)
	c.request(PullMessage, 1)
	<-started
	c.request(PullMessage, 2)
	require.Eventually(t, func() bool { return s.Stats().InFlight == 2 }, waitFor, tick)
	s.responses.used.Add(s.limits.MaxResponseBytes + 1)
	close(release)
	require.Equal(t, Success, c.receive().Code)
	require.Equal(t, SystemBusy, c.receive().Code)
	s.responses.used.Add(-s.limits.MaxResponseBytes - 1)
}

// TestClosedWhileAnswering: a client that goes away leaves nothing behind, wherever its requests are.
func TestClosedWhileAnswering(t *testing.T) {
	var held []Ticket
	var released atomic.Int64
	got := make(chan struct{}, 100)
	go1 := make(chan struct{})
	closed := make(chan error, 1)
	s, addr := serve(t, HandlerFunc(func(c *Conn, req *Command) {
		pay := &Payload{Slices: [][]byte{make([]byte, 1<<20)}, Release: func() { released.Add(1) }}
		switch req.Code {
		case 1:
			held = append(held, c.Hold(req))
		case 2:
			go func() {
				<-go1
				c.Respond(req, &Command{Payload: pay})
			}()
		case 3:
			c.Respond(req, &Command{Payload: pay})
		}
		got <- struct{}{}
	}), func(o *ServerOptions) {
		o.OnClose = func(_ *Conn, cause error) { closed <- cause }
		o.Classes = []Class{{Name: "all", MaxInFlight: 100}}
	})
	c := dial(t, addr)
	c.request(1, 1)
	c.request(2, 2)
	c.request(3, 3)
	for range 3 {
		<-got
	}
	_ = c.Close()
	require.Error(t, <-closed)
	close(go1)
	held[0].Respond(&Command{Payload: &Payload{Slices: [][]byte{{1}}, Release: func() { released.Add(1) }}})
	select {
	case <-held[0].Conn().Done():
	default:
		require.Fail(t, "OnClose came before the end of the connection")
	}
	require.Eventually(t, func() bool {
		st := s.Stats()
		return released.Load() == 3 && st.InFlight == 0 && st.ResponseBytes == 0 && st.Connections == 0
	}, waitFor, tick, "%+v", s.Stats())
}

// TestClosedWithAnswersWaiting: what a client does not read any more is released, by whichever end closes.
func TestClosedWithAnswersWaiting(t *testing.T) {
	for _, server := range []bool{false, true} {
		t.Run(fmt.Sprintf("server=%v", server), func(t *testing.T) {
			const answers = 20
			var released atomic.Int64
			conns := make(chan *Conn, answers)
			s, addr := serve(t, HandlerFunc(func(c *Conn, req *Command) {
				ticket := c.Hold(req)
				ticket.Respond(&Command{Payload: &Payload{Slices: [][]byte{make([]byte, 1<<20)}, Release: func() { released.Add(1) }}})
				conns <- c
			}))
			c := dial(t, addr)
			var conn *Conn
			for i := range answers {
				c.request(1, int32(i))
				conn = <-conns
			}
			require.Less(t, released.Load(), int64(answers), "the sockets took it all")
			if server {
				conn.Close()
			} else {
				_ = c.Close()
			}
			require.Eventually(t, func() bool {
				return released.Load() == answers && s.Stats().ResponseBytes == 0 && s.Stats().Connections == 0
			}, waitFor, tick)
			<-conn.Done()
		})
	}
}

func TestShutdown(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	s, addr := serve(t, Mux{
		1: func(c *Conn, req *Command) {
			close(started)
			<-release
			c.Respond(req, &Command{Body: make([]byte, 8<<20)})
		},
		2: echo,
	}, func(o *ServerOptions) {
		o.Classes = []Class{{Name: "slow", Codes: []int32{1}, Workers: 1, MaxInFlight: 1}, {Name: "rest", MaxInFlight: 10}}
	})
	c := dial(t, addr)
	c.request(1, 1)
	<-started
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(within(t)) }()
	require.Eventually(t, func() bool {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			_ = nc.Close()
		}
		return err != nil
	}, waitFor, tick, "connections are still taken")
	c.request(2, 2)
	require.Equal(t, GoAway, c.receive().Code)
	c.request(2, 3, func(req *Command) { req.Version = V5_3_1 })
	require.Equal(t, Success, c.receive().Code, "an old client does not know 1500 and is served")
	c.request(2, 4, oneWay)
	close(release)
	require.Len(t, c.receive().Body, 8<<20, "what is in flight is answered, and written to the end")
	require.NoError(t, <-done)
	c.requireClosed()
	require.Equal(t, int64(2), s.Stats().GoAway)
}

func TestShutdownDeadline(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s, addr := serve(t, HandlerFunc(func(c *Conn, req *Command) {
		close(entered)
		<-release
		c.Respond(req, &Command{})
	}))
	c := dial(t, addr)
	c.request(9999, 1)
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(ctx) }()
	cancel()
	c.requireClosed()
	close(release)
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "1 requests in flight")
}

// TestManyListeners: the handler sees which listener a connection came through; all end together.
func TestManyListeners(t *testing.T) {
	s, err := NewServer(HandlerFunc(func(c *Conn, req *Command) {
		c.Respond(req, &Command{Remark: c.LocalAddr() + " " + c.RemoteAddr()})
	}), DefaultServerOptions())
	require.NoError(t, err)
	ended := make(chan error, 2)
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() { ended <- s.Serve(l) }()
		c := dial(t, l.Addr().String())
		c.request(1, 1)
		require.Equal(t, l.Addr().String()+" "+c.Conn.LocalAddr().String(), c.receive().Remark)
	}
	require.NoError(t, s.Shutdown(within(t)))
	require.ErrorIs(t, <-ended, ErrServerClosed)
	require.ErrorIs(t, <-ended, ErrServerClosed)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.ErrorIs(t, s.Serve(l), ErrServerClosed)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

// failingListener has no descriptors left for a while, and then ends.
type failingListener struct {
	net.Listener
	fails int
	after error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.fails--; l.fails >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	if l.after != nil {
		return nil, l.after
	}
	return l.Listener.Accept()
}

func TestAcceptFails(t *testing.T) {
	s, err := NewServer(echo, DefaultServerOptions())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(&failingListener{Listener: l, fails: 3}) }()
	c := dial(t, l.Addr().String())
	c.request(1, 1)
	c.receive()
	l2, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	err = s.Serve(&failingListener{Listener: l2, after: net.ErrClosed})
	require.ErrorIs(t, err, net.ErrClosed)
	require.NotErrorIs(t, err, ErrServerClosed)
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-ended, ErrServerClosed)
}

// TestTruncated: a connection that ends inside a frame, at each byte, is no fault of the server's.
func TestTruncated(t *testing.T) {
	causes := make(chan error, 100)
	_, addr := serve(t, echo, func(o *ServerOptions) { o.OnClose = func(_ *Conn, cause error) { causes <- cause } })
	frame := jsonFrame(`{"code":1,"opaque":2}`, 'b', 'o', 'd', 'y')
	for n := range frame {
		c := dial(t, addr)
		if n > 0 {
			c.send(frame[:n]...)
		}
		require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
		c.requireClosed()
		want := io.EOF
		if n > 0 {
			want = io.ErrUnexpectedEOF
		}
		if cause := <-causes; !errors.Is(cause, want) {
			require.Fail(t, "cause", "after %d bytes: %v", n, cause)
		}
	}
}

// FuzzStream: whatever a client sends, in one piece or byte by byte, its connection ends, nothing panics, and nothing stays in flight.
func FuzzStream(f *testing.F) {
	f.Add(jsonFrame(`{"code":1,"opaque":2,"extFields":{"a":1}}`, 'x'), false)
	f.Add(append(jsonFrame(`{"code":1,"flag":2}`), jsonFrame(`{"code":1,"flag":1}`)...), true)
	f.Add([]byte{0, 0, 0, 25, 1, 0, 0, 21, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, false)
	f.Add([]byte{0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0}, true)
	o := DefaultServerOptions()
	o.TLS.Mode = TLSPermissive
	o.MaxFrameBytes = 1 << 20
	o.MaxRequestBytes = 1 << 19
	s, err := NewServer(echo, o)
	require.NoError(f, err)
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	ended := make(chan error)
	go func() { ended <- s.Serve(l) }()
	f.Cleanup(func() {
		require.NoError(f, s.Close())
		require.ErrorIs(f, <-ended, ErrServerClosed)
	})
	f.Fuzz(func(t *testing.T, stream []byte, single bool) {
		c := l.dial()
		drained := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, c)
			close(drained)
		}()
		var w io.Writer = c
		if single && len(stream) < 1000 {
			w = &byteConn{c}
		}
		_, _ = w.Write(stream) // an error: the server has closed
		_ = c.Close()
		<-drained
		require.Eventually(t, func() bool {
			st := s.Stats()
			return st.Connections == 0 && st.InFlight == 0 && st.RequestBytes == 0 && st.ResponseBytes == 0
		}, waitFor, 50*time.Microsecond)
		require.Zero(t, s.Stats().Panics)
	})
}
