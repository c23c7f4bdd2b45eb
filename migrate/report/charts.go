package report

import (
	"fmt"
	"math"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/htmlreport"
	"github.com/tandemq/tandemmq/internal/latency"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/migrate/state"
)

// pause is how much of a time between two samples is shown: a migration may rest for days between two steps.
const pause = 20 * time.Second

// stretch is samples in a row of the same work, at seconds from the first one, pauses shortened.
type stretch struct {
	name    string
	samples []state.Sample
	at      []float64
}

func (s *stretch) end() float64 { return s.at[len(s.at)-1] }

// took is the time from its first sample to its last.
func (s *stretch) took() time.Duration {
	return s.samples[len(s.samples)-1].Time.Sub(s.samples[0].Time)
}

// stretches splits samples.
func stretches(all []state.Sample) (out []stretch, shortened bool) {
	now := 0.0
	for i, x := range all {
		if x.Work == "" && x.Phase == "" {
			continue // of the disk alone
		}
		name := x.Work
		if name == "" {
			name = string(x.Phase)
		}
		if i > 0 {
			d := max(x.Time.Sub(all[i-1].Time), 0)
			if d > pause {
				d, shortened = pause, true
			}
			now += d.Seconds()
		}
		if len(out) == 0 || out[len(out)-1].name != name || len(out[len(out)-1].samples) > 0 && x.Of > 0 && x.Done < out[len(out)-1].samples[len(out[len(out)-1].samples)-1].Done {
			out = append(out, stretch{name: name})
		}
		s := &out[len(out)-1]
		s.samples, s.at = append(s.samples, x), append(s.at, now)
	}
	return out, shortened
}

// progress shows how far each piece of work was when, and how fast it went where it is counted in bytes.
func progress(o *migrate.Overview) htmlreport.Section {
	s := htmlreport.Section{Title: "Progress over time"}
	all, shortened := stretches(o.Samples)
	times := htmlreport.Axis{Label: "time since it began", Times: true, Format: htmlreport.Seconds}
	done := &htmlreport.Lines{X: times, Y: htmlreport.Axis{Label: "done, in percent of each piece of work", Format: percent}}
	rate := &htmlreport.Lines{X: times, Y: htmlreport.Axis{Label: "bytes in a second: of the log, read; merged by RocksDB", Bytes: true, Format: htmlreport.Bytes}}
	table := &htmlreport.Table{Head: []string{"work", "begun (UTC)", "took", "done", "a second"}}
	colors := map[string]int{}
	for i := range all {
		w := &all[i]
		done.Bands = append(done.Bands, htmlreport.Band{From: w.at[0], To: max(w.end(), next(all, i)), Label: w.name})
		last := w.samples[len(w.samples)-1]
		var of, fast []htmlreport.Point
		for k, x := range w.samples {
			if x.Of > 0 {
				of = append(of, htmlreport.Point{X: w.at[k], Y: 100 * float64(min(x.Done, x.Of)) / float64(x.Of)})
			}
			if k > 0 && x.Unit == "bytes" {
				if d := x.Time.Sub(w.samples[k-1].Time).Seconds(); d > 0.1 {
					fast = append(fast, htmlreport.Point{X: w.at[k], Y: max(float64(x.Done-w.samples[k-1].Done), 0) / d})
				}
			}
		}
		if last.Of > 0 || last.Done > 0 {
			speed := ""
			if d := w.took().Seconds(); d > 0 {
				speed = amount(float64(last.Done-w.samples[0].Done)/d, last.Unit)
			}
			table.Rows = append(table.Rows, []htmlreport.Cell{
				htmlreport.Text(w.name), htmlreport.Number(w.samples[0].Time.UTC().Format("01-02 15:04:05")), htmlreport.Number(htmlreport.Seconds(w.took().Seconds())), htmlreport.Number(amount(float64(last.Done), last.Unit)), htmlreport.Number(speed),
			})
		}
		line(done, colors, w.name, of)
		line(rate, colors, w.name, fast)
	}
	if len(done.Lines) == 0 {
		if o.State.Phase != state.Absent {
			s.Blocks = []htmlreport.Block{&htmlreport.List{Mark: htmlreport.Muted, Items: []string{"Nothing was taken down of it."}}}
		}
		return s
	}
	rate.Bands = done.Bands
	note := ""
	if shortened {
		note = fmt.Sprintf("Where nothing was taken down for more than %s, that time is shown as %[1]s.", htmlreport.Seconds(pause.Seconds()))
	}
	s.Blocks = append(s.Blocks, &htmlreport.Figure{Title: "How far", Note: note, Chart: done, Table: table})
	if len(rate.Lines) > 0 {
		s.Blocks = append(s.Blocks, &htmlreport.Figure{Title: "How fast", Chart: rate})
	}
	return s
}

func percent(v float64) string { return fmt.Sprintf("%.0f %%", v) }

// amount writes a number of units.
func amount(v float64, unit string) string {
	switch unit {
	case "bytes":
		return htmlreport.Bytes(v)
	case "":
		return htmlreport.Short(v)
	}
	return htmlreport.Short(v) + " " + unit
}

// next is where the stretch after i begins.
func next(all []stretch, i int) float64 {
	if i+1 < len(all) {
		return all[i+1].at[0]
	}
	return 0
}

// line adds points to the line of a name, beginning anew where it has some.
func line(l *htmlreport.Lines, colors map[string]int, name string, points []htmlreport.Point) {
	if len(points) == 0 {
		return
	}
	if _, ok := colors[name]; !ok {
		colors[name] = len(colors) % htmlreport.Colors
	}
	for i := range l.Lines {
		if l.Lines[i].Name == name {
			l.Lines[i].Points = append(append(l.Lines[i].Points, htmlreport.Point{X: points[0].X, Y: math.NaN()}), points...)
			return
		}
	}
	l.Lines = append(l.Lines, htmlreport.Line{Series: htmlreport.Series{Name: name, Color: colors[name]}, Points: points})
}

// queues shows how many units the queues have.
func queues(o *migrate.Overview) htmlreport.Section {
	s := htmlreport.Section{Title: "Units per queue"}
	c := o.Certificate
	if c == nil || len(c.Sizes) == 0 {
		return s
	}
	b := &htmlreport.Bars{Series: []htmlreport.Series{{Name: "queues", Color: 1}}, Common: true}
	for _, bin := range c.Sizes {
		label := htmlreport.Count(bin.From)
		if bin.To > bin.From {
			label += " – " + htmlreport.Count(bin.To)
		}
		b.Groups = append(b.Groups, htmlreport.BarGroup{Label: label, Bars: []htmlreport.Bar{{Value: float64(bin.Queues), Text: htmlreport.Count(int64(bin.Queues))}}})
	}
	t := &htmlreport.Table{Title: fmt.Sprintf("The largest %d", len(c.Top)), Head: []string{"queue", "units", "from", "up to"}}
	for _, q := range c.Top {
		t.Rows = append(t.Rows, []htmlreport.Cell{
			htmlreport.Code(fmt.Sprintf("%s/%d", q.Topic, q.QueueID)), htmlreport.Number(htmlreport.Count(q.Max - q.Min)), htmlreport.Number(htmlreport.Count(q.Min)), htmlreport.Number(htmlreport.Count(q.Max)),
		})
	}
	s.Lead = fmt.Sprintf("%s units in %s queues, as they were verified.", htmlreport.Count(c.Held), htmlreport.Count(int64(c.Queues)))
	s.Blocks = []htmlreport.Block{&htmlreport.Figure{Title: "Queues by number of units", Chart: b, Table: t}}
	return s
}

// disk shows what the queues take on the disk before and after.
func disk(o *migrate.Overview) htmlreport.Section {
	s := htmlreport.Section{Title: "Disk before and after"}
	st := &o.State
	if st.From == "" {
		return s
	}
	before, after := int64(0), o.Disk[st.To]
	for _, x := range o.Samples {
		if n := x.Disk[st.From]; n > 0 && before == 0 {
			before = n
		}
		if n := x.Disk[st.To]; n > 0 && o.Disk[st.To] == 0 {
			after = n
		}
	}
	if before == 0 {
		before = o.Disk[st.From]
	}
	var units int64
	if o.Certificate != nil {
		units = o.Certificate.Held
	}
	b := &htmlreport.Bars{Series: []htmlreport.Series{{Name: side(cq.KindFile)}, {Name: side(cq.KindRocks), Color: 1}}, Common: true}
	t := &htmlreport.Table{Head: []string{"", "bytes", "a unit"}}
	add := func(label string, kind cq.Kind, n int64) {
		if n == 0 {
			return
		}
		series := 0
		if kind == cq.KindRocks {
			series = 1
		}
		b.Groups = append(b.Groups, htmlreport.BarGroup{Label: label, Bars: []htmlreport.Bar{{Series: series, Value: float64(n), Text: htmlreport.Bytes(float64(n))}}})
		per := ""
		if units > 0 {
			per = htmlreport.Bytes(float64(n) / float64(units))
		}
		t.Rows = append(t.Rows, []htmlreport.Cell{htmlreport.Text(label + ": " + side(kind)), htmlreport.Number(htmlreport.Count(n)), htmlreport.Number(per)})
	}
	add("before", st.From, before)
	add("after", st.To, after)
	if len(b.Groups) == 0 {
		return s
	}
	s.Lead = "What the queues take. Until the old side is removed, both are there."
	if len(b.Groups) == 2 && before > 0 {
		s.Lead += fmt.Sprintf(" After is %s of before.", percent(100*float64(after)/float64(before)))
	}
	s.Blocks = []htmlreport.Block{&htmlreport.Figure{Title: "Consume queues on the disk", Chart: b, Table: t}}
	return s
}

// quantiles are those that are shown.
var quantiles = []struct {
	name string
	part float64
}{{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"largest", 1}}

// leastPuts is how many puts a percentile of a moment is told of.
const leastPuts = 20

// latencies shows how long puts took in each phase.
func latencies(o *migrate.Overview) htmlreport.Section {
	s := htmlreport.Section{Title: "Latency of puts before, meanwhile and after"}
	if o.State.Online == nil {
		return s
	}
	by := map[state.Phase]latency.Counts{}
	var order []state.Phase
	for _, x := range o.Samples {
		if len(x.Puts) == 0 {
			continue
		}
		if by[x.Phase] == nil {
			by[x.Phase] = latency.Counts{}
			order = append(order, x.Phase)
		}
		by[x.Phase].Add(x.Puts)
	}
	if len(order) == 0 {
		s.Blocks = []htmlreport.Block{&htmlreport.List{Mark: htmlreport.Muted, Items: []string{"No put was timed."}}}
		return s
	}
	r := &htmlreport.Ranges{Series: []htmlreport.Series{{Name: "puts", Color: 1}}, Format: htmlreport.Nanos}
	t := &htmlreport.Table{Head: []string{"p50", "p99", "p99.9", "largest", "timed"}}
	for _, q := range quantiles {
		r.Points = append(r.Points, q.name)
	}
	for _, p := range order {
		label := string(p) + when(&o.State, p)
		row, cells := htmlreport.Range{}, []htmlreport.Cell(nil)
		for _, q := range quantiles {
			v := float64(by[p].Quantile(q.part))
			row.Values = append(row.Values, v)
			cells = append(cells, htmlreport.Number(htmlreport.Nanos(v)))
		}
		r.Groups = append(r.Groups, htmlreport.RangeGroup{Label: label, Rows: []htmlreport.Range{row}})
		t.Rows = append(t.Rows, []htmlreport.Cell{htmlreport.Text(label)}, append(cells, htmlreport.Number(htmlreport.Count(by[p].Total()))))
	}
	note := "A dot is the median, the blocks are p99 and p99.9, the end is the largest. Values are within a tenth. The axis is logarithmic."
	s.Blocks = []htmlreport.Block{&htmlreport.Figure{Title: "By phase", Note: note, Chart: r, Table: t}}
	if l := overTime(o.Samples); l != nil {
		s.Blocks = append(s.Blocks, &htmlreport.Figure{Title: "Over time", Chart: l})
	}
	return s
}

// when says in words what a phase is to those who put.
func when(st *state.State, p state.Phase) string {
	switch p {
	case state.Planned:
		return " (before: " + side(st.From) + " alone)"
	case state.Backfilling, state.CatchingUp:
		return " (a side is filled)"
	case state.Verifying:
		return " (sides are compared)"
	case state.Verified, state.Cutover, state.Finalizing, state.RolledBack:
		return " (both are written)"
	case state.Finalized:
		return " (after: " + side(st.Kept) + " alone)"
	}
	return ""
}

// overTime is the percentiles of puts over time.
func overTime(samples []state.Sample) *htmlreport.Lines {
	all, _ := stretches(samples)
	l := &htmlreport.Lines{X: htmlreport.Axis{Label: "time since it began", Times: true, Format: htmlreport.Seconds}, Y: htmlreport.Axis{Label: "a put took", Log: true, Format: htmlreport.Nanos}}
	l.Lines = []htmlreport.Line{{Series: htmlreport.Series{Name: "p50", Color: 1}}, {Series: htmlreport.Series{Name: "p99"}}}
	points := 0
	for i := range all {
		w := &all[i]
		l.Bands = append(l.Bands, htmlreport.Band{From: w.at[0], To: max(w.end(), next(all, i)), Label: w.name})
		for k, x := range w.samples {
			if x.Puts.Total() < leastPuts {
				continue
			}
			points++
			for n, part := range []float64{0.5, 0.99} {
				l.Lines[n].Points = append(l.Lines[n].Points, htmlreport.Point{X: w.at[k], Y: float64(x.Puts.Quantile(part))})
			}
		}
	}
	if points < 3 {
		return nil
	}
	return l
}
