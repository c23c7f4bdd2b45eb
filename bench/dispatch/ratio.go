package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

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

// The limits. M is the rate of copying 1 KiB into warm memory.
func ratios() []ratio {
	return []ratio{
		{"dispatch_file_of_copy", ">=", 0.4, ofCopy("catchup-file")},
		{"dispatch_file_index_of_copy", ">=", 0.2, ofCopy("catchup-file-index")},
		{"dispatch_file_1000_of_copy", ">=", 0.1, ofCopy("catchup-file-1000")},
		{"dispatch_combine_of_copy", ">=", 0.18, ofCopy("catchup-combine")},
		{"dispatch_combine_1000_of_copy", ">=", 0.1, ofCopy("catchup-combine-1000")},
		{"dispatch_combine_100000_of_copy", ">=", 0.1, ofCopy("catchup-combine-100000")},
		{"dispatch_rocks_of_copy", ">=", 0.18, ofCopy("catchup-rocks")},
		{"dispatch_rocks_1000_of_copy", ">=", 0.1, ofCopy("catchup-rocks-1000")},
		{"dispatch_rocks_100000_of_copy", ">=", 0.1, ofCopy("catchup-rocks-100000")},
		{"rebuild_file_of_java", ">=", 5, of(ready("java-rebuild-file"), ready("rebuild-file"))},
		{"rebuild_rocks_of_java", ">=", 5, of(ready("java-rebuild-rocks"), ready("rebuild-rocks"))},
		{"restart_100000_seconds", "<=", 2, func(r repetition) float64 { return ready("restart-rocks")(r) / 1000 }},
		{"restart_100000_of_java", ">=", 5, of(ready("java-restart-rocks"), ready("restart-rocks"))},
		{"scan_of_read", ">=", 0.8, of(bytesRate("scan"), bytesRate("read"))},
		{"idle_cpu", "<=", 0.01, field("idle-file", func(x result) float64 { return x.CPUShare })},
		{"lag_file_growth", "<=", 0.01, field("lag-file", func(x result) float64 { return x.Slope })},
		{"lag_combine_growth", "<=", 0.01, field("lag-combine", func(x result) float64 { return x.Slope })},
		{"lag_rocks_growth", "<=", 0.01, field("lag-rocks", func(x result) float64 { return x.Slope })},
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

func of(a, b func(repetition) float64) func(repetition) float64 {
	return func(r repetition) float64 { return a(r) / b(r) }
}

func spread(all []repetition, f func(repetition) float64) (v [3]float64, ok bool) {
	values := make([]float64, len(all))
	for i, r := range all {
		values[i] = f(r)
	}
	return calibrate.Spread(values)
}

// printRatios prints one line for each limit, and returns how many are missed.
func printRatios(w io.Writer, all []repetition) (missed int) {
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
	return missed
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
			v, ok := spread(all, field(r.name, f.value))
			if !ok || v[2] == 0 {
				continue
			}
			share := "-"
			if f.unit == "messages/s" {
				m, _ := spread(all, ofCopy(r.name))
				share = calibrate.Short(m[1])
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.name, calibrate.Short(v[1]), calibrate.Short(v[0]), calibrate.Short(v[2]), f.unit, share)
		}
	}
	_ = t.Flush()
	fmt.Fprintln(w)
}
