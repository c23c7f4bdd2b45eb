package cqtest_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/cqtest"
)

// bugEnv makes TestSuite run the suite over a store with that bug.
const bugEnv = "CQTEST_BUG"

// late is no bug: a store whose units become readable later than they are accepted.
const late = "late"

func TestSuite(t *testing.T) { suite(t, os.Getenv(bugEnv)) }

func TestSuiteOverLateUnits(t *testing.T) { suite(t, late) }

func suite(t *testing.T, bug string) {
	cqtest.Run(t, cqtest.Harness{
		Open: func(dir string, o cqtest.OpenOptions) (cq.Store, error) { return openMemory(dir, bug, o) },

		KeepsTime: true,
	})
}

// The suite is worth what it finds: each of these bugs must be found, by the group of cases that is there for it.
func TestSuiteFindsBugs(t *testing.T) {
	if os.Getenv(bugEnv) != "" {
		t.Skip("this is the process with the bug")
	}
	for bug, group := range map[string]string{
		"a closed store answers":           "Closed",
		"a close forgets":                  "Reopen",
		"a conflict is accepted":           "Append",
		"a cut spares its own record":      "Truncate",
		"a cut takes the record before it": "Truncate",
		"a dropped queue keeps units":      "Import",
		"a flush does nothing":             "Append",
		"a gap is padded":                  "Append",
		"a queue that lost all stays":      "Truncate",
		"a read-only open writes":          "ReadOnly",
		"a read-only store appends":        "ReadOnly",
		"a read writes too far":            "Read",
		"a repeat is appended":             "Append",
		"an empty queue is not published":  "Import",
		"an expired queue is forgotten":    "Expire",
		"an import never overwrites":       "Import",
		"asking creates":                   "Read",
		"dirty units come back":            "Truncate",
		"dispatch resumes at a start":      "Append",
		"every queue begins at 0":          "Append",
		"expiry takes a live unit":         "Expire",
		"max falls now and then":           "Concurrent",
		"min forgets the first live unit":  "Min",
		"min is 0":                         "Min",
		"min stays behind the log":         "Expire",
		"outside the bounds is nothing":    "Read",
		"publish lowers":                   "Import",
		"readable comes but for one":       "Append",
		"readable never comes":             "Append",
		"the last unit of a read is wrong": "Read",
	} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSuite$/^"+group+"$")
			c.Env = append(os.Environ(), bugEnv+"="+bug)
			out, err := c.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "the suite passed")
			require.Regexp(t, `--- FAIL: TestSuite/`+group+`/`, string(out))
		})
	}
}
