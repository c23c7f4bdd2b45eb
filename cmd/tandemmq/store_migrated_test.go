//go:build cgo

package main

import (
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
}
