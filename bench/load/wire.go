package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/tandemq/tandemmq/remoting"
)

// firstOpaque is the smallest opaque of a frame: all that are used have as many digits.
const firstOpaque = 1_000_000_000

// frame is a request with places that numbers are written into.
type frame struct {
	b      []byte
	opaque int // where it stands
}

func newFrame(req *remoting.Command) (frame, error) {
	req.Opaque, req.Version, req.Language = firstOpaque, remoting.CurrentVersion, remoting.Java
	b, err := remoting.AppendFrame(nil, req)
	if err != nil {
		return frame{}, err
	}
	f := frame{b: b}
	f.opaque, err = f.place(`"opaque":`, strconv.Itoa(firstOpaque))
	return f, err
}

// place returns where text stands behind a name.
func (f *frame) place(name, text string) (int, error) {
	i := bytes.Index(f.b, []byte(name+text))
	if i < 0 {
		return 0, fmt.Errorf("a frame has no %s%s", name, text)
	}
	return i + len(name), nil
}

// putDigits writes n in decimal over all of b.
func putDigits(b []byte, n int) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

func (f *frame) setOpaque(n int) { putDigits(f.b[f.opaque:][:10], firstOpaque+n) }

// wire is a connection to a broker. One goroutine uses it.
type wire struct {
	c        net.Conn
	b        []byte // read and not looked at: from r to w
	r, w     int
	stop     func() bool
	lastRead time.Time
}

// stallTime is how long a broker may not answer before a row fails.
const stallTime = 30 * time.Second

// dial connects; the connection is closed when ctx ends.
func dial(ctx context.Context, addr string) (*wire, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wire{c: c, b: make([]byte, 128<<10), stop: context.AfterFunc(ctx, func() { _ = c.Close() })}, nil
}

func (w *wire) close() {
	w.stop()
	_ = w.c.Close()
}

// answer is a frame that came in. Its bytes are valid until the next read.
type answer struct {
	frame        []byte
	header, body []byte
}

// Both brokers write the code first.
var (
	goodAnswer = []byte(`{"code":0,`)
	busyAnswer = []byte(`{"code":2,`)
)

// good tells whether the code is 0.
func (a *answer) good() bool { return bytes.HasPrefix(a.header, goodAnswer) }

// busy tells whether the code is SYSTEM_BUSY.
func (a *answer) busy() bool { return bytes.HasPrefix(a.header, busyAnswer) }

// err decodes an answer that is not good.
func (a *answer) err() error {
	cmd, err := remoting.DecodeFrame(a.frame)
	if err != nil {
		return err
	}
	if err := cmd.Error(); err != nil {
		return err
	}
	return fmt.Errorf("an answer that begins with %.40q", a.header)
}

// number returns the one behind a name in the header.
func (a *answer) number(name string) (int, error) {
	i := bytes.Index(a.header, []byte(name))
	if i < 0 {
		return 0, fmt.Errorf("an answer without %s: %q", name, a.header)
	}
	n, digits := 0, a.header[i+len(name):]
	for i, c := range digits {
		if c < '0' || c > '9' {
			if i == 0 {
				break
			}
			return n, nil
		}
		n = n*10 + int(c-'0')
	}
	return 0, fmt.Errorf("an answer with something else behind %s: %q", name, a.header)
}

// read waits for something to come, and hands over all answers that are whole. It may be none.
func (w *wire) read(each func(a answer) error) error {
	if w.r > 0 && (w.r == w.w || len(w.b)-w.w < len(w.b)/4) {
		w.w, w.r = copy(w.b, w.b[w.r:w.w]), 0
	}
	if now := time.Now(); now.Sub(w.lastRead) > stallTime/10 {
		w.lastRead = now
		if err := w.c.SetDeadline(now.Add(stallTime)); err != nil {
			return err
		}
	}
	n, err := w.c.Read(w.b[w.w:])
	if err != nil {
		return err
	}
	w.w += n
	for w.w-w.r >= 8 {
		have := w.b[w.r:w.w]
		size := 4 + int(binary.BigEndian.Uint32(have))
		if size > remoting.DefaultMaxFrameBytes || size < 8 {
			return fmt.Errorf("a frame of %d bytes", size)
		}
		if size > len(have) {
			if size > len(w.b)-w.r {
				grown := make([]byte, max(2*len(w.b), size))
				w.w, w.r = copy(grown, have), 0
				w.b = grown
			}
			return nil
		}
		headerEnd := 8 + int(binary.BigEndian.Uint32(have[4:])&0xFFFFFF)
		if headerEnd > size {
			return errors.New("a header that is longer than its frame")
		}
		w.r += size
		if err := each(answer{have[:size], have[8:headerEnd], have[headerEnd:size]}); err != nil {
			return err
		}
	}
	return nil
}
