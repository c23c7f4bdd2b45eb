package htmlreport

import (
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Ranges are a few values of each row on one logarithmic axis, from the lowest to the highest: the percentiles of latencies.
type Ranges struct {
	Series []Series
	Groups []RangeGroup
	// Points names the values, as the legend does: "p50", "p99".
	Points []string
	Format func(v float64) string // of the axis
}

// RangeGroup is the rows below one label.
type RangeGroup struct {
	Label string
	Rows  []Range
}

// Range is one row. Values that are 0 are left out.
type Range struct {
	Series int // index in Ranges.Series
	Values []float64
}

func (r *Ranges) legend() []Series { return r.Series }

const (
	rangeHeight = vg.Length(15)
	axisHeight  = vg.Length(20)
)

// span is the lowest and the highest value, ok false without any.
func (r *Ranges) span() (low, high float64, ok bool) {
	low, high = math.Inf(1), 0
	for _, g := range r.Groups {
		for _, row := range g.Rows {
			for _, v := range row.Values {
				if v > 0 {
					low, high = min(low, v), max(high, v)
				}
			}
		}
	}
	return low, high, high > 0
}

func (r *Ranges) height(vg.Length) vg.Length {
	if _, _, ok := r.span(); !ok {
		return 0
	}
	h := 2*axisHeight + 2*chartEdge
	for _, g := range r.Groups {
		h += labelLine + vg.Length(len(g.Rows))*rangeHeight + groupGap/2
	}
	return h
}

func (r *Ranges) draw(c draw.Canvas) error {
	low, high, _ := r.span()
	axis := newLogAxis(low, high)
	left, right := c.Min.X+10, c.Max.X-14
	x := func(v float64) vg.Length { return left + (right-left)*vg.Length(axis.at(v)) }
	words := textStyle(fontSize, muted)
	words.XAlign = draw.XCenter
	bottom := c.Min.Y + axisHeight
	for _, t := range axis.ticks(float64(right-left), 64) {
		c.StrokeLine2(draw.LineStyle{Color: grid, Width: 0.8}, x(t), bottom, x(t), c.Max.Y-axisHeight)
		s := r.Format(t)
		half := words.Width(s) / 2
		at := min(max(x(t), c.Min.X+half), c.Max.X-half)
		c.FillText(words, vg.Point{X: at, Y: bottom - axisHeight/2}, s)
		c.FillText(words, vg.Point{X: at, Y: c.Max.Y - axisHeight/2}, s)
	}
	label := textStyle(fontSize, ink)
	y := c.Max.Y - axisHeight - chartEdge
	for _, g := range r.Groups {
		c.FillText(label, vg.Point{X: c.Min.X + chartEdge, Y: y - labelLine/2}, fit(g.Label, label, c.Size().X-2*chartEdge))
		y -= labelLine
		for _, row := range g.Rows {
			r.row(c, row, y-rangeHeight/2, x)
			y -= rangeHeight
		}
		y -= groupGap / 2
	}
	return nil
}

// row draws a line from the lowest to the highest value, and a mark at each, of which the first is filled.
func (r *Ranges) row(c draw.Canvas, row Range, y vg.Length, x func(v float64) vg.Length) {
	color := seriesColor(r.Series[row.Series].Color)
	low, high := math.Inf(1), 0.0
	for _, v := range row.Values {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	if high == 0 {
		return
	}
	c.StrokeLine2(draw.LineStyle{Color: color, Width: 1.6}, x(low), y, x(high), y)
	for i, v := range row.Values {
		if v <= 0 {
			continue
		}
		switch i {
		case 0:
			c.DrawGlyphNoClip(draw.GlyphStyle{Color: color, Radius: 4.5, Shape: draw.CircleGlyph{}}, vg.Point{X: x(v), Y: y})
		case len(row.Values) - 1:
			c.StrokeLine2(draw.LineStyle{Color: color, Width: 1.6}, x(v), y-5, x(v), y+5)
		default:
			fill(c, color, x(v)-2, y-5, x(v)+2, y+5)
		}
	}
}
