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

// QueueScenarios have stores with many queues, which they make.
func QueueScenarios() (all []Scenario) {
	ours := []string{File, Rocks}
	for _, n := range []struct {
		queues  int
		engines []string
		full    bool
		limit   time.Duration
		disk    int64
		once    bool
	}{
		{1000, storeEngines, false, slowLimit, defaultDisk, false},
		{10_000, storeEngines, false, slowLimit, defaultDisk, false},
		{100_000, storeEngines, true, 4 * time.Minute, 12 << 30, true},
		{1_000_000, []string{Rocks}, true, 4 * time.Minute, 12 << 30, true}, // a million files and two million directories: minutes to make and to remove
	} {
		quick := ours
		if n.full {
			quick = nil
		}
		part := func(name, title, prefix, headline string) {
			all = append(all, Scenario{
				Name: fmt.Sprintf("queues/%s-%d", name, n.queues), Title: title, Engines: n.engines, QuickEngines: quick, Shared: fmt.Sprintf("queues-%d", n.queues), Prefix: prefix, Headline: headline,
				X: float64(n.queues), XLabel: "queues", Full: n.full, Once: n.once, Limit: n.limit, Disk: n.disk, ManyFiles: true,
				Run: func(ctx context.Context, r *Run) error { return r.manyQueues(ctx, n.queues) },
			})
		}
		part("put", "messages put into queues in turn, the first of each makes it, until all is built", "built", "builtPerSecond")
		part("open", "the store opened again, until it serves", "ready", "readyMillis")
	}
	return all
}

// perQueue is how many messages queues get in the full profile: fewer where there are so many that it takes minutes.
func perQueue(queues int) int {
	switch {
	case queues > 100_000:
		return 2
	case queues > 10_000:
		return 3
	}
	return 10
}

// manyQueues puts some messages into each of many queues and opens the store again.
func (r *Run) manyQueues(ctx context.Context, queues int) error {
	w := Work{
		Task: TaskPut, Root: filepath.Join(r.Dir, "store"), Producers: 1, Queues: queues, Body: load.BodyBytes, Messages: max(queues*size(r.Profile, 3, perQueue(queues)), size(r.Profile, 30_000, 100_000)),
	}
	if IsJava(r.Engine) {
		if err := r.peer(ctx, w); err != nil {
			return err
		}
		w.Task = TaskOpen
		return r.peer(ctx, w)
	}
	if err := r.store(w.Root, false, func(s *store.Store) error {
		start := time.Now()
		_, err := load.Puts{Producers: 1, Queues: w.Queues, Body: w.Body, Messages: w.Messages, Sample: asyncSample}.Run(ctx, s)
		if err := errors.Join(err, load.AwaitBuilt(ctx, s)); err != nil {
			return err
		}
		r.Figures["builtPerSecond"] = float64(w.Messages) / time.Since(start).Seconds()
		return nil
	}); err != nil {
		return err
	}
	opened, ready, err := load.Open(ctx, w.Root, r.options(), func(s *store.Store) error {
		return errors.Join(r.check(s, w.Queues, w.Messages, w.Body), awaitSides(ctx, s, r.Engine))
	})
	r.Figures["readyMillis"], r.Figures["readyOpenMillis"] = millis(ready), millis(opened)
	return err
}
