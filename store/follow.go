package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// Dispatch: each view of the log (consume queues, index) has a follower of its own, one goroutine that reads the log from where the view
// stands to where messages may be read, and hands the view what it needs of each record, in physical order, in batches.
// So a view that is slow, broken or being rebuilt holds up nothing but itself, and each has a position of its own. It sleeps
// while there is nothing new.

// view is what a follower feeds. One goroutine at a time calls it.
type view interface {
	name() string
	// add takes what the view needs of a record. Its slices are valid until deliver returns.
	add(r *message.Record)
	// deliver puts what was added into the view: when it returns nil, what readers of the view see is complete up to there. An error leaves
	// everything added in place, to be delivered again.
	// end is the physical offset behind the last of it.
	deliver(ctx context.Context, end int64) error
}

// Limits of a batch. A batch is what a follower finds, so it is small as long as the view keeps up.
const (
	followBatchRecords = 1024
	followBatchBytes   = 1 << 20
)

// gatherWait is for how long a follower lets messages gather when they come more often than that: one at a time, they cost it, and the puts that wake it,
// several times as much.
const gatherWait = 500 * time.Microsecond

// A delivery that fails is tried again this often, later each time; then the follower gives up and says so.
const (
	deliverTries   = 10
	minDeliverWait = 10 * time.Millisecond
	maxDeliverWait = 2 * time.Second
)

// follower brings one view along.
type follower struct {
	view        view
	log         *commitlog.Log
	logger      *slog.Logger
	uncommitted bool // read beyond the confirm offset

	from atomic.Int64 // everything below is in the view

	parsed recordMark // the last record given to the view; of the follower's goroutine
	last   struct {
		sync.Mutex
		recordMark // the last record that is in the view
	}

	poison atomic.Int64 // records the view could not take, passed over
	holes  atomic.Int64 // bytes of the log passed over because nothing there is a record
	full   atomic.Bool  // waits for room on the disk
	failed atomic.Pointer[error]
}

// recordMark is where a record begins, -1 for none, and its store time in ms.
type recordMark struct{ phy, ms int64 }

func newFollower(v view, log *commitlog.Log, logger *slog.Logger, from int64) *follower {
	f := &follower{view: v, log: log, logger: logger}
	f.from.Store(from)
	f.parsed.phy, f.last.phy = -1, -1
	return f
}

// tail is what a follower waits for.
type tail interface {
	AwaitConfirm(ctx context.Context, from int64, uncommitted bool) bool
	Positions() commitlog.Positions
}

// run follows the log until ctx ends or the log is closed and everything in it delivered.
func (f *follower) run(ctx context.Context, t tail) {
	var done time.Time // when the last batch was delivered
	for t.AwaitConfirm(ctx, f.from.Load(), f.uncommitted) {
		if time.Since(done) < 2*gatherWait {
			time.Sleep(gatherWait)
		}
		p := t.Positions()
		to := p.Confirm
		if f.uncommitted {
			to = p.Committed
		}
		if err := f.catchUp(ctx, to, nil); err != nil {
			if ctx.Err() == nil {
				f.fail(err)
			}
			return
		}
		done = time.Now()
	}
}

// fail ends the follower with an error that an operator has to see.
func (f *follower) fail(err error) {
	err = fmt.Errorf("dispatch to %s at physical offset %d: %w", f.view.name(), f.from.Load(), err)
	f.failed.Store(&err)
	f.logger.Error("dispatch has stopped", slog.String("view", f.view.name()), slog.Int64("phyOffset", f.from.Load()), slog.Any("err", err))
}

// failure returns why the follower has stopped, nil while it goes on.
func (f *follower) failure() error {
	if err := f.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// lastDelivered returns the last record that is in the view: the physical offset of its beginning, -1 for none, and its store time.
func (f *follower) lastDelivered() (phy, ms int64) {
	f.last.Lock()
	defer f.last.Unlock()
	return f.last.phy, f.last.ms
}

// catchUp delivers everything below to, which readers may see. progress is told how far it came, now and then; nil: nobody.
func (f *follower) catchUp(ctx context.Context, to int64, progress func(phy int64)) error {
	for from := f.from.Load(); from < to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, err := f.step(ctx, from, to)
		if err != nil {
			return err
		}
		from = next
		f.from.Store(from)
		if progress != nil {
			progress(from)
		}
	}
	return nil
}

// step delivers one batch and returns where the next begins.
func (f *follower) step(ctx context.Context, from, to int64) (next int64, err error) {
	b, release, err := f.log.Chunk(from)
	if err != nil {
		return from, f.outOfRange(err, from, &next)
	}
	if release == nil {
		return from, fmt.Errorf("nothing to read below %d", to)
	}
	defer release()
	b = b[:min(int64(len(b)), to-from)]
	var damage error
	read := int64(0)
	err = mmap.GuardFault(func() error {
		read, damage = f.parse(b, from)
		return nil
	})
	if err != nil {
		return from, err
	}
	if err := f.deliver(ctx, from+read); err != nil {
		return from, err
	}
	f.last.Lock()
	f.last.recordMark = f.parsed
	f.last.Unlock()
	if read == 0 && damage != nil {
		return f.stepOver(from, damage)
	}
	return from + read, nil
}

// outOfRange goes on at the log's beginning when retention has removed what was to be read: the records are gone for every reader.
func (f *follower) outOfRange(err error, from int64, next *int64) error {
	var r *commitlog.RangeError
	if !errors.As(err, &r) || from >= r.Min {
		return err
	}
	f.logger.Warn("records expired before they were dispatched", slog.String("view", f.view.name()), slog.Int64("phyOffset", from), slog.Int64("minPhyOffset", r.Min))
	*next = r.Min
	return nil
}

// parse adds records of b, which begins at physical offset from, until a batch is full. It returns how many bytes it has passed, and what it met that is
// neither a record nor a filler.
func (f *follower) parse(b []byte, from int64) (read int64, damage error) {
	var r message.Record
	fileEnd := f.log.FileEnd(from)
	for n := 0; n < followBatchRecords && read < followBatchBytes && read < int64(len(b)); n++ {
		err := r.Decode(b[read:], false)
		if err == nil && r.PhyOffset != from+read {
			err = fmt.Errorf("a record of physical offset %d at %d", r.PhyOffset, from+read)
		}
		if err != nil {
			if size, blank := message.BlankSize(b[read:]); blank && from+read+int64(size) == fileEnd {
				return read + int64(size), nil
			}
			return read, err
		}
		f.addRecord(&r)
		f.parsed.phy, f.parsed.ms = r.PhyOffset, r.StoreTimestampMs
		read += int64(r.TotalSize)
	}
	return read, nil
}

// addRecord hands a record to the view. A view that panics over it has met a record that it cannot take; the others are not to suffer.
func (f *follower) addRecord(r *message.Record) {
	defer func() {
		if p := recover(); p != nil {
			f.passOver(r.PhyOffset, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	f.view.add(r)
}

// passOver counts a record that the view does not get.
func (f *follower) passOver(phy int64, why error) {
	f.poison.Add(1)
	f.logger.Error("record is passed over", slog.String("view", f.view.name()), slog.Int64("phyOffset", phy), slog.Any("err", why))
}

// deliver delivers what was added, trying again when it fails.
func (f *follower) deliver(ctx context.Context, end int64) error {
	wait := minDeliverWait
	for try := 1; ; try++ {
		err := f.view.deliver(ctx, end)
		full := diskFull(err)
		f.full.Store(full)
		if err == nil || ctx.Err() != nil || try >= deliverTries && !full { // room may come back
			return err
		}
		f.logger.Warn("delivery failed, trying again", slog.String("view", f.view.name()), slog.Int("try", try), slog.Any("err", err))
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
		wait = min(2*wait, maxDeliverWait)
	}
}

// stepOver looks for the next record behind a place where none stands, and counts what lies between.
func (f *follower) stepOver(from int64, damage error) (int64, error) {
	s := f.log.Scanner(from, commitlog.ScanOptions{NoReadahead: true})
	defer s.Close()
	if s.Next() {
		return from, fmt.Errorf("read the log at physical offset %d: %w", from, damage)
	}
	next := s.End().NextValid
	if next < 0 {
		return from, fmt.Errorf("read the log at physical offset %d: no record there, and none behind: %w", from, damage)
	}
	f.holes.Add(next - from)
	f.logger.Error("a part of the log is no record and is passed over", slog.String("view", f.view.name()),
		slog.Int64("phyOffset", from), slog.Int64("bytes", next-from), slog.Any("err", damage))
	return next, nil
}
