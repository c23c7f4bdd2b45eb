package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
)

// CheckSide compares the queues of one side with the log while the store goes on: each unit with the record it leads to, and slots without one with what the log has there. It is for a side that has no other
// to be compared with; VerifySides is faster. Nothing is written, and nothing is built again. A store with one kind of queues has that one. each is as in VerifySides, and so are the options, without Begin and Samples.
//
// Errors: ErrNotCombined where there is no such side; ErrRebuilding, with the reason, while it is being filled or was given up; those of a side that cannot be read; ctx.
func (s *Store) CheckSide(ctx context.Context, kind cq.Kind, o VerifySidesOptions, each func(v *SideVerdict) error) error {
	side, err := s.sideOf(kind)
	if err != nil {
		return err
	}
	v, d := s.views, s.views.sides
	release := s.brake.use()
	defer release()
	p := &braking{b: &s.brake, share: o.Share}
	keys, err := v.owed(side)
	if err != nil {
		return s.closedOr(err)
	}
	for _, k := range keys {
		if o.Only != nil && !o.Only(k) {
			continue
		}
		if d != nil {
			if err := errors.Join(d.store.Failure(kind), d.heldError(kind)); err != nil {
				return fmt.Errorf("%w: %w", ErrRebuilding, err)
			}
		}
		c := sideCheck{v: v, side: side, p: p, verdict: &SideVerdict{Key: k}}
		if o.Kept != nil {
			c.kept = o.Kept(k)
		}
		if err := c.queue(ctx); err != nil {
			return s.closedOr(err)
		}
		if err := each(c.verdict); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// owed returns the queues that a side has, or is to have, in the order of names.
func (v *views) owed(side cq.Store) ([]cq.Key, error) {
	keys, err := cq.SortedKeys(side)
	if err != nil {
		return nil, err
	}
	v.view.mu.Lock()
	defer v.view.mu.Unlock()
	for k := range v.view.mu.known {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, cq.Key.Compare)
	return slices.DeleteFunc(slices.Compact(keys), func(k cq.Key) bool {
		return v.view.unservedLocked(k) || v.sides != nil && !slices.Contains(v.sides.responsible(k), side.Kind())
	}), nil
}

// sideCheck holds one queue against the log.
type sideCheck struct {
	v       *views
	side    cq.Store
	p       *braking
	verdict *SideVerdict
	kept    int64 // lower slots are not looked at

	buf    [getBatch]cq.Unit
	crcBuf [unitBytes]byte
	last   cq.Unit // the last one that is right
	gap    int64   // the first slot without a unit behind it; -1: there is none
}

func (c *sideCheck) queue(ctx context.Context) error {
	v := c.verdict
	q, ok := c.side.Queue(v.Key)
	if !ok {
		v.add(Finding{Class: "missing-queue", Side: c.side.Kind(), From: -1, What: "the side has no such queue"})
		return nil
	}
	b, err := q.Bounds()
	if errors.Is(err, cq.ErrCorrupt) {
		v.add(Finding{Class: "bad-queue", Side: c.side.Kind(), From: -1, What: err.Error()})
		return nil
	}
	if err != nil {
		return err
	}
	v.Bounds, v.From, v.To = b, max(b.Min, min(c.kept, b.Max)), b.Max
	c.gap, c.last.PhyOffset = -1, -1
	read := int64(0)
	for slot := v.From; slot < v.To; {
		if err := c.p.pause(ctx, read); err != nil {
			return err
		}
		n, err := q.Read(slot, c.buf[:min(getBatch, v.To-slot)])
		if err != nil && !errors.Is(err, cq.ErrCorrupt) {
			b, again := q.Bounds()
			if again != nil || b.Min <= slot {
				return errors.Join(err, again)
			}
			slot = b.Min // it has expired meanwhile
			continue
		}
		if err != nil || n == 0 {
			if c.gap < 0 {
				c.gap = slot
			}
			slot++
			continue
		}
		read = 0
		for i := range n {
			bytes, err := c.unit(ctx, slot, &c.buf[i])
			if err != nil {
				return err
			}
			read += bytes
			slot++
		}
	}
	c.v.view.mu.Lock()
	end := c.v.view.mu.delivered
	c.v.view.mu.Unlock()
	return c.endGap(ctx, v.To, end)
}

// unit looks at a unit, and at the gap before it.
func (c *sideCheck) unit(ctx context.Context, slot int64, u *cq.Unit) (bytes int64, err error) {
	v := c.verdict
	v.CRC = crc32.Update(v.CRC, crc32.IEEETable, cq.AppendUnit(c.crcBuf[:0], *u))
	v.Units++
	if u.IsLost() {
		return 0, nil
	}
	class, why, bytes := c.v.describes(c.side, v.Key, u, false)
	if why == "" && u.PhyOffset <= c.last.PhyOffset {
		class, why = "wrong-position", fmt.Sprintf("it leads to %d, and one before it to %d", u.PhyOffset, c.last.PhyOffset)
	}
	if why != "" {
		v.add(Finding{Class: class, Side: c.side.Kind(), From: slot, To: slot + 1, What: why, sampled: true})
		return bytes, nil
	}
	if bytes > 0 {
		v.Records++
	}
	if err := c.endGap(ctx, slot, u.PhyOffset); err != nil {
		return 0, err
	}
	c.last = *u
	return bytes, nil
}

// endGap asks the log for the slots that had no unit up to slot: their records are between those of the units around them, up to the physical offset to.
func (c *sideCheck) endGap(ctx context.Context, slot, to int64) error {
	from := c.gap
	if c.gap = -1; from < 0 {
		return nil
	}
	log := c.v.s.writer.Log()
	at := max(c.last.End(), log.MinOffset(), 0)
	k := c.verdict.Key
	s := log.Scanner(at, commitlog.ScanOptions{To: to})
	defer func() { s.Close() }()
	read := int64(0)
	for s.Next() {
		r := s.Record()
		if read += int64(r.TotalSize); read >= 1<<20 {
			if err := c.p.pause(ctx, read); err != nil {
				return err
			}
			read = 0
		}
		if has, ok := r.SlotIn(k.Topic, k.QueueID); ok && has >= from && has < slot && r.OwesUnit() {
			c.verdict.add(Finding{Class: "hole", Side: c.side.Kind(), From: has, To: has + 1, What: fmt.Sprintf("no unit, and the log has its record at %d", r.PhyOffset), sampled: true})
		}
	}
	if err := s.Err(); err != nil {
		c.verdict.add(Finding{Class: "hole", Side: c.side.Kind(), From: from, To: slot, What: fmt.Sprintf("no unit, and the log cannot be read there: %v", err), sampled: true})
	}
	return ctx.Err()
}
