package compare

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// Stages: how long after the beginning of a put a message is appended, durable, in its queue, and a reader that waits for it has been woken and has got it. One message after the
// other, with a pause between, so that nothing waits for what came before.

// stageSize is how many messages each stage is measured by, and the pause between two of them.
type stageSize struct {
	sync    bool
	samples int
	pause   time.Duration
	change  storeChange
}

// StageScenarios measure the way of a message to its reader.
func StageScenarios() (all []Scenario) {
	for _, flush := range []string{"async", "sync"} {
		all = append(all, Scenario{
			Name: "stages/" + flush, Title: fmt.Sprintf("From the beginning of a put until the message is appended, durable, in its queue, its reader woken; %s flush, one message at a time", flush),
			Engines: []string{File, Rocks, Combine}, QuickEngines: []string{File, Rocks}, Headline: "wokenP50Micros", Full: flush == "async", Limit: slowLimit,
			Run: func(ctx context.Context, r *Run) error {
				return runStages(ctx, r, stageSize{sync: flush == "sync", samples: size(r.Profile, 200, 1000), pause: 300 * time.Microsecond})
			},
		})
	}
	return all
}

func runStages(ctx context.Context, r *Run, size stageSize) error {
	o := load.Options(load.Engine(r.Engine))
	if size.sync {
		o.FlushDiskType = store.SyncFlush
	}
	size.change.to(&o)
	s, err := store.Open(filepath.Join(r.Dir, "store"), o)
	if err != nil {
		return err
	}
	return errors.Join(stages(ctx, r, size, s), s.Close())
}

// stageWarm is how many messages are put before.
const stageWarm = 200

// stages measures each stage in a pass of its own, so that whoever watches for one does not disturb another.
func stages(ctx context.Context, r *Run, size stageSize, s *store.Store) error {
	x := &stager{s: s, size: size, m: plainMessage(load.BodyBytes), done: make(chan error, 1)}
	durable := x.durable
	if !size.sync {
		durable = x.durableLater
	}
	for _, stage := range []struct {
		name string
		run  func(ctx context.Context, samples int, lat *calibrate.Latency) error
	}{{"warm", x.inQueue}, {"appended", x.appended}, {"durable", durable}, {"inQueue", x.inQueue}} {
		lat, samples := calibrate.NewLatency(), size.samples
		if stage.name == "warm" {
			samples = min(stageWarm, size.samples)
		}
		if err := stage.run(ctx, samples, lat); err != nil {
			return fmt.Errorf("%s: %w", stage.name, err)
		}
		if stage.name != "warm" {
			r.latency(stage.name, lat)
		}
	}
	woken, got := calibrate.NewLatency(), calibrate.NewLatency()
	if err := x.read(ctx, size.samples, woken, got); err != nil {
		return fmt.Errorf("woken: %w", err)
	}
	r.latency("woken", woken)
	r.latency("got", got)
	if err := load.AwaitBuilt(ctx, s); err != nil {
		return err
	}
	n, err := walkQueue(s, cq.Key{Topic: plainTopic})
	if err == nil && int64(n) != x.next {
		err = fmt.Errorf("the queue has %d messages, want %d", n, x.next)
	}
	r.checked("all %d messages are in the queue, in order; the reader got each as it was put", n)
	return err
}

// stager puts one message after the other.
type stager struct {
	s    *store.Store
	size stageSize
	m    message.Message
	next int64 // how many were put

	done   chan error // of the put, when it would answer
	doneAt time.Time  // valid once done has answered
}

// put begins a put, and returns when it has begun. What would be its answer comes over done.
func (x *stager) put(ctx context.Context) (began time.Time) {
	x.next++
	began = time.Now()
	x.s.PutFunc(ctx, &x.m, func(_ store.PutResult, err error) {
		x.doneAt = time.Now()
		x.done <- err
	})
	return began
}

// answer waits for it.
func (x *stager) answer(ctx context.Context) error {
	select {
	case err := <-x.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end waits for the answer, and then a little.
func (x *stager) end(ctx context.Context) error {
	err := x.answer(ctx)
	time.Sleep(x.size.pause)
	return err
}

// appended measures until a message is in the log, and would survive the process.
func (x *stager) appended(ctx context.Context, samples int, lat *calibrate.Latency) error {
	for range samples {
		began := x.put(ctx)
		lat.Record(time.Since(began))
		if err := x.end(ctx); err != nil {
			return err
		}
	}
	return nil
}

// durable measures until a synchronous put answers.
func (x *stager) durable(ctx context.Context, samples int, lat *calibrate.Latency) error {
	for range samples {
		began := x.put(ctx)
		if err := x.end(ctx); err != nil {
			return err
		}
		lat.Record(x.doneAt.Sub(began))
	}
	return nil
}

// Of asynchronous flush it is looked after each put, a millisecond later, what has become durable: for so many flushes at least, so that messages lie all over the time between two.
const (
	laterPause   = time.Millisecond
	laterFlushes = 2
)

// durableLater measures until messages are durable for which nobody waits.
func (x *stager) durableLater(ctx context.Context, samples int, lat *calibrate.Latency) error {
	type waiting struct {
		end   int64
		began time.Time
	}
	var list []waiting
	for flushes, n := 0, 0; n < samples || flushes < laterFlushes; {
		began := x.put(ctx)
		if err := x.answer(ctx); err != nil {
			return err
		}
		list = append(list, waiting{x.s.Positions().Wrote, began})
		time.Sleep(laterPause)
		if err := ctx.Err(); err != nil {
			return err
		}
		to, now, done := x.s.Positions().Flushed, time.Now(), 0
		for ; done < len(list) && list[done].end <= to; done++ {
			lat.Record(now.Sub(list[done].began))
		}
		if done > 0 {
			flushes++
		}
		n += done
		list = list[done:]
	}
	return nil
}

// inQueue measures until a message is among those of its queue, which it is not before the put has answered: from then on it is looked all the time.
func (x *stager) inQueue(ctx context.Context, samples int, lat *calibrate.Latency) error {
	k := cq.Key{Topic: plainTopic}
	for range samples {
		began := x.put(ctx)
		if err := x.answer(ctx); err != nil {
			return err
		}
		for {
			b, ok, err := x.s.Bounds(k)
			if err := errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			if ok && b.Max >= x.next {
				break
			}
			runtime.Gosched()
		}
		lat.Record(time.Since(began))
		time.Sleep(x.size.pause)
	}
	return nil
}

// seen is when a reader was woken, and when it had what it was woken for.
type seen struct {
	woken, got time.Time
	err        error
}

// read measures until a reader that waits has been woken, and until it has copied the message.
func (x *stager) read(ctx context.Context, samples int, woken, got *calibrate.Latency) error {
	u, err := x.s.SubscribeArrivals()
	if err != nil {
		return err
	}
	told, ended, first := make(chan seen), make(chan struct{}), x.next
	go func() {
		defer close(ended)
		x.follow(ctx, u, first, told)
	}()
	defer func() {
		u.Close()
		<-ended
	}()
	for range samples {
		began := x.put(ctx)
		select {
		case at := <-told:
			if at.err != nil {
				return at.err
			}
			woken.Record(at.woken.Sub(began))
			got.Record(at.got.Sub(began))
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := x.end(ctx); err != nil {
			return err
		}
	}
	return nil
}

// follow is the reader: it tells of each message from a slot on, until the subscription ends.
func (x *stager) follow(ctx context.Context, u *store.Subscription, next int64, told chan<- seen) {
	var arrivals []store.Arrival
	var res store.GetResult
	defer res.Release()
	sink := make([]byte, 4*load.BodyBytes)
	for {
		var err error
		if arrivals, err = u.Next(ctx, arrivals); err != nil {
			return
		}
		at := seen{woken: time.Now()}
		if last := arrivals[len(arrivals)-1]; last.MaxOffset <= next {
			continue // what was put before
		}
		at.err = x.s.Get(&store.GetRequest{Topic: plainTopic, Offset: next, MaxMessages: 1}, &res)
		if at.err == nil && (len(res.Messages) != 1 || res.Messages[0].QueueOffset != next || res.MaxOffset != next+1) {
			at.err = fmt.Errorf("%s: %d messages at %d of a queue that ends at %d", res.Status, len(res.Messages), next, res.MaxOffset)
		}
		if at.err == nil {
			copy(sink, res.Messages[0].Record)
		}
		at.got = time.Now()
		next++
		select {
		case told <- at:
		case <-ctx.Done():
			return
		}
	}
}
