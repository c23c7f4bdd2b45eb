package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// Mending: a queue that lacks units gets them from the log, while the store goes on serving. One pass over the log serves all queues that are broken when it
// begins. Dispatch goes on meanwhile and leaves them out; at the end of the pass it is held up for as long as it takes to read what it has
// dispatched since.

// mendBatch is how many units are appended at once.
const mendBatch = 1024

// mending is one pass.
type mending struct {
	v     *queueView
	log   *commitlog.Log
	keys  map[cq.Key]bool // true once the queue got its first unit of the pass
	parse *queueView      // turns records into units
	batch []cq.Entry
	added int64
}

// mend mends the queues that are broken now. A queue of which the log holds nothing before the units it has stays as it
// is; one whose next units have expired begins anew with the first that the log has.
func (v *queueView) mend(ctx context.Context, log *commitlog.Log) error {
	v.mending.Lock()
	defer v.mending.Unlock()
	v.mu.Lock()
	m := mending{v: v, log: log, keys: make(map[cq.Key]bool, len(v.mu.broken)), parse: newQueueView(v.queues, v.levels, v.light, v.batch, v.logger)}
	for k := range v.mu.broken {
		m.keys[k] = false
	}
	v.mu.Unlock()
	if len(m.keys) == 0 {
		return nil
	}
	v.logger.Info("queues are built again from the log", slog.Int("queues", len(m.keys)))
	from := max(log.MinOffset(), 0)
	for end := v.deliveredTo(); end-from >= followBatchBytes; end = v.deliveredTo() { // dispatch goes on until little is left
		if _, err := m.pass(ctx, from, end, false); err != nil {
			return err
		}
		from = end
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, err := m.pass(ctx, from, v.mu.delivered, true); err != nil {
		return err
	}
	for k, found := range m.keys {
		delete(v.mu.broken, k)
		if q := v.mu.known[k]; !found && q != nil {
			_, there := v.queues.Queue(k)
			q.gone = !there
		}
	}
	v.mu.saved = false
	v.brokenNow.Store(int64(len(v.mu.broken)))
	v.logger.Info("queues are whole again", slog.Int("queues", len(m.keys)), slog.Int64("units", m.added))
	return v.saveBrokenLocked()
}

// deliveredTo returns the physical offset below which everything is in the queues that are not broken.
func (v *queueView) deliveredTo() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.delivered
}

// pass appends the units of [from, to) that belong to the queues being mended.
func (m *mending) pass(ctx context.Context, from, to int64, locked bool) (next int64, err error) {
	if from >= to {
		return from, nil
	}
	s := m.log.Scanner(from, commitlog.ScanOptions{To: to})
	defer func() { s.Close() }()
	for {
		for s.Next() {
			m.take(s.Record())
			next = s.Record().PhyOffset + int64(s.Record().TotalSize)
			if len(m.batch) >= mendBatch {
				if err := m.append(ctx, locked); err != nil {
					return from, err
				}
			}
		}
		var end *commitlog.EndError
		switch {
		case s.Err() == nil:
			return to, m.append(ctx, locked)
		case !errors.As(s.Err(), &end) || end.NextValid < 0 || end.NextValid >= to:
			return from, errors.Join(s.Err(), m.append(ctx, locked))
		}
		s.Close() // damage: what lies behind it is as good as before it
		s = m.log.Scanner(end.NextValid, commitlog.ScanOptions{To: to})
	}
}

func (m *mending) take(r *message.Record) {
	m.parse.add(r)
	for _, e := range m.parse.entries {
		if _, ours := m.keys[e.Key]; ours {
			m.batch = append(m.batch, e)
		}
	}
	m.parse.entries = m.parse.entries[:0]
}

// append appends the batch. What is there already is accepted; a slot that another record has stays.
func (m *mending) append(ctx context.Context, locked bool) error {
	if len(m.batch) == 0 {
		return nil
	}
	if !locked {
		m.v.mu.Lock()
		defer m.v.mu.Unlock()
	}
	for i := range m.batch {
		if e := &m.batch[i]; !m.keys[e.Key] {
			if err := m.begin(ctx, e); err != nil {
				return err
			}
			m.keys[e.Key] = true
		}
	}
	for rest := m.batch; len(rest) > 0; {
		err := m.v.queues.Append(ctx, rest)
		if err == nil {
			break
		}
		var conflict *cq.ConflictError
		var gap *cq.GapError
		if errors.As(err, &gap) {
			at, ok := find(rest, gap.Key, gap.Want, gap.PhyOffset)
			if !ok {
				return fmt.Errorf("build queues again: %w", err)
			}
			if err := m.drop(ctx, gap.Key, gap.Want, err); err != nil { // the log, which was read up to here, does not have what is between: it was damaged
				return err
			}
			rest = rest[at:]
			continue
		}
		if !errors.As(err, &conflict) {
			return fmt.Errorf("build queues again: %w", err)
		}
		m.v.conflicts.Add(1)
		at, ok := find(rest, conflict.Key, conflict.QueueOffset, conflict.New.PhyOffset)
		if !ok {
			return fmt.Errorf("build queues again: %w", err)
		}
		rest = rest[at+1:]
	}
	m.added += int64(len(m.batch))
	m.batch = m.batch[:0]
	return nil
}

// begin sees that a queue can take e, the first unit of it in the log: what was lost before e and has expired since can no longer be
// had, so a queue that ends below it begins again there.
func (m *mending) begin(ctx context.Context, e *cq.Entry) error {
	q, ok := m.v.queues.Queue(e.Key)
	if !ok {
		return nil
	}
	b, err := q.Bounds()
	if err == nil && b.Max >= e.QueueOffset {
		return nil
	}
	return m.drop(ctx, e.Key, e.QueueOffset, err)
}

// drop lets a queue begin anew at a slot, since the log does not have those before it; why says how that was found out.
func (m *mending) drop(ctx context.Context, k cq.Key, slot int64, why error) error {
	im, can := m.v.queues.(cq.Dropper)
	if !can {
		return fmt.Errorf("build queue %s again: the store of kind %s cannot drop it", k, m.v.queues.Kind())
	}
	m.v.logger.Error("a queue begins anew: the log does not have all units before", slog.String("topic", k.Topic), slog.Int("queueId", int(k.QueueID)),
		slog.Int64("queueOffset", slot), slog.Any("err", why))
	return im.DropQueue(ctx, k)
}
