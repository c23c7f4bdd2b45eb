package main

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// load is producers that put messages as fast as they are taken. Its goroutines are the producers and one observer; run
// joins them.
type load struct {
	producers int
	messages  int64         // over all producers; 0: no limit
	duration  time.Duration // 0: no limit

	bodyBytes      int
	topics, queues int  // messages go to the queues in turn, queues of each topic
	properties     bool // a tag, a key and a unique key on each message
	shapes         shapes

	// sampleEvery: of so many puts one is timed. Two looks at the clock can cost as much as a third of a put.
	sampleEvery int
	fileBytes   int64 // of a log file: the put that begins one is always timed

	// rest is how long nothing must be prepared before settle calls the log ready.
	rest time.Duration

	put      func(ctx context.Context, m *message.Message, batch bool) (phyOffset int64, err error)
	figures  func() logFigures // called by the observer
	progress func(done int64)
}

// logFigures is what the log knows about its flushing.
type logFigures struct {
	syncs          int64
	undurableBytes int64         // in the log and not yet durable, now
	undurableFor   time.Duration // the longest that a byte waited so far
	prepared       int64         // grows while files are made and brought into memory
}

// statusCount is how many statuses a put can have.
const statusCount = int(store.PutWheelTimerMsgIllegal) + 1

// loadResult is what a load saw.
type loadResult struct {
	stored        int64      // messages that are in the log
	shapes        shapeTally // the same
	puts          int64
	elapsed       time.Duration
	latency       *calibrate.Latency
	rolls         *calibrate.Latency
	statuses      [statusCount]int64 // puts, by store.PutStatus
	allocs        float64            // a put, those of other goroutines included
	syncs         int64
	undurableMost int64
	undurableFor  time.Duration
}

// The pace of the observer.
const (
	observeInterval  = 10 * time.Millisecond
	progressInterval = 100 * time.Millisecond
)

// The log makes its first files and those ahead beside what its caller does. It is at rest when something was made and
// that then stood still for a while, looked at every settleInterval; settleLimit bounds the wait. A whole file that is brought into memory
// counts when it is there, which takes longer.
const (
	settleInterval = 20 * time.Millisecond
	settleRest     = 500 * time.Millisecond
	settleRestWarm = 3 * time.Second
	settleLimit    = 30 * time.Second
)

// settle waits until the log is ready for what comes, so that the load meets the state of a log that has been in use.
func (l *load) settle(ctx context.Context) error {
	start := time.Now()
	changed, last := start, l.figures().prepared
	tick := time.NewTicker(settleInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			if p := l.figures().prepared; p != last || p == 0 {
				changed, last = now, p
			}
			if now.Sub(changed) >= l.rest || now.Sub(start) >= settleLimit {
				return nil
			}
		}
	}
}

// run puts until the messages are put, the duration is over or ctx ends; the latter is an error, and so is a put that did
// not store its message. Only OS_PAGE_CACHE_BUSY, which asks to come again, lets the producer go on.
func (l *load) run(ctx context.Context) (r loadResult, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var stop atomic.Bool
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()

	all := make([]*producer, l.producers)
	for i := range all {
		if all[i], err = newProducer(l, i); err != nil {
			return r, err
		}
	}
	l.progress(0)
	before := l.figures()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	mallocs := mem.Mallocs

	var wg sync.WaitGroup
	begin := make(chan struct{})
	for _, p := range all {
		wg.Go(func() {
			<-begin
			if err := p.run(ctx, &stop); err != nil {
				cancel(err)
			}
		})
	}
	start := time.Now()
	if l.duration > 0 {
		defer time.AfterFunc(l.duration, func() { stop.Store(true) }).Stop()
	}
	close(begin)
	seen := l.observe(all, func() { wg.Wait() })

	runtime.ReadMemStats(&mem)
	r = loadResult{latency: calibrate.NewLatency(), rolls: calibrate.NewLatency(), undurableMost: seen}
	end := start
	for _, p := range all {
		r.puts += p.puts()
		r.stored += p.stored
		for s, n := range p.shapes {
			r.shapes[s] += n
		}
		if p.ended.After(end) {
			end = p.ended
		}
		for status, n := range p.statuses {
			r.statuses[status] += n
		}
		r.latency.Merge(p.latency)
		r.rolls.Merge(p.rolls)
	}
	r.elapsed = end.Sub(start)
	r.allocs = float64(mem.Mallocs-mallocs) / float64(max(r.puts, 1))
	after := l.figures()
	r.syncs, r.undurableFor = after.syncs-before.syncs, after.undurableFor
	return r, context.Cause(ctx)
}

// observe looks at the log and tells the progress until wait returns. It returns the most bytes it saw that were not
// durable.
func (l *load) observe(all []*producer, wait func()) (undurableMost int64) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	tick := time.NewTicker(observeInterval)
	defer tick.Stop()
	told := time.Now()
	for {
		ended := false
		select {
		case <-done:
			ended = true
		case <-tick.C:
		}
		undurableMost = max(undurableMost, l.figures().undurableBytes)
		if now := time.Now(); ended || now.Sub(told) >= progressInterval {
			told = now
			sum := int64(0)
			for _, p := range all {
				sum += p.done.Load()
			}
			l.progress(sum)
		}
		if ended {
			return undurableMost
		}
	}
}

// producer is one goroutine's part of a load. All but done belongs to that goroutine.
type producer struct {
	l           *load
	count       int64                 // messages it is to put
	templates   [shapeCount]*template // of the shapes it puts
	recordBytes int64                 // of a put, at most, about
	prepared    int64                 // physical offset of the last prepared message

	done atomic.Int64 // messages so far, brought up to date with every sample

	statuses [statusCount]int64
	stored   int64
	shapes   shapeTally
	latency  *calibrate.Latency
	rolls    *calibrate.Latency
	ended    time.Time
}

func newProducer(l *load, i int) (*producer, error) {
	p := &producer{l: l, count: math.MaxInt64, latency: calibrate.NewLatency(), rolls: calibrate.NewLatency()}
	if l.messages > 0 {
		p.count = l.messages / int64(l.producers)
		if int64(i) < l.messages%int64(l.producers) {
			p.count++
		}
	}
	for _, kind := range l.shapes.cycle {
		if p.templates[kind] != nil {
			continue
		}
		t, err := newTemplate(l, i, kind)
		if err != nil {
			return nil, err
		}
		p.templates[kind] = t
		p.recordBytes = max(p.recordBytes, t.recordSize)
	}
	return p, nil
}

// rollMargin is how many records before the end of a file every put is timed, for each producer: the others may fill the
// file between two puts of this one.
const rollMargin = 16

func (p *producer) run(ctx context.Context, stop *atomic.Bool) error {
	defer func() { p.ended = time.Now() }()
	topic, queue := 0, 0
	near := p.l.fileBytes - rollMargin*int64(p.l.producers)*p.recordBytes // position in a file from which a roll is near
	at := int64(0)                                                        // position in the file behind the last put
	sample, turn := 1, 0
	for done := int64(0); done < p.count && !stop.Load(); {
		t := p.templates[p.l.shapes.cycle[turn]]
		if turn++; turn == len(p.l.shapes.cycle) {
			turn = 0
		}
		messages := t.next(p, topic, queue, p.count-done)
		done += messages
		if queue++; queue == p.l.queues {
			if queue, topic = 0, topic+1; topic == p.l.topics {
				topic = 0
			}
		}
		sample--
		timed := sample == 0 || at >= near
		var start time.Time
		if timed {
			start = time.Now()
			t.m.BornTimestampMs = start.UnixMilli()
		}
		phyOffset, err := p.l.put(ctx, &t.m, len(t.ends) > 0)
		if timed {
			took := time.Since(start)
			rolled := err == nil && phyOffset > 0 && phyOffset%p.l.fileBytes == 0
			if rolled {
				p.rolls.Record(took)
			}
			if rolled || sample == 0 {
				p.latency.Record(took)
			}
			if sample == 0 {
				sample = p.l.sampleEvery
			}
			p.done.Store(done)
		}
		if err != nil {
			status := store.PutStatusOf(err)
			p.statuses[status]++
			if !status.Stored() {
				if status != store.PutOSPageCacheBusy {
					return err
				}
				continue
			}
		} else {
			p.statuses[store.PutOK]++
		}
		p.stored += messages
		p.shapes[t.shape] += messages
		if t.shape == shapePrepared {
			p.prepared = phyOffset
		}
		at = phyOffset%p.l.fileBytes + p.recordBytes
	}
	p.done.Store(p.stored)
	return nil
}

func (p *producer) puts() (n int64) {
	for _, of := range p.statuses {
		n += of
	}
	return n
}

// increment counts one up in decimal digits; after the highest number comes 0.
func increment(digits []byte) {
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i]++; digits[i] <= '9' {
			return
		}
		digits[i] = '0'
	}
}
