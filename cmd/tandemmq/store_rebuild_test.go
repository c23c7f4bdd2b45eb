package main

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mappedfile"
)

func TestRebuild(t *testing.T) {
	dir := checkSample(t)
	path := filepath.Join(dir, "consumequeue", "sample_1", "2")
	files, err := os.ReadDir(path)
	require.NoError(t, err)
	path = filepath.Join(path, files[0].Name())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[7] ^= 1
	require.NoError(t, os.WriteFile(path, b, 0o644))
	code, _, _ := runApp(t, "store", "check", "--store", dir, "--deep", "--quiet")
	require.Equal(t, 3, code)

	code, stdout, stderr := runApp(t, "store", "rebuild", "--store", dir, "--queues", "file", "--quiet")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "nothing was changed")
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, b, now)
	require.NoFileExists(t, filepath.Join(dir, "abort"))

	code, stdout, stderr = runApp(t, "store", "rebuild", "--store", dir, "--queues", "file", "--topic", "sample_1", "--queue", "2", "--yes", "--quiet")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "built 1 queues")
	require.NoFileExists(t, filepath.Join(dir, "abort"))
	code, stdout, _ = runApp(t, "store", "check", "--store", dir, "--deep", "--quiet")
	require.Zero(t, code, stdout)

	code, stdout, stderr = runApp(t, "store", "rebuild", "--store", dir, "--yes", "--json")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	var m map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(stdout), &m))
	require.Equal(t, []string{"abortCleared", "aside", "dryRun", "elapsedNanos", "logEnd", "logMin", "notes", "resumed", "store", "unclean", "views"}, slices.Sorted(maps.Keys(m)))
	code, stdout, _ = runApp(t, "store", "check", "--store", dir, "--deep", "--quiet")
	require.Zero(t, code, stdout)
}

func TestRebuildRefusesADamagedLog(t *testing.T) {
	dir := damagedSample(t)
	code, _, stderr := runApp(t, "store", "rebuild", "--store", dir, "--queues", "file", "--yes", "--quiet")
	require.Equal(t, 3, code)
	require.Contains(t, stderr, "store recover")
	require.NoDirExists(t, filepath.Join(dir, "tandemmq", "broken"))
}

func TestRebuildUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--queues", "x"}, {"--yes", "--dry-run"}, {"--queue", "1"}, {"--topic", "t", "--index"}, {"--topic", "t", "--queue", "-2"},
	} {
		code, _, _ := runApp(t, append([]string{"store", "rebuild", "--store", t.TempDir()}, args...)...)
		require.Equal(t, 2, code, args)
	}
}

// A log that was mended has lost records: rebuild keeps all others, and warns.
func TestRebuildWarnsOfLostRecords(t *testing.T) {
	dir := checkSample(t)
	path := filepath.Join(dir, "commitlog", mappedfile.Name(0))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	at := 0
	for range 100 { // one in the middle of its queue
		at += int(binary.BigEndian.Uint32(b[at:]))
	}
	b[at+4] ^= 1 // its magic
	require.NoError(t, os.WriteFile(path, b, 0o644))
	code, _, stderr := runApp(t, "store", "recover", "--store", dir, "--mend", "--full", "--quiet")
	require.Zero(t, code, stderr)
	code, stdout, stderr := runApp(t, "store", "rebuild", "--store", dir, "--yes", "--quiet")
	require.Zero(t, code, stderr)
	require.Regexp(t, `WARNING: queue \S+/\d+: the log has lost the records of slots \d+ to \d+; they stay empty`, stdout)
	code, stdout, stderr = runApp(t, "store", "check", "--store", dir, "--deep", "--quiet")
	require.Zero(t, code, stdout+stderr)
	require.Contains(t, stdout, "lost-record")
}
