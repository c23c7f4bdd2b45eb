package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/tandemq/tandemmq/bench/report"
)

// repetition is the results of one repetition by row name.
type repetition map[string]result

// The limits of the issue that asked for the log. M is the rate of copying 1 KiB into warm memory, J the RocketMQ store.
func ratios() []report.Ratio[repetition] {
	all := []report.Ratio[repetition]{
		report.AtLeast("put_async_1m_of_copy", 0.25, ofCopy("async-1m")),
		report.AtLeast("put_async_1m_of_java", 8, report.Of(rate("async-1m"), rate("java-async"))),
		report.AtLeast("put_async_10m_of_copy", 0.25, ofCopy("async-10m")),
		report.AtLeast("put_async_10m_of_java", 8, report.Of(rate("async-10m"), rate("java-async"))),
		report.AtMost("put_populated_of_copy_crc", 1.6, func(r repetition) float64 {
			return 1e9 / rate("populated")(r) / field("populated", func(x result) float64 { return x.copyCRCNanos })(r)
		}),
		// Whatever happens beside the puts, a flush now and then, allocates too.
		report.AtMost("put_allocs", 0.01, field("async-1m", func(x result) float64 { return x.allocs })),
		report.AtMost("put_p99_us", 20, field("async-1m", func(x result) float64 { return micros(x.latency.P99) })),
		report.AtMost("put_roll_ms", 0.5, rolls("async-1m", func(x result) time.Duration { return x.rolls.Max })),
		report.AtMost("put_roll_10m_p50_ms", 0.5, rolls("async-10m", func(x result) time.Duration { return x.rolls.P50 })),
		report.AtLeast("put_8_producers_of_1", 1, report.Of(rate("async-8"), rate("async-1m"))),
	}
	// With queues and index built beside it, as Java's row has them.
	for _, kind := range []string{"default", "defaultRocksDB"} {
		all = append(all, report.AtLeast("put_async_1m_queues_"+kind+"_of_java", 8, report.Of(rate("async-1m-queues-"+kind), rate("java-async"))))
	}
	for i, n := range syncProducers {
		row := fmt.Sprintf("sync-%d", n)
		all = append(all, report.AtLeast(fmt.Sprintf("put_sync_%d_of_bare", n), []float64{0.8, 4, 10, 22}[i], report.Of(rate(row), rate(fmt.Sprintf("bare-%d", n)))))
		if n > 1 { // one producer waits for the disk, whoever's store it is
			all = append(all, report.AtLeast(fmt.Sprintf("put_sync_%d_of_java", n), 5, report.Of(rate(row), rate("java-"+row))))
		}
	}
	return append(all, report.AtMost("put_sync_device_kib", 12, field("sync-1", func(x result) float64 {
		if x.bytesPerSync < 0 {
			return math.NaN()
		}
		return x.bytesPerSync / 1024
	})))
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
	missed = report.PrintRatios(w, ratios(), all)
	note(w, all, s)
	return missed
}

// note says what else than the store may have set the pace: the disk, and the kernel that brings in new pages.
func note(w io.Writer, all []repetition, s sizes) {
	for _, row := range []struct {
		name     string
		messages int64
	}{{"async-1m", s.messages}, {"async-10m", s.big}} {
		logRate, ok := report.Spread(all, field(row.name, func(x result) float64 { return x.logBytesPerSecond }))
		if !ok {
			continue
		}
		fmt.Fprintf(w, "%s: %d messages, log written at %.0f MB/s", row.name, row.messages, logRate[1]/1e6)
		if disk, ok := report.Spread(all, field("writeback", func(x result) float64 { return x.logBytesPerSecond })); ok {
			fmt.Fprintf(w, "; the disk writes back %.0f MB/s", disk[1]/1e6)
		}
		// Every page of the log is a new one: the bytes a second that one thread can bring in.
		pages, _ := report.Spread(all, field(row.name, func(x result) float64 { return float64(os.Getpagesize()) * 1e9 / x.populateNanos }))
		fmt.Fprintf(w, "; one thread brings in new pages at %.0f MB/s\n", pages[1]/1e6)
	}
}
