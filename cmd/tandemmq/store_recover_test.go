package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// crashedSample is a store with an abort mark, half a record at its end, and queues that lack units and have one too many.
func crashedSample(t *testing.T) (dir string) {
	t.Helper()
	dir = checkSample(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), []byte("1"), 0o644))
	logs, err := os.ReadDir(filepath.Join(dir, "commitlog"))
	require.NoError(t, err)
	path := filepath.Join(dir, "commitlog", logs[len(logs)-1].Name())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	end := len(b)
	for b[end-1] == 0 {
		end--
	}
	clear(b[end-200:])
	require.NoError(t, os.WriteFile(path, b, 0o644))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue", "sample_1", "2")))
	return dir
}

func TestRecover(t *testing.T) {
	dir := crashedSample(t)
	code, stdout, stderr := runApp(t, "store", "recover", "--store", dir, "--dry-run")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "torn tail")
	require.Contains(t, stdout, "nothing was changed")
	require.FileExists(t, filepath.Join(dir, "abort"))
	require.NoDirExists(t, filepath.Join(dir, "tandemmq"))

	code, stdout, stderr = runApp(t, "store", "recover", "--store", dir)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "Result: in order")
	require.Regexp(t, `file queues +at \d+, dispatched to from \d+: `, stdout, "where it began, and why")
	require.NoFileExists(t, filepath.Join(dir, "abort"))
	code, stdout, stderr = runApp(t, "store", "check", "--store", dir, "--deep", "--quiet")
	require.Zero(t, code, stdout+stderr)
	code, _, stderr = runApp(t, "store", "dump", "--store", dir)
	require.Zero(t, code, stderr)
	require.Empty(t, stderr, "no warning any more")

	code, stdout, stderr = runApp(t, "store", "recover", "--store", dir, "--json")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	var m map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(stdout), &m))
	require.Equal(t, []string{"abortCleared", "check", "dryRun", "durableTo", "elapsedNanos", "log", "logEnd", "sides", "store", "unclean", "views", "wholeBelow"}, slices.Sorted(maps.Keys(m)))
}

// damagedSample has a damaged record in the first file of its log, and an abort mark.
func damagedSample(t *testing.T) (dir string) {
	t.Helper()
	dir = checkSample(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), []byte("1"), 0o644))
	require.NoError(t, os.Remove(filepath.Join(dir, "checkpoint")))
	path := filepath.Join(dir, "commitlog", mappedfile.Name(0))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[4] ^= 1 // the first record's magic
	require.NoError(t, os.WriteFile(path, b, 0o644))
	return dir
}

func TestRecoverIsToldWhatToDoWithDamage(t *testing.T) {
	t.Run("refuse", func(t *testing.T) {
		dir := damagedSample(t)
		code, stdout, stderr := runApp(t, "store", "recover", "--store", dir, "--quiet")
		require.Equal(t, 3, code, stdout)
		require.Contains(t, stdout, "NOT in order")
		for _, part := range []string{mappedfile.Name(0) + "+0: ", "next valid record at physical offset", "--mend", "--accept-loss", "--dry-run"} {
			require.Contains(t, stderr, part)
		}
		require.NoDirExists(t, filepath.Join(dir, "tandemmq", "broken"))
	})
	for _, how := range []string{"--mend", "--accept-loss"} {
		t.Run(how, func(t *testing.T) {
			dir := damagedSample(t)
			code, stdout, stderr := runApp(t, "store", "recover", "--store", dir, how, "--dry-run", "--quiet")
			require.Zero(t, code, stderr)
			require.Contains(t, stdout, "1 ranges")
			require.NoDirExists(t, filepath.Join(dir, "tandemmq"))
			left := map[string]int{"--mend": 3, "--accept-loss": 0}[how] // the queue of the record that is gone has its unit
			code, stdout, stderr = runApp(t, "store", "recover", "--store", dir, how, "--quiet")
			require.Equal(t, left, code, stderr)
			require.Contains(t, stdout, "set aside in")
			require.NoFileExists(t, filepath.Join(dir, "abort"))
			if left != 0 {
				require.Regexp(t, `leads to no record of its own: look at it first. If the log has lost that record .*:\n +tandemmq store inspect unit --store \S+ --topic \S+ --queue \d+ --offset \d+\n`, stdout)
			}
			code, stdout, _ = runApp(t, "store", "recover", "--store", dir, "--full", "--quiet")
			require.Equal(t, left, code)
			require.Contains(t, stdout, "clean end")
			require.NotRegexp(t, ` damage  +\d+ ranges`, stdout)
		})
	}
}

func TestRecoverUsage(t *testing.T) {
	for _, args := range [][]string{{"--mend", "--accept-loss"}, {"--kind", "x"}} {
		code, _, _ := runApp(t, append([]string{"store", "recover", "--store", t.TempDir()}, args...)...)
		require.Equal(t, 2, code, args)
	}
	conf := filepath.Join(t.TempDir(), "broker.conf")
	require.NoError(t, os.WriteFile(conf, []byte("# sizes\nmappedFileSizeCommitLog = 65536\nmaxIndexNum=oops\n"), 0o644))
	code, _, stderr := runApp(t, "store", "recover", "--store", checkSample(t), "--conf", conf)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "maxIndexNum")
	require.NoError(t, os.WriteFile(conf, []byte("mappedFileSizeCommitLog = 131072\n"), 0o644))
	code, _, stderr = runApp(t, "store", "recover", "--store", checkSample(t), "--conf", conf)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "65536")
}
