package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tandemq/tandemmq/cq"
)

// A file queue that turns out to be damaged while it is read is built again from the log, as one that is found damaged when the store is opened: of a combined store on that side alone,
// while the other is read. Until it is whole again, reads of what it does not have are refused with ErrRebuilding, and QueueState says so.
//
// A block of RocksDB that cannot be read has units of many queues, and a compaction that comes to it fails, after which the database takes nothing any more: to build single queues again
// would bring that about. So the whole database is replaced (replace.go).

// errDamaged is why a queue is broken whose content is not to be kept.
var errDamaged = errors.New("it is damaged")

// foundDamaged has a queue built again that could not be read for err, unless that is no damage of it, or the operator wants nothing to be built. It answers what the reader is told.
func (s *Store) foundDamaged(k cq.Key, err error) error {
	v := s.views
	var damage *cq.CorruptError
	if s.closed.Load() || !errors.As(err, &damage) || s.o.QueueDamagePolicy == QueueDamageRefuse {
		return s.closedOr(err)
	}
	if v.queues.Kind() == cq.KindRocks {
		if s.replacing.owed() || v.rebuild.Load() != nil && !v.rebuild.Load().ended() {
			return fmt.Errorf("%w, for RocksDB is damaged: %w", ErrRebuilding, err)
		}
		return err
	}
	s.NextOffset(k.Topic, k.QueueID) // is known from now on
	if v.sides != nil {
		v.sides.store.MarkDiverged(v.sides.damagedSide(damage), k, err)
	} else {
		v.view.mu.Lock()
		v.view.breakLocked(k, fmt.Errorf("%w: %w", errDamaged, err))
		v.view.mu.Unlock()
	}
	return fmt.Errorf("%w, for it is damaged: %w", ErrRebuilding, err)
}

// dropDamagedLocked removes what broken queues have that are damaged: it would be taken for units. That they are broken is noted before.
func (v *queueView) dropDamagedLocked(ctx context.Context, f *filler) error {
	for k := range f.keys {
		if !errors.Is(v.mu.broken[k], errDamaged) {
			continue
		}
		delete(v.mu.mended, k)
		v.mu.saved = false
		if err := v.saveBrokenLocked(); err != nil {
			return err
		}
		dropper, can := f.target.(cq.Dropper)
		if !can {
			return fmt.Errorf("the store of kind %s cannot drop queue %s", f.target.Kind(), k)
		}
		if err := dropper.DropQueue(ctx, k); err != nil {
			return fmt.Errorf("drop a damaged queue: %w", err)
		}
		v.logger.Warn("what a damaged queue had is dropped", slog.String("topic", k.Topic), slog.Int("queueId", int(k.QueueID)))
	}
	return nil
}
