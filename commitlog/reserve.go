package commitlog

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// Reserving, filling, publishing. A put takes a run of bytes under the put lock, which is held for the arithmetic alone; it
// fills them without any lock; and it publishes them in the order of reservation, so that everything below the published
// position is whole. Encoding and checksums of several producers so run side by side.
//
// Order is kept by a ring: each reservation has the next number and the slot of that number. The head is the number of the first reservation that is
// not published. Whoever finds the head at its own number when its bytes are filled publishes them and moves the head by one; nobody else may, so that takes
// no lock. Who is not yet at the head marks its slot and goes: whoever moves the head there does it for it, takes the mark off, and goes on. Mark and
// head are each written before the other is read, so one of the two sees the other; where both do, taking the mark decides.
// A slot is taken again only after the head has passed it.

// ringSize is how many reservations can be in flight. It bounds concurrency, not throughput: a put holds a slot for about a
// microsecond.
const ringSize = 1024

type ringSlot struct {
	marked atomic.Uint64 // number of the reservation that is filled and waits for the head, plus 1
	end    int64         // physical offset just past it
}

// Reservation is a run of bytes of the log that its owner has to publish. The zero value is ready for Reserve; it may be used
// again after Publish.
type Reservation struct {
	// PhyOffset is the position of the first byte.
	PhyOffset int64
	// StoreTimestampMs is the store time of what is written there: never below that of the reservation before it (W45).
	StoreTimestampMs int64

	bytes  []byte
	number uint64
	end    int64
}

// End returns the physical offset just past the reservation.
func (r *Reservation) End() int64 { return r.end }

// Reserve takes the next size bytes of the log for one record, or for several that shall stand one behind the other in one file. Where they and the filler header that
// must be able to follow do not fit into the current file, the rest of it becomes a filler and the bytes are the first of the next.
//
// It never waits for anything but the put lock. Errors: *BusyError when it would have to: call AwaitSpace holding no lock, and try again;
// *SizeError when no file can hold so many bytes (checked before the lock is taken: W1); *AllocateError when the next file cannot be made; ErrClosed;
// *FailedError after a failed write or sync. On error nothing was taken.
//
// Source: CommitLog.asyncPutMessage, DefaultAppendMessageCallback.doAppend, 5.5.0.
func (w *Writer) Reserve(r *Reservation, size int) error {
	if int64(size) > w.maxRecord || size <= 0 {
		return &SizeError{Bytes: int64(size), MaxBytes: w.maxRecord}
	}
	var filler Reservation
	w.lock.Lock()
	err := w.reserveLocked(r, &filler, int64(size), message.BlankHeaderSize)
	w.unlockPut(r.StoreTimestampMs)
	return w.fillEnd(&filler, r, err)
}

// reserveLocked takes size bytes if room more are left behind them in their file.
func (w *Writer) reserveLocked(r, filler *Reservation, size, room int64) error {
	r.StoreTimestampMs = w.now()
	if err := w.admit(size); err != nil {
		return err
	}
	if w.put.segment.end-w.put.wrote < size+room {
		if err := w.rollLocked(filler); err != nil {
			return err
		}
	}
	if r.StoreTimestampMs < w.put.lastTimestampMs {
		r.StoreTimestampMs = w.put.lastTimestampMs
	} else {
		w.put.lastTimestampMs = r.StoreTimestampMs
	}
	w.takeLocked(r, size, w.put.wrote+size)
	if w.put.wrote >= w.put.populateAt {
		w.put.populateAt = w.put.wrote + w.populateStep
		w.populator.kick(w.put.wrote)
	}
	return nil
}

// admit tells whether a reservation of size bytes can be taken now.
func (w *Writer) admit(size int64) error {
	if w.put.closed {
		return ErrClosed
	}
	if err := w.failure(); err != nil {
		return err
	}
	if w.put.number+2-w.head.Load() > ringSize { // a roll takes two
		return &BusyError{Reason: BusyRing}
	}
	if limit := w.o.BufferBytes; w.staging != nil {
		if pending := w.put.wrote - w.committed(); pending > 0 && pending+size > limit {
			return &BusyError{Reason: BusyBuffer, PendingBytes: pending, LimitBytes: limit}
		}
	}
	if limit := w.o.UndurableBytes; limit > 0 && w.o.SyncFlush {
		if pending := w.put.wrote - w.pos.Flushed(); pending > 0 && pending+size > limit {
			return &BusyError{Reason: BusyFlush, PendingBytes: pending, LimitBytes: limit}
		}
	}
	return nil
}

// takeLocked gives the next size bytes to r; the log goes on at end.
func (w *Writer) takeLocked(r *Reservation, size, end int64) {
	s := w.put.segment
	r.PhyOffset, r.end, r.number = w.put.wrote, end, w.put.number
	if w.staging != nil {
		r.bytes = w.staging.take(s, r.PhyOffset, int(size))
	} else {
		at := r.PhyOffset - s.from
		r.bytes = s.data[at : at+size : at+size]
	}
	w.ring[r.number%ringSize].end = end
	w.put.number++
	w.put.wrote = end
}

// rollLocked ends the current file with a filler, if anything is left of it, and goes on to the next, which the allocator has made ahead. When it has not, nothing is
// changed: waiting for it is for the caller to do, outside the lock (W14).
//
// The filler's header is for the caller to write, outside the lock too: the page may have to be brought in first.
func (w *Writer) rollLocked(filler *Reservation) error {
	old := w.put.segment
	next, err := w.allocator.take(old.end)
	if err != nil {
		return err
	}
	if next == nil {
		return &BusyError{Reason: BusyFile}
	}
	if w.put.wrote < old.end {
		w.takeLocked(filler, message.BlankHeaderSize, old.end)
	}
	w.put.segment = next
	w.segments.add(next)
	w.stats.rolls.Add(1)
	return nil
}

// fillEnd writes the filler of a file that was ended for r, and returns err, or its own.
func (w *Writer) fillEnd(filler, r *Reservation, err error) error {
	if filler.bytes == nil {
		return err
	}
	left := filler.end - filler.PhyOffset
	ferr := w.fillAndMark(filler, func(dst []byte) error {
		message.AppendBlank(dst[:0], int32(left))
		return nil
	})
	if ferr != nil && err == nil {
		return w.hole(r, ferr) // it stands behind one
	}
	return err
}

// unlockPut lets go of the put lock and reports a hold that was too long. The clock's step is 1 ms, so this costs nothing.
func (w *Writer) unlockPut(sinceMs int64) {
	held := w.now() - sinceMs
	w.lock.Unlock()
	if held >= slowHoldMs {
		w.slowHold(held)
	}
}

// Publish has fill write the reserved bytes, all of them, and makes them part of the log behind all reservations before them. It
// returns when they are: readers see them (but see WritePooled and synchronous flush), and what Mode promises
// holds. fill gets exactly the bytes reserved.
//
// An error of fill, a fault on the mapped file and a failed write are the end of the log: there is a hole in it that nobody
// can fill. So fill must not fail for what can be checked before Reserve.
func (w *Writer) Publish(r *Reservation, fill func(dst []byte) error) error {
	if err := w.fillAndMark(r, fill); err != nil {
		return err
	}
	if w.pos.Wrote() < r.end {
		if err := w.awaitPublished(r.end); err != nil {
			return err
		}
	}
	pace := w.pace.Load()
	switch {
	case w.o.Mode == WriteThrough && !w.o.SyncFlush:
		return w.Commit(r)
	case pace.FlushOnPut && !w.o.SyncFlush:
		w.flusher.kick()
	}
	if w.committer != nil && pace.CommitOnPut {
		w.committer.kick()
	}
	return nil
}

// fillAndMark fills the bytes of r, marks its slot and moves the head.
func (w *Writer) fillAndMark(r *Reservation, fill func(dst []byte) error) error {
	if err := w.fill(r, fill); err != nil {
		return w.hole(r, err)
	}
	r.bytes = nil
	w.pass(r.number)
	return nil
}

var errFillPanicked = errors.New("encoding panicked")

// fill runs fill on the bytes of r. A panic leaves a hole too, which must not leave everybody else waiting.
func (w *Writer) fill(r *Reservation, fill func(dst []byte) error) (err error) {
	over := false
	defer func() {
		if !over {
			_ = w.hole(r, errFillPanicked)
		}
	}()
	if w.staging != nil {
		err = fill(r.bytes)
	} else {
		err = mmap.GuardFault(func() error { return fill(r.bytes) })
	}
	over = true
	return err
}

// pass publishes the reservation of that number, filled, or leaves that to who moves the head there.
func (w *Writer) pass(number uint64) {
	if w.head.Load() != number {
		slot := &w.ring[number%ringSize]
		slot.marked.Store(number + 1)
		if w.head.Load() != number || !slot.marked.CompareAndSwap(number+1, 0) {
			return
		}
	}
	for {
		w.pos.AdvanceWrote(w.ring[number%ringSize].end)
		number++
		w.head.Store(number)
		next := &w.ring[number%ringSize]
		if next.marked.Load() != number+1 || !next.marked.CompareAndSwap(number+1, 0) {
			w.tail.wake()
			return
		}
	}
}

// Waiting for other producers: they have the processor for a microsecond, unless the system took it away from them.
const (
	publishSpins = 100
	publishSleep = 20 * time.Microsecond
)

// awaitPublished waits until everything below end is published.
func (w *Writer) awaitPublished(end int64) error {
	for n := 0; w.pos.Wrote() < end; n++ {
		if err := w.failure(); err != nil {
			return err
		}
		if n < publishSpins {
			runtime.Gosched()
		} else {
			time.Sleep(publishSleep)
		}
	}
	return nil
}

// AwaitPublished waits until everything that was reserved before the call is published. *FailedError when that cannot be.
func (w *Writer) AwaitPublished() error {
	w.lock.Lock()
	end := w.put.wrote
	w.lock.Unlock()
	return w.awaitPublished(end)
}
