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
)

// Replacing: a RocksDB of queues that turns out to be damaged while the store serves. A block that cannot be read has units of many queues, and a compaction that comes to it ends
// all writing, so the whole database is replaced: its files are set aside, a new one is built from the log, and it takes the place of the old one without a restart.
//
//	combined       the side is suspended: files serve, and say which offset comes next. The new database is filled from the log, compared with the files unit by unit, released
//	               (sidesreplace.go). Preference and authority stay what they are.
//	RocksDB alone  dispatch begins again at the log's beginning, as where all queues were lost; reads of what a queue does not have yet are refused with ErrRebuilding
//	               (replacealone.go)
//
// What the log does not tell, the ends of queues without records, is noted in rocks-ends before the files go. Cut off anywhere, the next open finds remnants, or a database that is behind.
//
// queueDamagePolicy=refuse, and more damage than maxReplaced times, leave it at errors: reads fail, naming the directory, and a side whose writes fail is given up.

// maxReplaced bounds how often a process replaces a database: a disk that damages one after the other is no case for a fourth, and each is kept.
const maxReplaced = 3

// replaceAgain is after how long a replacement that failed is tried again.
const replaceAgain = 10 * time.Second

// replaceable is a store of queues whose database can be replaced: see rocks.Store.
type replaceable interface {
	cq.Store
	cq.Importer
	Replace(ctx context.Context, moveAway func(dir string) error) error
	NextSlots() map[cq.Key]int64
	Dir() string
}

// What is being replaced.
const (
	replacesNothing int32 = iota
	replacesSide
	replacesAll
)

// replacing is how far it is.
type replacing struct {
	kick  chan struct{}
	off   atomic.Bool           // nothing is replaced
	why   atomic.Pointer[error] // damage that was found, of a database that is still there
	what  atomic.Int32          // one of the above
	round atomic.Int64          // how often a database was taken away
	again time.Duration

	mu struct {
		sync.Mutex
		times int    // files were set aside
		to    string // where those of the last one are
		why   error  // what was wrong with it
		err   error  // why the last attempt has failed
	}
}

func newReplacing() *replacing {
	return &replacing{kick: make(chan struct{}, 1), again: replaceAgain}
}

// found is told of damage, by whoever meets it first.
func (r *replacing) found(err error) {
	if !r.off.Load() && r.why.CompareAndSwap(nil, &err) {
		signal(r.kick)
	}
}

// owed tells whether damage was found of which something will come: what fails meanwhile is no news.
func (r *replacing) owed() bool { return r.why.Load() != nil || r.now() }

// now tells whether a database is being replaced, which may be long.
func (r *replacing) now() bool { return r.what.Load() != replacesNothing }

// side tells whether that of a combined store is.
func (r *replacing) side() bool { return r.what.Load() == replacesSide }

// alone tells whether the only store of queues is taken away at this moment.
func (r *replacing) alone() bool { return r.what.Load() == replacesAll }

// left says what is left at the end of a process.
func (r *replacing) left() error {
	if why := r.why.Load(); why != nil {
		return fmt.Errorf("RocksDB of the consume queues is damaged and was not replaced: %w", *why)
	}
	return nil
}

// noteResult keeps why an attempt has failed.
func (r *replacing) noteResult(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.err = err
}

// reason says why a side is not there: what was wrong with it, and why it has not been replaced yet.
func (r *replacing) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.mu.why, r.mu.err)
}

// tell adds what was replaced last to a mark of RocksDB.
func (r *replacing) tell(m *ViewMark) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.SetAside = r.mu.to
	if r.mu.why != nil && (m.SetAside != "" || r.now()) {
		m.Damage = r.mu.why.Error()
	}
}

// gaveUp says why a database that is damaged will not be replaced by this process, nil where it may.
func (r *replacing) gaveUp() error {
	if !r.off.Load() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.err
}

// replaceDamaged replaces databases as they are found damaged.
func (v *views) replaceDamaged(ctx context.Context) {
	r := v.s.replacing
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.kick:
		}
		why := r.why.Load()
		if why == nil { // an attempt before has dealt with it
			continue
		}
		r.mu.Lock()
		r.mu.why = *why
		r.mu.Unlock()
		for ctx.Err() == nil {
			err := v.replaceOnce(ctx, *why)
			r.noteResult(err)
			if err != nil && v.s.waits { // whoever waits is told
				r.off.Store(true)
			}
			if err == nil || ctx.Err() != nil || r.off.Load() {
				break
			}
			v.s.logger.Error("the damaged RocksDB of the consume queues could not be replaced", slog.Any("err", err), slog.Duration("retryIn", r.again))
			sleep(ctx, r.again)
		}
	}
}

func (v *views) replaceOnce(ctx context.Context, why error) error {
	r, rocks := v.s.replacing, v.replaceable()
	r.mu.Lock()
	times := r.mu.times
	r.mu.Unlock()
	if times >= maxReplaced {
		r.off.Store(true)
		r.why.Store(nil)
		err := fmt.Errorf("RocksDB of the consume queues was replaced %d times since the store was opened, and is damaged again: look at the disk (`tandemmq store rebuild --store %s --queues rocks --yes` builds it anew offline): %w",
			times, v.s.layout.Root, why)
		v.s.logger.Error("THE ROCKSDB DIRECTORY IS DAMAGED, and stays as it is", slog.String("dir", rocks.Dir()), slog.Any("err", err))
		if v.sides == nil {
			v.s.setFlag(FlagLogicsQueueError, err)
		}
		return err
	}
	v.s.logger.Error("THE ROCKSDB DIRECTORY IS DAMAGED: it is replaced while the store serves", slog.String("dir", rocks.Dir()), slog.Any("err", why))
	if v.sides != nil {
		return v.sides.replace(ctx, why)
	}
	return v.replaceAlone(ctx)
}

// replaceable returns the RocksDB of the queues, nil without one.
func (v *views) replaceable() replaceable {
	queues := v.queues
	if v.sides != nil {
		queues = v.sides.side(cq.KindRocks)
	}
	r, _ := queues.(replaceable)
	return r
}

// setAsideDamaged moves the files of the damaged database away.
func (v *views) setAsideDamaged(dir string) error {
	to, err := setAsideRocks(v.s.fs, v.s.layout, dir)
	if err != nil || to == "" {
		return err
	}
	v.s.logger.Warn("the files of a damaged RocksDB are set aside", slog.String("dir", dir), slog.String("to", to))
	r := v.s.replacing
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.times++
	r.mu.to = to
	return nil
}

// noteEnds writes down where queues ended, durably, before the database goes that knows.
func (v *views) noteEnds(next map[cq.Key]int64) error {
	ends := &queueOffsets{last: recordMark{phy: -1}, next: make(map[cq.Key]queueState, len(next))}
	for k, n := range next {
		ends.next[k] = queueState{next: n}
	}
	return v.noteEndsOwed(ends.image())
}

// dispatching lets the goroutine that dispatches be held up.
type dispatching struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	parked chan struct{} // closed when it does nothing more, until it is sent something
	again  chan struct{}
}

// turn begins another stretch of it.
func (d *dispatching) turn(ctx context.Context) (run context.Context, parked chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	run, d.cancel = context.WithCancel(ctx)
	d.parked = make(chan struct{})
	return run, d.parked
}

// halt returns when nothing is dispatched any more.
func (d *dispatching) halt() {
	d.mu.Lock()
	cancel, parked := d.cancel, d.parked
	d.mu.Unlock()
	cancel()
	<-parked
}

// resume has it go on after halt.
func (d *dispatching) resume(ctx context.Context) {
	select {
	case d.again <- struct{}{}:
	case <-ctx.Done():
	}
}

// dispatch is the goroutine that feeds the queues.
func (v *views) dispatch(ctx, run context.Context, parked chan struct{}) {
	for {
		if err := v.runRebuild(run); err == nil {
			v.follow.run(run, v.s.writer)
		} else if run.Err() == nil {
			v.follow.fail(err)
		}
		if err := v.follow.failure(); err != nil && !v.s.replacing.owed() {
			v.s.setFlag(FlagLogicsQueueError, err)
		}
		close(parked)
		select {
		case <-ctx.Done():
			return
		case <-v.dispatching.again:
			run, parked = v.dispatching.turn(ctx)
		}
	}
}
