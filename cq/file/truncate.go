package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/failpoint"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// TruncateDirty removes every unit whose record starts at or above phyOffset; see cq.Store. Durable when it returns nil.
// It looks at every queue and touches those that have such a unit. Queues whose files contradict one another stay as they are, and are named by a *cq.DamagedError at the end. On a damaged queue it goes through every slot
// behind the first hole too: what lies there is dirty or not by its own position. What a crash left of a unit
// that lies across the border of two sectors is dirty as well, when nothing sound lies behind it.
//
// Source: ConsumeQueue.truncateDirtyLogicFiles, 5.5.0, which re-reads all queues and only moves positions, so that the
// bytes are found again at the next start.
func (s *Store) TruncateDirty(ctx context.Context, phyOffset int64) error {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	defer s.endWrite()
	keys, err := s.Keys()
	if err != nil {
		return err
	}
	var damaged *cq.DamagedError
	for _, k := range keys {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.truncateQueue(k, phyOffset); err != nil {
			err = fmt.Errorf("truncate queue %s at physical offset %d: %w", k, phyOffset, err)
			if !errors.Is(err, cq.ErrCorrupt) || s.writing.failed != nil {
				return err
			}
			if damaged == nil {
				damaged = &cq.DamagedError{Err: err}
			}
			damaged.Keys = append(damaged.Keys, k)
		}
		failpoint.Hit(failpoint.QueueTruncated)
	}
	s.accepted.Store(min(s.accepted.Load(), phyOffset))
	s.durable.Store(min(s.durable.Load(), phyOffset))
	if damaged != nil {
		return damaged
	}
	return nil
}

func (s *Store) truncateQueue(k cq.Key, phyOffset int64) error {
	q := s.obtain(k)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.loadLocked(); err != nil {
		return err
	}
	st := &q.state
	_, across := sectorBorder((st.max - 1) % s.perFile * unitBytes) // then the last unit may be a torn one
	if st.damage == nil && (!st.present || !across) && (st.lastSize == 0 || st.lastPhy < phyOffset) {
		return nil
	}
	if err := q.openFilesLocked(); err != nil {
		return err
	}
	cut, keep, err := q.dirtyFromLocked(phyOffset)
	if err != nil || cut < 0 {
		return err
	}
	if !keep {
		return s.removeLocked(q)
	}
	if err := q.files.Truncate(cut * unitBytes); err != nil {
		return s.fail(err)
	}
	s.undirty(q)
	defer q.forgetLocked()
	if err := q.truncateExtLocked(cut); err != nil {
		return s.fail(fmt.Errorf("extension files: %w", err))
	}
	return nil
}

// dirtyFromLocked returns the first slot whose record starts at or above phyOffset, or that a crash tore with nothing sound behind it; -1 when there is
// none; and whether anything but pre-blank lies below it.
func (q *queue) dirtyFromLocked(phyOffset int64) (cut int64, keep bool, err error) {
	files := q.files.Files()
	if len(files) == 0 {
		return -1, false, nil
	}
	p := newProber(files)
	defer p.close()
	dirty := func(u cq.Unit) bool { return valid(u) && !filler(u) && u.PhyOffset >= phyOffset }
	damage := q.state.damage
	if damage == nil {
		if cut, damage, err = p.search(p.first, q.state.max, dirty); err != nil {
			return -1, false, err
		}
	}
	if damage == nil {
		if cut, err = p.backOver(cut, dirty); err == nil && cut < q.state.max {
			cut, err = p.backOverLost(cut)
		}
	} else { // a search would trust what lies behind a hole
		cut, err = p.firstDirty(dirty)
	}
	if err != nil || cut < 0 || damage == nil && cut == q.state.max {
		return -1, false, err
	}
	err = p.walk(p.first, func(slot int64, u cq.Unit) error { // mostly the first slot answers
		keep = slot < cut && valid(u) && !u.IsPreBlank()
		if keep || slot >= cut {
			return errStop
		}
		return nil
	})
	return cut, keep, err
}

// backOver returns the first of the slots before cut that are all dirty or torn: a torn unit in a position that it does not have misleads a search.
func (p *prober) backOver(cut int64, dirty func(cq.Unit) bool) (int64, error) {
	for ; cut > p.first; cut-- {
		u, err := p.unit(cut - 1)
		if err != nil {
			return 0, err
		}
		if dirty(u) {
			continue
		}
		if !p.halved(cut-1, u) {
			break
		}
		before := int64(-1)
		if cut-1 > p.first {
			b, err := p.unit(cut - 2)
			if err != nil {
				return 0, err
			}
			if !filler(b) {
				before = b.PhyOffset
			}
		}
		if valid(u) && u.PhyOffset > before {
			break
		}
	}
	return cut, nil
}

// backOverLost returns the first of the slots of lost records before cut: without a unit behind them nothing tells that they were given.
func (p *prober) backOverLost(cut int64) (int64, error) {
	for ; cut > p.first; cut-- {
		if u, err := p.unit(cut - 1); err != nil || !u.IsLost() {
			return cut, err
		}
	}
	return cut, nil
}

// firstDirty goes through all slots, and returns the first dirty one, or a torn one below with nothing sound between; -1 when there is neither.
func (p *prober) firstDirty(dirty func(cq.Unit) bool) (int64, error) {
	cut, torn, before := int64(-1), int64(-1), int64(-1)
	err := p.walk(p.first, func(slot int64, u cq.Unit) error {
		switch {
		case dirty(u):
			cut = slot
			return errStop
		case p.halved(slot, u) && (!valid(u) || u.PhyOffset <= before):
			if torn < 0 {
				torn = slot
			}
		case valid(u) && !u.IsPreBlank() && !u.IsLost():
			torn, before = -1, u.PhyOffset
		}
		return nil
	})
	if torn >= 0 {
		cut = torn
	}
	return cut, err
}

// halved tells whether u lies across a sector's border and is zero on one side of it, as a crash leaves units of which one sector was written.
func (p *prober) halved(slot int64, u cq.Unit) bool {
	cut, across := sectorBorder((slot - p.first) % p.perFile * unitBytes)
	if !across || free(u) || filler(u) {
		return false
	}
	var b [unitBytes]byte
	putUnit(b[:], u)
	return bytes.Equal(b[:cut], zeroBytes[:cut]) || bytes.Equal(b[cut:], zeroBytes[:unitBytes-cut])
}

// undirty takes a queue off the list of those to flush.
func (s *Store) undirty(q *queue) {
	if !q.dirty {
		return
	}
	q.dirty = false
	for i, d := range s.writing.dirty {
		if d == q {
			s.writing.dirty = append(s.writing.dirty[:i], s.writing.dirty[i+1:]...)
			return
		}
	}
}

// DropQueue removes a queue, its extension files, and the directory of its topic when that is empty then. Durable when it
// returns nil.
func (s *Store) DropQueue(ctx context.Context, k cq.Key) error {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	defer s.endWrite()
	if !possibleKey(k) {
		return nil
	}
	q, ok := s.find(k)
	if !ok {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return s.removeLocked(q)
}

// removeLocked removes a queue's files, and its directories where nothing else lies in them. The files go in order, so that
// a queue that is half removed still has its max.
func (s *Store) removeLocked(q *queue) error {
	s.undirty(q)
	q.forgetLocked()
	for _, tree := range []string{s.dir, s.extDir} {
		if err := removeQueueDir(tree, q.key); err != nil {
			return s.fail(fmt.Errorf("remove queue %s: %w", q.key, err))
		}
	}
	return nil
}

func removeQueueDir(tree string, k cq.Key) error {
	dir := queueDir(tree, k)
	entries, err := os.ReadDir(dir) // sorted
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// The newest first: cut off in between, what is left is the queue as it once was, not one that begins late.
	for _, e := range slices.Backward(entries) {
		if _, ok := mappedfile.ParseName(e.Name()); ok && !e.IsDir() {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	// Each directory goes if it is empty now; the deepest one that stays has changed.
	for _, parent := range []string{filepath.Dir(dir), tree} {
		if os.Remove(dir) != nil {
			break
		}
		dir = parent
	}
	return mmap.SyncDir(dir)
}
