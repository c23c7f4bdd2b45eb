//go:build cgo

package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// After a migration both sides are at the log's end, by the byte.
func TestStatusAfterAMigration(t *testing.T) {
	dir := checkSample(t)
	code, _, stderr := runApp(t, "migrate", "run", "--store", dir, "--yes", "--quiet")
	require.Zero(t, code, stderr)
	code, stdout, stderr := runApp(t, "store", "status", "--store", dir)
	require.Zero(t, code, stderr)
	require.Regexp(t, `file queues +[0-9,]+ +up to the log's end`, stdout)
	require.Regexp(t, `rocks queues +[0-9,]+ +up to the log's end`, stdout)
	code, stdout, stderr = runApp(t, "store", "recover", "--store", dir, "--quiet")
	require.Zero(t, code, stdout+stderr)
	require.Contains(t, stdout, "Result: in order")

	logs, err := filepath.Glob(filepath.Join(dir, "tandemmq", "*LOG*"))
	require.NoError(t, err)
	require.Empty(t, logs, "RocksDB's own log has a directory of its own")
	logs, err = filepath.Glob(filepath.Join(dir, "tandemmq", "rocksdb-log", "*_LOG"))
	require.NoError(t, err)
	require.NotEmpty(t, logs)
}
