package remoting

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClientCalls(t *testing.T) {
	for _, binaryHeaders := range []bool{false, true} {
		t.Run(fmt.Sprintf("binary=%v", binaryHeaders), func(t *testing.T) {
			var oneWays atomic.Int64
			s, addr := serve(t, Mux{
				1: echo,
				2: func(c *Conn, req *Command) {
					if req.IsOneWay() {
						oneWays.Add(1)
					}
					c.Respond(req, &Command{Code: SystemError, Remark: "no"})
				},
			})
			c := client(t, func(o *ClientOptions) { o.BinaryHeaders = binaryHeaders })
			ctx := within(t)
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 200 {
						body := pattern(g*1000+i, i*7)
						resp, err := c.Invoke(ctx, addr, &Command{Code: 1, Ext: Ext{{"g", fmt.Sprint(g)}}, Body: body})
						if err != nil || resp.Ext.Get("g") != fmt.Sprint(g) || string(resp.Body) != string(body) {
							t.Errorf("call %d of %d: %v %v", i, g, resp, err)
							return
						}
					}
				})
			}
			wg.Wait()
			var async sync.WaitGroup
			for range 100 {
				async.Add(1)
				c.InvokeAsync(ctx, addr, &Command{Code: 2}, time.Minute, func(resp *Command, err error) {
					if err != nil || resp.Code != SystemError || resp.Error() == nil {
						t.Errorf("async: %v %v", resp, err)
					}
					async.Done()
				})
			}
			async.Wait()
			require.NoError(t, c.OneWay(ctx, addr, &Command{Code: 2}))
			require.Eventually(t, func() bool { return oneWays.Load() == 1 }, waitFor, tick)
			require.Equal(t, int64(1), s.Stats().Accepted, "one connection serves all calls")
		})
	}
}

func TestClientReconnects(t *testing.T) {
	var first atomic.Bool
	_, addr := serve(t, Mux{
		1: echo,
		2: func(c *Conn, _ *Command) { c.Close() },
		3: func(c *Conn, req *Command) {
			if first.CompareAndSwap(false, true) {
				c.Respond(req, &Command{Code: GoAway})
				return
			}
			c.Respond(req, &Command{Code: Success})
		},
	})
	closed := make(chan error, 10)
	c := client(t, func(o *ClientOptions) { o.OnClose = func(_ *Conn, cause error) { closed <- cause } })
	ctx := within(t)
	conn1, err := c.Conn(ctx, addr)
	require.NoError(t, err)
	_, err = c.Invoke(ctx, addr, &Command{Code: 2})
	require.ErrorContains(t, err, "2 to "+addr)
	require.Error(t, <-closed)
	require.ErrorIs(t, conn1.OneWay(&Command{Code: 1}), ErrNotSent)
	_, err = c.Invoke(ctx, addr, &Command{Code: 1})
	require.NoError(t, err)
	conn2, err := c.Conn(ctx, addr)
	require.NoError(t, err)
	require.NotSame(t, conn1, conn2)
	resp, err := c.Invoke(ctx, addr, &Command{Code: 3})
	require.NoError(t, err)
	require.Equal(t, Success, resp.Code, "a call that is told to go away goes over a new connection")
	conn3, err := c.Conn(ctx, addr)
	require.NoError(t, err)
	require.NotSame(t, conn2, conn3)
}

func TestClientTimeouts(t *testing.T) {
	var held []Ticket
	release := make(chan struct{})
	_, addr := serve(t, HandlerFunc(func(c *Conn, req *Command) {
		if req.Code == 2 {
			for _, h := range held {
				h.Respond(&Command{})
			}
			c.Respond(req, &Command{})
			return
		}
		held = append(held, c.Hold(req))
		if len(held) == 2 {
			close(release)
		}
	}), func(o *ServerOptions) { o.Classes = []Class{{Name: "all", MaxInFlight: 1}} })
	c := client(t)
	ctx, cancel := context.WithCancel(within(t))
	conn, err := c.Conn(ctx, addr)
	require.NoError(t, err)
	asyncErr := make(chan error, 1)
	conn.InvokeAsync(&Command{Code: 1}, time.Millisecond, func(_ *Command, err error) { asyncErr <- err })
	go func() { <-release; cancel() }()
	_, err = conn.Invoke(ctx, &Command{Code: 1})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, <-asyncErr, context.DeadlineExceeded)
	_, err = conn.Invoke(within(t), &Command{Code: 2})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return c.Stats().LateResponses == 2 }, waitFor, tick)
}

func TestClientErrors(t *testing.T) {
	_, addr := serve(t, HandlerFunc(func(c *Conn, req *Command) { c.Hold(req) }))
	c := client(t, func(o *ClientOptions) { o.MaxCalls = 1 })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := c.Invoke(ctx, addr, &Command{Code: 1})
	require.ErrorIs(t, err, context.Canceled)
	ended := make(chan error, 1)
	c.InvokeAsync(within(t), addr, &Command{Code: 1}, time.Hour, func(_ *Command, err error) { ended <- err })
	_, err = c.Invoke(within(t), addr, &Command{Code: 1})
	require.ErrorIs(t, err, ErrTooManyCalls)
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-ended, ErrClosed)
	_, err = c.Invoke(within(t), addr, &Command{Code: 1})
	require.ErrorIs(t, err, ErrClientClosed)
	var re *ResponseError
	require.ErrorAs(t, (&Command{Code: 17, Remark: "x"}).Error(), &re)
	require.EqualError(t, re, "code 17 (TOPIC_NOT_EXIST): x")
}

// A broker calls its clients over the connection that they have made.
func TestServerCallsClient(t *testing.T) {
	conns := make(chan *Conn, 1)
	_, addr := serve(t, HandlerFunc(func(c *Conn, req *Command) {
		c.Attach("id")
		c.Respond(req, &Command{})
		conns <- c
	}))
	notified := make(chan string, 1)
	c := client(t, func(o *ClientOptions) {
		o.Handler = Mux{
			NotifyConsumerIDsChanged: func(c *Conn, req *Command) {
				if req.IsOneWay() {
					notified <- req.Ext.Get("consumerGroup")
				}
				c.Respond(req, &Command{})
			},
			GetConsumerRunningInfo: echo,
		}
	})
	ctx := within(t)
	_, err := c.Invoke(ctx, addr, &Command{Code: Heartbeat})
	require.NoError(t, err)
	conn := <-conns
	require.Equal(t, "id", conn.Attached())
	require.NoError(t, conn.OneWay(&Command{Code: NotifyConsumerIDsChanged, Ext: Ext{{"consumerGroup", "g"}}}))
	require.Equal(t, "g", <-notified)
	resp, err := conn.Invoke(ctx, &Command{Code: GetConsumerRunningInfo, Body: []byte("info")})
	require.NoError(t, err)
	require.Equal(t, "info", string(resp.Body))
	resp, err = conn.Invoke(ctx, &Command{Code: 9999})
	require.NoError(t, err)
	require.Equal(t, RequestCodeNotSupported, resp.Code)
}
