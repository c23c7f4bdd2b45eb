//go:build cgo

package e2e

import (
	"testing"

	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/tests/golden"
)

// treeSums is golden.TreeSums without the file in which each step of a migration takes down how long it took, those too that change nothing.
func treeSums(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	sums := golden.TreeSums(tb, dir)
	delete(sums, "tandemmq/"+state.SamplesFileName)
	return sums
}
