package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/report"
)

// text tells in a line what the row gave.
func (x result) text(k kind) string {
	switch k {
	case writeBack:
		return fmt.Sprintf("%.0f MB/s", x.logBytesPerSecond/1e6)
	case bare:
		return fmt.Sprintf("%.0f syncs/s, p50 %.0f us, p99 %.0f us, %s a sync", x.perSecond, micros(x.latency.P50), micros(x.latency.P99), kib(x.bytesPerSync))
	}
	return fmt.Sprintf("%.0f messages/s, p50 %.1f us, p99 %.1f us", x.perSecond, micros(x.latency.P50), micros(x.latency.P99))
}

func kib(bytes float64) string {
	if bytes < 0 {
		return "n/a"
	}
	return fmt.Sprintf("%.1f KiB", bytes/1024)
}

// table prints the median of every figure, and the spread of the rate.
func table(w io.Writer, rows []row, all []repetition) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nrow\t1/s median\tmin\tmax\tof M\tlog MB/s\tp50 us\tp99 us\tp99.9 us\tlongest ms\tKiB a sync\tundurable MiB, ms\n")
	for _, r := range rows {
		median := func(f func(result) float64) string {
			v, _ := report.Spread(all, field(r.name, f))
			return calibrate.Short(v[1])
		}
		v, _ := report.Spread(all, rate(r.name))
		sync, _ := report.Spread(all, field(r.name, func(x result) float64 { return x.bytesPerSync }))
		perSync := "-"
		if sync[1] > 0 {
			perSync = calibrate.Short(sync[1] / 1024)
		}
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s, %s\n", r.name, v[1], v[0], v[2],
			median(func(x result) float64 { return x.perSecond / x.copyPerSecond }),
			median(func(x result) float64 { return x.logBytesPerSecond / 1e6 }),
			median(func(x result) float64 { return micros(x.latency.P50) }),
			median(func(x result) float64 { return micros(x.latency.P99) }),
			median(func(x result) float64 { return micros(x.latency.P999) }),
			median(func(x result) float64 { return micros(x.latency.Max) / 1000 }),
			perSync,
			median(func(x result) float64 { return float64(x.undurableBytes) / (1 << 20) }),
			median(func(x result) float64 { return x.undurableMillis }))
	}
	_ = t.Flush()
	fmt.Fprintln(w)
}
