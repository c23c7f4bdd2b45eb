package commitlog

import (
	"fmt"
	"time"
)

// Pace says when what is in memory gets into the files and onto the disk: the part of WriterOptions that a running Writer takes over.
type Pace struct {
	// FlushInterval and FlushLeastPages: under asynchronous flush, every interval what is unflushed is flushed if it is at least
	// so many pages of 4 KiB; every FlushThoroughInterval whatever it is (flushIntervalCommitLog,
	// flushCommitLogLeastPages, flushCommitLogThoroughInterval). FlushOnPut does not wait for the interval
	// (wakeFlushWhenPutMessage and not flushCommitLogTimed). Under synchronous flush, what nobody waits for is flushed
	// every FlushInterval.
	FlushInterval         time.Duration
	FlushLeastPages       int
	FlushThoroughInterval time.Duration
	FlushOnPut            bool
	// SyncFlushTimeout is how long AwaitFlush waits (syncFlushTimeout).
	SyncFlushTimeout time.Duration

	// CommitInterval, CommitLeastPages, CommitThoroughInterval: the same for writing the pool's bytes into the files (commitIntervalCommitLog,
	// commitCommitLogLeastPages, commitCommitLogThoroughInterval). CommitOnPut does not wait for the interval
	// (wakeCommitWhenPutMessage).
	CommitInterval         time.Duration
	CommitLeastPages       int
	CommitThoroughInterval time.Duration
	CommitOnPut            bool
}

// DefaultPace returns that of 5.5.0. Source: MessageStoreConfig, 5.5.0.
func DefaultPace() Pace {
	return Pace{
		FlushInterval: 500 * time.Millisecond, FlushLeastPages: 4, FlushThoroughInterval: 10 * time.Second,
		SyncFlushTimeout: 5 * time.Second,
		CommitInterval:   200 * time.Millisecond, CommitLeastPages: 4, CommitThoroughInterval: 200 * time.Millisecond, CommitOnPut: true,
	}
}

// SetPace has the Writer go by p from now on: an interval that is running begins anew. Errors: a value out of bounds, and nothing is changed.
func (w *Writer) SetPace(p Pace) error {
	o := w.o
	o.Pace = p
	if err := o.Validate(); err != nil {
		return fmt.Errorf("change the pace of the commit log: %w", err)
	}
	w.pace.Store(&p)
	w.flusher.repace()
	if w.committer != nil {
		w.committer.repace()
	}
	return nil
}

// repaced is the part of a service whose timer begins anew when the pace changes.
type repaced struct{ changed chan struct{} }

func newRepaced() repaced { return repaced{make(chan struct{}, 1)} }

func (r repaced) repace() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}
