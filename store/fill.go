package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/failpoint"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
)

// fillBatch is how many units are appended at once.
const fillBatch = 1024

// filler gives queues the units that the log has for them, while the log grows. It goes over the log in passes, each up to where others are then; when little is left it takes
// their turn from them for the last one, so that at its end nothing is missing.
//
// The store that it fills may be one that dispatch feeds too, which then leaves out the queues being filled, or one that nobody else feeds.
type filler struct {
	target cq.Store
	log    *commitlog.Log
	parse  *queueView // turns records into units, for the kind of target; used by nobody else
	logger *slog.Logger
	// keys are the queues to fill; true once a queue got its first unit. all: every queue, and keys has those that got one.
	keys map[cq.Key]bool
	all  bool
	// barred are the queues whose names target refuses: they stay as they are.
	barred map[cq.Key]error
	from   int64 // physical offset where to begin
	// turn is held for each append, and for the last pass from its beginning until done has returned: by whoever else appends to target, and by who moves upTo.
	turn sync.Locker
	// upTo returns the physical offset up to which the log is to be read. Called with turn held.
	upTo func() int64
	// saved is told now and then that the units of all records below phy were appended; nil: nobody. Called without turn.
	saved func(ctx context.Context, phy int64) error
	// pace waits as long as having read so many bytes of the log asks for; nil: not at all. Called without turn; an error of it ends the filling.
	pace func(ctx context.Context, bytes int64) error
	// done is called at the end. Called with turn held.
	done func() error

	conflicts atomic.Int64
	seats     seats
	redone    []cq.Key    // queues to be dropped before the batch is appended
	lost      []LostRange // slots that the log has no record of
	added     int64
	at        atomic.Int64 // everything below it was appended
	to        atomic.Int64 // where the present pass ends
	batch     []cq.Entry
	save      struct {
		at   time.Time     // when it was last told
		cost time.Duration // what that took
		phy  int64
	}
}

// run fills the queues. A queue of which the log holds nothing before the units it has stays as it is; one whose next units have expired begins anew
// with the first that the log has.
func (f *filler) run(ctx context.Context) error {
	from := max(f.from, f.log.MinOffset(), 0)
	f.at.Store(from)
	f.save.at, f.save.phy = time.Now(), from
	f.seats = seats{whole: from <= max(f.log.MinOffset(), 0), logger: f.logger, emit: func(e cq.Entry) { f.batch = append(f.batch, e) }, redo: f.redo}
	for end := f.end(); end-from >= followBatchBytes; end = f.end() { // dispatch goes on until little is left
		f.to.Store(end)
		if err := f.pass(ctx, from, end, false); err != nil {
			return err
		}
		from = end
	}
	f.turn.Lock()
	defer f.turn.Unlock()
	if err := f.pass(ctx, from, f.upTo(), true); err != nil {
		return err
	}
	f.seats.finish()
	if err := f.append(ctx, true); err != nil {
		return err
	}
	if err := f.target.AwaitReadable(ctx); err != nil { // what others appended as well
		return err
	}
	return f.done()
}

func (f *filler) end() int64 {
	f.turn.Lock()
	defer f.turn.Unlock()
	return f.upTo()
}

// pass appends the units of [from, to) that belong to the queues being filled.
func (f *filler) pass(ctx context.Context, from, to int64, locked bool) error {
	if from >= to {
		return nil
	}
	s := f.log.Scanner(from, commitlog.ScanOptions{To: to})
	defer func() { s.Close() }()
	paced := from
	for {
		for n := 1; s.Next(); n++ {
			f.take(s.Record())
			at := s.Record().PhyOffset + int64(s.Record().TotalSize)
			if len(f.batch) < fillBatch && n%followBatchRecords != 0 && at-f.at.Load() < followBatchBytes {
				continue
			}
			if err := f.append(ctx, locked); err != nil {
				return err
			}
			f.at.Store(at)
			if !locked {
				f.tell(ctx)
				if f.pace != nil {
					if err := f.pace(ctx, max(at-paced, 0)); err != nil {
						return err
					}
					paced = at
				}
			}
		}
		var end *commitlog.EndError
		switch {
		case s.Err() == nil:
			if err := f.append(ctx, locked); err != nil {
				return err
			}
			if err := f.target.AwaitReadable(ctx); err != nil {
				return err
			}
			f.at.Store(to)
			return nil
		case errors.Is(s.Err(), mappedfile.ErrRemoved): // retention is faster
			if err := f.append(ctx, locked); err != nil {
				return err
			}
			time.Sleep(time.Millisecond) // until it is done with that file
			f.at.Store(max(f.at.Load(), f.log.MinOffset()))
			if s.Close(); f.at.Load() >= to {
				return f.target.AwaitReadable(ctx)
			}
			s = f.log.Scanner(f.at.Load(), commitlog.ScanOptions{To: to})
			continue
		case !errors.As(s.Err(), &end) || end.NextValid < 0 || end.NextValid >= to:
			return errors.Join(s.Err(), f.append(ctx, locked))
		}
		s.Close() // damage: what lies behind it is as good as before it
		s = f.log.Scanner(end.NextValid, commitlog.ScanOptions{To: to})
	}
}

// tell has what was appended saved, now and then: so seldom that it costs little.
func (f *filler) tell(ctx context.Context) {
	at := f.seats.oldest(f.at.Load())
	if f.saved == nil || at-f.save.phy < catchUpSaveBytes && time.Since(f.save.at) < catchUpSaveEvery || time.Since(f.save.at) < 20*f.save.cost {
		return
	}
	begin := time.Now()
	if err := f.saved(ctx, at); err != nil && ctx.Err() == nil {
		f.logger.Warn("progress of building queues again could not be saved", slog.Any("err", err))
	}
	f.save.at, f.save.phy = time.Now(), at
	f.save.cost = time.Since(begin)
}

// redo has all of a queue dropped that was appended, which was one unit in a wrong slot.
func (f *filler) redo(k cq.Key) {
	f.batch = slices.DeleteFunc(f.batch, func(e cq.Entry) bool { return e.Key == k })
	f.redone = append(f.redone, k)
}

func (f *filler) take(r *message.Record) {
	f.parse.add(r)
	for _, e := range f.parse.entries {
		if _, ours := f.keys[e.Key]; (ours || f.all) && f.barred[e.Key] == nil {
			f.seats.add(e)
		}
	}
	f.parse.entries = f.parse.entries[:0]
}

// append appends the batch. What is there already is accepted; a slot that another record has stays.
func (f *filler) append(ctx context.Context, locked bool) error {
	if err := ctx.Err(); err != nil || len(f.batch) == 0 {
		return err
	}
	if !locked {
		f.turn.Lock()
		defer f.turn.Unlock()
	}
	for _, k := range f.redone {
		if err := f.target.(cq.Dropper).DropQueue(ctx, k); err != nil {
			return err
		}
	}
	f.redone = f.redone[:0]
	for i := range f.batch {
		if e := &f.batch[i]; !f.keys[e.Key] {
			if err := f.begin(ctx, e); err != nil {
				return err
			}
			f.keys[e.Key] = true
		}
	}
	for rest := f.batch; len(rest) > 0; {
		err := f.target.Append(ctx, rest)
		if err == nil {
			break
		}
		if rest, err = f.after(ctx, rest, err); err != nil {
			return fmt.Errorf("build queues again: %w", err)
		}
	}
	tellNoted(f.target) // a queue that is being filled counts as broken until it is whole
	f.added += int64(len(f.batch))
	failpoint.Hit(failpoint.QueuesMended)
	f.batch = f.batch[:0]
	return nil
}

// after returns what of a batch is still to be appended after an error of Append that is about one entry; other errors it returns.
func (f *filler) after(ctx context.Context, batch []cq.Entry, err error) ([]cq.Entry, error) {
	var conflict *cq.ConflictError
	var gap *cq.GapError
	var entry *cq.EntryError
	var name *cq.QueueError
	switch {
	case errors.As(err, &name):
		if f.barred[name.Key] != nil {
			return nil, err
		}
		if f.barred == nil {
			f.barred = make(map[cq.Key]error)
		}
		f.barred[name.Key] = err
		return slices.DeleteFunc(slices.Clone(batch), func(e cq.Entry) bool { return e.Key == name.Key }), nil // what was before it is repeated
	case errors.As(err, &entry): // no store has it
		at, ok := find(batch, entry.Key, entry.QueueOffset, entry.PhyOffset)
		if !ok {
			return nil, err
		}
		return batch[at+1:], nil
	case errors.As(err, &gap):
		at, ok := find(batch, gap.Key, gap.Want, gap.PhyOffset)
		if !ok {
			return nil, err
		}
		return batch[at:], f.lose(ctx, gap)
	case errors.As(err, &conflict):
		f.conflicts.Add(1)
		at, ok := find(batch, conflict.Key, conflict.QueueOffset, conflict.New.PhyOffset)
		if !ok {
			return nil, err
		}
		return batch[at+1:], nil
	}
	return nil, err
}

// lose has a queue go on behind slots of which the log, which was read up to there, has no record: it was damaged. A queue whose numbers go further than anything can have been lost begins
// anew.
func (f *filler) lose(ctx context.Context, gap *cq.GapError) error {
	if err := f.target.AwaitReadable(ctx); err != nil { // its bounds are asked for
		return err
	}
	skipper, can := f.target.(cq.Skipper)
	q, there := f.target.Queue(gap.Key)
	if !can || !there {
		return f.drop(ctx, gap.Key, gap.Want, gap)
	}
	b, err := q.Bounds()
	if err == nil && b.Max > 0 && b.LastPhyOffset < f.log.MinOffset() { // nothing was lost: all that the queue has has expired, and what came between as well
		return f.renew(ctx, gap.Key)
	}
	if slots := gap.Want - gap.Max; err != nil || !lostFits(slots, gap.PhyOffset-b.MaxPhyOffset) {
		return f.drop(ctx, gap.Key, gap.Want, errors.Join(gap, err))
	}
	f.logger.Error("THE LOG HAS LOST RECORDS of a queue: their slots stay empty", slog.String("topic", gap.Key.Topic), slog.Int("queueId", int(gap.Key.QueueID)),
		slog.Int64("queueOffset", gap.Max), slog.Int64("to", gap.Want), slog.Int64("phyOffset", b.MaxPhyOffset), slog.Int64("toPhyOffset", gap.PhyOffset))
	f.lost = append(f.lost, LostRange{Topic: gap.Key.Topic, QueueID: gap.Key.QueueID, From: gap.Max, To: gap.Want})
	return skipper.Skip(ctx, gap.Key, gap.Want)
}

// begin sees that a queue can take e, the first unit of it in the log: what was lost before e and has expired since can no longer be
// had, so a queue that ends below it begins again there. One that begins above it, its first files lost, is built anew from there.
func (f *filler) begin(ctx context.Context, e *cq.Entry) error {
	q, ok := f.target.Queue(e.Key)
	if !ok {
		return nil
	}
	b, err := q.Bounds()
	if err == nil && b.Max >= e.QueueOffset {
		if !beginsLater(f.target, e.Key, e.QueueOffset) {
			return nil
		}
		err = errBeginning // repeats of lower slots would be taken for expired
	} else if err == nil && b.LastPhyOffset < f.log.MinOffset() {
		return f.renew(ctx, e.Key)
	}
	return f.drop(ctx, e.Key, e.QueueOffset, err)
}

// renew lets a queue begin anew all of whose units have expired.
func (f *filler) renew(ctx context.Context, k cq.Key) error {
	im, can := f.target.(cq.Dropper)
	if !can {
		return fmt.Errorf("the store of kind %s cannot drop queue %s", f.target.Kind(), k)
	}
	return im.DropQueue(ctx, k)
}

// drop lets a queue begin anew at a slot, since the log does not have those before it; why says how that was found out.
func (f *filler) drop(ctx context.Context, k cq.Key, slot int64, why error) error {
	im, can := f.target.(cq.Dropper)
	if !can {
		return fmt.Errorf("the store of kind %s cannot drop queue %s", f.target.Kind(), k)
	}
	f.logger.Error("a queue begins anew: the log does not have all units before", slog.String("topic", k.Topic), slog.Int("queueId", int(k.QueueID)),
		slog.Int64("queueOffset", slot), slog.Any("err", why))
	return im.DropQueue(ctx, k)
}
