package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/file"
)

// The files of a queue do not tell whether those before them were lost, but for where they prove their own beginning (file.Store.Beginning). For a queue that does not, the
// log is looked at, beside dispatch: a record of a lower slot means that the queue has to be built again. One reading of the log serves all such queues, and what it found
// is noted with the queue offsets, so that the next start does not repeat it.

// beginner tells where a queue's files begin.
type beginner interface {
	Beginning(k cq.Key) (file.Beginning, bool, error)
}

// errBeginning is why a queue is broken whose first units are missing.
var errBeginning = errors.New("it begins later than its records in the log")

// verifyBeginnings has the queues mended whose first units were lost while the log has their records.
func (v *queueView) verifyBeginnings(ctx context.Context, log *commitlog.Log) error {
	queues, ok := v.queues.(beginner)
	if !ok {
		return nil
	}
	return v.verifyBeginningsOf(ctx, log, queues, v.breakLocked)
}

// verifyBeginnings does so for queues that lack their first units on both sides: the comparison of the sides finds all others. The files are looked at; what they get by that
// RocksDB is then found to lack.
func (d *sides) verifyBeginnings(ctx context.Context, log *commitlog.Log) error {
	queues, ok := d.side(cq.KindFile).(beginner)
	if !ok || d.store.Failure(cq.KindFile) != nil {
		return nil
	}
	return d.v.view.verifyBeginningsOf(ctx, log, queues, func(k cq.Key, err error) { d.store.MarkDiverged(cq.KindFile, k, err) })
}

// verifyBeginningsOf looks at the queues of one store of them. lacks is told of those that lack their first units, with mu held.
func (v *queueView) verifyBeginningsOf(ctx context.Context, log *commitlog.Log, queues beginner, lacks func(k cq.Key, err error)) error {
	slots, to := v.unproven(ctx, queues)
	if len(slots) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	from := max(log.MinOffset(), 0)
	if to > from {
		v.logger.Info("the log is read for the beginnings of queues", slog.Int("queues", len(slots)), slog.Int64("phyOffset", from), slog.Int64("bytes", to-from))
		if err := v.lookForLower(ctx, log, slots, from, to, lacks); err != nil {
			return fmt.Errorf("look for the beginnings of queues: %w", err)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for k, slot := range slots {
		v.noteBeginningLocked(k, slot)
	}
	return nil
}

// unproven returns the queues whose beginnings have to be looked for in the log, each with its first slot, and up to where in the log.
func (v *queueView) unproven(ctx context.Context, queues beginner) (slots map[cq.Key]int64, to int64) {
	slots = make(map[cq.Key]int64)
	v.mu.Lock()
	keys := make(map[cq.Key]int64, len(v.mu.known))
	for k, q := range v.mu.known {
		if !q.unitless && !q.gone && v.mu.barred[k] == nil {
			keys[k] = q.begins
		}
	}
	delivered := v.mu.delivered
	v.mu.Unlock()
	for k, noted := range keys {
		if ctx.Err() != nil {
			return nil, 0
		}
		b, ok, err := queues.Beginning(k)
		if err != nil || !ok || b.Proven || b.Slot+1 == noted { // what is damaged is broken already
			continue
		}
		slots[k] = b.Slot
		if b.PhyOffset < 0 {
			to = max(to, delivered)
		}
		to = max(to, b.PhyOffset)
	}
	return slots, to
}

// lookForLower reads the log in [from, to), tells of the queues of which it finds a record below their slot, and takes them out of slots.
func (v *queueView) lookForLower(ctx context.Context, log *commitlog.Log, slots map[cq.Key]int64, from, to int64, lacks func(k cq.Key, err error)) error {
	parse := newQueueView(v.queues, v.levels, v.light, v.batch, slog.New(slog.DiscardHandler))
	s := log.Scanner(from, commitlog.ScanOptions{To: to})
	defer func() { s.Close() }()
	for len(slots) > 0 {
		for n := 1; s.Next() && len(slots) > 0; n++ {
			parse.add(s.Record())
			for _, e := range parse.entries {
				if e.QueueOffset == unplaced {
					continue
				}
				if slot, ok := slots[e.Key]; ok && e.QueueOffset < slot {
					v.mu.Lock()
					lacks(e.Key, fmt.Errorf("%w: at slot %d, and slot %d is at %d", errBeginning, slot, e.QueueOffset, e.Unit.PhyOffset))
					v.mu.Unlock()
					delete(slots, e.Key)
				}
			}
			parse.entries = parse.entries[:0]
			if n%followBatchRecords == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
		}
		var end *commitlog.EndError
		if s.Err() == nil {
			return nil
		}
		if !errors.As(s.Err(), &end) || end.NextValid < 0 || end.NextValid >= to {
			return s.Err()
		}
		s.Close() // damage: what lies behind it is as good as before it
		s = log.Scanner(end.NextValid, commitlog.ScanOptions{To: to})
	}
	return nil
}

// noteBeginningLocked notes that the log has no record of a queue below a slot, or none that could be used.
func (v *queueView) noteBeginningLocked(k cq.Key, slot int64) {
	if q := v.mu.known[k]; q != nil && q.begins != slot+1 {
		q.begins = slot + 1
		v.mu.beginsFound++
	}
}

// beginsLater tells whether a queue's files do not reach down to a slot, of which there is a record.
func beginsLater(target cq.Store, k cq.Key, slot int64) bool {
	queues, ok := target.(beginner)
	if !ok {
		return false
	}
	b, ok, err := queues.Beginning(k)
	return err == nil && ok && !b.Proven && slot < b.Slot
}
