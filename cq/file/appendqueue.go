package file

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// appendRun accepts entries of this queue in order and returns how many; an error is about the next one.
func (q *queue) appendRun(entries []cq.Entry) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() { err = q.damaged(err) }()
	if err := q.toWriteLocked(); err != nil {
		return 0, err
	}
	w := &q.s.writing
	for n < len(entries) {
		k := 0
		if q.state.present {
			w.buf, k = encodeRun(w.buf[:0], entries[n:], q.state.max)
		}
		if k == 0 {
			if err := q.appendOneLocked(&entries[n]); err != nil {
				return n, err
			}
			n++
			continue
		}
		stored, err := q.storeLocked(w.buf)
		n += stored / unitBytes
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// toWriteLocked opens the files and finds out the state; while a hole is being closed what is known of it is enough.
func (q *queue) toWriteLocked() error {
	q.used()
	if q.files != nil && (q.loaded || q.closing) {
		return nil
	}
	if !q.closing {
		if err := q.findStateLocked(); err != nil {
			return q.aloneLocked(err)
		}
	}
	return q.aloneLocked(q.openFilesLocked())
}

func (q *queue) used() {
	if !q.recent.Load() {
		q.recent.Store(true)
	}
}

// nextSlot returns the max of a queue that is whole, -1 for any other.
func (q *queue) nextSlot() int64 {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.loaded && q.state.present && q.state.damage == nil {
		return q.state.max
	}
	return -1
}

// store is storeLocked for a queue that nextSlot knows.
func (q *queue) store(b []byte) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.toWriteLocked(); err != nil {
		return 0, err
	}
	return q.storeLocked(b)
}

// storeLocked stores encoded units behind the last one and returns how many bytes. It goes file by file: what fails to begin the next file was
// stored in the one before.
func (q *queue) storeLocked(b []byte) (n int, err error) {
	for n < len(b) {
		slot := q.state.max
		room := (q.s.perFile - slot%q.s.perFile) * unitBytes
		part := b[n:min(int64(len(b)), int64(n)+room)]
		if err := q.writeLocked(part, slot); err != nil {
			return n, err
		}
		q.appendedLocked(part, slot)
		n += len(part)
	}
	return n, nil
}

// appendOneLocked accepts an entry that is not simply the next unit.
func (q *queue) appendOneLocked(e *cq.Entry) error {
	if err := checkUnits(e.Key, e.QueueOffset, e.Unit); err != nil {
		return &cq.EntryError{Key: e.Key, QueueOffset: e.QueueOffset, PhyOffset: e.Unit.PhyOffset, Err: err}
	}
	st := &q.state
	slot := e.QueueOffset
	if slot > st.max && q.closing { // the hole may be closed: look how far the units go now
		q.closing = false
		if err := q.toWriteLocked(); err != nil {
			return err
		}
	}
	switch {
	case q.beginsLocked(slot):
		if err := q.preBlankLocked(slot); err != nil {
			return err
		}
	case slot < st.max:
		return q.repeatLocked(e)
	case slot > st.max:
		return &cq.GapError{Key: q.key, Want: slot, Max: st.max, PhyOffset: e.Unit.PhyOffset}
	}
	var b [unitBytes]byte
	putUnit(b[:], e.Unit)
	if err := q.writeLocked(b[:], slot); err != nil {
		return err
	}
	q.appendedLocked(b[:], slot)
	return nil
}

// beginsLocked tells whether a unit at slot is the first one of its queue.
func (q *queue) beginsLocked(slot int64) bool {
	st := &q.state
	if len(q.files.Files()) == 0 {
		return true
	}
	if slot <= st.max || st.min < st.max || st.lastSize > 0 || slot/q.s.perFile != st.max/q.s.perFile {
		return false
	}
	if st.max == st.first {
		return true
	}
	u, err := q.unitLocked(st.max - 1)
	return err == nil && u.IsPreBlank()
}

// preBlankLocked fills the first file up to slot.
func (q *queue) preBlankLocked(slot int64) error {
	from := slot / q.s.perFile * q.s.perFile
	if q.state.max > from {
		q.s.log.Warn("queue of filler only begins anew", slog.String("topic", q.key.Topic),
			slog.Int("queueId", int(q.key.QueueID)), slog.Int64("max", q.state.max), slog.Int64("queueOffset", slot))
		from = q.state.max
	}
	if from == slot {
		return nil
	}
	b := make([]byte, 0, (slot-from)*unitBytes) // at most one file
	for range slot - from {
		b = cq.AppendUnit(b, preBlank)
	}
	return q.writeLocked(b, from)
}

// writeLocked stores b at a slot. A failure is sticky unless it says nothing about the disk.
func (q *queue) writeLocked(b []byte, slot int64) error {
	if err := q.files.WriteAt(b, slot*unitBytes); err != nil {
		if q.closeAloneLocked(err) {
			return &cq.QueueError{Key: q.key, Err: err}
		}
		err = fmt.Errorf("append to queue %s at slot %d: %w", q.key, slot, err)
		if errors.Is(err, mappedfile.ErrLimit) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return err // a later try may find room
		}
		if isDamage(err) && !q.s.keepDamage {
			return err // of this queue alone
		}
		return q.s.fail(err)
	}
	q.dirtyLocked()
	return nil
}

// isDamage tells whether err says that files of a queue are not what they were: cut, or nothing that can be read.
func isDamage(err error) bool {
	var damage *cq.CorruptError
	return errors.As(err, &damage) || errors.Is(err, mmap.ErrFault) || errors.Is(err, mmap.ErrShort)
}

// damaged makes a *cq.DamagedError of damage that an append has met, unless that is to stay what it is. Nothing of the queue is changed: who drops it may have it built again.
func (q *queue) damaged(err error) error {
	if err == nil || q.s.keepDamage || !isDamage(err) {
		return err
	}
	var damage *cq.CorruptError
	if !errors.As(err, &damage) {
		path := queueDir(q.s.dir, q.key)
		if fault := (*mmap.FaultError)(nil); errors.As(err, &fault) {
			path = fault.Path
		}
		err = &cq.CorruptError{File: path, Offset: -1, Want: "a file that can be written to", Got: "one that was cut or that the disk does not give", Err: err}
	}
	return &cq.DamagedError{Keys: []cq.Key{q.key}, Err: err}
}

func (q *queue) dirtyLocked() {
	if !q.dirty {
		q.dirty = true
		q.s.writing.dirty = append(q.s.writing.dirty, q)
	}
}

// appendedLocked takes stored units, one at least, into the state.
func (q *queue) appendedLocked(b []byte, slot int64) {
	st := &q.state
	n := int64(len(b) / unitBytes)
	if st.damage != nil {
		q.loaded, q.closing = false, true // the hole may be closed now: who asks for bounds looks again
		st.max = slot + n
		return
	}
	if !st.present {
		st.present, st.first = true, slot/q.s.perFile*q.s.perFile
		st.min, st.max = slot, slot
	}
	if st.min >= st.max { // no live unit before
		alive := live(q.s.minPhyOffset.Load())
		st.min = slot
		for u := b; len(u) > 0; u = u[unitBytes:] {
			if u := decodeUnit(u); alive(u) {
				st.minPhy = u.PhyOffset
				break
			}
			st.min++
		}
	}
	last := decodeUnit(b[len(b)-unitBytes:])
	st.lastPhy, st.lastSize = last.PhyOffset, last.Size
	st.max = slot + n
}

// repeatLocked judges an entry whose slot is taken.
func (q *queue) repeatLocked(e *cq.Entry) error {
	if e.QueueOffset < q.state.first {
		return nil // expired
	}
	raw, at, err := q.bytesLocked(e.QueueOffset)
	if err != nil {
		return err
	}
	u := decodeUnit(raw[:])
	if filler(u) {
		return nil
	}
	if err := q.resolveLocked(&u); err != nil {
		return err
	}
	if u.SameRecord(e.Unit) {
		q.s.writing.unsynced = true
		return nil
	}
	var b [unitBytes]byte
	putUnit(b[:], e.Unit)
	if valid(u) && !torn(raw[:], b[:], at) {
		return &cq.ConflictError{Key: q.key, QueueOffset: e.QueueOffset, Stored: u, New: e.Unit}
	}
	if err := q.writeLocked(b[:], e.QueueOffset); err != nil {
		return err
	}
	q.loaded, q.closing = false, true
	return nil
}

// sectorBytes is the least that a disk writes as a whole.
const sectorBytes = 512

// torn tells whether stored is what a crash leaves of the unit want at byte at of a file: zeros, or zeros on one side of a sector's border.
func torn(stored, want []byte, at int64) bool {
	cut, _ := sectorBorder(at)
	kept := func(a, b []byte) bool { return bytes.Equal(a, b) || bytes.Equal(a, zeroBytes[:len(a)]) }
	return kept(stored[:cut], want[:cut]) && kept(stored[cut:], want[cut:])
}

// sectorBorder returns how many bytes of the unit at byte at of a file lie in its first sector, and whether the others lie in another one.
func sectorBorder(at int64) (cut int64, across bool) {
	cut = min(sectorBytes-at%sectorBytes, unitBytes)
	return cut, cut < unitBytes
}

// unitLocked reads what a slot of the files holds.
func (q *queue) unitLocked(slot int64) (cq.Unit, error) {
	b, _, err := q.bytesLocked(slot)
	return decodeUnit(b[:]), err
}

// bytesLocked copies the bytes of a slot of the files; at is their place in the file.
func (q *queue) bytesLocked(slot int64) (raw [unitBytes]byte, at int64, err error) {
	f, ok := q.files.Find(slot * unitBytes)
	if !ok {
		return raw, 0, fmt.Errorf("read queue %s at slot %d: no file holds it", q.key, slot)
	}
	b, err := f.Hold()
	if err != nil {
		return raw, 0, fmt.Errorf("read queue %s at slot %d: %w", q.key, slot, unreadable(f.Path(), err))
	}
	defer f.Release()
	at = slot*unitBytes - f.From()
	err = mmap.GuardFault(func() error {
		copy(raw[:], b[at:])
		return nil
	})
	return raw, at, unreadable(f.Path(), err)
}

// resolveLocked replaces the address of an extension unit by its tags code, where the unit is found.
func (q *queue) resolveLocked(u *cq.Unit) error {
	if !valid(*u) || !cq.IsExtAddress(u.TagsCode) {
		return nil
	}
	if err := q.openExtLocked(); err != nil {
		return err
	}
	if tags, ok := resolveExt(q.ext, u.TagsCode); ok {
		u.TagsCode = tags
	}
	return nil
}
