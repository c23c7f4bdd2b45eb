package commitlog

import (
	"fmt"
	"log/slog"
	"time"
)

// How a log fails. A failed write or sync is the end of everything but reading: nobody knows what reached the disk, so nothing is written, synced or
// acknowledged any more. A reservation that was not filled, because encoding failed or the mapping faulted, leaves a hole: what was published before it is
// made durable as ever, and nothing is published behind it.

// broken in the mark of a slot tells that its reservation will never be filled.
const broken = 1 << 63

// failure returns the *FailedError after which the log takes no more, nil before that.
func (w *Writer) failure() error {
	if f := w.failed.Load(); f != nil {
		return f
	}
	return nil
}

// diskFailure returns the *FailedError after which nothing is written or synced any more, nil before that.
func (w *Writer) diskFailure() error {
	if f := w.diskFailed.Load(); f != nil {
		return f
	}
	return nil
}

// Failure returns the error after which the log takes no more, a *FailedError; nil while it is well.
func (w *Writer) Failure() error { return w.failure() }

// fail makes f the end of the log, unless it has ended already, and returns the *FailedError of its end.
func (w *Writer) fail(f *FailedError) error {
	if !w.failed.CompareAndSwap(nil, f) {
		return w.failure()
	}
	w.logger.Error("commit log takes no more", slog.Any("err", f.Err))
	if w.o.OnFailure != nil {
		w.o.OnFailure(f)
	}
	w.space.wake()
	w.tail.wake()
	if w.flusher != nil {
		w.flusher.kick() // to answer those who wait
	}
	return f
}

// failDisk is fail after a failed write or sync.
func (w *Writer) failDisk(err error) error {
	f := &FailedError{Err: err}
	w.diskFailed.CompareAndSwap(nil, f)
	_ = w.fail(f)
	return w.diskFailure()
}

// hole is fail after r was not filled.
func (w *Writer) hole(r *Reservation, err error) error {
	f := &FailedError{Err: fmt.Errorf("write commit log at physical offset %d, %d bytes: %w", r.PhyOffset, len(r.bytes), err)}
	r.bytes = nil
	ended := w.fail(f)
	w.ring[r.number%ringSize].marked.Store(broken | (r.number + 1))
	return ended
}

// awaitFilled waits until nobody is filling a reservation of a number below that, and until those before the first hole are published.
func (w *Writer) awaitFilled(number uint64) {
	hole := number
	for n := w.head.Load(); n < number; {
		switch mark := w.ring[n%ringSize].marked.Load(); {
		case mark&^broken != n+1 && w.head.Load() <= n:
			time.Sleep(publishSleep)
			continue
		case mark == broken|(n+1):
			hole = min(hole, n)
		}
		n++
	}
	for w.head.Load() < hole {
		time.Sleep(publishSleep)
	}
}

// cutHole removes what was stored behind a hole, up to end: nobody was told that it is there, and the next writer would find records
// behind damage. All files made ahead are discarded, and the caller is the only one who writes.
func (w *Writer) cutHole(end int64) error {
	if w.staging != nil || w.diskFailure() != nil || w.pos.Wrote() >= end {
		return nil
	}
	return w.queue.Truncate(w.pos.Wrote())
}
