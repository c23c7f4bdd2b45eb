package remoting

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrTooManyCalls refuses a call while Limits.MaxCalls others wait on its connection.
var ErrTooManyCalls = errors.New("too many calls wait for answers")

// ErrNotSent is beside the cause where a connection had ended before a request was handed to it: the peer cannot have seen it.
var ErrNotSent = errors.New("not sent")

// calls are the requests that this side has sent and that wait for their answers.
type calls struct {
	mu struct {
		sync.Mutex
		opaque  int32
		waiting map[int32]*call
		failed  error // set at the end of the connection
	}
}

type call struct {
	answer   func(*Command, error) // called once
	deadline int64                 // unix nanoseconds; 0: none
}

// begin registers a call and gives its opaque.
func (cs *calls) begin(cl *call, limit int) (int32, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.mu.failed != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotSent, cs.mu.failed)
	}
	if len(cs.mu.waiting) >= limit {
		return 0, ErrTooManyCalls
	}
	if cs.mu.waiting == nil {
		cs.mu.waiting = make(map[int32]*call)
	}
	for {
		cs.mu.opaque++
		if _, taken := cs.mu.waiting[cs.mu.opaque]; !taken {
			cs.mu.waiting[cs.mu.opaque] = cl
			return cs.mu.opaque, nil
		}
	}
}

// take removes a call; nil: it does not wait any more.
func (cs *calls) take(opaque int32) *call {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cl := cs.mu.waiting[opaque]
	delete(cs.mu.waiting, opaque)
	return cl
}

func (cs *calls) nextOpaque() int32 {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.mu.opaque++
	return cs.mu.opaque
}

func (cs *calls) answered(ep *endpoint, resp *Command) {
	if cl := cs.take(resp.Opaque); cl != nil {
		cl.answer(resp, nil)
		return
	}
	ep.counts.late.Add(1)
}

// expire ends the calls whose time is over.
func (cs *calls) expire(now int64) {
	var over []*call
	cs.mu.Lock()
	for opaque, cl := range cs.mu.waiting {
		if cl.deadline != 0 && now >= cl.deadline {
			delete(cs.mu.waiting, opaque)
			over = append(over, cl)
		}
	}
	cs.mu.Unlock()
	for _, cl := range over {
		cl.answer(nil, context.DeadlineExceeded)
	}
}

// fail ends all calls, and all that come later.
func (cs *calls) fail(err error) {
	cs.mu.Lock()
	waiting := cs.mu.waiting
	cs.mu.waiting, cs.mu.failed = nil, err
	cs.mu.Unlock()
	for _, cl := range waiting {
		cl.answer(nil, err)
	}
}

// Invoke sends a request to the peer and waits for the answer, which is the caller's. An answer with a code other than 0 is no error here.
//
// Errors: of ctx, of the connection, ErrTooManyCalls, ErrFrameTooLarge.
func (c *Conn) Invoke(ctx context.Context, req *Command) (*Command, error) {
	type result struct {
		resp *Command
		err  error
	}
	got := make(chan result, 1)
	opaque, err := c.call(req, &call{answer: func(resp *Command, err error) { got <- result{resp, err} }})
	if err != nil {
		return nil, c.callError(req, err)
	}
	select {
	case r := <-got:
		if r.err != nil {
			return nil, c.callError(req, r.err)
		}
		return r.resp, nil
	case <-ctx.Done():
		c.calls.take(opaque)
		return nil, c.callError(req, ctx.Err())
	}
}

// InvokeAsync sends a request to the peer; answer is called once, with the answer or with what Invoke would have returned. It runs on the goroutine
// that reads the connection, or on the caller's where nothing could be sent, and must not wait. A call ends with context.DeadlineExceeded
// after timeout or at most a second later.
func (c *Conn) InvokeAsync(req *Command, timeout time.Duration, answer func(resp *Command, err error)) {
	cl := &call{answer: answer, deadline: time.Now().Add(timeout).UnixNano()}
	if _, err := c.call(req, cl); err != nil {
		answer(nil, c.callError(req, err))
	}
}

// OneWay sends a request that is not answered.
//
// Errors: of the connection, ErrFrameTooLarge. Nil says that the request waits to be written, not that it arrived.
func (c *Conn) OneWay(req *Command) error {
	if err := c.request(req, c.calls.nextOpaque(), FlagOneWay); err != nil {
		return c.callError(req, err)
	}
	return nil
}

func (c *Conn) call(req *Command, cl *call) (int32, error) {
	opaque, err := c.calls.begin(cl, c.ep.limits.MaxCalls)
	if err != nil {
		return 0, err
	}
	if err := c.request(req, opaque, 0); err != nil {
		if c.calls.take(opaque) == nil {
			return opaque, nil // the end of the connection answers the call already
		}
		return 0, err
	}
	return opaque, nil
}

func (c *Conn) request(req *Command, opaque, flag int32) error {
	e := envelope{opaque: opaque, flag: req.Flag&^FlagResponse | flag, version: c.ep.version, language: c.ep.language}
	return c.write(req, e, c.ep.serializeType)
}

func (c *Conn) callError(req *Command, err error) error {
	return fmt.Errorf("%s to %s: %w", RequestCodeName(req.Code), c.remote, err)
}
