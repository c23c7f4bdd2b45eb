//go:build cgo

package rocks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/tandemq/tandemmq/cq"
)

// ErrReplaced is why what was accepted before Replace is not written.
var ErrReplaced = errors.New("the database was damaged, and is replaced")

// Replace closes a database that is damaged, has moveAway take its files out of the directory, and goes on with a new one there, which is empty: DispatchFrom is -1 again. What was accepted
// and not written is dropped. The Store stays the same, and so do the queues that were handed out: they have nothing until something is appended.
//
// Writers wait, or are answered ErrReplaced; so are readers that meet both databases. That queues are empty then is no state of theirs, which is for the owner to tell who reads
// them; where they ended he has asked for before (NextSlots).
//
// After an error of moveAway, or of the opening, the store has no database: reads and writes answer ErrReplaced, and Replace may be called again.
func (s *Store) Replace(ctx context.Context, moveAway func(dir string) error) error {
	s.life.Lock()
	defer s.life.Unlock()
	if err := s.writable(ctx); err != nil {
		return err
	}
	s.commit.abandon(fmt.Errorf("%s: %w", s.dir, ErrReplaced))
	s.write.Lock()
	defer s.write.Unlock()
	s.replaced.Or(1) // before anything is gone
	if w := s.write.ingester; w != nil {
		s.write.ingester = nil
		if err := w.Close(); err != nil {
			s.log.Warn("table files are left behind", slog.String("dir", s.options.IngestDir), slog.Any("err", err))
		}
	}
	if err := s.db.Replace(s.minPhy.Load(), func() error { return moveAway(s.dir) }); err != nil {
		err = fmt.Errorf("replace the database in %s: %w", s.dir, err)
		s.commit.setFailure(err)
		return err
	}
	s.write.rows.batch, s.commit.rows.batch = nil, nil // they know the families of the old one
	s.mu.Lock()
	s.mu.ends = newEndTable()
	s.mu.epoch++
	s.mu.dispatched, s.mu.row, s.mu.durable = -1, -1, -1
	s.mu.Unlock()
	s.tail.clear()
	s.replaced.Add(1) // after everything is new
	s.damaged.Store(false)
	s.commit.begin()
	s.log.Warn("consume queues begin anew with an empty database")
	return nil
}

// reading begins a read; over says whether the database was replaced meanwhile, so that what was read is of neither. It is an error at once while it is being replaced, or another could
// not be opened.
func (s *Store) reading() (round int64, err error) {
	if round = s.replaced.Load(); round&1 != 0 {
		return round, s.replacedError()
	}
	return round, nil
}

func (s *Store) over(round int64) bool { return s.replaced.Load() != round }

// replacedError is what is answered where the database was replaced meanwhile, or another could not be opened.
func (s *Store) replacedError() error {
	return &cq.CorruptError{File: s.dir, Offset: -1, Err: ErrReplaced}
}

// NextSlots returns the next slot of each queue, as far as it was readable. It reads no file.
func (s *Store) NextSlots() map[cq.Key]int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := make(map[cq.Key]int64, s.mu.ends.len())
	for k, e := range s.mu.ends.all() {
		m[k] = e.max
	}
	return m
}

// abandon ends writing, and returns when nobody is at it. What was accepted stays unwritten.
func (c *committer) abandon(err error) {
	c.mu.Lock()
	if c.mu.failed == nil {
		c.mu.failed = err
	}
	c.done.Broadcast()
	c.work.Broadcast()
	for c.mu.writing {
		c.done.Wait()
	}
	c.mu.Unlock()
	<-c.ended
}

// begin has writing go on after abandon, with nothing accepted.
func (c *committer) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.queue, c.mu.free, c.mu.busy, c.mu.attempts = nil, nil, nil, 0
	c.mu.committed, c.mu.acceptedPhy = c.mu.accepted, -1
	c.mu.given++
	c.mu.failed, c.mu.trying, c.mu.full.err = nil, nil, nil
	c.ceiling.Store(math.MaxInt64)
	c.ended = make(chan struct{})
	go c.run()
}

// setFailure changes why nothing is written, after abandon.
func (c *committer) setFailure(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.failed = err
}
