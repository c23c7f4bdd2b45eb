package file

import (
	"context"
	"fmt"
	"math"

	"github.com/tandemq/tandemmq/cq"
)

// appendPart is how many entries are looked at together.
const appendPart = 8192

// appending is what Append keeps between calls, so that it allocates nothing.
type appending struct {
	runs  []entryRun
	part  uint64  // number of the part at work, for queue.part
	buf   []byte  // encoded units
	pairs []piece // of several queues, in buf
}

// entryRun is entries [from, to) of a part, all of one queue.
type entryRun struct {
	q        *queue
	from, to int
	next     int  // the next run of the same queue; 0: none
	first    bool // no run before it is of the same queue
}

// piece is units of consecutive slots in appending.buf.
type piece struct {
	q        *queue
	from, to int
}

// Append adds units; see cq.Appender. Units are stored through the mapping, and the max moves after that. What a batch has for one queue is
// stored together.
//
// One departure from the rule for gaps: a queue that holds nothing but pre-blank may begin at any later slot of the file
// it ends in. That is what a crash leaves of a queue that was about to begin, and nothing is lost by it.
//
// One from the rule for repeats: a slot of which a crash left zeros, wholly or on one side of a disk sector's border, is written anew, and so is one that holds an
// impossible unit. What is on disk is no unit of another record then.
//
// A *cq.QueueError tells that a queue has no possible name on this filesystem, a *cq.EntryError among others that a unit cannot be told from free or
// filler. A full disk is not sticky either; behind the entry of a failed write further units may be stored, which a later try finds as repeats.
//
// Source: ConsumeQueue.putMessagePositionInfo, 5.5.0, which counts a failed write as done (F4), writes a unit that is ahead of
// its slot to the wrong slot (F5), does not look at repeats, and gives a unit up after 30 tries (F12).
func (s *Store) Append(ctx context.Context, batch []cq.Entry) error {
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	defer s.endWrite()
	for len(batch) > 0 {
		part := batch[:min(len(batch), appendPart)]
		n, err := s.appendPart(part)
		s.noteAccepted(part[:n])
		if err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

func (s *Store) noteAccepted(entries []cq.Entry) {
	end := s.accepted.Load()
	for i := range entries {
		end = max(end, entries[i].Unit.End())
	}
	s.accepted.Store(end)
}

// appendPart returns how many entries of part were accepted; an error is about the next one.
func (s *Store) appendPart(part []cq.Entry) (int, error) {
	n, scattered, err := s.splitRuns(part)
	if scattered && s.appendGathered(part) {
		return n, err
	}
	runs := s.writing.runs
	for i := range runs {
		r := &runs[i]
		if k, err := r.q.appendRun(part[r.from:r.to]); err != nil {
			return r.from + k, err
		}
	}
	return n, err
}

// splitRuns cuts part into runs. It stops at an entry that no queue can take: the error is about entry n. scattered tells that a queue has several runs.
func (s *Store) splitRuns(part []cq.Entry) (n int, scattered bool, err error) {
	w := &s.writing
	w.part++
	w.runs = w.runs[:0]
	s.queues.RLock()
	defer s.queues.RUnlock()
	var q *queue
	for i := range part {
		if k := &part[i].Key; q == nil || q.key != *k {
			if q = s.queues.m[*k]; q == nil {
				if q, err = s.newQueueRLocked(*k); err != nil {
					return i, scattered, err
				}
			}
			r := entryRun{q: q, from: i, first: q.part != w.part}
			if !r.first {
				w.runs[q.lastRun].next = len(w.runs)
				scattered = true
			}
			q.part, q.lastRun = w.part, len(w.runs)
			w.runs = append(w.runs, r)
		}
		w.runs[len(w.runs)-1].to = i + 1
	}
	return len(part), scattered, nil
}

// newQueueRLocked returns the queue of a key that was not looked at before. It lets go of the lock of the table and takes it again.
func (s *Store) newQueueRLocked(k cq.Key) (*queue, error) {
	if err := s.checkKey(k); err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	s.queues.RUnlock()
	defer s.queues.RLock()
	return s.obtain(k), nil
}

// appendGathered stores the runs of each queue together, provided that all of them simply go on where their queue ends. It is false when nothing was
// stored, or not all: the runs then go one by one, and what is stored is a repeat.
func (s *Store) appendGathered(part []cq.Entry) bool {
	w := &s.writing
	w.buf, w.pairs = w.buf[:0], w.pairs[:0]
	for i := range w.runs {
		r := &w.runs[i]
		if !r.first {
			continue
		}
		from, slot := len(w.buf), r.q.nextSlot()
		for {
			n := 0
			if w.buf, n = encodeRun(w.buf, part[r.from:r.to], slot); n < r.to-r.from {
				return false
			}
			slot += int64(n)
			if r.next == 0 {
				break
			}
			r = &w.runs[r.next]
		}
		w.pairs = append(w.pairs, piece{r.q, from, len(w.buf)})
	}
	for _, p := range w.pairs {
		if n, err := p.q.store(w.buf[p.from:p.to]); err != nil || n < p.to-p.from {
			return false
		}
	}
	return true
}

// encodeRun appends the units of entries to b, as far as their slots are slot and those that follow, and they are units of a record.
func encodeRun(b []byte, entries []cq.Entry, slot int64) ([]byte, int) {
	for i := range entries {
		e := &entries[i]
		if e.QueueOffset != slot+int64(i) || e.QueueOffset >= maxSlot || !valid(e.Unit) || filler(e.Unit) {
			return b, i
		}
		b = cq.AppendUnit(b, e.Unit)
	}
	return b, len(entries)
}

// maxSlot bounds the slots, so that byte positions of whole files stay in range.
const maxSlot = math.MaxInt64/unitBytes - 1<<32

// checkUnits refuses slots that have no byte position, and what would read back as something else than a unit.
func checkUnits(k cq.Key, from int64, units ...cq.Unit) error {
	if from < 0 || from > maxSlot-int64(len(units)) {
		return fmt.Errorf("queue %s: slot %d is outside [0, %d)", k, from, maxSlot)
	}
	for i, u := range units {
		if !valid(u) || filler(u) {
			return fmt.Errorf("queue %s: slot %d: position %d size %d tags %d is no unit of a record", k, from+int64(i),
				u.PhyOffset, u.Size, u.TagsCode)
		}
	}
	return nil
}
