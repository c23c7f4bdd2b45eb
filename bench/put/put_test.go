package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/report"
)

var (
	everything = regexp.MustCompile("")
	testSizes  = sizes{messages: 1_000_000, big: 10_000_000, duration: 4 * time.Second, bare: time.Second, writeBack: 1 << 20}
)

// A machine on which every limit is just kept: M is 4 million a second, Java stores 100,000 messages a second, the disk syncs
// 1,000 times.
func justKept(r row) result {
	x := result{latency: calibrate.Summary{P99: 20 * time.Microsecond}, allocs: 0.01, bytesPerSync: 12 * 1024, raw: json.RawMessage(`{"x":1}`)}
	syncs := map[string]float64{"1": 800, "16": 4000, "64": 10_000, "256": 22_000}
	_, producers, _ := strings.Cut(strings.TrimPrefix(r.name, "java-"), "-")
	switch {
	case r.kind == writeBack:
		x.logBytesPerSecond = 800e6
	case r.kind == bare:
		x.perSecond = 1000
	case r.name == "java-async":
		x.perSecond = 125_000
	case r.kind == javas:
		x.perSecond = syncs[producers] / 5
	case r.name == "populated":
		x.perSecond = 1e9 / (1.6 * 100)
	case strings.HasPrefix(r.name, "async"):
		x.perSecond = 1e6
		x.rolls = calibrate.Summary{Samples: 1, P50: 500 * time.Microsecond, Max: 500 * time.Microsecond}
	default:
		x.perSecond = syncs[producers]
	}
	return x
}

// fake is a bench whose rows are measured by f.
func fake(t *testing.T, rows []row, f func(r row) (result, error)) (*bench, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	measure := func(_ context.Context, r row, dir string) (result, error) {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 0 {
			return result{}, fmt.Errorf("%v in the row's directory: %w", entries, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "left"), nil, 0o644); err != nil {
			return result{}, err
		}
		return f(r)
	}
	dir := t.TempDir()
	b := &bench{
		w: &out, bin: "/nonexistent/tandemmq", dir: dir, out: filepath.Join(t.TempDir(), "raw"), sizes: testSizes, reps: 3, rows: rows,
		sync: func() {},
		memory: func() (calibrate.Copy, error) {
			return calibrate.Copy{CopyPerSecond: 4e6, CopyCRCNanos: 100, PopulateNanos: float64(os.Getpagesize())}, nil
		},
		measure: map[kind]func(context.Context, row, string) (result, error){ours: measure, javas: measure, bare: measure, writeBack: measure},
	}
	return b, &out
}

func requireNothingLeft(t *testing.T, b *bench) {
	t.Helper()
	entries, err := os.ReadDir(b.dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestRun(t *testing.T) {
	all := rows(testSizes)
	b, out := fake(t, all, func(r row) (result, error) { return justKept(r), nil })
	missed, err := b.run(t.Context())
	require.NoError(t, err)
	require.Zero(t, missed, out)
	requireNothingLeft(t, b)
	require.NotContains(t, out.String(), "not measured")
	for _, line := range []string{
		"RATIO put_async_1m_of_copy 0.25 >= 0.25 ok\n",
		"RATIO put_async_10m_of_java 8.00 >= 8 ok\n",
		"RATIO put_populated_of_copy_crc 1.60 <= 1.6 ok\n",
		"RATIO put_roll_ms 0.50 <= 0.5 ok\n",
		"RATIO put_sync_256_of_bare 22.0 >= 22 ok\n",
		"RATIO put_sync_64_of_java 5.00 >= 5 ok\n",
		"RATIO put_sync_device_kib 12.0 <= 12 ok\n",
		"async-1m: 1000000 messages, log written at 0 MB/s; the disk writes back 800 MB/s; one thread brings in new pages at 1000 MB/s\n",
	} {
		require.Contains(t, out.String(), line)
	}

	raw, err := os.ReadFile(b.out)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	require.Len(t, lines, 1+3*len(all))
	var first, last record
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	require.Equal(t, "machine", first.Row)
	require.Contains(t, string(first.Raw), `"kernel"`)
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	require.Equal(t, 3, last.Repetition)
	require.JSONEq(t, `{"x":1}`, string(last.Raw))
	require.InEpsilon(t, 4e6, last.MemoryAfter.CopyPerSecond, 1e-9)
}

// Every limit is one that a slower store misses, on its own side.
func TestEveryLimitCanBeMissed(t *testing.T) {
	all := rows(testSizes)
	b, out := fake(t, all, func(r row) (result, error) {
		x := justKept(r)
		x.latency.P99 += time.Microsecond
		x.allocs *= 2
		x.bytesPerSync++
		x.rolls.P50++
		x.rolls.Max++
		if r.kind == ours {
			x.perSecond *= 0.99
		}
		if r.name == "async-8" {
			x.perSecond *= 0.99
		}
		return x, nil
	})
	missed, err := b.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, len(ratios()), missed, out)
	require.Equal(t, len(ratios()), strings.Count(out.String(), " missed\n"))
	require.NotContains(t, out.String(), " ok\n")
}

// The median decides: one bad repetition of three does not, two do.
func TestMedianDecides(t *testing.T) {
	for bad, want := range map[int]int{1: 0, 2: 1} {
		n := 0
		b, out := fake(t, chosen(rows(testSizes), regexp.MustCompile("^async-1m$"), false, false), func(r row) (result, error) {
			x := justKept(r)
			if n++; n <= bad {
				x.allocs = 1
			}
			return x, nil
		})
		missed, err := b.run(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, missed, out)
		require.Contains(t, out.String(), "not measured: put_async_1m_of_java, ")
	}
}

func TestRunFails(t *testing.T) {
	failure := errors.New("broken")
	b, _ := fake(t, rows(testSizes), func(row) (result, error) { return result{}, failure })
	_, err := b.run(t.Context())
	require.ErrorIs(t, err, failure)
	require.ErrorContains(t, err, "repetition 1: row writeback: ")
	requireNothingLeft(t, b)

	b, _ = fake(t, rows(testSizes), func(r row) (result, error) { return justKept(r), nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	requireNothingLeft(t, b)
}

func TestRows(t *testing.T) {
	all := rows(testSizes)
	seen := map[string]bool{}
	for _, r := range all {
		require.False(t, seen[r.name], r.name)
		seen[r.name] = true
	}
	for _, r := range chosen(rows(testSizes), everything, false, false) {
		require.NotEqual(t, javas, r.kind)
		require.False(t, r.info)
	}
	require.Len(t, chosen(rows(testSizes), everything, true, true), len(all))
	// Without the rows of information every limit is still measured.
	b, out := fake(t, chosen(rows(testSizes), everything, true, false), func(r row) (result, error) { return justKept(r), nil })
	_, err := b.run(t.Context())
	require.NoError(t, err)
	require.NotContains(t, out.String(), "not measured")
}

func TestSpread(t *testing.T) {
	reps := func(values ...float64) (all []repetition) {
		for _, v := range values {
			all = append(all, repetition{"r": {perSecond: v}})
		}
		return all
	}
	v, ok := report.Spread(reps(5, 1, 9, 3, 7), rate("r"))
	require.True(t, ok)
	require.Equal(t, [3]float64{1, 5, 9}, v)
	for name, all := range map[string][]repetition{"none": nil, "a row that is missing": {{}}, "no number": reps(math.NaN()), "endless": reps(math.Inf(1))} {
		_, ok = report.Spread(all, rate("r"))
		require.False(t, ok, name)
	}
}

func TestParseOurs(t *testing.T) {
	x, err := parseOurs([]byte(`{"runs": [{"messagesPerSecond": 7, "logBytesPerSecond": 8, "latency": {"samples": 1, "p50Nanos": 2, "p99Nanos": 3},
		"rolls": {"maxNanos": 4}, "allocsPerPut": 0.5, "syncs": 10, "deviceBytes": 100, "undurableMaxBytes": 5, "undurableMaxMillis": 6}]}`))
	require.NoError(t, err)
	require.InEpsilon(t, 7.0, x.perSecond, 1e-9)
	require.InEpsilon(t, 8.0, x.logBytesPerSecond, 1e-9)
	require.Equal(t, calibrate.Summary{Samples: 1, P50: 2, P99: 3}, x.latency)
	require.EqualValues(t, 4, x.rolls.Max)
	require.InEpsilon(t, 10.0, x.bytesPerSync, 1e-9)
	require.InEpsilon(t, 0.5, x.allocs, 1e-9)
	require.True(t, json.Valid(x.raw))
	require.NotContains(t, string(x.raw), "\n")

	x, err = parseOurs([]byte(`{"runs": [{"syncs": 10, "deviceBytes": -1}]}`))
	require.NoError(t, err)
	require.Negative(t, x.bytesPerSync)
	for _, bad := range []string{"", "{}", `{"runs": [{}, {}]}`} {
		_, err = parseOurs([]byte(bad))
		require.Error(t, err, bad)
	}
}

func TestParseJava(t *testing.T) {
	x, err := parseJava([]byte("noise\n" + `{"t":"put","messages":10,"seconds":2,"messagesPerSecond":5,"logBytes":400,"p50Nanos":1,"p99Nanos":2,"p999Nanos":3,"maxNanos":4}` + "\n"))
	require.NoError(t, err)
	require.InEpsilon(t, 5.0, x.perSecond, 1e-9)
	require.InEpsilon(t, 200.0, x.logBytesPerSecond, 1e-9)
	require.Equal(t, calibrate.Summary{P50: 1, P99: 2, P999: 3, Max: 4}, x.latency)
	_, err = parseJava([]byte("noise\n"))
	require.ErrorContains(t, err, "StorePut printed no measurement")
}

func TestOutput(t *testing.T) {
	out, err := output(exec.Command("sh", "-c", "echo yes"))
	require.NoError(t, err)
	require.Equal(t, "yes\n", string(out))
	_, err = output(exec.Command("sh", "-c", "echo why >&2; exit 3"))
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "why")
}
