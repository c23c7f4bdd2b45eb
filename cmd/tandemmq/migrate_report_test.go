//go:build cgo

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/htmlreport/htmltest"
	"github.com/tandemq/tandemmq/migrate/state"
)

// Each step can write the page, whatever it comes to, and leaves for the next one what it took down.
func TestMigrateReport(t *testing.T) {
	dir := checkSample(t)
	path := filepath.Join(t.TempDir(), "out.html")
	step := func(code int, args ...string) string {
		t.Helper()
		got, out, errs := runApp(t, append(append([]string{"migrate"}, args...), "--store", dir, "--report", path)...)
		require.Equal(t, code, got, "%s%s", out, errs)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return htmltest.Check(t, string(b))
	}
	has := func(text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("the page lacks %q", w)
			}
		}
	}
	has(step(0, "status"), "No migration was begun.")
	has(step(0, "plan", "--quiet"), "This step: plan", "From files to RocksDB")
	require.NoDirExists(t, filepath.Join(dir, "tandemmq"), "neither of them writes to the store")
	has(step(1, "verify", "--quiet"), "no backfill is complete")
	has(step(0, "run", "--yes", "--quiet"), "This step: run --yes", "Reads are with RocksDB", "How far", "backfill", "verify", "cutover", "Queues by number of units", "Consume queues on the disk", "SHA-256")
	has(step(0, "status"), "From files to RocksDB, of the stopped store: cutover.", "Who did what", "backfill-end", "How far", "Consume queues on the disk")
	all, err := state.LoadSamples(filepath.Join(dir, "tandemmq"))
	require.NoError(t, err)
	require.NotEmpty(t, all)
	require.NotEmpty(t, all[len(all)-1].Disk)
	has(step(0, "repair", "--dry-run", "--quiet"), "This step: repair", "each slot has the unit of its record")

	code, _, errs := runApp(t, "migrate", "status", "--store", dir, "--report", filepath.Join(dir, "nowhere", "x.html"))
	require.Equal(t, 1, code)
	require.Contains(t, errs, "nowhere")
}
