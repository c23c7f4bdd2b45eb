package commitlog

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/message"
)

var stackBuffer = make([]byte, 1<<20)

// requireNoGoroutines requires that no goroutine of a writer is left.
func requireNoGoroutines(t *testing.T) {
	t.Helper()
	var stacks string
	for until := time.Now().Add(time.Minute); time.Now().Before(until); { // one that has told that it is done may not be gone yet
		stacks = string(stackBuffer[:runtime.Stack(stackBuffer, true)])
		if !strings.Contains(stacks, "commitlog.(*flusher).run") && !strings.Contains(stacks, "commitlog.(*allocator).run") &&
			!strings.Contains(stacks, "commitlog.(*populator).run") && !strings.Contains(stacks, "commitlog.(*committer).run") &&
			!strings.Contains(stacks, "commitlog.(*clock).run") {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("goroutines are left:\n%s", stacks)
}

// requireNothingOpen requires that a closed writer has left nothing open.
func requireNothingOpen(t *testing.T, fsys *faultfs.FS) {
	t.Helper()
	require.Zero(t, fsys.OpenFiles(), "open files")
	require.Zero(t, fsys.Mappings(), "mappings")
	requireNoGoroutines(t)
}

// reserve takes room for m, waiting for it if needed.
func reserve(t *testing.T, w *Writer, m *message.Message) *Reservation {
	t.Helper()
	size, err := m.EncodedSize()
	require.NoError(t, err)
	r := new(Reservation)
	for {
		err := w.Reserve(r, size)
		var busy *BusyError
		if errors.As(err, &busy) {
			require.True(t, w.AwaitSpace(busy, 10*time.Second))
			continue
		}
		require.NoError(t, err)
		return r
	}
}

// filling returns what writes m into r.
func filling(r *Reservation, m *message.Message) func([]byte) error {
	return func(dst []byte) error {
		m.PhyOffset, m.StoreTimestampMs = r.PhyOffset, r.StoreTimestampMs
		return m.PutTo(dst)
	}
}

var errTest = errors.New("test")

// A reservation that cannot be filled ends the log. What was published before it is made durable all the same, what comes behind it is
// refused, and a clean stop leaves a log without a hole.
func TestHoleEndsTheLogAndTakesNothingBeforeIt(t *testing.T) {
	for _, how := range []string{"error", "panic"} {
		for _, m := range testModes {
			t.Run(how+"/"+m.name, func(t *testing.T) {
				fsys := faultfs.New(faultfs.Options{})
				o := lossOptions(fsys, m.sync, m.mode)
				var told []error
				o.OnFailure = func(err error) { told = append(told, err) }
				w, err := OpenWriter(o)
				require.NoError(t, err)
				l := newLedger()
				for n := range 6 {
					require.NoError(t, l.append(w, lossMessage(0, int64(n))))
				}
				before, unwaited := w.Positions().Wrote, queueMessage(0, 6)
				r := reserve(t, w, unwaited)
				require.NoError(t, w.Publish(r, filling(r, unwaited)), "published and not waited for")
				accepted := r.End()

				hole, behind := reserve(t, w, queueMessage(1, 0)), queueMessage(1, 1)
				late := reserve(t, w, behind)
				if how == "panic" {
					require.PanicsWithValue(t, errTest, func() { _ = w.Publish(hole, func([]byte) error { panic(errTest) }) })
				} else {
					require.ErrorIs(t, w.Publish(hole, func([]byte) error { return errTest }), errTest)
				}
				require.ErrorIs(t, w.Publish(late, filling(late, behind)), ErrFailed)
				require.ErrorIs(t, w.Reserve(new(Reservation), 200), ErrFailed)
				require.ErrorIs(t, w.Failure(), ErrFailed)
				require.Len(t, told, 1)
				require.ErrorIs(t, told[0], ErrFailed)

				require.Greater(t, accepted, before)
				require.NoError(t, w.AwaitFlush(r), "what was accepted becomes durable")
				require.NoError(t, w.Flush())
				require.Equal(t, Positions{accepted, accepted, accepted, accepted}, w.Positions())
				var rec message.Record
				release, err := w.Log().Read(r.PhyOffset, 0, true, &rec)
				require.NoError(t, err, "reads go on")
				release()

				require.ErrorIs(t, w.Close(), ErrFailed)
				requireNothingOpen(t, fsys)
				w, err = OpenWriter(lossOptions(fsys, m.sync, m.mode))
				require.NoError(t, err)
				require.Equal(t, accepted, w.Positions().Wrote)
				require.NoError(t, w.Close())
			})
		}
	}
}

// The mapping stays while anybody is filling a reservation, also when the log has failed and is being closed.
func TestCloseAfterFailureWaitsForThoseThatFill(t *testing.T) {
	for _, m := range testModes {
		t.Run(m.name, func(t *testing.T) {
			fsys := faultfs.New(faultfs.Options{})
			w, err := OpenWriter(lossOptions(fsys, m.sync, m.mode))
			require.NoError(t, err)
			hole := reserve(t, w, queueMessage(0, 0))
			slow := reserve(t, w, queueMessage(1, 0))
			entered, leave := make(chan struct{}), make(chan struct{})
			var wg sync.WaitGroup
			var mapped int
			wg.Go(func() {
				err := w.Publish(slow, func(dst []byte) error {
					close(entered)
					<-leave
					mapped = fsys.Mappings()
					clear(dst)
					return nil
				})
				if !errors.Is(err, ErrFailed) {
					t.Errorf("got %v, want %v", err, ErrFailed)
				}
			})
			<-entered
			require.ErrorIs(t, w.Publish(hole, func([]byte) error { return errTest }), errTest)
			closed := make(chan error)
			go func() { closed <- w.Close() }()
			for { // until Close has got as far as it can
				if err := w.Reserve(new(Reservation), 100); errors.Is(err, ErrClosed) {
					break
				}
				runtime.Gosched()
			}
			select {
			case err := <-closed:
				t.Errorf("closed over one that fills: %v", err)
			case <-time.After(5 * time.Millisecond):
			}
			close(leave)
			wg.Wait()
			require.NotZero(t, mapped)
			if !t.Failed() {
				require.ErrorIs(t, <-closed, errTest)
			}
			requireNothingOpen(t, fsys)
		})
	}
}

// A failed sync sticks: nothing that waits for it is acknowledged, what is flushed stays where it was, later puts carry the error, no file is synced
// again (the kernel may have dropped the pages and answer success), and reads go on.
func TestW10FRA06FailedSyncSticks(t *testing.T) {
	for _, m := range testModes {
		t.Run(m.name, func(t *testing.T) {
			fsys := faultfs.New(faultfs.Options{})
			w, err := OpenWriter(lossOptions(fsys, m.sync, m.mode))
			require.NoError(t, err)
			l := newLedger()
			for n := range 3 {
				require.NoError(t, l.append(w, queueMessage(0, int64(n))))
			}
			require.NoError(t, l.flush(w))
			flushed := w.Positions().Flushed
			var syncs atomic.Int64
			first := "/" + strings.TrimPrefix(lossDir, "/") + "/00000000000000000000"
			fsys.Inject(func(op faultfs.Op) error {
				if op.Kind == faultfs.Datasync && op.Path == first && syncs.Add(1) == 1 {
					return syscall.EIO
				}
				return nil
			})
			msg := queueMessage(0, 3)
			r := reserve(t, w, msg)
			require.NoError(t, w.Publish(r, filling(r, msg)))
			require.ErrorIs(t, w.AwaitFlush(r), syscall.EIO)
			for range 2 {
				require.ErrorIs(t, w.AwaitFlush(r), ErrFailed)
				require.ErrorIs(t, w.Flush(), syscall.EIO)
				require.ErrorIs(t, w.Reserve(new(Reservation), 100), ErrFailed)
				require.ErrorIs(t, w.AppendRaw(w.Positions().Wrote, rawRecord(t, w.Positions().Wrote, 1)), ErrFailed)
			}
			require.Equal(t, flushed, w.Positions().Flushed)
			if m.sync {
				require.Equal(t, flushed, w.Positions().Confirm)
			}
			var rec message.Record
			release, err := w.Log().Read(0, 0, true, &rec)
			require.NoError(t, err)
			release()
			require.ErrorIs(t, w.Close(), syscall.EIO)
			require.EqualValues(t, 1, syncs.Load(), "the failed sync was tried again (W10)")
			requireNothingOpen(t, fsys)
		})
	}
}

// What was not synced never counts as flushed.
func TestW11FlushedNeverAdvancesWithoutASync(t *testing.T) {
	for _, m := range testModes {
		t.Run(m.name, func(t *testing.T) {
			fsys := faultfs.New(faultfs.Options{})
			w, err := OpenWriter(lossOptions(fsys, m.sync, m.mode))
			require.NoError(t, err)
			var synced atomic.Int64 // end of what was published before a sync that succeeded began
			var began atomic.Int64
			fsys.Inject(func(op faultfs.Op) error {
				if op.Kind == faultfs.Datasync {
					began.Store(w.Positions().Wrote)
				}
				return nil
			})
			fsys.Observe(func(op faultfs.Op, err error) {
				if op.Kind == faultfs.Datasync && err == nil {
					synced.Store(began.Load())
				}
				if flushed := w.Positions().Flushed; flushed > synced.Load() {
					t.Errorf("flushed %d at %v, synced %d", flushed, op, synced.Load())
				}
			})
			for n := range 10 {
				msg := lossMessage(0, int64(n))
				r := reserve(t, w, msg)
				require.NoError(t, w.Publish(r, filling(r, msg)))
				require.LessOrEqual(t, w.Positions().Flushed, synced.Load())
				if n%3 == 2 {
					require.NoError(t, w.Flush())
					require.Equal(t, synced.Load(), w.Positions().Flushed)
				}
			}
			require.NoError(t, w.Flush())
			require.NoError(t, w.Close())
			// Without its files there is nothing to sync.
			end := w.Positions().Wrote
			w.flusher.syncing.Lock()
			defer w.flusher.syncing.Unlock()
			require.ErrorIs(t, w.flusher.sync(end-1, end), ErrClosed)
		})
	}
}
