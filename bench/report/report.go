// Package report is what benchmarks print: figures of rows, the median over repetitions, and one RATIO line for each limit.
package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tandemq/tandemmq/bench/calibrate"
)

// CopyPerSecond is the figure that has M, the rate of copying 1 KiB into warm memory, beside a row.
const CopyPerSecond = "copyPerSecond"

// Figures is what a row gave, by name. The unit is the end of the name: PerSecond, Millis, Micros, Nanos, Bytes, MiB.
type Figures map[string]float64

func (x Figures) String() string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(x)) {
		if name != CopyPerSecond {
			words = append(words, name+" "+calibrate.Short(x[name]))
		}
	}
	return strings.Join(words, ", ")
}

// Repetition is the results of one repetition by row name.
type Repetition map[string]Figures

// Value is computed of a repetition; NaN when it lacks a row that is needed.
type Value = func(Repetition) float64

// Fig is a figure of a row.
func Fig(row, name string) Value {
	return func(r Repetition) float64 {
		if v, ok := r[row][name]; ok {
			return v
		}
		return math.NaN()
	}
}

// Of is a by b.
func Of[R any](a, b func(R) float64) func(R) float64 {
	return func(r R) float64 { return a(r) / b(r) }
}

// Ratio is a limit: of a value that repetitions give, the median has to keep it. R is what a repetition gives; of one that lacks a row that is needed the value is NaN.
type Ratio[R any] struct {
	Name  string
	op    string // ">=" or "<="
	limit float64
	value func(R) float64
}

// AtLeast is a limit from below, AtMost one from above.
func AtLeast[R any](name string, limit float64, v func(R) float64) Ratio[R] {
	return Ratio[R]{name, ">=", limit, v}
}

// AtMost is a limit from above.
func AtMost[R any](name string, limit float64, v func(R) float64) Ratio[R] {
	return Ratio[R]{name, "<=", limit, v}
}

// Spread is calibrate.Spread of what the repetitions give that have the rows.
func Spread[R any](all []R, f func(R) float64) (v [3]float64, ok bool) {
	var values []float64
	for _, r := range all {
		if x := f(r); !math.IsNaN(x) {
			values = append(values, x)
		}
	}
	return calibrate.Spread(values)
}

// PrintRatios prints one line for each limit, and returns how many are missed.
func PrintRatios[R any](w io.Writer, ratios []Ratio[R], all []R) (missed int) {
	var unmeasured []string
	for _, r := range ratios {
		v, ok := Spread(all, r.value)
		if !ok {
			unmeasured = append(unmeasured, r.Name)
			continue
		}
		verdict := "ok"
		if r.op == ">=" && v[1] < r.limit || r.op == "<=" && v[1] > r.limit {
			verdict = "missed"
			missed++
		}
		fmt.Fprintf(w, "RATIO %s %s %s %v %s\n", r.Name, calibrate.Short(v[1]), r.op, r.limit, verdict)
	}
	if len(unmeasured) > 0 {
		fmt.Fprintf(w, "not measured: %s\n", strings.Join(unmeasured, ", "))
	}
	return missed
}

// Table prints the median of every figure of the rows, and its spread.
func Table(w io.Writer, rows []string, all []Repetition) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nrow\tfigure\tmedian\tmin\tmax\n")
	for _, row := range rows {
		names := map[string]bool{}
		for _, rep := range all {
			for name := range rep[row] {
				names[name] = true
			}
		}
		delete(names, CopyPerSecond)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if v, ok := Spread(all, Fig(row, name)); ok {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", row, name, calibrate.Short(v[1]), calibrate.Short(v[0]), calibrate.Short(v[2]))
			}
		}
	}
	_ = t.Flush()
	fmt.Fprintln(w)
}

// Slope is by how much the values grow from one to the next, by least squares; 0 of fewer than two.
func Slope[T int64 | float64](values []T) float64 {
	n := float64(len(values))
	var x, y, xx, xy float64
	for i, v := range values {
		a, b := float64(i), float64(v)
		x, y, xx, xy = x+a, y+b, xx+a*a, xy+a*b
	}
	if d := n*xx - x*x; d > 0 {
		return (n*xy - x*y) / d
	}
	return 0
}

// Trend is by how much the values grow from one to the next, the median over all pairs (Theil and Sen); 0 of fewer than two. A step outside of the middle,
// however high, is no growth; what grows again and again is.
func Trend(values []float64) float64 {
	var slopes []float64
	for i := range values {
		for j := range i {
			slopes = append(slopes, (values[i]-values[j])/float64(i-j))
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	slices.Sort(slopes)
	return (slopes[(len(slopes)-1)/2] + slopes[len(slopes)/2]) / 2
}

// Output runs the program and returns what it printed; of a program that fails the error tells what it said.
func Output(cmd *exec.Cmd) ([]byte, error) {
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		text := strings.TrimSpace(errs.String())
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, text[max(0, len(text)-2000):])
	}
	return out, nil
}
