package load

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"

	"github.com/tandemq/tandemmq/remoting"
)

// Echo answers each frame that comes in with one like the answer to a send, and looks at nothing but its length: what the network and the scheduler let a server do. All answers to what one
// read brought leave in one write. It returns when ctx has ended.
func Echo(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	f, err := newFrame(&remoting.Command{Flag: remoting.FlagResponse, Ext: remoting.Ext{
		{Key: "MSG_REGION", Value: "DefaultRegion"},
		{Key: "TRACE_ON", Value: "true"},
		{Key: "msgId", Value: "7F00000100002A9F0000000000000000"},
		{Key: "queueId", Value: "3"},
		{Key: "queueOffset", Value: "123456"},
		{Key: "transactionId", Value: "7F00000139ED251A69D7123456780000"},
	}})
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	defer group.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		group.Go(func() {
			gone := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer gone()
			defer c.Close()
			_ = echo(c, f.b) // the peer has gone
		})
	}
}

func echo(c io.ReadWriter, answer []byte) error {
	in, have := make([]byte, 128<<10), 0
	var out []byte
	for {
		n, err := c.Read(in[have:])
		if err != nil {
			return err
		}
		have += n
		at := 0
		out = out[:0]
		for have-at >= 4 {
			size := 4 + int(binary.BigEndian.Uint32(in[at:]))
			if size > have-at {
				break
			}
			at += size
			out = append(out, answer...)
		}
		have = copy(in, in[at:have])
		if len(out) == 0 {
			continue
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
	}
}
