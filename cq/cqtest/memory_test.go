package cqtest_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/cqtest"
)

// memory is the smallest store that keeps the contract: maps, one lock, and a file written by Flush and Close. It is there
// to judge the suite. bug names one promise that it breaks on purpose. Where late is set, what was accepted can be read from the next
// AwaitReadable or Flush on.
type memory struct {
	path     string
	bug      string
	late     bool
	readOnly bool
	minPhy   int64

	mu       sync.Mutex
	closed   bool
	calls    int
	accepted int64
	readable int64
	durable  int64
	m        map[cq.Key]*memQueue
	ghosts   map[cq.Key]map[int64]cq.Unit // what a bug left behind
}

// memQueue is what is saved of a queue.
type memQueue struct {
	Max    int64
	Units  map[int64]cq.Unit
	hidden int64 // units at the end that cannot be read yet
}

func openMemory(dir, bug string, o cqtest.OpenOptions) (cq.Store, error) {
	s := &memory{
		path: filepath.Join(dir, "units"), bug: bug, late: bug == late || strings.HasPrefix(bug, "readable"), readOnly: o.ReadOnly, minPhy: o.MinPhyOffset,
		accepted: -1, readable: -1, durable: -1, m: map[cq.Key]*memQueue{}, ghosts: map[cq.Key]map[int64]cq.Unit{},
	}
	b, err := os.ReadFile(s.path)
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(b)).Decode(&s.m)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if bug == "a read-only open writes" && o.ReadOnly {
		return s, os.WriteFile(filepath.Join(dir, "opened"), nil, 0o644)
	}
	return s, nil
}

// begin locks the store and says why a write is refused. The caller unlocks.
func (s *memory) begin() error {
	s.mu.Lock()
	switch {
	case s.closed && s.bug != "a closed store answers":
		return cq.ErrClosed
	case s.readOnly && s.bug != "a read-only store appends":
		return cq.ErrReadOnly
	}
	return nil
}

func (s *memory) save() error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(s.m); err != nil {
		return err
	}
	return os.WriteFile(s.path, b.Bytes(), 0o644)
}

func (s *memory) Kind() cq.Kind { return "memory" }

func (s *memory) Queue(k cq.Key) (cq.Queue, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[k] == nil && s.bug == "asking creates" {
		s.m[k] = &memQueue{Units: map[int64]cq.Unit{}}
	}
	q := s.m[k]
	return memHandle{s, k}, q != nil && (q.hidden == 0 || q.hidden < int64(len(q.Units)))
}

// show makes everything readable.
func (s *memory) show() {
	if s.bug == "readable never comes" {
		return
	}
	for _, q := range s.m {
		q.hidden = 0
		if s.bug == "readable comes but for one" && len(q.Units) > 1 {
			q.hidden = 1
		}
	}
	s.readable = s.accepted
}

func (s *memory) Queues() iter.Seq2[cq.Key, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []cq.Key
	for k, q := range s.m {
		if q.hidden == 0 || q.hidden < int64(len(q.Units)) {
			keys = append(keys, k)
		}
	}
	closed := s.closed
	return func(yield func(cq.Key, error) bool) {
		if closed {
			yield(cq.Key{}, cq.ErrClosed)
			return
		}
		for _, k := range keys {
			if !yield(k, nil) {
				return
			}
		}
	}
}

func (s *memory) DispatchFrom() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := int64(-1)
	for _, q := range s.m {
		for _, u := range q.Units {
			if s.bug == "dispatch resumes at a start" {
				end = max(end, u.PhyOffset)
			} else {
				end = max(end, u.End())
			}
		}
	}
	return end
}

func (s *memory) Append(_ context.Context, batch []cq.Entry) error {
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	if !s.late {
		defer s.show()
	}
	for _, e := range batch {
		q := s.m[e.Key]
		if q == nil {
			q = &memQueue{Max: e.QueueOffset, Units: map[int64]cq.Unit{}}
			if s.bug == "every queue begins at 0" {
				q.Max = 0
			}
			maps.Copy(q.Units, s.ghosts[e.Key])
			for slot := range s.ghosts[e.Key] {
				q.Max = max(q.Max, slot+1)
			}
			s.m[e.Key] = q
		}
		old, stored := q.Units[e.QueueOffset]
		switch {
		case e.QueueOffset > q.Max && s.bug != "a gap is padded":
			return &cq.GapError{Key: e.Key, Want: e.QueueOffset, Max: q.Max, PhyOffset: e.Unit.PhyOffset}
		case e.QueueOffset < q.Max && s.bug == "a repeat is appended":
			e.QueueOffset = q.Max
		case e.QueueOffset < q.Max:
			if stored && !old.SameRecord(e.Unit) && s.bug != "a conflict is accepted" {
				return &cq.ConflictError{Key: e.Key, QueueOffset: e.QueueOffset, Stored: old, New: e.Unit}
			}
			continue
		}
		q.Units[e.QueueOffset] = e.Unit
		q.Max = max(q.Max, e.QueueOffset+1)
		q.hidden++
		s.accepted = max(s.accepted, e.Unit.End())
	}
	return nil
}

func (s *memory) AwaitReadable(context.Context) error {
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	s.show()
	return nil
}

func (s *memory) Flush(context.Context) error {
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	if s.bug != "a flush does nothing" {
		s.show()
		s.durable = s.accepted
	}
	return s.save()
}

func (s *memory) Progress() (accepted, readable, durable int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted, s.readable, s.durable
}

func (s *memory) TruncateDirty(_ context.Context, phyOffset int64) error {
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	switch s.bug {
	case "a cut spares its own record":
		phyOffset++
	case "a cut takes the record before it":
		phyOffset -= 160
	}
	s.show()
	for k, q := range s.m {
		lost := map[int64]cq.Unit{}
		for slot, u := range q.Units {
			if u.PhyOffset >= phyOffset {
				lost[slot] = u
				delete(q.Units, slot)
				q.Max = min(q.Max, slot)
			}
		}
		if len(lost) > 0 && len(q.Units) == 0 && s.bug != "a queue that lost all stays" {
			delete(s.m, k)
		}
		if s.bug == "dirty units come back" {
			s.ghosts[k] = lost
		}
	}
	return s.save()
}

func (s *memory) Import(_ context.Context, runs []cq.Run) error {
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	for _, r := range runs {
		q := s.m[r.Key]
		if q == nil {
			q = &memQueue{Units: map[int64]cq.Unit{}}
			s.m[r.Key] = q
		}
		for i, u := range r.Units {
			slot := r.From + int64(i)
			if _, ok := q.Units[slot]; !ok || s.bug != "an import never overwrites" {
				q.Units[slot] = u
			}
			q.Max = max(q.Max, slot+1)
		}
	}
	return s.save()
}

func (s *memory) Publish(_ context.Context, ends []cq.QueueEnd, _ int64) error {
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	for _, e := range ends {
		q := s.m[e.Key]
		if q == nil && s.bug == "an empty queue is not published" {
			continue
		}
		if q == nil {
			q = &memQueue{Units: map[int64]cq.Unit{}}
			s.m[e.Key] = q
		}
		q.Max = max(q.Max, e.Max)
		if s.bug == "publish lowers" {
			q.Max = e.Max
		}
	}
	return s.save()
}

func (s *memory) DropQueue(_ context.Context, k cq.Key) error {
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	if q := s.m[k]; q != nil && s.bug == "a dropped queue keeps units" {
		s.ghosts[k] = q.Units
	}
	delete(s.m, k)
	return s.save()
}

func (s *memory) SetMinPhyOffset(minPhy int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return cq.ErrClosed
	}
	if s.bug != "min stays behind the log" {
		s.minPhy = max(s.minPhy, minPhy)
	}
	return nil
}

func (s *memory) Expire(context.Context, time.Duration) (cq.Expired, error) {
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return cq.Expired{}, err
	}
	for k, q := range s.m {
		maps.DeleteFunc(q.Units, func(slot int64, u cq.Unit) bool {
			return u.PhyOffset < s.minPhy && slot < q.Max-1 || u.PhyOffset == s.minPhy && s.bug == "expiry takes a live unit"
		})
		if q.Units[q.Max-1].PhyOffset < s.minPhy && s.bug == "an expired queue is forgotten" {
			delete(s.m, k)
		}
	}
	return cq.Expired{}, nil
}

func (s *memory) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.readOnly || s.bug == "a close forgets" {
		return nil
	}
	for k, g := range s.ghosts {
		if s.bug == "dirty units come back" && len(g) > 0 {
			if s.m[k] == nil {
				s.m[k] = &memQueue{Units: map[int64]cq.Unit{}}
			}
			for slot, u := range g {
				s.m[k].Units[slot] = u
				s.m[k].Max = max(s.m[k].Max, slot+1)
			}
		}
	}
	return s.save()
}

// memHandle is a cq.Queue.
type memHandle struct {
	s *memory
	k cq.Key
}

func (h memHandle) Key() cq.Key { return h.k }

func (h memHandle) Where(queueOffset int64) string {
	return fmt.Sprintf("%s slot %d", h.k, queueOffset)
}

func (h memHandle) Bounds() (cq.Bounds, error) {
	s := h.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.boundsLocked()
}

func (h memHandle) boundsLocked() (cq.Bounds, error) {
	s := h.s
	if s.closed && s.bug != "a closed store answers" {
		return cq.Bounds{}, cq.ErrClosed
	}
	q := s.m[h.k]
	b := cq.Bounds{MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1}
	if q == nil {
		return b, nil
	}
	if s.calls++; s.bug == "max falls now and then" && s.calls%50 == 0 && q.Max > 1 {
		b.Max = -1
	}
	b.Max += q.Max - q.hidden
	b.Min = b.Max
	for slot, u := range q.Units {
		live := u.PhyOffset >= s.minPhy
		if s.bug == "min forgets the first live unit" && s.minPhy > 0 {
			live = u.PhyOffset > s.minPhy
		}
		if live && slot < b.Min && slot < b.Max {
			b.Min, b.MinPhyOffset = slot, u.PhyOffset
		}
		if slot == b.Max-1 && q.Max > 0 {
			b.LastPhyOffset, b.MaxPhyOffset = u.PhyOffset, u.End()
		}
	}
	if s.bug == "min is 0" {
		b.Min = 0
	}
	return b, nil
}

func (h memHandle) Read(from int64, dst []cq.Unit) (int, error) {
	s := h.s
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := h.boundsLocked()
	if err != nil {
		return 0, err
	}
	if (from < 0 || from >= b.Max) && s.bug != "outside the bounds is nothing" {
		return 0, &cq.RangeError{Key: h.k, Want: from, Min: b.Min, Max: b.Max}
	}
	n := 0
	for n < len(dst) && from+int64(n) < b.Max {
		u, ok := s.m[h.k].Units[from+int64(n)]
		if !ok {
			break
		}
		if s.bug == "the last unit of a read is wrong" && n == 6 {
			u.TagsCode++
		}
		dst[n] = u
		n++
	}
	if s.bug == "a read writes too far" && n < len(dst) {
		dst[n] = cq.Unit{}
	}
	return n, nil
}
