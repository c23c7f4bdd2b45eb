package remoting

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The states of a request.
const (
	stateOpen int32 = iota
	stateAnswering
	stateEnded // whoever answered it does not touch it any more
)

// inbound is what belongs to a received request beside the command.
type inbound struct {
	conn   *Conn
	chunk  *chunk // holds the body; nil where there is none
	class  *class
	state  atomic.Int32
	queued time.Time // when it began to wait for a worker
}

// request is a received request; the handler sees its Command.
type request struct {
	Command
	inbound
	fields Ext // memory of Command.Ext, to be used again
}

var requestPool = sync.Pool{New: func() any { return new(request) }}

// recycleEnded takes a request back after its handler has returned, if it was answered meanwhile. One that is answered later is left to the
// garbage collector: answering it twice is then noticed.
func (r *request) recycleEnded() {
	if r.state.Load() == stateEnded {
		r.recycle()
	}
}

func (r *request) recycle() {
	clear(r.fields[:cap(r.fields)])
	r.Command = Command{}
	r.conn, r.class = nil, nil
	r.state.Store(stateOpen)
	requestPool.Put(r)
}

// end releases what the request holds.
func (in *inbound) end(req *Command) {
	if in.chunk != nil {
		poison(req.Body)
		in.chunk.release()
		in.chunk = nil
	}
	c, cl := in.conn, in.class
	in.state.Store(stateEnded) // from here on somebody else may use in
	c.unanswered.Add(-1)
	cl.inFlight.Add(-1)
}

// class is a Class at work. Its workers are started as there is something to do, and end when there is nothing.
type class struct {
	Class
	inFlight atomic.Int64

	mu struct {
		sync.Mutex
		running int
		waiting []*request // a queue: from head on
		head    int
	}
}

type classTable struct {
	all    []*class
	byCode map[int32]*class
	rest   *class
}

func newClassTable(classes []Class) (*classTable, error) {
	t := &classTable{byCode: make(map[int32]*class)}
	var errs []error
	for _, c := range classes {
		cl := &class{Class: c}
		t.all = append(t.all, cl)
		if c.MaxInFlight < 1 || c.Workers < 0 {
			errs = append(errs, fmt.Errorf("class %s: MaxInFlight is %d and Workers %d, must be at least 1 and 0", c.Name, c.MaxInFlight, c.Workers))
		}
		if len(c.Codes) == 0 {
			if t.rest != nil {
				errs = append(errs, fmt.Errorf("classes %s and %s: both take the codes that no other has", t.rest.Name, c.Name))
			}
			t.rest = cl
		}
		for _, code := range c.Codes {
			if other := t.byCode[code]; other != nil {
				errs = append(errs, fmt.Errorf("code %d is in the classes %s and %s", code, other.Name, c.Name))
			}
			t.byCode[code] = cl
		}
	}
	if t.rest == nil {
		errs = append(errs, errors.New("no class takes the codes that no other has"))
	}
	return t, errors.Join(errs...)
}

func (t *classTable) of(code int32) *class {
	if cl, ok := t.byCode[code]; ok {
		return cl
	}
	return t.rest
}

func (t *classTable) inFlight() (n int64) {
	for _, cl := range t.all {
		n += cl.inFlight.Load()
	}
	return n
}

// serve has a request handled. It returns when that is done or queued; the request is no longer the caller's then.
func (ep *endpoint) serve(c *Conn, r *request) {
	cl := ep.classes.of(r.Code)
	r.class = cl
	n := cl.inFlight.Add(1)
	switch {
	case ep.goingAway.Load() && r.Version > V5_3_1:
		ep.counts.goAway.Add(1)
		c.Respond(&r.Command, &Command{Code: GoAway, Remark: "the server is shutting down"})
	case n > int64(cl.MaxInFlight):
		ep.refuse(c, r, fmt.Sprintf("[OVERLOAD]%d requests of class %s are in flight", n-1, cl.Name))
	case cl.RefuseOverBudget && ep.overBudget(c):
		ep.refuse(c, r, overBudget)
	case cl.Workers > 0:
		ep.enqueue(cl, r)
		return
	default:
		ep.handle(c, r)
	}
	r.recycleEnded()
}

const overBudget = "[OVERLOAD]too many answers wait to be written"

// overBudget reports whether too many bytes of answers wait, for all peers or for this one.
func (ep *endpoint) overBudget(c *Conn) bool {
	return ep.responses.full() || c.out.pending.Load() > ep.limits.MaxConnResponseBytes
}

func (ep *endpoint) refuse(c *Conn, r *request, remark string) {
	ep.counts.overload.Add(1)
	c.Respond(&r.Command, &Command{Code: SystemBusy, Remark: remark})
}

// handle calls the handler.
func (ep *endpoint) handle(c *Conn, r *request) {
	defer func() {
		if p := recover(); p != nil {
			ep.counts.panics.Add(1)
			ep.logPanic(c, &r.Command, p)
			if r.state.Load() == stateOpen {
				c.RespondError(&r.Command, fmt.Errorf("the handler failed: %v", p))
			}
		}
	}()
	ep.handler.Serve(c, &r.Command)
}

func (ep *endpoint) enqueue(cl *class, r *request) {
	if cl.MaxWait > 0 {
		r.queued = time.Now()
	}
	cl.mu.Lock()
	if cl.mu.running == cl.Workers {
		cl.mu.waiting = append(cl.mu.waiting, r)
		cl.mu.Unlock()
		return
	}
	cl.mu.running++
	cl.mu.Unlock()
	ep.goroutines.Add(1) // the caller is counted there as well, so that this is never an Add after the last Done
	go ep.work(cl, r)
}

func (ep *endpoint) work(cl *class, r *request) {
	defer ep.goroutines.Done()
	for {
		c := r.conn
		switch {
		case cl.MaxWait > 0 && time.Since(r.queued) > cl.MaxWait:
			ep.refuse(c, r, fmt.Sprintf("[TIMEOUT_CLEAN_QUEUE]waited longer than %v for one of %d workers", cl.MaxWait, cl.Workers))
		case cl.RefuseOverBudget && ep.overBudget(c): // it may have become so while the request waited
			ep.refuse(c, r, overBudget)
		default:
			ep.handle(c, r)
		}
		r.recycleEnded()
		cl.mu.Lock()
		if len(cl.mu.waiting) == cl.mu.head {
			cl.mu.running--
			cl.mu.waiting, cl.mu.head = cl.mu.waiting[:0], 0
			cl.mu.Unlock()
			return
		}
		r = cl.mu.waiting[cl.mu.head]
		cl.mu.waiting[cl.mu.head] = nil
		if cl.mu.head++; cl.mu.head > 1024 && cl.mu.head > len(cl.mu.waiting)/2 {
			cl.mu.waiting, cl.mu.head = slices.Delete(cl.mu.waiting, 0, cl.mu.head), 0
		}
		cl.mu.Unlock()
	}
}
