package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
)

// Rebuilding: where much of the log has to be dispatched before the queues have everything, the store serves meanwhile. The log says which offset comes next in each
// queue, so that puts need nothing else; the follower goes from where the queues stand, and tells how far it is. A stop in between keeps what was done.

// rebuildBytes is how much of the log may have to be dispatched for Open to wait for it.
const rebuildBytes = 64 << 20

// rebuildTold is how often the log gets a line about it.
const rebuildTold = 10 * time.Second

// rebuild is one of the whole store of queues, from a physical offset to where the log ended when the store was opened.
type rebuild struct {
	from, to int64
	done     chan struct{} // closed when everything below to is in the queues
}

func newRebuild(from, to int64) *rebuild {
	return &rebuild{from: from, to: to, done: make(chan struct{})}
}

func (r *rebuild) ended() bool {
	if r == nil {
		return true
	}
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// The file rebuild-queues tells that file queues are being built again: they cannot tell how far they are. It is not there otherwise, and what else is noted about how far they
// are does not count while it is.
//
//	{"from":0,"to":1073741824,"done":268435456}
//
// All three are physical offsets; every unit of a record below done is durable.
const rebuildMarkName = "rebuild-queues.json"

// maxRebuildMarkBytes bounds what is read of it.
const maxRebuildMarkBytes = 4 << 10

type rebuildMark struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	Done int64 `json:"done"`
}

func (l Layout) rebuildMarkPath() string { return filepath.Join(l.StateDir(), rebuildMarkName) }

// readRebuildMark returns where file queues that are being built again have to go on, -1 when there is no such rebuild. A mark that cannot be read or does not fit the log has them
// begin with its beginning.
func (v *views) readRebuildMark(log *commitlog.Log, end int64) int64 {
	if !v.hasFiles() {
		return -1 // RocksDB has its own row
	}
	b, err := readFile(v.s.fs, v.s.layout.rebuildMarkPath(), maxRebuildMarkBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return -1
	}
	var m rebuildMark
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	begin := max(log.MinOffset(), 0)
	switch {
	case err != nil:
		v.s.logger.Warn("the rebuild begins with the log's beginning: its mark cannot be read", slog.Any("err", err))
		return begin
	case m.Done < 0 || m.Done > end:
		return begin
	}
	return max(m.Done, begin)
}

// writeRebuildMark notes how far the rebuild is, when its units are durable; RocksDB does so by itself.
func (v *views) writeRebuildMark(r *rebuild, done int64) error {
	path := v.s.layout.rebuildMarkPath()
	if err := makeDir(v.s.fs, filepath.Dir(path)); err != nil {
		return err
	}
	b, err := json.Marshal(rebuildMark{From: r.from, To: r.to, Done: done})
	if err != nil {
		return err
	}
	return replaceFile(v.s.fs, path, append(b, '\n'))
}

func (v *views) removeRebuildMark() error {
	path := v.s.layout.rebuildMarkPath()
	err := v.s.fs.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, v.s.fs.SyncDir(filepath.Dir(path)))
}

// noteRebuild notes that everything below from is durable, or that the rebuild has ended. It is called with flushing held.
func (v *views) noteRebuild(from int64) error {
	r := v.rebuild.Load()
	switch {
	case r == nil || v.unmarked || !v.rebuildsFiles():
		return nil
	case from < r.to:
		err := v.writeRebuildMark(r, from)
		if diskFull(err) {
			v.s.logger.Warn("progress of the rebuild is not noted", slog.Any("err", err))
			return nil
		}
		return err
	}
	err := v.removeRebuildMark()
	v.unmarked = err == nil
	return err
}

// beginRebuild notes that the queues are complete up to from and no further, before the store serves: RocketMQ is told by the checkpoint, this module by the mark.
// What the log was read for, the next offset of each queue, is noted too.
func (v *views) beginRebuild(from, end int64) error {
	r := newRebuild(from, end)
	v.rebuild.Store(r)
	v.s.logger.Warn("consume queues are built from the log while the store serves", slog.String("view", v.view.name()), slog.Int64("phyOffset", from), slog.Int64("bytes", end-from))
	if !v.rebuildsFiles() {
		return nil
	}
	return v.markFiles(r)
}

// rebuildsFiles tells whether a rebuild of what dispatch feeds is one of files.
func (v *views) rebuildsFiles() bool { return v.hasFiles() && !v.sides.holds(cq.KindFile) }

// markFiles notes that file queues are complete up to the beginning of r and no further.
func (v *views) markFiles(r *rebuild) error {
	from, end := r.from, r.to
	if err := v.s.writer.Flush(); err != nil {
		return err
	}
	if err := v.writeRebuildMark(r, from); err != nil {
		return fmt.Errorf("note the rebuild: %w", err)
	}
	if c := v.checkpoint; c.LogicsPhysicalOffset >= from && c.LogicsPhysicalOffset > 0 {
		c.LogicsPhysicalOffset, c.LogicsMsgTimestampMs = 0, 0
		if err := writeCheckpoint(v.s.fs, v.s.layout.CheckpointPath(), c); err != nil {
			return err
		}
		v.checkpoint = c
	}
	note := &queueOffsets{phyOffset: end, last: v.view.mu.last, next: v.view.offsetsLocked()}
	if err := writeQueueOffsets(v.s.fs, v.s.layout.queueOffsetsPath(), note); err != nil {
		v.s.logger.Warn("queue offsets are not noted", slog.Any("err", err)) // the log is read again next time
	}
	return nil
}

// runRebuild dispatches up to where the log ended when the store was opened.
func (v *views) runRebuild(ctx context.Context) error {
	r := v.rebuild.Load()
	if r == nil {
		return nil
	}
	select {
	case <-r.done: // before the store was opened, which waited for it
		return nil
	default:
	}
	begin := time.Now()
	step := v.catchingUp(ctx, r.from, r.to)
	if told := v.s.o.rebuildStep; told != nil {
		quiet := step
		step = func(phy int64) {
			quiet(phy)
			told(phy)
		}
		told(r.from)
	}
	if err := v.follow.catchUp(ctx, r.to, step); err != nil {
		return err
	}
	if err := v.keepEnds(ctx); err != nil {
		return err
	}
	close(r.done)
	v.s.logger.Info("consume queues are built", slog.String("view", v.view.name()), slog.Int64("bytes", r.to-r.from), slog.Duration("elapsed", time.Since(begin)),
		slog.Int64("brokenQueues", v.view.brokenNow.Load()))
	return v.flush(ctx)
}

// QueueState tells what a reader of a queue may rely on.
type QueueState struct {
	// Ready: the queue has all units of records that the log had when the store was opened, and its bounds are true. Dispatch of what was put since
	// follows as always.
	Ready bool `json:"ready"`
	// Have is the slot below which the queue has units now, Next the offset that the next message gets. In a queue that is not ready, offsets in [Have, Next) are of messages that
	// exist and cannot be read yet, and a min is the first unit that was built, or unknown: no reader may be sent elsewhere because of either.
	Have int64 `json:"have"`
	Next int64 `json:"next"`
	// Uncompared: the units of the two sides of a combined store have not been compared since the last stop that was not in order. What is read has to be right nevertheless: see
	// docs/combined.md.
	Uncompared bool `json:"uncompared,omitempty"`
}

// ErrRebuilding is why a queue cannot be read: it is being built again and has not come to what was asked for.
var ErrRebuilding = errors.New("the queue is being built again from the log")

// QueueReady tells whether the bounds of a queue are true, see QueueState.
func (s *Store) QueueReady(k cq.Key) bool {
	v := s.views
	return v != nil && v.ready(k, nil)
}

// QueueState tells how far a queue is that may be being built again. It makes nothing.
func (s *Store) QueueState(k cq.Key) QueueState {
	st := QueueState{Next: s.NextOffset(k.Topic, k.QueueID)}
	if v := s.views; v != nil {
		st.Ready = v.ready(k, &st.Have)
		st.Uncompared = v.sides != nil && v.sides.comparison.owes(k)
	}
	return st
}

// ready looks whether a queue has what the log had when the store was opened. have is told where it ends; nil: nobody.
func (v *views) ready(k cq.Key, have *int64) bool {
	if have == nil && !v.s.replacing.now() && v.view.brokenNow.Load() == 0 && v.compared() {
		return true // no lock in the way of readers
	}
	alone := v.s.replacing.alone() // before its bounds, which may be those of the old database
	v.view.mu.Lock()
	_, broken := v.view.mu.broken[k]
	known := v.view.mu.known[k]
	unitless := known != nil && (known.unitless || known.gone)
	v.view.mu.Unlock()
	var end int64
	var err error
	q, there := v.queues.Queue(k)
	if there {
		var b cq.Bounds
		b, err = q.Bounds()
		end = b.Max
	}
	if have != nil {
		*have = end
	}
	switch {
	case broken || err != nil || alone:
		return false
	case v.sides.lacksWhole(k):
		return false
	case unitless || v.compared():
		return true
	}
	return end >= v.nextAtOpen(k)
}

// nextAtOpen returns what is in ends, 0 without it.
func (v *views) nextAtOpen(k cq.Key) int64 {
	if ends := v.ends.Load(); ends != nil {
		return (*ends)[k]
	}
	return 0
}

// compared tells whether the queues were built up to where the log ended when the store was opened, and those compared with it that can be: what is short is known to be broken.
func (v *views) compared() bool {
	select {
	case <-v.verified:
		return !v.s.replacing.alone() && v.rebuild.Load().ended() // in this order: the one is there before the other is over
	default:
		return false
	}
}

// Rebuilding is how far a view is that is being built again, in physical offsets.
type Rebuilding struct {
	From int64 `json:"from"`
	To   int64 `json:"to"` // the end of the log when that began
	Done int64 `json:"done"`
}
