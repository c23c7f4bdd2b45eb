package filter

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docRows returns the cells of the rows of docs/filters.md whose table has these headings in front.
func docRows(t *testing.T, headings ...string) (rows [][]string) {
	t.Helper()
	page, err := os.ReadFile("../docs/filters.md")
	require.NoError(t, err)
	head := "| " + strings.Join(headings, " | ") + " |"
	inside := false
	for line := range strings.Lines(string(page)) {
		switch {
		case strings.HasPrefix(line, head):
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside && !strings.HasPrefix(line, "|---"):
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
			for i, c := range cells {
				cells[i] = strings.Trim(strings.TrimSpace(c), "`")
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// docs/filters.md is right about every expression it shows.
func TestDocExamples(t *testing.T) {
	rows := docRows(t, "expression", "properties", "answer")
	require.Greater(t, len(rows), 20)
	for _, r := range rows {
		set := map[string]string{}
		for pair := range strings.FieldsSeq(r[1]) {
			name, value, _ := strings.Cut(pair, "=")
			set[name] = value
		}
		require.Equal(t, r[2], compiled(t, r[0]).Evaluate(properties(set)).String(), "%q with %v", r[0], set)
	}
	rows = docRows(t, "expression", "column")
	require.Greater(t, len(rows), 5)
	for _, r := range rows {
		_, err := Compile(TypeSQL92, r[0], Options{})
		var se *SyntaxError
		require.ErrorAs(t, err, &se, "%q", r[0])
		require.Equal(t, r[1], strconv.Itoa(se.Column), "%q: %v", r[0], err)
	}
}
