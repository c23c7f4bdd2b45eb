package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// syncFSAbove is the number of files from which on one sync of the whole filesystem is cheaper than one per file.
const syncFSAbove = 256

// AwaitReadable returns at once: a unit is readable when Append returns. The error is that of an earlier write.
func (s *Store) AwaitReadable(ctx context.Context) error {
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	s.endWrite()
	return nil
}

// Flush makes everything accepted before the call durable. Append may go on meanwhile. After repeats it syncs the whole
// filesystem: they were accepted without a write, and what they repeat may be pages that a killed process left behind.
func (s *Store) Flush(ctx context.Context) error {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	dirty, all, accepted := s.writing.dirty, s.writing.unsynced, s.accepted.Load()
	s.writing.dirty, s.writing.unsynced = nil, false
	for _, q := range dirty {
		q.mu.Lock()
		q.dirty, q.flushing = false, true
		q.mu.Unlock()
	}
	s.endWrite()

	err := s.syncQueues(dirty, all)

	s.writing.Lock()
	defer s.writing.Unlock()
	for _, q := range dirty {
		q.mu.Lock()
		q.flushing = false
		q.mu.Unlock()
	}
	if err != nil {
		return s.fail(fmt.Errorf("flush consume queues: %w", err))
	}
	s.durable.Store(max(s.durable.Load(), accepted))
	return nil
}

// syncQueues syncs the files of the queues, which stay open as their flushing flag is set.
func (s *Store) syncQueues(dirty []*queue, all bool) error {
	if all || len(dirty) > syncFSAbove {
		err := mmap.SyncFS(s.dir)
		if errors.Is(err, fs.ErrNotExist) { // no queue was ever written
			return nil
		}
		return err
	}
	for _, q := range dirty {
		if err := q.files.Sync(); err != nil {
			return err
		}
	}
	return nil
}
