package compare

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/internal/htmlreport"
)

// HTML writes the report as one HTML file with tables and charts, which loads nothing.
func HTML(w io.Writer, r *Report) error {
	h := page{r: r, series: seriesOf(r)}
	p := htmlreport.Page{
		Title: "Consume queue engines compared",
		Lead: fmt.Sprintf("Run of %s, profile %s: %s rows in %s. Values are medians over the repetitions; a line over a bar goes from the least to the largest.",
			htmlreport.Time(r.Started), r.Profile, htmlreport.Count(int64(len(r.Rows))), htmlreport.Seconds(r.Seconds)),
		Foot: "Written by tandemmq bench compare. docs/benchmarks.md says how each number is taken, and what it does not show.",
	}
	p.Sections = append(p.Sections, h.machine(), h.ratios(), h.failures(), h.limits())
	for _, group := range h.groups() {
		p.Sections = append(p.Sections, h.group(group))
	}
	p.Sections = append(p.Sections, h.checks(), h.left())
	return p.Write(w)
}

// page makes the parts of an HTML report.
type page struct {
	r      *Report
	series []htmlreport.Series // by the order in which engines come
}

// seriesOf gives each engine its colour. Those that compare stores have always the same; others, which compare ways of doing one thing, begin anew in each group.
func seriesOf(r *Report) []htmlreport.Series {
	series := []htmlreport.Series{{Name: File}, {Name: Rocks, Color: 1}, {Name: Combine, Color: 2}, {Name: Java, Color: 3}, {Name: JavaRocks, Color: 4}}
	others := map[string]int{} // by group
	for i := range r.Rows {
		row := &r.Rows[i]
		if slices.ContainsFunc(series, func(s htmlreport.Series) bool { return s.Name == row.Engine }) {
			continue
		}
		group := groupOf(row.Scenario)
		series = append(series, htmlreport.Series{Name: row.Engine, Color: others[group]})
		others[group]++
	}
	return series
}

func groupOf(scenario string) string {
	group, _, _ := strings.Cut(scenario, "/")
	return group
}

func (h *page) machine() htmlreport.Section {
	m := &h.r.Machine
	facts := htmlreport.Facts{
		{Name: "Processor", Value: fmt.Sprintf("%s, %d processors", m.CPU, m.Processors)},
		{Name: "Memory", Value: m.MemoryKiB},
		{Name: "Kernel", Value: m.Kernel},
		{Name: "Filesystem", Value: m.Filesystem},
		{Name: "Warning", Value: m.Warning},
		{Name: "Build", Value: h.r.Build},
		{Name: "Go", Value: m.Go},
		{Name: "Java", Value: m.Java},
		{Name: "GOMAXPROCS", Value: m.GoMaxProcs},
	}
	facts = slices.DeleteFunc(facts, func(f htmlreport.Fact) bool { return f.Value == "" })
	s := htmlreport.Section{Title: "Machine and budget", Blocks: []htmlreport.Block{facts}}
	if len(h.r.Budget) > 0 {
		t := &htmlreport.Table{Title: "Set alike for all engines", Head: []string{"what", "how"}}
		for _, name := range slices.Sorted(maps.Keys(h.r.Budget)) {
			t.Rows = append(t.Rows, []htmlreport.Cell{htmlreport.Text(name), htmlreport.Text(h.r.Budget[name])})
		}
		s.Blocks = append(s.Blocks, t)
	}
	return s
}

func (h *page) ratios() htmlreport.Section {
	s := htmlreport.Section{Title: "Limits kept and missed"}
	missed := 0
	t := &htmlreport.Table{Head: []string{"limit", "has to be", "is", ""}}
	for _, x := range h.r.Ratios {
		verdict := htmlreport.Cell{Text: "kept", Mark: htmlreport.Good}
		if !x.Kept {
			verdict = htmlreport.Cell{Text: "missed", Mark: htmlreport.Bad}
			missed++
		}
		sign := map[string]string{">=": "≥", "<=": "≤"}[x.Op]
		t.Rows = append(t.Rows, []htmlreport.Cell{htmlreport.Code(x.Name), htmlreport.Number(fmt.Sprintf("%s %v", sign, x.Limit)), htmlreport.Number(calibrate.Short(x.Value)), verdict})
	}
	if len(t.Rows) > 0 {
		s.Lead = fmt.Sprintf("%d kept, %d missed.", len(t.Rows)-missed, missed)
		s.Blocks = []htmlreport.Block{t}
	}
	return s
}

func (h *page) failures() htmlreport.Section {
	s := htmlreport.Section{Title: "Failed"}
	l := &htmlreport.List{Mark: htmlreport.Bad}
	for i := range h.r.Rows {
		row := &h.r.Rows[i]
		for k := range row.Repetitions {
			if why := row.Repetitions[k].Failed; why != "" {
				l.Items = append(l.Items, fmt.Sprintf("%s with %s, repetition %d: %s", row.Scenario, row.Engine, k+1, why))
			}
		}
	}
	if len(l.Items) > 0 {
		s.Blocks = []htmlreport.Block{l}
	}
	return s
}

func (h *page) limits() htmlreport.Section {
	t := &htmlreport.Table{Head: []string{"limit", "median", "least to largest"}}
	for _, l := range h.r.Limits {
		v, ok := calibrate.Spread(l.Values)
		if !ok {
			continue
		}
		t.Rows = append(t.Rows, []htmlreport.Cell{
			htmlreport.Text(l.Name + ": " + l.Title), htmlreport.Number(value(v[1], l.Unit)), htmlreport.Number(spreadText(v, l.Unit)),
		})
	}
	s := htmlreport.Section{Title: "What the machine gives", Lead: "All else is read beside these: taken in the same run, on the same disk."}
	if len(t.Rows) > 0 {
		s.Blocks = []htmlreport.Block{t}
	}
	return s
}

// value writes a value of a unit.
func value(v float64, unit string) string {
	switch unit {
	case "ns":
		return htmlreport.Nanos(v)
	case "us":
		return htmlreport.Nanos(v * 1e3)
	case "ms":
		return htmlreport.Nanos(v * 1e6)
	case "s":
		return htmlreport.Seconds(v)
	case "MiB":
		return htmlreport.Bytes(v * (1 << 20))
	}
	return Number(v, unit)
}

func spreadText(v [3]float64, unit string) string {
	if v[0] == v[2] {
		return ""
	}
	return value(v[0], unit) + " – " + value(v[2], unit)
}

// groups are the names of the groups, in the order of the rows.
func (h *page) groups() (names []string) {
	for i := range h.r.Rows {
		if g := groupOf(h.r.Rows[i].Scenario); !slices.Contains(names, g) {
			names = append(names, g)
		}
	}
	return names
}

// group makes the section of a group: what was measured of each scenario, as bars or as curves; latencies; disk and memory; and everything in a table.
func (h *page) group(name string) htmlreport.Section {
	var rows, bars []*Row
	var curves []curve
	for i := range h.r.Rows {
		row := &h.r.Rows[i]
		if groupOf(row.Scenario) != name {
			continue
		}
		rows = append(rows, row)
		if row.X <= 0 {
			bars = append(bars, row)
			continue
		}
		c := curve{headline: row.Headline, xLabel: row.XLabel, name: curveName(row.Scenario)}
		at := slices.IndexFunc(curves, func(o curve) bool { return o.headline == c.headline && o.xLabel == c.xLabel && o.name == c.name })
		if at < 0 {
			curves, at = append(curves, c), len(curves)
		}
		curves[at].rows = append(curves[at].rows, row)
	}
	s := htmlreport.Section{Title: name}
	if len(bars) > 0 {
		s.Blocks = append(s.Blocks, h.bars(bars))
	}
	for i := range curves {
		s.Blocks = append(s.Blocks, h.curve(&curves[i]))
	}
	if f := h.latencies(rows); f != nil {
		s.Blocks = append(s.Blocks, f)
	}
	for _, of := range []struct{ figure, title string }{{diskFigure, "Disk used in the end"}, {peakFigure, "Memory of the process at most (RssAnon)"}} {
		if f := h.sizes(rows, of.figure, of.title); f != nil {
			s.Blocks = append(s.Blocks, f)
		}
	}
	s.Blocks = append(s.Blocks, h.all(rows))
	return s
}

// curve is the rows of one figure over one number.
type curve struct {
	headline, xLabel, name string
	rows                   []*Row
}

var numbers = regexp.MustCompile(`[-/]?[0-9]+[kM]?\b`)

// curveName is what the scenarios of a curve have in common.
func curveName(scenario string) string { return numbers.ReplaceAllString(scenario, "") }

// used are the series that rows have, and for each of h.series its place among them.
func (h *page) used(rows []*Row) (series []htmlreport.Series, at map[string]int) {
	at = make(map[string]int)
	for _, s := range h.series {
		if slices.ContainsFunc(rows, func(r *Row) bool { return r.Engine == s.Name }) {
			at[s.Name] = len(series)
			series = append(series, s)
		}
	}
	return series, at
}

// scenarios calls each with the rows of a scenario, in order.
func scenarios(rows []*Row, each func(name string, rows []*Row)) {
	var names []string
	for _, r := range rows {
		if !slices.Contains(names, r.Scenario) {
			names = append(names, r.Scenario)
		}
	}
	for _, name := range names {
		var of []*Row
		for _, r := range rows {
			if r.Scenario == name {
				of = append(of, r)
			}
		}
		each(name, of)
	}
}

func (h *page) bars(rows []*Row) *htmlreport.Figure {
	b := &htmlreport.Bars{}
	var at map[string]int
	b.Series, at = h.used(rows)
	scenarios(rows, func(name string, of []*Row) {
		g := htmlreport.BarGroup{Label: fmt.Sprintf("%s: %s", name, of[0].Headline)}
		for _, row := range of {
			if v, ok := row.Spread(row.Headline); ok {
				g.Bars = append(g.Bars, htmlreport.Bar{Series: at[row.Engine], Value: v[1], Low: v[0], High: v[2], Text: value(v[1], Unit(row.Headline))})
			}
		}
		if len(g.Bars) > 0 {
			b.Groups = append(b.Groups, g)
		}
	})
	note := "Each scenario has its own scale. Of what ends in PerSecond more is better, of times and sizes less."
	return &htmlreport.Figure{Title: "Scenarios", Note: note, Chart: b, Table: h.headlines(rows)}
}

// headlines is the table beside bars or a curve.
func (h *page) headlines(rows []*Row) *htmlreport.Table {
	java := slices.ContainsFunc(rows, func(r *Row) bool { return r.Engine == Java })
	t := &htmlreport.Table{Head: []string{"engine", "median", "least to largest"}}
	near := len(h.r.Limits) > 0 && slices.ContainsFunc(rows, func(r *Row) bool { return len(r.Bounds) > 0 })
	if java {
		t.Head = append(t.Head, "of java")
	}
	if near {
		t.Head = append(t.Head, "of the limit")
	}
	scenarios(rows, func(name string, of []*Row) {
		t.Rows = append(t.Rows, []htmlreport.Cell{htmlreport.Text(name)})
		for _, row := range of {
			cells := []htmlreport.Cell{htmlreport.Text(row.Engine)}
			unit := Unit(row.Headline)
			if v, ok := row.Spread(row.Headline); ok {
				cells = append(cells, htmlreport.Number(value(v[1], unit)), htmlreport.Number(spreadText(v, unit)))
			} else {
				cells = append(cells, htmlreport.Cell{Text: "failed", Mark: htmlreport.Bad}, htmlreport.Text(""))
			}
			if java {
				text := ""
				if times, ok := h.r.Advantage(row, Java); ok && !IsJava(row.Engine) {
					text = calibrate.Short(times) + " ×"
				}
				cells = append(cells, htmlreport.Number(text))
			}
			if near {
				text := ""
				if l, share, ok := h.r.Nearest(row); ok {
					text = l.Name + " " + calibrate.Short(share)
					if share < 0.01 {
						text = "< 0.01"
					}
				}
				cells = append(cells, htmlreport.Text(text))
			}
			t.Rows = append(t.Rows, cells)
		}
	})
	return t
}

func (h *page) curve(c *curve) *htmlreport.Figure {
	unit := Unit(c.headline)
	l := &htmlreport.Lines{
		Marks: true,
		X:     htmlreport.Axis{Label: c.xLabel, Log: true, Format: htmlreport.Short},
		Y:     htmlreport.Axis{Label: c.headline, Log: true, Format: func(v float64) string { return value(v, unit) }},
	}
	series, at := h.used(c.rows)
	l.Lines = make([]htmlreport.Line, len(series))
	for i, s := range series {
		l.Lines[i].Series = s
	}
	for _, row := range c.rows {
		if v, ok := row.Spread(row.Headline); ok {
			line := &l.Lines[at[row.Engine]]
			line.Points = append(line.Points, htmlreport.Point{X: row.X, Y: v[1], Low: v[0], High: v[2]})
		}
	}
	for i := range l.Lines {
		slices.SortStableFunc(l.Lines[i].Points, func(a, b htmlreport.Point) int {
			switch {
			case a.X < b.X:
				return -1
			case a.X > b.X:
				return 1
			}
			return 0
		})
	}
	return &htmlreport.Figure{Title: fmt.Sprintf("%s: %s over %s", c.name, c.headline, c.xLabel), Note: "Both axes are logarithmic.", Chart: l, Table: h.headlines(c.rows)}
}

// percentile is one that latencies are told by.
var percentiles = []struct {
	name string
	of   func(s *calibrate.Summary) float64
}{
	{"p50", func(s *calibrate.Summary) float64 { return float64(s.P50) }},
	{"p99", func(s *calibrate.Summary) float64 { return float64(s.P99) }},
	{"p99.9", func(s *calibrate.Summary) float64 { return float64(s.P999) }},
	{"largest", func(s *calibrate.Summary) float64 { return float64(s.Max) }},
}

// timed returns the names of what was timed in a row.
func timed(rows []*Row) []string {
	names := map[string]bool{}
	for _, row := range rows {
		for k := range row.Repetitions {
			for name := range row.Repetitions[k].Latencies {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// latency returns the median over the repetitions of each percentile.
func latency(row *Row, name string) (values []float64, samples int64) {
	values = make([]float64, len(percentiles))
	for i, p := range percentiles {
		var all []float64
		for k := range row.Repetitions {
			if s, ok := row.Repetitions[k].Latencies[name]; ok && row.Repetitions[k].Failed == "" && s.Samples > 0 {
				all = append(all, p.of(&s))
				if i == 0 {
					samples += s.Samples
				}
			}
		}
		if v, ok := calibrate.Spread(all); ok {
			values[i] = v[1]
		}
	}
	return values, samples
}

func (h *page) latencies(rows []*Row) *htmlreport.Figure {
	r := &htmlreport.Ranges{Format: htmlreport.Nanos}
	for _, p := range percentiles {
		r.Points = append(r.Points, p.name)
	}
	var at map[string]int
	r.Series, at = h.used(rows)
	t := &htmlreport.Table{Head: append([]string{"engine"}, append(slices.Clone(r.Points), "samples")...)}
	scenarios(rows, func(name string, of []*Row) {
		for _, what := range timed(of) {
			g := htmlreport.RangeGroup{Label: name + ": " + what}
			for _, row := range of {
				values, samples := latency(row, what)
				if samples == 0 {
					continue
				}
				if len(g.Rows) == 0 {
					t.Rows = append(t.Rows, []htmlreport.Cell{htmlreport.Text(g.Label)})
				}
				cells := []htmlreport.Cell{htmlreport.Text(row.Engine)}
				for _, v := range values {
					cells = append(cells, htmlreport.Number(htmlreport.Nanos(v)))
				}
				t.Rows = append(t.Rows, append(cells, htmlreport.Number(htmlreport.Count(samples))))
				g.Rows = append(g.Rows, htmlreport.Range{Series: at[row.Engine], Values: values})
			}
			if len(g.Rows) > 0 {
				r.Groups = append(r.Groups, g)
			}
		}
	})
	if len(r.Groups) == 0 {
		return nil
	}
	note := "A dot is the median, the blocks are p99 and p99.9, the end is the largest. The axis is logarithmic."
	return &htmlreport.Figure{Title: "Latencies", Note: note, Chart: r, Table: t}
}

// sizes is the figure of a size in MiB that all rows have.
func (h *page) sizes(rows []*Row, figure, title string) *htmlreport.Figure {
	b := &htmlreport.Bars{}
	var at map[string]int
	b.Series, at = h.used(rows)
	t := &htmlreport.Table{Head: []string{"engine", "median", "least to largest"}}
	scenarios(rows, func(name string, of []*Row) {
		g := htmlreport.BarGroup{Label: name}
		for _, row := range of {
			v, ok := row.Spread(figure)
			if !ok {
				continue
			}
			if len(g.Bars) == 0 {
				t.Rows = append(t.Rows, []htmlreport.Cell{htmlreport.Text(name)})
			}
			t.Rows = append(t.Rows, []htmlreport.Cell{htmlreport.Text(row.Engine), htmlreport.Number(value(v[1], "MiB")), htmlreport.Number(spreadText(v, "MiB"))})
			g.Bars = append(g.Bars, htmlreport.Bar{Series: at[row.Engine], Value: v[1], Low: v[0], High: v[2], Text: value(v[1], "MiB")})
		}
		if len(g.Bars) > 0 {
			b.Groups = append(b.Groups, g)
		}
	})
	if len(b.Groups) == 0 {
		return nil
	}
	return &htmlreport.Figure{Title: title, Note: "Each scenario has its own scale.", Chart: b, Table: t}
}

// all is every figure of rows.
func (h *page) all(rows []*Row) *htmlreport.Table {
	t := &htmlreport.Table{Head: []string{"engine", "figure", "median", "least to largest"}}
	n := 0
	scenarios(rows, func(name string, of []*Row) {
		t.Rows = append(t.Rows, []htmlreport.Cell{htmlreport.Text(name)})
		for _, row := range of {
			names := map[string]bool{}
			for k := range row.Repetitions {
				for name := range row.Repetitions[k].Figures {
					names[name] = true
				}
			}
			for _, figure := range slices.Sorted(maps.Keys(names)) {
				if v, ok := row.Spread(figure); ok {
					unit := Unit(figure)
					t.Rows = append(t.Rows, []htmlreport.Cell{htmlreport.Text(row.Engine), htmlreport.Text(figure), htmlreport.Number(value(v[1], unit)), htmlreport.Number(spreadText(v, unit))})
					n++
				}
			}
		}
	})
	t.Folded = fmt.Sprintf("All %d figures", n)
	return t
}

// checks says what was checked of each scenario's result.
func (h *page) checks() htmlreport.Section {
	t := &htmlreport.Table{Head: []string{"engines", "checked after each run"}}
	var rows []*Row
	for i := range h.r.Rows {
		rows = append(rows, &h.r.Rows[i])
	}
	scenarios(rows, func(name string, of []*Row) {
		var engines, checks []string
		for _, row := range of {
			engines = append(engines, row.Engine)
			for k := range row.Repetitions {
				for _, c := range row.Repetitions[k].Checks {
					if !slices.Contains(checks, c) {
						checks = append(checks, c)
					}
				}
			}
		}
		cell := htmlreport.Text(strings.Join(checks, "; "))
		if len(checks) == 0 {
			cell = htmlreport.Cell{Text: "nothing", Mark: htmlreport.Bad}
		}
		t.Rows = append(t.Rows, []htmlreport.Cell{htmlreport.Text(name + ": " + of[0].Title)}, []htmlreport.Cell{htmlreport.Text(strings.Join(engines, ", ")), cell})
	})
	s := htmlreport.Section{Title: "What was checked", Lead: "A run whose result is wrong fails, however fast it was."}
	if len(t.Rows) > 0 {
		s.Blocks = []htmlreport.Block{t}
	}
	return s
}

func (h *page) left() htmlreport.Section {
	s := htmlreport.Section{Title: "What was left out"}
	if len(h.r.Left) > 0 {
		s.Blocks = append(s.Blocks, &htmlreport.List{Items: h.r.Left})
	}
	if len(h.r.Full) > 0 {
		s.Lead = "What the full profile adds is below."
		s.Blocks = append(s.Blocks, &htmlreport.List{Items: h.r.Full})
	}
	return s
}
