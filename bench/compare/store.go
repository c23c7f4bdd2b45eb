package compare

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/store"
)

// Budget is what is set alike for all engines, and what is not; Report.Budget.
func Budget() map[string]string {
	return map[string]string{
		"flush":       "asynchronous, every 500 ms, or SYNC_FLUSH where the scenario says so; the same for all",
		"files":       "log files of 1 GiB, queue files of 300,000 units, index files of 5 million slots: the defaults, which are RocketMQ's",
		"index":       "built by all, three entries a message: its key, its unique key, its tag",
		"javaHeap":    "2 GiB, fixed (-Xms2g -Xmx2g), and as much direct memory at most; no other option of the JVM",
		"goHeap":      "GOGC and memory limit at their defaults",
		"rocksCache":  "block cache of RocksDB queues at each program's default: RocketMQ's 1 GiB and 128 MiB for offsets, ours 1/48 of the memory and a sixteenth of that",
		"compression": "of RocksDB queues: each program's default",
	}
}

// queues is how many a store has where their number is not the matter.
const queues = 8

// Tiny is the profile of tests: what matters is that everything is done, and not for how long.
const Tiny Profile = "tiny"

// size is one number for the quick profile and one for the full one.
func size[T ~int | ~int64](p Profile, quick, full T) T {
	switch p {
	case Full:
		return full
	case Tiny:
		return max(quick/100, 1)
	}
	return quick
}

// options are those of a store with queues as the engine of the run says.
func (r *Run) options() store.Options {
	o := load.Options(load.Engine(r.Engine))
	if r.Profile == Tiny { // files of a gigabyte would be all that tests do
		o.MappedFileSizeCommitLog, o.MaxHashSlotNum, o.MaxIndexNum = 8<<20, 1000, 100_000
	}
	return o
}

// store uses a store at root, with queues as the engine of the run says.
func (r *Run) store(root string, sync bool, use func(*store.Store) error) error {
	o := r.options()
	if sync {
		o.FlushDiskType = store.SyncFlush
	}
	s, err := store.Open(root, o)
	if err != nil {
		return err
	}
	return errors.Join(use(s), s.Close())
}

// peer has RocketMQ do it.
func (r *Run) peer(ctx context.Context, w Work) error {
	if r.Peer == nil {
		return errors.New("there is no RocketMQ here")
	}
	w.Engine = load.FileQueues
	if r.Engine == JavaRocks {
		w.Engine = load.RocksQueues
	}
	return r.Peer.Do(ctx, w, r)
}

// checked notes what was checked.
func (r *Run) checked(format string, args ...any) {
	r.Checks = append(r.Checks, fmt.Sprintf(format, args...))
}

// latency keeps a latency, and its percentiles as figures.
func (r *Run) latency(name string, l *calibrate.Latency) {
	s := l.Summary()
	r.Latencies[name] = s
	r.Figures[name+"P50Micros"], r.Figures[name+"P99Micros"] = micros(s.P50), micros(s.P99)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// contentSamples is how many messages of a store are compared with what was put.
const contentSamples = 200

// check looks whether a store holds the messages from 0 on, with bodies of so many bytes.
func (r *Run) check(s *store.Store, queues, messages, body int) error {
	p := load.NewProducer(s, queues, 0)
	p.Next = messages
	if err := p.Check(); err != nil {
		return err
	}
	if err := p.CheckContents(contentSamples, body); err != nil {
		return err
	}
	r.checked("%d messages in %d queues, the last of each is there; %d at random as they were put, found by key", messages, queues, contentSamples)
	return nil
}
