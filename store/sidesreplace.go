package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tandemq/tandemmq/cq"
)

// errDiffers is why a queue is diverged that was built again and is not what the other side has.
var errDiffers = errors.New("it differs from the other side")

// replace replaces the RocksDB of a combined store while files serve, and takes it into service again. Called again it begins from the beginning.
func (d *sides) replace(ctx context.Context, why error) error {
	v, r := d.v, d.v.s.replacing
	r.what.Store(replacesSide) // before anything is taken away: reads of what RocksDB has alone are refused
	r.round.Add(1)
	if err := d.store.Suspend(cq.KindRocks, why); err != nil {
		r.what.Store(replacesNothing)
		return err
	}
	d.mending.Lock() // a mending that is under way ends
	defer d.mending.Unlock()
	target := v.replaceable()
	if err := v.noteEnds(d.keepAlone(target)); err != nil {
		return err
	}
	if err := target.Replace(ctx, v.setAsideDamaged); err != nil {
		return err
	}
	r.why.Store(nil)
	d.gaveUp.Lock()
	d.gaveUp.keys[indexOf(cq.KindRocks)] = nil
	d.gaveUp.Unlock()
	d.store.Renew(cq.KindRocks)
	v.view.changed.Store(true) // what was noted of its queues is over
	if v.follow.failure() != nil {
		v.dispatching.halt()
		v.follow.failed.Store(nil)
		v.dispatching.resume(ctx)
	}
	if err := d.refill(ctx, target); err != nil {
		return fmt.Errorf("build the %s side of the consume queues: %w", cq.KindRocks, err)
	}
	if !d.hold.ended() && d.held == cq.KindRocks { // it was being filled when it was found damaged
		d.failed.Store(nil)
		close(d.hold.done)
	}
	r.what.Store(replacesNothing)
	v.kickMending()
	if err := removeDurably(v.s.fs, v.s.layout.endsOwedPath()); err != nil {
		v.s.logger.Warn("a note of where queues ended stays", slog.String("file", v.s.layout.endsOwedPath()), slog.Any("err", err))
	}
	return nil
}

// keepAlone returns where all queues end, and takes over the ends of those that RocksDB alone has: nothing else may know.
func (d *sides) keepAlone(target replaceable) map[cq.Key]int64 {
	v := d.v.view
	ends := d.v.nextSlots(target)
	v.mu.Lock()
	defer v.mu.Unlock()
	for k, next := range ends {
		if v.mu.known[k] == nil && len(d.responsible(k)) == 1 {
			v.mu.known[k] = &queueState{next: next}
		}
	}
	return ends
}

// refill fills the new database, compares it with the files, and releases it.
func (d *sides) refill(ctx context.Context, target replaceable) error {
	v := d.v.view
	logger := d.v.s.logger
	f := d.filler(cq.KindRocks)
	f.all, f.from = true, max(d.v.s.Log().MinOffset(), 0)
	f.saved = func(ctx context.Context, phy int64) error {
		logger.Info("a side of the consume queues is being built", slog.String("kind", string(cq.KindRocks)), slog.Int64("phyOffset", phy), slog.Int64("to", f.to.Load()))
		return target.Flush(ctx)
	}
	at := int64(0)
	f.done = func() error { // called with nothing being appended
		at = v.mu.delivered
		v.loseLocked(f)
		return nil
	}
	d.fill.Store(f)
	defer d.fill.Store(nil)
	if told := d.v.s.o.rebuildStep; told != nil {
		told(f.from)
	}
	if err := f.run(ctx); err != nil {
		return err
	}
	if err := target.Flush(ctx); err != nil {
		return err
	}
	differ, later, err := d.compareBuilt(ctx, target)
	if err != nil {
		return err
	}
	rest := d.filler(cq.KindRocks) // what was dispatched while units were compared
	rest.all, rest.from, rest.keys, rest.barred = true, at, f.keys, f.barred
	rest.done = func() error {
		v.loseLocked(rest)
		if err := d.giveEndsLocked(ctx, target, rest.barred); err != nil {
			return err
		}
		if err := target.Flush(ctx); err != nil {
			return err
		}
		if err := d.store.Release(cq.KindRocks); err != nil {
			return err
		}
		v.changed.Store(true)
		for k, err := range rest.barred {
			d.store.MarkDiverged(cq.KindRocks, k, err)
		}
		for _, k := range differ {
			d.store.MarkDiverged(cq.KindRocks, k, errDiffers)
		}
		for k, err := range later {
			d.store.MarkDiverged(cq.KindFile, k, err)
		}
		return nil
	}
	if err := rest.run(ctx); err != nil {
		return err
	}
	logger.Info("the damaged side of the consume queues is replaced, and serves again", slog.String("kind", string(cq.KindRocks)), slog.Int64("units", f.added+rest.added),
		slog.Int("differ", len(differ)))
	return nil
}

// compareBuilt compares the new database with the files, queue by queue. later are queues that lack something on the file side.
func (d *sides) compareBuilt(ctx context.Context, target cq.Store) (differ []cq.Key, later map[cq.Key]error, err error) {
	later = make(map[cq.Key]error)
	for k, err := range d.side(cq.KindFile).Queues() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, nil, err
		}
		if _, there := target.Queue(k); !there {
			continue // of which the log has no record, or that came meanwhile
		}
		ok, lacks, err := d.same(ctx, cq.KindRocks, k)
		switch {
		case err != nil:
			return nil, nil, err
		case !ok:
			differ = append(differ, k)
		case lacks != nil:
			later[k] = lacks
		}
	}
	return differ, later, nil
}

// giveEndsLocked gives the new database the ends of queues of which the log has no record. The caller sees that nothing is appended, and that it has everything else.
func (d *sides) giveEndsLocked(ctx context.Context, target replaceable, barred map[cq.Key]error) error {
	var ends []cq.QueueEnd
	give := func(k cq.Key) error {
		if _, there := target.Queue(k); there || barred[k] != nil || checkName(target, k) != nil {
			return nil
		}
		end, err := d.endOf(cq.KindRocks, k)
		if err == nil && end.Max > 0 {
			ends = append(ends, end)
		}
		return err
	}
	for k, err := range d.side(cq.KindFile).Queues() {
		if err != nil {
			return err
		}
		if len(d.responsible(k)) == 1 {
			continue // what light queues have in files is not followed any more
		}
		if err := give(k); err != nil {
			return err
		}
	}
	for k, q := range d.v.view.mu.known {
		if q.unitless || q.gone || len(d.responsible(k)) > 1 {
			continue
		}
		if err := give(k); err != nil {
			return err
		}
	}
	if len(ends) == 0 {
		return nil
	}
	d.v.s.logger.Info("queues of which the log has no record go on where they ended", slog.String("kind", string(cq.KindRocks)), slog.Int("queues", len(ends)))
	return target.Publish(ctx, ends, -1)
}
