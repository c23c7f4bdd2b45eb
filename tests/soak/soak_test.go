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
	mostLooks       = 40              // from the middle on
	looksEnd        = 0.95            // the last part of the time: a restart, and another kind of store
	drainTime       = 2 * time.Minute // until all is consumed in the end
	stepTime        = 2 * time.Minute // until something that is to happen can happen
	tryStep         = 50 * time.Millisecond
	retainStep      = time.Second      // between two removals of old log files
	killStep        = 30 * time.Second // between two kills
	leastKills      = 2
	logFileBytes    = 2 << 20
	keepPart        = 40      // of the time the log is kept for
	fillBytes       = 4 << 20 // of the log a second while a side is filled: some times what is put
	// growthMiB is the limit of memory, a minute; countGrowth that of goroutines, mappings and descriptors: a leak of one each minute would be more.
	growthMiB   = 1.0
	countGrowth = 0.9
)

// properties of the broker's store: files of a few MB, nothing kept that all groups have consumed. In what its queues are, is the migration's.
func properties(root string) map[string]string {
	return map[string]string{
		"brokerName": "soak", "listenPort": "0", "storePathRootDir": root, "backfillBytesPerSec": strconv.Itoa(fillBytes),
		"mappedFileSizeCommitLog": strconv.Itoa(logFileBytes), "mappedFileSizeConsumeQueue": strconv.Itoa(20 * 2000), "maxHashSlotNum": "5000", "maxIndexNum": "20000",
		"flushConsumeQueueThoroughInterval": "2000", "flushConsumerOffsetInterval": "1000", "fileReservedTime": "0",
		"rocksdbBlockCacheBytes": strconv.Itoa(8 << 20), // full before anything is measured: a cache that fills looks as if something leaks
	}
}

// disruption is something that happens to the broker while messages flow, at that part of the time, and behind those before it. What do answers with a *notYet is tried again.
type disruption struct {
	name string
	at   float64
	do   func(s *soak) error
}

// notYet tells that something cannot happen yet.
type notYet struct{ why string }

func (e *notYet) Error() string { return e.why }

// soak is one run.
type soak struct {
	t          *testing.T
	root       string
	properties map[string]string // with which the broker is started next
	child      *child            // of the goroutine that runs the soak
	work       *work
	retains    bool    // what nobody needs is removed from the log
	retained   []int64 // what was needed at the last steps
	keep       int     // of these
}

// start starts the broker, and tells everybody.
func (s *soak) start() (err error) {
	if s.child, err = startChild(s.properties); err != nil {
		return err
	}
	s.work.serves(s.child.addr)
	return nil
}

// restarted ends the broker in order and starts it.
func restarted(s *soak) error {
	if err := s.stop(); err != nil {
		return err
	}
	return s.start()
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

func (s *soak) beginRetention() error {
	s.retains = true
	return nil
}

// steps of retention that the log is kept for: so that nobody who begins again behind a kill, at the offset that the broker has saved, finds it gone; in a long
// run for some more, so that a side goes on being filled.
func steps(d time.Duration) int { return max(3, int(d/keepPart/retainStep)) }

// retain has the broker remove what every group had consumed some steps ago.
func (s *soak) retain() error {
	s.retained = append(s.retained, s.work.ledger.needed())
	if !s.retains || len(s.retained) <= s.keep {
		return nil
	}
	from := s.retained[len(s.retained)-1-s.keep]
	s.retained = s.retained[len(s.retained)-s.keep:]
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
	run(t, d, slices.Concat(kills(d), migration()))
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
	s := &soak{t: t, root: root, properties: properties(root), work: newWork(newLedger(queues, names), failed), keep: steps(d)}
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
	s.requireMigrated()
	r, err := store.Check(t.Context(), root, store.CheckOptions{Deep: true})
	require.NoError(t, err)
	require.True(t, r.Sound, "%+v", r.Findings)
}

// flow lets the time pass with what is to happen in it, and looks at the broker from the middle on.
func (s *soak) flow(ctx context.Context, d time.Duration, disruptions []disruption) (looks []look, err error) {
	start := time.Now()
	slices.SortStableFunc(disruptions, func(a, b disruption) int { return int(1000 * (a.at - b.at)) })
	lookStep := max(d/2/mostLooks, time.Second)
	nextLook, nextRetain := d/2, retainStep
	var tried, nextTry time.Duration // of what is to happen: when it was first tried; 0: it was not
	for {
		now := time.Since(start)
		switch {
		case ctx.Err() != nil:
			return looks, context.Cause(ctx)
		case len(disruptions) > 0 && now >= max(nextTry, time.Duration(disruptions[0].at*float64(d))):
			x := disruptions[0]
			if tried == 0 {
				tried = now
			}
			err := x.do(s)
			switch {
			case err == nil:
				s.t.Logf("%5.1f s: %s, which took %.2f s", now.Seconds(), x.name, (time.Since(start) - now).Seconds())
				disruptions, tried = disruptions[1:], 0
			case !errors.As(err, new(*notYet)) || now-tried > stepTime:
				return looks, fmt.Errorf("%s: %w", x.name, err)
			default:
				nextTry = time.Since(start) + tryStep
			}
		case now >= nextRetain:
			nextRetain = now + retainStep
			if err := s.retain(); err != nil {
				return looks, err
			}
		case now >= nextLook && nextLook < time.Duration(looksEnd*float64(d)):
			nextLook += lookStep
			child, held, err := s.child.look(s.root)
			if err != nil {
				return looks, err
			}
			looks = append(looks, look{child, held})
			acked, _ := s.work.ledger.counts()
			s.t.Logf("%4.0f s: %d messages; RssAnon %.1f MiB, %d goroutines, %d mappings, %d descriptors; log from %d on", now.Seconds(), acked, held.AnonMiB, child.Goroutines, held.Mappings, held.Descriptors, child.MinPhyOffset)
		case now >= d && len(disruptions) == 0:
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
		growth := report.Trend(values) * perMinute
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
