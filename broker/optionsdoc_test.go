package broker

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ofTheMachine are the properties whose default depends on the machine: the table tells in words, in brackets.
var ofTheMachine = []string{"brokerName", "storePathRootDir", "maxInFlightBytes", "aclFile"}

// docs/broker.md has every property of the broker, and no other.
func TestBrokerPageMatchesOptions(t *testing.T) {
	page, err := os.ReadFile("../docs/broker.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(page), "\n## Properties of the broker\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n## ")
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		require.Len(t, cells, 5, "%s", line)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		name := strings.Trim(cells[0], "`")
		require.NotContains(t, rows, name, "a second row")
		rows[name] = cells
	}
	o := DefaultOptions()
	for i := range brokerProperties {
		p := &brokerProperties[i]
		t.Run(p.Name, func(t *testing.T) {
			cells, ok := rows[p.Name]
			require.True(t, ok, "no row in docs/broker.md")
			delete(rows, p.Name)
			want := "(empty)"
			if text := p.Text(&o); text != "" {
				want = "`" + text + "`"
			}
			if slices.Contains(ofTheMachine, p.Name) {
				require.Regexp(t, `^\(.+\)$`, cells[1])
			} else {
				require.Equal(t, want, cells[1])
			}
			require.Equal(t, map[bool]string{true: "run time", false: "restart"}[p.Live], cells[2])
			require.NotEmpty(t, cells[3])
			require.Equal(t, p.Own, cells[4] == "addition")
		})
	}
	require.Empty(t, rows, "rows of properties that Options does not have")
	for name := range refused {
		require.Contains(t, string(page), "`"+name+"`")
	}
}
