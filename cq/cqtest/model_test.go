package cqtest_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/cqtest"
)

func modelOf(bug string) cqtest.ModelHarness {
	return cqtest.ModelHarness{Harness: cqtest.Harness{
		Open:      func(dir string, o cqtest.OpenOptions) (cq.Store, error) { return openMemory(dir, bug, o) },
		KeepsTime: true,
	}}
}

func FuzzModel(f *testing.F) { cqtest.FuzzModel(f, modelOf(late)) }

// The model is worth what it finds, within the seeds that every run has.
func TestModelFindsBugs(t *testing.T) {
	for _, bug := range []string{
		"a close forgets", "a conflict is accepted", "a cut spares its own record", "a cut takes the record before it", "a dropped queue keeps units",
		"a gap is padded", "a queue that lost all stays", "a repeat is appended", "dirty units come back", "every queue begins at 0",
		"expiry takes a live unit", "min is 0", "min stays behind the log", "readable comes but for one", "readable never comes",
		"the last unit of a read is wrong",
	} {
		t.Run(bug, func(t *testing.T) {
			var err error
			for seed := uint64(0); seed < 50 && err == nil; seed++ {
				dir, merr := os.MkdirTemp(t.TempDir(), "")
				require.NoError(t, merr)
				err = cqtest.RunModel(dir, modelOf(bug), cqtest.ModelSteps(seed))
			}
			require.Error(t, err, "50 seeds passed")
		})
	}
}
