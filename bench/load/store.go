// Package load puts load on stores and on brokers: it makes stores, puts messages into them as StorePut of tests/interop/java makes them, and reads them as StoreRead does (Producer, Reader); and it
// drives brokers over the network as many producers and consumers at once do (Remote), with little processor time of its own: frames are made once and their numbers written into them, answers are
// looked at and not decoded.
package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// BodyBytes is the usual length of a body.
const BodyBytes = 1024

// Engine is where consume queues are kept.
type Engine string

// The engines. Of CombineRocks the RocksDB side is read and has authority.
const (
	FileQueues   Engine = "file"
	RocksQueues  Engine = "rocks"
	CombineRocks Engine = "combine"
)

// Options are those of a store with its queues kept as the engine says.
func Options(e Engine) store.Options {
	o := store.DefaultOptions()
	o.CleanFileForciblyEnable = false // what was put is counted on, however full the disk is
	switch e {
	case RocksQueues:
		o.StoreType = store.StoreTypeRocksDB
	case CombineRocks:
		o.RocksdbCQDoubleWriteEnable = true
		o.CombineCQPreferCQType, o.CombineAssignOffsetCQType = store.StoreTypeRocksDB, store.StoreTypeRocksDB
	}
	if smallFiles {
		o.MappedFileSizeCommitLog, o.PreallocateAheadBytes = 8<<20, 1<<20
		o.MaxHashSlotNum, o.MaxIndexNum = 10_000, 40_000
	}
	return o
}

var smallFiles bool

// SmallFiles has Options give small files from now on: tests of benchmarks measure nothing, and need not wait for files of a GiB.
func SmallFiles() { smallFiles = true }

// WithStore uses a store and closes it.
func WithStore(e Engine, root string, use func(*store.Store) error) error {
	s, err := store.Open(root, Options(e))
	if err != nil {
		return err
	}
	return errors.Join(use(s), s.Close())
}

// TopicsOf returns how many queues a topic has, and how many topics there are. StorePut gets the same.
func TopicsOf(queues int) (perTopic, topics int) {
	if queues <= 100 {
		return queues, 1
	}
	return 100, queues / 100
}

// Producer puts messages as StorePut makes them: a tag, a key and a unique key.
type Producer struct {
	Store  *store.Store
	Queues int
	Topics []string
	Next   int // how many were put

	m        message.Message
	perTopic int
}

// NewProducer returns a producer of messages with bodies of that many bytes.
func NewProducer(s *store.Store, queues, body int) *Producer {
	perTopic, topics := TopicsOf(queues)
	p := &Producer{Store: s, Queues: queues, perTopic: perTopic, m: message.Message{
		Body: bytes.Repeat([]byte{'b'}, body), BornTimestampMs: time.Now().UnixMilli(), BornHost: host(50000), StoreHost: host(10911),
	}}
	for i := range topics {
		p.Topics = append(p.Topics, fmt.Sprintf("bench_%d", i))
	}
	return p
}

func host(port int32) message.Host {
	return message.Host{Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Port: port}
}

// Key returns the queue of message n.
func (p *Producer) Key(n int) cq.Key {
	return cq.Key{Topic: p.Topics[n/p.perTopic%len(p.Topics)], QueueID: int32(n % p.perTopic)}
}

const firstKey = 1_000_000_000_000

func key(n int) string { return fmt.Sprintf("key-%d", firstKey+n) }

// Put puts the next message.
func (p *Producer) Put(ctx context.Context) error {
	k := p.Key(p.Next)
	p.m.Topic, p.m.QueueID = k.Topic, k.QueueID
	p.m.Properties = fmt.Appendf(p.m.Properties[:0], "KEYS\x01key-%d\x02UNIQ_KEY\x017F000001000018B4AAC2%d\x02TAGS\x01TagA\x02", firstKey+p.Next, 100_000_000_000+p.Next)
	r, err := p.Store.Put(ctx, &p.m)
	if err == nil && r.Status != store.PutOK {
		err = fmt.Errorf("message %d: %s", p.Next, r.Status.String())
	}
	p.Next++
	return err
}

// Check fails unless each queue holds what was put into it, to the last message.
func (p *Producer) Check() error {
	var res store.GetResult
	defer res.Release()
	for i := range min(p.Queues, p.Next) {
		k, count := p.Key(i), int64((p.Next-i+p.Queues-1)/p.Queues)
		if err := p.Store.Get(&store.GetRequest{Topic: k.Topic, QueueID: k.QueueID, Offset: count - 1, MaxMessages: 2}, &res); err != nil {
			return err
		}
		if res.Status != store.GetFound || len(res.Messages) != 1 || res.MinOffset != 0 || res.MaxOffset != count {
			return fmt.Errorf("%s: %s, %d messages at %d, queue [%d, %d), want [0, %d)", k, res.Status, len(res.Messages), count-1, res.MinOffset, res.MaxOffset, count)
		}
	}
	return nil
}

// Behind returns how many bytes of the log the view has to go that is furthest behind, and why one has stopped.
func Behind(s *store.Store) (n int64, err error) { return behind(s, false) }

// combinedView is the view of a store with two sides, which is as far as the side that is read; each side has a view of its own beside it.
const combinedView = "combine queues"

// behind looks at all views, or at those alone of which messages are read and found.
func behind(s *store.Store, read bool) (n int64, err error) {
	views := s.Watermarks().Views
	_, sides := views[combinedView]
	for name, v := range views {
		if v.Failure != "" {
			return 0, fmt.Errorf("%s: %s", name, v.Failure)
		}
		if read && sides && name != combinedView && strings.HasSuffix(name, " queues") {
			continue
		}
		n = max(n, v.BehindBytes)
	}
	return n, nil
}

// AwaitBuilt returns when queues and index are at the end of the log.
func AwaitBuilt(ctx context.Context, s *store.Store) error { return await(ctx, s, false) }

// await waits for all views, or for those alone of which messages are read.
func await(ctx context.Context, s *store.Store, read bool) error {
	for {
		n, err := behind(s, read)
		if err != nil || n == 0 {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// PaceTick is how often Pace puts: what is due by then, one after the other.
const PaceTick = time.Millisecond

// Pace puts messages until there are total, at the rate, and notes when each began, in ns since start, plus 1. put is told how long each took; nil: nobody.
func (p *Producer) Pace(ctx context.Context, total, perSecond int, start time.Time, begun []atomic.Int64, put func(time.Duration)) error {
	for p.Next < total {
		due := min(total, int(time.Since(start).Seconds()*float64(perSecond)))
		for p.Next < due {
			began := time.Since(start)
			begun[p.Next].Store(int64(began) + 1)
			if err := p.Put(ctx); err != nil {
				return err
			}
			if put != nil {
				put(time.Since(start) - began)
			}
		}
		time.Sleep(PaceTick)
	}
	return nil
}
