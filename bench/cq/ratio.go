package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tandemq/tandemmq/bench/calibrate"
)

// repetition is the results of one repetition by row name.
type repetition map[string]figures

// ratio is a limit: of a value that repetitions give, the median has to keep it. A repetition without the rows that it needs gives NaN.
type ratio struct {
	name  string
	op    string // ">=" or "<="
	limit float64
	value func(repetition) float64
}

// The limits. J is the RocketMQ store at the same work, M the rate of copying 1 KiB into warm memory.
func ratios() []ratio {
	all := []ratio{
		{"rocks_append_8", ">=", 1.8e6, fig("rocks-append-8", "unitsPerSecond")},
		{"rocks_append_100000", ">=", 0.8e6, fig("rocks-append-100000", "unitsPerSecond")},
		{"rocks_read_32", ">=", 1.8e6, fig("rocks-read", "read32PerSecond")},
		{"rocks_read_256", ">=", 3e6, fig("rocks-read", "read256PerSecond")},
		{"rocks_get_of_bare", "<=", 1.2, of(fig("rocks-read", "getMicros"), fig("rocks-read", "bareGetMicros"))},
		{"rocks_tail_of_bare", "<=", 0.1, of(fig("rocks-read", "tailMicros"), fig("rocks-read", "bareGetMicros"))},
		{"file_append", ">=", 25e6, fig("file-append-8", "unitsPerSecond")},
		{"rocks_disk_bytes", "<=", 12, fig("written-rocks", "diskBytes")},
		{"combine_readable_p99_ms", "<=", 5, fig("readable-combine", "readableP99Millis")},
		{"combine_readable_rate", ">=", 0.99 * pacedPerSecond, fig("readable-combine", "putPerSecond")},
		{"combine_put_of_copy", ">=", 0.18, of(fig("sustained-combine", "putPerSecond"), fig("sustained-combine", "copyPerSecond"))},
		{"combine_lag_growth", "<=", 0.01, fig("sustained-combine", "lagGrowth")},
		{"combine_put_of_file", ">=", 0.9, of(fig("sustained-combine", "putPerSecond"), fig("sustained-file", "putPerSecond"))},
	}
	built := func(name string, limit float64) {
		all = append(all, ratio{"built_" + under(name) + "_of_java", ">=", limit, ofJava(name, "builtPerSecond")})
	}
	built("rocks", 8)
	built("combine", 8)
	built("big-rocks", 8)
	built("big-combine", 8)
	all = append(all,
		ratio{"pull_rocks_of_java", ">=", 10, ofJava("rocks", "pullPerSecond")},
		ratio{"get_rocks_of_java", "<=", 0.5, ofJava("rocks", "getP50Micros")},
		ratio{"time_rocks_of_java", "<=", 0.25, ofJava("rocks", "timeP50Micros")},
	)
	built("many-file", 3)
	built("many-rocks", 10)
	built("many-combine", 10)
	for _, name := range []string{"file", "rocks", "combine", "many-file", "many-rocks", "many-combine"} {
		all = append(all, ratio{"reopen_" + under(name) + "_of_java", "<=", 0.2, ofJava(name, "readyMillis")})
	}
	return all
}

func under(name string) string { return strings.ReplaceAll(name, "-", "_") }

func fig(row, name string) func(repetition) float64 {
	return func(r repetition) float64 {
		if v, ok := r[row][name]; ok {
			return v
		}
		return math.NaN()
	}
}

func of(a, b func(repetition) float64) func(repetition) float64 {
	return func(r repetition) float64 { return a(r) / b(r) }
}

func ofJava(name, figure string) func(repetition) float64 {
	return of(fig("store-"+name, figure), fig("java-"+name, figure))
}

// spread is calibrate.Spread of what the repetitions give that have the rows.
func spread(all []repetition, f func(repetition) float64) (v [3]float64, ok bool) {
	var values []float64
	for _, r := range all {
		if x := f(r); !math.IsNaN(x) {
			values = append(values, x)
		}
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
	note(w, all)
	return missed
}

// note says what the share of M asks for.
func note(w io.Writer, all []repetition) {
	m, ok := spread(all, fig("sustained-combine", "copyPerSecond"))
	if !ok {
		return
	}
	put, _ := spread(all, fig("sustained-combine", "putPerSecond"))
	const record = 1.2 // KiB
	fmt.Fprintf(w, "0.18 of M (%.1f million/s) is %.2f million messages/s or %.1f GB/s of log, %.0f ns a message; measured: %.0f ns\n",
		m[1]/1e6, 0.18*m[1]/1e6, 0.18*m[1]*record*1024/1e9, 1e9/(0.18*m[1]), 1e9/put[1])
}

// table prints the median of every figure, and its spread.
func table(w io.Writer, rows []row, all []repetition) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nrow\tfigure\tmedian\tmin\tmax\n")
	for _, r := range rows {
		names := map[string]bool{}
		for _, rep := range all {
			for name := range rep[r.name] {
				names[name] = true
			}
		}
		delete(names, "copyPerSecond")
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if v, ok := spread(all, fig(r.name, name)); ok {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.name, name, calibrate.Short(v[1]), calibrate.Short(v[0]), calibrate.Short(v[2]))
			}
		}
	}
	_ = t.Flush()
	fmt.Fprintln(w)
}
