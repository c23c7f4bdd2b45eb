package remoting

import (
	"errors"
	"fmt"
)

// Handler serves requests. Serve is called from many goroutines at once, see Class; each request must be answered exactly once, by
// Conn.Respond, RespondError, or Hold, then or later. A panic is answered with code 1.
type Handler interface {
	Serve(c *Conn, req *Command)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(c *Conn, req *Command)

// Serve calls f.
func (f HandlerFunc) Serve(c *Conn, req *Command) { f(c, req) }

// Mux is a Handler that goes by the code of the request. Unknown codes are answered with 3.
type Mux map[int32]HandlerFunc

// Serve calls the function of the request's code.
func (m Mux) Serve(c *Conn, req *Command) {
	if f, ok := m[req.Code]; ok {
		f(c, req)
		return
	}
	c.RespondError(req, Errorf(RequestCodeNotSupported, "request code %d is not supported", req.Code))
}

// Respond answers req, a request that came on this connection, and ends it. It copies all of resp but the payload, so that resp may be used
// again; the opaque, the flag, language and version are put in. It does not wait for the peer. The answer of a one-way request, and any
// on a closed connection, is dropped; the payload is released then too.
func (c *Conn) Respond(req, resp *Command) {
	in := req.in
	if in == nil || !in.state.CompareAndSwap(stateOpen, stateAnswering) {
		c.ep.counts.answeredTwice.Add(1)
		c.ep.log.Error("a request was answered twice", logCode(req.Code), logRemote(c))
		resp.Payload.release()
		return
	}
	if req.IsOneWay() {
		resp.Payload.release()
	} else {
		c.answer(req.Opaque, resp)
	}
	in.end(req)
}

// RespondError answers req with an error: the code and remark of a *ResponseError, otherwise code 1 with its text.
func (c *Conn) RespondError(req *Command, err error) {
	var re *ResponseError
	if errors.As(err, &re) {
		c.Respond(req, &Command{Code: re.Code, Remark: re.Remark})
		return
	}
	c.Respond(req, &Command{Code: SystemError, Remark: err.Error()})
}

// Ticket stands for a request that waits for something. Its zero value answers nothing.
type Ticket struct {
	conn   *Conn
	opaque int32
	oneWay bool
}

// Hold ends req, as Respond does, and gives a ticket to answer it with later.
func (c *Conn) Hold(req *Command) Ticket {
	in := req.in
	if in == nil || !in.state.CompareAndSwap(stateOpen, stateAnswering) {
		c.ep.counts.answeredTwice.Add(1)
		c.ep.log.Error("an answered request was held", logCode(req.Code), logRemote(c))
		return Ticket{}
	}
	t := Ticket{c, req.Opaque, req.IsOneWay()}
	in.end(req)
	return t
}

// Conn is the connection that the request came on.
func (t Ticket) Conn() *Conn { return t.conn }

// Respond answers the request, as Conn.Respond does. It must be called once.
func (t Ticket) Respond(resp *Command) {
	if t.conn == nil || t.oneWay {
		resp.Payload.release()
		return
	}
	t.conn.answer(t.opaque, resp)
}

// answer writes a response.
func (c *Conn) answer(opaque int32, resp *Command) {
	e := envelope{opaque: opaque, flag: resp.Flag | FlagResponse, version: c.ep.version, language: c.ep.language}
	err := c.write(resp, e, typeJSON)
	if errors.Is(err, ErrFrameTooLarge) {
		c.ep.counts.tooLarge.Add(1)
		tooLarge := Command{Code: SystemError, Remark: fmt.Sprintf("the answer does not fit into a frame: %v", err)}
		_ = c.write(&tooLarge, e, typeJSON) // fails only where the connection is closed: nobody is there to be told
	}
}
