package compare

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/store"
)

// input makes a store of the engine of the run with w.Messages in w.Queues, once, and copies it into the directory of the run, where w.Root is. logAlone: without queues and index.
func (r *Run) input(ctx context.Context, w Work, logAlone bool) error {
	from, err := r.Input(fmt.Sprintf("store-%s-%d-%d-%d", r.Engine, w.Messages, w.Queues, w.Body), func(dir string) error { return r.fill(ctx, w, dir) })
	if err != nil {
		return err
	}
	to := w.Root
	if logAlone {
		l, k := store.NewLayout(from), store.NewLayout(w.Root)
		from, to = l.CommitLogDir(), k.CommitLogDir()
	}
	return CopyInput(from, to)
}

// fill makes a store of the engine of the run.
func (r *Run) fill(ctx context.Context, w Work, root string) error {
	if IsJava(r.Engine) {
		made := &Run{Engine: r.Engine, Profile: r.Profile, Dir: r.Dir, Cache: r.Cache, Peer: r.Peer, Figures: report.Figures{}, Latencies: map[string]calibrate.Summary{}}
		w.Task, w.Root, w.Producers, w.Warmup = TaskPut, root, 1, 0
		return made.peer(ctx, w)
	}
	return r.store(root, false, func(s *store.Store) error {
		if _, err := (load.Puts{Producers: 1, Queues: w.Queues, Body: w.Body, Messages: w.Messages, Sample: asyncSample}).Run(ctx, s); err != nil {
			return err
		}
		return errors.Join(load.AwaitBuilt(ctx, s), r.check(s, w.Queues, w.Messages, w.Body))
	})
}

// ReadScenarios read a store that is in memory.
func ReadScenarios() []Scenario {
	part := func(name, title, prefix, headline string) Scenario {
		return Scenario{Name: "read/" + name, Title: title, Engines: storeEngines, QuickEngines: []string{File, Rocks, Java, JavaRocks}, Shared: "read", Prefix: prefix, Headline: headline, Run: runRead, Inputs: true}
	}
	all := []Scenario{
		part("catch-up", "all of it by 32 messages a call, each copied out", "pull", "pullPerSecond"),
		part("get", "one message at a random place", "get", "getP50Micros"),
		part("time", "the place of a random store time in a queue", "time", "timeP50Micros"),
		part("key", "a random message by its key", "query", "queryP50Micros"),
	}
	all[0].Bounds = map[string]string{LimitCopyWarm: "pullBytesPerSecond"}
	return all
}

func runRead(ctx context.Context, r *Run) error {
	w := Work{
		Task: TaskRead, Root: filepath.Join(r.Dir, "store"), Queues: queues, Body: load.BodyBytes, Messages: size(r.Profile, 100_000, 1_000_000),
		Samples: size(r.Profile, 5000, 20_000),
	}
	if err := r.input(ctx, w, false); err != nil {
		return err
	}
	if IsJava(r.Engine) {
		return r.peer(ctx, w)
	}
	return r.store(w.Root, false, func(s *store.Store) error {
		if err := load.AwaitBuilt(ctx, s); err != nil {
			return err
		}
		if err := r.check(s, w.Queues, w.Messages, w.Body); err != nil {
			return err
		}
		p := load.NewProducer(s, w.Queues, 0)
		p.Next = w.Messages
		rd := load.NewReader(p)
		defer rd.Result.Release()
		if err := rd.MeasurePull(r.Figures); err != nil {
			return err
		}
		r.Figures["pullBytesPerSecond"] = r.Figures["pullPerSecond"] * float64(s.Positions().Wrote) / float64(w.Messages)
		r.checked("each call gave the messages that were asked for, each query the one with the key")
		return errors.Join(rd.MeasureGets(w.Samples, 0, "get", r.Figures), rd.MeasureTimes(w.Samples, r.Figures), rd.MeasureQueries(w.Samples, r.Figures))
	})
}
