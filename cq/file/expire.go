package file

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandemq/tandemmq/cq"
)

// SetMinPhyOffset tells the store the CommitLog's min physical offset, in bytes; see cq.Expirer. The min of a queue is searched for when somebody next asks
// for it.
func (s *Store) SetMinPhyOffset(minPhy int64) error {
	if s.closed.Load() {
		return cq.ErrClosed
	}
	for {
		old := s.minPhyOffset.Load()
		if minPhy <= old || s.minPhyOffset.CompareAndSwap(old, minPhy) {
			return nil
		}
	}
}

// followLocked finds out the state of the queue, and brings min up to what has expired since it was found: at once when the first
// live unit is still live or the last one has expired, otherwise by a binary search from the old min up.
//
// Source: ConsumeQueue.correctMinOffset, 5.5.0, which looks at the first file alone.
func (q *queue) followLocked() error {
	if err := q.loadLocked(); err != nil {
		return err
	}
	st, minPhy := &q.state, q.s.minPhyOffset.Load()
	switch {
	case !st.present, st.damage != nil, st.min >= st.max, st.minPhy >= minPhy:
	case st.lastSize > 0 && st.lastPhy < minPhy:
		st.min = st.max
	default:
		if err := q.searchMinLocked(minPhy); err != nil {
			return fmt.Errorf("look for the first live unit of queue %s: %w", q.key, err)
		}
	}
	st.minFor = minPhy
	return nil
}

func (q *queue) searchMinLocked(minPhy int64) error {
	if err := q.openFilesLocked(); err != nil {
		return err
	}
	p := newProber(q.files.Files())
	defer p.close()
	st := &q.state
	slot, damage, err := p.search(st.min+1, st.max, live(minPhy))
	if err != nil {
		return err
	}
	st.min, st.damage = slot, damage
	if slot < st.max && damage == nil {
		u, err := p.unit(slot)
		if err != nil {
			return err
		}
		st.minPhy = u.PhyOffset
	}
	return nil
}

// Expire removes the files of each queue that lie wholly below its min, oldest first; see cq.Expirer. The file of the last unit stays, also when that has
// expired: it is what tells the queue's max. A file that somebody reads is unlinked at once and unmapped later.
//
// It looks at the directory of every queue that was not looked at before. A damaged queue is left as it is.
//
// Source: ConsumeQueue.deleteExpiredFile, 5.5.0.
func (s *Store) Expire(ctx context.Context, pause time.Duration) (done cq.Expired, err error) {
	keys, err := s.Keys()
	if err != nil {
		return done, err
	}
	var failed []error
	more := 0
	for _, k := range keys {
		files, bytes, err := s.expireQueue(ctx, k)
		done.Files += files
		done.Bytes += bytes
		switch {
		case ctx.Err() != nil || errors.Is(err, cq.ErrClosed) || errors.Is(err, cq.ErrReadOnly):
			return done, errors.Join(append(failed, err)...)
		case err != nil && len(failed) < maxExpireErrors:
			failed = append(failed, fmt.Errorf("expire queue %s: %w", k, err))
		case err != nil:
			more++
		}
		if files == 0 {
			continue
		}
		done.Queues++
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	if more > 0 {
		failed = append(failed, fmt.Errorf("and %d more queues", more))
	}
	return done, errors.Join(failed...)
}

// maxExpireErrors is how many queues an error of Expire names.
const maxExpireErrors = 5

func (s *Store) expireQueue(ctx context.Context, k cq.Key) (files int, bytes int64, err error) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if err := s.beginWrite(ctx); err != nil {
		return 0, 0, err
	}
	defer s.endWrite()
	q := s.obtain(k)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.followLocked(); err != nil {
		return 0, 0, err
	}
	st := &q.state
	keep := min(st.min, st.max-1) // the first slot whose file stays
	if !st.present || st.damage != nil || st.first+s.perFile > keep {
		return 0, 0, nil
	}
	if err := q.openFilesLocked(); err != nil {
		return 0, 0, err
	}
	for st.first+s.perFile <= keep {
		if err := q.files.RemoveFirst(); err != nil {
			return files, bytes, err
		}
		st.first += s.perFile
		files++
		bytes += s.fileBytes
	}
	extFiles, extBytes, err := q.expireExtLocked(st.min)
	return files + extFiles, bytes + extBytes, err
}
