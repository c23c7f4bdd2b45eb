package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/compare"
)

// A comparison runs each run as a process of its own, keeps nothing but its inputs, and writes what bench diff reads.
func TestBenchCompare(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "now.json")
	scenarios := "^put/async/producers-1$"
	if compare.HasRocks {
		scenarios += "|^migrate/"
	}
	work := filepath.Join(dir, "work")
	cmd := process(0, "bench", "compare", "--profile", "tiny", "--engines", "file", "--reps", "2", "--scenarios", scenarios, "--dir", work, "--json", path)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), stderr.String())
	require.Contains(t, stdout.String(), "RATIO put_p99_us ")
	require.Contains(t, stdout.String(), "\ncopyWarm ")
	require.Contains(t, stderr.String(), "2 put/async/producers-1 file: ")
	rep, err := compare.ReadReport(path)
	require.NoError(t, err)
	require.Zero(t, rep.Failed())
	row := rep.Row("put/async/producers-1", compare.File)
	require.NotNil(t, row)
	require.Len(t, row.Repetitions, 2)
	require.Positive(t, row.Repetitions[1].Figures["peakAnonMiB"])
	require.NotEmpty(t, row.Repetitions[1].Checks)
	require.Len(t, rep.Limits, compare.LimitCount())
	require.NotEmpty(t, rep.Budget)
	if compare.HasRocks {
		require.NotNil(t, rep.Row("migrate/verify-records", compare.Migration))
	}
	entries, err := os.ReadDir(work)
	require.NoError(t, err)
	require.Len(t, entries, 1, "the inputs")

	code, out, errs := runApp(t, "bench", "diff", path, path)
	require.Zero(t, code, errs)
	require.Contains(t, out, " 0 better, 0 worse ")
	for i := range row.Repetitions {
		row.Repetitions[i].Figures["putPerSecond"] /= 1000
	}
	slower := filepath.Join(dir, "slower.json")
	b, err := json.Marshal(rep)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(slower, b, 0o600))
	code, out, errs = runApp(t, "bench", "diff", path, slower)
	require.Equal(t, 1, code)
	require.Regexp(t, `put/async/producers-1 +file +putPerSecond .* -\d+\.\d% +WORSE`, out)
	require.Equal(t, "tandemmq: 1 rows are worse\n", errs)
	code, out, _ = runApp(t, "bench", "diff", "--json", slower, path)
	require.Zero(t, code)
	var d compare.Difference
	require.NoError(t, json.Unmarshal([]byte(out), &d))
	require.Zero(t, d.Worse())

	code, _, errs = runApp(t, "bench", "diff", path, work)
	require.Equal(t, 1, code)
	require.Contains(t, errs, work)
}

func TestBenchLimits(t *testing.T) {
	dir := t.TempDir()
	code, out, errs := runApp(t, "bench", "limits", "--profile", "tiny", "--reps", "2", "--dir", dir, "--json")
	require.Zero(t, code, errs)
	require.Empty(t, errs)
	var doc limitsDocument
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	require.Len(t, doc.Limits, compare.LimitCount())
	require.Len(t, doc.Limits[0].Values, 2)
	code, out, errs = runApp(t, "bench", "limits", "--profile", "tiny", "--reps", "1", "--dir", dir)
	require.Zero(t, code, errs)
	require.Regexp(t, `\nfdatasync +\S+ .?s `, out)
	require.Contains(t, errs, "limits: ")
}

func TestBenchCompareUsage(t *testing.T) {
	for want, args := range map[string][]string{
		`--profile "slow": use quick or full`:                                                {"compare", "--profile", "slow"},
		`--reps 0: want 1 to 1000`:                                                           {"limits", "--reps", "0"},
		`--engines "file,other": use file, rocks, combine`:                                   {"compare", "--engines", "file,other"},
		`--scenarios: error parsing regexp`:                                                  {"compare", "--scenarios", "("},
		`--scenarios "nosuch": there is no such scenario; there are put/async/producers-1, `: {"compare", "--scenarios", "nosuch"},
		`--scenarios "^stages/async$": stages/async run with --profile full alone`:           {"compare", "--scenarios", "^stages/async$"},
		`bench diff: want two reports, got 1`:                                                {"diff", "a"},
		`--percent -1: want 0 or more`:                                                       {"diff", "--percent", "-1", "a", "b"},
	} {
		code, _, stderr := runApp(t, append([]string{"bench"}, args...)...)
		require.Equal(t, 2, code, stderr)
		require.Contains(t, stderr, want)
	}
	cmd := process(0, "bench", "compare", "--profile", "tiny")
	cmd.Env = append(cmd.Env, testProfileEnv+"=")
	require.Error(t, cmd.Run())
	require.Equal(t, 2, cmd.ProcessState.ExitCode(), "a profile of tests")

	code, out, stderr := runApp(t, "bench", "compare", "--list", "--scenarios", "^put/sync")
	require.Zero(t, code, stderr)
	require.Regexp(t, `^put/sync/producers-64 +1 KiB by 64, .* \(file, rocks, combine, java, java-rocks\)`, out)
	require.NotContains(t, out, "producers-256", "it belongs to the full profile")
}
