package commitlog

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// writerStats are counters of a Writer.
type writerStats struct {
	rolls, allocations, slowAllocations, allocateFailures atomic.Int64
	populatedBytes, committedBytes                        atomic.Int64
	slowFlushes, flushTimeouts, slowHolds                 atomic.Int64

	mu struct {
		sync.Mutex
		flushes, flushedBytes, groups, grouped int64
		maxFlush, totalFlush                   time.Duration
		lastFlush                              time.Time // below what is flushed now, everything was published before then
		maxUndurable                           time.Duration
	}
}

func (s *writerStats) begin() { s.mu.lastFlush = time.Now() }

func (s *writerStats) flushed(start time.Time, n int64) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.flushes++
	s.mu.flushedBytes += n
	s.mu.totalFlush += now.Sub(start)
	s.mu.maxFlush = max(s.mu.maxFlush, now.Sub(start))
	s.mu.maxUndurable = max(s.mu.maxUndurable, now.Sub(s.mu.lastFlush))
	s.mu.lastFlush = start
}

// durable tells that there was nothing to sync.
func (s *writerStats) durable(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.lastFlush = now
}

func (s *writerStats) answered(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.groups++
	s.mu.grouped += int64(n)
}

// slowHold reports a put lock that was held too long.
func (w *Writer) slowHold(ms int64) {
	w.stats.slowHolds.Add(1)
	w.logger.Warn("put lock of the commit log was held long", slog.Duration("elapsed", time.Duration(ms)*time.Millisecond))
}

// Stats are the counters of a Writer since it was opened.
type Stats struct {
	Rolls            int64         // files filled
	Allocations      int64         // files made ahead
	SlowAllocations  int64         // of these over 10 ms
	AllocateFailures int64         // tries that failed
	PopulatedBytes   int64         // brought in ahead of the write position
	CommittedBytes   int64         // written from memory into files
	Flushes          int64         // syncs
	FlushedBytes     int64         // made durable
	SlowFlushes      int64         // over 500 ms
	MaxFlush         time.Duration // the longest sync
	TotalFlush       time.Duration
	FlushTimeouts    int64         // AwaitFlush that was answered ErrFlushTimeout
	Groups           int64         // syncs somebody waited for
	Grouped          int64         // puts that these answered
	SlowHolds        int64         // put lock held over 500 ms
	UndurableBytes   int64         // published and not durable, now
	UndurableFor     time.Duration // how long the oldest of these has waited at most; 0 when all is durable
	MaxUndurableFor  time.Duration // the longest that was
}

// Stats returns the counters.
func (w *Writer) Stats() Stats {
	s := &w.stats
	p := w.Positions()
	r := Stats{
		Rolls: s.rolls.Load(), Allocations: s.allocations.Load(), SlowAllocations: s.slowAllocations.Load(), AllocateFailures: s.allocateFailures.Load(),
		PopulatedBytes: s.populatedBytes.Load(), CommittedBytes: s.committedBytes.Load(),
		SlowFlushes: s.slowFlushes.Load(), FlushTimeouts: s.flushTimeouts.Load(), SlowHolds: s.slowHolds.Load(),
		UndurableBytes: p.Wrote - p.Flushed,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Flushes, r.FlushedBytes, r.Groups, r.Grouped = s.mu.flushes, s.mu.flushedBytes, s.mu.groups, s.mu.grouped
	r.MaxFlush, r.TotalFlush, r.MaxUndurableFor = s.mu.maxFlush, s.mu.totalFlush, s.mu.maxUndurable
	if r.UndurableBytes > 0 {
		r.UndurableFor = time.Since(s.mu.lastFlush)
	}
	return r
}
