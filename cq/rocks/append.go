//go:build cgo

package rocks

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

const (
	// maxGrouped is the number of queues up to which a batch is put in order of queue before it is written. With few queues
	// the memtable then inserts about twice as fast; with many, ordering costs what it saves.
	maxGrouped = 32
	// maxKeptGroups is the size up to which the stage's table of queues is reused.
	maxKeptGroups = 4096
)

// stage collects one Append into a WriteBatch. Its memory is reused.
type stage struct {
	batch   *rocks.Batch
	groups  []group
	index   map[cq.Key]int32
	pending []pendingUnit
	sorted  []pendingUnit
	value   []byte
	rowKey  []byte
}

// group is what one Append knows of a queue.
type group struct {
	key    cq.Key
	prefix []byte
	end    end   // with the pending units
	stored int64 // max without them; 0 when the queue is not in the store
	count  int   // pending units
}

type pendingUnit struct {
	group int32
	slot  int64
	unit  cq.Unit
}

func (st *stage) reset(db *rocks.DB) {
	if st.batch == nil {
		st.batch = db.NewBatch()
	}
	if st.index == nil || len(st.index) > maxKeptGroups {
		st.index = map[cq.Key]int32{}
		st.groups = nil
	}
	clear(st.index)
	st.groups = st.groups[:0]
	st.pending = st.pending[:0]
}

// group returns the number of k's group, making it if need be; last is the group of the entry before.
func (s *Store) group(st *stage, k cq.Key, last int32) (int32, error) {
	if last >= 0 && st.groups[last].key == k {
		return last, nil
	}
	if g, ok := st.index[k]; ok {
		return g, nil
	}
	if err := validKey(k); err != nil {
		return 0, err
	}
	e, _ := s.end(k)
	g := int32(len(st.groups))
	var prefix []byte
	if int(g) < cap(st.groups) {
		prefix = st.groups[:g+1][g].prefix[:0]
	}
	st.groups = append(st.groups, group{key: k, prefix: appendUnitPrefix(prefix, k), end: e, stored: e.max})
	st.index[k] = g
	return g, nil
}

// validKey refuses what no row can be written for.
func validKey(k cq.Key) error {
	switch {
	case k.Topic == "":
		return fmt.Errorf("write queue %s: the topic is empty", k)
	case len(k.Topic) > MaxTopicBytes:
		return fmt.Errorf("write queue %s: a topic of %d bytes is longer than %d", k, len(k.Topic), MaxTopicBytes)
	case k.QueueID < 0:
		return fmt.Errorf("write queue %s: the queue id is negative", k)
	}
	return nil
}

// validUnit refuses what is no unit; filler belongs to the file format alone.
func validUnit(k cq.Key, slot int64, u cq.Unit) error {
	if slot < 0 || u.PhyOffset < 0 || u.Size <= 0 || u.IsPreBlank() {
		return fmt.Errorf("write queue %s: slot %d cannot hold record %d of size %d", k, slot, u.PhyOffset, u.Size)
	}
	return nil
}

// Append stores units and the rows of the queues they belong to, and raises the checkpoint to the end of the furthest
// record, in one WriteBatch. See cq.Appender. Readable when it returns, durable after Flush. ctx is looked at
// before the first write only. An entry that can have no row (a topic that is empty or longer than MaxTopicBytes, a
// negative number, a size of 0) fails like any other and is not sticky.
func (s *Store) Append(ctx context.Context, entries []cq.Entry) error {
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	defer s.write.Unlock()
	st := &s.write.stage
	st.reset(s.db)
	last := int32(-1)
	for i := range entries {
		g, err := s.stageLocked(st, &entries[i], last)
		if err != nil {
			if werr := s.commitLocked(st); werr != nil {
				return werr
			}
			return err
		}
		last = g
	}
	return s.commitLocked(st)
}

// AwaitReadable returns at once: a unit is readable when Append returns. The error is that of an earlier write.
func (s *Store) AwaitReadable(ctx context.Context) error {
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	s.write.Unlock()
	return nil
}

// stageLocked adds one entry to the stage.
func (s *Store) stageLocked(st *stage, e *cq.Entry, last int32) (int32, error) {
	i, err := s.group(st, e.Key, last)
	if err != nil {
		return 0, err
	}
	if err := validUnit(e.Key, e.QueueOffset, e.Unit); err != nil {
		return 0, err
	}
	g := &st.groups[i]
	switch {
	case g.end.max == 0: // not present: the queue begins here
		g.end.minSlot = e.QueueOffset
	case e.QueueOffset < g.end.max:
		return i, s.repeatLocked(st, i, e)
	case e.QueueOffset > g.end.max:
		return 0, &cq.GapError{Key: e.Key, Want: e.QueueOffset, Max: g.end.max, PhyOffset: e.Unit.PhyOffset}
	}
	g.end.max = e.QueueOffset + 1
	g.end.lastPhy, g.end.lastSize = e.Unit.PhyOffset, e.Unit.Size
	g.count++
	st.pending = append(st.pending, pendingUnit{group: i, slot: e.QueueOffset, unit: e.Unit})
	return i, nil
}

// repeatLocked accepts an entry whose slot is taken when it equals what is stored there, or when nothing is stored any more.
func (s *Store) repeatLocked(st *stage, i int32, e *cq.Entry) error {
	g := &st.groups[i]
	if g.count > 0 && e.QueueOffset >= g.stored {
		if err := s.commitLocked(st); err != nil {
			return err
		}
	}
	var stored [1]cq.Unit
	n, err := rocks.ReadUnits(s.db, g.prefix, e.QueueOffset, stored[:])
	if err != nil {
		return s.wrap(err)
	}
	if n == 0 {
		return nil
	}
	old, u := stored[0], e.Unit
	sameTime := old.StoreTimestampMs == u.StoreTimestampMs || old.StoreTimestampMs == cq.NoTimestamp || u.StoreTimestampMs == cq.NoTimestamp
	if !old.SameRecord(u) || !sameTime {
		return &cq.ConflictError{Key: e.Key, QueueOffset: e.QueueOffset, Stored: old, New: u}
	}
	return nil
}

// commitLocked writes what is staged and makes it visible.
func (s *Store) commitLocked(st *stage) error {
	if len(st.pending) == 0 {
		return nil
	}
	units, grouped := st.order()
	dispatched := int64(-1)
	st.batch.Reset()
	for i := range units {
		p := &units[i]
		st.value = appendUnit(st.value[:0], p.unit)
		st.batch.PutSlot(st.groups[p.group].prefix, p.slot, st.value)
		dispatched = max(dispatched, p.unit.End())
	}
	for i := range st.groups {
		if g := &st.groups[i]; g.count > 0 {
			st.putMax(g.key, g.end)
		}
	}
	raise := dispatched > s.DispatchFrom()
	if raise {
		st.value = binary.BigEndian.AppendUint64(st.value[:0], uint64(dispatched))
		st.batch.Put(rocks.Offsets, checkpointKey, st.value)
	}
	if err := s.db.Write(st.batch, grouped); err != nil {
		return s.stickLocked(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range st.groups {
		if g := &st.groups[i]; g.count > 0 {
			s.mu.ends.put(g.key, g.end)
			g.stored, g.count = g.end.max, 0
		}
	}
	if raise {
		s.mu.dispatched = dispatched
	}
	st.pending = st.pending[:0]
	return nil
}

// putMax adds the max row of a queue to the batch.
func (st *stage) putMax(k cq.Key, e end) {
	st.rowKey = appendRowKey(st.rowKey[:0], k, tagMax)
	st.value = appendRow(st.value[:0], e.lastPhy, e.max-1)
	st.batch.Put(rocks.Offsets, st.rowKey, st.value)
}

// order returns the pending units, those of one queue together when that pays. The order of distinct keys within a batch has
// no effect that can be seen.
func (st *stage) order() ([]pendingUnit, bool) {
	if len(st.groups) == 1 {
		return st.pending, true
	}
	if len(st.groups) > maxGrouped || len(st.pending) < 2*len(st.groups) {
		return st.pending, false
	}
	var next [maxGrouped]int
	at := 0
	for i := range st.groups {
		next[i] = at
		at += st.groups[i].count
	}
	if cap(st.sorted) < len(st.pending) {
		st.sorted = make([]pendingUnit, len(st.pending), 2*len(st.pending))
	}
	st.sorted = st.sorted[:len(st.pending)]
	for i := range st.pending {
		p := &st.pending[i]
		st.sorted[next[p.group]] = *p
		next[p.group]++
	}
	return st.sorted, true
}
