package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// Puts is producers that put into a store at once, as the threads of StorePut do: producer i of P puts messages i, i+P, i+2P and so on.
type Puts struct {
	Producers int
	Queues    int
	Body      int           // bytes
	From      int           // number of the first message
	Messages  int           // 0: as many as Time allows
	Time      time.Duration // 0: until Messages are put
	Sample    int           // of so many puts of a producer one is timed
}

// Put is what became of Puts.
type Put struct {
	Messages int // the numbers from From on, without a gap
	Took     time.Duration
	LogBytes int64
	Latency  *calibrate.Latency
	Allocs   float64 // of the process, by message
}

// Run puts.
func (l Puts) Run(ctx context.Context, s *store.Store) (Put, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next atomic.Int64 // number to be put, where the time decides
	next.Store(int64(l.From))
	var over atomic.Bool
	defer context.AfterFunc(ctx, func() { over.Store(true) })()
	producers, lats, faults := make([]*Producer, l.Producers), make([]*calibrate.Latency, l.Producers), make([]error, l.Producers)
	for i := range producers {
		producers[i], lats[i] = NewProducer(s, l.Queues, l.Body), calibrate.NewLatency()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	wrote := s.Positions().Wrote
	var group sync.WaitGroup
	start := time.Now()
	if l.Time > 0 {
		defer time.AfterFunc(l.Time, func() { over.Store(true) }).Stop()
	}
	for i, p := range producers {
		group.Go(func() {
			if faults[i] = l.produce(ctx, p, i, &next, &over, lats[i]); faults[i] != nil {
				cancel()
			}
		})
	}
	group.Wait()
	did := Put{Messages: l.Messages, Took: time.Since(start), LogBytes: s.Positions().Wrote - wrote, Latency: calibrate.NewLatency()}
	runtime.ReadMemStats(&after)
	if l.Time > 0 {
		did.Messages = int(next.Load()) - l.From
	}
	did.Allocs = float64(after.Mallocs-before.Mallocs) / float64(max(1, did.Messages))
	for _, lat := range lats {
		did.Latency.Merge(lat)
	}
	return did, errors.Join(append(faults, ctx.Err())...)
}

// produce is one producer.
func (l Puts) produce(ctx context.Context, p *Producer, i int, next *atomic.Int64, over *atomic.Bool, lat *calibrate.Latency) error {
	p.Next = l.From + i
	for n := 0; !over.Load(); n++ {
		if l.Time > 0 {
			p.Next = int(next.Add(1)) - 1
		} else if p.Next >= l.From+l.Messages {
			return nil
		}
		at := p.Next
		if n%l.Sample != 0 {
			if err := p.Put(ctx); err != nil {
				return err
			}
		} else {
			began := time.Now()
			if err := p.Put(ctx); err != nil {
				return err
			}
			lat.Record(time.Since(began))
		}
		p.Next = at + l.Producers
	}
	return nil
}

// CheckContents looks at some messages: each has to be one that was put into its queue, with its body, and its key has to find it.
func (p *Producer) CheckContents(samples, body int) error {
	var res store.GetResult
	var found store.QueryResult
	defer res.Release()
	defer found.Release()
	random := rand.New(rand.NewPCG(3, 5))
	for range samples {
		queue := random.IntN(min(p.Queues, p.Next))
		k, count := p.Key(queue), (p.Next-queue+p.Queues-1)/p.Queues
		offset := int64(random.IntN(count))
		if err := p.Store.Get(&store.GetRequest{Topic: k.Topic, QueueID: k.QueueID, Offset: offset, MaxMessages: 1}, &res); err != nil {
			return err
		}
		if len(res.Messages) != 1 {
			return fmt.Errorf("%s at %d: %s", k, offset, res.Status)
		}
		var r message.Record
		if err := r.Decode(res.Messages[0].Record, true); err != nil {
			return fmt.Errorf("%s at %d: %w", k, offset, err)
		}
		n, err := p.numberOf(&r, body)
		if err != nil || n%p.Queues != queue || string(r.Topic) != k.Topic || r.QueueID != k.QueueID || r.QueueOffset != offset {
			return fmt.Errorf("%s at %d holds message %d of %s/%d at %d: %w", k, offset, n, r.Topic, r.QueueID, r.QueueOffset, errors.Join(err, errContents))
		}
		if err := p.Store.Query(store.QueryRequest{Topic: k.Topic, Key: key(n), Max: 2}, &found); err != nil {
			return err
		}
		if len(found.Messages) != 1 || found.Messages[0].PhyOffset != r.PhyOffset {
			return fmt.Errorf("key %s finds %d messages, want that at %d: %w", key(n), len(found.Messages), r.PhyOffset, errContents)
		}
	}
	return nil
}

var errContents = errors.New("that is not what was put")

// numberOf tells which message a record is.
func (p *Producer) numberOf(r *message.Record, body int) (n int, err error) {
	value, _ := r.Property(message.PropertyKeys)
	if _, err := fmt.Sscanf(string(value), "key-%d", &n); err != nil {
		return 0, err
	}
	if n -= firstKey; n < 0 || n >= p.Next {
		return n, fmt.Errorf("%d messages were put", p.Next)
	}
	if len(r.Body) != body {
		return n, fmt.Errorf("its body has %d bytes, want %d", len(r.Body), body)
	}
	for _, b := range r.Body {
		if b != 'b' {
			return n, errors.New("its body is another")
		}
	}
	return n, nil
}
