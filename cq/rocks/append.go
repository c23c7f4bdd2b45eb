//go:build cgo

package rocks

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// stagedAtOnce is how many entries are accepted before the committer may take them.
const stagedAtOnce = 256

// validKey refuses what no row can be written for.
func validKey(k cq.Key) error {
	var why error
	switch {
	case k.Topic == "":
		why = errors.New("the topic is empty")
	case k.Topic == checkpointTopic && k.QueueID == 0:
		why = errors.New("its max row would be the checkpoint")
	case len(k.Topic) > MaxTopicBytes:
		why = fmt.Errorf("a topic of %d bytes is longer than %d", len(k.Topic), MaxTopicBytes)
	case k.QueueID < 0:
		why = errors.New("the queue id is negative")
	default:
		return nil
	}
	return &cq.QueueError{Key: k, Err: why}
}

// CheckName tells whether rows can be written for a queue: not for one whose topic is empty or longer than MaxTopicBytes, nor for the one whose row is the checkpoint's.
func (s *Store) CheckName(k cq.Key) error { return validKey(k) }

// validUnit refuses what is no unit; filler belongs to the file format alone.
func validUnit(k cq.Key, slot int64, u cq.Unit) error {
	if slot < 0 || u.PhyOffset < 0 || u.Size <= 0 || u.IsPreBlank() {
		return fmt.Errorf("write queue %s: slot %d cannot hold record %d of size %d", k, slot, u.PhyOffset, u.Size)
	}
	return nil
}

// Append accepts units, which the committer writes; see cq.Appender. It judges each entry at once, against what has been accepted before it. Readable when
// AwaitReadable returns, durable after Flush. With Options.MaxPendingUnits accepted and not yet written it waits for room, or for the end of ctx.
// A queue that can have no row (see CheckName) answers a *cq.QueueError, a unit that can have none (a negative number, a size of 0) a *cq.EntryError. What comes after it
// may be appended, but does not move the checkpoint row beyond the record of the refused entry before Noted is called.
func (s *Store) Append(ctx context.Context, entries []cq.Entry) error {
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	defer s.write.Unlock()
	for len(entries) > 0 {
		n, repeat, err := s.accept(ctx, entries)
		if err != nil {
			return err
		}
		entries = entries[n:]
		if repeat {
			if err := s.repeat(ctx, &entries[0]); err != nil {
				return err
			}
			entries = entries[1:]
		}
	}
	return nil
}

// accept puts the first of the entries into the open batch and returns how many: as many as go at once, or those before a repeat. The error is
// that of the entry behind them.
func (s *Store) accept(ctx context.Context, entries []cq.Entry) (n int, repeat bool, err error) {
	c := &s.commit
	c.mu.Lock()
	defer c.mu.Unlock()
	b, room, err := c.roomLocked(ctx)
	if err != nil {
		return 0, false, err
	}
	whole := entries
	entries = entries[:min(len(entries), room, stagedAtOnce)]
	var (
		last cq.Key // of the entry before
		row  uint32
		r    *endRow
	)
	for n < len(entries) {
		e := &entries[n]
		if err = validUnit(e.Key, e.QueueOffset, e.Unit); err != nil {
			err = &cq.EntryError{Key: e.Key, QueueOffset: e.QueueOffset, PhyOffset: e.Unit.PhyOffset, Err: err}
			c.holdRow(max(e.Unit.PhyOffset, 0))
			break
		}
		if r == nil || last != e.Key {
			if row, err = s.rowOf(e.Key); err != nil {
				break
			}
			last, r = e.Key, s.mu.ends.row(row)
		}
		if r.next != 0 && e.QueueOffset != r.next {
			if repeat = e.QueueOffset < r.next; !repeat {
				err = &cq.GapError{Key: e.Key, Want: e.QueueOffset, Max: r.next, PhyOffset: e.Unit.PhyOffset}
				c.holdRow(e.Unit.PhyOffset)
			}
			break
		}
		n++
		end := e.Unit.End()
		if n < len(whole) && whole[n].Unit.PhyOffset == e.Unit.PhyOffset {
			end = e.Unit.PhyOffset // more units of this record come, perhaps with the next batch
		}
		b.add(row, r, e, end)
		c.mu.acceptedPhy = max(c.mu.acceptedPhy, end)
	}
	c.acceptedLocked(n)
	return n, repeat, err
}

// rowOf returns the number of the queue's row, making a hidden one for a queue that is new. The caller holds write.
func (s *Store) rowOf(k cq.Key) (uint32, error) {
	if row, ok := s.mu.ends.lookup(k); ok {
		return row, nil
	}
	if err := validKey(k); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.ends.place(k), nil
}

// repeat accepts an entry whose slot is taken when it equals what is stored there, or when nothing is stored any more.
func (s *Store) repeat(ctx context.Context, e *cq.Entry) error {
	if now, _ := s.end(e.Key); e.QueueOffset >= now.max { // accepted, not yet readable
		if err := s.commit.drain(ctx); err != nil {
			return err
		}
	}
	var stored [1]cq.Unit
	n, err := rocks.ReadUnits(s.db, appendUnitPrefix(nil, e.Key), e.QueueOffset, stored[:])
	if err != nil {
		return s.wrap(err)
	}
	if n == 0 {
		return nil
	}
	old, u := stored[0], e.Unit
	sameTime := old.StoreTimestampMs == u.StoreTimestampMs || old.StoreTimestampMs == cq.NoTimestamp || u.StoreTimestampMs == cq.NoTimestamp
	if !old.SameRecord(u) || !sameTime {
		s.commit.holdRow(u.PhyOffset)
		return &cq.ConflictError{Key: e.Key, QueueOffset: e.QueueOffset, Stored: old, New: u}
	}
	return nil
}

// Skip has a queue go on at a slot; see cq.Skipper. The slots between have no row. The max row rises with the next unit.
func (s *Store) Skip(ctx context.Context, k cq.Key, to int64) error {
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	defer s.write.Unlock()
	if err := s.commit.drain(ctx); err != nil { // a batch has a run of slots of each queue
		return err
	}
	if row, ok := s.mu.ends.lookup(k); ok {
		if r := s.mu.ends.row(row); r.next != 0 {
			r.next = max(r.next, to)
		}
	}
	return nil
}
