package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/failpoint"
)

// views are what the store derives from its log, each with its follower, and what keeps them durable.
type views struct {
	s          *Store
	queues     cq.Store
	view       *queueView
	follow     *follower
	index      *indexView      // nil: none
	rocksIndex *rocksIndexView // nil: none
	sides      *sides          // of a combined store; nil: there is one store of queues
	starts     []viewStart
	batches    bool // there may be batch queues

	rocksBroken []brokenQueue // noted of a RocksDB that is not open

	stop    context.CancelFunc
	stopped <-chan struct{} // closed by stop: nothing comes on any more
	running sync.WaitGroup
	broken  chan struct{} // there are queues to mend
	repaced chan struct{} // FlushConsumeQueueThoroughInterval is another one

	mendFailed struct { // how often mending has failed since it last did not, and why
		sync.Mutex
		times int
		err   error
	}

	manifest manifestNote // as last written; used by open, then guarded by flushing

	verified chan struct{} // closed when the queues have been compared with the log

	flushing   sync.Mutex // one flush at a time
	checkpoint Checkpoint // as last written; guarded by flushing
	noted      int64      // position of the queue offsets last written; guarded by flushing
	notedFound int64      // queueOffsets.found of it; guarded by flushing
	endsOwed   bool       // there are ends that RocksDB has not got: until keepEnds
	knownEnds  *knownEnds // what is known of them where the queues were lost and the note is; nil: nobody has to ask. Constant
	unmarked   bool       // the mark of the rebuild is gone; guarded by flushing

	// durableTo is the physical offset below which every unit is durable, in queues that are whole: what the log may lose. 0 until the first flush.
	durableTo atomic.Int64

	rebuild atomic.Pointer[rebuild] // nil: the queues were complete when the store was opened, and have not been replaced since
	// ends is the next offset of each queue by the log when the store was opened, or when its RocksDB was replaced; of RocksDB only where the log was read for it. A map in it is constant.
	ends atomic.Pointer[map[cq.Key]int64]

	dispatching dispatching
}

// start starts the follower, the mending and the flush.
func (v *views) start() {
	ctx, cancel := context.WithCancel(context.Background())
	v.stop, v.stopped = cancel, ctx.Done()
	v.dispatching.again = make(chan struct{})
	run, parked := v.dispatching.turn(ctx)
	v.running.Go(func() { v.dispatch(ctx, run, parked) })
	for _, x := range v.indexes(false) {
		v.running.Go(func() { x.feed().follow.run(ctx, v.s.writer) })
	}
	v.running.Go(func() {
		if err := v.sides.run(ctx); err != nil && ctx.Err() == nil {
			v.s.logger.Error("a side of the consume queues stays behind", slog.Any("err", err))
		}
		v.replaceDamaged(ctx)
	})
	v.running.Go(func() { v.mendBroken(ctx) })
	v.running.Go(func() {
		defer close(v.verified)
		if r := v.rebuild.Load(); r != nil {
			select {
			case <-r.done:
			case <-ctx.Done():
				return
			}
		}
		switch v.queues.Kind() {
		case cq.KindFile:
			v.view.verify(ctx)
		case cq.KindCombine:
			v.sides.verify(ctx)
		}
	})
	v.running.Go(func() {
		select {
		case <-v.verified:
		case <-ctx.Done():
			return
		}
		look := v.view.verifyBeginnings
		if v.sides != nil {
			look = v.sides.verifyBeginnings
		}
		if err := look(ctx, v.s.writer.Log()); err != nil && ctx.Err() == nil {
			v.s.logger.Error("whether queues have lost their beginnings is not known", slog.Any("err", err))
		}
		if v.sides != nil {
			v.sides.compare(ctx)
		}
	})
	if v.sides != nil {
		v.running.Go(func() { v.sides.runShadow(ctx) })
	}
	v.running.Go(func() { v.flushNowAndThen(ctx) })
}

func (v *views) kickMending() {
	select {
	case v.broken <- struct{}{}:
	default:
	}
}

// mendAgain is after how long a mending that failed is tried again; mendAgainSoon where somebody waits for it, who gives up after mendTries.
const (
	mendAgain     = 10 * time.Second
	mendAgainSoon = 100 * time.Millisecond
	mendTries     = 3
)

// noteMending notes how a mending has ended.
func (v *views) noteMending(err error) {
	f := &v.mendFailed
	f.Lock()
	defer f.Unlock()
	f.times++
	if f.err = err; err == nil {
		f.times = 0
	}
}

// mendFailure returns why mending does not come to an end, nil while it may.
func (v *views) mendFailure() error {
	f := &v.mendFailed
	f.Lock()
	defer f.Unlock()
	if f.times < mendTries {
		return nil
	}
	return fmt.Errorf("queues could not be built again: %w", f.err)
}

// mendBroken mends queues as they are found broken.
func (v *views) mendBroken(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.broken:
		}
		err := v.view.mend(ctx, v.s.writer.Log())
		if v.sides != nil {
			err = errors.Join(err, v.sides.mend(ctx))
		}
		if ctx.Err() != nil {
			return
		}
		v.noteMending(err)
		if err != nil {
			again := mendAgain
			if v.s.waits {
				again = mendAgainSoon
			}
			v.s.logger.Error("queues could not be built again", slog.Any("err", err), slog.Duration("retryIn", again))
			time.AfterFunc(again, v.kickMending)
		}
	}
}

// flushNowAndThen bounds what has to be dispatched again after a crash.
func (v *views) flushNowAndThen(ctx context.Context) {
	t := time.NewTicker(v.s.live().FlushConsumeQueueThoroughInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.repaced:
			t.Reset(v.s.live().FlushConsumeQueueThoroughInterval)
		case <-t.C:
			err := v.flush(ctx)
			switch {
			case err == nil || ctx.Err() != nil || v.s.replacing.owed():
			case errors.Is(err, cq.ErrNoRoom):
				v.s.logger.Warn("consume queues are not durable and wait for room on their disk", slog.Any("err", err), slog.Duration("retryIn", v.s.live().FlushConsumeQueueThoroughInterval))
			default:
				v.s.setFlag(FlagLogicsQueueError, err)
			}
		}
	}
}

// repace has the time between two flushes begin anew.
func (v *views) repace() {
	select {
	case v.repaced <- struct{}{}:
	default:
	}
}

// flush makes the queues durable up to where dispatch is now, and notes it in the checkpoint. The checkpoint never says more than what is durable in the log too.
func (v *views) flush(ctx context.Context) error {
	v.flushing.Lock()
	defer v.flushing.Unlock()
	from := v.follow.from.Load()
	whole := v.view.brokenNow.Load() == 0 && v.sides.servesLack() == nil // in this order: what is below from was delivered, or its queue is known to be broken
	last, lastMs, note := v.mark()
	r := v.rebuild.Load()
	rebuilding := r != nil && from < r.to
	if rebuilding {
		note = nil // the one there is counts more of the log
	}
	if err := v.view.saveChanged(); err != nil {
		if !diskFull(err) {
			return err
		}
		v.s.logger.Warn("which queues are broken is not noted", slog.Any("err", err))
	}
	if err := v.s.writer.Flush(); err != nil { // no unit is durable before its record
		return err
	}
	flushed := v.s.writer.Positions().Flushed
	failpoint.Hit(failpoint.LogFlushed)
	if err := v.queues.Flush(ctx); err != nil {
		return fmt.Errorf("flush consume queues: %w", err)
	}
	failpoint.Hit(failpoint.QueuesFlushed)
	v.noteManifest()
	if whole {
		v.durableTo.Store(from)
	}
	if note != nil && (note.phyOffset != v.noted || note.found != v.notedFound) {
		switch err := writeQueueOffsets(v.s.fs, v.s.layout.queueOffsetsPath(), note); {
		case diskFull(err): // a note that is old or missing costs time; the units are durable (W42)
			v.s.logger.Warn("queue offsets are not noted", slog.Any("err", err))
		case err != nil:
			return err
		default:
			v.noted, v.notedFound = note.phyOffset, note.found
		}
	}
	failpoint.Hit(failpoint.OffsetsNoted)
	c := v.checkpoint
	for _, x := range v.indexes(false) {
		if err := x.flush(); err != nil {
			v.s.logger.Error("index could not be made durable", slog.String("view", x.name()), slog.Any("err", err))
		}
	}
	if v.index != nil {
		c.IndexMsgTimestampMs = max(c.IndexMsgTimestampMs, v.index.index.IndexMsgTimestampMs())
	}
	if last >= 0 && last < flushed {
		if v.hasFiles() { // it speaks of files alone (F37)
			c.LogicsPhysicalOffset, c.LogicsMsgTimestampMs = last, lastMs
		}
		c.PhysicMsgTimestampMs = max(c.PhysicMsgTimestampMs, lastMs)
	}
	c.LogFlushedOffset = flushed
	if c != v.checkpoint {
		switch err := writeCheckpoint(v.s.fs, v.s.layout.CheckpointPath(), c); {
		case diskFull(err): // the same
			v.s.logger.Warn("checkpoint is not written", slog.Any("err", err))
		case err != nil:
			return err
		default:
			v.checkpoint = c
		}
	}
	return v.noteRebuild(from)
}

// mark returns how far dispatch is: the last record, and for file queues what comes next in each. Nothing while a queue is broken, or what was passed over is in doubt: then not all units are there.
func (v *views) mark() (last, lastMs int64, note *queueOffsets) {
	v.view.mu.Lock()
	defer v.view.mu.Unlock()
	last, lastMs = v.dispatchedLocked()
	if len(v.view.mu.broken) > 0 || v.sides.lacks(cq.KindFile) != nil || v.follow.doubt.Load() {
		return last, lastMs, nil
	}
	if v.learns() {
		note = &queueOffsets{phyOffset: v.view.mu.delivered, last: v.view.mu.last, next: v.view.offsetsLocked(), found: v.view.mu.beginsFound}
	}
	return last, lastMs, note
}

// dispatchedLocked returns the last record up to which the checkpoint may say that all queues have their units, -1 for none: not while a queue is broken or records
// were passed over of which it is not clear that the fault is theirs, and not where there are batch queues, whose units RocketMQ has to make from where the checkpoint stands.
func (v *views) dispatchedLocked() (last, lastMs int64) {
	if len(v.view.mu.broken) > 0 || v.view.batchQueuesLocked() > 0 || v.sides.lacks(cq.KindFile) != nil || v.follow.doubt.Load() {
		return -1, 0
	}
	return v.follow.lastDelivered()
}

// How often a closing store looks whether its views have come to the end of the log, and after how long it says that it waits for them.
const (
	drainStep = 2 * time.Millisecond
	drainTold = time.Second
)

// drain waits until the views are at the end of the log, as far as they can come there soon: what is being built again is not waited for.
func (v *views) drain(ctx context.Context) {
	begin, told := time.Now(), time.Now()
	for v.s.writer.Failure() == nil && ctx.Err() == nil && !v.s.replacing.alone() {
		if !v.owes(v.follow) && !v.owesIndex() {
			return
		}
		if time.Since(told) >= drainTold {
			told = time.Now()
			v.s.logger.Info("the store is closed when its views are at the end of the log", slog.Int64("bytes", v.behind()), slog.Duration("waited", time.Since(begin)))
		}
		select {
		case <-v.stopped:
			return
		case <-time.After(drainStep):
		}
	}
}

// close brings the queues to the end of the log, makes them durable and closes them. left says what could not be done: then the store was
// not left in order. What is being built again is left where it is, and goes on from there when the store is next opened.
func (v *views) close(ctx context.Context) (left, err error) {
	if r := v.rebuild.Load(); r.ended() {
		v.drain(ctx)
		left = v.compareAtClose(ctx)
		left = errors.Join(left, v.mendAtClose(ctx), v.sides.lacking())
	} else {
		left = fmt.Errorf("the consume queues are being built from the log, up to %d of %d", v.follow.from.Load(), r.to)
	}
	left = errors.Join(left, v.s.replacing.left())
	v.stop()
	v.running.Wait()
	if n := v.view.brokenNow.Load(); n > 0 {
		left = errors.Join(left, fmt.Errorf("%d queues lack units", n))
	}
	if n := v.behind(); n > 0 {
		left = errors.Join(left, fmt.Errorf("%d bytes of the log are not dispatched to the consume queues", n), v.follow.failure())
	}
	if n, why := v.owedIndexes(); n > 0 {
		left = errors.Join(left, fmt.Errorf("%d bytes of the log are not dispatched to the index", n), why)
	}
	if err := v.flush(context.WithoutCancel(ctx)); err != nil {
		left = errors.Join(left, err)
	}
	for _, x := range v.indexes(true) {
		left = errors.Join(left, x.close())
	}
	err = v.queues.Close()
	v.flushing.Lock()
	defer v.flushing.Unlock()
	v.noteManifest() // closing may have added to it
	return left, err
}

// compareAtClose waits until the queues have been compared with the log, unless a side of them is still being built.
func (v *views) compareAtClose(ctx context.Context) error {
	if v.sides.lacks(v.sides.heldKind()) != nil {
		return nil
	}
	select {
	case <-v.verified:
		return nil
	case <-ctx.Done():
		return errors.New("not all queues were compared with the log")
	}
}

// mendAtClose mends what is broken, unless it takes long.
func (v *views) mendAtClose(ctx context.Context) error {
	long := func(from int64) bool { return !v.s.waits && v.follow.from.Load()-from > v.s.rebuildBytes }
	var err error
	if v.sides != nil && !long(max(v.s.Log().MinOffset(), 0)) {
		err = v.sides.mend(ctx)
	}
	if v.view.brokenNow.Load() == 0 || long(v.view.mendFrom(v.s.Log())) {
		return err
	}
	return errors.Join(err, v.view.mend(ctx, v.s.writer.Log()))
}

// owes tells whether a follower has something to do, and does it.
func (v *views) owes(f *follower) bool {
	return f.failure() == nil && f.full.Load() == 0 && f.from.Load() < v.s.writer.Positions().Wrote
}

// owesIndex tells whether an index has something to do that is waited for, and does it.
func (v *views) owesIndex() bool {
	for _, x := range v.indexes(false) {
		f := x.feed().follow
		if v.owes(f) && (v.s.waits || v.s.writer.Positions().Wrote-f.from.Load() <= max(v.s.rebuildBytes, followBatchBytes)) {
			return true
		}
	}
	return false
}

// behind returns how many bytes of the log have no units yet.
func (v *views) behind() int64 { return v.s.writer.Positions().Wrote - v.follow.from.Load() }

// tooFarBehind tells whether puts have to wait for the queues: for what was put since the store was opened, not for what was lost before.
func (v *views) tooFarBehind() bool {
	limit := v.s.live().MaxDispatchBehindBytes
	if limit <= 0 {
		return false
	}
	from := v.follow.from.Load()
	if r := v.rebuild.Load(); r != nil {
		from = max(from, r.to)
	}
	return v.s.writer.Positions().Wrote-from > limit
}
