package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/message"
)

// lossDir is the log's directory in the filesystems of these tests; its parent is not there before the log is opened.
const lossDir = "/store/commitlog"

// allSeeds tells whether every state that a loss of power may leave is looked at, instead of a few for each moment.
// TANDEMMQ_SEEDS=full asks for it; that runs for minutes.
func allSeeds() bool { return os.Getenv("TANDEMMQ_SEEDS") == "full" }

// ledger knows what was put into a log and what of it was acknowledged as durable.
type ledger struct {
	mu struct {
		sync.Mutex
		put     map[int64][]byte // encoded records by physical offset
		written int64            // end of what was published
		durable int64            // end of what was acknowledged as durable
	}
}

func newLedger() *ledger {
	l := new(ledger)
	l.mu.put = make(map[int64][]byte)
	return l
}

func (l *ledger) ends() (written, durable int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.written, l.mu.durable
}

func (l *ledger) published(end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.written = max(l.mu.written, end)
}

func (l *ledger) flushed(end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.durable = max(l.mu.durable, end)
}

// fork is a ledger that goes on from this one.
func (l *ledger) fork() *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := newLedger()
	for at, b := range l.mu.put {
		c.mu.put[at] = b
	}
	return c
}

// append puts m, and waits until it is durable under synchronous flush.
func (l *ledger) append(w *Writer, m *message.Message) error {
	size, err := m.EncodedSize()
	if err != nil {
		return err
	}
	var r Reservation
	for {
		err := w.Reserve(&r, size)
		var busy *BusyError
		if errors.As(err, &busy) && w.AwaitSpace(busy, 10*time.Second) {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	err = w.Publish(&r, func(dst []byte) error {
		m.PhyOffset, m.StoreTimestampMs = r.PhyOffset, r.StoreTimestampMs
		if err := m.PutTo(dst); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.mu.put[r.PhyOffset] = bytes.Clone(dst)
		return nil
	})
	if err != nil {
		return err
	}
	l.published(r.End())
	if !w.o.SyncFlush {
		return nil
	}
	if err := w.AwaitFlush(&r); err != nil {
		return err
	}
	l.flushed(r.End())
	return nil
}

// flush makes everything durable.
func (l *ledger) flush(w *Writer) error {
	written, _ := l.ends()
	if err := w.Flush(); err != nil {
		return err
	}
	l.flushed(written)
	return nil
}

// scan reads the log with a plain forward scan, requires that it holds a prefix of what was put, to at least that end, and
// returns where it ends.
func (l *ledger) scan(t require.TestingT, fsys *faultfs.FS, atLeast int64) ScanEnd {
	log, err := Open(lossDir, Options{FS: fsys})
	require.NoError(t, err, "%v", fsys)
	defer func() { require.NoError(t, log.Close()) }()
	s := log.Scanner(-1, ScanOptions{CheckCRC: true})
	defer s.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	end := int64(0)
	for s.Next() {
		r := s.Record()
		if !bytes.Equal(l.mu.put[r.PhyOffset], r.Raw) {
			require.Failf(t, "no such record was put", "at %d: %q\n%v", r.PhyOffset, r.Raw, fsys)
		}
		end = r.PhyOffset + int64(r.TotalSize)
	}
	if err := s.Err(); err != nil {
		var ee *EndError
		require.ErrorAs(t, err, &ee, "%v", fsys)
	}
	require.GreaterOrEqual(t, end, atLeast, "an acknowledged message is lost: %v\n%v", s.Err(), fsys)
	return s.End()
}

// moment is what a crash at some operation finds.
type moment struct {
	op               faultfs.Op
	fsys             *faultfs.FS
	written, durable int64
}

// watch keeps a moment for each operation that changes anything, in order.
func watch(fsys *faultfs.FS, l *ledger) (moments func() []moment) {
	var mu sync.Mutex
	var all []moment
	fsys.Inject(func(op faultfs.Op) error {
		if op.Kind.Changes() {
			mu.Lock()
			defer mu.Unlock()
			written, durable := l.ends() // before the copy: what is acknowledged by now must be in it
			all = append(all, moment{op, fsys.Clone(), written, durable})
		}
		return nil
	})
	return func() []moment {
		fsys.Inject(func(faultfs.Op) error { return nil })
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// lossOptions are those of a log of files of four pages that is flushed by Flush alone, or by waiters.
func lossOptions(fsys *faultfs.FS, sync bool, mode WriteMode) WriterOptions {
	o := testOptions(lossDir, sync, mode)
	o.FS = fsys
	o.FileSize = 4 * faultfs.PageBytes
	o.FlushInterval, o.FlushThoroughInterval = time.Hour, time.Hour
	if mode == WritePooled {
		o.CommitInterval, o.CommitThoroughInterval, o.CommitLeastPages = time.Hour, time.Hour, 0
	}
	return o
}

// lossMessage has sizes that put page boundaries everywhere into records: header, body, topic, properties.
func lossMessage(queueID int32, n int64) *message.Message {
	m := queueMessage(queueID, n)
	m.Body = bytes.Repeat(fmt.Appendf(nil, "%d/%d ", queueID, n), int(10+(n*397+int64(queueID)*83)%700))
	value := strings.Repeat("v", int((n*631+int64(queueID)*57)%2500))
	m.Properties = append(m.Properties, "long\x01"+value+"\x02"...)
	return m
}

// lossRun puts messages, one producer after the other or all at once.
func lossRun(t *testing.T, w *Writer, l *ledger, producers, each int) {
	put := func(q, n int) {
		if err := l.append(w, lossMessage(int32(q), int64(n))); err != nil {
			t.Error(err)
		}
	}
	if producers == 1 {
		for n := range each {
			put(0, n)
			if n%7 == 6 && !w.o.SyncFlush {
				require.NoError(t, l.flush(w))
			}
		}
		return
	}
	var wg sync.WaitGroup
	for q := range producers {
		wg.Go(func() {
			for n := range each {
				put(q, n)
				if n%7 == 6 && !w.o.SyncFlush {
					if err := l.flush(w); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// lossCount tells what a run has covered.
type lossCount struct{ moments, states, reopened, twice, refused int }

// survivors yields states that a loss of power at m may leave.
func (m *moment) survivors(yield func(*faultfs.FS) bool) {
	if allSeeds() {
		m.fsys.CrashAll()(yield)
		return
	}
	index := uint64(m.op.Index)
	for _, seed := range []uint64{index % 2, 2 + index} { // of the two ends of the range one, and something in between
		if !yield(m.fsys.CrashSeed(seed)) {
			return
		}
	}
}

// Whatever of the unflushed pages a loss of power leaves, at every operation: the log is a prefix of what was put with all that was
// acknowledged as durable, and a writer goes on from there; what it acknowledges survives the next loss, with what it found
// (FR-B14, FR-B15).
func TestFRB15PowerLossLeavesAPrefixThatIsGoneOnFrom(t *testing.T) {
	for _, m := range testModes {
		for _, producers := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s/producers=%d", m.name, producers), func(t *testing.T) {
				fsys := faultfs.New(faultfs.Options{})
				l := newLedger()
				moments := watch(fsys, l)
				w, err := OpenWriter(lossOptions(fsys, m.sync, m.mode))
				require.NoError(t, err)
				lossRun(t, w, l, producers, 28/producers)
				require.NoError(t, w.Close())
				l.flushed(w.Positions().Wrote)
				var count lossCount
				for i, at := range append(moments(), moment{fsys: fsys.Clone(), durable: l.mu.durable}) {
					if i%sweepStep != 0 {
						continue
					}
					count.moments++
					at.survivors(func(left *faultfs.FS) bool {
						count.states++
						reopenAfterLoss(t, left, l, at, m.sync, m.mode, &count)
						return !t.Failed()
					})
					require.False(t, t.Failed(), "crash at %v", at.op)
				}
				t.Logf("%+v", count)
			})
		}
	}
}

// reopenAfterLoss requires that left is a prefix, opens it, appends, and loses power again.
func reopenAfterLoss(t *testing.T, left *faultfs.FS, l *ledger, at moment, sync bool, mode WriteMode, count *lossCount) {
	end := l.scan(t, left, at.durable)
	moments := func() []moment { return nil }
	if count.states%7 == 0 {
		moments = watch(left, l)
	}
	w, err := OpenWriter(lossOptions(left, sync, mode))
	if end.Kind == EndCorrupt && err != nil { // a hole that a killed process may have left is cut off, see hole.go
		count.refused++
		require.ErrorIs(t, err, ErrCorrupt)
		return
	}
	require.NoError(t, err, "%v", left)
	count.reopened++
	lossWhileReopening(t, moments(), l, at, sync, mode, count)
	found := w.Positions().Wrote
	require.Equal(t, Positions{found, found, found, found}, w.Positions())
	require.GreaterOrEqual(t, found, at.durable)
	next := l.fork()
	for n := range 5 {
		require.NoError(t, next.append(w, lossMessage(9, int64(n))))
	}
	require.NoError(t, next.flush(w))
	written, _ := next.ends()
	// The second loss comes with the flush done and nothing closed.
	next.scan(t, left.CrashSeed(uint64(math.MaxInt32+count.states)), written)
	require.NoError(t, w.Close())
}

// lossWhileReopening requires the same of what is left when power is lost once more, while the log is being opened: the
// cut of a torn tail is done or not.
func lossWhileReopening(t *testing.T, moments []moment, l *ledger, at moment, sync bool, mode WriteMode, count *lossCount) {
	for _, m := range moments {
		count.twice++
		left := m.fsys.CrashSeed(uint64(count.twice))
		l.scan(t, left, at.durable)
		w, err := OpenWriter(lossOptions(left, sync, mode))
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
}
