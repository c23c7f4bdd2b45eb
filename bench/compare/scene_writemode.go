package compare

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/store"
)

// Write mode: how bytes get into the log's files, by the flush and with readers beside. Nothing is dispatched: what is measured is the log.

// The modes. Which of pool and staged there is depends on the flush.
const (
	writeMapped = "mapping"
	writePool   = "pool"
	writeStaged = "staged"
	writeThru   = "pwrite"
)

// writeSize is a load of one write mode: until the time is over, or so many messages are put.
type writeSize struct {
	sync      bool
	producers int
	readers   int
	time      time.Duration
	messages  int64
	change    storeChange
}

// WriteModeScenarios compare the ways into the log.
func WriteModeScenarios() (all []Scenario) {
	for _, c := range []struct {
		flush     string
		producers int
		full      bool
	}{{"async", 1, false}, {"sync", 1, true}, {"sync", 16, false}, {"sync", 64, true}} {
		collected := map[string]string{"async": writePool, "sync": writeStaged}[c.flush]
		for _, readers := range []int{0, 2} {
			all = append(all, Scenario{
				Name:     fmt.Sprintf("write-mode/%s-%d/readers-%d", c.flush, c.producers, readers),
				Title:    fmt.Sprintf("1 KiB into the log alone, %s flush, producers: %d, readers of the log beside: %d", c.flush, c.producers, readers),
				Engines:  []string{writeMapped, collected, writeThru},
				Headline: "putPerSecond", Full: c.full || readers > 0, Disk: 10 << 30, NewPages: c.flush == "async",
				Run: func(ctx context.Context, r *Run) error {
					return runWriteMode(ctx, r, writeSize{
						sync: c.flush == "sync", producers: c.producers, readers: readers,
						time: size(r.Profile, 600*time.Millisecond, 2*time.Second), messages: size[int64](r.Profile, 1_000_000, 2_000_000),
					})
				},
			})
		}
	}
	return all
}

func writeModeOptions(engine string, size writeSize) (store.Options, error) {
	o := load.Options(load.FileQueues)
	o.BuildConsumeQueues = false
	if size.sync {
		o.FlushDiskType = store.SyncFlush
	}
	switch {
	case engine == writeMapped && size.sync:
		o.SyncFlushWriteMode = store.SyncWriteMapped
	case engine == writeMapped:
	case engine == writeStaged && size.sync:
		o.SyncFlushWriteMode = store.SyncWriteStaged
	case engine == writePool && !size.sync:
		o.TransientStorePoolEnable = true
	case engine == writeThru:
		o.WriteWithoutMmap = true
	default:
		return o, fmt.Errorf("no write mode %q of this flush", engine)
	}
	size.change.to(&o)
	return o, nil
}

// writeModeWarm is how many messages each producer puts before the clock starts; under asynchronous flush, of which one producer waits for nothing, more.
const (
	writeModeWarm      = 20
	writeModeWarmAsync = 20_000
	writeModeSample    = 17 // one of so many asynchronous puts is timed
)

func runWriteMode(ctx context.Context, r *Run, size writeSize) error {
	o, err := writeModeOptions(r.Engine, size)
	if err != nil {
		return err
	}
	s, err := store.Open(r.Dir, o)
	if err != nil {
		return err
	}
	stored, err := writeMode(ctx, r, size, s)
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	found, err := countLog(r.Dir)
	if err == nil && found != stored {
		err = fmt.Errorf("%d messages were put, and the log has %d", stored, found)
	}
	r.checked("%d messages are in the log, by a scan with checksums", found)
	return err
}

// writeMode puts and reads, and returns how many messages were put, the first ones included.
func writeMode(ctx context.Context, r *Run, size writeSize, s *store.Store) (stored int64, err error) {
	producers, warm, sample := make([]*load.Producer, size.producers), writeModeWarmAsync, writeModeSample
	if size.sync {
		warm, sample = writeModeWarm, 1
	}
	warm = int(min(int64(warm), size.messages))
	for i := range producers {
		producers[i] = load.NewProducer(s, 1, load.BodyBytes)
	}
	all := func(messages int64, until time.Duration, lat []*calibrate.Latency) error {
		var wg sync.WaitGroup
		errs := make([]error, len(producers))
		start := time.Now()
		for i, p := range producers {
			wg.Go(func() {
				for end := p.Next + int(messages); p.Next < end; {
					timed := lat != nil && p.Next%sample == 0
					began := time.Now()
					if timed && (began.Sub(start) >= until || ctx.Err() != nil) {
						return
					}
					if errs[i] = p.Put(ctx); errs[i] != nil {
						return
					}
					if timed {
						lat[i].Record(time.Since(began))
					}
				}
			})
		}
		wg.Wait()
		return errors.Join(append(errs, ctx.Err())...)
	}
	if err := all(int64(warm), 0, nil); err != nil {
		return 0, err
	}
	var stop atomic.Bool
	var read atomic.Int64
	var wg sync.WaitGroup
	failed := make([]error, size.readers)
	from := s.Positions().Confirm
	for i := range failed {
		wg.Go(func() { failed[i] = followLog(s.Log(), from, &stop, &read) })
	}
	lat := make([]*calibrate.Latency, size.producers)
	for i := range lat {
		lat[i] = calibrate.NewLatency()
	}
	before := s.Stats()
	start := time.Now()
	err = all(size.messages/int64(size.producers), size.time, lat)
	took := time.Since(start)
	stop.Store(true)
	wg.Wait()
	if err := errors.Join(append(failed, err)...); err != nil {
		return 0, err
	}
	after := s.Stats()
	timed := int64(-size.producers * warm)
	for i, p := range producers {
		stored += int64(p.Next)
		if i > 0 {
			lat[0].Merge(lat[i])
		}
	}
	timed += stored
	r.Figures["putPerSecond"] = float64(timed) / took.Seconds()
	r.Figures["syncsPerSecond"] = float64(after.Flushes-before.Flushes) / took.Seconds()
	if size.readers > 0 {
		r.Figures["readBytesPerSecond"] = float64(read.Load()) / took.Seconds()
	}
	r.latency("put", lat[0])
	return stored, nil
}

// followIdle is how long a reader that has seen everything waits.
const followIdle = 200 * time.Microsecond

// followLog copies what the log gets, from a place on, as fast as it comes.
func followLog(log *commitlog.Log, from int64, stop *atomic.Bool, read *atomic.Int64) error {
	sink := make([]byte, 256<<10)
	return commitlog.GuardFault(func() error {
		for !stop.Load() {
			b, release, err := log.Chunk(from)
			if err != nil {
				return err
			}
			if len(b) == 0 {
				time.Sleep(followIdle)
				continue
			}
			n := copy(sink, b)
			release()
			from += int64(n)
			read.Add(int64(n))
		}
		return nil
	})
}

// countLog counts the messages in the log of a store that nobody has open.
func countLog(root string) (n int64, err error) {
	v, err := store.OpenView(root, store.ViewOptions{LogOnly: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	scan := v.Log.Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
	defer scan.Close()
	for scan.Next() {
		n++
	}
	return n, scan.Err()
}
