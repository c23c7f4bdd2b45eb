package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/tandemq/tandemmq/cq"
)

// A queue of which the log has no record any more comes back from no log. When RocksDB was lost its end is kept from what still knows it: the other side of a combined store, or
// the file queue-offsets, which is there if the store had file queues before. What a consumer has come to is no proof of an end.

// The file rocks-ends tells that queue-offsets has ends that RocksDB, which was lost, has not got yet. It is empty.
const endsOwedName = "rocks-ends"

func (l Layout) endsOwedPath() string { return filepath.Join(l.StateDir(), endsOwedName) }

// oweEnds finds out whether RocksDB has to get ends from the note of a, which it reads, and notes that durably.
func (v *views) oweEnds(a *alignment) error {
	if v.hasFiles() {
		return nil
	}
	path := v.s.layout.endsOwedPath()
	_, err := readFile(v.s.fs, path, 1)
	switch {
	case err == nil:
		if a.note == nil {
			a.note = v.readNote(a.log, a.end)
		}
		v.endsOwed = a.note != nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case a.lost && a.note != nil:
		v.endsOwed = true
		if err := makeDir(v.s.fs, filepath.Dir(path)); err != nil {
			return err
		}
		return replaceFile(v.s.fs, path, nil)
	}
	return nil
}

// keepEnds gives the queues of which nothing was built their ends. It is called when the queues have come to where the log ended.
func (v *views) keepEnds(ctx context.Context) error {
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

// adoptLost gives a side that was lost the ends of the queues that only the other one has: the log has no record of them.
func (d *sides) adoptLost(ctx context.Context) error {
	if d.lostKind == "" || d.store.Failure(d.lostKind) != nil {
		return nil
	}
	adopted := 0
	for k, err := range d.side(otherKind(d.lostKind)).Queues() {
		if err != nil {
			return err
		}
		if _, there := d.side(d.lostKind).Queue(k); there || d.store.IsDiverged(d.lostKind, k) || d.lostKind == cq.KindFile && len(d.responsible(k)) == 1 ||
			checkName(d.side(d.lostKind), k) != nil {
			continue
		}
		if err := d.adoptOne(ctx, k); err != nil {
			return err
		}
		adopted++
	}
	d.v.s.logger.Info("queues of which the log has no record go on where they ended", slog.String("kind", string(d.lostKind)), slog.Int("queues", adopted))
	return nil
}

// adoptOne is adopt while nothing is appended, unless the queue has come meanwhile.
func (d *sides) adoptOne(ctx context.Context, k cq.Key) error {
	v := d.v.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := d.store.AwaitReadable(ctx); err != nil {
		return err
	}
	if _, there := d.side(d.lostKind).Queue(k); there {
		return nil
	}
	return d.adopt(ctx, d.lostKind, k)
}
