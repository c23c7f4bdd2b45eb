package commitlog

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/message"
)

// inBubble runs f with a clock of its own, which jumps ahead whenever all goroutines wait.
func inBubble(t *testing.T, f func(t *testing.T)) {
	waiters = sync.Pool{New: waiters.New} // their timers belong to one clock
	synctest.Test(t, f)
	waiters = sync.Pool{New: waiters.New}
}

// gate holds up operations of a kind.
type gate struct {
	kind faultfs.Kind
	shut atomic.Pointer[chan struct{}]
	held atomic.Int64 // how many have come to it
}

func (g *gate) close() {
	ch := make(chan struct{})
	g.shut.Store(&ch)
}

func (g *gate) open() {
	if ch := g.shut.Swap(nil); ch != nil {
		close(*ch)
	}
}

// pass is a function for FS.Inject.
func (g *gate) pass(op faultfs.Op) error {
	if ch := g.shut.Load(); ch != nil && op.Kind == g.kind {
		g.held.Add(1)
		<-*ch
	}
	return nil
}

// syncLog is a Logger's output.
type syncLog struct {
	mu struct {
		sync.Mutex
		b bytes.Buffer
	}
}

func (l *syncLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.b.Write(b)
}

// count returns how many lines contain s.
func (l *syncLog) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.mu.b.String(), s)
}

func (l *syncLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// syncModes are the ways to write with synchronous flush.
func syncModes(t *testing.T, f func(t *testing.T, mode WriteMode)) {
	for _, m := range testModes {
		if m.sync {
			t.Run(m.name, func(t *testing.T) { inBubble(t, func(t *testing.T) { f(t, m.mode) }) })
		}
	}
}

// AwaitFlush gives up after SyncFlushTimeout. The record stays, becomes durable when the disk moves again, and a producer that tried again has
// put it twice.
func TestSyncFlushTimeout(t *testing.T) {
	syncModes(t, func(t *testing.T, mode WriteMode) {
		fsys := faultfs.New(faultfs.Options{})
		o := lossOptions(fsys, true, mode)
		o.SyncFlushTimeout = 5 * time.Second
		w, err := OpenWriter(o)
		require.NoError(t, err)
		g := gate{kind: faultfs.Datasync}
		time.Sleep(time.Second) // files ahead are made
		fsys.Inject(g.pass)
		g.close()
		l := newLedger()
		for range 2 {
			start := time.Now()
			require.ErrorIs(t, l.append(w, queueMessage(0, 0)), ErrFlushTimeout)
			require.Equal(t, o.SyncFlushTimeout, time.Since(start))
		}
		require.Zero(t, w.Positions().Flushed)
		require.EqualValues(t, 2, w.Stats().FlushTimeouts)
		written, _ := l.ends()
		require.Equal(t, w.Positions().Wrote, written, "it stays in the log")
		require.NoError(t, w.Failure())
		g.open()
		synctest.Wait()
		require.Equal(t, written, w.Positions().Flushed, "it becomes durable")
		left := fsys.CrashSeed(0)
		require.Equal(t, written, l.scan(t, left, written).Offset)
		require.NoError(t, w.Close())
		log, err := Open(lossDir, Options{FS: left})
		require.NoError(t, err)
		require.Len(t, scan(t, log, -1, ScanOptions{}).records, 2, "twice")
		require.NoError(t, log.Close())
		requireNothingOpen(t, fsys)
	})
}

// Who is called instead of woken is told once: in order, at once where all is known, at its time where the disk stands still, and of a failure.
func TestAwaitFlushFunc(t *testing.T) {
	syncModes(t, func(t *testing.T, mode WriteMode) {
		fsys := faultfs.New(faultfs.Options{})
		o := lossOptions(fsys, true, mode)
		o.SyncFlushTimeout = 5 * time.Second
		w, err := OpenWriter(o)
		require.NoError(t, err)
		time.Sleep(time.Second) // files ahead are made
		g := gate{kind: faultfs.Datasync}
		fail := false
		fsys.Inject(func(op faultfs.Op) error {
			if err := g.pass(op); err != nil || !fail || op.Kind != faultfs.Datasync {
				return err
			}
			return syscall.EIO
		})
		var mu sync.Mutex
		var told []string
		put := func(name string) {
			m := queueMessage(0, 0)
			r := reserve(t, w, m)
			require.NoError(t, w.Publish(r, filling(r, m)))
			w.AwaitFlushFunc(r, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if name += " durable"; err != nil {
					name = strings.TrimSuffix(name, "durable") + map[bool]string{true: "late", false: "failed"}[errors.Is(err, ErrFlushTimeout)]
				}
				told = append(told, name)
			})
		}
		have := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, want, told)
			told = nil
		}
		g.close()
		put("a")
		put("b")
		time.Sleep(3 * time.Second)
		put("c")
		have()
		time.Sleep(2 * time.Second)
		have("a late", "b late")
		require.EqualValues(t, 2, w.Stats().FlushTimeouts)
		g.open()
		have("c durable")
		time.Sleep(10 * time.Second)
		have()
		put("d")
		put("e")
		have("d durable", "e durable")
		m := queueMessage(0, 0)
		r := reserve(t, w, m)
		require.NoError(t, w.Publish(r, filling(r, m)))
		require.NoError(t, w.Flush())
		called := false
		w.AwaitFlushFunc(r, func(err error) { called = err == nil })
		require.True(t, called, "at once")
		g.close()
		put("f")
		synctest.Wait()
		fail = true
		put("g")
		g.open()
		have("f failed", "g failed")
		w.AwaitFlushFunc(r, func(err error) { called = err != nil })
		require.False(t, called, "it was durable before the failure")
		require.Error(t, w.Close())
		requireNothingOpen(t, fsys)
	})
}

// With a disk that stands still for 30 s and many producers: all of them are answered in time, what waits in memory is bounded, and puts go on by
// themselves when the disk does.
func TestStalledDisk(t *testing.T) {
	syncModes(t, func(t *testing.T, mode WriteMode) {
		const producers, limit, stall = 64, 20_000, 30 * time.Second
		fsys := faultfs.New(faultfs.Options{})
		o := lossOptions(fsys, true, mode)
		o.SyncFlushTimeout = 5 * time.Second
		o.UndurableBytes, o.BufferBytes = limit, 2*limit
		o.FileSize = 16 * faultfs.PageBytes
		w, err := OpenWriter(o)
		require.NoError(t, err)
		time.Sleep(time.Second)
		g := gate{kind: faultfs.Datasync}
		fsys.Inject(g.pass)
		l := newLedger()
		var acked, timeouts, busy atomic.Int64
		var slowest atomic.Int64
		var stop atomic.Bool
		var wg sync.WaitGroup
		for q := range producers {
			wg.Go(func() {
				for n := int64(0); !stop.Load(); n++ {
					start := time.Now()
					switch err := putOnce(w, l, queueMessage(int32(q), n), time.Second); {
					case err == nil:
						acked.Add(1)
					case errors.Is(err, ErrFlushTimeout):
						timeouts.Add(1)
					case errors.Is(err, ErrBusy):
						var be *BusyError
						if !errors.As(err, &be) || be.Reason != BusyFlush || be.LimitBytes != limit || be.PendingBytes > limit {
							t.Errorf("%v", err)
						}
						busy.Add(1)
					default:
						t.Error(err)
						return
					}
					if took := int64(time.Since(start)); took > slowest.Load() {
						slowest.Store(took)
					}
					if p := w.Positions(); p.Wrote-p.Flushed > limit {
						t.Errorf("%d bytes are not durable", p.Wrote-p.Flushed)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		time.Sleep(time.Second)
		require.NotZero(t, acked.Load())
		g.close()
		time.Sleep(stall / 2)
		before := acked.Load()
		time.Sleep(stall / 2)
		require.Equal(t, before, acked.Load(), "acknowledged with the disk standing still")
		require.NotZero(t, timeouts.Load())
		require.NotZero(t, busy.Load())
		require.LessOrEqual(t, time.Duration(slowest.Load()), o.SyncFlushTimeout+time.Second)
		w.flusher.mu.Lock()
		require.LessOrEqual(t, w.flusher.mu.group.n, producers)
		w.flusher.mu.Unlock()
		if w.staging != nil {
			w.staging.mu.Lock()
			require.LessOrEqual(t, len(w.staging.mu.chunks), 4, "staged memory")
			w.staging.mu.Unlock()
		}
		g.open()
		time.Sleep(time.Second)
		require.Greater(t, acked.Load(), before+producers, "puts go on")
		stop.Store(true)
		wg.Wait()
		require.NoError(t, w.Close())
		l.scan(t, fsys.CrashSeed(0), w.Positions().Wrote)
		requireNothingOpen(t, fsys)
	})
}

// putOnce puts m, waiting for room once.
func putOnce(w *Writer, l *ledger, m *message.Message, patience time.Duration) error {
	size, err := m.EncodedSize()
	if err != nil {
		return err
	}
	var r Reservation
	err = w.Reserve(&r, size)
	var busy *BusyError
	if errors.As(err, &busy) {
		w.AwaitSpace(busy, patience)
		err = w.Reserve(&r, size)
	}
	if err != nil {
		return err
	}
	err = w.Publish(&r, func(dst []byte) error {
		m.PhyOffset, m.StoreTimestampMs = r.PhyOffset, r.StoreTimestampMs
		err := m.PutTo(dst)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.mu.put[r.PhyOffset] = bytes.Clone(dst)
		return err
	})
	if err != nil {
		return err
	}
	return w.AwaitFlush(&r)
}

// With synchronous flush readers of messages stop at what is durable; the log itself reads to what is written.
func TestFRA07NothingIsConfirmedBeforeItIsDurable(t *testing.T) {
	syncModes(t, func(t *testing.T, mode WriteMode) {
		fsys := faultfs.New(faultfs.Options{})
		w, err := OpenWriter(lossOptions(fsys, true, mode))
		require.NoError(t, err)
		l := newLedger()
		require.NoError(t, l.append(w, queueMessage(0, 0)))
		confirm := w.Positions().Confirm
		require.Equal(t, w.Positions().Wrote, confirm)
		time.Sleep(time.Second)
		g := gate{kind: faultfs.Datasync}
		fsys.Inject(g.pass)
		g.close()
		answered := make(chan error)
		go func() { answered <- l.append(w, queueMessage(0, 1)) }()
		synctest.Wait()
		require.EqualValues(t, 1, g.held.Load())
		require.Greater(t, w.Positions().Wrote, confirm)
		require.Equal(t, confirm, w.Positions().Confirm)
		require.Equal(t, confirm, w.Positions().Flushed)
		select {
		case err := <-answered:
			t.Errorf("answered before the sync: %v", err)
		default:
		}
		g.open()
		require.NoError(t, <-answered)
		require.Equal(t, w.Positions().Wrote, w.Positions().Confirm)
		require.NoError(t, w.Close())
	})
}

// The pool goes with synchronous flush: the flush commits it first, also when its commit loop never runs.
func TestFRA08PoolUnderSynchronousFlush(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fsys := faultfs.New(faultfs.Options{})
		o := lossOptions(fsys, true, WritePooled)
		o.CommitOnPut = false
		w, err := OpenWriter(o)
		require.NoError(t, err)
		time.Sleep(time.Second)
		start, l := time.Now(), newLedger()
		for n := range 100 {
			require.NoError(t, l.append(w, queueMessage(0, int64(n))))
			require.Equal(t, w.Positions().Wrote, w.Positions().Flushed)
		}
		require.Less(t, time.Since(start), time.Second)
		require.Zero(t, w.Stats().FlushTimeouts)
		require.NoError(t, w.Close())
	})
}

// A sync over 500 ms, a put lock held as long and a file that takes over 10 ms to make are a line in the log and a counter each.
func TestSlowStepsAreReported(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  faultfs.Kind
		delay time.Duration
		line  string
		count func(Stats) int64
	}{
		{"flush", faultfs.Datasync, 600 * time.Millisecond, "commit log flush was slow", func(s Stats) int64 { return s.SlowFlushes }},
		{"flush just below", faultfs.Datasync, 499 * time.Millisecond, "commit log flush was slow", func(s Stats) int64 { return s.SlowFlushes }},
		{"allocation", faultfs.Create, 12 * time.Millisecond, "commit log file took long to make", func(s Stats) int64 { return s.SlowAllocations }},
		{"allocation just below", faultfs.Create, 9 * time.Millisecond, "commit log file took long to make", func(s Stats) int64 { return s.SlowAllocations }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				fsys, lines := faultfs.New(faultfs.Options{}), new(syncLog)
				o := lossOptions(fsys, false, WriteMapped)
				o.Logger = lines.logger()
				w, err := OpenWriter(o)
				require.NoError(t, err)
				time.Sleep(time.Second)
				want := 0
				if !strings.HasSuffix(c.name, "below") {
					want = 1
				}
				fsys.Inject(func(op faultfs.Op) error {
					if op.Kind == c.kind && (c.kind == faultfs.Create || strings.HasSuffix(op.Path, "/00000000000000000000")) {
						time.Sleep(c.delay)
					}
					return nil
				})
				l := newLedger()
				if c.kind == faultfs.Datasync {
					require.NoError(t, l.append(w, queueMessage(0, 0)))
					require.NoError(t, w.Flush())
				}
				for n := 0; c.kind == faultfs.Create && w.Stats().Rolls == 0; n++ {
					require.NoError(t, l.append(w, lossMessage(0, int64(n))))
				}
				time.Sleep(time.Second)
				require.EqualValues(t, want, c.count(w.Stats()))
				require.Equal(t, want, lines.count(c.line))
				require.NoError(t, w.Close())
				require.Equal(t, want, strings.Count(lines.mu.b.String(), "\n"), "%s", lines.mu.b.String())
			})
		})
	}
	t.Run("lock hold", func(t *testing.T) {
		lines := new(syncLog)
		o := testOptions(t.TempDir(), false, WriteMapped)
		o.Logger = lines.logger()
		var now, step int64
		o.NowMs = func() int64 { now += step; return now }
		w, err := OpenWriter(o)
		require.NoError(t, err)
		step = 499
		_, err = appendMessage(w, queueMessage(0, 0))
		require.NoError(t, err)
		require.Zero(t, w.Stats().SlowHolds)
		step = 500
		_, err = appendMessage(w, queueMessage(0, 1))
		require.NoError(t, err)
		require.EqualValues(t, 1, w.Stats().SlowHolds)
		require.Equal(t, 1, lines.count("put lock of the commit log was held long"))
		require.NoError(t, w.Close())
	})
}

// When the next file cannot be made the put gets the reason at once, nothing is left half made, tries are ever further apart however many puts there
// are, and when it can be made again puts go on.
func TestFRA11FileThatCannotBeMade(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.Create, faultfs.Truncate, faultfs.Preallocate, faultfs.Datasync, faultfs.Open, faultfs.Map, faultfs.Populate} {
		for _, cause := range []syscall.Errno{syscall.ENOSPC, syscall.EACCES} {
			t.Run(string(kind)+"/"+cause.Error(), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					fsys := faultfs.New(faultfs.Options{})
					o := lossOptions(fsys, false, WriteMapped)
					w, err := OpenWriter(o)
					require.NoError(t, err)
					time.Sleep(time.Second)
					var well atomic.Bool
					fsys.Inject(func(op faultfs.Op) error {
						if op.Kind == kind && !well.Load() && op.Path > lossDir+"/00000000000000032768" { // the fourth and on
							return cause
						}
						return nil
					})
					l := newLedger()
					for {
						if err = putOnce(w, l, lossMessage(0, 5), time.Second); err != nil {
							break
						}
					}
					require.ErrorIs(t, err, cause)
					require.ErrorIs(t, err, ErrAllocate)
					require.NoError(t, w.Failure(), "a full disk is no end")
					for range 2000 { // 20 s
						start := time.Now()
						require.ErrorIs(t, putOnce(w, l, lossMessage(0, 5), time.Second), ErrAllocate)
						require.Zero(t, time.Since(start), "it waited")
						time.Sleep(10 * time.Millisecond)
					}
					// 0.1 + 0.2 + ... + 3.2, then every 5 s.
					tries := w.Stats().AllocateFailures
					require.Less(t, tries, int64(12))
					require.Greater(t, tries, int64(4))
					infos, err := fsys.ReadDir(lossDir)
					require.NoError(t, err)
					require.LessOrEqual(t, len(infos), 3, "half-made files")
					// What was accepted is flushed all the same, and a smaller put still fits (W9, W14).
					require.NoError(t, w.Flush())
					require.Equal(t, w.Positions().Wrote, w.Positions().Flushed)
					well.Store(true)
					time.Sleep(6 * time.Second)
					require.NoError(t, putOnce(w, l, lossMessage(0, 5), time.Second))
					require.NoError(t, w.Close())
					requireNothingOpen(t, fsys)
				})
			})
		}
	}
}
