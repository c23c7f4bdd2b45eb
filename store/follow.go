package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/internal/failpoint"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// Dispatch: each view of the log (consume queues, index) has a follower of its own, one goroutine that reads the log from where the view
// stands to where messages may be read, and hands the view what it needs of each record, in physical order, in batches.
// So a view that is slow, broken or being rebuilt holds up nothing but itself, and each has a position of its own. It sleeps
// while there is nothing new.

// view is what a follower feeds. One goroutine at a time calls add and turn, one at a time deliver, one at a time settle; they may be three.
type view interface {
	name() string
	// add takes what the view needs of a record. Its slices are valid until the delivery of its batch returns.
	add(r *message.Record)
	// turn returns what was added since the last turn, for deliver, which gets the batches in this order.
	turn() batch
	// deliver puts a batch into the view: when it returns nil, the view has accepted it in order, and has the batch back. An error leaves all of it in place, to be
	// delivered again.
	// end is the physical offset behind the last of it.
	deliver(ctx context.Context, b batch, end int64) error
}

// lateView is a view whose readers may see later what it has accepted. What a view of another kind accepts is seen at once.
type lateView interface {
	view
	// late tells whether it is so. Constant.
	late() bool
	// settle returns when what readers of the view see is complete up to what was delivered before the call. It may be called again after an error.
	settle(ctx context.Context) error
}

// batch is what a view has added, of a type of its own.
type batch any

// batches are a view's batches that are empty, to be used again.
type batches[T any] chan *T

func newBatches[T any]() batches[T] { return make(chan *T, readAhead+2) }

// get returns an empty batch: a new one of the type's zero value, or one that was put back.
func (b batches[T]) get() *T {
	select {
	case t := <-b:
		return t
	default:
		return new(T)
	}
}

// put takes a batch back, which is empty.
func (b batches[T]) put(t *T) {
	select {
	case b <- t:
	default:
	}
}

// Limits of a batch. A batch is what a follower finds, so it is small as long as the view keeps up.
const (
	followBatchRecords = 1024
	followBatchBytes   = 1 << 20
)

// A delivery, or a settling, that fails is tried again this often, later each time; then the follower gives up and says so.
const (
	deliverTries   = 10
	minDeliverWait = 10 * time.Millisecond
	maxDeliverWait = 2 * time.Second
)

// follower brings one view along. What it has delivered to a view that is late is settled by a goroutine of its own, so that the log is read on and
// delivered while RocksDB writes what came before; how far ahead that may be is for the view to bound, whose deliver waits then. Progress is what has been settled.
type follower struct {
	view        view
	log         *commitlog.Log
	logger      *slog.Logger
	uncommitted bool // read beyond the confirm offset

	overlapBytes int64 // minOverlapBytes, smaller in tests
	settleAhead  int   // maxSettleAhead, less in tests

	from atomic.Int64 // everything below is in the view, for its readers to see

	delivering sync.Mutex // held while a batch is delivered, and by who wants none to be

	settling *settling // at work; nil: what is delivered is seen at once. Set and used by who delivers

	last struct {
		sync.Mutex
		recordMark // the last record that is in the view
	}

	poison  atomic.Int64 // records the view could not take, passed over
	suspect int          // by how many more of the last records were passed over than taken, see maxPoison. Used by who reads
	doubt   atomic.Bool  // suspect is not 0: the fault may be the view's, and then what was passed over is to be dispatched again
	refused error        // why nothing is read any more: the view takes nothing. Used by who reads

	holes  atomic.Int64 // bytes of the log passed over because nothing there is a record
	full   atomic.Int32 // how many wait for room on the disk: who delivers, who settles
	failed atomic.Pointer[error]
}

// maxPoison is by how many more records may be passed over than taken before the fault is the view's and no longer theirs: it stops then, since all that follows would be lost to it.
const maxPoison = 16

// recordMark is where a record begins, -1 for none, and its store time in ms.
type recordMark struct{ phy, ms int64 }

func newFollower(v view, log *commitlog.Log, logger *slog.Logger, from int64) *follower {
	f := &follower{view: v, log: log, logger: logger, overlapBytes: minOverlapBytes, settleAhead: maxSettleAhead}
	f.from.Store(from)
	f.last.phy = -1
	return f
}

// tail is what a follower waits for.
type tail interface {
	AwaitConfirm(ctx context.Context, from int64, uncommitted bool) bool
	Positions() commitlog.Positions
}

// run follows the log until ctx ends or the log is closed and everything in it delivered.
func (f *follower) run(ctx context.Context, t tail) {
	if err := f.settled(ctx, nil, func(ctx context.Context) error { return f.tail(ctx, t) }); err != nil && ctx.Err() == nil {
		f.fail(err)
	}
}

// tail is run, but for what is settled later.
func (f *follower) tail(ctx context.Context, t tail) error {
	var done time.Time // when the last batch was delivered
	var rate gathering
	for t.AwaitConfirm(ctx, f.next(), f.uncommitted) {
		if rate.thick && time.Since(done) < 2*gatherWait {
			time.Sleep(gatherWait)
		}
		p := t.Positions()
		to := p.Confirm
		if f.uncommitted {
			to = p.Committed
		}
		from := f.next()
		if err := f.bring(ctx, to, nil); err != nil {
			return err
		}
		done = time.Now()
		rate.delivered(f.next()-from, done)
	}
	return nil
}

// rewind has it begin again at a physical offset, and forget that it failed. Nothing is being delivered.
func (f *follower) rewind(from int64) {
	f.last.Lock()
	f.last.recordMark = recordMark{phy: -1}
	f.last.Unlock()
	f.from.Store(from)
	f.refused, f.suspect = nil, 0
	f.doubt.Store(false)
	f.failed.Store(nil)
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

// minOverlapBytes is how much there has to be in front of a follower for it to read one batch while another is delivered, which takes a goroutine. One that keeps up has less.
const minOverlapBytes = 4 * followBatchBytes

// catchUp delivers everything below to, which readers may see, and returns when they do. progress is told how far it came, now and then, not always by the caller's
// goroutine, but never by two at a time; nil: nobody.
func (f *follower) catchUp(ctx context.Context, to int64, progress func(phy int64)) error {
	return f.settled(ctx, progress, func(ctx context.Context) error { return f.bring(ctx, to, progress) })
}

// bring delivers everything below to.
func (f *follower) bring(ctx context.Context, to int64, progress func(phy int64)) error {
	if progress == nil || f.settling != nil { // who settles tells it
		progress = func(int64) {}
	}
	for from := f.next(); from < to; from = f.next() {
		if to-from >= f.overlapBytes && runtime.GOMAXPROCS(0) > 1 {
			if err := f.overlap(ctx, from, to, progress); err != nil {
				return err
			}
			from = f.next() // a step makes of what it met there what has to be made of it
		}
		if from < to {
			if err := f.step(ctx, from, to); err != nil {
				return err
			}
			progress(f.from.Load())
		}
	}
	return nil
}

// readAhead is how many batches are read before they are delivered. With one, either side would wait for the other whenever that takes a little longer.
const readAhead = 4

// overlap reads batches while those before are delivered, up to less than minOverlapBytes before to, or to what is no record. On two processors that takes
// half the time where both halves take as long. It leaves nothing that is read and not delivered.
func (f *follower) overlap(ctx context.Context, from, to int64, progress func(phy int64)) error {
	read, result := make(chan stretch, readAhead), make(chan error, 1)
	var failed atomic.Bool
	go func() {
		var err error
		for s := range read {
			if err != nil {
				s.release() // lies behind what could not be delivered
				continue
			}
			if err = f.finish(ctx, s); err != nil {
				failed.Store(true)
			} else {
				progress(s.end)
			}
		}
		result <- err
	}()
	for to-from >= f.overlapBytes && !failed.Load() && ctx.Err() == nil {
		s, err := f.read(from, to)
		if err != nil {
			break // step will meet it
		}
		if s.end == from {
			s.release()
			break // the same
		}
		from = s.end
		read <- s
	}
	close(read)
	return errors.Join(<-result, ctx.Err())
}

// step delivers one batch.
func (f *follower) step(ctx context.Context, from, to int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := f.read(from, to)
	if err != nil {
		return f.outOfRange(ctx, err, from)
	}
	if err := f.finish(ctx, s); err != nil {
		return err
	}
	if s.end == from && s.damage != nil {
		return f.stepOver(ctx, from, s.damage)
	}
	return nil
}

// stretch is a part of the log whose records were added to a batch.
type stretch struct {
	end     int64      // behind it
	last    recordMark // its last record, phy -1 for none
	damage  error      // what stands at end, if that is neither a record nor a filler
	batch   batch      // what the view has of it
	release func()     // lets go of its bytes
}

// read makes a batch of the records from physical offset from on. On error nothing is held.
func (f *follower) read(from, to int64) (s stretch, err error) {
	if f.refused != nil {
		return s, f.refused
	}
	b, release, err := f.log.Chunk(from)
	if err != nil {
		return s, err
	}
	if release == nil {
		return s, fmt.Errorf("nothing to read below %d", to)
	}
	b = b[:min(int64(len(b)), to-from)]
	s = stretch{end: from, last: recordMark{phy: -1}, release: release}
	p := parsing{f: f, b: b, from: from, fileEnd: f.log.FileEnd(from), stretch: &s}
	err = mmap.GuardFault(func() error {
		for !p.run() {
		}
		return nil
	})
	if err == nil {
		s.batch = f.view.turn()
		err = f.refused
	}
	if err != nil {
		release()
	}
	return s, err
}

// finish delivers the batch of a stretch, and lets go of its bytes.
func (f *follower) finish(ctx context.Context, s stretch) error {
	defer s.release()
	failpoint.Hit(failpoint.RecordsRead)
	if err := f.deliver(ctx, s.batch, s.end); err != nil {
		return err
	}
	return f.advance(ctx, s.end, s.last)
}

// outOfRange goes on at the log's beginning when retention has removed what was to be read: the records are gone for every reader.
func (f *follower) outOfRange(ctx context.Context, err error, from int64) error {
	var r *commitlog.RangeError
	if !errors.As(err, &r) || from >= r.Min {
		return err
	}
	f.logger.Warn("records expired before they were dispatched", slog.String("view", f.view.name()), slog.Int64("phyOffset", from), slog.Int64("minPhyOffset", r.Min))
	return f.advance(ctx, r.Min, recordMark{phy: -1})
}

// parsing adds the records of b, which begins at physical offset from, to a view.
type parsing struct {
	*stretch
	f             *follower
	b             []byte
	from, fileEnd int64
	n             int            // records so far
	r             message.Record // the last one
	adding        bool           // the view has it
	touched       byte           // so that the compiler leaves no touch out
}

// run goes on until a batch is full, b is at its end, or something stands there that is no record. False: a view that panics over a record has met one that it
// cannot take; the others are not to suffer, so it is passed over. Where the view takes next to nothing it is done too: f.refused says so.
func (p *parsing) run() (done bool) {
	defer func() {
		if !p.adding {
			return // whatever is wrong, it is not the view
		}
		v := recover()
		if _, fault := v.(interface{ Addr() uintptr }); fault {
			panic(v) // nor is it when a byte of the log cannot be read
		}
		p.adding = false
		p.f.passOver(p.r.PhyOffset, v)
		done = p.f.refused != nil
	}()
	r := &p.r
	read := p.end - p.from
	ahead := read
	for ; p.n < followBatchRecords && read < followBatchBytes && read < int64(len(p.b)); p.n++ {
		if read >= ahead && p.n > 0 {
			ahead = read + p.touch(read, int64(r.TotalSize))
		}
		err := r.Decode(p.b[read:], false)
		if err == nil && r.PhyOffset != p.from+read {
			err = fmt.Errorf("a record of physical offset %d at %d", r.PhyOffset, p.from+read)
		}
		if err != nil {
			if size, blank := message.BlankSize(p.b[read:]); blank && p.from+read+int64(size) == p.fileEnd {
				p.end = p.fileEnd
			} else {
				p.damage = err
			}
			return true
		}
		read += int64(r.TotalSize)
		p.end, p.last = p.from+read, recordMark{phy: r.PhyOffset, ms: r.StoreTimestampMs}
		p.adding = true
		p.f.view.add(r)
		p.adding = false
		p.f.taken()
	}
	return true
}

// aheadRecords are touched before they are decoded. Each would be waited for, at its beginning and at its end, since where it begins is known only from the one
// before; touched one after the other at the places where they begin if all are of one size, they arrive together. Of 1 KiB records twice as many are read a second.
const aheadRecords = 16

// touch brings into the cache what may be the next records, of the size of the one before, and returns how many bytes they take.
func (p *parsing) touch(from, size int64) int64 {
	b := p.b[from:]
	n := min(int64(len(b))/size, aheadRecords)
	sum := byte(0)
	for at := int64(0); at < n*size; at += size {
		sum += touchRecord(b[at : at+size])
	}
	p.touched += sum
	return n * size
}

// touchRecord reads where Decode will: the beginning of a record, and its end with topic and properties. b is not empty. What it returns says nothing.
func touchRecord(b []byte) byte {
	end := len(b)
	return b[0] + b[min(64, end-1)] + b[max(end-160, 0)] + b[max(end-96, 0)] + b[max(end-32, 0)]
}

// taken notes that the view took a record.
func (f *follower) taken() {
	if f.suspect > 0 {
		f.suspect--
		f.doubt.Store(f.suspect > 0)
	}
}

// passOver counts a record over which the view has panicked. When it panics over most of them, that is the end.
func (f *follower) passOver(phy int64, panicked any) {
	f.doubt.Store(true)
	if f.suspect++; f.suspect > maxPoison {
		f.refused = fmt.Errorf("%s panics over most records, the last at physical offset %d: panic: %v\n%s", f.view.name(), phy, panicked, debug.Stack())
		return
	}
	f.poison.Add(1)
	f.logger.Error("record is passed over", slog.String("view", f.view.name()), slog.Int64("phyOffset", phy),
		slog.Any("err", fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())))
}

// addOne is what parsing does with a record, for one that is read in another way. The error is f.refused.
func (f *follower) addOne(r *message.Record) (err error) {
	defer func() {
		v := recover()
		if _, fault := v.(interface{ Addr() uintptr }); fault {
			panic(v)
		}
		if v != nil {
			f.passOver(r.PhyOffset, v)
		}
		err = f.refused
	}()
	f.view.add(r)
	f.taken()
	return nil
}

// deliver delivers what was added, trying again when it fails.
func (f *follower) deliver(ctx context.Context, b batch, end int64) error {
	f.delivering.Lock()
	defer f.delivering.Unlock()
	return f.insist(ctx, "delivery", func() error { return f.view.deliver(ctx, b, end) })
}

// insist does something again when it fails, for a while, and as long as it fails for want of room.
func (f *follower) insist(ctx context.Context, what string, do func() error) error {
	wait, waits := minDeliverWait, int32(0)
	defer func() { f.full.Add(-waits) }()
	for try := 1; ; try++ {
		err := do()
		full := diskFull(err)
		if full && waits == 0 {
			waits = f.full.Add(1)
		}
		if err == nil || ctx.Err() != nil || try >= deliverTries && !full { // room may come back
			return err
		}
		f.logger.Warn("dispatch failed, trying again", slog.String("view", f.view.name()), slog.String("what", what), slog.Int("try", try), slog.Any("err", err))
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
func (f *follower) stepOver(ctx context.Context, from int64, damage error) error {
	s := f.log.Scanner(from, commitlog.ScanOptions{NoReadahead: true})
	defer s.Close()
	if s.Next() {
		return fmt.Errorf("read the log at physical offset %d: %w", from, damage)
	}
	next := s.End().NextValid
	if next < 0 {
		return fmt.Errorf("read the log at physical offset %d: no record there, and none behind: %w", from, damage)
	}
	f.holes.Add(next - from)
	f.logger.Error("a part of the log is no record and is passed over", slog.String("view", f.view.name()),
		slog.Int64("phyOffset", from), slog.Int64("bytes", next-from), slog.Any("err", damage))
	return f.advance(ctx, next, recordMark{phy: -1})
}
