package htmlreport

import (
	"bytes"
	"fmt"
	"html/template"
	"regexp"
	"sort"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Chart is one of *Bars, *Ranges and *Lines.
type Chart interface {
	// height is how high it is, drawn that wide; 0: there is nothing to draw.
	height(width vg.Length) vg.Length
	draw(c draw.Canvas) error
	legend() []Series
}

// Series is a thing that is shown beside others.
type Series struct {
	Name  string
	Color int // 0 to 5: its colour and shape, the same in all charts of a page
}

// Colors is how many there are.
const Colors = 6

// How wide the two drawings of a chart are, in units that are pixels on a screen of that width.
const (
	wideWidth   = 700
	narrowWidth = 330
)

const fontSize = 12

// rgb is an opaque colour.
type rgb struct{ r, g, b uint8 }

// RGBA implements color.Color.
func (c rgb) RGBA() (r, g, b, a uint32) {
	return uint32(c.r) * 0x101, uint32(c.g) * 0x101, uint32(c.b) * 0x101, 0xffff
}

// Colours that stand for variables of the style sheet, see variables.
var (
	ink   = rgb{1, 1, 1}
	muted = rgb{2, 2, 2}
	grid  = rgb{3, 3, 3}
	band  = rgb{4, 4, 4}
)

func seriesColor(i int) rgb { return rgb{5, 5, uint8(colorIndex(i))} }

func colorIndex(i int) int { return max(i, 0) % Colors }

var variables = func() *strings.Replacer {
	pairs := []string{"#010101", "var(--ink)", "#020202", "var(--muted)", "#030303", "var(--grid)", "#040404", "var(--band)"}
	for i := range Colors {
		pairs = append(pairs, fmt.Sprintf("#0505%02X", i), fmt.Sprintf("var(--s%d)", i))
	}
	return strings.NewReplacer(pairs...)
}()

// shapes of points, by colour: the same are in glyphs.
var (
	shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}}
	glyphs = []string{"●", "■", "▲", "○", "□", "△"}
)

// textStyle of a size and colour.
func textStyle(size vg.Length, c rgb) text.Style {
	return text.Style{Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}, Handler: plot.DefaultTextHandler, XAlign: draw.XLeft, YAlign: draw.YCenter}
}

// fit makes s one line that can be seen, and shortens it until it is no wider than width.
func fit(s string, sty text.Style, width vg.Length) string {
	s = strings.Join(strings.Fields(Clean(s)), " ")
	if sty.Width(s) <= width {
		return s
	}
	r := []rune(s)
	n := sort.Search(len(r), func(n int) bool { return sty.Width(string(r[:n+1])+"…") > width })
	return string(r[:n]) + "…"
}

// newPlot is a plot with axes in the style of a report.
func newPlot() *plot.Plot {
	plt := plot.New()
	plt.BackgroundColor = nil
	for _, a := range []*plot.Axis{&plt.X, &plt.Y} {
		a.Color, a.Width = muted, vg.Points(0.7)
		a.Tick.Color, a.Tick.Width, a.Tick.Length = muted, vg.Points(0.7), vg.Points(4)
		x, y := a.Tick.Label.XAlign, a.Tick.Label.YAlign
		a.Tick.Label = textStyle(fontSize, muted)
		a.Tick.Label.XAlign, a.Tick.Label.YAlign = x, y
		pos, rot := a.Label.TextStyle, a.Label.TextStyle.Rotation
		a.Label.TextStyle = textStyle(fontSize, muted)
		a.Label.TextStyle.XAlign, a.Label.TextStyle.YAlign, a.Label.TextStyle.Rotation = pos.XAlign, pos.YAlign, rot
		a.Padding = 0
	}
	return plt
}

var (
	svgStyle = regexp.MustCompile(`style="[^"]*"`)
	fontRest = regexp.MustCompile(`font-family:[^;]*;font-variant:[^;]*;font-weight:[^;]*;font-style:[^;]*;`)
	svgHead  = regexp.MustCompile(`(?s)^.*?<svg [^>]*>\s*`)
)

// drawing is both drawings of a chart and its legend.
func drawing(ch Chart, title string) (template.HTML, error) {
	var b strings.Builder
	if series := ch.legend(); len(series) > 1 {
		b.WriteString(`<ul class="legend">`)
		for _, s := range series {
			i := colorIndex(s.Color)
			fmt.Fprintf(&b, `<li><span class="i%d" aria-hidden="true">%s</span> %s</li>`, i, glyphs[i], template.HTMLEscapeString(Clean(s.Name)))
		}
		b.WriteString("</ul>\n")
	}
	for _, v := range []struct {
		class string
		width vg.Length
	}{{"wide", wideWidth}, {"narrow", narrowWidth}} {
		h := ch.height(v.width)
		if h <= 0 {
			return template.HTML(`<p class="note">Nothing to draw.</p>`), nil
		}
		c := vgsvg.New(v.width, h)
		if err := ch.draw(draw.New(c)); err != nil {
			return "", err
		}
		var svg bytes.Buffer
		if _, err := c.WriteTo(&svg); err != nil {
			return "", err
		}
		body := svgHead.ReplaceAllString(svg.String(), "")
		body = svgStyle.ReplaceAllStringFunc(body, func(s string) string { return variables.Replace(fontRest.ReplaceAllString(s, "")) })
		fmt.Fprintf(&b, `<svg class="%s" viewBox="0 0 %g %g" role="img" aria-label="%s">`+"\n", v.class, float64(v.width), float64(h), template.HTMLEscapeString(Clean(title)))
		b.WriteString(body)
	}
	return template.HTML(b.String()), nil
}
