package compare

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

// Queue walk: all messages of one queue, by its units or by reading the log from end to end: what consume queues are for.

// logScan is the way without units.
const logScan = "log-scan"

// walkSize is a store and how long it is walked through, at least once.
type walkSize struct {
	queues   int
	messages int
	body     int
	time     time.Duration
	change   storeChange
}

// WalkScenarios compare reading a queue by its units with scanning the log, over the number of queues that share the log.
func WalkScenarios() (all []Scenario) {
	for _, n := range []int{1, 10, 100, 1000} {
		all = append(all, Scenario{
			Name: fmt.Sprintf("walk/queues-%d", n), Title: fmt.Sprintf("All messages of one of %d queues, of 200 bytes each, in memory", n), Engines: []string{File, Rocks, logScan},
			Headline: "messagesPerSecond", X: float64(n), XLabel: "queues", ManyFiles: n >= 100, Full: n != 100, Limit: slowLimit,
			Run: func(ctx context.Context, r *Run) error {
				return runWalk(ctx, r, walkSize{queues: n, messages: size(r.Profile, 100_000, 500_000), body: 200, time: size(r.Profile, 200*time.Millisecond, time.Second)})
			},
		})
	}
	return all
}

func runWalk(ctx context.Context, r *Run, size walkSize) error {
	engine := load.Engine(r.Engine)
	if r.Engine == logScan {
		engine = load.FileQueues
	}
	o := load.Options(engine)
	o.MessageIndexEnable = false
	o.BuildConsumeQueues = r.Engine != logScan
	size.change.to(&o)
	s, err := store.Open(filepath.Join(r.Dir, "store"), o)
	if err != nil {
		return err
	}
	return errors.Join(walk(ctx, r, size, s), s.Close())
}

func walk(ctx context.Context, r *Run, size walkSize, s *store.Store) error {
	p := load.NewProducer(s, size.queues, size.body)
	for range size.messages {
		if err := p.Put(ctx); err != nil {
			return err
		}
	}
	if err := load.AwaitBuilt(ctx, s); err != nil {
		return err
	}
	once := func(queue int) (int, error) { return walkQueue(s, p.Key(queue)) }
	if r.Engine == logScan {
		once = func(queue int) (int, error) { return scanFor(s.Log(), p.Key(queue)) }
	}
	want := func(queue int) int { return (size.messages - queue + size.queues - 1) / size.queues }
	if _, err := once(0); err != nil { // so that all of it has been touched
		return err
	}
	messages, walks, start := 0, 0, time.Now()
	for ; walks == 0 || time.Since(start) < size.time; walks++ {
		queue := walks % min(size.queues, size.messages)
		n, err := once(queue)
		if err == nil && n != want(queue) {
			err = fmt.Errorf("%s has %d messages, want %d", p.Key(queue), n, want(queue))
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		messages += n
	}
	took := time.Since(start)
	r.Figures["messagesPerSecond"] = float64(messages) / took.Seconds()
	r.Figures["walkMillis"] = millis(took) / float64(walks)
	r.checked("each of %d walks met all messages of its queue, in order", walks)
	return nil
}

// walkQueue gets a queue's messages, 32 at a time.
func walkQueue(s *store.Store, k cq.Key) (n int, err error) {
	var res store.GetResult
	defer res.Release()
	for offset := int64(0); ; offset = res.NextOffset {
		if err := s.Get(&store.GetRequest{Topic: k.Topic, QueueID: k.QueueID, Offset: offset, MaxMessages: 32}, &res); err != nil {
			return n, err
		}
		for i := range res.Messages {
			if m := &res.Messages[i]; m.QueueOffset != int64(n) {
				return n, fmt.Errorf("%s: message %d where %d should be", k, m.QueueOffset, n)
			}
			n++
		}
		if res.Status != store.GetFound || res.NextOffset >= res.MaxOffset {
			return n, nil
		}
	}
}

// scanFor reads the log and counts the messages of a queue.
func scanFor(log *commitlog.Log, k cq.Key) (n int, err error) {
	scan := log.Scanner(-1, commitlog.ScanOptions{})
	defer scan.Close()
	for scan.Next() {
		m := scan.Record()
		if m.QueueID != k.QueueID || string(m.Topic) != k.Topic {
			continue
		}
		if m.QueueOffset != int64(n) {
			return n, fmt.Errorf("%s: message %d where %d should be", k, m.QueueOffset, n)
		}
		n++
	}
	return n, scan.Err()
}
