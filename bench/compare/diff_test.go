package compare

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/report"
)

// rowOf has a row with these values of each figure.
func rowOf(scenario, engine, headline string, figures map[string][]float64) Row {
	row := Row{Scenario: scenario, Engine: engine, Headline: headline}
	for i := range figures[headline] {
		one := Repetition{Figures: report.Figures{}}
		for name, values := range figures {
			one.Figures[name] = values[i]
		}
		row.Repetitions = append(row.Repetitions, one)
	}
	return row
}

func TestDiff(t *testing.T) {
	before := &Report{Version: 1, Limits: []Limit{{Name: LimitSync, Unit: "ns", Values: []float64{100, 101}}}, Rows: []Row{
		rowOf("a", File, "putPerSecond", map[string][]float64{"putPerSecond": {100, 105, 110}, "putP99Micros": {5, 6, 7}, "diskMiB": {10, 10, 10}, "peakAnonMiB": {10, 10, 10}}),
		rowOf("b", File, "readyMillis", map[string][]float64{"readyMillis": {100, 105, 110}}),
		rowOf("c", File, "readyMillis", map[string][]float64{"readyMillis": {100, 110, 120}}),
		rowOf("gone", File, "readyMillis", map[string][]float64{"readyMillis": {1, 1}}),
	}}
	after := &Report{Version: 1, Limits: []Limit{{Name: LimitSync, Unit: "ns", Values: []float64{200, 201}}}, Rows: []Row{
		rowOf("a", File, "putPerSecond", map[string][]float64{"putPerSecond": {130, 135, 140}, "putP99Micros": {7, 8, 9}, "diskMiB": {10.1, 10.1, 10.1}, "peakAnonMiB": {11, 11, 11}}),
		rowOf("b", File, "readyMillis", map[string][]float64{"readyMillis": {130, 135, 140}}),
		rowOf("c", File, "readyMillis", map[string][]float64{"readyMillis": {130, 140, 150}}),
		rowOf("new", File, "readyMillis", map[string][]float64{"readyMillis": {1, 1}}),
	}}
	d := Diff(before, after, 5)
	verdicts := map[string]string{}
	for _, c := range d.Changes {
		verdicts[c.Scenario+" "+c.Figure] = map[bool]string{true: map[bool]string{true: "better", false: "worse"}[c.Better]}[c.Moved]
	}
	require.Equal(t, map[string]string{
		"limits fdatasync": "worse", "a putPerSecond": "better",
		"a putP99Micros": "", // 7 is in both spreads
		"a diskMiB":      "", // apart, by 1 %
		"a peakAnonMiB":  "worse",
		"b readyMillis":  "worse",
		"c readyMillis":  "", // apart, by less than both spreads together
	}, verdicts)
	require.Equal(t, 1, d.Worse())
	require.Equal(t, []string{"gone file"}, d.Before)
	require.Equal(t, []string{"new file"}, d.After)
	require.False(t, d.Single)
	var out strings.Builder
	require.NoError(t, d.Text(&out, false))
	require.Contains(t, out.String(), "WORSE\n")
	require.Regexp(t, `peakAnonMiB .* worse\n`, out.String())
	require.NotContains(t, out.String(), "putP99Micros")
	require.Contains(t, out.String(), "3 rows compared by what they are judged by: 1 better, 1 worse by more than 5%")
	require.Contains(t, out.String(), "7 figures in all")
	out.Reset()
	require.NoError(t, d.Text(&out, true))
	require.Contains(t, out.String(), "putP99Micros")

	after.Rows[0].Repetitions[1].Failed = "a queue lacks a message"
	after.Machine.CPU = "another"
	after.Rows[1].Repetitions = after.Rows[1].Repetitions[:1]
	d = Diff(before, after, 5)
	require.Equal(t, []string{"a file: a queue lacks a message"}, d.Failed)
	require.True(t, d.Single)
	require.Zero(t, d.Worse(), "b by a fifth, once")
	after.Rows[1] = rowOf("b", File, "readyMillis", map[string][]float64{"readyMillis": {170}})
	require.Len(t, d.Machines, 2)
	d = Diff(before, after, 5)
	require.Zero(t, d.Worse(), "another machine")
	out.Reset()
	require.NoError(t, d.Text(&out, false))
	require.Contains(t, out.String(), "machines that differ, they are not compared")
	require.NotRegexp(t, "(?i)worse\n", out.String())
	after.Machine = before.Machine
	after.Machine.TandemMQ = "a later one"
	d = Diff(before, after, 5)
	require.Empty(t, d.Machines, "what is compared")
	require.Equal(t, 1, d.Worse())
	d.Before = []string{"a", "b", "c", "d", "e"}
	out.Reset()
	require.NoError(t, d.Text(&out, false))
	require.Contains(t, out.String(), "only in the first: 5 rows: a, b, c and 2 more\n")
	require.Contains(t, out.String(), "only in the second: new file\n")
	same := Diff(before, before, 5)
	require.Zero(t, same.Worse())
	for _, c := range same.Changes {
		require.False(t, c.Moved)
	}
}

func TestReadReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	_, err := ReadReport(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, bad := range []string{"", "{}", `{"version": 2, "rows": [{}]}`, `{"version": 1, "rows": 7}`} {
		require.NoError(t, os.WriteFile(path, []byte(bad), 0o600))
		_, err := ReadReport(path)
		require.ErrorContains(t, err, path+": not a report of bench compare", bad)
	}
	want := &Report{Version: 1, Rows: []Row{rowOf("a", File, "putPerSecond", map[string][]float64{"putPerSecond": {1}})}}
	b, err := json.Marshal(want)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	got, err := ReadReport(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// Limits are judged by what a report has, in the right direction.
func TestJudge(t *testing.T) {
	r := &Report{Limits: []Limit{{Name: LimitCopyWarm, Unit: "B/s", Values: []float64{1000 * 1024}}, {Name: LimitSync, Unit: "ns", Values: []float64{100_000}}}, Rows: []Row{
		rowOf("put/async/producers-1", File, "putPerSecond", map[string][]float64{"putPerSecond": {900, 900, 1}, "putP99Micros": {21, 21, 21}}),
		rowOf("put/async/producers-1", Java, "putPerSecond", map[string][]float64{"putPerSecond": {100, 100, 100}}),
		rowOf("dispatch/catch-up", File, "buildPerSecond", map[string][]float64{"buildPerSecond": {100}}),
		rowOf("open/rebuild", File, "readyMillis", map[string][]float64{"readyMillis": {10}}),
		rowOf("open/rebuild", Java, "readyMillis", map[string][]float64{"readyMillis": {50}}),
	}}
	r.Judge()
	var lines []string
	for _, x := range r.Ratios {
		lines = append(lines, x.String())
	}
	require.ElementsMatch(t, []string{
		"RATIO put_async_file_of_java 9.00 >= 8 ok", "RATIO put_p99_us 21.0 <= 20 missed", "RATIO dispatch_file_index_of_copy 0.10 >= 0.2 missed", "RATIO rebuild_file_of_java 5.00 >= 5 ok",
	}, lines)

	r.Profile = Quick
	r.Judge()
	require.Empty(t, r.Ratios, "its sizes say nothing of these")

	// What a row is set against: RocketMQ, and the limit that it is nearest to.
	times, ok := r.Advantage(r.Row("put/async/producers-1", File), Java)
	require.True(t, ok)
	require.InDelta(t, 9, times, 1e-9)
	times, ok = r.Advantage(r.Row("open/rebuild", File), Java)
	require.True(t, ok)
	require.InDelta(t, 5, times, 1e-9)
	row := rowOf("sync", File, "putPerSecond", map[string][]float64{"putPerSecond": {1}, "logBytesPerSecond": {102_400}, "putP50Nanos": {200_000}})
	row.Bounds = map[string]string{LimitCopyWarm: "logBytesPerSecond", LimitSync: "putP50Nanos"}
	l, share, ok := r.Nearest(&row)
	require.True(t, ok)
	require.Equal(t, LimitSync, l.Name)
	require.InDelta(t, 0.5, share, 1e-9)
}

func TestNumber(t *testing.T) {
	for want, v := range map[string]struct {
		v    float64
		unit string
	}{"1.23 M/s": {1_234_567, "/s"}, "9.61 GB/s": {9.61e9, "B/s"}, "573 us": {573_439, "ns"}, "2.59 s": {2593, "ms"}, "0.93 us": {0.93, "us"}, "1039 MiB": {1039, "MiB"}, "0.0010": {0.001, ""}} {
		require.Equal(t, want, Number(v.v, v.unit))
	}
	require.Equal(t, "B/s", Unit("logBytesPerSecond"))
	require.Equal(t, "B/s", Unit("bytesPerSecond"))
	require.Equal(t, "/MiB", Unit("minorFaultsPerMiB"))
	require.Empty(t, Unit("putAllocs"))
}

// By recorded runs: one does not differ from itself, and one in which everything is twice as slow differs in each row whose spread leaves room for that.
func TestDiffOfRecord(t *testing.T) {
	paths, err := filepath.Glob("../results/compare-*.json")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		rep, err := ReadReport(path)
		require.NoError(t, err)
		slow, err := ReadReport(path)
		require.NoError(t, err)
		for _, c := range Diff(rep, slow, 5).Changes {
			require.False(t, c.Moved, "%s: %s", path, c.Scenario)
		}
		for i := range slow.Rows {
			row := &slow.Rows[i]
			for _, one := range row.Repetitions {
				if MoreIsBetter(row.Headline) {
					one.Figures[row.Headline] /= 2
				} else {
					one.Figures[row.Headline] *= 2
				}
			}
		}
		there, back, sure := Diff(rep, slow, 5), Diff(slow, rep, 5), 0
		for i, c := range there.Changes {
			if c.Headline && c.Before[2]-c.Before[0] < 0.33*c.Before[1] {
				sure++
				require.True(t, c.Moved && !c.Better, "%s: %s %s", path, c.Scenario, c.Engine)
				require.True(t, back.Changes[i].Better, "%s: %s %s", path, c.Scenario, c.Engine)
			}
		}
		require.Greater(t, 2*sure, len(rep.Rows), "%s: most rows have a spread that says something", path)
		require.GreaterOrEqual(t, there.Worse(), sure)
		require.Zero(t, back.Worse())
	}
}
