package remoting

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestT01EchoOfOpaqueAndFlag(t *testing.T) {
	_, addr := serve(t, echo)
	c := dial(t, addr)
	for _, frame := range [][]byte{
		unhex(t, "00000027 01000023 0069 00 0201 00000005 00000000 00000002 6162 0000000c 0005 746f706963 00000001 54"),
		jsonFrame(`{"code":105,"flag":0,"opaque":-2147483648}`, 'x'),
		jsonFrame(`{"code":105,"flag":0,"opaque":7,"unknown":{"a":[1]},"extFields":{"n":5,"b":true}}`),
	} {
		want, err := DecodeFrame(frame)
		require.NoError(t, err)
		c.send(frame...)
		got := c.receive()
		require.Equal(t, want.Opaque, got.Opaque)
		require.Equal(t, FlagResponse, got.Flag)
		require.Equal(t, Success, got.Code)
		require.Equal(t, want.Ext.Map(), got.Ext.Map())
		require.Equal(t, want.Body, got.Body)
	}
}

func TestT02FrameLimits(t *testing.T) {
	var length int
	s, addr := serve(t, HandlerFunc(func(c *Conn, req *Command) {
		length = len(req.Body)
		c.Respond(req, &Command{Code: Success})
	}))
	header := `{"code":1,"opaque":2}`
	frameOf := func(total int) []byte {
		b := jsonFrame(header, make([]byte, total-8-len(header))...)
		require.Len(t, b, total)
		return b
	}
	t.Run("of 16 MiB is served", func(t *testing.T) {
		c := dial(t, addr)
		c.send(frameOf(16 << 20)...)
		require.Equal(t, int32(2), c.receive().Opaque)
		require.Equal(t, 16<<20-8-len(header), length)
		require.Eventually(t, func() bool { return s.Stats().RequestBytes == 0 }, waitFor, tick, "the budget was not given back")
	})
	closes := func(name string, b []byte) {
		t.Run(name, func(t *testing.T) {
			before := s.Stats().Malformed
			c := dial(t, addr)
			c.send(b...)
			c.requireClosed()
			require.Eventually(t, func() bool { return s.Stats().Malformed == before+1 }, waitFor, tick) // it is counted behind the close
		})
	}
	closes("one byte more is closed", frameOf(16<<20 + 1)[:64])
	closes("huge length", []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	closes("negative length", []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	closes("length 3", []byte{0, 0, 0, 3, 0, 0, 0})
	closes("headerLen too large", []byte{0, 0, 0, 5, 0, 0, 0, 2, '{'})
	closes("type byte 7", append([]byte{0, 0, 0, 6, 7, 0, 0, 2}, `{}`...))
	closes("bad JSON", jsonFrame(`{"code":1,}`))
	closes("bad binary header", []byte{0, 0, 0, 4, 1, 0, 0, 0})
	closes("HTTP", []byte("GET / HTTP/1.1\r\n\r\n"))
}

func TestT03UnknownCodeAndFrameBoundaries(t *testing.T) {
	_, addr := serve(t, Mux{GetMaxOffset: echo})
	t.Run("unknown code", func(t *testing.T) {
		c := dial(t, addr)
		c.request(9999, 1)
		got := c.receive()
		require.Equal(t, RequestCodeNotSupported, got.Code)
		require.Contains(t, got.Remark, "9999")
	})
	t.Run("one-way", func(t *testing.T) {
		c := dial(t, addr)
		c.request(9999, 1, oneWay)
		c.request(GetMaxOffset, 2, oneWay)
		c.request(GetMaxOffset, 3)
		require.Equal(t, int32(3), c.receive().Opaque, "a one-way request was answered")
	})
	t.Run("20 frames in one write", func(t *testing.T) {
		c := dial(t, addr)
		var all []byte
		for i := range 20 {
			var err error
			all, err = AppendFrame(all, &Command{Code: GetMaxOffset, Opaque: int32(i), Body: []byte(strconv.Itoa(i))})
			require.NoError(t, err)
		}
		c.send(all...)
		for i := range 20 {
			got := c.receive()
			require.Equal(t, int32(i), got.Opaque)
			require.Equal(t, strconv.Itoa(i), string(got.Body))
		}
	})
	t.Run("one frame in writes of a byte", func(t *testing.T) {
		c := dial(t, addr)
		b, err := AppendFrame(nil, &Command{Code: GetMaxOffset, Opaque: 4, Body: []byte("body")})
		require.NoError(t, err)
		for _, x := range b {
			c.send(x)
		}
		require.Equal(t, "body", string(c.receive().Body))
	})
}

// Frames of all sizes around those of the buffers, cut anywhere, come through whole.
func TestFramesOfAllSizes(t *testing.T) {
	for _, workers := range []int{0, 4} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			s, addr := serve(t, echo, func(o *ServerOptions) {
				o.Classes = []Class{{Name: "all", Workers: workers, MaxInFlight: 1000}}
			})
			c := dial(t, addr)
			sizes := []int{0, 1, 100, smallChunk - 200, smallChunk, largeChunk - 1, largeChunk, largeChunk + 1, unreservedBytes, 3 * unreservedBytes, 1 << 21, 5, 70_000, 3}
			var wg sync.WaitGroup
			wg.Go(func() {
				var all []byte
				for i, size := range sizes {
					all, _ = AppendFrame(all, &Command{Code: 1, Opaque: int32(i), Body: pattern(i, size)})
				}
				for cut := 1; len(all) > 0; cut = cut*3%50_021 + 1 {
					n := min(cut, len(all))
					if _, err := c.Write(all[:n]); err != nil {
						return
					}
					all = all[n:]
				}
			})
			for next := range sizes {
				got := c.receive()
				if workers == 0 {
					require.Equal(t, int32(next), got.Opaque, "inline requests are answered in order")
				}
				require.True(t, bytes.Equal(pattern(int(got.Opaque), sizes[got.Opaque]), got.Body), "body %d", got.Opaque)
			}
			wg.Wait()
			require.Eventually(t, func() bool { return s.Stats().RequestBytes == 0 }, waitFor, tick)
		})
	}
}

// pattern gives bytes that differ from one seed to the next.
func pattern(seed, size int) []byte {
	b := make([]byte, size+8)
	for i := 0; i < size; i += 8 {
		binary.BigEndian.PutUint64(b[i:], uint64(seed+1)*0x9E3779B97F4A7C15+uint64(i))
	}
	return b[:size]
}

func TestHandlers(t *testing.T) {
	s, addr := serve(t, Mux{
		1: func(*Conn, *Command) { panic("ouch") },
		2: func(c *Conn, req *Command) {
			h := req.Fields()
			h.Int32("queueId")
			c.RespondError(req, h.Err())
		},
		3: func(c *Conn, req *Command) {
			c.RespondError(req, fmt.Errorf("wrapped: %w", Errorf(TopicNotExist, "no topic %s", "T")))
		},
		4: func(c *Conn, req *Command) { go c.Respond(req, &Command{Remark: "later"}) },
		5: func(c *Conn, req *Command) {
			ticket := c.Hold(req)
			require.Same(t, c, ticket.Conn())
			go ticket.Respond(&Command{Remark: "held"})
		},
		6: func(c *Conn, req *Command) { c.Respond(req, &Command{Body: make([]byte, 17<<20)}) },
		7: func(c *Conn, req *Command) {
			c.Respond(req, &Command{Code: Success})
			c.Respond(req, &Command{Code: SystemError})
		},
	})
	tests := []struct {
		code, want int32
		remark     string
		ext        Ext
	}{
		{1, SystemError, "ouch", nil},
		{2, SystemError, "header field queueId is missing", nil},
		{2, SystemError, `header field queueId is no 32-bit number: "x"`, Ext{{"queueId", "x"}}},
		{3, TopicNotExist, "no topic T", nil},
		{4, Success, "later", nil},
		{5, Success, "held", nil},
		{6, SystemError, "does not fit into a frame", nil},
		{7, Success, "", nil},
		{8, RequestCodeNotSupported, "request code 8 is not supported", nil},
	}
	c := dial(t, addr)
	for i, tt := range tests {
		c.request(tt.code, int32(i), func(req *Command) { req.Ext = tt.ext })
		got := c.receive()
		require.Equal(t, int32(i), got.Opaque)
		require.Equal(t, tt.want, got.Code)
		require.Contains(t, got.Remark, tt.remark)
	}
	stats := s.Stats()
	require.Equal(t, int64(1), stats.Panics)
	require.Equal(t, int64(1), stats.TooLarge)
	require.Equal(t, int64(1), stats.AnsweredTwice)
	for i := range tests { // the same one-way: nothing comes, and nothing stays in flight
		c.request(tests[i].code, int32(i), oneWay)
	}
	c.request(3, 99)
	require.Equal(t, int32(99), c.receive().Opaque)
	require.Eventually(t, func() bool { return s.Stats().InFlight == 0 }, waitFor, tick)
}

// In race builds the body of an answered request is overwritten, so that tests of handlers notice who still looks at it.
func TestReleasedBodies(t *testing.T) {
	bodies := make(chan []byte, 1)
	_, addr := serve(t, HandlerFunc(func(c *Conn, req *Command) {
		body := req.Body
		c.Respond(req, &Command{Body: body})
		bodies <- body
	}))
	c := dial(t, addr)
	c.request(1, 1, func(req *Command) { req.Body = []byte("body") })
	require.Equal(t, "body", string(c.receive().Body))
	want := "body"
	if raceBuild {
		want = "\xdb\xdb\xdb\xdb"
	}
	require.Equal(t, want, string(<-bodies))
}

func TestClassOptions(t *testing.T) {
	tests := []struct {
		name    string
		classes []Class
		want    string
	}{
		{"none", nil, "no class takes"},
		{"two for the rest", []Class{{Name: "a", MaxInFlight: 1}, {Name: "b", MaxInFlight: 1}}, "classes a and b"},
		{"a code twice", []Class{{Name: "a", MaxInFlight: 1}, {Name: "b", MaxInFlight: 1, Codes: []int32{5}}, {Name: "c", MaxInFlight: 1, Codes: []int32{5}}}, "code 5 is in the classes b and c"},
		{"no request", []Class{{Name: "a"}}, "MaxInFlight is 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := DefaultServerOptions()
			o.Classes = tt.classes
			_, err := NewServer(echo, o)
			require.ErrorContains(t, err, tt.want)
		})
	}
	o := ServerOptions{TLS: TLSOptions{Mode: "maybe"}}
	_, err := NewServer(echo, o)
	for _, name := range strings.Fields("MaxFrameBytes IdleTimeout FrameTimeout MaxRequestBytes MaxResponseBytes MaxConnResponseBytes MaxCalls MaxConnections TLS") {
		require.ErrorContains(t, err, name)
	}
}
