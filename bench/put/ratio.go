package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
)

// repetition is the results of one repetition by row name.
type repetition map[string]result

// ratio is a limit: of a value that each repetition gives, the median has to keep it. A repetition without the rows that
// it needs gives NaN.
type ratio struct {
	name  string
	op    string // ">=" or "<="
	limit float64
	value func(repetition) float64
}

// The limits of the issue that asked for the log. M is the rate of copying 1 KiB into warm memory, J the RocketMQ store.
func ratios() []ratio {
	all := []ratio{
		{"put_async_1m_of_copy", ">=", 0.25, ofCopy("async-1m")},
		{"put_async_1m_of_java", ">=", 8, of(rate("async-1m"), rate("java-async"))},
		{"put_async_10m_of_copy", ">=", 0.25, ofCopy("async-10m")},
		{"put_async_10m_of_java", ">=", 8, of(rate("async-10m"), rate("java-async"))},
		{"put_populated_of_copy_crc", "<=", 1.6, func(r repetition) float64 {
			return 1e9 / rate("populated")(r) / field("populated", func(x result) float64 { return x.copyCRCNanos })(r)
		}},
		// Whatever happens beside the puts, a flush now and then, allocates too.
		{"put_allocs", "<=", 0.01, field("async-1m", func(x result) float64 { return x.allocs })},
		{"put_p99_us", "<=", 20, field("async-1m", func(x result) float64 { return micros(x.latency.P99) })},
		{"put_roll_ms", "<=", 0.5, rolls("async-1m", func(x result) time.Duration { return x.rolls.Max })},
		{"put_roll_10m_p50_ms", "<=", 0.5, rolls("async-10m", func(x result) time.Duration { return x.rolls.P50 })},
		{"put_8_producers_of_1", ">=", 1, of(rate("async-8"), rate("async-1m"))},
	}
	// With queues and index built beside it, as Java's row has them.
	for _, kind := range []string{"default", "defaultRocksDB"} {
		all = append(all, ratio{"put_async_1m_queues_" + kind + "_of_java", ">=", 8, of(rate("async-1m-queues-"+kind), rate("java-async"))})
	}
	for i, n := range syncProducers {
		row := fmt.Sprintf("sync-%d", n)
		all = append(all, ratio{fmt.Sprintf("put_sync_%d_of_bare", n), ">=", []float64{0.8, 4, 10, 22}[i], of(rate(row), rate(fmt.Sprintf("bare-%d", n)))})
		if n > 1 { // one producer waits for the disk, whoever's store it is
			all = append(all, ratio{fmt.Sprintf("put_sync_%d_of_java", n), ">=", 5, of(rate(row), rate("java-"+row))})
		}
	}
	return append(all, ratio{"put_sync_device_kib", "<=", 12, field("sync-1", func(x result) float64 {
		if x.bytesPerSync < 0 {
			return math.NaN()
		}
		return x.bytesPerSync / 1024
	})})
}

func field(row string, f func(result) float64) func(repetition) float64 {
	return func(r repetition) float64 {
		if x, ok := r[row]; ok {
			return f(x)
		}
		return math.NaN()
	}
}

func rate(row string) func(repetition) float64 {
	return field(row, func(x result) float64 { return x.perSecond })
}

func ofCopy(row string) func(repetition) float64 {
	return field(row, func(x result) float64 { return x.perSecond / x.copyPerSecond })
}

func of(a, b func(repetition) float64) func(repetition) float64 {
	return func(r repetition) float64 { return a(r) / b(r) }
}

// rolls is NaN when the row filled no file.
func rolls(row string, f func(result) time.Duration) func(repetition) float64 {
	return field(row, func(x result) float64 {
		if x.rolls.Samples == 0 {
			return math.NaN()
		}
		return micros(f(x)) / 1000
	})
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// printRatios prints one line for each limit, and returns how many are missed.
func printRatios(w io.Writer, all []repetition, s sizes) (missed int) {
	var unmeasured []string
	for _, r := range ratios() {
		v, ok := spread(all, r.value)
		if !ok {
			unmeasured = append(unmeasured, r.name)
			continue
		}
		verdict := "ok"
		if r.op == ">=" && v[1] < r.limit || r.op == "<=" && v[1] > r.limit {
			verdict = "missed"
			missed++
		}
		fmt.Fprintf(w, "RATIO %s %s %s %v %s\n", r.name, calibrate.Short(v[1]), r.op, r.limit, verdict)
	}
	if len(unmeasured) > 0 {
		fmt.Fprintf(w, "not measured: %s\n", strings.Join(unmeasured, ", "))
	}
	note(w, all, s)
	return missed
}

// note says what else than the store may have set the pace: the disk, and the kernel that brings in new pages.
func note(w io.Writer, all []repetition, s sizes) {
	for _, row := range []struct {
		name     string
		messages int64
	}{{"async-1m", s.messages}, {"async-10m", s.big}} {
		logRate, ok := spread(all, field(row.name, func(x result) float64 { return x.logBytesPerSecond }))
		if !ok {
			continue
		}
		fmt.Fprintf(w, "%s: %d messages, log written at %.0f MB/s", row.name, row.messages, logRate[1]/1e6)
		if disk, ok := spread(all, field("writeback", func(x result) float64 { return x.logBytesPerSecond })); ok {
			fmt.Fprintf(w, "; the disk writes back %.0f MB/s", disk[1]/1e6)
		}
		// Every page of the log is a new one: the bytes a second that one thread can bring in.
		pages, _ := spread(all, field(row.name, func(x result) float64 { return float64(os.Getpagesize()) * 1e9 / x.populateNanos }))
		fmt.Fprintf(w, "; one thread brings in new pages at %.0f MB/s\n", pages[1]/1e6)
	}
}

// spread is calibrate.Spread of what the repetitions give.
func spread(all []repetition, f func(repetition) float64) (v [3]float64, ok bool) {
	values := make([]float64, len(all))
	for i, r := range all {
		values[i] = f(r)
	}
	return calibrate.Spread(values)
}
