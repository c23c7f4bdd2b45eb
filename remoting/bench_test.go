package remoting

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// sendV2 is the frame of a send of 1 KiB, as the Java client makes it.
func sendV2(t testing.TB) []byte {
	t.Helper()
	req := Command{
		Code: SendMessageV2, Opaque: 77, Version: V5_5_0, Body: make([]byte, 1024),
		Ext: Ext{
			{"a", "producer_group"},
			{"b", "TopicTest"},
			{"c", "TBW102"},
			{"d", "4"},
			{"e", "3"},
			{"f", "0"},
			{"g", "1760000000000"},
			{"h", "0"},
			{"i", "UNIQ_KEY\x017F00000139ED251A69D7123456780000\x02WAIT\x01true\x02TAGS\x01TagA\x02"},
			{"j", "0"},
			{"k", "false"},
			{"m", "false"},
			{"n", "broker-a"},
		},
	}
	b, err := AppendFrame(nil, &req)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func BenchmarkDecode(b *testing.B) {
	frame := sendV2(b)
	buf := make([]byte, len(frame))
	r := new(request)
	b.ReportAllocs()
	for b.Loop() {
		copy(buf, frame)
		r.Ext = r.fields[:0]
		if err := r.decode(buf[4:]); err != nil {
			b.Fatal(err)
		}
		r.fields = r.Ext
	}
}

func BenchmarkEncode(b *testing.B) {
	resp := Command{Ext: Ext{
		{"MSG_REGION", "DefaultRegion"},
		{"TRACE_ON", "true"},
		{"msgId", "7F00000100002A9F0000000000000000"},
		{"queueId", "3"},
		{"queueOffset", "123456"},
		{"transactionId", "7F00000139ED251A69D7123456780000"},
	}}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = AppendFrame(buf[:0], &resp); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEcho has 64 connections send requests of 1 KiB with a header like a send's, and take answers like a send's. impl=bare answers the
// same number of bytes without looking at the request: what loopback and scheduling cost. depth is how many requests are on the way at
// once on each connection.
func BenchmarkEcho(b *testing.B) {
	const conns = 64
	frame := sendV2(b)
	answer := Command{Ext: Ext{
		{"MSG_REGION", "DefaultRegion"},
		{"TRACE_ON", "true"},
		{"msgId", "7F00000100002A9F0000000000000000"},
		{"queueId", "3"},
		{"queueOffset", "123456"},
		{"transactionId", "7F00000139ED251A69D7123456780000"},
	}}
	answerFrame, err := AppendFrame(nil, &Command{Ext: answer.Ext, Opaque: 77, Flag: FlagResponse, Version: CurrentVersion})
	if err != nil {
		b.Fatal(err)
	}
	starts := []struct {
		impl  string
		start func(b *testing.B) string
	}{
		{"bare", func(b *testing.B) string { return bareServer(b, len(frame), answerFrame) }},
		{"inline", func(b *testing.B) string {
			_, addr := serve(b, HandlerFunc(func(c *Conn, req *Command) { c.Respond(req, &answer) }))
			return addr
		}},
		{"workers", func(b *testing.B) string {
			_, addr := serve(b, HandlerFunc(func(c *Conn, req *Command) { c.Respond(req, &answer) }), func(o *ServerOptions) {
				o.Classes = []Class{{Name: "all", Workers: 16, MaxInFlight: 100_000}}
			})
			return addr
		}},
	}
	for _, depth := range []int{1, 32} {
		for _, s := range starts {
			b.Run(fmt.Sprintf("conns=%d/depth=%d/impl=%s", conns, depth, s.impl), func(b *testing.B) {
				addr := s.start(b)
				b.SetBytes(int64(len(frame)))
				b.ReportAllocs()
				b.ResetTimer()
				cpu := cpuTime()
				var wg sync.WaitGroup
				for i := range conns {
					n := b.N / conns
					if i < b.N%conns {
						n++
					}
					wg.Go(func() {
						if err := drive(addr, frame, len(answerFrame), n, depth); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
				b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// cpuTime is what this process has used, which on a busy machine says more than the clock.
func cpuTime() int64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return r.Utime.Nano() + r.Stime.Nano()
}

// drive sends n frames over one connection, depth at a time, and reads as many answers of answerLen bytes.
func drive(addr string, frame []byte, answerLen, n, depth int) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	var batch []byte
	for range depth {
		batch = append(batch, frame...)
	}
	answers := make([]byte, depth*answerLen)
	for n > 0 {
		k := min(n, depth)
		if _, err := c.Write(batch[:k*len(frame)]); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, answers[:k*answerLen]); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// bareServer answers each frameLen bytes with answer, in one write for each read.
func bareServer(b *testing.B, frameLen int, answer []byte) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				buf := make([]byte, largeChunk)
				var out []byte
				have := 0
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					out = out[:0]
					for have += n; have >= frameLen; have -= frameLen {
						out = append(out, answer...)
					}
					if _, err := c.Write(out); err != nil {
						return
					}
				}
			})
		}
	})
	b.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// BenchmarkPayload has one connection take answers of some slices of a size: what gatherBytes is chosen by.
func BenchmarkPayload(b *testing.B) {
	path := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 8<<20), 0o600); err != nil {
		b.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = file.Close() })
	for _, shape := range []struct{ count, size int }{{32, 1 << 10}, {32, 4 << 10}, {16, 8 << 10}, {16, 16 << 10}, {8, 32 << 10}, {4, 64 << 10}, {1, 4 << 10}, {1, 16 << 10}, {1, 32 << 10}, {1, 256 << 10}, {1, 4 << 20}} {
		memory := make([]byte, 8<<20)
		for _, how := range []string{"copied", "gathered", "file"} {
			if how == "file" && shape.count > 1 {
				continue
			}
			b.Run(fmt.Sprintf("slices=%dx%dk/impl=%s", shape.count, shape.size>>10, how), func(b *testing.B) {
				total := shape.count * shape.size
				_, addr := serve(b, HandlerFunc(func(c *Conn, req *Command) {
					p := &Payload{how: how}
					if how == "file" {
						p.File, p.Bytes = file, int64(total)
					} else {
						for i := range shape.count {
							p.Slices = append(p.Slices, memory[2*i*shape.size%(4<<20):][:shape.size])
						}
					}
					c.Respond(req, &Command{Ext: Ext{}, Payload: p})
				}), func(o *ServerOptions) { o.Classes = []Class{{Name: "all", MaxInFlight: 100}} })
				frame, _ := AppendFrame(nil, &Command{Code: PullMessage, Opaque: 1})
				answer, _ := AppendFrame(nil, &Command{Ext: Ext{}, Opaque: 1, Flag: FlagResponse, Version: CurrentVersion})
				b.SetBytes(int64(total))
				b.ReportAllocs()
				b.ResetTimer()
				cpu := cpuTime()
				defer func() { b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/op") }()
				if err := drive(addr, frame, len(answer)+total, b.N, 1); err != nil {
					b.Error(err)
				}
			})
		}
	}
}
