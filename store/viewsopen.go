package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/file"
)

// openViews opens the consume queues, brings them to the end of the log, or begins with that, and starts what keeps them there. unclean tells that the
// store was not closed in order.
//
// Three steps make the queues agree with the log, whatever is in them: units of records that the log does not have are cut off; everything from where
// the queues are known to be complete is dispatched again, repeats being accepted; and what then does not fit is mended from the log. More than
// rebuildBytes are dispatched while the store serves (rebuild.go).
func (s *Store) openViews(unclean bool) (err error) {
	v := &views{s: s, broken: make(chan struct{}, 1), repaced: make(chan struct{}, 1), verified: make(chan struct{}), noted: -1}
	v.batches = s.o.IsBatchTopic != nil && (s.o.HasBatchTopics == nil || s.o.HasBatchTopics())
	if v.checkpoint, _, err = readCheckpoint(s.fs, s.layout.CheckpointPath(), time.Now()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Warn("checkpoint is not used", slog.Any("err", err)) // costs time, and nothing else
		v.checkpoint = Checkpoint{}
	}
	s.replacing.off.Store(s.waits && !s.replaces || s.o.QueueDamagePolicy == QueueDamageRefuse)
	if err := v.openQueues(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.queues.Close())
		}
	}()
	ctx := context.Background()
	end := s.writer.Positions().Confirm
	var damaged *cq.DamagedError
	if err := v.cut(ctx, end); err != nil && !errors.As(err, &damaged) {
		return err
	}
	levels, err := s.o.DelayLevels()
	if err != nil {
		return err
	}
	v.view = newQueueView(v.queues, levels, s.dispatchesLight(), s.isBatchTopic, s.logger)
	if v.sides != nil {
		v.view.served = v.sides.store.Served
	}
	v.view.lightOffsets = s.o.EnableLmq
	v.view.onBroken = v.kickMending
	v.view.onNew, v.view.onMended = s.arrivals.note, s.arrivals.noteQueue
	if v.sides != nil {
		v.view.elsewhere = v.sides.fills
	}
	if damaged != nil {
		v.breakDamaged(damaged)
	}
	if err := v.align(ctx, v.plan(s.writer.Log(), unclean, end)); err != nil {
		return err
	}
	if v.sides != nil {
		if err := v.sides.loadComparison(unclean); err != nil {
			return err
		}
	}
	if err := s.loadOffsets(v); err != nil {
		return err
	}
	v.openIndexes(unclean, levels)
	if end == 0 {
		if err := noteNothing(s.fs, s.layout.CheckpointPath()); err != nil {
			return err
		}
	}
	s.views = v
	if !s.waits {
		v.noteKept()
	}
	v.noteManifest()
	v.start()
	return nil
}

// breakDamaged has file queues built again that could not be cut.
func (v *views) breakDamaged(damaged *cq.DamagedError) {
	v.view.mu.Lock()
	defer v.view.mu.Unlock()
	for _, k := range damaged.Keys {
		if v.sides != nil {
			v.sides.store.MarkDiverged(cq.KindFile, k, damaged.Err)
		} else {
			v.view.breakLocked(k, damaged.Err)
		}
	}
}

// cut removes the units of records at or above end, which the log lost.
func (v *views) cut(ctx context.Context, end int64) error {
	if v.sides == nil {
		return cutQueues(ctx, v.queues, end)
	}
	if err := cutQueues(ctx, v.sides.side(cq.KindRocks), end); err != nil {
		return err
	}
	return v.queues.TruncateDirty(ctx, end)
}

// cutQueues removes the units of records at or above end, which the log lost. A queue whose other messages have all expired loses its last unit by that, and its max with
// it; RocksDB has the max in a row, and keeps it: no slot is given twice. (Of file queues, the queue offsets know.)
func cutQueues(ctx context.Context, queues cq.Store, end int64) error {
	if k, ok := queues.(interface {
		TruncateDirtyKeepingMax(ctx context.Context, phyOffset int64) error
	}); ok {
		return k.TruncateDirtyKeepingMax(ctx, end)
	}
	return queues.TruncateDirty(ctx, end)
}

// hasFiles tells whether there are file queues, which cannot tell by themselves how far they are.
func (v *views) hasFiles() bool { return v.queues.Kind() != cq.KindRocks }

// alignment is how the queues are brought to agree with the log.
type alignment struct {
	log        *commitlog.Log
	begin, end int64 // of the log
	from       int64 // below it the queues are complete
	lost       bool  // there are no queues at all
	online     bool  // there is so much to dispatch that nobody is to wait for it
	unclean    bool
	mark       int64 // how far file queues are that were being built again, -1 when they were not
	note       *queueOffsets

	behind *rebuild // the side of a combined store that is not fed by dispatch until it has come to where the other is; nil: none
	side   cq.Kind  // that side
}

// plan finds out from where the log has to be dispatched.
func (v *views) plan(log *commitlog.Log, unclean bool, end int64) *alignment {
	a := &alignment{log: log, end: end, begin: min(max(log.MinOffset(), 0), end), unclean: unclean}
	a.lost = v.lost() && end > a.begin
	if v.learns() || a.lost {
		a.note = v.readNote(log, end)
	}
	a.lost = a.lost && (a.note == nil || a.note.owesUnits())
	a.mark = v.readRebuildMark(log, end)
	if v.sides != nil {
		v.sides.plan(a)
	} else {
		a.from = v.standing(v.queues, a)
		a.online = a.mark >= 0
	}
	a.online = a.online || end-a.from > v.s.rebuildBytes
	return a
}

// standing returns the physical offset below which a store of queues of one kind is complete, and notes how that is known.
func (v *views) standing(q cq.Store, a *alignment) int64 {
	from, why := v.dispatchFrom(q, a)
	switch {
	case a.lost:
		from, why = a.begin, "there are no queues"
	case q.Kind() != cq.KindFile:
	case a.mark >= 0:
		from, why = a.mark, "a catch-up that was cut off came so far (tandemmq/"+rebuildMarkName+")"
	case a.note != nil && (!a.unclean || a.note.phyOffset > from): // a catch-up that was cut off has noted its progress in the checkpoint
		from, why = a.note.phyOffset, "tandemmq/"+queueOffsetsName
	}
	from = recordFrom(a.log, from, a.end) // RocksDB's row may stand before it (F1); and any of these may be of a record that a repair has written over
	v.starts = append(v.starts, viewStart{name: string(q.Kind()) + " queues", from: from, why: why})
	return from
}

// viewStart tells from where on a view is dispatched to, and how that is known.
type viewStart struct {
	name string
	from int64
	why  string
}

// align brings the queues to the end of the log. Where that takes long, it is only begun: then the log is read for what puts have to know.
func (v *views) align(ctx context.Context, a *alignment) error {
	if err := v.loadBroken(a.lost); err != nil {
		return err
	}
	if err := v.oweEnds(a); err != nil {
		return err
	}
	mendLater := a.end-a.begin > v.s.rebuildBytes
	learnFrom := int64(-1)
	switch {
	case v.learns() || v.endsOwed || v.view.brokenNow.Load() > 0 && mendLater: // from the log's beginning
	case a.online:
		learnFrom = a.from // RocksDB knows of what is below
	default:
		learnFrom = a.end
	}
	if err := v.learnQueues(a.log, a.note, learnFrom, a.end); err != nil {
		return err
	}
	v.learnEnds()
	v.view.mu.delivered = a.from
	if a.behind != nil {
		if err := v.sides.begin(a); err != nil {
			return err
		}
	}
	if a.lost {
		v.view.freshBelow = a.end
		if a.begin > 0 && a.note == nil && !v.endsOwed {
			v.s.logger.Error("all consume queues were lost, and the log's beginning has expired: a queue whose records are all gone begins at 0 again", slog.Int64("phyOffset", a.begin))
		}
	}
	v.follow = newFollower(v.view, a.log, v.s.logger, a.from)
	v.follow.uncommitted, v.follow.settleAhead = v.s.o.ReadUnCommitted, v.s.settleAhead
	if v.s.o.rebuildStep != nil {
		v.follow.settleAhead = 1 // each step is told
	}
	if a.online {
		if err := v.beginRebuild(a.from, a.end); err != nil || !v.s.waits {
			return err
		}
		if err := v.runRebuild(ctx); err != nil {
			return fmt.Errorf("build consume queues from the log: %w", err)
		}
	} else if a.from < a.end {
		v.s.logger.Info("consume queues are brought up to the log", slog.Int64("phyOffset", a.from), slog.Int64("bytes", a.end-a.from))
		if err := v.follow.catchUp(ctx, a.end, v.catchingUp(ctx, a.from, a.end)); err != nil {
			return fmt.Errorf("bring consume queues up to the log: %w", err)
		}
	}
	if err := v.keepEnds(ctx); err != nil {
		return err
	}
	if mendLater && !v.s.waits {
		return nil // onBroken was told
	}
	return v.view.mend(ctx, a.log)
}

// openQueues opens the store of consume queues that the options name.
//
// Source: ConsumeQueueStoreFactory, 5.5.0.
func (v *views) openQueues() (err error) {
	s := v.s
	minPhy := max(s.writer.Log().MinOffset(), 0)
	switch hasFile, hasRocks := s.o.sides(); {
	case hasFile && hasRocks:
		v.sides, err = openSides(v, minPhy)
		if err == nil {
			v.queues = v.sides.store
		}
	case hasRocks:
		v.queues, err = s.openRocks(minPhy)
	default:
		if _, _, _, err := s.layout.FindRocks(); err != nil {
			return err
		}
		v.queues, err = s.openFiles(minPhy)
	}
	return err
}

func (s *Store) openFiles(minPhy int64) (cq.Store, error) {
	dir := s.layout.ConsumeQueueDir()
	if n, err := file.DetectFileBytes(dir); err != nil {
		return nil, err
	} else if n != 0 && n != s.o.queueFileBytes() {
		return nil, fmt.Errorf("mappedFileSizeConsumeQueue is %d, and the queue files in %s have %d bytes: set it to that", s.o.queueFileBytes(), dir, n)
	}
	o := file.Options{FileSizeBytes: s.o.queueFileBytes(), MinPhyOffset: minPhy, ExtDir: s.layout.ExtDir(), KeepDamage: s.o.QueueDamagePolicy == QueueDamageRefuse, Logger: s.o.Logger}
	if _, hasRocks := s.o.sides(); hasRocks { // it is open
		if _, place, found, err := s.layout.FindRocks(); err == nil && found && place == RocksShared {
			o.Reserved = IsRocksFile
		}
	}
	return file.Open(dir, o)
}

// dispatchesLight tells whether records get units in further queues.
//
// Source: ConsumeQueue.putMessagePositionInfoWrapper, RocksDBConsumeQueueStore.dispatchLMQ, 5.5.0: files want enableMultiDispatch besides.
func (s *Store) dispatchesLight() bool {
	_, hasRocks := s.o.sides()
	return s.o.EnableLmq && (s.o.EnableMultiDispatch || hasRocks)
}

// filesHaveLight tells whether file queues get units of light queues.
func (s *Store) filesHaveLight() bool {
	hasFile, hasRocks := s.o.sides()
	return hasFile && s.o.EnableMultiDispatch && (!hasRocks || !s.o.CombineCQUseRocksdbForLmq)
}

// dispatchFrom returns the physical offset from which the log has to be dispatched again, so that the queues lack nothing.
//
//	RocksDB                   its checkpoint row, which is flushed together with the units it speaks of: the end of a record, or, after a migration, the byte before
//	                          (F1): the beginning of the next record counts
//	files, clean stop         the end of the last record that any queue has: units are appended in the order of the log
//	files, unclean stop       logicsPhysicalOffset of the checkpoint, the beginning of a record up to which all was flushed; without one,
//	                          and with none that fits the log, the log's beginning: files keep no note of their own
//
// A value that is too low costs time. There is no limit on how far back it may lie (W15).
//
// Source: ConsumeQueueStore.getDispatchFromPhyOffset, CommitLog.recoverAbnormally, 5.5.0.
func (v *views) dispatchFrom(q cq.Store, a *alignment) (from int64, why string) {
	from, why = q.DispatchFrom(), "the end of the last record that has a unit"
	switch {
	case q.Kind() == cq.KindRocks:
		why = "the checkpoint row of RocksDB"
	case a.unclean:
		from, why = v.checkpoint.LogicsPhysicalOffset, "logicsPhysicalOffset of the checkpoint"
		if from <= 0 || from > a.end {
			from = -1
		}
	}
	if from < 0 {
		why = "the log's beginning: nothing says how far they are"
	}
	from = min(max(from, a.begin), a.end)
	return from, why
}

// lost tells whether there are no queues at all.
func (v *views) lost() bool {
	if v.sides != nil {
		return v.sides.lost()
	}
	return v.queues.DispatchFrom() < 0
}

// learns tells whether the log is asked what comes next in each queue. RocksDB queues need not be, a row of theirs has the max offset; but
// batch queues are in no store of queues.
func (v *views) learns() bool { return v.hasFiles() || v.batches }

// readNote returns the file queue-offsets if it fits the log, nil otherwise.
func (v *views) readNote(log *commitlog.Log, end int64) *queueOffsets {
	note, err := readQueueOffsets(v.s.fs, v.s.layout.queueOffsetsPath())
	switch {
	case err != nil:
		v.s.logger.Warn("queue offsets are read from the log", slog.Any("err", err))
		return nil
	case note == nil:
		return nil
	case note.fits(log, end):
		return note
	}
	v.s.logger.Warn("queue offsets are read from the log: what was noted is about another one", slog.Int64("phyOffset", note.phyOffset))
	if err := removeQueueOffsets(v.s.fs, v.s.layout.queueOffsetsPath()); err != nil {
		v.s.logger.Error("queue offsets that do not fit the log stay", slog.Any("err", err))
	}
	return nil
}

// learnQueues finds out what comes next in each queue, by the log: what the note says, and the records behind it; without a note the records from a physical offset on, -1 for all.
func (v *views) learnQueues(log *commitlog.Log, note *queueOffsets, from, end int64) error {
	if from == end {
		return nil
	}
	if note != nil {
		from = note.phyOffset
		v.view.mu.last, v.view.added = note.last, note.last
		for k, state := range note.next {
			v.view.mu.known[k] = &state
		}
	}
	if from == end || end <= 0 {
		return nil
	}
	from = max(from, log.MinOffset(), 0)
	v.s.logger.Info("the log is read for the offsets of its queues", slog.Int64("phyOffset", from), slog.Int64("bytes", end-from))
	begin := time.Now()
	told, report := begin, v.s.phase("offsets of queues", end-from, "bytes")
	s := log.Scanner(from, commitlog.ScanOptions{To: end})
	defer func() { s.Close() }()
	f := newFollower(v.view, log, v.s.logger, from)
	for {
		for n := 1; s.Next(); n++ {
			if err := f.addOne(s.Record()); err != nil {
				return fmt.Errorf("read the log for the offsets of its queues: %w", err)
			}
			if n%followBatchRecords == 0 {
				v.view.learn()
				done := s.Record().PhyOffset - from
				report(done)
				if time.Since(told) >= rebuildTold {
					told = time.Now()
					v.s.logger.Info("the log is read for the offsets of its queues", slog.Int64("done", done), slog.Int64("bytes", end-from), slog.Int64("bytesPerSecond", perSecond(done, begin)))
				}
			}
		}
		v.view.learn()
		var damage *commitlog.EndError
		switch {
		case s.Err() == nil:
			return nil
		case !errors.As(s.Err(), &damage) || damage.NextValid < 0:
			return s.Err()
		}
		s.Close()
		s = log.Scanner(damage.NextValid, commitlog.ScanOptions{To: end})
	}
}

// loadOffsets lets puts find out which offset comes next: what the log says, and for a queue of which the log has no record left, what the queue says.
func (s *Store) loadOffsets(v *views) error {
	ends := make(map[cq.Key]int64, len(v.view.mu.known)) // nobody else has the view yet
	for k, q := range v.view.mu.known {
		ends[k] = q.next
	}
	v.ends.Store(&ends)
	s.offsets.load = func(topic string, id int32) (int64, error) {
		k := cq.Key{Topic: topic, QueueID: id}
		next := v.nextAtOpen(k)
		if v.sides != nil {
			return v.sides.next(k, next)
		}
		q, ok := v.queues.Queue(k)
		if !ok {
			if s.closed.Load() {
				return 0, ErrClosed // the queues are closed as well, and would say that there is none
			}
			return next, nil
		}
		b, err := q.Bounds()
		if m, ok := q.(interface{ Max() int64 }); ok && err != nil {
			next = max(next, m.Max()) // a row of RocksDB that can be read when its units cannot
		}
		if err != nil && next > 0 {
			return next, nil // it is being built again
		}
		return max(next, b.Max), err
	}
	s.offsets.light.Store(0)
	if s.lightLimit() < 0 {
		return nil
	}
	for k, err := range v.queues.Queues() {
		if err != nil {
			return err
		}
		if k.IsLMQ() {
			s.offsets.light.Add(1)
		}
	}
	return nil
}
