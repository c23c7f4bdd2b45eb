package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tandemq/tandemmq/bench/calibrate"
)

// Change is how a figure of a row, or a limit of the machine, differs between two reports.
type Change struct {
	Scenario string     `json:"scenario"` // "limits": of the machine
	Engine   string     `json:"engine,omitempty"`
	Figure   string     `json:"figure"`
	Before   [3]float64 `json:"before"` // least, median, most
	After    [3]float64 `json:"after"`
	Percent  float64    `json:"percent"` // of the medians
	// Headline: it is what the row is judged by.
	Headline bool `json:"headline,omitempty"`
	// Moved: the medians differ by more than was asked for, and by more than both spreads together; where one side has one value, by half of the smaller one.
	Moved  bool `json:"moved"`
	Better bool `json:"better"` // the way it went, if it has moved
}

// Difference is what differs between two reports.
type Difference struct {
	Machines []string `json:"machines,omitempty"` // both, where they are not the same one: no row is better or worse then
	Percent  float64  `json:"percent"`            // that medians have to differ by
	Changes  []Change `json:"changes"`            // of all figures that both have, those that did not move too
	Failed   []string `json:"failed,omitempty"`   // rows that fail in the second one
	Before   []string `json:"before,omitempty"`   // rows that the first one alone has
	After    []string `json:"after,omitempty"`    // rows that the second one alone has
	Single   bool     `json:"single"`             // a row has but one repetition: what it would give the next time is not known
}

// Diff compares two reports.
func Diff(before, after *Report, percent float64) *Difference {
	d := &Difference{Percent: percent}
	if was, is := before.Machine.Differs(after.Machine); was != is {
		d.Machines = []string{was, is}
	}
	for _, l := range before.Limits {
		for _, k := range after.Limits {
			if l.Name == k.Name {
				d.change(Change{Scenario: "limits", Figure: l.Name}, l.Values, k.Values, l.Unit != "ns")
			}
		}
	}
	for i := range before.Rows {
		row := &before.Rows[i]
		other := after.Row(row.Scenario, row.Engine)
		if other == nil {
			d.Before = append(d.Before, row.Scenario+" "+row.Engine)
			continue
		}
		if why := other.Failed(); why != "" {
			d.Failed = append(d.Failed, fmt.Sprintf("%s %s: %s", row.Scenario, row.Engine, why))
		}
		for _, figure := range row.figures() {
			d.change(Change{Scenario: row.Scenario, Engine: row.Engine, Figure: figure, Headline: figure == row.Headline}, row.values(figure), other.values(figure), MoreIsBetter(figure))
		}
	}
	for i := range after.Rows {
		if row := &after.Rows[i]; before.Row(row.Scenario, row.Engine) == nil {
			d.After = append(d.After, row.Scenario+" "+row.Engine)
		}
	}
	return d
}

// singleShare is by what part of it a figure has to differ that was measured once, so that nobody knows its spread.
const singleShare = 0.5

func (d *Difference) change(c Change, before, after []float64, more bool) {
	a, ok1 := calibrate.Spread(before)
	b, ok2 := calibrate.Spread(after)
	if !ok1 || !ok2 {
		return
	}
	d.Single = d.Single || len(before) < 2 || len(after) < 2
	c.Before, c.After = a, b
	if a[1] != 0 {
		c.Percent = 100 * (b[1] - a[1]) / a[1]
	}
	far := math.Abs(b[1]-a[1]) > a[2]-a[0]+b[2]-b[0]
	if len(before) < 2 || len(after) < 2 {
		far = far && math.Abs(b[1]-a[1]) > singleShare*min(math.Abs(a[1]), math.Abs(b[1]))
	}
	c.Moved = far && (a[1] == 0 || math.Abs(c.Percent) > d.Percent)
	c.Better = c.Moved && b[1] > a[1] == more
	d.Changes = append(d.Changes, c)
}

// values of a figure, of the repetitions that did not fail.
func (r *Row) values(figure string) (values []float64) {
	for _, one := range r.Repetitions {
		if x, there := one.Figures[figure]; there && one.Failed == "" {
			values = append(values, x)
		}
	}
	return values
}

// figures are the names of all that a row has, the headline first.
func (r *Row) figures() []string {
	names := map[string]bool{}
	for _, one := range r.Repetitions {
		for name := range one.Figures {
			names[name] = true
		}
	}
	delete(names, r.Headline)
	return append([]string{r.Headline}, slices.Sorted(maps.Keys(names))...)
}

// Worse returns how many rows have become worse, by their headlines. The other figures of a row are shown, and do not count: of so many, some always move. What moved of the machine's limits is not the
// software's doing; and on another machine nothing is.
func (d *Difference) Worse() (n int) {
	if len(d.Machines) > 0 {
		return 0
	}
	for _, c := range d.Changes {
		if c.Moved && !c.Better && c.Headline {
			n++
		}
	}
	return n
}

// Text writes what moved, and with all of it the rest, too.
func (d *Difference) Text(w io.Writer, all bool) error {
	var b strings.Builder
	if len(d.Machines) > 0 {
		fmt.Fprintf(&b, "The machines differ, so that no row is better or worse:\n%s\n%s\n", d.Machines[0], d.Machines[1])
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	shown, rows, better := 0, 0, 0
	for _, c := range d.Changes {
		if c.Headline {
			rows++
			if c.Better {
				better++
			}
		}
		if !all && !c.Moved {
			continue
		}
		if shown++; shown == 1 {
			fmt.Fprintf(t, "scenario\tengine\tfigure\tbefore\t(least, most)\tafter\t(least, most)\tchange\t\n")
		}
		verdict := ""
		if c.Moved && len(d.Machines) == 0 {
			verdict = map[bool]string{true: "better", false: "worse"}[c.Better]
			if c.Headline {
				verdict = strings.ToUpper(verdict)
			}
		}
		unit := Unit(c.Figure)
		between := func(v [3]float64) string { return "(" + Number(v[0], unit) + ", " + Number(v[2], unit) + ")" }
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%+.1f%%\t%s\n", c.Scenario, c.Engine, c.Figure, Number(c.Before[1], unit), between(c.Before), Number(c.After[1], unit), between(c.After), c.Percent, verdict)
	}
	_ = t.Flush()
	for _, row := range d.Failed {
		fmt.Fprintf(&b, "fails now: %s\n", row)
	}
	for _, lines := range []struct {
		what string
		rows []string
	}{{"only in the first", d.Before}, {"only in the second", d.After}} {
		if len(lines.rows) > 0 {
			fmt.Fprintf(&b, "%s: %s\n", lines.what, someOf(lines.rows, all))
		}
	}
	if d.Single {
		b.WriteString("Some figures were measured once: how far they differ from one time to the next is not known, so that they count from half of their value on.\n")
	}
	if len(d.Machines) > 0 {
		fmt.Fprintf(&b, "%d rows are in both reports, with %d figures in all; measured on machines that differ, they are not compared.\n", rows, len(d.Changes))
	} else {
		fmt.Fprintf(&b, "%d rows compared by what they are judged by: %d better, %d worse by more than %v%% and than both spreads together. %d figures in all.\n", rows, better, d.Worse(), d.Percent, len(d.Changes))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// namedRows is how many rows are named that one report alone has.
const namedRows = 3

// someOf counts rows and names the first of them.
func someOf(rows []string, all bool) string {
	if all || len(rows) <= namedRows {
		return strings.Join(rows, ", ")
	}
	return fmt.Sprintf("%d rows: %s and %d more", len(rows), strings.Join(rows[:namedRows], ", "), len(rows)-namedRows)
}

// ReadReport reads a report that bench compare wrote.
func ReadReport(path string) (*Report, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: not a report of bench compare: %w", path, err)
	}
	if r.Version != 1 || len(r.Rows) == 0 {
		return nil, fmt.Errorf("%s: not a report of bench compare, or one of another version (%d)", path, r.Version)
	}
	return r, nil
}
