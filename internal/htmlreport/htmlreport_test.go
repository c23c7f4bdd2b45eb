package htmlreport_test

import (
	"bytes"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/htmlreport"
	"github.com/tandemq/tandemmq/internal/htmlreport/htmltest"
)

const hostile = "a</td><script>alert('x')</script>\"'&#010101 style=\"fill:#010101\"\u202e\x00\u200b"

func write(t *testing.T, blocks ...htmlreport.Block) string {
	t.Helper()
	p := htmlreport.Page{Title: hostile, Lead: hostile, Foot: hostile, Sections: []htmlreport.Section{{Title: hostile, Lead: hostile, Blocks: blocks}, {Title: "left out"}, {Title: "b", Blocks: blocks}, {Title: "c", Blocks: blocks}}}
	var a, b bytes.Buffer
	require.NoError(t, p.Write(&a))
	require.NoError(t, p.Write(&b))
	require.True(t, bytes.Equal(a.Bytes(), b.Bytes()))
	return a.String()
}

func charts() []htmlreport.Chart {
	two := []htmlreport.Series{{Name: hostile}, {Name: "b", Color: 1}}
	return []htmlreport.Chart{
		&htmlreport.Bars{Series: two, Groups: []htmlreport.BarGroup{{Label: hostile, Bars: []htmlreport.Bar{{Value: 3, Low: 2, High: 4, Text: "three"}, {Series: 1, Text: "nothing"}}}}},
		&htmlreport.Bars{Series: two[:1], Common: true, Groups: []htmlreport.BarGroup{{Label: "x", Bars: []htmlreport.Bar{{Value: 3, Text: "three"}}}}},
		&htmlreport.Ranges{Series: two, Format: htmlreport.Nanos, Points: []string{"p50", "p99", "max"}, Groups: []htmlreport.RangeGroup{{Label: hostile, Rows: []htmlreport.Range{{Values: []float64{1e3, 5e5, 2e9}}, {Series: 1, Values: []float64{0, 0, 0}}}}}},
		&htmlreport.Lines{
			X: htmlreport.Axis{Label: hostile, Log: true, Format: htmlreport.Short}, Y: htmlreport.Axis{Label: hostile, Log: true, Format: htmlreport.Short}, Marks: true,
			Lines: []htmlreport.Line{{Series: two[0], Points: []htmlreport.Point{{X: 1, Y: 1e6, Low: 1e5, High: 2e6}, {X: 1e6, Y: 5}, {X: 1e7, Y: 0}}}, {Series: two[1]}},
		},
		&htmlreport.Lines{
			X: htmlreport.Axis{Times: true, Format: htmlreport.Seconds}, Y: htmlreport.Axis{Format: htmlreport.Short}, Bands: []htmlreport.Band{{From: 0, To: 4000, Label: hostile}, {From: 4000, To: 90000, Label: "long"}},
			Lines: []htmlreport.Line{{Series: two[1], Points: []htmlreport.Point{{X: 0, Y: 0}, {X: 90000, Y: 1}, {X: math.NaN(), Y: 3}}}},
		},
		&htmlreport.Lines{X: htmlreport.Axis{Format: htmlreport.Short}, Y: htmlreport.Axis{Format: htmlreport.Short}, Lines: []htmlreport.Line{{Series: two[1], Points: []htmlreport.Point{{X: 5, Y: 0}}}}},
	}
}

func TestPage(t *testing.T) {
	for _, ch := range charts() {
		page := write(t, htmlreport.Facts{{Name: hostile, Value: hostile, Mark: htmlreport.Bad}}, &htmlreport.List{Items: []string{hostile}}, &htmlreport.Figure{
			Title: hostile, Note: hostile, Chart: ch,
			Table: &htmlreport.Table{Title: hostile, Folded: hostile, Head: []string{hostile}, Rows: [][]htmlreport.Cell{{htmlreport.Text(hostile), htmlreport.Number("42"), htmlreport.Code("c")}}},
		})
		text := htmltest.Check(t, page)
		require.Contains(t, text, `a</td><script>alert('x')</script>"'&#010101 style="fill:#010101"\u202e\x00\u200b`, "what cannot be seen is written as codes, all else as it is")
		require.NotContains(t, text, "left out", "a section of nothing")
		require.NotContains(t, text, "Nothing to draw")

		// Every colour in a drawing is one of the style sheet, so that it is seen in the dark too.
		colours := regexp.MustCompile(`(?:fill|stroke):([^;"]+)`)
		for _, style := range regexp.MustCompile(`style="[^"]*"`).FindAllString(page, -1) {
			for _, m := range colours.FindAllStringSubmatch(style, -1) {
				require.Regexp(t, `^(none|var\(--(ink|muted|grid|band|s[0-5])\))$`, m[1])
			}
		}
		// Whatever is written stands inside the drawing, and is large enough to be read.
		for _, svg := range regexp.MustCompile(`(?s)<svg .*?</svg>`).FindAllString(page, -1) {
			box := regexp.MustCompile(`viewBox="0 0 (\S+) (\S+)"`).FindStringSubmatch(svg)
			width, height := number(t, box[1]), number(t, box[2])
			require.Less(t, width, 701.0)
			texts := regexp.MustCompile(`(?s)<text x="(\S+)" y="(\S+)".*?font-size:(\d+)px`).FindAllStringSubmatch(svg, -1)
			require.NotEmpty(t, texts)
			for _, m := range texts {
				x, y := number(t, m[1]), -number(t, m[2])
				require.True(t, x >= 0 && x < width && y >= 0 && y < height, "text at %g, %g of %g, %g", x, y, width, height)
				require.GreaterOrEqual(t, number(t, m[3]), 11.0)
			}
		}
	}
}

func number(t *testing.T, s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err)
	return v
}

func TestNothingToDraw(t *testing.T) {
	for _, ch := range []htmlreport.Chart{&htmlreport.Bars{}, &htmlreport.Ranges{}, &htmlreport.Lines{}, &htmlreport.Lines{Lines: []htmlreport.Line{{}}}} {
		require.Contains(t, htmltest.Check(t, write(t, &htmlreport.Figure{Title: "x", Chart: ch})), "Nothing to draw")
	}
}

func TestText(t *testing.T) {
	for want, got := range map[string]string{
		"1,234,567": htmlreport.Count(1234567), "-999": htmlreport.Count(-999), "0": htmlreport.Short(0), "1M": htmlreport.Short(1e6), "1.23k": htmlreport.Short(1234), "100": htmlreport.Short(100),
		"1 KiB": htmlreport.Bytes(1024), "20 B": htmlreport.Bytes(20), "1.5 GiB": htmlreport.Bytes(1.5 * (1 << 30)), "–": htmlreport.Bytes(math.NaN()),
		"800 ns": htmlreport.Nanos(800), "1.5 ms": htmlreport.Nanos(1.5e6), "2 s": htmlreport.Nanos(2e9), "20 min 05 s": htmlreport.Seconds(1205), "20 min": htmlreport.Seconds(1200), "3 h 01 min": htmlreport.Seconds(3*3600 + 60), "3 d 00 h": htmlreport.Seconds(3 * 86400),
		"2026-11-30 11:00:00 UTC": htmlreport.Time(time.Date(2026, 11, 30, 12, 0, 0, 0, time.FixedZone("", 3600))),
	} {
		require.Equal(t, want, got)
	}
	require.Equal(t, "naïve 主题\n%LMQ%x", htmlreport.Clean("naïve 主题\n%LMQ%x"))
	require.False(t, strings.ContainsRune(htmlreport.Clean("a\u2066b\x1b[31m\xff"), '\u2066'))
}
