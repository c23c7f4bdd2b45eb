package store

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/message"
)

// lateKept is a view that is late: what was delivered is seen when a settling is let through.
type lateKept struct {
	kept
	let chan error // what a settling answers
}

func (*lateKept) late() bool { return true }

func (v *lateKept) settle(ctx context.Context) error {
	select {
	case err := <-v.let:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The log is read and delivered on while a late view has not shown what it got; progress tells what it shows.
func TestDeliveryDoesNotWaitForALateView(t *testing.T) {
	log, _, end := followed(t)
	v := &lateKept{let: make(chan error)}
	f := newFollower(v, log, slog.New(slog.DiscardHandler), 0)
	done := make(chan error)
	delivered := make(chan struct{})
	var told []int64
	go func() {
		done <- f.settled(t.Context(), func(phy int64) { told = append(told, phy) }, func(ctx context.Context) error {
			defer close(delivered)
			return f.bring(ctx, end, nil)
		})
	}()
	<-delivered
	require.Len(t, v.ends, v.batches)
	require.Equal(t, end, v.ends[len(v.ends)-1])
	require.Greater(t, v.batches, 2)
	require.Zero(t, f.from.Load())
	phy, _ := f.lastDelivered()
	require.EqualValues(t, -1, phy)
	for over := false; !over; { // each is answered, the last for all that came after those before
		select {
		case v.let <- nil:
		case err := <-done:
			require.NoError(t, err)
			over = true
		}
	}
	require.Equal(t, end, f.from.Load())
	require.Equal(t, end, told[len(told)-1])
	require.IsIncreasing(t, append([]int64{0}, told...))
	phy, _ = f.lastDelivered()
	require.Equal(t, v.delivered[len(v.delivered)-1], phy)
}

// A settling that fails for good ends the follower, with what it had shown before.
func TestFailedSettlingStopsTheFollower(t *testing.T) {
	t.Parallel() // it mostly waits
	log, _, end := followed(t)
	v := &lateKept{let: make(chan error, deliverTries)}
	for range deliverTries {
		v.let <- errRefused
	}
	f := newFollower(v, log, slog.New(slog.DiscardHandler), 0)
	require.ErrorIs(t, f.catchUp(t.Context(), end, nil), errRefused)
	require.Zero(t, f.from.Load())
	require.Empty(t, v.let, "it was tried again before")
}

// shutRocks is a RocksDB whose units nobody can read before it is opened.
type shutRocks struct {
	*rocks.Store
	open chan struct{}
}

func (s *shutRocks) opened() bool {
	select {
	case <-s.open:
		return true
	default:
		return false
	}
}

func (s *shutRocks) AwaitReadable(ctx context.Context) error {
	select {
	case <-s.open:
		return s.Store.AwaitReadable(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *shutRocks) Progress() (accepted, readable, durable int64) {
	accepted, readable, durable = s.Store.Progress()
	if !s.opened() {
		return accepted, -1, -1
	}
	return accepted, readable, durable
}

// Files beside a RocksDB that is slow get all their units; who reads from files is told at once, who reads from RocksDB when it can be read, of each message once and in
// order. Progress is that of the slower one.
func TestSlowRocksDBHoldsUpNoFiles(t *testing.T) {
	needRocksDB(t)
	for _, preferred := range combinedKinds {
		t.Run(string(preferred), func(t *testing.T) {
			log, records, end := followed(t)
			files, err := file.Open(filepath.Join(t.TempDir(), "file"), file.Options{FileSizeBytes: 6000})
			require.NoError(t, err)
			o := rocks.DefaultOptions()
			o.Create = true
			db, err := rocks.Open(filepath.Join(t.TempDir(), "rocks"), o)
			require.NoError(t, err)
			slow := &shutRocks{Store: db, open: make(chan struct{})}
			c, err := combine.New(files, slow, combine.Options{Preferred: preferred, Authority: cq.KindFile})
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			v := newQueueView(c, message.DefaultDelayLevels(), true, func(string) bool { return false }, slog.New(slog.DiscardHandler))
			v.served = c.Served
			var told struct {
				sync.Mutex
				phy []int64
			}
			heard := func() []int64 {
				told.Lock()
				defer told.Unlock()
				return slices.Clone(told.phy)
			}
			v.onNew = func(batch []cq.Entry) {
				told.Lock()
				defer told.Unlock()
				for i := range batch {
					if !batch[i].Key.IsLMQ() { // of which a record has several
						told.phy = append(told.phy, batch[i].Unit.PhyOffset)
					}
				}
			}
			f := newFollower(v, log, slog.New(slog.DiscardHandler), 0)
			done := make(chan error)
			go func() { done <- f.catchUp(t.Context(), end, nil) }()
			require.Eventually(t, func() bool { a, _, _ := files.Progress(); return a == end }, 20*time.Second, time.Millisecond)
			if preferred == cq.KindFile {
				require.Eventually(t, func() bool { return slices.Equal(records, heard()) }, 20*time.Second, time.Millisecond)
			} else {
				require.Empty(t, heard())
			}
			require.Zero(t, f.from.Load())
			close(slow.open)
			require.NoError(t, <-done)
			require.Equal(t, end, f.from.Load())
			require.Equal(t, records, heard())
			accepted, readable, _ := c.Progress()
			require.Equal(t, [2]int64{end, end}, [2]int64{accepted, readable})
		})
	}
}

// A RocksDB that fails for good while units wait for it is given up, and files go on; one that has authority ends dispatch, with its error.
func TestFailedRocksDBBehindDelivery(t *testing.T) {
	t.Parallel() // it mostly waits
	needRocksDB(t)
	for _, authority := range combinedKinds {
		t.Run(string(authority), func(t *testing.T) {
			log, _, end := followed(t)
			files, err := file.Open(filepath.Join(t.TempDir(), "file"), file.Options{FileSizeBytes: 6000})
			require.NoError(t, err)
			o := rocks.DefaultOptions()
			o.Create = true
			db, err := rocks.Open(filepath.Join(t.TempDir(), "rocks"), o)
			require.NoError(t, err)
			c, err := combine.New(files, &failingRocks{Store: db, after: 1}, combine.Options{Authority: authority})
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			v := newQueueView(c, message.DefaultDelayLevels(), true, func(string) bool { return false }, slog.New(slog.DiscardHandler))
			f := newFollower(v, log, slog.New(slog.DiscardHandler), 0)
			err = f.catchUp(t.Context(), end, nil)
			if authority == cq.KindRocks {
				require.ErrorIs(t, err, errRefused)
				require.Less(t, f.from.Load(), end)
				return
			}
			require.NoError(t, err)
			require.Equal(t, end, f.from.Load())
			require.ErrorIs(t, c.Failure(cq.KindRocks), errRefused)
		})
	}
}

// failingRocks is a RocksDB whose writes fail for good after some batches, which is found out later.
type failingRocks struct {
	*rocks.Store
	mu    sync.Mutex
	after int // batches that are still written
}

func (s *failingRocks) Append(ctx context.Context, batch []cq.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.after < -3 {
		return errRefused
	}
	if s.after--; s.after < 0 {
		return nil // accepted, and never written
	}
	return s.Store.Append(ctx, batch)
}

func (s *failingRocks) AwaitReadable(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.after < 0 {
		return errors.Join(ctx.Err(), errRefused)
	}
	return s.Store.AwaitReadable(ctx)
}
