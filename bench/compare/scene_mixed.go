package compare

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/store"
)

// MixedScenarios are puts beside one who reads all that is put.
func MixedScenarios() []Scenario {
	part := func(name, title, prefix, headline string) Scenario {
		return Scenario{Name: "mixed/" + name, Title: title, Engines: storeEngines, QuickEngines: []string{File, Rocks}, Headline: headline, Shared: "mixed", Prefix: prefix, NewPages: true, Run: runMixed}
	}
	return []Scenario{
		part("put", "two producers at full speed beside one who waits for messages and reads each", "put", "putPerSecond"),
		part("read", "what the reader of that reads meanwhile", "pull", "pullPerSecond"),
	}
}

func runMixed(ctx context.Context, r *Run) error {
	w := Work{
		Task: TaskMixed, Root: filepath.Join(r.Dir, "store"), Producers: 2, Readers: 1, Queues: queues, Body: load.BodyBytes,
		Warmup: size(r.Profile, 50_000, 200_000), Messages: size(r.Profile, 300_000, 1_000_000),
	}
	if IsJava(r.Engine) {
		return r.peer(ctx, w)
	}
	return r.store(w.Root, false, func(s *store.Store) error {
		total := w.Warmup + w.Messages
		p := load.NewProducer(s, w.Queues, w.Body)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ready, followed := make(chan struct{}), make(chan error, 1)
		var read atomic.Int64
		go func() {
			rd := load.NewReader(p)
			defer rd.Result.Release()
			err := rd.Follow(ctx, func() { close(ready) }, func(seen int) bool { return seen < total }, func(int) { read.Add(1) })
			if err != nil {
				cancel()
			}
			followed <- err
		}()
		select {
		case <-ready:
		case err := <-followed:
			return err
		}
		puts := load.Puts{Producers: 1, Queues: w.Queues, Body: w.Body, Messages: w.Warmup, Sample: asyncSample}
		_, err := puts.Run(ctx, s)
		for err == nil && read.Load() < int64(w.Warmup) {
			time.Sleep(time.Millisecond)
			err = ctx.Err()
		}
		if err != nil {
			cancel()
			return errors.Join(err, <-followed)
		}
		puts.Producers, puts.From, puts.Messages = w.Producers, w.Warmup, w.Messages
		did, err := puts.Run(ctx, s)
		meanwhile := read.Load() - int64(w.Warmup)
		if err != nil {
			cancel()
		}
		if err := errors.Join(err, <-followed); err != nil {
			return err
		}
		r.Figures["putPerSecond"], r.Figures["pullPerSecond"] = float64(w.Messages)/did.Took.Seconds(), float64(meanwhile)/did.Took.Seconds()
		r.latency("put", did.Latency)
		r.checked("the reader has read %d messages", total)
		return errors.Join(load.AwaitBuilt(ctx, s), r.check(s, w.Queues, total, w.Body))
	})
}
