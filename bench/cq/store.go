package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

const bodyBytes = 1024

// options are those of a store with its queues kept as the engine says.
func options(e engine) store.Options {
	o := store.DefaultOptions()
	switch e {
	case rocksQueues:
		o.StoreType = store.StoreTypeRocksDB
	case combineRocks:
		o.RocksdbCQDoubleWriteEnable = true
		o.CombineCQPreferCQType, o.CombineAssignOffsetCQType = store.StoreTypeRocksDB, store.StoreTypeRocksDB
	}
	return o
}

// withStore uses a store and closes it.
func withStore(e engine, root string, use func(*store.Store) error) error {
	s, err := store.Open(root, options(e))
	if err != nil {
		return err
	}
	return errors.Join(use(s), s.Close())
}

// topicsOf returns how many queues a topic has, and how many topics there are. StorePut gets the same.
func topicsOf(queues int) (perTopic, topics int) {
	if queues <= 100 {
		return queues, 1
	}
	return 100, queues / 100
}

// producer puts messages as StorePut makes them: a tag, a key and a unique key.
type producer struct {
	s        *store.Store
	queues   int
	m        message.Message
	topics   []string
	perTopic int
	next     int
}

func newProducer(s *store.Store, queues, body int) *producer {
	perTopic, topics := topicsOf(queues)
	p := &producer{s: s, queues: queues, perTopic: perTopic, m: message.Message{
		Body: bytes.Repeat([]byte{'b'}, body), BornTimestampMs: time.Now().UnixMilli(), BornHost: host(50000), StoreHost: host(10911),
	}}
	for i := range topics {
		p.topics = append(p.topics, fmt.Sprintf("bench_%d", i))
	}
	return p
}

func host(port int32) message.Host {
	return message.Host{Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Port: port}
}

// key returns the queue of message n.
func (p *producer) key(n int) cq.Key {
	return cq.Key{Topic: p.topics[n/p.perTopic%len(p.topics)], QueueID: int32(n % p.perTopic)}
}

func (p *producer) put(ctx context.Context) error {
	k := p.key(p.next)
	p.m.Topic, p.m.QueueID = k.Topic, k.QueueID
	p.m.Properties = fmt.Appendf(p.m.Properties[:0], "KEYS\x01key-%d\x02UNIQ_KEY\x017F000001000018B4AAC2%d\x02TAGS\x01TagA\x02", 1_000_000_000_000+p.next, 100_000_000_000+p.next)
	r, err := p.s.Put(ctx, &p.m)
	if err == nil && r.Status != store.PutOK {
		err = fmt.Errorf("message %d: %s", p.next, r.Status.String())
	}
	p.next++
	return err
}

// check fails unless each queue holds what was put into it, to the last message.
func (p *producer) check() error {
	var res store.GetResult
	defer res.Release()
	for i := range min(p.queues, p.next) {
		k, count := p.key(i), int64((p.next-i+p.queues-1)/p.queues)
		if err := p.s.Get(&store.GetRequest{Topic: k.Topic, QueueID: k.QueueID, Offset: count - 1, MaxMessages: 2}, &res); err != nil {
			return err
		}
		if res.Status != store.GetFound || len(res.Messages) != 1 || res.MinOffset != 0 || res.MaxOffset != count {
			return fmt.Errorf("%s: %s, %d messages at %d, queue [%d, %d), want [0, %d)", k, res.Status, len(res.Messages), count-1, res.MinOffset, res.MaxOffset, count)
		}
	}
	return nil
}

// behind returns how many bytes of the log the view has to go that is furthest behind, and why one has stopped.
func behind(s *store.Store) (n int64, err error) {
	for name, v := range s.Watermarks().Views {
		if v.Failure != "" {
			return 0, fmt.Errorf("%s: %s", name, v.Failure)
		}
		n = max(n, v.BehindBytes)
	}
	return n, nil
}

// awaitBuilt returns when queues and index are at the end of the log.
func awaitBuilt(ctx context.Context, s *store.Store) error {
	for {
		n, err := behind(s)
		if err != nil || n == 0 {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// latencyEvery is one of how many puts is timed.
const latencyEvery = 17

// wholeStore puts messages into a new store until its queues and its index have them, opens it again, reads all of it, some of it at random, and searches by time.
func wholeStore(ctx context.Context, r row, s sizes, dir string) (figures, error) {
	x := figures{}
	err := withStore(r.engine, dir, func(st *store.Store) error {
		p, lat := newProducer(st, r.queues, bodyBytes), calibrate.NewLatency()
		start := time.Now()
		for i := range r.messages {
			if i%latencyEvery != 0 {
				if err := p.put(ctx); err != nil {
					return err
				}
				continue
			}
			begin := time.Now()
			if err := p.put(ctx); err != nil {
				return err
			}
			lat.Record(time.Since(begin))
		}
		x["putPerSecond"] = float64(r.messages) / time.Since(start).Seconds()
		if err := awaitBuilt(ctx, st); err != nil {
			return err
		}
		x["builtPerSecond"] = float64(r.messages) / time.Since(start).Seconds()
		x["putP50Micros"], x["putP99Micros"] = micros(lat.Summary().P50), micros(lat.Summary().P99)
		return p.check()
	})
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := withStore(r.engine, dir, func(st *store.Store) error {
		x["openMillis"] = millis(time.Since(start))
		if err := awaitBuilt(ctx, st); err != nil {
			return err
		}
		x["readyMillis"] = millis(time.Since(start))
		p := newProducer(st, r.queues, 0)
		p.next = r.messages
		return errors.Join(p.check(), readStore(p, s, x), searchTimes(p, s, x))
	}); err != nil {
		return nil, err
	}
	return x, nil
}

// reader copies each message out of the log, as one that sends it does.
type reader struct {
	p    *producer
	res  store.GetResult
	sink []byte
}

func (r *reader) get(k cq.Key, offset int64, count int) (next int64, n int, err error) {
	if err := r.p.s.Get(&store.GetRequest{Topic: k.Topic, QueueID: k.QueueID, Offset: offset, MaxMessages: count}, &r.res); err != nil {
		return 0, 0, err
	}
	if r.res.Status != store.GetFound {
		return 0, 0, fmt.Errorf("%s at %d: %s", k, offset, r.res.Status)
	}
	for _, m := range r.res.Messages {
		copy(r.sink, m.Record)
	}
	return r.res.NextOffset, len(r.res.Messages), nil
}

// pull reads all queues, 32 messages a call.
func (r *reader) pull() (messages int, err error) {
	for i := range r.p.queues {
		k := r.p.key(i)
		count := int64(r.p.next / r.p.queues)
		for offset := int64(0); offset < count; {
			next, n, err := r.get(k, offset, 32)
			if err != nil {
				return messages, err
			}
			messages, offset = messages+n, next
		}
	}
	return messages, nil
}

// readStore measures as StoreRead does: what comes second counts.
func readStore(p *producer, s sizes, x figures) error {
	r := reader{p: p, sink: make([]byte, 1<<20)}
	defer r.res.Release()
	for range 2 {
		start := time.Now()
		n, err := r.pull()
		if err != nil {
			return err
		}
		if want := p.next / p.queues * p.queues; n < want {
			return fmt.Errorf("%d messages were read, want at least %d", n, want)
		}
		x["pullPerSecond"] = float64(n) / time.Since(start).Seconds()
	}
	for range 2 {
		lat := calibrate.NewLatency()
		for range s.Samples {
			k, offset := p.key(rand.IntN(p.queues)), rand.Int64N(int64(p.next/p.queues))
			start := time.Now()
			if _, n, err := r.get(k, offset, 1); err != nil || n != 1 {
				return fmt.Errorf("get %s at %d: %d messages: %w", k, offset, n, err)
			}
			lat.Record(time.Since(start))
		}
		x["getP50Micros"], x["getP99Micros"] = micros(lat.Summary().P50), micros(lat.Summary().P99)
	}
	return nil
}

// searchTimes measures searches of random store times.
func searchTimes(p *producer, s sizes, x figures) error {
	k, count := p.key(0), int64((p.next+p.queues-1)/p.queues)
	first, err := p.s.StoreTime(k.Topic, k.QueueID, 0)
	if err != nil {
		return err
	}
	last, err := p.s.StoreTime(k.Topic, k.QueueID, count-1)
	if err != nil {
		return err
	}
	for range 2 {
		lat := calibrate.NewLatency()
		for range s.Samples {
			k, at := p.key(rand.IntN(p.queues)), first+rand.Int64N(max(1, last-first))
			start := time.Now()
			if _, err := p.s.OffsetByTime(k.Topic, k.QueueID, at, cq.BoundaryLower); err != nil {
				return err
			}
			lat.Record(time.Since(start))
		}
		x["timeP50Micros"], x["timeP99Micros"] = micros(lat.Summary().P50), micros(lat.Summary().P99)
	}
	return nil
}
