package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"syscall"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// syncFSAbove is the number of files from which on one sync of the whole filesystem is cheaper than one per file.
const syncFSAbove = 256

// Append adds units; see cq.Appender. Units are stored through the mapping, and the max moves after that.
//
// One departure from the rule for gaps: a queue that holds nothing but pre-blank may begin at any later slot of the file
// it ends in. That is what a crash leaves of a queue that was about to begin, and nothing is lost by it.
//
// Further errors: ErrName, and a refusal of units that cannot be told from free or filler. Neither is sticky.
//
// Source: ConsumeQueue.putMessagePositionInfo, 5.5.0, which counts a failed write as done, writes a unit that is ahead of
// its slot to the wrong slot, and does not look at repeats.
func (s *Store) Append(ctx context.Context, batch []cq.Entry) error {
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	defer s.endWrite()
	var q *queue
	for i := range batch {
		e := &batch[i]
		if q == nil || q.key != e.Key {
			if err := checkKey(e.Key); err != nil {
				return fmt.Errorf("append: %w", err)
			}
			q = s.obtain(e.Key)
		}
		if err := checkUnits(e.Key, e.QueueOffset, e.Unit); err != nil {
			return fmt.Errorf("append: %w", err)
		}
		if err := q.append(e); err != nil {
			return err
		}
		if end := e.Unit.End(); end > s.accepted.Load() {
			s.accepted.Store(end)
		}
	}
	return nil
}

// AwaitReadable returns at once: a unit is readable when Append returns. The error is that of an earlier write.
func (s *Store) AwaitReadable(ctx context.Context) error {
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	s.endWrite()
	return nil
}

// maxSlot bounds the slots, so that byte positions of whole files stay in range.
const maxSlot = math.MaxInt64/unitBytes - 1<<32

// checkUnits refuses slots that have no byte position, and what would read back as something else than a unit.
func checkUnits(k cq.Key, from int64, units ...cq.Unit) error {
	if from < 0 || from > maxSlot-int64(len(units)) {
		return fmt.Errorf("queue %s: slot %d is outside [0, %d)", k, from, maxSlot)
	}
	for i, u := range units {
		if !valid(u) || filler(u) {
			return fmt.Errorf("queue %s: slot %d: position %d size %d tags %d is no unit of a record", k, from+int64(i),
				u.PhyOffset, u.Size, u.TagsCode)
		}
	}
	return nil
}

func (q *queue) append(e *cq.Entry) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.loadLocked(); err != nil {
		return err
	}
	if err := q.openFilesLocked(); err != nil {
		return err
	}
	q.recent.Store(true)
	st := &q.state
	switch slot := e.QueueOffset; {
	case q.beginsLocked(slot):
		if err := q.preBlankLocked(slot); err != nil {
			return err
		}
	case slot < st.max:
		return q.repeatLocked(e)
	case slot > st.max:
		return &cq.GapError{Key: q.key, Want: slot, Max: st.max, PhyOffset: e.Unit.PhyOffset}
	}
	var b [unitBytes]byte
	if err := q.writeLocked(appendUnit(b[:0], e.Unit), e.QueueOffset); err != nil {
		return err
	}
	q.appendedLocked(e.QueueOffset, e.Unit)
	return nil
}

// beginsLocked tells whether a unit at slot is the first one of its queue.
func (q *queue) beginsLocked(slot int64) bool {
	st := &q.state
	if len(q.files.Files()) == 0 {
		return true
	}
	if slot <= st.max || st.min < st.max || st.lastSize > 0 || slot/q.s.perFile != st.max/q.s.perFile {
		return false
	}
	if st.max == st.first {
		return true
	}
	u, err := q.unitLocked(st.max - 1)
	return err == nil && u.IsPreBlank()
}

// preBlankLocked fills the first file up to slot.
func (q *queue) preBlankLocked(slot int64) error {
	from := slot / q.s.perFile * q.s.perFile
	if q.state.max > from {
		q.s.log.Warn("queue of filler only begins anew", slog.String("topic", q.key.Topic),
			slog.Int("queueId", int(q.key.QueueID)), slog.Int64("max", q.state.max), slog.Int64("queueOffset", slot))
		from = q.state.max
	}
	if from == slot {
		return nil
	}
	b := make([]byte, 0, (slot-from)*unitBytes) // at most one file
	for range slot - from {
		b = appendUnit(b, preBlank)
	}
	return q.writeLocked(b, from)
}

// writeLocked stores b at a slot. A failure is sticky unless it says nothing about the disk.
func (q *queue) writeLocked(b []byte, slot int64) error {
	if err := q.files.WriteAt(b, slot*unitBytes); err != nil {
		err = fmt.Errorf("append to queue %s at slot %d: %w", q.key, slot, err)
		if errors.Is(err, mappedfile.ErrLimit) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return err // a later try may find room
		}
		return q.s.fail(err)
	}
	if !q.dirty {
		q.dirty = true
		q.s.writing.dirty = append(q.s.writing.dirty, q)
	}
	return nil
}

// appendedLocked takes a stored unit into the state.
func (q *queue) appendedLocked(slot int64, u cq.Unit) {
	st := &q.state
	if st.damage != nil {
		q.loaded = false // the hole may be closed now: look again
		return
	}
	if !st.present {
		st.present, st.first = true, slot/q.s.perFile*q.s.perFile
		st.min = slot
	}
	if live := st.min < st.max; !live {
		if u.PhyOffset >= q.s.minPhyOffset.Load() {
			st.min, st.minPhy = slot, u.PhyOffset
		} else {
			st.min = slot + 1
		}
	}
	st.lastPhy, st.lastSize = u.PhyOffset, u.Size
	st.max = slot + 1
}

// repeatLocked judges an entry whose slot is taken.
func (q *queue) repeatLocked(e *cq.Entry) error {
	if e.QueueOffset < q.state.first {
		return nil // expired
	}
	u, err := q.unitLocked(e.QueueOffset)
	switch {
	case err != nil:
		return err
	case filler(u):
		return nil
	case u.SameRecord(e.Unit):
		q.s.writing.unsynced = true
		return nil
	}
	return &cq.ConflictError{Key: q.key, QueueOffset: e.QueueOffset, Stored: u, New: e.Unit}
}

// unitLocked reads what a slot of the files holds, with the tags code resolved.
func (q *queue) unitLocked(slot int64) (cq.Unit, error) {
	f, ok := q.files.Find(slot * unitBytes)
	if !ok {
		return cq.Unit{}, fmt.Errorf("read queue %s at slot %d: no file holds it", q.key, slot)
	}
	b, err := f.Hold()
	if err != nil {
		return cq.Unit{}, fmt.Errorf("read queue %s at slot %d: %w", q.key, slot, err)
	}
	defer f.Release()
	var u cq.Unit
	err = mmap.GuardFault(func() error {
		u = decodeUnit(b[slot*unitBytes-f.From():])
		return nil
	})
	if err == nil && valid(u) && cq.IsExtAddress(u.TagsCode) {
		if err = q.openExtLocked(); err == nil {
			if tags, ok := resolveExt(q.ext, u.TagsCode); ok {
				u.TagsCode = tags
			}
		}
	}
	return u, err
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
