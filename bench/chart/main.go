// Command chart draws what bench/cq has found about the number of queues: one panel for each figure, one curve for each engine, as SVG, and as PNG to look at.
//
//	go run ./bench/chart -in bench/results/cq.jsonl -svg docs/many-queues.svg
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

func main() {
	in := flag.String("in", "", "raw results of bench/cq")
	svg := flag.String("svg", "", "SVG file to write")
	png := flag.String("png", "", "PNG file to write")
	flag.Parse()
	if err := run(*in, *svg, *png); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(in, svg, png string) error {
	raw, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	curves, err := read(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	for _, target := range []struct {
		path string
		draw func(map[string]curve) ([]byte, error)
	}{{svg, asSVG}, {png, asPNG}} {
		if target.path == "" {
			continue
		}
		b, err := target.draw(curves)
		if err != nil {
			return err
		}
		if err := os.WriteFile(target.path, b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// point is the figures of one number of queues.
type point struct {
	queues  float64
	figures map[string]float64
}

// curve is the points of an engine, by number of queues.
type curve []point

// read takes the newest line of each number of queues and engine.
func read(r io.Reader) (map[string]curve, error) {
	newest := map[string]map[float64]point{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var line struct {
			Row     string
			Queues  float64
			Figures map[string]float64
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		rest, ok := strings.CutPrefix(line.Row, "queues-")
		if !ok {
			continue
		}
		engine, _, _ := strings.Cut(rest, "-")
		if newest[engine] == nil {
			newest[engine] = map[float64]point{}
		}
		newest[engine][line.Queues] = point{line.Queues, line.Figures}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(newest) == 0 {
		return nil, errors.New("no rows queues-*")
	}
	curves := map[string]curve{}
	for engine, points := range newest {
		for _, p := range points {
			curves[engine] = append(curves[engine], p)
		}
		slices.SortFunc(curves[engine], func(a, b point) int { return int(a.queues - b.queues) })
	}
	return curves, nil
}

// panel is one figure over the number of queues.
type panel struct{ title, figure string }

var panels = [][]panel{
	{{"memory after ten units each (RssAnon, MiB)", "appendMiB"}, {"memory, opened again, all ends known (RssAnon, MiB)", "endsMiB"}},
	{{"disk once closed (MiB)", "closedDiskMiB"}, {"opened, the ends of all queues known (ms)", "endsMillis"}},
	{{"first unit of each queue (units/s)", "makePerSecond"}, {"nine more (units/s)", "appendPerSecond"}},
	{{"10 units of a queue at random (reads/s)", "readPerSecond"}, {"memory after these reads (RssAnon, MiB)", "readMiB"}},
}

// Size of the drawing.
const (
	width  = 23 * vg.Centimeter
	height = 28 * vg.Centimeter
)

var styles = []struct {
	engine, label string
	red, green    uint8
	blue          uint8
	glyph         draw.GlyphDrawer
}{
	{"file", "files", 0xd5, 0x5e, 0x00, draw.BoxGlyph{}},
	{"rocks", "RocksDB", 0x00, 0x72, 0xb2, draw.CircleGlyph{}},
}

func newPlot(p panel, curves map[string]curve) (*plot.Plot, error) {
	plt := plot.New()
	plt.Title.Text, plt.X.Label.Text = p.title, "queues"
	plt.X.Scale, plt.Y.Scale = plot.LogScale{}, plot.LogScale{}
	plt.X.Tick.Marker, plt.Y.Tick.Marker = decades{}, decades{}
	plt.X.Padding, plt.Y.Padding = 0, 0
	plt.Legend.Top, plt.Legend.Left, plt.Legend.XOffs, plt.Legend.YOffs = true, true, vg.Points(8), -vg.Points(4)
	plt.Add(plotter.NewGrid())
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range styles {
		var xys plotter.XYs
		for _, pt := range curves[s.engine] {
			if v := pt.figures[p.figure]; v > 0 && pt.queues > 0 {
				xys = append(xys, plotter.XY{X: pt.queues, Y: v})
				low, high = min(low, v), max(high, v)
			}
		}
		if len(xys) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(xys)
		if err != nil {
			return nil, err
		}
		line.Color = rgb{s.red, s.green, s.blue}
		line.Width = vg.Points(1.5)
		points.Color, points.Shape, points.Radius = line.Color, s.glyph, vg.Points(3)
		plt.Add(line, points)
		plt.Legend.Add(s.label, line, points)
	}
	if low > high {
		return nil, fmt.Errorf("no row has %s", p.figure)
	}
	// Whole decades, and one more above for the legend.
	plt.Y.Min, plt.Y.Max = math.Pow(10, math.Floor(math.Log10(low))), 10*math.Pow(10, math.Ceil(math.Log10(high)))
	plt.X.Min, plt.X.Max = plt.X.Min*0.7, plt.X.Max*1.5
	return plt, nil
}

// rgb is an opaque colour.
type rgb struct{ r, g, b uint8 }

// RGBA implements color.Color.
func (c rgb) RGBA() (r, g, b, a uint32) {
	return uint32(c.r) * 0x101, uint32(c.g) * 0x101, uint32(c.b) * 0x101, 0xffff
}

// decades marks powers of ten, in words of a few characters, and the steps between without any.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for d := math.Pow(10, math.Floor(math.Log10(low))); d <= high*1.0001; d *= 10 {
		for step := 1.0; step < 10; step++ {
			if v := d * step; v >= low*0.9999 && v <= high*1.0001 {
				label := ""
				if step == 1 {
					label = short(v)
				}
				ticks = append(ticks, plot.Tick{Value: v, Label: label})
			}
		}
	}
	return ticks
}

func short(v float64) string {
	switch {
	case v >= 0.9999e6:
		return fmt.Sprintf("%gM", math.Round(v/1e6))
	case v >= 0.9999e3:
		return fmt.Sprintf("%gk", math.Round(v/1e3))
	}
	return fmt.Sprintf("%.4g", v)
}

// drawAll draws the panels onto c.
func drawAll(c draw.Canvas, curves map[string]curve) error {
	plots := make([][]*plot.Plot, len(panels))
	for i, line := range panels {
		for _, p := range line {
			plt, err := newPlot(p, curves)
			if err != nil {
				return err
			}
			plots[i] = append(plots[i], plt)
		}
	}
	gap := vg.Points(14)
	tiles := draw.Tiles{Rows: len(panels), Cols: len(panels[0]), PadX: gap, PadY: gap, PadTop: gap, PadBottom: gap, PadLeft: gap, PadRight: gap}
	for i, line := range plot.Align(plots, tiles, c) {
		for k, canvas := range line {
			plots[i][k].Draw(canvas)
		}
	}
	return nil
}

func asSVG(curves map[string]curve) ([]byte, error) {
	plot.DefaultFont.Variant = "Sans"
	c := vgsvg.NewWith(vgsvg.UseWH(width, height))
	if err := drawAll(draw.New(c), curves); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err := c.WriteTo(&b)
	// Whatever sans serif font there is serves: nothing is loaded from elsewhere.
	return bytes.ReplaceAll(b.Bytes(), []byte("Liberation Sans"), []byte("Liberation Sans, Arial, sans-serif")), err
}

func asPNG(curves map[string]curve) ([]byte, error) {
	plot.DefaultFont.Variant = font.Variant("Sans")
	c := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(110))
	if err := drawAll(draw.New(c), curves); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(&b)
	return b.Bytes(), err
}
