package commitlog

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Flushing. One goroutine syncs the files; nobody else does, but for Flush and Close, which take turns with it. Synchronous flush is a group
// commit: whoever waits joins the group; the goroutine takes the group that has gathered while the last sync ran, syncs once, and
// answers all of it. A waiter has its own timer, so that a disk that stands still cannot keep it; those that are called rather than woken
// share one, as they have one timeout and stand in its order.

const pageBytes = 4096 // the unit of the options that count pages

// Limits that are reported when they are passed.
const (
	slowFlush  = 500 * time.Millisecond
	slowHoldMs = 500
)

// waiter is one AwaitFlush. It is an element of a ring.
type waiter struct {
	next, prev *waiter
	target     int64 // physical offset below which all must be durable
	done       chan error
	timer      *time.Timer

	call     func(error) // of AwaitFlushFunc, in place of done and timer
	deadline time.Time
}

var waiters = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &waiter{done: make(chan error, 1), timer: t}
}}

// group is a list of waiters.
type group struct {
	root waiter
	n    int
}

func (g *group) init() { g.root.next, g.root.prev = &g.root, &g.root }

func (g *group) push(x *waiter) {
	x.prev, x.next = g.root.prev, &g.root
	x.prev.next, g.root.prev = x, x
	g.n++
}

func (g *group) remove(x *waiter) {
	x.prev.next, x.next.prev = x.next, x.prev
	x.next, x.prev = nil, nil
	g.n--
}

type flusher struct {
	w    *Writer
	wake chan struct{}
	stop chan struct{}
	done chan struct{}
	repaced

	syncing sync.Mutex // who syncs
	scratch []*segment // of who syncs

	mu struct {
		sync.Mutex
		group  group // waits for the next sync, or for one that is running
		armed  bool  // the timer of those that are called
		closed bool
	}
}

func newFlusher(w *Writer) *flusher {
	f := &flusher{w: w, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), repaced: newRepaced()}
	f.mu.group.init()
	return f
}

// run ends when stop is closed; Writer.Close joins it.
func (f *flusher) run() {
	defer close(f.done)
	t := time.NewTimer(f.w.pace.Load().FlushInterval)
	defer t.Stop()
	lastThorough := time.Now()
	for {
		select {
		case <-f.stop:
			return
		case <-f.changed:
			t.Reset(f.w.pace.Load().FlushInterval)
			continue
		case <-f.wake:
			if f.w.o.SyncFlush {
				f.gather()
			}
			_ = f.flush(0) // the error sticks
			continue
		case <-t.C:
		}
		pace := f.w.pace.Load()
		least := int64(pace.FlushLeastPages)
		if f.w.o.SyncFlush || time.Since(lastThorough) >= pace.FlushThoroughInterval {
			least, lastThorough = 0, time.Now()
		}
		_ = f.flush(least)
		t.Reset(pace.FlushInterval)
	}
}

func (f *flusher) kick() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// gather lets the group grow as long as it does so by itself. Producers that were answered together come back one by one within
// microseconds; the first of them would otherwise have a sync of its own, and the others wait for it first.
func (f *flusher) gather() {
	for last := 0; ; {
		runtime.Gosched()
		f.mu.Lock()
		n := f.mu.group.n
		f.mu.Unlock()
		if n <= last {
			return
		}
		last = n
	}
}

// flush makes all that is published durable, if it is at least so many pages, and answers who waited for it.
func (f *flusher) flush(leastPages int64) error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	to := f.w.pos.Wrote()
	from := f.w.pos.Flushed()
	err := f.w.diskFailure()
	switch {
	case err != nil:
	case to == from:
		f.w.stats.durable(time.Now())
	case to/pageBytes-from/pageBytes >= leastPages:
		err = f.sync(from, to)
	}
	f.answer(err)
	return err
}

// sync brings [from, to) into the files and onto the disk. syncing is held.
func (f *flusher) sync(from, to int64) error {
	w := f.w
	start := time.Now()
	f.scratch = w.segments.between(f.scratch[:0], from, to)
	if n := len(f.scratch); n == 0 || f.scratch[0].from > from || f.scratch[n-1].end < to {
		return fmt.Errorf("flush commit log from physical offset %d to %d: %w", from, to, ErrClosed) // nothing counts as flushed that was not synced (W11)
	}
	// File by file: nothing of the next file is written before this one is durable, so that a loss of power leaves no record behind a hole.
	for _, s := range f.scratch {
		if err := w.commitTo(min(to, s.end)); err != nil {
			return err
		}
		if err := s.handle.Datasync(); err != nil {
			return w.failDisk(fmt.Errorf("flush commit log from physical offset %d to %d: %w", from, to, err))
		}
	}
	w.stats.flushed(start, to-from)
	if elapsed := time.Since(start); elapsed >= slowFlush {
		w.stats.slowFlushes.Add(1)
		w.logger.Warn("commit log flush was slow", slog.Int64("phyOffset", from), slog.Int64("bytes", to-from), slog.Duration("elapsed", elapsed))
	}
	w.pos.AdvanceFlushed(to)
	w.space.wake()
	w.tail.wake()
	for _, s := range w.segments.drop(to) {
		if err := s.close(); err != nil { // its bytes are durable
			w.logger.Warn("close of a commit log file failed", slog.String("file", s.file.Path()), slog.Any("err", err))
		}
	}
	return nil
}

// answer answers all waiters whose bytes are durable; with an error all of them. They are taken out under the lock and told outside of it: each puts again
// at once, and would have to wait for the others to be told.
func (f *flusher) answer(err error) {
	first, n, more := f.take(err != nil)
	for x := first; x != nil; {
		next := x.prev // x is somebody else's once it is told
		if x.call != nil {
			x.call(err)
		} else {
			x.done <- err
		}
		x = next
	}
	if n > 0 {
		f.w.stats.answered(n)
	}
	if more {
		f.kick()
	}
}

// take takes out the waiters whose bytes are durable, or all, and chains them by prev, in their order. more tells whether others are left.
func (f *flusher) take(all bool) (first *waiter, n int, more bool) {
	flushed := f.w.pos.Flushed()
	last := &first
	f.mu.Lock()
	defer f.mu.Unlock()
	for x := f.mu.group.root.next; x != &f.mu.group.root; {
		next := x.next
		if all || x.target <= flushed {
			f.mu.group.remove(x)
			*last = x
			last = &x.prev
			n++
		}
		x = next
	}
	return first, n, f.mu.group.n > 0
}

// AwaitFlush returns when what r reserved is durable. ErrFlushTimeout after SyncFlushTimeout: it is in the log, will become durable
// when the disk moves again, and nobody will be told. *FailedError: it may or may not be durable, and will not be. ErrClosed never:
// Close flushes first. It may be called under asynchronous flush too.
//
// Source: GroupCommitService, FlushDiskWatcher, 5.5.0.
func (w *Writer) AwaitFlush(r *Reservation) error {
	return w.flusher.await(r.end, w.pace.Load().SyncFlushTimeout)
}

func (f *flusher) await(target int64, timeout time.Duration) error {
	if f.w.pos.Flushed() >= target {
		return nil
	}
	if err := f.w.diskFailure(); err != nil {
		return err
	}
	x := waiters.Get().(*waiter)
	x.target = target
	f.mu.Lock()
	if f.mu.closed {
		f.mu.Unlock()
		waiters.Put(x)
		return ErrClosed
	}
	f.mu.group.push(x)
	f.mu.Unlock()
	f.kick()
	x.timer.Reset(timeout)
	select {
	case err := <-x.done:
		x.timer.Stop()
		waiters.Put(x)
		return err
	case <-x.timer.C:
	}
	f.mu.Lock()
	taken := x.next == nil
	if !taken {
		f.mu.group.remove(x)
	}
	f.mu.Unlock()
	if taken { // out to be told
		err := <-x.done
		waiters.Put(x)
		return err
	}
	waiters.Put(x)
	f.w.stats.flushTimeouts.Add(1)
	return ErrFlushTimeout
}

// AwaitFlushFunc has done called once with what AwaitFlush would return: before it returns, where that is known, and otherwise by whoever has synced, one behind the other in the order of the
// calls of AwaitFlushFunc. done must not wait, nor call the Writer: the next sync waits for it.
func (w *Writer) AwaitFlushFunc(r *Reservation, done func(error)) {
	w.flusher.awaitFunc(r.end, w.pace.Load().SyncFlushTimeout, done)
}

func (f *flusher) awaitFunc(target int64, timeout time.Duration, done func(error)) {
	if f.w.pos.Flushed() >= target {
		done(nil)
		return
	}
	if err := f.w.diskFailure(); err != nil {
		done(err)
		return
	}
	x := &waiter{target: target, call: done, deadline: time.Now().Add(timeout)}
	f.mu.Lock()
	if f.mu.closed {
		f.mu.Unlock()
		done(ErrClosed)
		return
	}
	f.mu.group.push(x)
	if !f.mu.armed {
		f.mu.armed = true
		time.AfterFunc(timeout, f.expire)
	}
	f.mu.Unlock()
	f.kick()
}

// expire tells those that are called and have waited too long.
func (f *flusher) expire() {
	var over []*waiter
	now := time.Now()
	f.mu.Lock()
	f.mu.armed = false
	for x := f.mu.group.root.next; x != &f.mu.group.root; {
		next := x.next
		switch {
		case x.call == nil:
		case x.deadline.After(now):
			f.mu.armed = true
			time.AfterFunc(x.deadline.Sub(now), f.expire)
			next = &f.mu.group.root // the others came later
		default:
			f.mu.group.remove(x)
			over = append(over, x)
		}
		x = next
	}
	f.mu.Unlock()
	for _, x := range over {
		f.w.stats.flushTimeouts.Add(1)
		x.call(ErrFlushTimeout)
	}
}

// Flush makes everything published durable.
func (w *Writer) Flush() error { return w.flusher.flush(0) }

// committer writes what the pool holds into the files.
type committer struct {
	w      *Writer
	urgent atomic.Bool // a put waits for room, however few pages there are
	wake   chan struct{}
	stop   chan struct{}
	done   chan struct{}
	repaced
}

func newCommitter(w *Writer) *committer {
	return &committer{w: w, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), repaced: newRepaced()}
}

func (c *committer) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run ends when stop is closed; Writer.Close joins it.
func (c *committer) run() {
	defer close(c.done)
	t := time.NewTimer(c.w.pace.Load().CommitInterval)
	defer t.Stop()
	lastThorough := time.Now()
	for {
		tick := false
		select {
		case <-c.stop:
			return
		case <-c.changed:
			t.Reset(c.w.pace.Load().CommitInterval)
			continue
		case <-c.wake:
		case <-t.C:
			tick = true
		}
		pace := c.w.pace.Load()
		least := int64(pace.CommitLeastPages)
		if c.urgent.Swap(false) || time.Since(lastThorough) >= pace.CommitThoroughInterval {
			least, lastThorough = 0, time.Now()
		}
		if to := c.w.pos.Wrote(); to/pageBytes-c.w.committed()/pageBytes >= least {
			_ = c.w.commitTo(to) // the error sticks
		}
		if tick {
			t.Reset(pace.CommitInterval)
		}
	}
}
