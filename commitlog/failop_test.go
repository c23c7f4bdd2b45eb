package commitlog

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/message"
)

// Every operation fails once, or from some on all do, with an error of the disk or a full one, and a write half done: no panic, nothing
// acknowledged that is not there, what was read before is still read, nothing left open; on a healed disk the next
// writer goes on.
func TestEveryOperationFails(t *testing.T) {
	kinds := []struct {
		name    string
		err     error
		forGood bool
	}{
		{"once", syscall.EIO, false},
		{"full, once", &faultfs.Partial{N: 100, Err: syscall.ENOSPC}, false},
		{"for good", syscall.EIO, true},
	}
	for _, m := range testModes {
		killed, before := killedLog(t, m.sync, m.mode)
		for i, kind := range kinds {
			t.Run(m.name+"/"+kind.name, func(t *testing.T) {
				var failures, sticky, refused int
				for k := int64(i % sweepStep); ; k += sweepStep {
					fsys, l := faultfs.New(faultfs.Options{}), newLedger()
					if i != 1 { // one of them begins with nothing
						fsys, l = killed.Clone(), before.fork()
						written, durable := before.ends()
						l.published(written)
						l.flushed(durable)
					}
					var failing atomic.Bool
					failing.Store(true)
					fsys.Inject(func(op faultfs.Op) error {
						if failing.Load() && (op.Index == k || kind.forGood && op.Index > k) {
							return fmt.Errorf("%v: %w", op, kind.err)
						}
						return nil
					})
					errs := failingRun(t, fsys, m.sync, m.mode, l)
					if fsys.Ops() <= k {
						break
					}
					for _, err := range errs {
						failures++
						require.True(t, errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC), "%v", err)
						if errors.Is(err, ErrFailed) {
							sticky++
						}
					}
					failing.Store(false)
					requireNothingOpen(t, fsys)

					written, durable := l.ends()
					atLeast := durable
					if m.mode == WriteMapped || m.mode == WriteThrough && !m.sync {
						atLeast = written
					}
					end := l.scan(t, fsys, atLeast)
					for seed := range uint64(3) {
						l.scan(t, fsys.CrashSeed(seed), durable)
					}
					w, err := OpenWriter(lossOptions(fsys, m.sync, m.mode))
					if end.Kind == EndCorrupt {
						refused++
						require.ErrorIs(t, err, ErrCorrupt)
						continue
					}
					require.NoError(t, err, "after the failure of operation %d", k)
					next := l.fork()
					require.NoError(t, next.append(w, queueMessage(9, k)))
					require.NoError(t, w.Close())
					next.scan(t, fsys, max(w.Positions().Wrote, atLeast))
					requireNothingOpen(t, fsys)
				}
				t.Logf("%d failures, %d of them the end of the log, %d logs with a hole", failures, sticky, refused)
				require.NotZero(t, failures)
				if sweepStep == 1 {
					require.NotZero(t, sticky)
				}
			})
		}
	}
}

// killedLog is what a process leaves that is killed with files made ahead and half a record written.
func killedLog(t *testing.T, sync bool, mode WriteMode) (*faultfs.FS, *ledger) {
	fsys, l := faultfs.New(faultfs.Options{}), newLedger()
	w, err := OpenWriter(lossOptions(fsys, sync, mode))
	require.NoError(t, err)
	for n := range 5 {
		require.NoError(t, l.append(w, lossMessage(1, int64(n))))
	}
	require.NoError(t, l.flush(w))
	require.True(t, w.AwaitSpace(&BusyError{Reason: BusyFile}, 10*time.Second))
	h, err := fsys.OpenFile(w.put.segment.file.Path(), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = h.WriteAt([]byte("torn"), w.Positions().Wrote-w.put.segment.from+50)
	require.NoError(t, err)
	require.NoError(t, h.Close())
	killed := fsys.Clone()
	require.NoError(t, w.Close())
	return killed, l
}

// failingRun opens, puts, reads and closes, and returns the errors.
func failingRun(t *testing.T, fsys *faultfs.FS, sync bool, mode WriteMode, l *ledger) (errs []error) {
	w, err := OpenWriter(lossOptions(fsys, sync, mode))
	if err != nil {
		return []error{err}
	}
	for n := range 16 {
		err := l.append(w, lossMessage(0, int64(n)))
		if err == nil && n%5 == 4 {
			err = l.flush(w)
		}
		if err != nil {
			errs = append(errs, err)
			if failed := w.Failure(); failed != nil { // then all that follows answers it
				require.ErrorIs(t, l.append(w, queueMessage(0, 0)), ErrFailed)
			}
		}
	}
	if w.Positions().Committed > 0 {
		var r message.Record
		release, err := w.Log().Read(0, 0, true, &r)
		if err != nil {
			errs = append(errs, err) // it was not mapped any more
		} else {
			require.Zero(t, r.PhyOffset)
			release()
		}
	}
	if err := w.Close(); err != nil {
		errs = append(errs, err)
	} else {
		l.flushed(w.Positions().Wrote)
	}
	require.ErrorIs(t, w.Reserve(new(Reservation), 100), ErrClosed)
	return errs
}
