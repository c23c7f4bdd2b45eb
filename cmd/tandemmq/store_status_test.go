package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/store"
)

func TestStoreStatus(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	code, _, stderr := runApp(t, "store", "generate", "--store", root, "--messages", "100")
	require.Zero(t, code, stderr)
	code, stdout, stderr := runApp(t, "store", "status", "--store", root)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "closed in order")
	require.Regexp(t, `log +0 to [0-9,]+ +clean end in 1 files, 2023-11-1`, stdout)
	require.Regexp(t, `file queues +[0-9,]+ +up to the log's end`, stdout)
	require.NotContains(t, stdout, "index")

	code, stdout, stderr = runApp(t, "store", "status", "--store", root, "--json")
	require.Zero(t, code, stderr)
	var st store.Status
	require.NoError(t, json.Unmarshal([]byte(stdout), &st))
	require.Equal(t, st.EndPhyOffset, st.Views[0].Dispatched)

	code, _, stderr = runApp(t, "store", "status", "--store", filepath.Join(root, "nothing"))
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "nothing")
}
