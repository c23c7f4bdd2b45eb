package budget

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq/rocks"
)

var update = flag.Bool("update", false, "write the counts of this run into "+budgetFile)

const budgetFile = "budget.txt"

// count is what one operation allocates.
type count struct{ allocs, bytes float64 }

// By how much a count may lie beside its budget: a share of it, and a little for what happens now and then, whoever asked for it (a goroutine's stack, a timer, a batch that grew).
const (
	slackShare  = 0.1
	slackAllocs = 0.05
	slackBytes  = 16
)

// judge compares a count with its budget: "" when it is kept.
func judge(got, budget count) string {
	beside := func(got, budget, least float64) int {
		switch slack := max(budget*slackShare, least); {
		case got > budget+slack:
			return 1
		case got < budget-slack:
			return -1
		}
		return 0
	}
	switch a, b := beside(got.allocs, budget.allocs, slackAllocs), beside(got.bytes, budget.bytes, slackBytes); {
	case a > 0 || b > 0:
		return "over the budget"
	case a < 0 || b < 0:
		return "under the budget, which has to follow"
	}
	return ""
}

// line is how an operation stands in the file: counts rounded to hundredths of an allocation and to whole bytes.
func line(name string, c count) string {
	return fmt.Sprintf("%-20s %8.2f %8.0f", name, c.allocs, c.bytes)
}

const heading = `# What an operation allocates: its name, allocations, bytes. Checked by go test ./bench/budget, which writes this file with -update.
`

func parse(text string) (map[string]count, error) {
	budget := map[string]count{}
	for scan, n := bufio.NewScanner(strings.NewReader(text)), 1; scan.Scan(); n++ {
		if l := strings.TrimSpace(scan.Text()); l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		var name string
		var c count
		var more string
		if got, _ := fmt.Sscan(scan.Text(), &name, &c.allocs, &c.bytes, &more); got != 3 {
			return nil, fmt.Errorf("%s:%d: %q, want a name and two numbers", budgetFile, n, scan.Text())
		}
		if _, twice := budget[name]; twice {
			return nil, fmt.Errorf("%s:%d: %s is there twice", budgetFile, n, name)
		}
		budget[name] = c
	}
	return budget, nil
}

// Rounds that do not count, for memory that is kept to grow to what it needs, and rounds of which the least counts.
const (
	warmRounds = 3
	rounds     = 5
)

// measure counts what round allocates, which is ops operations, together with whatever else runs in the process. The collector rests: it would empty pools.
func measure(ops int, round func()) count {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for range warmRounds {
		round()
	}
	least := count{math.Inf(1), math.Inf(1)}
	var before, after runtime.MemStats
	for range rounds {
		runtime.ReadMemStats(&before)
		round()
		runtime.ReadMemStats(&after)
		least.allocs = min(least.allocs, float64(after.Mallocs-before.Mallocs)/float64(ops))
		least.bytes = min(least.bytes, float64(after.TotalAlloc-before.TotalAlloc)/float64(ops))
	}
	return least
}

func TestBudget(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates, and makes pools forget")
	}
	text, err := os.ReadFile(budgetFile)
	require.NoError(t, err)
	budget, err := parse(string(text))
	require.NoError(t, err)
	if !rocks.Available {
		require.False(t, *update, "a binary without RocksDB cannot count all of it")
	}

	for _, o := range operations {
		if o.rocks && !rocks.Available {
			continue
		}
		t.Run(o.name, func(t *testing.T) {
			got := o.count(t)
			want, ok := budget[o.name]
			if *update {
				t.Log(line(o.name, got))
				budget[o.name] = got
				return
			}
			require.True(t, ok, "no budget; the line of this run:\n%s", line(o.name, got))
			t.Logf("%s: %.3f allocations and %.1f bytes, budget %.2f and %.0f", o.name, got.allocs, got.bytes, want.allocs, want.bytes)
			if fault := judge(got, want); fault != "" {
				t.Errorf("%s; the line of this run:\n%s", fault, line(o.name, got))
			}
		})
	}
	file := heading
	for _, o := range operations {
		if c, ok := budget[o.name]; ok {
			file += line(o.name, c) + "\n"
		}
	}
	for name := range budget {
		if !slices.ContainsFunc(operations, func(o operation) bool { return o.name == name }) && !*update {
			t.Errorf("%s has a line %s, which nothing measures", budgetFile, name)
		}
	}
	if *update && !t.Failed() {
		require.NoError(t, os.WriteFile(budgetFile, []byte(file), 0o644))
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		got, budget count
		want        string
	}{
		{count{0, 0}, count{0, 0}, ""},
		{count{0.04, 15}, count{0, 0}, ""},
		{count{0.06, 0}, count{0, 0}, "over the budget"},
		{count{0, 17}, count{0, 0}, "over the budget"},
		{count{10.9, 1000}, count{10, 1000}, ""},
		{count{11.1, 1000}, count{10, 1000}, "over the budget"},
		{count{8.9, 1000}, count{10, 1000}, "under the budget, which has to follow"},
		{count{10, 890}, count{10, 1000}, "under the budget, which has to follow"},
		{count{8, 1200}, count{10, 1000}, "over the budget"},
	} {
		require.Equal(t, c.want, judge(c.got, c.budget), "%v against %v", c.got, c.budget)
	}
}

func TestParse(t *testing.T) {
	got, err := parse(heading + "\n" + line("a/b", count{1.004, 12}) + "\n" + line("c", count{}) + "\n")
	require.NoError(t, err)
	require.Equal(t, map[string]count{"a/b": {1, 12}, "c": {}}, got)
	for _, bad := range []string{"a 1", "a 1 2 3", "a one 2"} {
		_, err := parse(heading + bad)
		require.ErrorContains(t, err, `budget.txt:2: "`+bad+`"`)
	}
	_, err = parse("a 1 2\na 1 2\n")
	require.ErrorContains(t, err, "budget.txt:2: a is there twice")
}

var sink [][]byte

// What is counted is everything, of whichever goroutine, and no more.
func TestMeasure(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	work, done := make(chan struct{}), make(chan struct{})
	defer close(work)
	go func() {
		for range work {
			sink = append(sink[:0], make([]byte, 1000))
			done <- struct{}{}
		}
	}()
	got := measure(100, func() {
		for range 100 {
			work <- struct{}{}
			<-done
		}
	})
	require.InDelta(t, 1, got.allocs, 0.05)
	require.InDelta(t, 1024, got.bytes, 16)
}
