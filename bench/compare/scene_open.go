package compare

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/store"
)

// OpenScenarios open stores in the states in which they are found, and have their queues built. What is opened is in memory.
func OpenScenarios() []Scenario {
	scenario := func(name, title string, quick []string, logAlone bool, prepare func(root string) error) Scenario {
		return Scenario{
			Name: "open/" + name, Title: title, Engines: storeEngines, QuickEngines: quick, Headline: "readyMillis", Inputs: true, Limit: slowLimit,
			Run: func(ctx context.Context, r *Run) error { return r.open(ctx, logAlone, prepare) },
		}
	}
	ours := []string{File, Rocks, Combine}
	return []Scenario{
		{
			Name: "dispatch/catch-up", Title: "queues and index built from the log, by store.Recover, after it was verified", Engines: []string{File, Rocks, Combine}, Headline: "buildPerSecond", Run: runCatchUp, Inputs: true,
			Bounds: map[string]string{LimitRead: "buildBytesPerSecond"},
		},
		{
			Name: "dispatch/verify-log", Title: "the whole log read and its checksums verified, as recovery does that knows nothing of it; nothing of it in memory before", Engines: []string{File}, Headline: "verifyBytesPerSecond", Run: runScan, Inputs: true,
			Bounds: map[string]string{LimitCRC: "verifyBytesPerSecond", LimitRead: "verifyBytesPerSecond"},
		},
		scenario("clean", "a store that was closed, until it serves", []string{File, Rocks, Combine, Java}, false, nil),
		scenario("crash", "a store with the mark of a crash and without its checkpoint, until it serves", []string{File, Rocks}, false, load.Lose),
		scenario("rebuild", "a log with the mark of a crash and nothing else, until queues and index are built and it serves", ours, true, load.MarkAbort),
	}
}

// openMessages are what is in the stores.
func (r *Run) openWork() Work {
	return Work{Task: TaskOpen, Root: filepath.Join(r.Dir, "store"), Queues: queues, Body: load.BodyBytes, Messages: size(r.Profile, 100_000, 1_000_000)}
}

func (r *Run) open(ctx context.Context, logAlone bool, prepare func(root string) error) error {
	w := r.openWork()
	if err := r.input(ctx, w, logAlone); err != nil {
		return err
	}
	if prepare != nil {
		if err := prepare(w.Root); err != nil {
			return err
		}
	}
	if IsJava(r.Engine) {
		return r.peer(ctx, w)
	}
	start := time.Now()
	opened, ready, err := load.Open(ctx, w.Root, r.options(), func(s *store.Store) error {
		if err := awaitSides(ctx, s, r.Engine); err != nil {
			return err
		}
		if r.Engine == Combine {
			r.Figures["wholeMillis"] = millis(time.Since(start))
		}
		return r.check(s, w.Queues, w.Messages, w.Body)
	})
	r.Figures["openMillis"], r.Figures["readyMillis"] = millis(opened), millis(ready)
	return err
}

// awaitSides waits until the side that is not read is whole, too: the store serves before, and is not in order when it is closed before.
func awaitSides(ctx context.Context, s *store.Store, engine string) error {
	for engine == Combine {
		states, err := s.SideStates()
		if err != nil {
			return err
		}
		whole := true
		for _, state := range states {
			if state.Failure != nil {
				return state.Failure
			}
			whole = whole && state.Whole()
		}
		if whole {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// rate sets a rate of messages and that of their log.
func (r *Run) rate(name string, messages int, bytes int64, took time.Duration) {
	r.Figures[name+"PerSecond"], r.Figures[name+"BytesPerSecond"] = float64(messages)/took.Seconds(), float64(bytes)/took.Seconds()
}

func runCatchUp(ctx context.Context, r *Run) error {
	w := r.openWork()
	if err := r.input(ctx, w, true); err != nil {
		return err
	}
	o := r.options()
	took, err := load.CatchUp(ctx, w.Root, &o)
	if err != nil {
		return err
	}
	return r.store(w.Root, false, func(s *store.Store) error {
		r.rate("build", w.Messages, s.Positions().Wrote, took)
		return r.check(s, w.Queues, w.Messages, w.Body)
	})
}

func runScan(ctx context.Context, r *Run) error {
	w := r.openWork()
	if err := r.input(ctx, w, false); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(store.NewLayout(w.Root).CommitLogDir(), "[0-9]*"))
	if err := errors.Join(err, calibrate.DropCache(files)); err != nil {
		return err
	}
	o := r.options()
	took, bytes, err := load.Scan(ctx, w.Root, &o)
	if err != nil {
		return err
	}
	r.rate("verify", w.Messages, bytes, took)
	return r.reopened(ctx, w.Root, w.Queues, w.Messages, w.Body)
}
