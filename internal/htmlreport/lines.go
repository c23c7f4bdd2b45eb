package htmlreport

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Lines are curves: over a number, or over time.
type Lines struct {
	Lines []Line
	X, Y  Axis
	// Bands are stretches of the horizontal axis with a name.
	Bands []Band
	// Marks has each point marked.
	Marks bool
}

// Line is one curve. Points of it are in the order of X. One whose Y is NaN is a gap.
type Line struct {
	Series
	Points []Point
}

// Point of a curve. Where High is above Low it was measured several times.
type Point struct{ X, Y, Low, High float64 }

// Axis of Lines.
type Axis struct {
	Label  string
	Log    bool // values of 0 and below are left out
	Times  bool // values are seconds
	Bytes  bool // values are bytes
	Format func(v float64) string
}

// Band is a stretch of the horizontal axis.
type Band struct {
	From, To float64
	Label    string
}

func (l *Lines) legend() (s []Series) {
	for i := range l.Lines {
		s = append(s, l.Lines[i].Series)
	}
	return s
}

// shown tells whether a point can be on the axes.
func (l *Lines) shown(p Point) bool {
	for _, v := range []float64{p.X, p.Y} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return (!l.X.Log || p.X > 0) && (!l.Y.Log || p.Y > 0)
}

func (l *Lines) height(width vg.Length) vg.Length {
	for _, line := range l.Lines {
		for _, p := range line.Points {
			if l.shown(p) {
				return max(width*9/20, 240)
			}
		}
	}
	return 0
}

func (l *Lines) draw(c draw.Canvas) error {
	plt := newPlot()
	size := c.Size()
	plt.X.Label.Text, plt.Y.Label.Text = "", ""
	plt.X.Tick.Marker = ticker{log: l.X.Log, times: l.X.Times, bytes: l.X.Bytes, most: int(size.X / 90), length: float64(size.X) - 70, apart: 48, format: l.X.Format}
	plt.Y.Tick.Marker = ticker{log: l.Y.Log, times: l.Y.Times, bytes: l.Y.Bytes, most: 5, length: float64(size.Y) - 50, apart: 22, format: l.Y.Format}
	if l.X.Log {
		plt.X.Scale = plot.LogScale{}
	}
	if l.Y.Log {
		plt.Y.Scale = plot.LogScale{}
	}
	curves := curves{l}
	plt.Add(curves)
	words := textStyle(fontSize, muted)
	// The names of the axes stand level, above and below the drawing: turned, they are hard to read on a phone.
	top, bottom := vg.Length(0), vg.Length(0)
	if l.Y.Label != "" {
		top = labelLine
		c.FillText(words, vg.Point{X: c.Min.X + chartEdge, Y: c.Max.Y - top/2}, fit(l.Y.Label, words, size.X))
	}
	if l.X.Label != "" {
		bottom = labelLine
		words.XAlign = draw.XRight
		c.FillText(words, vg.Point{X: c.Max.X - chartEdge, Y: c.Min.Y + bottom/2}, fit(l.X.Label, words, size.X))
	}
	plt.Draw(draw.Crop(c, chartEdge, -chartEdge, bottom, -top))
	return nil
}

// curves draws lines, bands and the grid onto a plot.
type curves struct{ l *Lines }

// DataRange implements plot.DataRanger.
func (cs curves) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax, ymin, ymax = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, line := range cs.l.Lines {
		for _, p := range line.Points {
			if !cs.l.shown(p) {
				continue
			}
			xmin, xmax = min(xmin, p.X), max(xmax, p.X)
			ymin, ymax = min(ymin, p.Y), max(ymax, p.Y)
			if p.High > p.Low {
				ymax = max(ymax, p.High)
				if !cs.l.Y.Log || p.Low > 0 {
					ymin = min(ymin, p.Low)
				}
			}
		}
	}
	for _, b := range cs.l.Bands {
		xmin, xmax = min(xmin, b.From), max(xmax, b.To)
	}
	xmin, xmax = widen(xmin, xmax, cs.l.X.Log, false)
	ymin, ymax = widen(ymin, ymax, cs.l.Y.Log, true)
	return xmin, xmax, ymin, ymax
}

// widen makes room around what is shown. A linear axis of values begins at 0.
func widen(low, high float64, logarithmic, values bool) (float64, float64) {
	switch {
	case logarithmic && values:
		if high/low < 10 {
			mid := math.Sqrt(low * high)
			low, high = min(low, mid/3), max(high, mid*3)
		}
		return low / 1.15, high * 1.15
	case logarithmic:
		a := newLogAxis(low, high)
		room := math.Pow(a.high/a.low, 0.03)
		return a.low / room, a.high * room
	case values:
		low = min(low, 0)
		if high <= low {
			return low, low + 1
		}
		return low, high + (high-low)*0.06
	case high <= low:
		return low, low + 1
	}
	return low, high
}

// Plot implements plot.Plotter.
func (cs curves) Plot(c draw.Canvas, plt *plot.Plot) {
	x, y := plt.Transforms(&c)
	size := c.Size()
	words := textStyle(fontSize, muted)
	for i, b := range cs.l.Bands {
		from, to := x(b.From), x(b.To)
		if i%2 == 0 {
			fill(c, band, from, c.Min.Y, to, c.Max.Y)
		}
		if label := fit(b.Label, words, size.X); words.Width(label)+6 <= to-from {
			c.FillText(words, vg.Point{X: from + 3, Y: c.Max.Y - 9}, label)
		}
	}
	thin := draw.LineStyle{Color: grid, Width: 0.8}
	for _, t := range plt.Y.Tick.Marker.Ticks(plt.Y.Min, plt.Y.Max) {
		c.StrokeLine2(thin, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
	for _, line := range cs.l.Lines {
		color := seriesColor(line.Color)
		var points, drawn []vg.Point
		flush := func() {
			c.StrokeLines(draw.LineStyle{Color: color, Width: 1.8}, points[len(drawn):])
			drawn = points
		}
		for _, p := range line.Points {
			if !cs.l.shown(p) {
				if math.IsNaN(p.Y) {
					flush()
				}
				continue
			}
			points = append(points, vg.Point{X: x(p.X), Y: y(p.Y)})
			if p.High > p.Low && (!cs.l.Y.Log || p.Low > 0) {
				sty := draw.LineStyle{Color: color, Width: 1}
				c.StrokeLine2(sty, x(p.X), y(p.Low), x(p.X), y(p.High))
				c.StrokeLine2(sty, x(p.X)-3, y(p.Low), x(p.X)+3, y(p.Low))
				c.StrokeLine2(sty, x(p.X)-3, y(p.High), x(p.X)+3, y(p.High))
			}
		}
		flush()
		if !cs.l.Marks && len(points) > 1 {
			continue
		}
		for _, p := range points {
			c.DrawGlyphNoClip(draw.GlyphStyle{Color: color, Radius: 4, Shape: shapes[colorIndex(line.Color)]}, p)
		}
	}
}
