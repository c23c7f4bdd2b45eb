package compare

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/store"
)

// asyncSample is of how many asynchronous puts one is timed: coprime to what happens every so many. RocketMQ's are all timed, which costs it next to nothing.
const asyncSample = 17

// PutScenarios are puts into new stores, with queues and index built beside them.
func PutScenarios() []Scenario {
	async := func(name, title string, producers, body int, full bool) Scenario {
		engines := storeEngines
		if full { // how RocketMQ keeps its queues is told by one scenario
			engines = []string{File, Rocks, Combine, Java}
		}
		return Scenario{
			Name: "put/async/" + name, Title: title, Engines: engines, QuickEngines: []string{File, Rocks, Combine, Java}, Headline: "putPerSecond", Full: full, NewPages: true,
			Bounds: map[string]string{LimitCopyWarm: "logBytesPerSecond", LimitCopyCold: "logBytesPerSecond", LimitWriteBack: "logBytesPerSecond"},
			Run: func(ctx context.Context, r *Run) error {
				w := Work{Task: TaskPut, Producers: producers, Queues: queues, Body: body, Warmup: size(r.Profile, 50_000, 200_000), Messages: size(r.Profile, 500_000, 1_000_000)}
				if body > load.BodyBytes { // as much as the disk takes in some seconds
					w.Warmup, w.Messages = size(r.Profile, 5000, 50_000), size(r.Profile, 10_000, 100_000)
				}
				return r.put(ctx, w)
			},
		}
	}
	sync := func(producers int, full bool) Scenario {
		engines := storeEngines
		if full {
			engines = []string{File, Rocks, Combine, Java}
		}
		return Scenario{
			Name: fmt.Sprintf("put/sync/producers-%d", producers), Title: fmt.Sprintf("1 KiB by %d, each waits until it is on the disk", producers), Engines: engines,
			QuickEngines: []string{File, Rocks}, Headline: "putPerSecond", Full: full, Bounds: map[string]string{LimitSync: "putP50Nanos", LimitWriteBack: "logBytesPerSecond"},
			Run: func(ctx context.Context, r *Run) error {
				return r.put(ctx, Work{
					Task: TaskPut, Sync: true, Producers: producers, Queues: queues, Body: load.BodyBytes, Warmup: size(r.Profile, 1000, 2000), Time: size(r.Profile, time.Second, 3*time.Second),
				})
			},
		}
	}
	return []Scenario{
		async("producers-1", "1 KiB by one producer", 1, load.BodyBytes, false),
		async("producers-8", "1 KiB by eight producers", 8, load.BodyBytes, true),
		async("body-64", "64 bytes by one producer", 1, 64, true),
		async("body-16384", "16 KiB by one producer", 1, 16<<10, true),
		sync(1, true), sync(16, true), sync(64, false), sync(256, true),
	}
}

// put does the work in a new store.
func (r *Run) put(ctx context.Context, w Work) error {
	w.Root = filepath.Join(r.Dir, "store")
	if IsJava(r.Engine) {
		return r.peer(ctx, w)
	}
	sample := asyncSample
	if w.Sync {
		sample = 1
	}
	total := 0
	err := r.store(w.Root, w.Sync, func(s *store.Store) error {
		// One after the other: synchronous ones of one producer as well.
		warm, err := load.Puts{Producers: 1, Queues: w.Queues, Body: w.Body, Messages: w.Warmup, Sample: sample}.Run(ctx, s)
		if err := errors.Join(err, load.AwaitBuilt(ctx, s)); err != nil {
			return err
		}
		start := time.Now()
		did, err := load.Puts{Producers: w.Producers, Queues: w.Queues, Body: w.Body, From: warm.Messages, Messages: w.Messages, Time: w.Time, Sample: sample}.Run(ctx, s)
		if err := errors.Join(err, load.AwaitBuilt(ctx, s)); err != nil {
			return err
		}
		built := time.Since(start)
		total = warm.Messages + did.Messages
		r.Figures["putPerSecond"] = float64(did.Messages) / did.Took.Seconds()
		r.Figures["logBytesPerSecond"] = float64(did.LogBytes) / did.Took.Seconds()
		r.Figures["builtPerSecond"] = float64(did.Messages) / built.Seconds()
		r.Figures["putAllocs"] = did.Allocs
		r.latency("put", did.Latency)
		r.Figures["putP50Nanos"] = float64(did.Latency.Summary().P50)
		return r.check(s, w.Queues, total, w.Body)
	})
	if err != nil {
		return err
	}
	return r.reopened(ctx, w.Root, w.Queues, total, w.Body)
}

// reopened opens the store once more and looks again: what was put has to be there after the store was closed.
func (r *Run) reopened(ctx context.Context, root string, queues, messages, body int) error {
	return r.store(root, false, func(s *store.Store) error {
		if err := load.AwaitBuilt(ctx, s); err != nil {
			return err
		}
		if err := r.check(s, queues, messages, body); err != nil {
			return fmt.Errorf("opened again: %w", err)
		}
		r.checked("the same after the store was closed and opened")
		return nil
	})
}
