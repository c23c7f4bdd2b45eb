package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// KeptSide is what KeepSide did.
type KeptSide struct {
	Key    cq.Key
	Side   cq.Kind // whose units both sides have now
	To     int64   // the queue's end
	Copied int64   // units
}

// errChosen is why a queue is diverged that gets the units of the other side.
var errChosen = errors.New("somebody has chosen the units of the other side")

// errAsked is why a queue is diverged that somebody has asked to be built again.
var errAsked = errors.New("somebody has asked for it to be built again")

// keepUnits is how many units are copied at once.
const keepUnits = 1 << 16

// KeepSide makes one side of a queue what the other side has, whatever the log says of it: for a difference that the log does not decide. kind is the side whose units stay; empty: the one that the queue is read from. The
// other side's queue is removed and gets a copy, while the store goes on; reads come from the side that stays.
//
// A failure leaves the side that stays as it was, and the other one diverged, until this is done again or the store is opened again. Errors: ErrNotCombined; ErrRebuilding, with the reason, while the
// sides are not both there; *cq.CorruptError for a slot of the side that stays without a unit; those of the sides; ctx.
func (s *Store) KeepSide(ctx context.Context, k cq.Key, kind cq.Kind) (KeptSide, error) {
	d, err := s.combined()
	if err != nil {
		return KeptSide{}, err
	}
	kept, err := d.keep(ctx, k, kind)
	if err != nil {
		return kept, fmt.Errorf("keep one side of queue %s: %w", k, s.closedOr(err))
	}
	return kept, nil
}

// RebuildQueue has a queue be built again from the log, soon: on the side that it is not read from and, where the log proves what comes of it, on the other one. It is for slots that are wrong on both sides,
// which no comparison of the two decides. What the log has nothing of still differs then, and counts as given up.
//
// Errors: ErrNotCombined; ErrRebuilding, with the reason, while the sides are not both there.
func (s *Store) RebuildQueue(k cq.Key) error {
	d, err := s.combined()
	if err != nil {
		return err
	}
	d.mending.Lock()
	defer d.mending.Unlock()
	kind := d.serving(k)
	if err := d.keepable(k, kind); err != nil {
		return fmt.Errorf("build queue %s again: %w", k, err)
	}
	other := otherKind(kind)
	for _, one := range combinedKinds {
		d.ungive(one, k)
	}
	d.store.Heal(other, k) // it is marked anew, which has it be mended
	d.store.MarkDiverged(other, k, errAsked)
	return nil
}

// keepable tells why the sides of a queue cannot be brought together, that of kind being the one that it is read from meanwhile.
func (d *sides) keepable(k cq.Key, kind cq.Kind) error {
	if len(d.responsible(k)) < len(combinedKinds) || d.unserved(k) {
		return fmt.Errorf("the sides do not both have queues like it: %w", ErrNotCombined)
	}
	for _, one := range combinedKinds {
		if err := errors.Join(d.store.Failure(one), d.heldError(one)); err != nil {
			return fmt.Errorf("%w: %w", ErrRebuilding, err)
		}
	}
	if _, ok := d.side(kind).Queue(k); !ok {
		return fmt.Errorf("the %s side has no such queue", kind)
	}
	if d.store.IsDiverged(kind, k) {
		return fmt.Errorf("the %s side lacks what came since it was found to differ: keep the %s side", kind, otherKind(kind))
	}
	return nil
}

// serving returns the side that a queue is read from.
func (d *sides) serving(k cq.Key) cq.Kind {
	kind := d.store.PreferredOf(k)
	if d.store.IsDiverged(kind, k) {
		return otherKind(kind)
	}
	return kind
}

func (d *sides) keep(ctx context.Context, k cq.Key, kind cq.Kind) (kept KeptSide, err error) {
	d.mending.Lock() // what is being built again is built, and nothing else is begun
	defer d.mending.Unlock()
	if kind == "" {
		kind = d.serving(k)
	}
	kept = KeptSide{Key: k, Side: kind}
	if kind != cq.KindFile && kind != cq.KindRocks {
		return kept, fmt.Errorf("side %q: want %s or %s", kind, cq.KindFile, cq.KindRocks)
	}
	if err := d.keepable(k, kind); err != nil {
		return kept, err
	}
	src, _ := d.side(kind).Queue(k)
	other := otherKind(kind)
	target := d.side(other).(cq.Importer)
	release := d.v.s.brake.use()
	defer release()
	c := keepCopy{d: d, src: src, target: target, kept: &kept, p: &braking{b: &d.v.s.brake}}
	if err := c.whole(ctx); err != nil { // before anything is removed
		return kept, err
	}
	d.giveUp(other, k) // if this is cut off, it is not for the log to build it
	d.ungive(kind, k)
	d.store.MarkDiverged(other, k, errChosen)
	d.v.s.logger.Warn("a queue is copied from one side to the other, as somebody has chosen", slog.String("from", string(kind)), slog.String("to", string(other)),
		slog.String("topic", k.Topic), slog.Int("queueId", int(k.QueueID)))
	if err := d.dropAll(ctx, other, []cq.Key{k}); err != nil {
		return kept, err
	}
	b, err := src.Bounds()
	if err != nil {
		return kept, err
	}
	c.at = b.Min
	if err := c.copy(ctx, b.Min, b.Max); err != nil {
		return kept, err
	}
	v := d.v.view
	v.mu.Lock() // nothing is appended
	defer v.mu.Unlock()
	if err := d.store.AwaitReadable(ctx); err != nil {
		return kept, err
	}
	if b, err = src.Bounds(); err != nil {
		return kept, err
	}
	if err := c.copy(ctx, max(c.at, b.Min), b.Max); err != nil {
		return kept, err
	}
	if b.Max > 0 {
		end := cq.QueueEnd{Key: k, Min: b.Min, Max: b.Max, MinPhyOffset: max(b.MinPhyOffset, 0), LastPhyOffset: max(b.LastPhyOffset, 0)}
		if b.Empty() {
			end.MinPhyOffset = max(d.v.s.Log().MinOffset(), 0)
		}
		if err := target.Publish(ctx, []cq.QueueEnd{end}, -1); err != nil {
			return kept, err
		}
	}
	if err := d.side(other).Flush(ctx); err != nil {
		return kept, err
	}
	d.ungive(other, k)
	d.store.Heal(other, k)
	v.changed.Store(true)
	kept.To = b.Max
	d.v.s.logger.Info("a queue is the same on both sides again", slog.String("topic", k.Topic), slog.Int("queueId", int(k.QueueID)), slog.Int64("units", kept.Copied))
	return kept, nil
}

// ungive has a queue count as any other on a side.
func (d *sides) ungive(kind cq.Kind, k cq.Key) {
	d.gaveUp.Lock()
	defer d.gaveUp.Unlock()
	delete(d.gaveUp.keys[indexOf(kind)], k)
}

// keepCopy copies a queue's units from one side to the other.
type keepCopy struct {
	d      *sides
	src    cq.Queue
	target cq.Importer
	kept   *KeptSide
	p      *braking
	at     int64 // what was copied ends there
	ms     int64 // the store time of the last unit
}

// whole tells the first slot without a unit.
func (c *keepCopy) whole(ctx context.Context) error {
	return c.each(ctx, -1, -1, func(int64, []cq.Unit) error { return nil })
}

func (c *keepCopy) copy(ctx context.Context, from, to int64) error {
	return c.each(ctx, from, to, func(slot int64, units []cq.Unit) error {
		for i := range units {
			if u := &units[i]; u.StoreTimestampMs == cq.NoTimestamp {
				u.StoreTimestampMs = c.time(u)
			}
		}
		if err := c.target.Import(ctx, []cq.Run{{Key: c.kept.Key, From: slot, Units: units}}); err != nil {
			return err
		}
		c.kept.Copied += int64(len(units))
		c.at = slot + int64(len(units))
		return nil
	})
}

// time is the store time of the record that a unit of a file leads to; that of the unit before where there is none.
func (c *keepCopy) time(u *cq.Unit) int64 {
	_ = c.d.v.record(u, false, func(r *message.Record) { c.ms = r.StoreTimestampMs })
	return c.ms
}

// each reads the slots of [from, to), of the whole queue from -1, and hands them on in pieces.
func (c *keepCopy) each(ctx context.Context, from, to int64, do func(slot int64, units []cq.Unit) error) error {
	if from < 0 {
		b, err := c.src.Bounds()
		if err != nil {
			return err
		}
		from, to = b.Min, b.Max
	}
	buf := make([]cq.Unit, min(keepUnits, max(to-from, 0)))
	for slot := from; slot < to; {
		if err := c.p.pause(ctx, 0); err != nil {
			return err
		}
		n, err := c.src.Read(slot, buf[:min(int64(len(buf)), to-slot)])
		if b, again := c.src.Bounds(); again == nil && b.Min > slot && (err != nil || n == 0) {
			slot = b.Min // it has expired meanwhile
			continue
		}
		if err == nil && n == 0 {
			err = &cq.CorruptError{File: c.src.Where(slot), Offset: -1, Want: "a unit", Got: "none"}
		}
		if err != nil {
			return fmt.Errorf("slot %d of the %s side: %w", slot, c.kept.Side, err)
		}
		if err := do(slot, buf[:n]); err != nil {
			return err
		}
		slot += int64(n)
	}
	return nil
}
