package htmlreport

import (
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Bars are values beside one another: groups of horizontal bars, each with its value in words at its end and, where it was measured more than once, a line from the lowest to the highest.
type Bars struct {
	Series []Series
	Groups []BarGroup
	// Common has all bars drawn to one scale. Otherwise each group has its own, as its values may be of another kind, or of another size.
	Common bool
}

// BarGroup is the bars below one label.
type BarGroup struct {
	Label string
	Bars  []Bar
}

// Bar is one value.
type Bar struct {
	Series           int // index in Bars.Series
	Value, Low, High float64
	Text             string // the value in words
}

func (b *Bars) legend() []Series { return b.Series }

const (
	barHeight = vg.Length(15)
	barGap    = vg.Length(3)
	groupGap  = vg.Length(12)
	labelLine = vg.Length(18)
	chartEdge = vg.Length(2)
)

// beside tells whether labels stand before the bars: where each group is one bar, and labels are short.
func (b *Bars) beside(width vg.Length) (labels vg.Length, ok bool) {
	sty := textStyle(fontSize, ink)
	for _, g := range b.Groups {
		if len(g.Bars) != 1 {
			return 0, false
		}
		labels = max(labels, sty.Width(Clean(g.Label)))
	}
	return labels + 8, labels < width*2/5
}

func (b *Bars) height(width vg.Length) vg.Length {
	if len(b.Groups) == 0 {
		return 0
	}
	if _, ok := b.beside(width); ok {
		return vg.Length(len(b.Groups))*(barHeight+barGap) + 2*chartEdge
	}
	h := 2 * chartEdge
	for _, g := range b.Groups {
		h += labelLine + vg.Length(len(g.Bars))*(barHeight+barGap) + groupGap
	}
	return h - groupGap
}

func (b *Bars) draw(c draw.Canvas) error {
	label, value := textStyle(fontSize, ink), textStyle(fontSize, ink)
	var words vg.Length
	var most float64
	for _, g := range b.Groups {
		for _, bar := range g.Bars {
			words, most = max(words, value.Width(bar.Text)), max(most, bar.Value, bar.High)
		}
	}
	left := c.Min.X + chartEdge
	before, beside := b.beside(c.Size().X)
	if beside {
		left += before
		label.XAlign = text.XRight
	}
	room := c.Max.X - chartEdge - words - 8 - left
	y := c.Max.Y - chartEdge
	for _, g := range b.Groups {
		top := most
		if !b.Common {
			top = 0
			for _, bar := range g.Bars {
				top = max(top, bar.Value, bar.High)
			}
		}
		if !beside {
			c.FillText(label, vg.Point{X: left, Y: y - labelLine/2}, fit(g.Label, label, c.Size().X-2*chartEdge))
			y -= labelLine
		}
		for _, bar := range g.Bars {
			mid := y - barHeight/2
			if beside {
				c.FillText(label, vg.Point{X: left - 6, Y: mid}, fit(g.Label, label, before))
			}
			b.bar(c, bar, left, mid, room, top)
			y -= barHeight + barGap
		}
		if !beside {
			y -= groupGap
		}
	}
	return nil
}

// bar draws one from left on, around mid; top is the value that takes all the room.
func (b *Bars) bar(c draw.Canvas, bar Bar, left, mid, room vg.Length, top float64) {
	at := func(v float64) vg.Length {
		if top <= 0 {
			return left
		}
		return left + room*vg.Length(max(v, 0)/top)
	}
	color := 0
	if bar.Series < len(b.Series) {
		color = b.Series[bar.Series].Color
	}
	end := max(at(bar.Value), left+0.5)
	fill(c, seriesColor(color), left, mid-barHeight/2, end, mid+barHeight/2)
	if bar.High > bar.Low {
		sty := draw.LineStyle{Color: ink, Width: 1.2}
		low, high := at(bar.Low), at(bar.High)
		c.StrokeLine2(sty, low, mid, high, mid)
		c.StrokeLine2(sty, low, mid-3.5, low, mid+3.5)
		c.StrokeLine2(sty, high, mid-3.5, high, mid+3.5)
		end = max(end, high)
	}
	c.FillText(textStyle(fontSize, ink), vg.Point{X: end + 6, Y: mid}, Clean(bar.Text))
}

// fill fills a rectangle.
func fill(c draw.Canvas, color rgb, x0, y0, x1, y1 vg.Length) {
	c.FillPolygon(color, []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}})
}
