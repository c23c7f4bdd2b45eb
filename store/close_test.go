package store

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
)

// TestBrokenQueueIsRemembered: a queue in RocksDB is broken (dropped here) and being mended when the process is killed. The units left out of it
// meanwhile never come: the checkpoint row has passed them, and queues of RocksDB are not verified.
func TestBrokenQueueIsRemembered(t *testing.T) {
	needRocksDB(t)
	o := viewOptions(StoreTypeRocksDB)
	o.MessageIndexEnable = false
	root := t.TempDir()
	s := openStore(t, root, o)
	for range 20 {
		_, err := s.Put(t.Context(), plainMessage("T", "body"))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	s = openStore(t, root, o)
	v := s.views
	require.EqualValues(t, 20, s.NextOffset("T", 0))
	require.NoError(t, v.queues.(cq.Importer).DropQueue(t.Context(), cq.Key{Topic: "T"})) // the queue is lost
	v.view.mending.Lock()                                                                 // the mending is slow
	for range 5 {
		for _, topic := range []string{"T", "U"} {
			_, err := s.Put(t.Context(), plainMessage(topic, "body"))
			require.NoError(t, err)
		}
	}
	require.Eventually(t, func() bool { return v.behind() == 0 }, 5*time.Second, time.Millisecond)
	require.NoError(t, v.flush(t.Context()))
	copied := crash(t, root) // kill -9; a copy of a directory in which RocksDB makes files at that moment is no state that it ever had
	v.view.mending.Unlock()
	require.NoError(t, s.Close())
	requireWhole(t, root, o)

	s = openStore(t, copied, o)
	require.NoError(t, s.Close())
	require.NoFileExists(t, NewLayout(copied).AbortPath())
	requireWhole(t, copied, o)
}

// TestFollowerStaysWhenTheLogHasAHole: a put fails while it is filled; one before it is published and acknowledged after that, and no view gets it.
func TestFollowerStaysWhenTheLogHasAHole(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	s := openStore(t, t.TempDir(), o)
	defer s.Close()
	m := plainMessage("T", "the one before")
	p := s.putters.Get().(*putter)
	p.msg = *m
	require.NoError(t, p.checkMessage())
	require.NoError(t, p.take()) // A has its place, and fills it slowly
	var r commitlog.Reservation
	require.NoError(t, s.writer.Reserve(&r, 100))
	require.Error(t, s.writer.Publish(&r, func([]byte) error { return errors.New("B cannot be encoded") }))
	time.Sleep(50 * time.Millisecond)
	p.msg.PhyOffset, p.msg.StoreTimestampMs = p.res.PhyOffset, p.res.StoreTimestampMs
	require.NoError(t, s.writer.Publish(&p.res, p.encode)) // A is acknowledged
	require.Eventually(t, func() bool { return s.views.behind() == 0 }, 2*time.Second, time.Millisecond, "reads go on, of what was acknowledged too")
}

// TestMendNatural: queues found short by verify while puts go on; every unit is there after a clean Close.
func TestMendNatural(t *testing.T) {
	if os.Getenv("BRK_NATURAL") == "" {
		t.Skip()
	}
	o := viewOptions(StoreTypeFile)
	o.MessageIndexEnable = false
	o.MappedFileSizeCommitLog = 1 << 24
	o.MappedFileSizeConsumeQueue = 6000000
	end := time.Now().Add(45 * time.Second)
	var rounds atomic.Int64
	for time.Now().Before(end) {
		root := t.TempDir()
		s := openStore(t, root, o)
		v := s.views
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				_, _ = s.Put(t.Context(), plainMessage("T", "body"))
				for start := time.Now(); time.Since(start) < 30*time.Microsecond; {
				}
			}
		}()
		for range 100 {
			v.view.mu.Lock()
			v.view.breakLocked(cq.Key{Topic: "T"}, errors.New("x")) // as verify does
			v.view.mu.Unlock()
			for v.view.brokenNow.Load() > 0 {
				time.Sleep(10 * time.Microsecond)
			}
			rounds.Add(1)
			if v.view.gaps.Load() > 0 {
				t.Fatalf("after %d mendings: a mended queue lacks units (the next record found a gap)", rounds.Load())
			}
			if time.Now().After(end) {
				break
			}
		}
		close(stop)
		<-done
		require.NoError(t, s.Close())
	}
	t.Log(rounds.Load(), "mendings")
}

// TestCloseRacingPuts: Close has to wait for puts under way before it drains; it finds them later instead, and the store is not left in order.
func TestCloseRacingPuts(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.MappedFileSizeCommitLog = 8 << 10
	bad := 0
	for range 40 {
		root := t.TempDir()
		s := openStore(t, root, o)
		done := make(chan struct{}, 8)
		for range 8 {
			go func() {
				defer func() { done <- struct{}{} }()
				m := plainMessage("T", string(make([]byte, 1000)))
				for {
					if _, err := s.Put(t.Context(), m); PutStatusOf(err) == PutServiceNotAvailable {
						return
					}
				}
			}()
		}
		time.Sleep(20 * time.Millisecond)
		if err := s.Close(); err != nil {
			bad++
			t.Log(err)
			require.FileExists(t, NewLayout(root).AbortPath())
		} else if _, err := os.Stat(NewLayout(root).AbortPath()); err == nil {
			bad++
			t.Log("Close returned nil, and the abort mark is there")
		}
		for range 8 {
			<-done
		}
	}
	require.Zero(t, bad, "of 40 closes")
}
