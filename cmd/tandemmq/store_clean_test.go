package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/migrate"
)

func TestClean(t *testing.T) {
	dir := checkSample(t)
	logs := func() int {
		entries, err := os.ReadDir(filepath.Join(dir, "commitlog"))
		require.NoError(t, err)
		return len(entries)
	}
	n := logs()
	require.Greater(t, n, 1)
	code, stdout, stderr := runApp(t, "store", "clean", "--store", dir, "--reserve-hours", "0")
	require.Zero(t, code, stderr)
	require.Equal(t, n-1, strings.Count(stdout, "would remove "), stdout)
	require.Contains(t, stdout, "it holds the last record")
	require.Contains(t, stdout, "Result: nothing was changed; --yes removes what is listed")
	require.Equal(t, n, logs())

	code, stdout, stderr = runApp(t, "store", "clean", "--store", dir, "--reserve-hours", "0", "--yes", "--json")
	require.Zero(t, code, stderr)
	var rep struct {
		Removed []struct{ Path, Why string }
		DryRun  bool
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &rep))
	require.Len(t, rep.Removed, n-1)
	require.False(t, rep.DryRun)
	require.Equal(t, 1, logs())
	code, stdout, stderr = runApp(t, "store", "check", "--store", dir, "--deep", "--quiet")
	require.Zero(t, code, stdout+stderr)

	code, stdout, _ = runApp(t, "store", "clean", "--store", dir, "--reserve-hours", "0", "--yes")
	require.Zero(t, code)
	require.Contains(t, stdout, "Result: nothing has expired")
}

func TestCleanRefusals(t *testing.T) {
	dir := checkSample(t)
	for want, args := range map[string][]string{
		"--yes and --dry-run":   {"--yes", "--dry-run"},
		"--reserve-hours -1":    {"--reserve-hours", "-1"},
		"use 0 to 876000":       {"--reserve-hours", "99999999999999999"},
		"its migration is back": {"--yes"},
		"recover it first":      {"--yes"},
	} {
		state := filepath.Join(dir, "tandemmq")
		switch {
		case strings.HasPrefix(want, "its"):
			require.NoError(t, os.MkdirAll(state, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(state, migrate.StateFileName), []byte(`{"version":1,"phase":"backfilling","from":"file","to":"rocks"}`), 0o644))
		case strings.HasPrefix(want, "recover"):
			require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), []byte("1"), 0o644))
		}
		code, stdout, stderr := runApp(t, append([]string{"store", "clean", "--store", dir}, args...)...)
		require.NotZero(t, code, stdout)
		if args[0] == "--reserve-hours" {
			require.Equal(t, 2, code)
		}
		require.Contains(t, stderr, want)
		require.NoError(t, os.RemoveAll(state))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "abort")))
	}
}

// Each index file that goes is a line with its rule too, the same before and after.
func TestCleanNamesIndexFiles(t *testing.T) {
	dir := checkSample(t)
	conf := filepath.Join(t.TempDir(), "broker.conf")
	require.NoError(t, os.WriteFile(conf, []byte("maxHashSlotNum=100\nmaxIndexNum=400\n"), 0o644))
	code, _, stderr := runApp(t, "store", "rebuild", "--store", dir, "--index", "--conf", conf, "--yes", "--quiet")
	require.Zero(t, code, stderr)
	gone := func(args ...string) (paths []string) {
		code, stdout, stderr := runApp(t, append([]string{"store", "clean", "--store", dir, "--reserve-hours", "0"}, args...)...)
		require.Zero(t, code, stderr)
		for line := range strings.Lines(stdout) {
			if _, rest, ok := strings.Cut(line, "remove"); ok && strings.Contains(line, "is below the log's beginning") {
				path, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(rest, "d"), " "), " (")
				paths = append(paths, path)
			}
		}
		return paths
	}
	planned := gone()
	require.NotEmpty(t, planned)
	for _, path := range planned {
		require.FileExists(t, path)
	}
	require.Equal(t, planned, gone("--yes"))
	for _, path := range planned {
		require.NoFileExists(t, path)
	}
	left, err := os.ReadDir(filepath.Join(dir, "index"))
	require.NoError(t, err)
	require.NotEmpty(t, left)
}
