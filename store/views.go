package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/cq/rocks"
)

// views are what the store derives from its log, each with its follower, and what keeps them durable.
type views struct {
	s      *Store
	queues cq.Store
	view   *queueView
	follow *follower
	index  *indexView // nil: none

	stop    context.CancelFunc
	running sync.WaitGroup
	broken  chan struct{} // there are queues to mend

	verified chan struct{} // closed when the queues have been compared with the log

	flushing   sync.Mutex // one flush at a time
	checkpoint Checkpoint // as last written; guarded by flushing
	noted      int64      // position of the queue offsets last written; guarded by flushing

	// durableTo is the physical offset below which every unit is durable, in queues that are whole: what the log may lose. 0 until the first flush.
	durableTo atomic.Int64
}

// openViews opens the consume queues, brings them to the end of the log and starts what keeps them there. unclean tells that the
// store was not closed in order.
//
// Three steps make the queues agree with the log, whatever is in them: units of records that the log does not have are cut off; everything from where
// the queues are known to be complete is dispatched again, repeats being accepted; and what then does not fit is mended from the log.
func (s *Store) openViews(unclean bool) (err error) {
	v := &views{s: s, broken: make(chan struct{}, 1), noted: -1}
	if v.checkpoint, _, err = readCheckpoint(s.fs, s.layout.CheckpointPath(), time.Now()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Warn("checkpoint is not used", slog.Any("err", err)) // costs time, and nothing else
		v.checkpoint = Checkpoint{}
	}
	if v.queues, err = s.openQueues(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.queues.Close())
		}
	}()
	log := s.writer.Log()
	end := s.writer.Positions().Confirm
	ctx := context.Background()
	if err := v.queues.TruncateDirty(ctx, end); err != nil {
		return err
	}
	levels, err := s.o.DelayLevels()
	if err != nil {
		return err
	}
	v.view = newQueueView(v.queues, levels, s.dispatchesLight(), s.isBatchTopic, s.logger)
	v.view.lightOffsets = s.o.EnableLmq
	v.view.onBroken = v.kickMending
	note := v.readNote(log, end)
	from := v.dispatchFrom(log, unclean, end)
	if note != nil && v.queues.Kind() == cq.KindFile && (!unclean || note.phyOffset > from) { // a catch-up that was cut off has noted its progress in the checkpoint
		from = note.phyOffset
	}
	if v.learns() {
		if err := v.learnQueues(log, note, end); err != nil {
			return err
		}
	}
	v.view.mu.delivered = from
	if v.queues.Kind() != cq.KindFile { // files have the queue offsets to compare with
		if err := v.loadBroken(); err != nil {
			return err
		}
	}
	v.follow = newFollower(v.view, log, s.logger, from)
	v.follow.uncommitted = s.o.ReadUnCommitted
	if from < end {
		s.logger.Info("consume queues are brought up to the log", slog.Int64("phyOffset", from), slog.Int64("bytes", end-from))
		if err := v.follow.catchUp(ctx, end, v.catchingUp(ctx, from, end)); err != nil {
			return fmt.Errorf("bring consume queues up to the log: %w", err)
		}
	}
	if err := v.view.mend(ctx, log); err != nil {
		return err
	}
	if err := s.loadOffsets(v); err != nil {
		return err
	}
	if s.o.MessageIndexEnable {
		if v.index, err = s.openIndex(&v.checkpoint, unclean, levels); err != nil {
			s.reportIndex(err)
			err = nil
		}
	}
	if end == 0 {
		if err := noteNothing(s.fs, s.layout.CheckpointPath()); err != nil {
			return err
		}
	}
	s.views = v
	v.start()
	return nil
}

// openQueues opens the store of consume queues that storeType names.
//
// Source: ConsumeQueueStoreFactory, 5.5.0.
func (s *Store) openQueues() (cq.Store, error) {
	dir, _, found, err := s.layout.FindRocks()
	if err != nil {
		return nil, err
	}
	minPhy := max(s.writer.Log().MinOffset(), 0)
	if s.o.StoreType == StoreTypeRocksDB {
		if !found {
			layout := RocksShared
			if s.o.UseSeparateStorePathForRocksdbCQ {
				layout = RocksSeparate
			}
			dir = s.layout.RocksDir(layout)
			if err := makeDir(s.fs, dir); err != nil {
				return nil, err
			}
		}
		o := rocks.DefaultOptions()
		o.Create, o.MinPhyOffset, o.Logger = true, minPhy, s.o.Logger
		return rocks.Open(dir, o)
	}
	return file.Open(s.layout.ConsumeQueueDir(), file.Options{
		FileSizeBytes: s.o.queueFileBytes(), MinPhyOffset: minPhy, ExtDir: s.layout.ExtDir(), Logger: s.o.Logger,
	})
}

// dispatchesLight tells whether records get units in further queues.
//
// Source: ConsumeQueue.putMessagePositionInfoWrapper, RocksDBConsumeQueueStore.dispatchLMQ, 5.5.0: files want enableMultiDispatch besides.
func (s *Store) dispatchesLight() bool {
	return s.o.EnableLmq && (s.o.EnableMultiDispatch || s.o.StoreType == StoreTypeRocksDB)
}

// dispatchFrom returns the physical offset from which the log has to be dispatched again, so that the queues lack nothing.
//
//	RocksDB                   its checkpoint row, which is flushed together with the units it speaks of: the end of a record
//	files, clean stop         the end of the last record that any queue has: units are appended in the order of the log
//	files, unclean stop       logicsPhysicalOffset of the checkpoint, the beginning of a record up to which all was flushed; without one,
//	                          and with none that fits the log, the log's beginning: files keep no note of their own
//
// A value that is too low costs time. There is no limit on how far back it may lie (W15).
//
// Source: ConsumeQueueStore.getDispatchFromPhyOffset, CommitLog.recoverAbnormally, 5.5.0.
func (v *views) dispatchFrom(log *commitlog.Log, unclean bool, end int64) int64 {
	from := v.queues.DispatchFrom()
	if unclean && v.queues.Kind() == cq.KindFile {
		from = v.checkpoint.LogicsPhysicalOffset
		if from <= 0 || from > end {
			from = -1
		}
	}
	return min(max(from, log.MinOffset(), 0), end)
}

// learns tells whether the log is asked what comes next in each queue. RocksDB queues need not be, a row of theirs has the max offset; but
// batch queues are in no store of queues.
func (v *views) learns() bool { return v.queues.Kind() == cq.KindFile || v.s.o.IsBatchTopic != nil }

// readNote returns the file queue-offsets if it fits the log, nil otherwise.
func (v *views) readNote(log *commitlog.Log, end int64) *queueOffsets {
	if !v.learns() {
		return nil
	}
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

// learnQueues finds out what comes next in each queue, by the log: what the note says, and the records behind it; without a note all records.
func (v *views) learnQueues(log *commitlog.Log, note *queueOffsets, end int64) error {
	from := int64(-1)
	if note != nil {
		from = note.phyOffset
		v.view.mu.last, v.view.added = note.last, note.last
		for k, state := range note.next {
			v.view.mu.known[k] = &state
		}
	}
	if from == end {
		return nil
	}
	if note == nil && end > 0 {
		v.s.logger.Info("the log is read for the offsets of its queues", slog.Int64("bytes", end-max(log.MinOffset(), 0)))
	}
	s := log.Scanner(from, commitlog.ScanOptions{To: end})
	defer func() { s.Close() }()
	for {
		for n := 1; s.Next(); n++ {
			v.view.add(s.Record())
			if n%followBatchRecords == 0 {
				v.view.learn()
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
	byLog := make(map[cq.Key]int64, len(v.view.mu.known)) // nobody else has the view yet, and nobody changes this
	for k, q := range v.view.mu.known {
		byLog[k] = q.next
	}
	s.offsets.load = func(topic string, id int32) (int64, error) {
		k := cq.Key{Topic: topic, QueueID: id}
		next := byLog[k]
		q, ok := v.queues.Queue(k)
		if !ok {
			if s.closed.Load() {
				return 0, ErrClosed // the queues are closed as well, and would say that there is none
			}
			return next, nil
		}
		b, err := q.Bounds()
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

// start starts the follower, the mending and the flush.
func (v *views) start() {
	ctx, cancel := context.WithCancel(context.Background())
	v.stop = cancel
	v.running.Go(func() {
		v.follow.run(ctx, v.s.writer)
		if err := v.follow.failure(); err != nil {
			v.s.setFlag(FlagLogicsQueueError, err)
		}
	})
	if v.index != nil {
		v.running.Go(func() { v.index.follow.run(ctx, v.s.writer) })
	}
	v.running.Go(func() { v.mendBroken(ctx) })
	v.verified = make(chan struct{})
	v.running.Go(func() {
		defer close(v.verified)
		if v.queues.Kind() == cq.KindFile {
			v.view.verify(ctx)
		}
	})
	v.running.Go(func() { v.flushNowAndThen(ctx) })
}

func (v *views) kickMending() {
	select {
	case v.broken <- struct{}{}:
	default:
	}
}

// mendAgain is after how long a mending that failed is tried again.
const mendAgain = 10 * time.Second

// mendBroken mends queues as they are found broken.
func (v *views) mendBroken(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.broken:
		}
		if err := v.view.mend(ctx, v.s.writer.Log()); err != nil && ctx.Err() == nil {
			v.s.logger.Error("queues could not be built again", slog.Any("err", err), slog.Duration("retryIn", mendAgain))
			time.AfterFunc(mendAgain, v.kickMending)
		}
	}
}

// flushNowAndThen bounds what has to be dispatched again after a crash.
func (v *views) flushNowAndThen(ctx context.Context) {
	t := time.NewTicker(v.s.o.FlushConsumeQueueThoroughInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := v.flush(ctx); err != nil && ctx.Err() == nil {
				v.s.setFlag(FlagLogicsQueueError, err)
			}
		}
	}
}

// flush makes the queues durable up to where dispatch is now, and notes it in the checkpoint. The checkpoint never says more than what is durable in the log too.
func (v *views) flush(ctx context.Context) error {
	v.flushing.Lock()
	defer v.flushing.Unlock()
	from := v.follow.from.Load()
	whole := v.view.brokenNow.Load() == 0 // in this order: what is below from was delivered, or its queue is known to be broken
	last, lastMs, note := v.mark()
	if err := v.s.writer.Flush(); err != nil { // no unit is durable before its record
		return err
	}
	flushed := v.s.writer.Positions().Flushed
	if err := v.queues.Flush(ctx); err != nil {
		return fmt.Errorf("flush consume queues: %w", err)
	}
	if whole {
		v.durableTo.Store(from)
	}
	if note != nil && note.phyOffset != v.noted {
		switch err := writeQueueOffsets(v.s.fs, v.s.layout.queueOffsetsPath(), note); {
		case diskFull(err): // a note that is old or missing costs time; the units are durable (W42)
			v.s.logger.Warn("queue offsets are not noted", slog.Any("err", err))
		case err != nil:
			return err
		default:
			v.noted = note.phyOffset
		}
	}
	c := v.checkpoint
	if v.index != nil {
		ms, err := v.index.flush()
		if err != nil {
			v.s.logger.Error("index could not be made durable", slog.Any("err", err))
		} else {
			c.IndexMsgTimestampMs = max(c.IndexMsgTimestampMs, ms)
		}
	}
	if last >= 0 && last < flushed {
		c.LogicsPhysicalOffset, c.LogicsMsgTimestampMs = last, lastMs
		c.PhysicMsgTimestampMs = max(c.PhysicMsgTimestampMs, lastMs)
	}
	if c == v.checkpoint {
		return nil
	}
	switch err := writeCheckpoint(v.s.fs, v.s.layout.CheckpointPath(), c); {
	case diskFull(err): // the same
		v.s.logger.Warn("checkpoint is not written", slog.Any("err", err))
	case err != nil:
		return err
	default:
		v.checkpoint = c
	}
	return nil
}

// mark returns how far dispatch is: the last record, and for file queues what comes next in each. Nothing while a queue is broken: then not all units are there.
func (v *views) mark() (last, lastMs int64, note *queueOffsets) {
	v.view.mu.Lock()
	defer v.view.mu.Unlock()
	last, lastMs = v.dispatchedLocked()
	if len(v.view.mu.broken) > 0 {
		return last, lastMs, nil
	}
	if v.learns() {
		note = &queueOffsets{phyOffset: v.view.mu.delivered, last: v.view.mu.last, next: v.view.offsetsLocked()}
	}
	return last, lastMs, note
}

// dispatchedLocked returns the last record up to which the checkpoint may say that all queues have their units, -1 for none: not while a queue is broken,
// and not where there are batch queues, whose units RocketMQ has to make from where the checkpoint stands.
func (v *views) dispatchedLocked() (last, lastMs int64) {
	if len(v.view.mu.broken) > 0 || v.view.batchQueuesLocked() > 0 {
		return -1, 0
	}
	return v.follow.lastDelivered()
}

// drainStep is how often a closing store looks whether its views have come to the end of the log.
const drainStep = 2 * time.Millisecond

// close brings the queues to the end of the log, makes them durable and closes them. left says what could not be done: then the store was
// not left in order.
func (v *views) close(ctx context.Context) (left, err error) {
	for (v.owes(v.follow) || v.index != nil && v.owes(v.index.follow)) && v.s.writer.Failure() == nil && ctx.Err() == nil {
		time.Sleep(drainStep)
	}
	select {
	case <-v.verified:
	case <-ctx.Done():
		left = errors.Join(left, errors.New("not all queues were compared with the log"))
	}
	if err := v.view.mend(ctx, v.s.writer.Log()); err != nil {
		left = errors.Join(left, err)
	}
	v.stop()
	v.running.Wait()
	if n := v.view.brokenNow.Load(); n > 0 {
		left = errors.Join(left, fmt.Errorf("%d queues lack units", n))
	}
	if n := v.behind(); n > 0 {
		left = errors.Join(left, fmt.Errorf("%d bytes of the log are not dispatched to the consume queues", n), v.follow.failure())
	}
	if v.index != nil && v.indexBehind() > 0 {
		left = errors.Join(left, fmt.Errorf("%d bytes of the log are not dispatched to the index", v.indexBehind()), v.index.follow.failure())
	}
	if err := v.flush(context.WithoutCancel(ctx)); err != nil {
		left = errors.Join(left, err)
	}
	if v.index != nil {
		left = errors.Join(left, v.index.close())
	}
	return left, v.queues.Close()
}

// owes tells whether a follower has something to do, and does it.
func (v *views) owes(f *follower) bool {
	return f.failure() == nil && !f.full.Load() && f.from.Load() < v.s.writer.Positions().Wrote
}

func (v *views) indexBehind() int64 { return v.s.writer.Positions().Wrote - v.index.follow.from.Load() }

// behind returns how many bytes of the log have no units yet.
func (v *views) behind() int64 { return v.s.writer.Positions().Wrote - v.follow.from.Load() }

// tooFarBehind tells whether puts have to wait for the queues.
func (v *views) tooFarBehind() bool {
	limit := v.s.o.MaxDispatchBehindBytes
	return limit > 0 && v.behind() > limit
}

// Watermarks are how far the parts of a store have come, as physical offsets. MinPhyOffset is where the log begins; everything below each of the others is done.
type Watermarks struct {
	MinPhyOffset int64 `json:"minPhyOffset"`
	Appended     int64 `json:"appended"`
	Committed    int64 `json:"committed"` // readable
	Flushed      int64 `json:"flushed"`   // durable
	Confirmed    int64 `json:"confirmed"` // where readers of messages stop
	// Views tells of what is derived from the log, by name: "file queues" or "rocks queues", and "index".
	Views map[string]ViewMark `json:"views"`
}

// ViewMark is how far a view has come.
type ViewMark struct {
	Dispatched  int64  `json:"dispatched"`        // every record below is in the view
	Durable     int64  `json:"durable"`           // and durable there; -1 when this process has not made anything durable yet
	BehindBytes int64  `json:"behindBytes"`       // of the log that is not in the view
	BehindMs    int64  `json:"behindMs"`          // from the store time of the last record in the view to now; 0 when nothing is behind
	PassedOver  int64  `json:"passedOver"`        // records that the view could not take
	HoleBytes   int64  `json:"holeBytes"`         // of the log that are no record and were passed over
	Conflicts   int64  `json:"conflicts"`         // records whose slot another has
	Unsupported int64  `json:"unsupported"`       // units of kinds that this version does not keep
	Broken      int    `json:"broken"`            // queues that are being built again
	Failure     string `json:"failure,omitempty"` // why dispatch has stopped
}

// Watermarks returns how far everything has come. Each value was true at some moment during the call.
func (s *Store) Watermarks() Watermarks {
	p := s.log.Positions()
	m := Watermarks{MinPhyOffset: max(s.Log().MinOffset(), 0), Appended: p.Wrote, Committed: p.Committed, Flushed: p.Flushed, Confirmed: p.Confirm, Views: map[string]ViewMark{}}
	if v := s.views; v != nil {
		q := v.view
		mark := s.mark(v.follow)
		_, _, mark.Durable = v.queues.Progress()
		mark.Conflicts, mark.Unsupported, mark.Broken = q.conflicts.Load(), q.unsupported.Load(), int(q.brokenNow.Load())
		m.Views[q.name()] = mark
		if v.index != nil {
			mark := s.mark(v.index.follow)
			_, mark.Durable = v.index.index.Progress()
			m.Views[v.index.name()] = mark
		}
	}
	return m
}

// mark tells how far a follower is.
func (s *Store) mark(f *follower) ViewMark {
	m := ViewMark{Dispatched: f.from.Load(), PassedOver: f.poison.Load(), HoleBytes: f.holes.Load()}
	if m.BehindBytes = max(s.log.Positions().Wrote-m.Dispatched, 0); m.BehindBytes > 0 {
		if _, ms := f.lastDelivered(); ms > 0 {
			m.BehindMs = max(time.Now().UnixMilli()-ms, 0)
		}
	}
	if err := f.failure(); err != nil {
		m.Failure = err.Error()
	}
	return m
}
