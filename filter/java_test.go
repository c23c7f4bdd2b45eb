package filter

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

// javaTable is testdata/java.json: what the broker's filters of RocketMQ 5.5.0 answered. tests/interop asks them again, and with
// -update writes their answers into it; a new case needs no more than its expression.
//
// A letter of Values is the answer for one set of properties: T true, F false, N null, E an exception.
type javaTable struct {
	Groups []struct {
		Name  string
		Sets  []map[string]string
		Cases []struct {
			Expression string
			Refused    bool
			Values     string
		}
	}
	Tags []struct {
		Expression string
		Codes      []int64
		Refused    bool
		Matches    string
		Tags       []string
		TagCodes   []int32
	}
}

func readJavaTable(t testing.TB) (table javaTable) {
	t.Helper()
	raw, err := os.ReadFile("testdata/java.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &table))
	return table
}

// properties is a set of properties as a record holds it.
func properties(set map[string]string) (p []byte) {
	for name, value := range set {
		p = message.AppendProperty(p, name, value)
	}
	return p
}

var letters = map[Outcome]string{True: "T", False: "F", Unknown: "N", Failed: "E"}

func TestSQLIsRocketMQs(t *testing.T) {
	cases, strict := 0, 0
	for _, g := range readJavaTable(t).Groups {
		for _, c := range g.Cases {
			cases++
			f, err := Compile(TypeSQL92, c.Expression, Options{IgnoreRest: true})
			if c.Refused {
				require.ErrorIs(t, err, ErrSyntax, "%q", c.Expression)
				continue
			}
			require.NoError(t, err, "%q", c.Expression)
			for i, set := range g.Sets {
				p := properties(set)
				got := f.Evaluate(p)
				require.Equal(t, c.Values[i:i+1], letters[got], "%s: %q with %q", g.Name, c.Expression, set)
				require.Equal(t, got == True, f.MatchRecord(p))
			}
			// By default a text with a rest is refused, and nothing else changes.
			if f, err = Compile(TypeSQL92, c.Expression, Options{}); err != nil {
				var se *SyntaxError
				require.ErrorAs(t, err, &se)
				require.Empty(t, se.Problem, "%q", c.Expression)
				strict++
				continue
			}
			for i, set := range g.Sets {
				require.Equal(t, c.Values[i:i+1], letters[f.Evaluate(properties(set))], "%q with %q", c.Expression, set)
			}
		}
	}
	require.Greater(t, cases, 550)
	t.Logf("%d expressions, %d refused for their rest alone", cases, strict)
}

func TestTagsAreRocketMQs(t *testing.T) {
	table := readJavaTable(t).Tags
	require.NotEmpty(t, table)
	for _, c := range table {
		f, err := Compile(TypeTag, c.Expression, Options{})
		require.Equal(t, c.Refused, err != nil, "%q: %v", c.Expression, err)
		if err != nil {
			require.ErrorIs(t, err, ErrSyntax)
			continue
		}
		require.ElementsMatch(t, c.Tags, f.Tags(), "%q", c.Expression)
		require.ElementsMatch(t, c.TagCodes, f.TagCodes(), "%q", c.Expression)
		for i, code := range c.Codes {
			require.Equal(t, c.Matches[i:i+1] == "T", f.MatchUnit(code), "%q with %d", c.Expression, code)
		}
		require.True(t, f.MatchRecord(nil), "the record is for the client to look at")
	}
}
