package compare

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/store"
)

// LatencyScenarios are the times from a put to its reader, at a rate that all engines keep.
func LatencyScenarios() []Scenario {
	scenario := func(name, title string, task Task, measure func(*load.Producer, context.Context, int, int) (float64, *calibrate.Latency, error)) Scenario {
		return Scenario{
			Name: "latency/" + name, Title: title, Engines: storeEngines, QuickEngines: []string{File, Rocks, Java}, Headline: name + "P99Micros", Full: task == TaskReadable,
			Run: func(ctx context.Context, r *Run) error {
				rate := 20_000
				w := Work{
					Task: task, Root: filepath.Join(r.Dir, "store"), Producers: 1, Queues: queues, Body: load.BodyBytes,
					Warmup: size(r.Profile, 10_000, 20_000), Messages: size(r.Profile, 20_000, 80_000), PerSecond: rate,
				}
				if IsJava(r.Engine) {
					return r.peer(ctx, w)
				}
				return r.store(w.Root, false, func(s *store.Store) error {
					warm := load.NewProducer(s, queues, w.Body)
					warm.Topics = []string{"warm"}
					if _, _, err := measure(warm, ctx, w.Warmup, rate); err != nil {
						return err
					}
					p := load.NewProducer(s, queues, w.Body)
					kept, lat, err := measure(p, ctx, w.Messages, rate)
					if err != nil {
						return err
					}
					r.Figures["putPerSecond"] = kept
					r.latency(name, lat)
					if err := load.AwaitBuilt(ctx, s); err != nil {
						return err
					}
					if n := lat.Summary().Samples; n != int64(w.Messages) {
						return fmt.Errorf("%d messages were seen, %d were put", n, w.Messages)
					}
					r.checked("each of %d messages was seen once", w.Messages)
					return r.check(s, queues, w.Messages, w.Body)
				})
			},
		}
	}
	return []Scenario{
		scenario("readable", "from before a put until its queue's end is past it, 20,000 messages/s of 1 KiB", TaskReadable, (*load.Producer).Readable),
		scenario("tail", "from before a put until who waits for it has read it, 20,000 messages/s of 1 KiB", TaskTail, (*load.Producer).Tail),
	}
}
