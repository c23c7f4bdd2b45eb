package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The keys of the lines of `store check --json` are a promise to whoever reads them: those that are always there, and those
// that are left out when empty.
var (
	findingKeys     = []string{"code", "endPhyOffset", "fileOffset", "phyOffset", "queueId", "queueOffset", "severity", "side", "t", "text"}
	findingOptional = []string{"file", "got", "invariant", "row", "topic", "want"}
	summaryKeys     = []string{
		"counts", "damagedBytes", "deep", "elapsedNanos", "errors", "logBytes", "logEnd", "logEndKind", "logFiles", "logMin", "notChecked",
		"notices", "queues", "records", "remedies", "sides", "sound", "store", "t", "unclean", "units", "unitsProven", "warnings",
	}
	countKeys = []string{"code", "count", "listed", "severity"}
)

func checkSample(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	code, _, stderr := runApp(t, "store", "generate", "--store", dir, "--messages", "500", "--commitlog-size", "65536", "--cq-file-size", "2000", "--quiet")
	require.Zero(t, code, stderr)
	return dir
}

func TestCheckJSON(t *testing.T) {
	dir := checkSample(t)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue", "sample_1", "2")))
	require.NoError(t, os.Remove(filepath.Join(dir, "checkpoint")))
	code, stdout, stderr := runApp(t, "store", "check", "--store", dir, "--deep", "--json", "--limit", "3")
	require.Equal(t, 3, code)
	require.Regexp(t, `^tandemmq: store \S+ is not sound: \d+ errors\n$`, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 5)
	for i, line := range lines {
		var m map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		if i < 4 {
			require.JSONEq(t, `"finding"`, string(m["t"]))
			for _, k := range findingOptional {
				if v, ok := m[k]; ok {
					require.NotEqual(t, `""`, string(v), k)
					delete(m, k)
				}
			}
			require.Equal(t, findingKeys, slices.Sorted(maps.Keys(m)))
			continue
		}
		require.JSONEq(t, `"summary"`, string(m["t"]))
		require.Equal(t, summaryKeys, slices.Sorted(maps.Keys(m)))
		var counts []map[string]any
		require.NoError(t, json.Unmarshal(m["counts"], &counts))
		require.Len(t, counts, 2)
		require.Equal(t, "missing-queue", counts[0]["code"])
		require.Equal(t, "FRI-2", counts[0]["invariant"])
		require.InDelta(t, 3, counts[0]["listed"], 0)
		require.Greater(t, counts[0]["count"], 3.0)
		delete(counts[0], "invariant")
		require.Equal(t, countKeys, slices.Sorted(maps.Keys(counts[0])))
		require.Equal(t, countKeys, slices.Sorted(maps.Keys(counts[1])), "no invariant, no key")
	}
	_, again, _ := runApp(t, "store", "check", "--store", dir, "--deep", "--json", "--limit", "3", "--workers", "1")
	require.Equal(t, lines[:4], strings.Split(again, "\n")[:4])

	_, human, _ := runApp(t, "store", "check", "--store", dir, "--deep", "--quiet", "--limit", "3")
	require.Regexp(t, `\nerror missing-queue: \d+ more, \d+ in all \(--limit lists more\)\n`, human)
}

func TestCheckExitCodes(t *testing.T) {
	dir := checkSample(t)
	for _, tc := range []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"sound", []string{"--store", dir, "--quiet"}, 0, ""},
		{"sound, JSON", []string{"--store", dir, "--json"}, 0, ""},
		{"no such side", []string{"--store", dir, "--kind", "rocks"}, 1, "no RocksDB consume queues"},
		{"one side of two", []string{"--store", dir, "--kind", "both"}, 1, "no RocksDB consume queues"},
		{"no store", []string{"--store", filepath.Join(dir, "none")}, 1, "no such directory"},
		{"unknown side", []string{"--store", dir, "--kind", "tape"}, 2, `--kind "tape": use file, rocks or both`},
		{"no workers", []string{"--store", dir, "--workers", "0"}, 2, "--workers 0: use 1 or more"},
		{"no limit", []string{"--store", dir, "--limit", "0"}, 2, "--limit 0: use 1 or more"},
		{"no store named", nil, 2, "--store is missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, _, stderr := runApp(t, append([]string{"store", "check"}, tc.args...)...)
			require.Equal(t, tc.code, code, stderr)
			require.Contains(t, stderr, tc.stderr)
			require.Equal(t, tc.stderr == "", stderr == "", stderr)
		})
	}
}

// What a store is called that has an abort mark, or was not read in full.
func TestCheckVerdict(t *testing.T) {
	dir := checkSample(t)
	verdict := func(args ...string) string {
		_, stdout, _ := runApp(t, append([]string{"store", "check", "--store", dir, "--quiet"}, args...)...)
		return stdout[strings.LastIndex(stdout, "Result: "):]
	}
	require.Equal(t, "Result: no fault seen; --deep proves every unit\n", verdict())
	require.Equal(t, "Result: sound\n", verdict("--deep"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), nil, 0o644))
	require.Equal(t, "Result: sound as far as a store can be whose recovery has not run\n", verdict("--deep"))
}

// Issue 5, parts 4 and 5: the way on from a log that lacks a file, as it is printed.
func TestIssue5Part4RecoverOfAMissingLogFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	code, _, stderr := runApp(t, "store", "generate", "--store", dir, "--messages", "1000", "--commitlog-size", "65536", "--quiet")
	require.Zero(t, code, stderr)
	file := filepath.Join(dir, "commitlog", "00000000000000065536")
	require.NoError(t, os.Remove(file))
	code, stdout, _ := runApp(t, "store", "check", "--store", dir, "--quiet")
	require.Equal(t, 3, code)
	require.Contains(t, stdout, "log-run")
	require.Contains(t, stdout, "restore them from a copy")
	command := "tandemmq store recover --store " + dir + " --mend --dry-run"
	require.Contains(t, stdout, "      "+command+"\n")
	code, _, stderr = runApp(t, "store", "recover", "--store", dir, "--quiet")
	require.Equal(t, 3, code)
	require.Contains(t, stderr, "lacks 1 files between others; nothing was changed")
	code, stdout, stderr = runApp(t, append(strings.Fields(command)[1:], "--quiet")...)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "log file "+file+": missing, a filler would take its place; physical offsets 65536 to 131072\n")
	require.NoFileExists(t, file)
	code, stdout, stderr = runApp(t, "store", "recover", "--store", dir, "--mend", "--quiet")
	require.Zero(t, code, stdout+stderr)
	require.Contains(t, stdout, "log file "+file+": a filler is in its place; physical offsets 65536 to 131072\n")
	require.Regexp(t, `WARNING: queue \S+/\d+: the log has lost the records of slots \d+ to \d+; they stay empty, and readers pass them`, stdout)
	code, stdout, stderr = runApp(t, "store", "recover", "--store", dir, "--dry-run", "--quiet")
	require.Zero(t, code, stderr)
	require.Regexp(t, `file queues +it has all of the log, from \d+: `, stdout)
}
