package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/report"
)

// repetition is the results of one repetition by row name.
type repetition map[string]result

// The limits. M is the rate of copying 1 KiB into warm memory.
func ratios() []report.Ratio[repetition] {
	return []report.Ratio[repetition]{
		report.AtLeast("dispatch_file_of_copy", 0.4, ofCopy("catchup-file")),
		report.AtLeast("dispatch_file_index_of_copy", 0.2, ofCopy("catchup-file-index")),
		report.AtLeast("dispatch_file_1000_of_copy", 0.1, ofCopy("catchup-file-1000")),
		report.AtLeast("dispatch_combine_of_copy", 0.18, ofCopy("catchup-combine")),
		report.AtLeast("dispatch_combine_1000_of_copy", 0.1, ofCopy("catchup-combine-1000")),
		report.AtLeast("dispatch_combine_100000_of_copy", 0.1, ofCopy("catchup-combine-100000")),
		report.AtLeast("dispatch_rocks_of_copy", 0.18, ofCopy("catchup-rocks")),
		report.AtLeast("dispatch_rocks_1000_of_copy", 0.1, ofCopy("catchup-rocks-1000")),
		report.AtLeast("dispatch_rocks_100000_of_copy", 0.1, ofCopy("catchup-rocks-100000")),
		report.AtLeast("rebuild_file_of_java", 5, report.Of(ready("java-rebuild-file"), ready("rebuild-file"))),
		report.AtLeast("rebuild_rocks_of_java", 5, report.Of(ready("java-rebuild-rocks"), ready("rebuild-rocks"))),
		report.AtMost("restart_100000_seconds", 2, func(r repetition) float64 { return ready("restart-rocks")(r) / 1000 }),
		report.AtLeast("restart_100000_of_java", 5, report.Of(ready("java-restart-rocks"), ready("restart-rocks"))),
		report.AtLeast("scan_of_read", 0.8, report.Of(bytesRate("scan"), bytesRate("read"))),
		report.AtMost("idle_cpu", 0.01, field("idle-file", func(x result) float64 { return x.CPUShare })),
		report.AtMost("lag_file_growth", 0.01, field("lag-file", func(x result) float64 { return x.Slope })),
		report.AtMost("lag_combine_growth", 0.01, field("lag-combine", func(x result) float64 { return x.Slope })),
		report.AtMost("lag_rocks_growth", 0.01, field("lag-rocks", func(x result) float64 { return x.Slope })),
	}
}

func field(row string, f func(result) float64) func(repetition) float64 {
	return func(r repetition) float64 {
		if x, ok := r[row]; ok {
			return f(x)
		}
		return math.NaN()
	}
}

func ofCopy(row string) func(repetition) float64 {
	return field(row, func(x result) float64 { return x.PerSecond / x.CopyPerSecond })
}

func ready(row string) func(repetition) float64 {
	return field(row, func(x result) float64 { return x.Millis })
}

func bytesRate(row string) func(repetition) float64 {
	return field(row, func(x result) float64 { return x.BytesPerSecond })
}

// table prints the median of every figure, and the spread of the main one.
func table(w io.Writer, rows []row, all []repetition) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nrow\tmedian\tmin\tmax\tunit\tof M\n")
	for _, r := range rows {
		for _, f := range []struct {
			unit  string
			value func(result) float64
		}{
			{"messages/s", func(x result) float64 { return x.PerSecond }},
			{"MB/s", func(x result) float64 { return x.BytesPerSecond / 1e6 }},
			{"ms", func(x result) float64 { return x.Millis }},
			{"of a processor", func(x result) float64 { return x.CPUShare }},
		} {
			v, ok := report.Spread(all, field(r.name, f.value))
			if !ok || v[2] == 0 {
				continue
			}
			share := "-"
			if f.unit == "messages/s" {
				m, _ := report.Spread(all, ofCopy(r.name))
				share = calibrate.Short(m[1])
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.name, calibrate.Short(v[1]), calibrate.Short(v[0]), calibrate.Short(v[2]), f.unit, share)
		}
	}
	_ = t.Flush()
	fmt.Fprintln(w)
}
