package load

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/cq"
)

// watchPause is how long Readable waits between two looks at all queues.
const watchPause = 50 * time.Microsecond

// Readable puts that many messages at the rate, and returns the rate that was kept and the times from before a put until the max of its queue is past the message, as one sees it who asks all queues in turn
// with a pause of 50 us. The producer has to be a new one, of a store whose queues are empty.
func (p *Producer) Readable(ctx context.Context, total, perSecond int) (rate float64, lat *calibrate.Latency, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun := make([]atomic.Int64, total) // when each put began, ns since start, plus 1
	start, seen := time.Now(), make(chan error, 1)
	lat = calibrate.NewLatency()
	go func() { seen <- p.watch(ctx, begun, start, lat) }()
	err = p.Pace(ctx, total, perSecond, start, begun, nil)
	rate = float64(total) / time.Since(start).Seconds()
	if err != nil {
		cancel()
	}
	return rate, lat, errors.Join(err, <-seen)
}

// watch records for each message how long after its begin it could be read, until all were.
func (p *Producer) watch(ctx context.Context, begun []atomic.Int64, start time.Time, lat *calibrate.Latency) error {
	keys, at := make([]cq.Key, p.Queues), make([]int, p.Queues)
	for i := range keys {
		keys[i] = p.Key(i)
	}
	for left := len(begun); left > 0; time.Sleep(watchPause) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d messages were not seen: %w", left, err)
		}
		if _, err := Behind(p.Store); err != nil {
			return err
		}
		for i, k := range keys {
			b, ok, err := p.Store.Bounds(k)
			if err != nil {
				return err
			}
			now := int64(time.Since(start))
			for ; ok && int64(at[i]) < b.Max; at[i]++ {
				lat.Record(time.Duration(now - begun[at[i]*p.Queues+i].Load()))
				left--
			}
		}
	}
	return nil
}

// Tail puts that many messages at the rate beside one who waits for arrivals and reads each message, and returns the rate that was kept and the times from before a put until its message has been read. The
// producer has to be a new one, of a store whose queues are empty.
func (p *Producer) Tail(ctx context.Context, total, perSecond int) (rate float64, lat *calibrate.Latency, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun := make([]atomic.Int64, total)
	ready, followed := make(chan struct{}), make(chan error, 1)
	start := time.Now()
	lat = calibrate.NewLatency()
	go func() {
		r := NewReader(p)
		defer r.Result.Release()
		followed <- r.Follow(ctx, func() { close(ready) }, func(seen int) bool { return seen < total }, func(n int) {
			lat.Record(time.Since(start) - time.Duration(begun[n].Load()))
		})
	}()
	select {
	case <-ready:
	case err := <-followed:
		return 0, nil, err
	}
	err = p.Pace(ctx, total, perSecond, start, begun, nil)
	rate = float64(total) / time.Since(start).Seconds()
	if err != nil {
		cancel()
	}
	return rate, lat, errors.Join(err, <-followed)
}
