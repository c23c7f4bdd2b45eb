package remoting

import (
	"fmt"
	"os"
)

// Payload is the body of a response that lies somewhere else: slices of a mapped file, or a range of a file. Slices and file must stay as they
// are until Release is called.
type Payload struct {
	// Slices are written one after the other. They are copied, or written where they lie, see gatherBytes.
	Slices [][]byte
	// File is sent from, Bytes bytes at Offset, in place of Slices: by the kernel alone where the connection is plain TCP. This is for a
	// range that is not in memory; one that is goes faster as a slice.
	File          *os.File
	Offset, Bytes int64
	// Release is called once, as soon as the payload is not needed any more: written, copied or dropped. It may be called on any
	// goroutine and must not wait. Nil: nothing.
	Release func()

	how string // in benchmarks: "copied" or "gathered", whatever the size
}

func (p *Payload) size() int64 {
	if p.File != nil {
		return p.Bytes
	}
	n := int64(0)
	for _, s := range p.Slices {
		n += int64(len(s))
	}
	return n
}

func (p *Payload) release() {
	if p != nil && p.Release != nil {
		f := p.Release
		p.Release = nil
		f()
	}
}

// Payloads of so many bytes, in slices of such a mean length, are written where they lie (writev); others are copied behind their header. Both cost
// the same CPU time up to about 128 KiB, see BenchmarkPayload. Copied ones leave by a write that needs no goroutine, and let go of the mapped file at once;
// the others take no memory while a slow client does not read.
const (
	gatherBytes = 64 << 10
	gatherSlice = 8 << 10
)

// copied says whether the slices go behind the header in one buffer.
func (p *Payload) copied() bool {
	if p.how != "" {
		return p.how == "copied"
	}
	size := p.size()
	return p.File == nil && (size < gatherBytes || size < int64(len(p.Slices)*gatherSlice))
}

// sendFile writes a range of a file.
func (c *Conn) sendFile(p *Payload) error {
	sent, err := int64(0), errNoSendfile
	if c.raw != nil {
		sent, err = sendfile(c.raw, p.File, p.Offset, p.Bytes, c.wrote)
	}
	if err == nil {
		c.ep.counts.sentFiles.Add(1)
		return nil
	}
	if sent > 0 || err != errNoSendfile { //nolint:errorlint // our own, never wrapped
		return fmt.Errorf("send %s from byte %d: %w", p.File.Name(), p.Offset+sent, err)
	}
	c.ep.counts.copiedFiles.Add(1)
	ch := newChunk(largeChunk)
	defer ch.release()
	for sent < p.Bytes {
		b := ch.buf[:min(p.Bytes-sent, largeChunk)]
		if n, err := p.File.ReadAt(b, p.Offset+sent); n < len(b) {
			return fmt.Errorf("read %s at byte %d: %w", p.File.Name(), p.Offset+sent+int64(n), err)
		}
		n, err := c.nc.Write(b)
		c.wrote(int64(n))
		sent += int64(n)
		if err != nil {
			return err
		}
	}
	return nil
}
