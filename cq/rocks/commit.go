//go:build cgo

package rocks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// committer writes what Append accepts. Batches are filled at one end of its list and written at the other, one at a time, each as one WriteBatch: by
// its goroutine as soon as there is one, or by a caller of AwaitReadable that finds nobody at it. While one is written, what comes meanwhile makes the next. A
// write that fails is tried again after a while; when that has not helped for too long, the error sticks and nothing is written any more.
//
// Its goroutine starts in Open and ends in Close, when all is written or writing has failed for good.
type committer struct {
	s     *Store
	write func(b *rocks.Batch, grouped bool) error // DB.Write, other in tests
	flush func() error                             // DB.Flush, the same
	rows  rowWriter                                // of who is busy

	mu struct { // after Store.write, before Store.mu
		sync.Mutex
		queue    []*unitBatch // the first is the next to be written, the last may still be filled
		free     []*unitBatch // to be used again
		number   uint32       // of the newest batch
		busy     *unitBatch   // being written, or to be written again
		writing  bool         // somebody is at it
		attempts int          // failed ones at busy
		since    time.Time    // of the first of them
		stopping bool

		accepted, committed int64    // units, since Open
		acceptedPhy         int64    // end of the furthest record accepted
		failed              error    // sticky
		trying              error    // of the attempts at busy; nil: it goes well
		full                struct { // what Flush met since there was no room
			err   error // nil: there is room
			since time.Time
		}
		given int // how often what was accepted was given up, see abandon
	}
	// ceiling is what the checkpoint row may not exceed, see Store.Noted.
	ceiling atomic.Int64
	work    sync.Cond // there may be something to be written, or the end has come
	done    sync.Cond // something was committed, has failed, or the end has come
	closing chan struct{}
	ended   chan struct{} // closed when the goroutine has ended; nil in a store that is read-only
}

func (c *committer) start(s *Store) {
	c.s, c.write, c.flush = s, s.db.Write, s.db.Flush
	c.work.L, c.done.L = &c.mu, &c.mu
	c.mu.acceptedPhy = s.mu.dispatched
	c.ceiling.Store(math.MaxInt64)
	if s.readOnly {
		return
	}
	c.closing, c.ended = make(chan struct{}), make(chan struct{})
	go c.run()
}

// run is the goroutine.
func (c *committer) run() {
	defer close(c.ended)
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.mu.failed == nil {
		switch {
		case c.mu.writing:
			c.work.Wait()
		case c.mu.attempts > 0:
			c.mu.writing = true
			wait := time.NewTimer(c.s.options.Commit.backoff(c.mu.attempts))
			c.mu.Unlock()
			select {
			case <-wait.C:
			case <-c.closing:
				wait.Stop()
			}
			c.mu.Lock()
			c.commitLocked()
		case c.readyLocked():
			c.commitLocked()
		case c.mu.stopping:
			return
		default:
			c.work.Wait()
		}
	}
}

// readyLocked tells whether there is something that nobody has begun to write.
func (c *committer) readyLocked() bool { return len(c.mu.queue) > 0 && len(c.mu.queue[0].units) > 0 }

// commitLocked writes one batch and makes it readable, once. It gives mu up while it is at it.
func (c *committer) commitLocked() {
	if c.mu.busy == nil {
		c.mu.busy = c.mu.queue[0]
		c.mu.queue = append(c.mu.queue[:0], c.mu.queue[1:]...)
	}
	b, first := c.mu.busy, c.mu.attempts == 0
	c.mu.writing = true
	c.mu.Unlock()
	if first {
		c.encode(b)
	}
	err := c.write(c.rows.batch, len(b.units) > len(b.queues))
	if err == nil {
		c.s.publish(b)
	}
	c.mu.Lock()
	c.mu.writing = false
	if err != nil {
		c.failLocked(err)
	} else {
		c.mu.committed += int64(len(b.units))
		c.mu.busy, c.mu.attempts, c.mu.trying = nil, 0, nil
		c.mu.free = append(c.mu.free, b)
	}
	c.done.Broadcast()
	c.work.Signal()
}

// failLocked decides what becomes of a failed write.
func (c *committer) failLocked(err error) {
	c.mu.attempts++
	if c.mu.attempts == 1 {
		c.mu.since = time.Now()
	}
	kind := passing
	switch {
	case isDamage(err):
		kind = damage
	case isNoSpace(err) && !c.mu.stopping:
		kind = noSpace
	}
	closed := errors.Is(err, rocks.ErrClosed)
	err = c.s.wrap(err)
	if !closed && c.s.options.Commit.again(kind, c.mu.attempts, time.Since(c.mu.since)) {
		if c.mu.attempts == 1 {
			c.s.log.Warn("units cannot be written and are tried again", slog.Any("err", err))
		}
		c.mu.trying = err
		return
	}
	c.mu.failed = fmt.Errorf("%d units accepted and not written after %d attempts: %w", c.mu.accepted-c.mu.committed, c.mu.attempts, err)
	c.s.log.Error("units cannot be written", slog.Any("err", c.mu.failed))
}

// isNoSpace tells whether RocksDB found the disk full.
func isNoSpace(err error) bool {
	e, ok := errors.AsType[*rocks.Error](err)
	return ok && e.NoSpace()
}

// isDamage tells whether RocksDB found files of its own damaged, or gone.
func isDamage(err error) bool {
	e, ok := errors.AsType[*rocks.Error](err)
	return ok && (e.Corruption() || e.Lost())
}

// encode makes the rows of a batch: the units queue by queue, the max row of each queue, and the checkpoint if it rises, and may. Min rows stay as they are.
func (c *committer) encode(b *unitBatch) {
	w := &c.rows
	w.start(c.s.db)
	for i := range b.queues {
		q := &b.queues[i]
		prefix, slot := b.prefix(q), q.from
		for at := q.first; at >= 0; slot++ {
			u := &b.units[at]
			w.batch.PutUnit(prefix, slot, rocks.Unit(u.unit))
			at = u.next
		}
	}
	for i := range b.queues {
		q := &b.queues[i]
		w.key = appendMaxKey(w.key[:0], b.prefix(q))
		w.value = appendRow(w.value[:0], b.units[q.last].unit.PhyOffset, q.from+int64(q.count)-1)
		w.batch.Put(rocks.Offsets, w.key, w.value)
	}
	if phy := min(b.phy, c.ceiling.Load()); phy > c.s.row() {
		w.putCheckpoint(phy)
		b.row = phy
	}
}

// holdRow keeps the checkpoint row from speaking of a record that a queue has not got a unit of.
func (c *committer) holdRow(phyOffset int64) {
	c.ceiling.Store(min(c.ceiling.Load(), phyOffset)) // writers exclude one another
}

// publish makes a written batch readable, and keeps its units where readers find them quickly.
func (s *Store) publish(b *unitBatch) {
	s.publishEnds(b)
	for i := range b.queues {
		q := &b.queues[i]
		at := q.first
		s.tail.put(b.prefix(q), q.from, int(q.count), func() cq.Unit {
			u := &b.units[at]
			at = u.next
			return u.unit
		})
	}
}

func (s *Store) publishEnds(b *unitBatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range b.queues {
		q := &b.queues[i]
		r := s.mu.ends.row(q.row)
		r.end = b.end(q, r.end)
	}
	s.mu.dispatched = max(s.mu.dispatched, b.phy)
	s.mu.row = max(s.mu.row, b.row)
}

// roomLocked returns the batch that is being filled and how many units it may take, waiting until there is room.
func (c *committer) roomLocked(ctx context.Context) (*unitBatch, int, error) {
	for {
		if err := c.mu.failed; err != nil {
			return nil, 0, err
		}
		if c.mu.stopping {
			return nil, 0, c.s.closedError()
		}
		if room := c.s.options.Commit.MaxPendingUnits - int(c.mu.accepted-c.mu.committed); room > 0 {
			b := c.openLocked()
			return b, min(room, maxBatchUnits-len(b.units)), nil
		}
		if err := c.waitLocked(ctx); err != nil {
			return nil, 0, err
		}
	}
}

// openLocked returns a batch with room.
func (c *committer) openLocked() *unitBatch {
	if n := len(c.mu.queue); n > 0 && len(c.mu.queue[n-1].units) < maxBatchUnits {
		return c.mu.queue[n-1]
	}
	var b *unitBatch
	if n := len(c.mu.free); n > 0 {
		b = c.mu.free[n-1]
		c.mu.free = c.mu.free[:n-1]
	} else {
		b = new(unitBatch)
	}
	c.mu.number = max(c.mu.number+1, 1)
	b.reset(c.mu.number)
	c.mu.queue = append(c.mu.queue, b)
	return b
}

// acceptedLocked tells that the open batch got n more units.
func (c *committer) acceptedLocked(n int) {
	if n > 0 {
		c.mu.accepted += int64(n)
		c.work.Signal()
	}
}

// waitLocked waits until something has happened, or ctx ends.
func (c *committer) waitLocked(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.done.Broadcast()
		})
		defer stop()
	}
	c.done.Wait()
	return ctx.Err()
}

// drain returns when everything accepted before the call is readable, lending a hand where nobody is at it.
func (c *committer) drain(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	want, given := c.mu.accepted, c.mu.given
	for c.mu.committed < want {
		if err := c.mu.failed; err != nil {
			return err
		}
		if !c.mu.writing && c.mu.attempts == 0 {
			c.commitLocked()
			continue
		}
		if err := c.waitLocked(ctx); err != nil {
			return err
		}
		if c.mu.given != given {
			return fmt.Errorf("%s: %w", c.s.dir, ErrReplaced)
		}
	}
	return c.mu.failed
}

// stop has everything written that is accepted, ends the goroutine and returns why something could not be written.
func (c *committer) stop() error {
	if c.ended == nil {
		return nil
	}
	c.mu.Lock()
	c.mu.stopping = true
	c.work.Signal()
	c.done.Broadcast()
	c.mu.Unlock()
	close(c.closing)
	<-c.ended
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.committed == c.mu.accepted {
		return nil
	}
	return c.mu.failed
}

// lowerAccepted tells of a truncation.
func (c *committer) lowerAccepted(phyOffset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.acceptedPhy = min(c.mu.acceptedPhy, phyOffset)
}

// stick remembers the first failure of a write or flush that is not the committer's own. A full disk does not stick for CommitOptions.NoSpaceFor: RocksDB looks every 5 s whether there is
// space again, for its memtables at least, and goes on by itself (9.11.2, SstFileManagerImpl). Until then the error matches cq.ErrNoRoom.
func (c *committer) stick(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isNoSpace(err) && c.mu.failed == nil {
		full := &c.mu.full
		if full.err == nil {
			full.since = time.Now()
			c.s.log.Error("the disk is full: units are not durable, and are tried again", slog.Any("err", err), slog.Duration("for", c.s.options.Commit.NoSpaceFor))
		}
		full.err = fmt.Errorf("%w since %s: %w", cq.ErrNoRoom, full.since.Format(time.RFC3339), err)
		if time.Since(full.since) < c.s.options.Commit.NoSpaceFor {
			return full.err
		}
	}
	if c.mu.failed == nil && !errors.Is(err, cq.ErrClosed) {
		c.mu.failed = err
		c.done.Broadcast()
		c.work.Signal()
	}
	return err
}

// flushed notes that there is room.
func (c *committer) flushed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.full.err != nil {
		c.mu.full.err = nil
		c.s.log.Info("there is room on the disk again: units are durable")
	}
}

// waiting returns why something is tried again.
func (c *committer) waiting() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.mu.full.err, c.mu.trying)
}

// failure returns the sticky error.
func (c *committer) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.failed
}
