package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
)

// verify compares the queues with what the log says of them, one by one beside dispatch, on each side, and the sides with one another. Nothing is written; what lacks something is
// mended then.
func (d *sides) verify(ctx context.Context) {
	if d.hold != nil {
		if !d.hold.ended() { // what serves meanwhile may be all that has what expires
			d.verifyQueues(ctx)
		}
		close(d.served)
		select {
		case <-d.hold.done:
		case <-ctx.Done():
			return
		}
	}
	d.verifyQueues(ctx)
	if err := errors.Join(d.adoptLost(ctx), d.adoptUnknown(ctx)); err != nil && ctx.Err() == nil {
		d.v.s.logger.Error("queues of which the log has no record may end at different slots on the two sides", slog.Any("err", err))
	}
	if err := d.adoptNoted(ctx); err != nil && ctx.Err() == nil {
		d.v.s.logger.Error("queues that RocksDB alone had may be empty", slog.Any("err", err))
	}
}

func (d *sides) verifyQueues(ctx context.Context) {
	v := d.v.view
	v.mu.Lock()
	keys := slices.Collect(maps.Keys(v.mu.known))
	v.mu.Unlock()
	for _, k := range keys {
		if ctx.Err() != nil {
			return
		}
		if _, err := d.verifyQueue(ctx, k); err != nil && ctx.Err() == nil {
			d.v.s.logger.Error("a queue could not be compared with the log", slog.String("topic", k.Topic), slog.Int("queueId", int(k.QueueID)), slog.Any("err", err))
		}
	}
}

// errHistory is why a queue is diverged that begins later than on the other side.
var errHistory = errors.New("it begins later than on the other side")

// verifyQueue compares a queue with what the log says of it. marked tells that a side was found to lack something: it may be mended by the time that this returns.
func (d *sides) verifyQueue(ctx context.Context, k cq.Key) (marked bool, err error) {
	v := d.v.view
	v.mu.Lock() // nothing is appended
	defer v.mu.Unlock()
	q := v.mu.known[k]
	if _, broken := v.mu.broken[k]; broken || q == nil || q.unitless || q.gone || v.mu.barred[k] != nil {
		return false, nil
	}
	if err := d.store.AwaitReadable(ctx); err != nil {
		return false, err
	}
	var lows [len(combinedKinds)]int64
	kinds := d.responsible(k)
	for i, kind := range kinds {
		lows[i] = -1
		if d.store.Failure(kind) != nil || d.store.IsDiverged(kind, k) || d.holds(kind) {
			continue
		}
		queue, ok := d.side(kind).Queue(k)
		if !ok {
			why := checkName(d.side(kind), k)
			switch {
			case why == nil:
				why = errLost
			case v.barLocked(k, checkName(d.store, k)): // neither side can have it
				return marked, nil
			}
			d.store.MarkDiverged(kind, k, why)
			marked = marked || !barred(why)
			continue
		}
		b, err := queue.Bounds()
		switch {
		case err != nil:
			d.store.MarkDiverged(kind, k, err)
			marked = true
		case b.Max < q.next:
			d.store.MarkDiverged(kind, k, &cq.GapError{Key: k, Want: q.next, Max: b.Max, PhyOffset: b.MaxPhyOffset})
			marked = true
		default:
			lows[i] = b.Min
		}
	}
	if len(kinds) == len(lows) && lows[0] >= 0 && lows[1] >= 0 && lows[0] != lows[1] {
		later := 0
		if lows[1] > lows[0] {
			later = 1
		}
		d.store.MarkDiverged(kinds[later], k, fmt.Errorf("%w: at slot %d, not %d", errHistory, lows[later], lows[1-later]))
		marked = true
	}
	q.checked = true
	return marked, nil
}

// responsible returns the sides that have a queue.
func (d *sides) responsible(k cq.Key) []cq.Kind {
	if k.IsLMQ() && !d.v.s.filesHaveLight() {
		return []cq.Kind{cq.KindRocks}
	}
	return combinedKinds[:]
}

// mend builds the queues again that are diverged on a side, from the log. One whose name the side refuses is left alone: reads of it go to the other side, and every opening
// of the store tries again whether the name can be taken now.
func (d *sides) mend(ctx context.Context) error {
	d.mending.Lock()
	defer d.mending.Unlock()
	var errs []error
	for _, kind := range combinedKinds {
		var keys []cq.Key
		for _, one := range d.store.Diverged() {
			if one.Side != kind || d.hasGivenUp(kind, one.Key) {
				continue
			}
			if barred(one.Err) {
				d.giveUp(kind, one.Key)
				continue
			}
			if err := checkName(d.side(kind), one.Key); err != nil {
				d.bar(kind, one.Key, err)
				continue
			}
			keys = append(keys, one.Key)
		}
		if len(keys) == 0 || d.holds(kind) || d.store.Failure(kind) != nil || kind == cq.KindRocks && d.v.s.replacing.owed() {
			continue
		}
		errs = append(errs, d.mendSide(ctx, kind, keys))
	}
	return errors.Join(errs...)
}

// barred tells whether a queue is diverged for its name, which is nothing that can be mended.
func barred(err error) bool {
	var name *cq.QueueError
	return errors.As(err, &name)
}

// bar gives a queue up whose name a side refuses.
func (d *sides) bar(kind cq.Kind, k cq.Key, err error) {
	d.giveUp(kind, k)
	d.store.Heal(kind, k) // what else was said of it is no matter
	d.store.MarkDiverged(kind, k, err)
}

// mendSide builds queues again on one side, which dispatch passes over there meanwhile. They begin with the log's first record of each; what was there goes, unless the
// other side has not got the queue either.
func (d *sides) mendSide(ctx context.Context, kind cq.Kind, keys []cq.Key) error {
	d.v.s.logger.Info("queues are built again from the log on one side", slog.String("kind", string(kind)), slog.Int("queues", len(keys)))
	v, target := d.v.view, d.side(kind)
	f := d.filler(kind)
	for _, k := range keys {
		f.keys[k] = false
	}
	if err := d.dropAll(ctx, kind, keys); err != nil {
		return err
	}
	at := int64(0)
	f.done = func() error { // called with nothing being appended
		at = v.mu.delivered
		if err := d.store.AwaitReadable(ctx); err != nil { // the other side's ends are looked at
			return err
		}
		v.loseLocked(f)
		for k, found := range f.keys {
			if !found && f.barred[k] == nil {
				if err := d.adopt(ctx, kind, k); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := f.run(ctx); err != nil {
		return fmt.Errorf("build queues again on the %s side: %w", kind, err)
	}
	if err := target.Flush(ctx); err != nil {
		return err
	}
	rest := d.filler(kind) // what was dispatched while units were compared
	rest.from = at
	later := make(map[cq.Key]error) // queues that lack their beginning on the other side
	for _, k := range keys {
		if err := f.barred[k]; err != nil {
			d.bar(kind, k, err)
			continue
		}
		ok, lacks, err := d.same(ctx, kind, k)
		if err != nil {
			return err
		}
		if ok {
			rest.keys[k] = true // it has its beginning
		}
		if lacks != nil {
			later[k] = lacks
		}
	}
	rest.done = func() error {
		if kind == cq.KindRocks { // what is durable by then is noted before the row says more
			if err := target.Flush(ctx); err != nil {
				return err
			}
			v.changed.Store(true)
		}
		for k := range rest.keys {
			d.store.Heal(kind, k)
		}
		for k, err := range later {
			d.store.MarkDiverged(otherKind(kind), k, err)
		}
		return nil
	}
	if err := rest.run(ctx); err != nil {
		return fmt.Errorf("build queues again on the %s side: %w", kind, err)
	}
	d.v.s.logger.Info("queues are whole again on one side", slog.String("kind", string(kind)), slog.Int("queues", len(rest.keys)), slog.Int("differ", len(keys)-len(rest.keys)),
		slog.Int64("units", f.added+rest.added))
	return nil
}

// dropAll drops queues on one side, having noted that they lack everything there.
func (d *sides) dropAll(ctx context.Context, kind cq.Kind, keys []cq.Key) error {
	v := d.v.view
	v.mu.Lock() // nothing is appended
	defer v.mu.Unlock()
	if err := d.store.AwaitReadable(ctx); err != nil { // a queue is there once it can be read
		return err
	}
	if err := v.saveBrokenLocked(); err != nil {
		return err
	}
	for _, k := range keys {
		if err := d.drop(ctx, kind, k); err != nil {
			return err
		}
	}
	return nil
}

// drop removes a queue on one side, if the other has it: it is the view from which nothing can be lost then. It is called while nothing is appended.
func (d *sides) drop(ctx context.Context, kind cq.Kind, k cq.Key) error {
	other := otherKind(kind)
	if d.store.Held(other) || d.store.Failure(other) != nil || d.store.IsDiverged(other, k) {
		return nil
	}
	if _, ok := d.side(other).Queue(k); !ok {
		return nil
	}
	return d.side(kind).(cq.Dropper).DropQueue(ctx, k)
}

func otherKind(kind cq.Kind) cq.Kind {
	if kind == cq.KindFile {
		return cq.KindRocks
	}
	return cq.KindFile
}

// adopt gives a queue of which the log has no record the end that it has on the other side, or that was noted, so that it goes on there. What cannot be read of it goes. It is called while
// nothing is appended.
func (d *sides) adopt(ctx context.Context, kind cq.Kind, k cq.Key) error {
	end, err := d.endOf(kind, k)
	if err != nil || end.Max == 0 {
		return err
	}
	if q, there := d.side(kind).Queue(k); there {
		if b, err := q.Bounds(); err == nil && b.Max >= end.Max {
			return nil
		}
		if err := d.side(kind).(cq.Dropper).DropQueue(ctx, k); err != nil {
			return err
		}
	}
	return d.side(kind).(cq.Importer).Publish(ctx, []cq.QueueEnd{end}, 0)
}

// endOf returns the end of a queue of which the log has no record, by the side that is not of that kind or by what was noted; its Max is 0 where neither knows any.
func (d *sides) endOf(kind cq.Kind, k cq.Key) (end cq.QueueEnd, err error) {
	last := cq.Bounds{LastPhyOffset: -1}
	var why error
	if q, ok := d.side(otherKind(kind)).Queue(k); ok {
		b, err := q.Bounds()
		if why = err; err == nil {
			last = b
		} else if last.Max, err = endOf(q); err != nil {
			last.Max = 0
		}
	}
	next := last.Max
	if known := d.v.view.mu.known[k]; known != nil {
		next = max(next, known.next)
	}
	if next == 0 {
		if why != nil {
			return end, fmt.Errorf("queue %s: nothing tells where it ended: %w", k, why)
		}
		return end, nil
	}
	end = cq.QueueEnd{Key: k, Min: next, Max: next, MinPhyOffset: max(d.v.s.Log().MinOffset(), 0)}
	if last.Max == next {
		end.LastPhyOffset = max(last.LastPhyOffset, 0)
	}
	return end, nil
}

// damagedSide returns the side that damage was found on.
func (d *sides) damagedSide(damage *cq.CorruptError) cq.Kind {
	if r, ok := d.side(cq.KindRocks).(interface{ Dir() string }); ok && damage.File == r.Dir() {
		return cq.KindRocks
	}
	return cq.KindFile
}

// same tells whether the units of a queue that was built again are those of the other side. One that differs is left as it is, and not tried again: which of them is right
// is for an operator to say. One that begins later on the other side, or cannot be read there, lacks something there, which is what lacks says.
func (d *sides) same(ctx context.Context, kind cq.Kind, k cq.Key) (ok bool, lacks, err error) {
	other := otherKind(kind)
	if len(d.responsible(k)) == 1 || d.store.Held(other) || d.store.Failure(other) != nil || d.store.IsDiverged(other, k) {
		return true, nil, nil // there is nothing to compare with
	}
	verdict, err := d.store.Verify(ctx, k, combine.Units)
	var damage *cq.CorruptError
	if errors.As(err, &damage) && d.damagedSide(damage) == other { // one that was built now can be read
		return true, err, nil
	}
	if err != nil {
		return false, nil, err
	}
	at := indexOf(kind)
	earlier := verdict.Present[0] && verdict.Present[1] && verdict.Bounds[at].Min < verdict.Bounds[1-at].Min
	var what []error
	wrong := 0 // of these, slots of which the log proves what was built
	for _, one := range verdict.Differences {
		switch one.What {
		case "max", "last phy": // dispatch goes on
			continue
		case "min", "min phy":
			if earlier { // it is the other that lacks something
				continue
			}
		case "unit", "missing unit":
			if d.wrongSide(k, one.QueueOffset) == other {
				wrong++
			}
		}
		what = append(what, errors.New(one.String()))
	}
	if len(what) == 0 {
		if earlier {
			lacks = fmt.Errorf("%w: at slot %d, not %d", errHistory, verdict.Bounds[1-at].Min, verdict.Bounds[at].Min)
		}
		return true, lacks, nil
	}
	if wrong == len(what) { // both sides were damaged, and the other one is built again now
		return true, fmt.Errorf("%w: %w", cq.ErrDiverged, what[0]), nil
	}
	d.giveUp(kind, k)
	d.v.s.logger.Error("a queue that was built again from the log differs from the other side, and stays as it is", slog.String("kind", string(kind)),
		slog.String("topic", k.Topic), slog.Int("queueId", int(k.QueueID)), slog.Any("err", errors.Join(what[:min(len(what), 3)]...)))
	return false, nil, nil
}
