package compare

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/index"
	indexrocks "github.com/tandemq/tandemmq/index/rocks"
	"github.com/tandemq/tandemmq/message"
)

// Index kind: the index of messages by key in hash files and in RocksDB, without a store around it: messages with a key and a unique key are added in batches, as dispatch does, and
// looked for.

// The kinds. They have names of their own: which queues a store has does not matter here.
const (
	hashIndex  = "hash-files"
	rocksIndex = "rocksdb"
)

// How many messages a batch has, as much as dispatch hands over at once; how far they lie apart in time, which decides how many hours RocksDB has to search; and in the log.
const (
	indexBatch  = 1024
	indexStepMs = 10
	indexStep   = 1300
)

const indexBeginMs = 1_700_000_000_000

// indexSize is an index, and how often it is asked.
type indexSize struct {
	messages int
	samples  int
}

// IndexKindScenarios compare the two indexes over the number of messages in them.
func IndexKindScenarios() (all []Scenario) {
	for _, n := range []int{50_000, 500_000, 5_000_000} {
		s := Scenario{
			Name: fmt.Sprintf("index-kind/messages-%d", n), Title: fmt.Sprintf("%d messages with a key and a unique key each into the index, flushed; then looked for", n), Engines: []string{hashIndex},
			Headline: "messagesPerSecond", X: float64(n), XLabel: "messages", Full: n > 50_000, Limit: slowLimit,
			Run: func(ctx context.Context, r *Run) error {
				return runIndexKind(ctx, r, indexSize{n, size(r.Profile, 5_000, 10_000)})
			},
		}
		if HasRocks {
			s.Engines = append(s.Engines, rocksIndex)
		}
		all = append(all, s)
	}
	return all
}

// keyIndex is what both can.
type keyIndex interface {
	Query(q index.Query, accept func(phyOffset int64) bool) (index.Answer, error)
	Flush() error
	Close() error
}

// openIndex opens the index of that kind and returns what adds messages: one to a batch, and the batch to the index.
func openIndex(kind, dir string) (x keyIndex, add func(*message.DispatchRequest), commit func() error, err error) {
	switch kind {
	case hashIndex:
		h, err := index.Open(dir, index.Options{})
		if err != nil {
			return nil, nil, nil, err
		}
		var b index.Batch
		return h, b.Add, func() error { defer b.Reset(); return h.AppendBatch(&b) }, nil
	case rocksIndex:
		h, err := indexrocks.Open(dir, indexrocks.Options{Create: true})
		if err != nil {
			return nil, nil, nil, err
		}
		var b indexrocks.Batch
		return h, b.Add, func() error { defer b.Reset(); return h.AppendBatch(&b) }, nil
	}
	return nil, nil, nil, fmt.Errorf("no index %q", kind)
}

func indexKey(dst []byte, n int) []byte {
	return strconv.AppendInt(append(dst, "key-"...), int64(1_000_000_000+n), 10)
}

func indexUnique(dst []byte, n int) []byte {
	return strconv.AppendInt(append(dst, "7F000001000018B4AAC2"...), int64(100_000_000_000+n), 10)
}

var indexTopic = []byte(plainTopic)

// indexRequest is message n with its keys.
func indexRequest(key, unique []byte, n int) *message.DispatchRequest {
	return &message.DispatchRequest{
		Topic: indexTopic, PhyOffset: int64(n) * indexStep, Size: indexStep, StoreTimestampMs: indexBeginMs + int64(n)*indexStepMs, QueueOffset: int64(n), Keys: key, UniqKey: unique, BatchSize: 1,
	}
}

func runIndexKind(ctx context.Context, r *Run, size indexSize) (err error) {
	dir := filepath.Join(r.Dir, "index")
	x, add, commit, err := openIndex(r.Engine, dir)
	if err != nil {
		return err
	}
	open := true
	defer func() {
		if open {
			err = errors.Join(err, x.Close())
		}
	}()
	batches := calibrate.NewLatency()
	var key, unique []byte
	start := time.Now()
	for n := 0; n < size.messages; {
		began := time.Now()
		for end := min(n+indexBatch, size.messages); n < end; n++ {
			key, unique = indexKey(key[:0], n), indexUnique(unique[:0], n)
			add(indexRequest(key, unique, n))
		}
		if err := errors.Join(commit(), ctx.Err()); err != nil {
			return err
		}
		batches.Record(time.Since(began))
	}
	if err := x.Flush(); err != nil {
		return err
	}
	r.Figures["messagesPerSecond"] = float64(size.messages) / time.Since(start).Seconds()
	r.latency("batch", batches)
	if err := askIndex(ctx, r, size, x); err != nil {
		return err
	}
	open = false
	if err := x.Close(); err != nil {
		return err
	}
	if x, _, _, err = openIndex(r.Engine, dir); err != nil {
		return err
	}
	open = true
	last := indexQuery(string(indexUnique(nil, size.messages-1)))
	return findOne(x, last, int64(size.messages-1)*indexStep)
}

func indexQuery(key string) index.Query {
	return index.Query{Topic: plainTopic, Key: key, Max: 1, EndMs: math.MaxInt64}
}

// findOne fails unless a query finds one message, that one. -1: none.
func findOne(x keyIndex, q index.Query, want int64) error {
	var buf [64]byte
	a, err := x.Query(q, func(phy int64) bool { // of what has the same hash the record decides in a store
		n := int(phy / indexStep)
		return string(indexKey(buf[:0], n)) == q.Key || string(indexUnique(buf[:0], n)) == q.Key
	})
	switch {
	case err != nil:
		return err
	case want < 0 && len(a.PhyOffsets) == 0:
		return nil
	case len(a.PhyOffsets) != 1 || a.PhyOffsets[0] != want:
		return fmt.Errorf("%s: found at %v, want %d", q.Key, a.PhyOffsets, want)
	}
	return nil
}

// askIndex looks for messages at random by their keys and by their unique keys, and for some that there are not.
func askIndex(ctx context.Context, r *Run, size indexSize, x keyIndex) error {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		ask  func(n int) (index.Query, int64)
	}{
		{"query", func(n int) (index.Query, int64) {
			return indexQuery(string(indexKey(nil, n))), int64(n) * indexStep
		}},
		{"unique", func(n int) (index.Query, int64) {
			return indexQuery(string(indexUnique(nil, n))), int64(n) * indexStep
		}},
		{"absent", func(n int) (index.Query, int64) {
			return indexQuery(string(indexKey(nil, n+size.messages))), -1
		}},
	} {
		var lat *calibrate.Latency
		for range 2 { // what comes second counts
			lat = calibrate.NewLatency()
			for range size.samples {
				q, want := c.ask(random.IntN(size.messages))
				began := time.Now()
				err := findOne(x, q, want)
				lat.Record(time.Since(began))
				if err := errors.Join(err, ctx.Err()); err != nil {
					return err
				}
			}
		}
		r.latency(c.name, lat)
	}
	r.checked("%d keys and %d unique keys at random were found, each at its message and once, and %d that there are not were not; the last one after the index was closed and opened", size.samples, size.samples, size.samples)
	return nil
}
