package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

// Reader copies each message out of the log, as one that sends it does.
type Reader struct {
	Producer *Producer // of what there is
	Result   store.GetResult

	sink []byte
}

// NewReader returns one that reads what p has put. Its Result has to be released in the end.
func NewReader(p *Producer) *Reader { return &Reader{Producer: p, sink: make([]byte, 1<<20)} }

// Get reads messages of a queue, of which there has to be one.
func (r *Reader) Get(k cq.Key, offset int64, count int) (next int64, n int, err error) {
	if err := r.Producer.Store.Get(&store.GetRequest{Topic: k.Topic, QueueID: k.QueueID, Offset: offset, MaxMessages: count}, &r.Result); err != nil {
		return 0, 0, err
	}
	if r.Result.Status != store.GetFound {
		return 0, 0, fmt.Errorf("%s at %d: %s", k, offset, r.Result.Status)
	}
	for _, m := range r.Result.Messages {
		copy(r.sink, m.Record)
	}
	return r.Result.NextOffset, len(r.Result.Messages), nil
}

// Pull reads all queues, 32 messages a call.
func (r *Reader) Pull() (messages int, err error) {
	for i := range r.Producer.Queues {
		k := r.Producer.Key(i)
		count := int64(r.Producer.Next / r.Producer.Queues)
		for offset := int64(0); offset < count; {
			next, n, err := r.Get(k, offset, 32)
			if err != nil {
				return messages, err
			}
			messages, offset = messages+n, next
		}
	}
	return messages, nil
}

// passes is how often everything is read: what comes last counts.
const passes = 2

// MeasurePull reads all of it: pullPerSecond, and pullAllocs, the allocations of the process in that time by message.
func (r *Reader) MeasurePull(x report.Figures) error {
	for range passes {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		n, err := r.Pull()
		if err != nil {
			return err
		}
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		if want := r.Producer.Next / r.Producer.Queues * r.Producer.Queues; n < want {
			return fmt.Errorf("%d messages were read, want at least %d", n, want)
		}
		x["pullPerSecond"] = float64(n) / took.Seconds()
		x["pullAllocs"] = float64(after.Mallocs-before.Mallocs) / float64(n)
	}
	return nil
}

// sample measures one call after the other, and keeps the percentiles under a name.
func sample(samples int, name string, x report.Figures, one func() error) error {
	for range passes {
		lat := calibrate.NewLatency()
		for range samples {
			start := time.Now()
			if err := one(); err != nil {
				return err
			}
			lat.Record(time.Since(start))
		}
		x[name+"P50Micros"], x[name+"P99Micros"] = micros(lat.Summary().P50), micros(lat.Summary().P99)
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// MeasureGets reads single messages of queues at random: at random offsets, or of the last newest ones, if that is not 0.
func (r *Reader) MeasureGets(samples int, newest int64, name string, x report.Figures) error {
	p := r.Producer
	count := int64(p.Next / p.Queues)
	first := int64(0)
	if newest > 0 {
		first = max(0, count-newest)
	}
	return sample(samples, name, x, func() error {
		k, offset := p.Key(rand.IntN(p.Queues)), first+rand.Int64N(count-first)
		if _, n, err := r.Get(k, offset, 1); err != nil || n != 1 {
			return fmt.Errorf("get %s at %d: %d messages: %w", k, offset, n, err)
		}
		return nil
	})
}

// MeasureTimes searches for random store times.
func (r *Reader) MeasureTimes(samples int, x report.Figures) error {
	p := r.Producer
	k, count := p.Key(0), int64((p.Next+p.Queues-1)/p.Queues)
	first, err := p.Store.StoreTime(k.Topic, k.QueueID, 0)
	if err != nil {
		return err
	}
	last, err := p.Store.StoreTime(k.Topic, k.QueueID, count-1)
	if err != nil {
		return err
	}
	return sample(samples, "time", x, func() error {
		k, at := p.Key(rand.IntN(p.Queues)), first+rand.Int64N(max(1, last-first))
		_, err := p.Store.OffsetByTime(k.Topic, k.QueueID, at, cq.BoundaryLower)
		return err
	})
}

// QueryMessages is how many messages a query asks for.
const QueryMessages = 32

// MeasureQueries looks for random messages by their keys, and copies what is found.
func (r *Reader) MeasureQueries(samples int, x report.Figures) error {
	p := r.Producer
	var res store.QueryResult
	defer res.Release()
	return sample(samples, "query", x, func() error {
		n := rand.IntN(p.Next)
		if err := p.Store.Query(store.QueryRequest{Topic: p.Key(n).Topic, Key: key(n), Max: QueryMessages}, &res); err != nil {
			return err
		}
		if len(res.Messages) != 1 {
			return fmt.Errorf("%d messages have key %s, want one", len(res.Messages), key(n))
		}
		copy(r.sink, res.Messages[0].Record)
		return nil
	})
}

// Follow reads what the producer puts from now on, which must be all that there is in its queues, as a reader that waits for it, and tells of each message that it was read. It
// goes on while more says so of the number that it has seen. ready is called when it begins to wait.
func (r *Reader) Follow(ctx context.Context, ready func(), more func(seen int) bool, read func(n int)) error {
	u, err := r.Producer.Store.SubscribeArrivals()
	if err != nil {
		return err
	}
	defer u.Close()
	ready()
	next := make(map[cq.Key]int64, r.Producer.Queues)
	ours := make(map[cq.Key]int, r.Producer.Queues)
	for i := range r.Producer.Queues {
		ours[r.Producer.Key(i)] = i
	}
	var told []store.Arrival
	for seen := 0; more(seen); {
		if told, err = u.Next(ctx, told); err != nil {
			return fmt.Errorf("%d messages were seen: %w", seen, err)
		}
		for i := range told {
			k, to := told[i].Key, told[i].MaxOffset
			queue, ok := ours[k]
			for ok && next[k] < to {
				from := next[k]
				at, _, err := r.Get(k, from, 32)
				if err != nil {
					return err
				}
				for ; from < at; from++ {
					read(int(from)*r.Producer.Queues + queue)
					seen++
				}
				next[k] = at
			}
		}
	}
	return nil
}
