package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/internal/latency"
)

// brake bounds what it costs those who put that a side of the consume queues is filled from the log, or the sides are compared: bytes of the log read in a second, and, while puts take
// longer than they should, how much of the time is worked. Work never stops altogether: puts that are slow for other reasons would stop it for good.
type brake struct {
	bytesPerSec atomic.Int64 // 0: no bound
	budget      atomic.Int64 // ns that a put may take; 0: no bound

	users atomic.Int64 // who wants puts to be timed
	puts  atomic.Int64 // in this window
	slow  atomic.Int64 // of these, over the budget
	took  latency.Histogram

	window struct {
		sync.Mutex
		begin time.Time
		over  bool // more than one in brakeShare was slow in the last one
	}
}

const (
	brakeWindow  = 100 * time.Millisecond // puts are judged after so long
	brakeShare   = 100                    // one slow put in so many is no reason to brake
	brakeIdle    = 9                      // of the time worked, so much is waited while puts are slow
	brakeLongest = time.Second            // a wait is looked at again after so long
)

// use has puts timed until release is called.
func (b *brake) use() (release func()) {
	b.users.Add(1)
	return func() { b.users.Add(-1) }
}

// begin is called before a put; end gets what it returns.
func (b *brake) begin() time.Time {
	if b.users.Load() == 0 {
		return time.Time{}
	}
	return time.Now()
}

func (b *brake) end(begin time.Time) {
	if begin.IsZero() {
		return
	}
	took := time.Since(begin)
	b.puts.Add(1)
	b.took.Record(took)
	if budget := b.budget.Load(); budget > 0 && took > time.Duration(budget) {
		b.slow.Add(1)
	}
}

// over tells whether puts are slow.
func (b *brake) over(now time.Time) bool {
	w := &b.window
	w.Lock()
	defer w.Unlock()
	if now.Sub(w.begin) >= brakeWindow {
		puts, slow := b.puts.Swap(0), b.slow.Swap(0)
		w.begin, w.over = now, slow*brakeShare > puts
	}
	return w.over
}

// braking is somebody's use of a brake. Used by one goroutine.
type braking struct {
	b       *brake
	share   int       // of the time worked, so much is waited anyway
	begin   time.Time // when work was last begun
	credit  float64   // bytes that may be read at once; below 0: were read too early
	credits time.Time // when that was
}

// pause waits as long as what was done since the last call asks for; bytes of the log were read.
func (p *braking) pause(ctx context.Context, bytes int64) error {
	now := time.Now()
	if p.begin.IsZero() {
		p.begin, p.credits = now, now
	}
	worked := now.Sub(p.begin)
	wait := time.Duration(p.share) * worked
	if p.b.over(now) {
		wait = max(wait, brakeIdle*worked)
	}
	bound := p.b.bytesPerSec.Load()
	if rate := float64(bound); rate > 0 {
		burst := rate * brakeWindow.Seconds()
		p.credit = min(p.credit+rate*now.Sub(p.credits).Seconds(), burst) - float64(bytes)
		p.credits = now
		if p.credit < 0 {
			wait = max(wait, time.Duration(-p.credit/rate*float64(time.Second)))
		}
	}
	if wait >= time.Millisecond { // what is less adds up
		for end := now.Add(wait); wait > 0 && ctx.Err() == nil; wait = time.Until(end) {
			if p.b.bytesPerSec.Load() != bound { // what was read under another one is not paid for
				p.credit = 0
				break
			}
			t := time.NewTimer(min(wait, brakeLongest))
			select {
			case <-t.C:
			case <-ctx.Done():
			}
			t.Stop()
		}
		p.begin = time.Now()
	}
	return ctx.Err()
}

// TimePuts has puts timed until stop is called. take returns how long those took that have ended since it was last called.
func (s *Store) TimePuts() (take func() latency.Counts, stop func()) {
	release := s.brake.use()
	before := s.brake.took.Counts()
	return func() latency.Counts {
		now := s.brake.took.Counts()
		since := now.Sub(before)
		before = now
		return since
	}, release
}

// SetBackfillPace bounds what it costs those who put that a side of a combined store is filled from the log (options backfillBytesPerSec and backfillPutLatency of a running store): bytes of the log
// read in a second, and how long a put may take; while more than one in a hundred takes longer, a tenth of the time is worked. Zero: no bound.
func (s *Store) SetBackfillPace(bytesPerSec int64, putLatency time.Duration) {
	s.brake.bytesPerSec.Store(max(bytesPerSec, 0))
	s.brake.budget.Store(int64(max(putLatency, 0)))
}
