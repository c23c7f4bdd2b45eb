//go:build cgo

package rocks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// gate stands in front of the writes of a store's committer.
type gate struct {
	hold   chan struct{} // a write goes on when it gets one, or when it is closed; nil: at once
	fail   atomic.Int64  // so many writes fail; -1: all
	err    error
	writes atomic.Int64
	opened sync.Once
}

// open lets every write through from now on.
func (g *gate) open() {
	if g.hold != nil {
		g.opened.Do(func() { close(g.hold) })
	}
}

// newGated opens a store whose writes pass through a gate.
func newGated(t *testing.T, o Options, g *gate) *Store {
	t.Helper()
	s := openNew(t, o)
	t.Cleanup(g.open) // before the store closes, also where the test fails
	s.commit.write = func(b *rocks.Batch, grouped bool) error {
		if g.hold != nil {
			<-g.hold
		}
		g.writes.Add(1)
		if n := g.fail.Load(); n != 0 {
			g.fail.Store(max(n-1, -1))
			return g.err
		}
		return s.db.Write(b, grouped)
	}
	return s
}

func quickOptions() Options {
	o := testOptions()
	o.Commit = CommitOptions{MaxAttempts: 4, Backoff: time.Microsecond, MaxBackoff: time.Millisecond}
	return o
}

// TestAcceptedIsNotYetReadable: what is accepted shows nowhere until it is written, and then all at once.
func TestAcceptedIsNotYetReadable(t *testing.T) {
	g := &gate{hold: make(chan struct{})}
	s := newGated(t, testOptions(), g)
	other := cq.Key{Topic: "other"}
	require.NoError(t, s.Append(t.Context(), append(entries(keyT, 4, 10), entries(other, 0, 3)...)))
	accepted, readable, durable := s.Progress()
	require.Equal(t, []int64{9100, -1, -1}, []int64{accepted, readable, durable})
	for _, k := range []cq.Key{keyT, other} {
		_, ok := s.Queue(k)
		require.False(t, ok)
	}
	require.Zero(t, countKeys(t, s))
	require.EqualValues(t, -1, s.DispatchFrom())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.AwaitReadable(ctx), context.Canceled)
	var gap *cq.GapError
	require.ErrorAs(t, s.Append(t.Context(), entries(keyT, 11, 12)), &gap, "judged by what is accepted")
	require.EqualValues(t, 10, gap.Max)

	g.open()
	require.NoError(t, s.AwaitReadable(t.Context()))
	accepted, readable, durable = s.Progress()
	require.Equal(t, []int64{9100, 9100, -1}, []int64{accepted, readable, durable})
	require.Equal(t, cq.Bounds{Min: 4, Max: 10, MinPhyOffset: 4000, MaxPhyOffset: 9100, LastPhyOffset: 9000}, boundsOf(t, s, keyT))
	requireUnits(t, s, other, 0, units(0, 3))
	require.NoError(t, s.Flush(t.Context()))
	_, _, durable = s.Progress()
	require.EqualValues(t, 9100, durable)
}

// TestGroupsGrowWhileBusy: one write holds what came while the one before was at it, up to a bound.
func TestGroupsGrowWhileBusy(t *testing.T) {
	g := &gate{hold: make(chan struct{})}
	s := newGated(t, testOptions(), g)
	const n = 2*maxBatchUnits + 100
	require.NoError(t, s.Append(t.Context(), entries(keyT, 0, 1)))
	g.hold <- struct{}{} // the goroutine is at the first unit, which is written
	for slot := int64(1); slot < n; slot += 50 {
		require.NoError(t, s.Append(t.Context(), entries(keyT, slot, min(slot+50, n))))
	}
	g.open()
	require.NoError(t, s.AwaitReadable(t.Context()))
	require.LessOrEqual(t, g.writes.Load(), int64(6), "the rest in as few as go")
	requireUnits(t, s, keyT, 0, units(0, n))
}

// TestAppendWaitsForRoom: so many units and no more are accepted ahead of what is written.
func TestAppendWaitsForRoom(t *testing.T) {
	g := &gate{hold: make(chan struct{})}
	o := testOptions()
	o.Commit.MaxPendingUnits = 10
	s := newGated(t, o, g)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() { failed <- s.Append(ctx, entries(keyT, 0, 12)) }()
	require.Eventually(t, func() bool { accepted, _, _ := s.Progress(); return accepted == 9100 }, 10*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	accepted, _, _ := s.Progress()
	require.EqualValues(t, 9100, accepted, "ten units")
	g.open()
	appendAll(t, s, entries(keyT, 0, 300), "what was accepted is repeated")
	requireUnits(t, s, keyT, 0, units(0, 300))
}

// TestCloseEndsAnAppendThatWaits: it does not wait for ever, and what it got in is kept.
func TestCloseEndsAnAppendThatWaits(t *testing.T) {
	g := &gate{hold: make(chan struct{})}
	o := testOptions()
	o.Commit.MaxPendingUnits = 10
	s := newGated(t, o, g)
	failed := make(chan error)
	go func() { failed <- s.Append(t.Context(), entries(keyT, 0, 12)) }()
	require.Eventually(t, func() bool { accepted, _, _ := s.Progress(); return accepted == 9100 }, 10*time.Second, time.Millisecond)
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	require.ErrorIs(t, <-failed, cq.ErrClosed)
	g.open()
	require.NoError(t, <-closed)
	requireUnits(t, openAt(t, s.dir, testOptions()), keyT, 0, units(0, 10))
}

// TestF8CloseWritesWhatWasAccepted: nothing that is on its way is dropped.
func TestF8CloseWritesWhatWasAccepted(t *testing.T) {
	g := &gate{hold: make(chan struct{})}
	s := newGated(t, testOptions(), g)
	const n = 3 * maxBatchUnits
	require.NoError(t, s.Append(t.Context(), entries(keyT, 0, n)))
	_, readable, _ := s.Progress()
	require.EqualValues(t, -1, readable)
	g.open()
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.AwaitReadable(t.Context()), cq.ErrClosed)
	s = openAt(t, s.dir, testOptions())
	require.Equal(t, (n-1)*1000+int64(100), s.DispatchFrom())
	requireUnits(t, s, keyT, 0, units(0, n))
}

// TestFailedWriteIsTriedAgain: a failure that passes is nobody's concern.
func TestFailedWriteIsTriedAgain(t *testing.T) {
	g := &gate{err: errors.New("no luck")}
	g.fail.Store(3)
	s := newGated(t, quickOptions(), g)
	require.NoError(t, s.Append(t.Context(), entries(keyT, 0, 5)))
	require.NoError(t, s.Append(t.Context(), entries(keyT, 5, 9)))
	require.NoError(t, s.AwaitReadable(t.Context()))
	require.NoError(t, s.Failure())
	requireUnits(t, s, keyT, 0, units(0, 9))
	require.GreaterOrEqual(t, g.writes.Load(), int64(4))
}

// TestFailedWriteSticks: after so many attempts every writer is told, reads go on, and nothing unwritten shows.
func TestFailedWriteSticks(t *testing.T) {
	g := &gate{err: errors.New("no luck")}
	s := newGated(t, quickOptions(), g)
	appendAll(t, s, entries(keyT, 0, 5))
	g.writes.Store(0)
	g.fail.Store(-1)
	require.NoError(t, s.Append(t.Context(), append(entries(keyT, 5, 9), entries(cq.Key{Topic: "new"}, 0, 1)...)))
	failure := s.AwaitReadable(t.Context())
	require.ErrorIs(t, failure, g.err)
	require.ErrorContains(t, failure, "5 units accepted and not written after 4 attempts")
	require.EqualValues(t, 4, g.writes.Load())
	g.fail.Store(0)
	require.Equal(t, failure, s.Failure())
	require.Equal(t, failure, s.Append(t.Context(), entries(keyT, 9, 10)))
	require.Equal(t, failure, s.Flush(t.Context()))
	require.Equal(t, failure, s.TruncateDirty(t.Context(), 0))
	require.Equal(t, failure, s.DropQueue(t.Context(), keyT))
	requireUnits(t, s, keyT, 0, units(0, 5))
	require.EqualValues(t, 5, boundsOf(t, s, keyT).Max)
	require.Equal(t, 1, countKeys(t, s))
	accepted, readable, _ := s.Progress()
	require.Equal(t, []int64{8100, 4100}, []int64{accepted, readable})
	require.ErrorIs(t, s.Close(), g.err, "not all that was accepted is there")

	s = openAt(t, s.dir, testOptions())
	require.EqualValues(t, 4100, s.DispatchFrom())
	appendAll(t, s, entries(keyT, 5, 9), "dispatch resumes")
	requireUnits(t, s, keyT, 0, units(0, 9))
}

// TestCloseDoesNotWaitForAFullDisk: while the disk is full a write is tried for long, but not when the store closes.
func TestCloseDoesNotWaitForAFullDisk(t *testing.T) {
	g := &gate{err: &rocks.Error{Op: "write to", Text: "IO error: No space left on device: While appending to file: 000009.sst"}}
	g.fail.Store(-1)
	o := quickOptions()
	o.Commit.NoSpaceFor, o.Commit.Backoff, o.Commit.MaxBackoff = time.Hour, time.Millisecond, time.Hour
	s := newGated(t, o, g)
	require.NoError(t, s.Append(t.Context(), entries(keyT, 0, 5)))
	require.Eventually(t, func() bool { return g.writes.Load() > int64(o.Commit.MaxAttempts) }, 10*time.Second, time.Millisecond)
	require.NoError(t, s.Failure(), "not yet")
	require.ErrorIs(t, s.Close(), g.err)
}

// TestFlushWaitsForRoom: a flush that meets a full disk is told as that and may succeed later, until it has taken too long.
func TestFlushWaitsForRoom(t *testing.T) {
	o := quickOptions()
	o.Commit.NoSpaceFor = time.Hour
	s := openNew(t, o)
	appendAll(t, s, entries(keyT, 0, 5))
	full := &rocks.Error{Op: "flush", Text: "IO error: No space left on device: While appending to file: 000009.sst"}
	s.commit.flush = func() error { return full }
	for range 2 {
		require.ErrorIs(t, s.Flush(t.Context()), cq.ErrNoRoom)
		require.ErrorIs(t, s.Waiting(), full)
		require.NoError(t, s.Failure())
	}
	appendAll(t, s, entries(keyT, 5, 9))
	s.commit.flush = s.db.Flush
	require.NoError(t, s.Flush(t.Context()))
	require.NoError(t, s.Waiting())
	_, _, durable := s.Progress()
	require.EqualValues(t, 8100, durable)

	s.options.Commit.NoSpaceFor = 0
	s.commit.flush = func() error { return full }
	err := s.Flush(t.Context())
	require.ErrorIs(t, err, full)
	require.NotErrorIs(t, err, cq.ErrNoRoom)
	require.ErrorIs(t, s.Failure(), full)
}

// TestRepeatOfWhatIsOnItsWay is compared with it.
func TestRepeatOfWhatIsOnItsWay(t *testing.T) {
	g := &gate{hold: make(chan struct{})}
	s := newGated(t, testOptions(), g)
	require.NoError(t, s.Append(t.Context(), entries(keyT, 0, 5)))
	go g.open()
	require.NoError(t, s.Append(t.Context(), entries(keyT, 2, 7)))
	other := cq.Entry{Key: keyT, QueueOffset: 6, Unit: unit(9)}
	var conflict *cq.ConflictError
	require.ErrorAs(t, s.Append(t.Context(), []cq.Entry{other}), &conflict)
	require.Equal(t, unit(6), conflict.Stored)
	require.NoError(t, s.AwaitReadable(t.Context()))
	requireUnits(t, s, keyT, 0, units(0, 7))
}

// TestChangesComeAfterWhatWasAccepted: a change of queues sees all of it.
func TestChangesComeAfterWhatWasAccepted(t *testing.T) {
	other := cq.Key{Topic: "other"}
	for name, change := range map[string]func(s *Store) error{
		"truncate": func(s *Store) error { return s.TruncateDirty(t.Context(), 4000) },
		"drop":     func(s *Store) error { return s.DropQueue(t.Context(), keyT) },
		"publish":  func(s *Store) error { return s.Publish(t.Context(), []cq.QueueEnd{endAt(keyT, 0, 6)}, 50_000) },
		"import":   func(s *Store) error { return s.Import(t.Context(), []cq.Run{run(keyT, 0, 3)}) },
		"expire":   func(s *Store) error { _, err := s.Expire(t.Context(), 0); return err },
	} {
		t.Run(name, func(t *testing.T) {
			g := &gate{hold: make(chan struct{})}
			s := newGated(t, testOptions(), g)
			appendLater := func(from, to int64) {
				t.Helper()
				require.NoError(t, s.Append(t.Context(), entries(other, from, to)))
			}
			require.NoError(t, s.Append(t.Context(), entries(keyT, 0, 10)))
			appendLater(0, 4)
			go g.open()
			require.NoError(t, change(s))
			want := map[string]int64{"truncate": 4, "drop": 0}
			next, cut := want[name]
			if !cut {
				next = 10
			}
			if next > 0 {
				require.Equal(t, next, boundsOf(t, s, keyT).Max)
			} else {
				_, ok := s.Queue(keyT)
				require.False(t, ok)
			}
			accepted, readable, _ := s.Progress()
			require.Equal(t, readable, accepted)
			appendLater(4, 6)
			require.NoError(t, s.Append(t.Context(), entries(keyT, next, 12)))
			require.NoError(t, s.AwaitReadable(t.Context()))
			require.EqualValues(t, 12, boundsOf(t, s, keyT).Max)
			requireUnits(t, s, other, 0, units(0, 6))
		})
	}
}

// TestBatchesAreReused: in the steady state no unit costs an allocation.
func TestBatchesAreReused(t *testing.T) {
	s := openNew(t, testOptions())
	keys := make([]cq.Key, 300)
	for i := range keys {
		keys[i] = cq.Key{Topic: "topic", QueueID: int32(i)}
	}
	batch := make([]cq.Entry, 2*len(keys))
	slot := int64(0)
	step := func() {
		for i := range batch {
			batch[i] = cq.Entry{Key: keys[i%len(keys)], QueueOffset: slot + int64(i/len(keys)), Unit: unit(slot)}
		}
		slot += 2
		require.NoError(t, s.Append(t.Context(), batch))
		require.NoError(t, s.AwaitReadable(t.Context()))
	}
	for range 20 {
		step()
	}
	require.Less(t, testing.AllocsPerRun(20, step), 30.0, "for 600 units")
}

// Where units of one record are written apart, as it is in many queues, the checkpoint does not speak of it before the last of them is there.
func TestCheckpointSpeaksOfWholeRecords(t *testing.T) {
	o := testOptions()
	o.Commit.MaxPendingUnits = 7
	s := openNew(t, o)
	queues := []cq.Key{{Topic: "T"}, {Topic: "%LMQ%a"}, {Topic: "%LMQ%b"}, {Topic: "%LMQ%c"}, {Topic: "%LMQ%d"}}
	writes := 0
	require.NoError(t, s.AwaitReadable(t.Context()))
	s.commit.write = func(b *rocks.Batch, grouped bool) error {
		if err := s.db.Write(b, grouped); err != nil {
			return err
		}
		writes++
		value, found, err := s.db.Get(rocks.Offsets, checkpointKey)
		if err != nil || !found {
			return errors.Join(err, errors.New("no checkpoint"))
		}
		whole := int64(binary.BigEndian.Uint64(value)) / 100 // records
		for _, k := range queues {
			var stored [1]cq.Unit
			if n, err := rocks.ReadUnits(s.db, appendUnitPrefix(nil, k), whole-1, stored[:]); whole > 0 && (err != nil || n == 0) {
				return errors.Join(fmt.Errorf("the checkpoint says that %s has slot %d", k, whole-1), err)
			}
		}
		return nil
	}
	var batch []cq.Entry
	for slot := range int64(400) {
		for _, k := range queues {
			batch = append(batch, cq.Entry{Key: k, QueueOffset: slot, Unit: cq.Unit{PhyOffset: 100 * slot, Size: 100, StoreTimestampMs: 1}})
		}
	}
	for ; len(batch) > 0; batch = batch[100:] {
		require.NoError(t, s.Append(t.Context(), batch[:100]))
		require.NoError(t, s.AwaitReadable(t.Context()))
		require.Equal(t, batch[99].Unit.End(), s.DispatchFrom())
	}
	require.Greater(t, writes, 200)
}
