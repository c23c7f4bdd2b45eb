package locks

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Kind is a variant of lock.
type Kind uint8

// The variants.
const (
	Mutex Kind = iota
	Spin
	Adaptive
)

var kindNames = [...]string{"mutex", "spin", "adaptive"}

// String returns the name ParseKind takes.
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// ParseKind returns the variant of a name: mutex, spin or adaptive.
func ParseKind(name string) (Kind, error) {
	for k, n := range kindNames {
		if n == name {
			return Kind(k), nil
		}
	}
	return 0, fmt.Errorf("parse lock kind: got %q, want mutex, spin or adaptive", name)
}

// PutLockKind returns the variant that the two options of a broker ask for: useABSLock (upstream's default false) goes before
// useReentrantLockWhenPutMessage (default true).
//
// Source: CommitLog, the choice of putMessageLock, 5.5.0.
func PutLockKind(useReentrantLockWhenPutMessage, useABSLock bool) Kind {
	switch {
	case useABSLock:
		return Adaptive
	case useReentrantLockWhenPutMessage:
		return Mutex
	}
	return Spin
}

// New returns a lock of the kind, unlocked, on a cache line of its own. Unlocking one that is not locked panics or ends the
// process. It panics for a kind that is none.
func New(k Kind) sync.Locker {
	switch k {
	case Mutex:
		return new(mutexLock)
	case Spin:
		return new(spinLock)
	case Adaptive:
		return new(adaptiveLock)
	}
	panic("locks: no such kind: " + k.String())
}

const cacheLine = 64

// mutexLock is a sync.Mutex that shares its cache line with nothing.
type mutexLock struct {
	sync.Mutex
	_ [cacheLine - 8]byte
}

// tries is how often a waiter looks at a held lock before it gives way: for about one section of the put path. Between 10 and
// 300 little changes while there is a core for each goroutine; with fewer cores the longer waits lose, since the holder is then
// often one that waits for a core.
const tries = 30

// word is a lock by compare-and-swap: 0 free, 1 held.
type word struct{ v atomic.Uint32 }

func (w *word) take() bool { return w.v.CompareAndSwap(0, 1) }

// spin tries for a bounded time. Looking before swapping keeps the cache line shared while the lock is held.
func (w *word) spin() bool {
	for range tries {
		if w.v.Load() == 0 && w.take() {
			return true
		}
	}
	return false
}

// wait takes the lock however long that lasts, and lets other goroutines run in between.
func (w *word) wait() {
	for !w.spin() {
		runtime.Gosched()
	}
}

func (w *word) free() {
	if w.v.Swap(0) == 0 { // on amd64 an atomic store is the same instruction
		panic("locks: unlock of a lock that is not locked")
	}
}

// spinLock never parks a goroutine.
type spinLock struct {
	word
	_ [cacheLine - 4]byte
}

func (l *spinLock) Lock() {
	if !l.take() {
		l.wait()
	}
}

func (l *spinLock) Unlock() { l.free() }

// adaptiveLock is the word, and a mutex in front of it that is passed only under contention. The word alone excludes, so the
// way a goroutine came to it can change at any time.
//
// What counts as contention is whether somebody queues. While nobody does, whoever finds the word held spins for it: the
// holder is in a section shorter than a park. Who does not get it in time queues at the gate, and as long as the gate has a
// queue, everybody who finds the word held joins it at once, since spinning beside a queue only takes the cache line away
// from the holder. One goroutine at a time stands between gate and word; the others are parked. When the queue has run
// empty, waiters spin again. Upstream gets there by rates kept over seconds (adaptive back-off spin lock); the queue is the
// same fact without the delay, and needs no thresholds.
type adaptiveLock struct {
	word
	queued atomic.Int32 // goroutines at the gate, the one that has passed it included
	gate   sync.Mutex
	_      [cacheLine - 16]byte
}

func (l *adaptiveLock) Lock() {
	if !l.take() {
		l.lockSlow()
	}
}

func (l *adaptiveLock) lockSlow() {
	if l.queued.Load() == 0 && l.spin() {
		return
	}
	l.queued.Add(1)
	l.gate.Lock()
	l.wait()
	l.gate.Unlock()
	l.queued.Add(-1)
}

func (l *adaptiveLock) Unlock() { l.free() }
