package compare

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/internal/htmlreport/htmltest"
)

// sampleReport has bars, a curve, latencies, sizes, a failure, and names that would break a page.
func sampleReport() *Report {
	r := &Report{
		Version: 1, Started: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Seconds: 283, Profile: Quick, Build: "v1.2.3",
		Machine: calibrate.MachineInfo{CPU: "Some CPU & more", Processors: 2, MemoryKiB: "8 GiB", Kernel: "6.1", Filesystem: "ext4", Go: "go1.26"},
		Budget:  map[string]string{"flush": "async", "block cache": "64 MiB"},
		Limits:  []Limit{{Name: LimitCopyWarm, Title: "copy into a warm mapping", Unit: "B/s", Values: []float64{9.5e9, 9.9e9, 9.1e9}}},
		Left:    []string{"queues/1000000 needs 20 GiB, 3 are free"},
		Ratios:  []Ratio{{"put/rocks", ">=", 0.9, 0.97, true}, {"get/rocks", "<=", 2, 2.5, false}},
	}
	add := func(scenario, engine, headline string, x, v float64) *Row {
		row := Row{Scenario: scenario, Title: "what " + scenario + " does", Engine: engine, Headline: headline, X: x, Bounds: map[string]string{LimitCopyWarm: "logBytesPerSecond"}}
		if x > 0 {
			row.XLabel = "queues"
		}
		for i := range 3 {
			n := v * (0.9 + float64(i)/10)
			row.Repetitions = append(row.Repetitions, Repetition{
				Figures:   report.Figures{headline: n, "logBytesPerSecond": n * 1000, diskFigure: v / 100, peakFigure: v / 500},
				Latencies: map[string]calibrate.Summary{"put": {Samples: 1000, P50: time.Duration(1e9 / v), P99: time.Duration(4e9 / v), P999: time.Duration(2e10 / v), Max: time.Duration(1e12 / v)}},
				Checks:    []string{"all messages have their numbers", "1,000 contents were read back"}, Seconds: 2,
			})
		}
		r.Rows = append(r.Rows, row)
		return &r.Rows[len(r.Rows)-1]
	}
	for i, e := range []string{File, Rocks, Combine, Java} {
		f := 1 - float64(i)/5
		add("put/async/producers-1", e, "putPerSecond", 0, 400_000*f)
		add("put/sync/producers-64", e, "putPerSecond", 0, 3_000*f)
		add("put/readable", e, "readableP99Micros", 0, 120/f)
		for _, q := range []float64{1000, 10_000, 100_000, 1_000_000} {
			add(fmt.Sprintf("queues/%.0f", q), e, "appendPerSecond", q, 2e6*f/(1+q/300_000))
		}
	}
	for _, e := range []string{"one log", "file per topic", "file per queue <script>alert(1)</script>"} {
		add("layout/topics-100/\u202e\"<b>", e, "bytesPerSecond", 0, 3e8)
	}
	failed := add("put/sync/producers-1", File, "putPerSecond", 0, 500)
	failed.Repetitions[1] = Repetition{Failed: "queue a/0 ends at 99, want 100", Seconds: 1}
	return r
}

func TestHTML(t *testing.T) {
	var out, again bytes.Buffer
	require.NoError(t, HTML(&out, sampleReport()))
	require.NoError(t, HTML(&again, sampleReport()))
	require.True(t, bytes.Equal(out.Bytes(), again.Bytes()), "the same report is the same page")
	text := htmltest.Check(t, out.String())

	r := sampleReport()
	contains := func(want string) { // without the whole page in the message
		t.Helper()
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		contains(strings.ReplaceAll(row.Scenario, "\u202e", `\u202e`))
		contains(row.Engine)
		v, ok := row.Spread(row.Headline)
		require.True(t, ok)
		contains(value(v[1], Unit(row.Headline)))
	}
	for _, want := range []string{
		"1 kept, 1 missed", "get/rocks", "≤ 2", "queue a/0 ends at 99, want 100", "queues/1000000 needs 20 GiB", "block cache", "64 MiB",
		"Some CPU & more", "copy into a warm mapping", "1,000 contents were read back", "what put/readable does", "2.50 ×",
	} {
		contains(want)
	}
	require.NotContains(t, text, "Nothing to draw")
	// Bars, a curve, latencies, disk, memory: each for two widths.
	require.GreaterOrEqual(t, len(regexp.MustCompile("<svg ").FindAllString(out.String(), -1)), 2*(4+4+3))
	require.Less(t, out.Len(), 500<<10)
}

func TestHTMLOfNothing(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, HTML(&out, &Report{}))
	htmltest.Check(t, out.String())
}
