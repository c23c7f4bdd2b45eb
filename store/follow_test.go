package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// kept is a view that keeps what it gets, and may refuse a batch or panic over a record.
type kept struct {
	adding    []int64
	delivered []int64
	ends      []int64
	batches   int
	poison    map[int64]bool // physical offsets
	refuse    int            // the batch of this number and those behind it
	refused   func()
	touch     func(r *message.Record)
}

var errRefused = errors.New("refused")

func (*kept) name() string { return "kept" }

func (v *kept) add(r *message.Record) {
	if v.touch != nil {
		v.touch(r)
	}
	if v.poison[r.PhyOffset] {
		panic("cannot take it")
	}
	v.adding = append(v.adding, r.PhyOffset)
}

func (v *kept) turn() batch {
	b := v.adding
	v.adding = nil
	return b
}

func (v *kept) deliver(_ context.Context, b batch, end int64) error {
	if v.batches++; v.refuse > 0 && v.batches >= v.refuse {
		v.refused()
		return errRefused
	}
	v.delivered = append(v.delivered, b.([]int64)...)
	v.ends = append(v.ends, end)
	return nil
}

// followed makes a log of some files and returns where its records begin, and its end.
func followed(t *testing.T) (log *commitlog.Log, records []int64, end int64) {
	t.Helper()
	o := viewOptions(StoreTypeFile)
	root := t.TempDir()
	s := openStore(t, root, o)
	putSome(t, s, 3*followBatchRecords)
	end = s.Positions().Confirm
	require.NoError(t, s.Close())
	log, err := commitlog.Open(NewLayout(root).CommitLogDir(), commitlog.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	scan := log.Scanner(-1, commitlog.ScanOptions{})
	defer scan.Close()
	for scan.Next() {
		records = append(records, scan.Record().PhyOffset)
	}
	require.NoError(t, scan.Err())
	return log, records, end
}

// Reading ahead of what is delivered gives a view the same as going step by step, over the ends of files, damage and records that it cannot take.
func TestOverlap(t *testing.T) {
	log, records, end := followed(t)
	damaged := len(records) / 3
	file := records[damaged] / log.FileSize() * log.FileSize()
	f, err := os.OpenFile(filepath.Join(log.Dir(), fmt.Sprintf("%020d", file)), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("????"), records[damaged]-file+4) // its magic
	require.NoError(t, errors.Join(err, f.Close()))
	poison := map[int64]bool{records[0]: true, records[damaged-1]: true, records[len(records)-1]: true}
	follow := func(overlapBytes int64) (*kept, *follower) {
		v := &kept{poison: poison}
		f := newFollower(v, log, slog.New(slog.DiscardHandler), 0)
		f.overlapBytes = overlapBytes
		told := int64(0)
		require.NoError(t, f.catchUp(t.Context(), end, func(phy int64) {
			require.Greater(t, phy, told)
			told = phy
		}))
		require.Equal(t, end, f.from.Load())
		require.EqualValues(t, 3, f.poison.Load())
		require.Positive(t, f.holes.Load())
		return v, f
	}
	want, stepped := follow(1 << 60)
	require.Len(t, want.delivered, len(records)-4)
	for _, n := range []int64{1, 200, 1 << 14} {
		got, f := follow(n)
		require.Equal(t, want.delivered, got.delivered)
		require.IsNonDecreasing(t, got.ends)
		require.Equal(t, stepped.holes.Load(), f.holes.Load())
		phy, _ := f.lastDelivered()
		require.Equal(t, records[len(records)-1], phy)
	}
}

// Behind a batch that cannot be delivered nothing is, and the follower stands at its beginning.
func TestOverlapStopsAtABatchThatFails(t *testing.T) {
	log, _, end := followed(t)
	ctx, cancel := context.WithCancel(t.Context())
	v := &kept{refuse: 2, refused: cancel} // it is not tried again then
	f := newFollower(v, log, slog.New(slog.DiscardHandler), 0)
	f.overlapBytes = 1
	require.ErrorIs(t, f.overlap(ctx, 0, end, func(int64) {}), errRefused)
	require.Equal(t, 2, v.batches)
	require.Len(t, v.ends, 1)
	require.Equal(t, v.ends[0], f.from.Load())
	require.NoError(t, log.Close())
}

// A byte of the log that cannot be read is no fault of the record that has it: the follower stops, and passes nothing over.
func TestFollowerFault(t *testing.T) {
	log, records, end := followed(t)
	gone := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.WriteFile(gone, make([]byte, 1<<16), 0o644))
	h, err := mmap.OS.OpenFile(gone, os.O_RDWR, 0)
	require.NoError(t, err)
	m, err := h.Map(1<<16, false)
	require.NoError(t, err)
	require.NoError(t, h.Truncate(0))
	sum := byte(0)
	v := &kept{touch: func(r *message.Record) {
		if r.PhyOffset == records[10] {
			sum += m.Bytes()[0]
		}
	}}
	f := newFollower(v, log, slog.New(slog.DiscardHandler), 0)
	require.ErrorIs(t, f.catchUp(t.Context(), end, nil), mmap.ErrFault)
	require.Zero(t, f.poison.Load())
	require.Zero(t, f.from.Load())
	require.NoError(t, errors.Join(m.Unmap(), h.Close()))
}

// A view that panics over every record is what is wrong, and not the records: it stops, says so, and stays where it was but for the first few.
func TestFRB07ViewThatTakesNothingStops(t *testing.T) {
	log, records, end := followed(t)
	for name, overlapBytes := range map[string]int64{"step": 1 << 60, "overlap": 1} {
		t.Run(name, func(t *testing.T) {
			v := &kept{touch: func(r *message.Record) {
				if r.PhyOffset >= records[followBatchRecords+10] {
					panic("the view is broken")
				}
			}}
			f := newFollower(v, log, slog.New(slog.DiscardHandler), 0)
			f.overlapBytes = overlapBytes
			for range 2 { // it sticks
				require.ErrorContains(t, f.catchUp(t.Context(), end, nil), "the view is broken")
				require.Equal(t, int64(maxPoison), f.poison.Load())
				require.LessOrEqual(t, f.from.Load(), records[followBatchRecords+10+maxPoison])
				require.LessOrEqual(t, len(v.delivered), followBatchRecords+10)
			}
		})
	}
}

// One record in three that a view cannot take does not stop it.
func TestFRB07ManyPoisonRecordsAmongOthers(t *testing.T) {
	log, records, end := followed(t)
	poison, n := map[int64]bool{}, 0
	for i := 0; i < len(records); i += 3 {
		poison[records[i]] = true
		n++
	}
	v := &kept{poison: poison}
	f := newFollower(v, log, slog.New(slog.DiscardHandler), 0)
	require.NoError(t, f.catchUp(t.Context(), end, nil))
	require.EqualValues(t, n, f.poison.Load())
	require.Len(t, v.delivered, len(records)-n)
}

// TestFRB07PassedOverIsDispatchedAgain: records are passed over one by one, with a flush after each, until it is clear that the fault is not theirs. Each of them gets its unit
// when that has been mended.
func TestFRB07PassedOverIsDispatchedAgain(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		var broken atomic.Bool
		o.IsBatchTopic = func(string) bool {
			if broken.Load() {
				panic("the callback is broken")
			}
			return false
		}
		s := openStore(t, root, o)
		putSome(t, s, 10)
		awaitDispatch(t, s)
		require.NoError(t, s.Flush())
		broken.Store(true)
		for n := int64(1); n <= maxPoison; n++ {
			_, err := s.Put(t.Context(), plainMessage("T", "body"))
			require.NoError(t, err)
			require.Eventually(t, func() bool { return s.views.behind() == 0 }, 20*time.Second, time.Millisecond)
			require.Equal(t, n, s.views.follow.poison.Load())
			require.NoError(t, s.views.flush(t.Context()))
		}
		_, err := s.Put(t.Context(), plainMessage("T", "body"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return s.views.follow.failure() != nil }, 20*time.Second, time.Millisecond)
		require.ErrorContains(t, s.Close(), "the callback is broken")
		_, err = Open(root, o)
		require.ErrorContains(t, err, "the callback is broken")

		broken.Store(false)
		s = openStore(t, root, o)
		awaitDispatch(t, s)
		require.NoError(t, s.Close())
		rep, err := Check(t.Context(), root, CheckOptions{Deep: true})
		require.NoError(t, err)
		require.Empty(t, rep.Findings)
	})
}

// TestFRB07BrokenCallbackStopsDispatch: a fault of a callback that strikes each record loses no unit. The queues stop, Close says what is left, and the next open dispatches it.
func TestFRB07BrokenCallbackStopsDispatch(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		var broken atomic.Bool
		o.IsBatchTopic = func(string) bool {
			if broken.Load() {
				panic("the callback is broken")
			}
			return false
		}
		s := openStore(t, root, o)
		putSome(t, s, 10)
		awaitDispatch(t, s)
		broken.Store(true)
		for range 10 * maxPoison {
			if _, err := s.Put(t.Context(), plainMessage("T", "body")); err != nil {
				require.ErrorContains(t, err, "the callback is broken")
			}
		}
		require.Eventually(t, func() bool { return s.views.follow.failure() != nil }, 20*time.Second, time.Millisecond)
		require.Contains(t, s.Watermarks().Views[s.views.view.name()].Failure, "the callback is broken")
		require.LessOrEqual(t, s.views.follow.poison.Load(), int64(maxPoison))
		require.ErrorContains(t, s.Close(), "the callback is broken")
		require.FileExists(t, NewLayout(root).AbortPath())
		_, err := Open(root, o)
		require.ErrorContains(t, err, "the callback is broken")
		require.FileExists(t, NewLayout(root).AbortPath())

		broken.Store(false)
		s = openStore(t, root, o)
		awaitDispatch(t, s)
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(root).AbortPath())
		rep, err := Check(t.Context(), root, CheckOptions{Deep: true})
		require.NoError(t, err)
		require.Empty(t, rep.Findings)
	})
}
