package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/process"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// durationEnv is for how long, as 20m; what takes shorter is a test that all works, and no measurement of growth.
const (
	durationEnv     = "SOAK"
	defaultDuration = 20 * time.Second
	measureFrom     = 10 * time.Minute
	mostLooks       = 40               // in the second half
	drainTime       = 2 * time.Minute  // until all is consumed in the end
	retainStep      = time.Second      // between two removals of old log files
	killStep        = 30 * time.Second // between two kills
	leastKills      = 2
	logFileBytes    = 2 << 20
	// growthMiB is the limit of memory, a minute; countGrowth that of goroutines, mappings and descriptors: a leak of one each minute would be more.
	growthMiB   = 1.0
	countGrowth = 0.9
)

// properties of the broker's store: both kinds of queues, RocksDB read and authority, files of a few MB, nothing kept that all groups have consumed.
func properties(root string) map[string]string {
	return map[string]string{
		"brokerName": "soak", "listenPort": "0", "storePathRootDir": root,
		"rocksdbCQDoubleWriteEnable": "true", "combineCQPreferCQType": "defaultRocksDB", "combineAssignOffsetCQType": "defaultRocksDB",
		"mappedFileSizeCommitLog": strconv.Itoa(logFileBytes), "mappedFileSizeConsumeQueue": strconv.Itoa(20 * 2000), "maxHashSlotNum": "5000", "maxIndexNum": "20000",
		"flushConsumeQueueThoroughInterval": "2000", "flushConsumerOffsetInterval": "1000", "fileReservedTime": "0",
		"rocksdbBlockCacheBytes": strconv.Itoa(8 << 20), // full before anything is measured: a cache that fills looks as if something leaks
	}
}

// disruption is something that happens to the broker while messages flow, at that part of the time.
type disruption struct {
	name string
	at   float64
	do   func(s *soak) error
}

// soak is one run.
type soak struct {
	t          *testing.T
	root       string
	properties map[string]string // with which the broker is started next
	child      *child            // of the goroutine that runs the soak
	work       *work
	retained   []int64 // what was needed at the last steps
}

// start starts the broker, and tells everybody.
func (s *soak) start() (err error) {
	if s.child, err = startChild(s.properties); err != nil {
		return err
	}
	s.work.serves(s.child.addr)
	return nil
}

// stop ends the broker in order.
func (s *soak) stop() error {
	s.work.serves("")
	return s.child.close()
}

// killed ends the broker at once, and starts it again.
func killed(s *soak) error {
	s.work.serves("")
	s.child.kill()
	return s.start()
}

// kills are spread over the first quarter: the second one is for caches to fill, and for RocksDB's allocator to come to rest, which takes minutes.
func kills(d time.Duration) (list []disruption) {
	n := max(leastKills, int(d/4/killStep))
	for i := range n {
		list = append(list, disruption{"kill -9", 0.25 * float64(i+1) / float64(n), killed})
	}
	return list
}

// retain has the broker remove what every group had consumed some seconds ago: so that nobody who begins again behind a kill, at the offset that the broker has saved, finds it gone.
func (s *soak) retain() error {
	const keep = 3 // steps
	s.retained = append(s.retained, s.work.ledger.needed())
	if len(s.retained) <= keep {
		return nil
	}
	from := s.retained[len(s.retained)-1-keep]
	s.retained = s.retained[1:]
	if err := s.child.retain(max(0, from)); err != nil {
		return err
	}
	_, err := s.remote().Call(s.t.Context(), &remoting.Command{Code: remoting.DeleteExpiredCommitLog})
	return err
}

func (s *soak) remote() *load.Remote {
	return &load.Remote{Addr: s.child.addr, Topic: topic, Queues: queues}
}

// look is what the broker has at a moment.
type look struct {
	seen
	process.Held
}

func TestSoak(t *testing.T) {
	if !rocks.Available {
		t.Skip("needs RocksDB")
	}
	d := defaultDuration
	if text := os.Getenv(durationEnv); text != "" {
		var err error
		d, err = time.ParseDuration(text)
		require.NoError(t, err, "%s=%s", durationEnv, text)
	}
	run(t, d, kills(d))
}

// run lets messages flow for that long.
func run(t *testing.T, d time.Duration, disruptions []disruption) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	hard, failed := context.WithCancelCause(t.Context())
	defer failed(errDone)
	soft, finish := context.WithCancel(hard)
	defer finish()

	var names []string
	for g := range groups {
		names = append(names, groupName(g))
	}
	s := &soak{t: t, root: root, properties: properties(root), work: newWork(newLedger(queues, names), failed)}
	require.NoError(t, s.start())
	defer func() { s.child.kill() }()
	require.NoError(t, s.remote().Make(t.Context()))

	var producing, consuming sync.WaitGroup
	for p := range producers {
		producing.Go(func() { s.work.produce(soft, hard, p) })
	}
	for _, g := range names {
		for m := range members {
			consuming.Go(func() { s.work.consume(hard, g, fmt.Sprintf("%s@%d", g, m)) })
		}
	}
	defer func() {
		failed(errDone)
		producing.Wait()
		consuming.Wait()
	}()

	looks, err := s.flow(hard, d, disruptions)
	if cause := context.Cause(hard); cause != nil {
		err = cause
	}
	require.NoError(t, err)
	finish()
	producing.Wait()
	require.NoError(t, s.drain(hard))
	failed(errDone)
	consuming.Wait()
	require.ErrorIs(t, context.Cause(hard), errDone)
	acked, stored := s.work.ledger.counts()
	last := looks[len(looks)-1]
	t.Logf("%d messages acknowledged, %d stored and consumed by each of %d groups, %d disruptions, %d log files removed since the last start", acked, stored, groups, len(disruptions), last.RemovedFiles)
	if stored*bodyBytes > 8*logFileBytes { // otherwise the machine was so slow that there was nothing to remove
		require.Positive(t, last.MinPhyOffset, "no log file was removed")
	}
	s.judge(looks, d)

	require.NoError(t, s.stop())
	r, err := store.Check(t.Context(), root, store.CheckOptions{Deep: true})
	require.NoError(t, err)
	require.True(t, r.Sound, "%+v", r.Findings)
}

// flow lets the time pass with what is to happen in it, and looks at the broker in the second half.
func (s *soak) flow(ctx context.Context, d time.Duration, disruptions []disruption) (looks []look, err error) {
	start := time.Now()
	slices.SortStableFunc(disruptions, func(a, b disruption) int { return int(1000 * (a.at - b.at)) })
	lookStep := max(d/2/mostLooks, time.Second)
	nextLook, nextRetain := d/2, retainStep
	for {
		now := time.Since(start)
		switch {
		case ctx.Err() != nil:
			return looks, context.Cause(ctx)
		case len(disruptions) > 0 && now >= time.Duration(disruptions[0].at*float64(d)):
			x := disruptions[0]
			disruptions = disruptions[1:]
			if err := x.do(s); err != nil {
				return looks, fmt.Errorf("%s: %w", x.name, err)
			}
			s.t.Logf("%4.0f s: %s, serving again after %.2f s", now.Seconds(), x.name, (time.Since(start) - now).Seconds())
		case now >= nextRetain:
			nextRetain = now + retainStep
			if err := s.retain(); err != nil {
				return looks, err
			}
		case now >= nextLook:
			nextLook += lookStep
			child, held, err := s.child.look(s.root)
			if err != nil {
				return looks, err
			}
			looks = append(looks, look{child, held})
			acked, _ := s.work.ledger.counts()
			s.t.Logf("%4.0f s: %d messages; RssAnon %.1f MiB, %d goroutines, %d mappings, %d descriptors; log from %d on", now.Seconds(), acked, held.AnonMiB, child.Goroutines, held.Mappings, held.Descriptors, child.MinPhyOffset)
		case now >= d:
			return looks, nil
		default:
			sleep(ctx, 20*time.Millisecond)
		}
	}
}

// drain waits until every group has consumed everything.
func (s *soak) drain(ctx context.Context) error {
	for until := time.Now().Add(drainTime); s.work.ledger.left() != ""; sleep(ctx, 10*time.Millisecond) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(until) {
			return errors.New(s.work.ledger.left())
		}
	}
	return nil
}

// judge prints what has grown, and holds it against the limits where the run was long enough to tell.
func (s *soak) judge(looks []look, d time.Duration) {
	perMinute := float64(time.Minute) / float64(max(d/2/mostLooks, time.Second))
	for _, g := range []struct {
		name  string
		limit float64
		of    func(l look) float64
	}{
		{"anon_mib", growthMiB, func(l look) float64 { return l.AnonMiB }},
		{"goroutines", countGrowth, func(l look) float64 { return float64(l.Goroutines) }},
		{"mappings", countGrowth, func(l look) float64 { return float64(l.Mappings) }},
		{"descriptors", countGrowth, func(l look) float64 { return float64(l.Descriptors) }},
	} {
		var values []float64
		for _, l := range looks {
			values = append(values, g.of(l))
		}
		growth := report.Slope(values) * perMinute
		if d < measureFrom {
			s.t.Logf("%s: %.0f to %.0f", g.name, slices.Min(values), slices.Max(values))
			continue
		}
		verdict := "ok"
		if growth > g.limit {
			verdict = "missed"
			s.t.Errorf("%s grew by %.2f a minute, the limit is %v", g.name, growth, g.limit)
		}
		s.t.Logf("RATIO soak_%s_per_minute %.2f <= %v %s", g.name, growth, g.limit, verdict)
	}
}
