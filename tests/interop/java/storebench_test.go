//go:build interop

package java_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/compare"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/store"
)

const (
	benchQueues = 4
	benchBody   = 77
)

// do has RocketMQ's store do the work, as bench compare has it. What it leaves is checked there by a store of ours.
func do(t *testing.T, w compare.Work) (*compare.Run, error) {
	t.Helper()
	peer, err := compare.NewJava(t.Context())
	require.NoError(t, err)
	peer.Warmup = 0
	r := &compare.Run{Engine: compare.Java, Dir: t.TempDir(), Figures: report.Figures{}, Latencies: map[string]calibrate.Summary{}}
	w.Queues, w.Body = benchQueues, benchBody
	if w.Root == "" {
		w.Root = filepath.Join(r.Dir, "store")
	}
	err = peer.Do(t.Context(), w, r)
	entries, _ := os.ReadDir(r.Dir)
	for _, e := range entries {
		require.Equal(t, "store", e.Name(), "it leaves nothing else")
	}
	return r, err
}

// figures fails unless there is each of them, and each latency has its percentiles in order.
func figures(t *testing.T, r *compare.Run, names ...string) {
	t.Helper()
	for _, name := range append(names, "peakAnonMiB") {
		require.Positive(t, r.Figures[name], name)
	}
	for name, l := range r.Latencies {
		require.Positive(t, l.P50, name)
		require.True(t, l.P50 <= l.P99 && l.P99 <= l.P999 && l.P999 <= l.Max, "%s: %+v", name, l)
		require.Positive(t, r.Figures[name+"P99Micros"], name)
	}
	require.NotEmpty(t, r.Checks)
}

// StoreBench puts, in each way there is, what a store of ours then finds.
func TestStoreBenchPuts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		work    compare.Work
		samples map[string]int64
		figures []string
	}{
		{
			"put",
			compare.Work{Task: compare.TaskPut, Engine: load.FileQueues, Producers: 3, Warmup: 10, Messages: 1001},
			map[string]int64{"put": 1001},
			[]string{"putPerSecond", "builtPerSecond", "logBytesPerSecond", "cpuMicros"},
		},
		{
			"readable",
			compare.Work{Task: compare.TaskReadable, Engine: load.CombineRocks, Producers: 1, Warmup: 10, Messages: 500, PerSecond: 5000},
			map[string]int64{"readable": 500},
			nil,
		},
		{
			"tail",
			compare.Work{Task: compare.TaskTail, Engine: load.RocksQueues, Sync: true, Producers: 1, Warmup: 10, Messages: 500, PerSecond: 5000},
			map[string]int64{"tail": 500},
			nil,
		},
		{
			"mixed",
			compare.Work{Task: compare.TaskMixed, Engine: load.RocksQueues, Producers: 2, Readers: 2, Warmup: 10, Messages: 1000},
			map[string]int64{"put": 1000},
			[]string{"putPerSecond", "pullPerSecond"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := do(t, tt.work)
			require.NoError(t, err)
			figures(t, r, tt.figures...)
			samples := map[string]int64{}
			for name, l := range r.Latencies {
				samples[name] = l.Samples
			}
			require.Equal(t, tt.samples, samples)
		})
	}
}

// It reads and opens what a store of ours has made, and says so where that is less than it should be.
func TestStoreBenchReads(t *testing.T) {
	t.Parallel()
	const messages = 1000
	make := func(t *testing.T, messages int) string {
		root := filepath.Join(t.TempDir(), "store")
		require.NoError(t, load.WithStore(load.FileQueues, root, func(s *store.Store) error {
			p := load.NewProducer(s, benchQueues, benchBody)
			for range messages {
				if err := p.Put(t.Context()); err != nil {
					return err
				}
			}
			return errors.Join(load.AwaitBuilt(t.Context(), s), p.Check())
		}))
		return root
	}
	t.Run("read and open", func(t *testing.T) {
		t.Parallel()
		root := make(t, messages)
		w := compare.Work{Task: compare.TaskRead, Engine: load.FileQueues, Root: root, Messages: messages, Samples: 50}
		r, err := do(t, w)
		require.NoError(t, err)
		figures(t, r, "pullPerSecond", "getP50Micros", "timeP50Micros", "queryP50Micros")
		require.Len(t, r.Latencies, 3)
		w.Task = compare.TaskOpen
		r, err = do(t, w)
		require.NoError(t, err)
		figures(t, r, "openMillis", "readyMillis")
		require.GreaterOrEqual(t, r.Figures["readyMillis"], r.Figures["openMillis"])
	})
	t.Run("too few", func(t *testing.T) {
		t.Parallel()
		_, err := do(t, compare.Work{Task: compare.TaskOpen, Engine: load.FileQueues, Root: make(t, 10), Messages: messages})
		require.ErrorContains(t, err, "10 messages, want 1000")
	})
	t.Run("a store of something else", func(t *testing.T) {
		t.Parallel()
		_, err := do(t, compare.Work{Task: "walk", Engine: load.FileQueues})
		require.ErrorContains(t, err, "no such task: walk")
	})
}
