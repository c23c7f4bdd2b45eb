package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
)

// Mending: a queue that lacks units gets them from the log, while the store goes on serving. One pass over the log serves all queues that are broken when it
// begins. Dispatch goes on meanwhile and leaves them out; at the end of the pass it is held up for as long as it takes to read what it has
// dispatched since (filler).

// mend mends the queues that are broken now.
func (v *queueView) mend(ctx context.Context, log *commitlog.Log) error {
	v.mending.Lock()
	defer v.mending.Unlock()
	f := v.filler(v.queues, log)
	v.mu.Lock()
	for k := range v.mu.broken {
		f.keys[k] = false
	}
	err := v.dropDamagedLocked(ctx, f)
	v.mu.Unlock()
	if err != nil {
		return err
	}
	f.from = v.mendFrom(log)
	if len(f.keys) == 0 {
		return nil
	}
	f.saved = func(ctx context.Context, phy int64) error { return v.saveMending(ctx, f, phy) }
	f.done = func() error { return v.mendedLocked(f) }
	v.filling.Store(f)
	defer v.filling.Store(nil)
	v.logger.Info("queues are built again from the log", slog.Int("queues", len(f.keys)), slog.Int64("phyOffset", f.from))
	err = f.run(ctx)
	if damaged := (*cq.DamagedError)(nil); errors.As(err, &damaged) { // what there is of it goes before the next attempt
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, k := range damaged.Keys {
			v.mu.broken[k] = fmt.Errorf("%w: %w", errDamaged, damaged)
		}
	}
	return err
}

// filler makes one that takes turns with deliver, and reads the log as far as that has come.
func (v *queueView) filler(target cq.Store, log *commitlog.Log) *filler {
	parse := newQueueView(target, v.levels, v.light, v.batch, v.logger)
	return &filler{
		target: target, log: log, logger: v.logger, keys: make(map[cq.Key]bool), turn: &v.mu, upTo: func() int64 { return v.mu.delivered },
		parse: parse,
		done:  func() error { return nil },
	}
}

// mendFrom returns the physical offset from which the log has to be read for the queues that are broken now.
func (v *queueView) mendFrom(log *commitlog.Log) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	begin := max(log.MinOffset(), 0)
	from := v.mu.delivered
	for k := range v.mu.broken {
		from = min(from, max(v.mu.mended[k], begin))
	}
	return max(from, begin)
}

// saveMending notes that the queues being mended have all units of records below phy, durably.
func (v *queueView) saveMending(ctx context.Context, f *filler, phy int64) error {
	if err := f.target.Flush(ctx); err != nil {
		return err
	}
	v.logger.Info("queues are being built again from the log", slog.Int("queues", len(f.keys)), slog.Int64("units", f.added), slog.Int64("phyOffset", phy), slog.Int64("to", f.to.Load()))
	v.mu.Lock()
	defer v.mu.Unlock()
	for k := range f.keys {
		v.mu.mended[k] = phy
	}
	v.mu.saved = false
	return v.saveBrokenLocked()
}

// mendedLocked takes the queues that were mended for whole.
func (v *queueView) mendedLocked(f *filler) error {
	v.loseLocked(f)
	for k, found := range f.keys {
		delete(v.mu.broken, k)
		delete(v.mu.mended, k)
		if v.barLocked(k, f.barred[k]) {
			continue
		}
		queue, there := v.queues.Queue(k)
		v.noteFilledLocked(k)
		if q := v.mu.known[k]; !found && q != nil {
			q.gone = !there
		}
		if there && v.onMended != nil {
			if b, err := queue.Bounds(); err == nil {
				v.onMended(k, b)
			}
		}
		if queues, ok := v.queues.(beginner); ok { // whatever the log lacks between, it is not looked for again
			if b, ok, err := queues.Beginning(k); ok && err == nil && !b.Proven {
				v.noteBeginningLocked(k, b.Slot)
			}
		}
	}
	v.conflicts.Add(f.conflicts.Load())
	v.mu.saved = false
	v.brokenNow.Store(int64(len(v.mu.broken)))
	v.logger.Info("queues are whole again", slog.Int("queues", len(f.keys)), slog.Int64("units", f.added))
	return v.saveBrokenLocked()
}

// mendMark tells how far the mending is, nil when none is under way.
func (v *queueView) mendMark() *Rebuilding {
	f := v.filling.Load()
	if f == nil {
		return nil
	}
	return &Rebuilding{From: f.from, To: f.to.Load(), Done: f.at.Load()}
}
