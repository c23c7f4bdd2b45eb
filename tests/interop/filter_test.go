//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/filter"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

var update = flag.Bool("update", false, "write RocketMQ's answers into filter/testdata/java.json")

// A filterQuestion and a filterAnswer are lines of FilterCheck.
type (
	filterQuestion struct {
		Type       string              `json:"type"`
		Expression string              `json:"expression"`
		Sets       []map[string]string `json:"sets,omitempty"`
		Codes      []*int64            `json:"codes,omitempty"`
	}
	filterAnswer struct {
		Compiles bool     `json:"compiles"`
		Why      string   `json:"why"`
		Tags     []string `json:"tags"`
		TagCodes []int32  `json:"tagCodes"`
		Values   []string `json:"values"`
		Matches  []bool   `json:"matches"`
	}
)

// askFilters has the broker's own filters answer, in one JVM.
func askFilters(t *testing.T, questions []filterQuestion) []filterAnswer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), javaLimit)
	defer cancel()
	classPath, err := java.BuildBroker(ctx)
	require.NoError(t, err)
	var in, out, errs bytes.Buffer
	enc := json.NewEncoder(&in)
	for _, q := range questions {
		require.NoError(t, enc.Encode(q))
	}
	cmd := java.Command(ctx, classPath, t.TempDir(), jvm("512m"), "FilterCheck")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &errs
	require.NoError(t, cmd.Run(), "%s", lastBytes(&errs, 4000))
	answers := make([]filterAnswer, len(questions))
	dec := json.NewDecoder(&out)
	for i := range answers {
		require.NoError(t, dec.Decode(&answers[i]), "answer %d: %s", i, lastBytes(&errs, 4000))
	}
	return answers
}

// The table of package filter, with RocketMQ's answers in letters: T true, F false, N null, E an exception.
type (
	filterTable struct {
		Groups []*filterGroup  `json:"groups"`
		Tags   []*filterByTags `json:"tags"`
	}
	filterGroup struct {
		Name  string              `json:"name"`
		Sets  []map[string]string `json:"sets"`
		Cases []*filterCase       `json:"cases"`
	}
	filterCase struct {
		Expression string `json:"expression"`
		Refused    bool   `json:"refused,omitempty"`
		Values     string `json:"values,omitempty"`
	}
	filterByTags struct {
		Expression string   `json:"expression"`
		Codes      []int64  `json:"codes"`
		Refused    bool     `json:"refused,omitempty"`
		Matches    string   `json:"matches,omitempty"`
		Tags       []string `json:"tags,omitempty"`
		TagCodes   []int32  `json:"tagCodes,omitempty"`
	}
)

var filterLetters = map[string]string{"true": "T", "false": "F", "null": "N", "throws": "E"}

// letters turns the values of an answer into letters, and sees to it that the broker's filter matches just where the value is true.
func letters(t *testing.T, expression string, a filterAnswer) (all string) {
	t.Helper()
	for i, v := range a.Values {
		require.Contains(t, filterLetters, v, "%q", expression)
		require.Equal(t, v == "true", a.Matches[i], "%q, set %d", expression, i)
		all += filterLetters[v]
	}
	return all
}

// The checked-in answers are those of RocketMQ 5.5.0.
func TestFilterTableIsRocketMQs(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "filter", "testdata", "java.json")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var table, now filterTable
	require.NoError(t, json.Unmarshal(raw, &table))
	require.NoError(t, json.Unmarshal(raw, &now))
	var questions []filterQuestion
	for _, g := range table.Groups {
		for _, c := range g.Cases {
			questions = append(questions, filterQuestion{Type: filter.TypeSQL92, Expression: c.Expression, Sets: g.Sets})
		}
	}
	for _, c := range table.Tags {
		questions = append(questions, filterQuestion{Type: filter.TypeTag, Expression: c.Expression, Codes: handedCodes(c.Codes)})
	}
	answers := askFilters(t, questions)
	for _, g := range now.Groups {
		for _, c := range g.Cases {
			c.Refused, c.Values = !answers[0].Compiles, letters(t, c.Expression, answers[0])
			answers = answers[1:]
		}
	}
	for i, c := range now.Tags {
		a := answers[i]
		c.Refused, c.Tags, c.TagCodes, c.Matches = !a.Compiles, a.Tags, a.TagCodes, ""
		for _, m := range a.Matches {
			c.Matches += map[bool]string{true: "T", false: "F"}[m]
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(path, now.format(t), 0o644))
		return
	}
	require.Equal(t, string(now.format(t)), string(raw), "go test -tags interop -run TestFilterTable ./tests/interop -update")
}

// handedCodes are tags codes as RocketMQ's store hands them to filters: the address of an extension unit is handed as null.
func handedCodes(codes []int64) (handed []*int64) {
	for _, c := range codes {
		if c < math.MinInt32 {
			handed = append(handed, nil)
		} else {
			handed = append(handed, &c)
		}
	}
	return handed
}

// format is the table as JSON with a line for each case.
func (table *filterTable) format(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	line := func(before string, v any, after string) {
		b.WriteString(before)
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(v))
		b.Truncate(b.Len() - 1)
		b.WriteString(after)
	}
	comma := func(i, n int) string { return map[bool]string{true: ",\n", false: "\n"}[i < n-1] }
	b.WriteString("{\"groups\":[\n")
	for i, g := range table.Groups {
		line("{\"name\":", g.Name, ",")
		line("\"sets\":", g.Sets, ",\n\"cases\":[\n")
		for j, c := range g.Cases {
			line("", c, comma(j, len(g.Cases)))
		}
		b.WriteString("]}" + comma(i, len(table.Groups)))
	}
	b.WriteString("],\"tags\":[\n")
	for i, c := range table.Tags {
		line("", c, comma(i, len(table.Tags)))
	}
	b.WriteString("]}\n")
	return b.Bytes()
}

// properties is a set of properties as a record holds it.
func properties(set map[string]string) (p []byte) {
	for name, value := range set {
		p = message.AppendProperty(p, name, value)
	}
	return p
}

// filterSeed is an environment variable: another seed for the random expressions.
const filterSeed = "TANDEMMQ_FILTER_SEED"

// Random expressions over random properties: the same texts are refused, and the others say the same of every record.
func TestFilterRandomExpressions(t *testing.T) {
	t.Parallel()
	const expressions, sets = 6000, 12
	seed := uint64(550)
	if text := os.Getenv(filterSeed); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	gen := newFilterGenerator(seed)
	var questions []filterQuestion
	for range expressions {
		q := filterQuestion{Type: filter.TypeSQL92, Expression: gen.expression()}
		for range sets {
			q.Sets = append(q.Sets, gen.properties())
		}
		questions = append(questions, q)
	}
	counts := map[string]int{}
	for i, a := range askFilters(t, questions) {
		q := questions[i]
		f, err := filter.Compile(q.Type, q.Expression, filter.Options{IgnoreRest: true})
		require.Equal(t, a.Compiles, err == nil, "seed %d, expression %d: %q: %v / %s", seed, i, q.Expression, err, a.Why)
		if err != nil {
			require.ErrorIs(t, err, filter.ErrSyntax)
			counts["refused"]++
			continue
		}
		want := letters(t, q.Expression, a)
		for n, set := range q.Sets {
			got := outcomeLetters[f.Evaluate(properties(set))]
			require.Equal(t, want[n:n+1], got, "seed %d, expression %d: %q with %v", seed, i, q.Expression, set)
			counts[got]++
		}
	}
	t.Log(fmt.Sprint(counts))
	for _, kind := range []string{"refused", "T", "F", "N", "E"} {
		require.Greater(t, counts[kind], 300, "too few %s to mean anything: %v", kind, counts)
	}
}

var outcomeLetters = map[filter.Outcome]string{filter.True: "T", filter.False: "F", filter.Unknown: "N", filter.Failed: "E"}
