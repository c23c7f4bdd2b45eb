package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
)

// The combined store of queues: dispatch feeds both sides. A side that is far behind the other when the store is opened, such as a RocksDB made this minute, is held: it is
// filled from the log beside dispatch, while the other side serves, and released when it has come to where dispatch is. A single queue that lacks
// something on one side is dealt with likewise (sidesmend.go).

// sides are those of a combined store.
type sides struct {
	v     *views
	store *combine.Store

	held     cq.Kind                // the side that is filled, "" for none. Constant once the store serves
	lostKind cq.Kind                // the side that may have been lost before the store was opened, and is built again; "" for none. Constant
	hold     *rebuild               // what it lacks; its done is closed when it has been released
	fill     atomic.Pointer[filler] // at work
	failed   atomic.Pointer[error]  // why the filling has ended
	served   chan struct{}          // closed when the side that serves meanwhile has been compared with the log

	ends map[cq.Key]int64 // of queues that RocksDB alone had when a replacement was cut off, which were noted then; nil without. Used when the store is opened, and by verify

	comparison comparison
	shadow     shadow
	met        metQueues

	mending sync.Mutex
	gaveUp  struct { // queues that differ after they were built again, or whose names a side refuses
		sync.Mutex
		keys [len(combinedKinds)]map[cq.Key]struct{}
	}
}

// openSides opens both sides.
func openSides(v *views, minPhy int64) (_ *sides, err error) {
	o := &v.s.o
	r, err := v.s.openRocks(minPhy)
	if err != nil {
		return nil, err
	}
	f, err := v.s.openFiles(minPhy)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	preferred, _ := o.CombineCQPreferCQType.queueKind()
	authority, _ := o.CombineAssignOffsetCQType.queueKind()
	d := &sides{v: v, served: make(chan struct{})}
	d.shadow.notes = make(chan *shadowRead, shadowWaiting)
	d.shadow.setPercent(o.ShadowReadPercent)
	d.store, err = combine.New(f, r, combine.Options{
		Preferred: preferred, Authority: authority, LightInRocks: !v.s.filesHaveLight(), Logger: v.s.o.Logger,
		OnDiverged: func(one combine.Divergence) {
			d.met.add(one)
			if one.Side == cq.KindRocks && v.view != nil { // the row that says how far RocksDB is does not wait for single queues
				v.view.changed.Store(true)
			}
			v.kickMending()
		},
	})
	if err != nil {
		return nil, errors.Join(err, f.Close(), r.Close())
	}
	return d, nil
}

// combinedKinds are the sides of a combined store.
var combinedKinds = [...]cq.Kind{cq.KindFile, cq.KindRocks}

func (d *sides) side(kind cq.Kind) cq.Store {
	s, _ := d.store.Side(kind)
	return s
}

// lost tells whether neither side has a queue.
func (d *sides) lost() bool {
	return d.side(cq.KindFile).DispatchFrom() < 0 && d.side(cq.KindRocks).DispatchFrom() < 0
}

// plan finds out from where dispatch feeds the sides. Where they are close together it feeds both from where the one is that has less; repeats are accepted. Otherwise it
// goes on from where the other is, and the one that has less is held.
func (d *sides) plan(a *alignment) {
	files, rocks := d.v.standing(d.side(cq.KindFile), a), d.v.standing(d.side(cq.KindRocks), a)
	a.from = min(files, rocks)
	for _, kind := range combinedKinds {
		if !a.lost && d.side(kind).DispatchFrom() < 0 && d.side(otherKind(kind)).DispatchFrom() >= 0 {
			d.lostKind = kind
		}
	}
	switch far := d.v.s.rebuildBytes; {
	case rocks-files > far || a.mark >= 0 && rocks > files:
		a.from, a.side, a.behind = rocks, cq.KindFile, newRebuild(files, a.end)
	case files-rocks > far:
		a.from, a.side, a.behind = files, cq.KindRocks, newRebuild(rocks, a.end)
	default:
		a.online = a.mark >= 0
	}
	if a.behind != nil {
		d.lostKind = a.side // or it was, before a rebuild that was cut off
	}
}

// begin holds the side that is behind. What is noted does not claim more of it than there is.
func (d *sides) begin(a *alignment) error {
	d.held, d.hold = a.side, a.behind
	d.store.Hold(a.side)
	d.v.s.logger.Warn("a side of the consume queues is built from the log while the other serves", slog.String("kind", string(a.side)),
		slog.Int64("phyOffset", a.behind.from), slog.Int64("bytes", a.end-a.behind.from))
	if a.side == cq.KindFile {
		if err := d.v.markFiles(a.behind); err != nil {
			return err
		}
	}
	if d.v.s.waits {
		return d.run(context.Background())
	}
	return nil
}

// run fills the side that is held, and releases it.
func (d *sides) run(ctx context.Context) error {
	if d == nil || d.hold.ended() {
		return nil
	}
	target := d.side(d.held)
	defer d.fill.Store(nil)
	if !d.v.s.waits {
		release := d.v.s.brake.use()
		defer release()
	}
	if told := d.v.s.o.rebuildStep; told != nil {
		told(d.hold.from)
	}
	added := int64(0)
	f := d.heldFiller(target, d.hold.from)
	err := d.insistOnRoom(ctx, func() error {
		err := f.run(ctx)
		if added += f.added; err != nil { // all below was appended; repeats are accepted
			f = d.heldFiller(target, f.seats.oldest(f.at.Load()))
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("build the %s side of the consume queues: %w", d.held, err)
		d.failed.Store(&err)
		return err
	}
	if err := d.insistOnRoom(ctx, func() error { return target.Flush(ctx) }); err != nil {
		return err
	}
	if d.held == cq.KindFile {
		if err := d.v.removeRebuildMark(); err != nil {
			return err
		}
	}
	close(d.hold.done)
	d.v.s.logger.Info("a side of the consume queues is built", slog.String("kind", string(d.held)), slog.Int64("units", added))
	return nil
}

// insistOnRoom does something again as long as it fails because the disk is full. Whoever waits for it is told instead.
func (d *sides) insistOnRoom(ctx context.Context, do func() error) error {
	for wait := minDeliverWait; ; wait = min(2*wait, maxDeliverWait) {
		err := do()
		if err == nil || ctx.Err() != nil || d.v.s.waits || !diskFull(err) && !errors.Is(err, cq.ErrNoRoom) {
			return err
		}
		d.v.s.logger.Warn("a side of the consume queues waits for room on its disk", slog.String("kind", string(d.held)), slog.Any("err", err), slog.Duration("retryIn", wait))
		sleep(ctx, wait)
	}
}

// heldFiller makes one for the side that is held, and lets it be seen.
func (d *sides) heldFiller(target cq.Store, from int64) *filler {
	f := d.filler(d.held)
	f.all, f.from = true, from
	f.saved = func(ctx context.Context, phy int64) error {
		if err := target.Flush(ctx); err != nil {
			return err
		}
		d.v.s.logger.Info("a side of the consume queues is being built", slog.String("kind", string(d.held)), slog.Int64("phyOffset", phy), slog.Int64("to", f.to.Load()))
		if d.held != cq.KindFile {
			return nil
		}
		return d.v.writeRebuildMark(d.hold, phy)
	}
	f.done = func() error {
		if err := d.store.Release(d.held); err != nil {
			return err
		}
		for k, err := range f.barred {
			d.store.MarkDiverged(d.held, k, err)
		}
		d.v.view.loseLocked(f)
		return nil
	}
	if !d.v.s.waits {
		f.pace = (&braking{b: &d.v.s.brake}).pause
	}
	d.fill.Store(f)
	return f
}

// filler makes one for a side.
func (d *sides) filler(kind cq.Kind) *filler {
	f := d.v.view.filler(d.side(kind), d.v.s.writer.Log())
	f.parse.light = f.parse.light && (kind == cq.KindRocks || d.v.s.filesHaveLight())
	return f
}

// heldKind returns the side that was held when the store was opened, "" for none.
func (d *sides) heldKind() cq.Kind {
	if d == nil {
		return ""
	}
	return d.held
}

// holds tells whether that side is being filled, or replaced.
func (d *sides) holds(kind cq.Kind) bool {
	return d != nil && (d.held == kind && !d.hold.ended() || kind == cq.KindRocks && d.v.s.replacing.side())
}

// lacksWhole tells whether all of a queue is being built again, as the one side that has it is replaced, or the other one lacks something too.
func (d *sides) lacksWhole(k cq.Key) bool {
	return d != nil && d.v.s.replacing.side() && (len(d.responsible(k)) == 1 || d.store.IsDiverged(cq.KindFile, k))
}

// next returns the offset that comes next in a queue, of which the log says that it is next, 0 when the log says nothing.
func (d *sides) next(k cq.Key, next int64) (int64, error) {
	if d.v.compared() && !d.v.s.replacing.side() {
		n, err := d.store.NextOffset(k)
		if err != nil && next > 0 && d.store.Failure(d.store.Authority()) == nil {
			return next, nil // it is being built again
		}
		return max(next, n), err
	}
	if d.v.s.replacing.side() { // what was dispatched since the store was opened counts as well
		d.v.view.mu.Lock()
		if q := d.v.view.mu.known[k]; q != nil {
			next = max(next, q.next)
		}
		d.v.view.mu.Unlock()
	}
	var errs []error
	for _, kind := range combinedKinds { // they are being brought together, and which of them ends later means nothing
		q, ok := d.side(kind).Queue(k)
		if !ok {
			continue
		}
		b, err := q.Bounds()
		if err != nil && next == 0 {
			errs = append(errs, err)
		}
		next = max(next, b.Max)
	}
	if next > 0 {
		errs = nil
	}
	return next, errors.Join(errs...)
}

// fills tells whether the one side that has a queue is held.
func (d *sides) fills(k cq.Key) bool {
	kinds := d.responsible(k)
	return len(kinds) == 1 && d.store.Held(kinds[0])
}

// lacks says what that side lacks: nil when it has what dispatch has delivered. It is nil for a store of queues that is not combined.
func (d *sides) lacks(kind cq.Kind) error {
	if d == nil || kind == "" {
		return nil
	}
	if kind == cq.KindRocks && d.v.s.replacing.side() {
		return fmt.Errorf("the %s side of the consume queues is damaged and is being replaced: %w", kind, d.v.s.replacing.reason())
	}
	if err := d.store.Failure(kind); err != nil {
		return fmt.Errorf("the %s side of the consume queues was given up: %w", kind, err)
	}
	if d.holds(kind) {
		err := fmt.Errorf("the %s side of the consume queues is being built from the log", kind)
		if why := d.failed.Load(); why != nil {
			err = *why
		}
		return err
	}
	if n := d.diverged(kind); n > 0 {
		return fmt.Errorf("%d queues lack units on the %s side", n, kind)
	}
	return nil
}

// lacking says what the sides lack.
func (d *sides) lacking() error {
	return errors.Join(d.lacks(cq.KindFile), d.lacks(cq.KindRocks))
}

// servesLack says what the sides lack that the store serves from: a side that is being filled is none of them, as long as that goes on.
func (d *sides) servesLack() (err error) {
	if d == nil {
		return nil
	}
	for _, kind := range combinedKinds {
		if d.held != kind || d.hold.ended() || kind == cq.KindRocks && d.v.s.replacing.side() || d.store.Failure(kind) != nil || d.failed.Load() != nil {
			err = errors.Join(err, d.lacks(kind))
		}
	}
	return err
}

// failure says why a side will not come to have what it lacks, nil while it may.
func (d *sides) failure() error {
	if d == nil {
		return nil
	}
	for _, kind := range combinedKinds {
		if d.store.Failure(kind) != nil && (kind != cq.KindRocks || !d.v.s.replacing.owed()) {
			return d.lacks(kind)
		}
	}
	if why := d.failed.Load(); why != nil {
		return *why
	}
	return nil
}

// diverged returns how many queues lack something on that side that can be built again.
func (d *sides) diverged(kind cq.Kind) (n int) {
	for _, one := range d.store.Diverged() {
		if one.Side == kind && !barred(one.Err) && !d.hasGivenUp(kind, one.Key) {
			n++
		}
	}
	return n
}

func indexOf(kind cq.Kind) int { return slices.Index(combinedKinds[:], kind) }

// giveUp leaves a queue as it is on a side.
func (d *sides) giveUp(kind cq.Kind, k cq.Key) {
	d.gaveUp.Lock()
	defer d.gaveUp.Unlock()
	m := &d.gaveUp.keys[indexOf(kind)]
	if *m == nil {
		*m = make(map[cq.Key]struct{})
	}
	(*m)[k] = struct{}{}
}

func (d *sides) hasGivenUp(kind cq.Kind, k cq.Key) bool {
	d.gaveUp.Lock()
	defer d.gaveUp.Unlock()
	_, ok := d.gaveUp.keys[indexOf(kind)][k]
	return ok
}

// differ returns how many queues were given up on that side.
func (d *sides) differ(kind cq.Kind) int {
	if d == nil {
		return 0
	}
	d.gaveUp.Lock()
	defer d.gaveUp.Unlock()
	return len(d.gaveUp.keys[indexOf(kind)])
}

// marks adds how far each side is.
func (d *sides) marks(m map[string]ViewMark, both ViewMark) {
	for _, kind := range combinedKinds {
		mark := both
		accepted, readable, durable := d.side(kind).Progress()
		mark.Durable, mark.Broken, mark.Differ = durable, d.diverged(kind), d.differ(kind)
		if readable < accepted {
			mark.Dispatched = min(mark.Dispatched, readable)
		}
		if d.holds(kind) {
			mark.Rebuilding = d.fillMark(kind)
			mark.Dispatched = mark.Rebuilding.Done
		}
		mark.BehindBytes = max(d.v.s.log.Positions().Wrote-mark.Dispatched, 0)
		if mark.Dispatched < both.Dispatched {
			mark.BehindMs = max(mark.BehindMs, d.v.s.sinceRecord(mark.Dispatched))
		}
		if err := d.store.Failure(kind); err != nil {
			mark.Failure = err.Error()
		} else if why := d.failed.Load(); why != nil && kind == d.held {
			mark.Failure = (*why).Error()
		}
		mark.Comparing = d.comparison.progress()
		if kind == cq.KindRocks {
			d.v.s.replacing.tell(&mark)
		}
		mark.Waiting = whyWaiting(d.side(kind))
		m[string(kind)+" queues"] = mark
	}
}

// ErrNotCombined is what Prefer and GiveAuthority answer where there is one store of queues.
var ErrNotCombined = errors.New("the consume queues are not kept in files and in RocksDB both")

// Prefer has queues read from that side from now on, as far as it is ready for them: the option combineCQPreferCQType of a running store. A
// side that lacks something as a whole is refused.
func (s *Store) Prefer(kind cq.Kind) error {
	return s.switchSide(kind, (*combine.Store).SetPreferred)
}

// GiveAuthority has that side say which offset comes next in a queue: the option combineAssignOffsetCQType of a running store. Offsets that puts have been given
// stay given.
func (s *Store) GiveAuthority(kind cq.Kind) error {
	return s.switchSide(kind, (*combine.Store).SetAuthority)
}

func (s *Store) switchSide(kind cq.Kind, set func(*combine.Store, cq.Kind) error) error {
	switch {
	case s.closed.Load():
		return ErrClosed
	case s.views == nil || s.views.sides == nil:
		return ErrNotCombined
	}
	return set(s.views.sides.store, kind)
}
