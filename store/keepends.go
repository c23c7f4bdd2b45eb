package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/tandemq/tandemmq/cq"
)

// A queue of which the log has no record any more comes back from no log. When RocksDB was lost its end is kept from what still knows it: the other side of a combined store, or
// the file queue-offsets, which is there if the store had file queues before. What a consumer has come to is no proof of an end.

// The file rocks-ends tells of ends that RocksDB, which was lost, has not got yet. It is empty where queue-offsets has them; otherwise they are in it, in the format of that file with
// the position 0: they were read off the database that was set aside.
const endsOwedName = "rocks-ends"

func (l Layout) endsOwedPath() string { return filepath.Join(l.StateDir(), endsOwedName) }

// oweEnds finds out whether RocksDB has to get ends, and notes that durably: from the note of a, which it reads, or from the database that was set aside.
func (v *views) oweEnds(a *alignment) error {
	if v.hasFiles() {
		if err := v.sides.readEnds(); err != nil {
			return err
		}
		if a.lost && a.begin > 0 && a.note == nil {
			v.knownEnds = newKnownEnds()
		}
		return nil
	}
	path := v.s.layout.endsOwedPath()
	b, err := readFile(v.s.fs, path, maxQueueOffsetsBytes)
	switch {
	case err == nil && len(b) > 0:
		ends, err := parseQueueOffsets(b)
		if err != nil {
			return fmt.Errorf("read the ends of queues %s: %w", path, err)
		}
		v.knownEnds = newKnownEnds()
		for k, q := range ends.next {
			v.knownEnds.add(k, q.next)
		}
		v.knownEnds.whole = true
		v.endsOwed = true
	case err == nil:
		if a.note == nil {
			a.note = v.readNote(a.log, a.end)
		}
		v.endsOwed = a.note != nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case a.lost && a.note != nil:
		v.endsOwed = true
		return v.noteEndsOwed(nil)
	case a.lost && a.begin > 0:
		v.knownEnds = v.s.salvageEnds(a.begin)
		ends := &queueOffsets{last: recordMark{phy: -1}, next: make(map[cq.Key]queueState)}
		for k, next := range v.knownEnds.next {
			ends.next[k] = queueState{next: next}
		}
		if v.endsOwed = len(ends.next) > 0; v.endsOwed {
			return v.noteEndsOwed(ends.image())
		}
	}
	return nil
}

// readEnds reads the ends of queues that RocksDB alone had, if it was being replaced when the process ended.
func (d *sides) readEnds() error {
	if d == nil {
		return nil
	}
	path := d.v.s.layout.endsOwedPath()
	b, err := readFile(d.v.s.fs, path, maxQueueOffsetsBytes)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(b) == 0 {
		return nil
	}
	var ends *queueOffsets
	if err == nil {
		ends, err = parseQueueOffsets(b)
	}
	if err != nil {
		return fmt.Errorf("read the ends of queues %s: %w", path, err)
	}
	d.ends = make(map[cq.Key]int64, len(ends.next))
	for k, q := range ends.next {
		d.ends[k] = q.next
	}
	return nil
}

func (v *views) noteEndsOwed(b []byte) error {
	path := v.s.layout.endsOwedPath()
	if err := makeDir(v.s.fs, filepath.Dir(path)); err != nil {
		return err
	}
	return replaceFile(v.s.fs, path, b)
}

// salvageEnds reads the ends off the database that was set aside last.
func (s *Store) salvageEnds(minPhy int64) *knownEnds {
	known := newKnownEnds()
	dir, err := newestAside(s.layout, "rocksdb")
	if dir != "" {
		known.takeFrom(func() (cq.Store, error) { return s.layout.openSetAside(dir, minPhy) }, func(cq.Key) bool { return true })
	} else if err != nil {
		known.failed = append(known.failed, err)
	}
	for _, err := range known.failed {
		s.logger.Error("the database that was set aside does not tell where queues ended", slog.Any("err", err))
	}
	return known
}

// learnEnds takes ends that were salvaged for what comes next in queues of which the log has no record. Nobody else has the view yet.
func (v *views) learnEnds() {
	if v.sides != nil {
		for k, next := range v.sides.ends {
			if v.view.mu.known[k] == nil && len(v.sides.responsible(k)) == 1 {
				v.view.mu.known[k] = &queueState{next: next}
			}
		}
	}
	if v.knownEnds == nil {
		return
	}
	for k, next := range v.knownEnds.next {
		if v.view.mu.known[k] == nil && checkName(v.queues, k) == nil {
			v.view.mu.known[k] = &queueState{next: next}
		}
	}
}

// keepEnds gives the queues of which nothing was built their ends. It is called when the queues have come to where the log ended.
func (v *views) keepEnds(ctx context.Context) error {
	defer v.tellForgotten()
	if !v.endsOwed {
		return nil
	}
	if err := v.queues.AwaitReadable(ctx); err != nil {
		return err
	}
	var ends []cq.QueueEnd
	v.view.mu.Lock()
	for k, q := range v.view.mu.known {
		if q.unitless || q.next <= 0 || v.view.mu.broken[k] != nil || checkName(v.queues, k) != nil {
			continue
		}
		if _, there := v.queues.Queue(k); !there {
			ends = append(ends, cq.QueueEnd{Key: k, Min: q.next, Max: q.next, MinPhyOffset: max(v.s.Log().MinOffset(), 0)})
		}
	}
	v.view.mu.Unlock()
	if err := v.queues.(cq.Importer).Publish(ctx, ends, -1); err != nil {
		return fmt.Errorf("keep the ends of queues without messages: %w", err)
	}
	v.s.logger.Info("queues of which the log has no record go on where they ended", slog.Int("queues", len(ends)))
	v.endsOwed = false
	return removeDurably(v.s.fs, v.s.layout.endsOwedPath())
}

// forgotten returns the queues of which nothing tells any more where they ended.
func (v *views) forgotten() []ForgottenQueue {
	if v.knownEnds == nil {
		return nil
	}
	return v.knownEnds.forgotten(v.s.layout, v.queues, func(cq.Key) bool { return true })
}

func (v *views) tellForgotten() {
	if v.s.waits {
		return // there is a report
	}
	for _, q := range v.forgotten() {
		v.s.logger.Error("A QUEUE BEGINS AT 0 AGAIN: nothing tells where it ended", slog.String("topic", q.Topic), slog.Int("queueId", int(q.QueueID)), slog.String("why", q.Why))
	}
}

// adoptLost gives a side that was lost the ends of the queues that only the other one has: the log has no record of them.
func (d *sides) adoptLost(ctx context.Context) error {
	if d.lostKind == "" || d.store.Failure(d.lostKind) != nil || d.holds(d.lostKind) {
		return nil
	}
	adopted := 0
	for k, err := range d.side(otherKind(d.lostKind)).Queues() {
		if err != nil {
			return err
		}
		if d.store.IsDiverged(d.lostKind, k) || !d.shorter(d.lostKind, k) || d.lostKind == cq.KindFile && len(d.responsible(k)) == 1 ||
			checkName(d.side(d.lostKind), k) != nil {
			continue
		}
		if err := d.adoptOne(ctx, d.lostKind, k); err != nil {
			return err
		}
		adopted++
	}
	d.v.s.logger.Info("queues of which the log has no record go on where they ended", slog.String("kind", string(d.lostKind)), slog.Int("queues", adopted))
	return nil
}

// adoptNoted gives RocksDB the ends that were noted when a replacement was cut off, and forgets the note.
func (d *sides) adoptNoted(ctx context.Context) error {
	if d.ends == nil || d.store.Failure(cq.KindRocks) != nil || d.holds(cq.KindRocks) {
		return nil
	}
	for k := range d.ends {
		d.v.view.mu.Lock()
		known := d.v.view.mu.known[k] != nil
		d.v.view.mu.Unlock()
		if !known || len(d.responsible(k)) > 1 || checkName(d.side(cq.KindRocks), k) != nil {
			continue
		}
		if err := d.adoptOne(ctx, cq.KindRocks, k); err != nil {
			return err
		}
	}
	return removeDurably(d.v.s.fs, d.v.s.layout.endsOwedPath())
}

// shorter tells whether a queue ends earlier on a side than on the other one, or is not there.
func (d *sides) shorter(kind cq.Kind, k cq.Key) bool {
	q, there := d.side(kind).Queue(k)
	if !there {
		return true
	}
	other, there := d.side(otherKind(kind)).Queue(k)
	if !there {
		return false
	}
	b, err := q.Bounds()
	o, oerr := other.Bounds()
	return err == nil && oerr == nil && b.Max < o.Max
}

// adoptOne is adopt while nothing is appended, unless the queue has come meanwhile.
func (d *sides) adoptOne(ctx context.Context, kind cq.Kind, k cq.Key) error {
	v := d.v.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := d.store.AwaitReadable(ctx); err != nil {
		return err
	}
	if !d.shorter(kind, k) {
		return nil
	}
	return d.adopt(ctx, kind, k)
}

// adoptUnknown gives queues of which nothing but the sides themselves tells the end, since their records have expired, the end of the side on which they went further.
func (d *sides) adoptUnknown(ctx context.Context) error {
	v := d.v.view
	for _, kind := range combinedKinds {
		if d.store.Failure(kind) != nil || d.store.Failure(otherKind(kind)) != nil {
			return nil
		}
		for k, err := range d.side(otherKind(kind)).Queues() {
			if err != nil {
				return err
			}
			v.mu.Lock() // nothing is appended
			if err = ctx.Err(); err == nil && v.mu.known[k] == nil && !d.store.IsDiverged(kind, k) && slices.Contains(d.responsible(k), kind) && checkName(d.side(kind), k) == nil {
				err = d.adoptFurther(ctx, kind, k)
			}
			v.mu.Unlock()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// adoptFurther is adopt for a queue without a unit that is further on the other side. It is called while nothing is appended.
func (d *sides) adoptFurther(ctx context.Context, kind cq.Kind, k cq.Key) error {
	q, b, err := boundsOf(d.side(otherKind(kind)), k)
	if err != nil || q == nil || !b.Empty() {
		return err
	}
	mine, have, err := boundsOf(d.side(kind), k)
	if err != nil || have.Max >= b.Max || mine != nil && !have.Empty() {
		return err
	}
	if err := d.store.AwaitReadable(ctx); err != nil {
		return err
	}
	return d.adopt(ctx, kind, k)
}

// boundsOf returns a queue and its bounds; nil where it is not there, or is damaged.
func boundsOf(side cq.Store, k cq.Key) (cq.Queue, cq.Bounds, error) {
	if side == nil {
		return nil, cq.Bounds{}, nil
	}
	q, ok := side.Queue(k)
	if !ok {
		return nil, cq.Bounds{}, nil
	}
	b, err := q.Bounds()
	if errors.Is(err, cq.ErrCorrupt) {
		return nil, cq.Bounds{}, nil
	}
	return q, b, err
}
