package commitlog

import (
	"runtime"
	"sync/atomic"
	"time"
)

// lockProbe finds out how long the put lock is being held without a cost to those who hold it: it waits in line for it.
type lockProbe struct {
	waiting atomic.Bool
	since   atomic.Int64 // ns since the epoch
}

// PutLockHeld returns for how long the put lock has been held by one put, as far as calls of this function have seen it: 0 when it
// can be had. It does not wait for the lock.
func (w *Writer) PutLockHeld() time.Duration {
	p := &w.probe
	if p.waiting.CompareAndSwap(false, true) {
		p.since.Store(time.Now().UnixNano())
		go func() { // ends when it has had the lock
			w.lock.Lock()
			w.lock.Unlock() //nolint:staticcheck // to have had it is all
			p.waiting.Store(false)
		}()
	}
	for range publishSpins {
		if !p.waiting.Load() {
			return 0
		}
		runtime.Gosched()
	}
	return time.Duration(time.Now().UnixNano() - p.since.Load())
}
