//go:build cgo

package rocks

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// unitsPerFile is where Import begins another table file: the filter of a file is built in memory, 2 bytes for each key and
// 8 more while it is being built, here 40 MiB.
const unitsPerFile = 4 << 20

// Import writes the runs into sorted table files, in key order whatever the order of runs, and has the database take them
// in, all files of one call as one change. Durable when it returns nil. Units that a slot held before are replaced, also
// those still in memory.
//
// Files whose keys lie apart from all others go straight to the last level and need no merge; those of calls that touch
// the same queues again and again pile up as sorted runs until Compact, which then holds one file descriptor and up to
// half a MiB for each. A caller that can choose hands over whole queues in the order of CompareKeys; one that cannot makes
// its calls large and looks at SortedRuns.
func (s *Store) Import(ctx context.Context, runs []cq.Run) error {
	if err := s.beginChange(ctx); err != nil {
		return err
	}
	defer s.write.Unlock()
	order := make([]int, 0, len(runs))
	for i, r := range runs {
		if err := validRun(r); err != nil {
			return err
		}
		if len(r.Units) > 0 {
			order = append(order, i)
		}
	}
	if len(order) == 0 {
		return nil
	}
	slices.SortFunc(order, func(a, b int) int { return CompareKeys(runs[a].Key, runs[b].Key) })
	for i := 1; i < len(order); i++ {
		if k := runs[order[i]].Key; k == runs[order[i-1]].Key {
			return fmt.Errorf("import: two runs of queue %s in one call", k)
		}
	}
	if s.write.ingester == nil {
		w, err := s.db.NewIngester(s.options.IngestDir)
		if err != nil {
			return s.wrap(err)
		}
		s.write.ingester = w
	}
	if err := s.importLocked(ctx, runs, order); err != nil {
		if rerr := s.write.ingester.Rollback(); rerr != nil {
			s.log.Warn("table files are left behind", slog.String("dir", s.options.IngestDir), slog.Any("err", rerr))
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch++
	for i := range order {
		k := runs[order[i]].Key
		s.tail.forget(appendUnitPrefix(nil, k))
		if e, ok := s.mu.ends.get(k); ok {
			e.lastSize, e.derived, e.derivedPhy = 0, 0, 0 // the last unit may have been replaced, a lower one added
			s.mu.ends.put(k, e)
		}
	}
	return nil
}

func validRun(r cq.Run) error {
	if err := validKey(r.Key); err != nil {
		return err
	}
	for i, u := range r.Units {
		if err := validUnit(r.Key, r.From+int64(i), u); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) importLocked(ctx context.Context, runs []cq.Run, order []int) error {
	w := s.write.ingester
	var prefix []byte
	room := s.unitsPerFile
	for _, i := range order {
		r := runs[i]
		prefix = appendUnitPrefix(prefix[:0], r.Key)
		for from, units := r.From, r.Units; len(units) > 0; {
			n := min(len(units), room)
			if err := rocks.PutUnits(w, prefix, from, units[:n]); err != nil {
				return s.wrap(err)
			}
			from, units = from+int64(n), units[n:]
			if room -= n; room > 0 {
				continue
			}
			if err := w.Cut(); err != nil {
				return s.wrap(err)
			}
			room = s.unitsPerFile
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return s.wrap(w.Commit())
}

// Publish writes the max and min rows of the queues and, last, the checkpoint; all of it is flushed as one when it returns nil.
// A max row is never lowered: where the store already holds a greater max, from dispatch that goes on, that stays. The
// checkpoint is never lowered either; -1 leaves it alone.
func (s *Store) Publish(ctx context.Context, ends []cq.QueueEnd, dispatchFrom int64) error {
	for _, q := range ends {
		if err := validEnd(q); err != nil {
			return err
		}
	}
	if err := s.beginChange(ctx); err != nil {
		return err
	}
	defer s.write.Unlock()
	w := &s.write.rows
	for len(ends) > 0 {
		part := ends[:min(len(ends), rowsPerBatch/2)]
		ends = ends[len(part):]
		fresh := make([]end, len(part))
		for i, q := range part {
			fresh[i] = s.publishQueue(w, q)
		}
		if err := s.db.Write(s.write.rows.batch, false); err != nil {
			return s.stick(err)
		}
		w.batch.Reset()
		s.mu.Lock()
		for i, q := range part {
			s.mu.ends.settle(q.Key, fresh[i])
		}
		s.mu.epoch++
		s.mu.Unlock()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if dispatchFrom > s.DispatchFrom() {
		w.putCheckpoint(dispatchFrom)
		if err := s.db.Write(s.write.rows.batch, false); err != nil {
			return s.stick(err)
		}
		s.mu.Lock()
		s.mu.dispatched, s.mu.row = dispatchFrom, dispatchFrom
		s.mu.Unlock()
	}
	if err := s.db.Flush(); err != nil {
		return s.stick(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.durable = s.mu.dispatched
	return nil
}

func validEnd(q cq.QueueEnd) error {
	if err := validKey(q.Key); err != nil {
		return err
	}
	if q.Max <= 0 || q.Min < 0 || q.Min > q.Max || q.LastPhyOffset < 0 {
		return fmt.Errorf("publish queue %s: min %d, max %d, last record %d cannot be its end", q.Key, q.Min, q.Max, q.LastPhyOffset)
	}
	return nil
}

// publishQueue adds the rows of one queue to the batch and returns its end.
func (s *Store) publishQueue(w *rowWriter, q cq.QueueEnd) end {
	e, _ := s.end(q.Key)
	e.minSlot, e.derived, e.derivedPhy, e.lastSize = q.Min, 0, 0, 0
	if q.Max >= e.max {
		e.max, e.lastPhy = q.Max, q.LastPhyOffset
		w.putMax(q.Key, e)
	}
	w.putRow(q.Key, tagMin, max(q.MinPhyOffset, 0), q.Min)
	return e
}

// DropQueue removes the queue's units and rows, published or not. It is durable after the next Flush or Publish; until
// then a crash brings the queue back whole.
func (s *Store) DropQueue(ctx context.Context, k cq.Key) error {
	if err := validKey(k); err != nil {
		return err
	}
	if err := s.beginChange(ctx); err != nil {
		return err
	}
	defer s.write.Unlock()
	s.write.rows.deleteQueue(k)
	if err := s.db.Write(s.write.rows.batch, false); err != nil {
		return s.stick(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail.forget(appendUnitPrefix(nil, k))
	s.mu.ends.remove(k)
	s.mu.epoch++
	return nil
}
