package commitlog

import (
	"sync"
	"sync/atomic"
	"time"
)

// signal wakes goroutines that wait for something to change. A waiter asks for the channel, looks whether what it wants is there, and then waits on
// the channel.
type signal struct {
	waiting atomic.Int32
	mu      struct {
		sync.Mutex
		ch chan struct{}
	}
}

func (s *signal) wake() {
	if s.waiting.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ch != nil {
		close(s.mu.ch)
		s.mu.ch = nil
	}
}

// await returns a channel that the next wake closes; done ends the wait.
func (s *signal) await() (ch <-chan struct{}, done func()) {
	s.waiting.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ch == nil {
		s.mu.ch = make(chan struct{})
	}
	return s.mu.ch, func() { s.waiting.Add(-1) }
}

// AwaitSpace waits until Reserve has a chance again after it answered err, or until timeout; then it returns false. The caller holds no
// lock that another put needs. When it returns true, Reserve may still find the log busy: others were waiting too.
func (w *Writer) AwaitSpace(busy *BusyError, timeout time.Duration) bool {
	if timeout <= 0 {
		return false
	}
	ch, done := w.space.await()
	defer done()
	if w.changed(busy.Reason) {
		if busy.Reason == BusyBuffer || busy.Reason == BusyFlush { // others are still filling what fills it
			time.Sleep(min(timeout, publishSleep))
		}
		return true
	}
	switch busy.Reason {
	case BusyRing: // a matter of microseconds
		time.Sleep(min(timeout, publishSleep))
		return true
	case BusyBuffer:
		if w.committer != nil {
			w.committer.urgent.Store(true)
			w.committer.kick()
		} else {
			w.flusher.kick()
		}
	case BusyFlush:
		w.flusher.kick()
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-ch:
		return true
	case <-t.C:
		return w.ended() // for Reserve to tell
	}
}

// ended tells whether the log has failed or was closed.
func (w *Writer) ended() bool { return w.failure() != nil || w.over.Load() }

// changed tells whether what made the log busy is over already.
func (w *Writer) changed(reason BusyReason) bool {
	if w.ended() {
		return true
	}
	switch reason {
	case BusyFile:
		return w.allocator.settled()
	case BusyBuffer:
		return w.committed() >= w.pos.Wrote()
	case BusyFlush:
		return w.pos.Flushed() >= w.pos.Wrote()
	}
	return false
}
