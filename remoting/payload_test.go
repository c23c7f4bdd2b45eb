package remoting

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPayloads sends payloads of each kind over plain TCP and over TLS, inline, from workers and held, and tells by the counts which
// way they took.
func TestPayloads(t *testing.T) {
	content := pattern(1, 3<<20)
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })

	slices := func(count, size int) func() (*Payload, []byte) {
		return func() (*Payload, []byte) {
			p := new(Payload)
			for i := range count {
				p.Slices = append(p.Slices, content[i*1000:][:size])
			}
			return p, bytes.Join(p.Slices, nil)
		}
	}
	fileRange := func(offset, size int64) func() (*Payload, []byte) {
		return func() (*Payload, []byte) {
			return &Payload{File: file, Offset: offset, Bytes: size}, content[offset : offset+size]
		}
	}
	tests := []struct {
		name         string
		make         func() (*Payload, []byte)
		plain, ofTLS Stats // the counts of payloads
	}{
		{"no slice", slices(0, 0), Stats{Copied: 1}, Stats{Copied: 1}},
		{"one small", slices(1, 100), Stats{Copied: 1}, Stats{Copied: 1}},
		{"32 of 1 KiB", slices(32, 1<<10), Stats{Copied: 1}, Stats{Copied: 1}},
		{"many small, altogether large", slices(1500, 1<<10), Stats{Copied: 1}, Stats{Copied: 1}},
		{"one of 64 KiB", slices(1, 64<<10), Stats{Gathered: 1}, Stats{Gathered: 1}},
		{"10 of 200 KiB", slices(10, 200<<10), Stats{Gathered: 1}, Stats{Gathered: 1}},
		{"300 of 8 KiB", slices(300, 8<<10), Stats{Gathered: 1}, Stats{Gathered: 1}},
		{"file", fileRange(12345, 2<<20), Stats{SentFiles: 1}, Stats{CopiedFiles: 1}},
		{"a byte of a file", fileRange(3<<20-1, 1), Stats{SentFiles: 1}, Stats{CopiedFiles: 1}},
		{"nothing of a file", fileRange(5, 0), Stats{SentFiles: 1}, Stats{CopiedFiles: 1}},
	}
	for _, overTLS := range []bool{false, true} {
		for _, way := range []string{"inline", "later", "held"} {
			t.Run(fmt.Sprintf("tls=%v/%s", overTLS, way), func(t *testing.T) {
				var released atomic.Int64
				handler := HandlerFunc(func(c *Conn, req *Command) {
					p, _ := tests[req.Code].make()
					p.Release = func() { released.Add(1) }
					resp := &Command{Ext: Ext{{"k", "v"}}, Payload: p}
					switch way {
					case "inline":
						c.Respond(req, resp)
					case "later":
						go c.Respond(req, resp)
					case "held":
						held := c.Hold(req)
						go held.Respond(resp)
					}
				})
				s, addr := serve(t, handler, func(o *ServerOptions) {
					o.TLS.Mode = TLSPermissive
					o.Classes = []Class{{Name: "all", MaxInFlight: 1000}}
				})
				c := dial(t, addr)
				if overTLS {
					c.overTLS()
				}
				for i, tt := range tests {
					before := s.Stats()
					c.request(int32(i), int32(i))
					got := c.receive()
					_, want := tt.make()
					require.Equal(t, int32(i), got.Opaque)
					require.True(t, bytes.Equal(want, got.Body), "%s: body differs", tt.name)
					require.Eventually(t, func() bool { return released.Load() == int64(i+1) }, waitFor, tick, tt.name)
					wantCounts := tt.plain
					if overTLS {
						wantCounts = tt.ofTLS
					}
					after := s.Stats()
					require.Equal(t, wantCounts, Stats{
						Copied: after.Copied - before.Copied, Gathered: after.Gathered - before.Gathered,
						SentFiles: after.SentFiles - before.SentFiles, CopiedFiles: after.CopiedFiles - before.CopiedFiles,
					}, tt.name)
				}
				// All at once: they come whole and in any order.
				for round := range 3 {
					for i := range tests {
						c.request(int32(i), int32(round*100+i))
					}
				}
				for range 3 * len(tests) {
					got := c.receive()
					_, want := tests[got.Opaque%100].make()
					require.True(t, bytes.Equal(want, got.Body))
				}
				require.Eventually(t, func() bool { return released.Load() == int64(4*len(tests)) && s.Stats().ResponseBytes == 0 }, waitFor, tick)
			})
		}
	}
}

// An answer that the socket's buffer takes a part of is written to its end by another goroutine.
func TestPartialWrite(t *testing.T) {
	body := pattern(3, 15<<20)
	_, addr := serve(t, HandlerFunc(func(c *Conn, req *Command) {
		held := c.Hold(req)
		go held.Respond(&Command{Body: body})
	}))
	c := dial(t, addr)
	for i := range 3 {
		c.request(1, int32(i))
		got := c.receive()
		require.Equal(t, int32(i), got.Opaque)
		require.True(t, bytes.Equal(body, got.Body))
	}
}

// A file that is shorter than was announced cannot be answered any more: the connection ends.
func TestPayloadOfShortFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 1000), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	for _, overTLS := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", overTLS), func(t *testing.T) {
			causes := make(chan error, 1)
			released := make(chan struct{}, 1)
			_, addr := serve(t, HandlerFunc(func(c *Conn, req *Command) {
				c.Respond(req, &Command{Payload: &Payload{File: file, Offset: 500, Bytes: 501, Release: func() { released <- struct{}{} }}})
			}), func(o *ServerOptions) {
				o.TLS.Mode = TLSPermissive
				o.OnClose = func(_ *Conn, cause error) { causes <- cause }
			})
			c := dial(t, addr)
			if overTLS {
				c.overTLS()
			}
			c.request(1, 1)
			_, err := readFrame(c.r)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			cause := <-causes
			require.ErrorContains(t, cause, path)
			require.ErrorContains(t, cause, "1000")
			<-released
		})
	}
}

func (c *rawConn) overTLS() {
	c.t.Helper()
	secured := tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true})
	require.NoError(c.t, secured.Handshake())
	c.Conn = secured
	c.r.Reset(secured)
}
