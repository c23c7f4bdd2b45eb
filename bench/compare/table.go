package compare

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/tandemq/tandemmq/bench/calibrate"
)

// Spread returns the least, the median and the largest of a figure over the repetitions that did not fail.
func (r *Row) Spread(figure string) (v [3]float64, ok bool) {
	return calibrate.Spread(r.values(figure))
}

// Failed returns why the row failed; "": it did not.
func (r *Row) Failed() string {
	for _, one := range r.Repetitions {
		if one.Failed != "" {
			return one.Failed
		}
	}
	return ""
}

// MoreIsBetter tells whether a figure is a rate.
func MoreIsBetter(figure string) bool { return strings.HasSuffix(figure, "PerSecond") }

// Row returns what an engine did in a scenario.
func (r *Report) Row(scenario, engine string) *Row {
	for i := range r.Rows {
		if r.Rows[i].Scenario == scenario && r.Rows[i].Engine == engine {
			return &r.Rows[i]
		}
	}
	return nil
}

// Advantage is how many times as good as another engine a row is, by the medians of its headline: above 1 it is better, whether more or less of it is. ok is false where one of them has none.
func (r *Report) Advantage(row *Row, engine string) (times float64, ok bool) {
	other := r.Row(row.Scenario, engine)
	if other == nil {
		return 0, false
	}
	own, ok1 := row.Spread(row.Headline)
	its, ok2 := other.Spread(row.Headline)
	if !ok1 || !ok2 || own[1] == 0 || its[1] == 0 {
		return 0, false
	}
	if MoreIsBetter(row.Headline) {
		return own[1] / its[1], true
	}
	return its[1] / own[1], true
}

// Nearest returns the limit of the machine that a row comes nearest to, and what part of it that is: above 1 it is faster than that limit, which then is none for it.
func (r *Report) Nearest(row *Row) (limit Limit, share float64, ok bool) {
	for _, l := range r.Limits {
		figure, bound := row.Bounds[l.Name]
		if !bound {
			continue
		}
		v, there := row.Spread(figure)
		m, measured := calibrate.Spread(l.Values)
		if !there || !measured || v[1] == 0 || m[1] == 0 {
			continue
		}
		part := v[1] / m[1]
		if l.Unit == "ns" { // less is better
			part = 1 / part
		}
		if part > share {
			limit, share, ok = l, part, true
		}
	}
	return limit, share, ok
}

// units of figures, by the ends of their names.
var units = []struct{ end, unit string }{
	{"PerMiB", "/MiB"}, {"BytesPerSecond", "B/s"}, {"bytesPerSecond", "B/s"}, {"PerSecond", "/s"}, {"Millis", "ms"}, {"Micros", "us"}, {"Nanos", "ns"}, {"Seconds", "s"}, {"MiB", "MiB"}, {"Bytes", "B"},
}

// Unit returns the unit of a figure; "": it has none.
func Unit(figure string) string {
	for _, u := range units {
		if strings.HasSuffix(figure, u.end) {
			return u.unit
		}
	}
	return ""
}

// Number writes a value in three digits or so, with a thousand's prefix.
func Number(v float64, unit string) string {
	prefix := ""
	for _, larger := range []struct{ small, unit string }{{"ns", "us"}, {"us", "ms"}, {"ms", "s"}} {
		if unit == larger.small && math.Abs(v) >= 1000 {
			v, unit = v/1000, larger.unit
		}
	}
	if strings.HasSuffix(unit, "/s") || unit == "" || unit == "B" {
		for _, p := range []string{"k", "M", "G"} {
			if math.Abs(v) < 1000 {
				break
			}
			v, prefix = v/1000, p
		}
	}
	return strings.TrimSpace(calibrate.Short(v) + " " + prefix + unit)
}

// Text writes the report as tables and RATIO lines.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Machine)
	r.limitsText(&b)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nscenario\tengine\tfigure\tmedian\tleast\tmost\tof java\tof the nearest limit\n")
	for i := range r.Rows {
		row := &r.Rows[i]
		unit := Unit(row.Headline)
		v, ok := row.Spread(row.Headline)
		if !ok {
			fmt.Fprintf(t, "%s\t%s\t%s\tfailed\n", row.Scenario, row.Engine, row.Headline)
			continue
		}
		java, near := "", ""
		for _, e := range []string{Java, JavaRocks} {
			if times, ok := r.Advantage(row, e); ok && !IsJava(row.Engine) {
				java = strings.TrimPrefix(java+", "+calibrate.Short(times)+" x", ", ")
			}
		}
		if l, share, ok := r.Nearest(row); ok {
			near = calibrate.Short(share) + " " + l.Name
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Scenario, row.Engine, row.Headline, Number(v[1], unit), Number(v[0], unit), Number(v[2], unit), java, near)
	}
	_ = t.Flush()
	b.WriteString("\nof java: how many times as good as RocketMQ's store, where it was run with RocksDB queues (java-rocks) as that, too. Of the nearest limit: what part of what the machine gives.\n")
	for i := range r.Rows {
		if why := r.Rows[i].Failed(); why != "" {
			fmt.Fprintf(&b, "FAILED %s with %s: %s\n", r.Rows[i].Scenario, r.Rows[i].Engine, why)
		}
	}
	for _, why := range r.Left {
		fmt.Fprintf(&b, "left out: %s\n", why)
	}
	for _, more := range r.Full {
		fmt.Fprintf(&b, "the full profile adds %s\n", more)
	}
	for _, x := range r.Ratios {
		fmt.Fprintln(&b, x)
	}
	fmt.Fprintf(&b, "%d rows in %.0f s, %s profile\n", len(r.Rows), r.Seconds, r.Profile)
	_, err := io.WriteString(w, b.String())
	return err
}

// limitsText writes the limits.
func (r *Report) limitsText(b *strings.Builder) {
	if len(r.Limits) == 0 {
		return
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nlimit\tmedian\tleast\tmost\twhat it is\n")
	for _, l := range r.Limits {
		v, ok := calibrate.Spread(l.Values)
		if !ok {
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", l.Name, Number(v[1], l.Unit), Number(v[0], l.Unit), Number(v[2], l.Unit), l.Title)
	}
	_ = t.Flush()
}

// String is the line of a limit.
func (x Ratio) String() string {
	verdict := "ok"
	if !x.Kept {
		verdict = "missed"
	}
	return fmt.Sprintf("RATIO %s %s %s %v %s", x.Name, calibrate.Short(x.Value), x.Op, x.Limit, verdict)
}
