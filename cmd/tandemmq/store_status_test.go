package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/store"
)

func TestStoreStatus(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	code, _, stderr := runApp(t, "store", "generate", "--store", root, "--messages", "100", "--commitlog-size", "1048576")
	require.Zero(t, code, stderr)
	code, stdout, stderr := runApp(t, "store", "status", "--store", root)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "closed in order")
	require.Regexp(t, `log +0 to [0-9,]+ +clean end in 1 files, 2023-11-1`, stdout)
	require.Regexp(t, `file queues +[0-9,]+ +up to the log's end`, stdout)
	require.NotRegexp(t, `(?m)^ *index `, stdout)

	code, stdout, stderr = runApp(t, "store", "status", "--store", root, "--json")
	require.Zero(t, code, stderr)
	var st store.Status
	require.NoError(t, json.Unmarshal([]byte(stdout), &st))
	require.Equal(t, st.EndPhyOffset, st.Views[0].Dispatched)
	for _, name := range []string{"appended", "committed", "flushed", "confirmed"} {
		require.Contains(t, stdout, fmt.Sprintf("%q: %d,", name, st.EndPhyOffset))
	}
	require.Contains(t, stdout, `"behindMs": 0`)
	var keys struct{ Checkpoint map[string]int64 }
	require.NoError(t, json.Unmarshal([]byte(stdout), &keys))
	require.Equal(t, []string{
		"confirmPhyOffset", "indexMsgTimestamp", "logFlushedOffset", "logicsMsgTimestamp", "logicsPhysicalOffset", "masterFlushedOffset", "physicMsgTimestamp",
	}, slices.Sorted(maps.Keys(keys.Checkpoint)))

	// an index whose sizes are not the default ones
	conf := filepath.Join(t.TempDir(), "broker.conf")
	require.NoError(t, os.WriteFile(conf, []byte("maxHashSlotNum=100\nmaxIndexNum=400\n"), 0o644))
	code, _, stderr = runApp(t, "store", "rebuild", "--store", root, "--index", "--conf", conf, "--yes", "--quiet")
	require.Zero(t, code, stderr)
	_, stdout, _ = runApp(t, "store", "status", "--store", root)
	require.Regexp(t, `index +[0-9,]+ +up to the log's end`, stdout)
	require.Contains(t, stdout, "2023-11-14T22:13:20.000Z to ", "times are UTC, and say so")

	aside := filepath.Join(root, "tandemmq", "broken", "rocksdb-1") // as a replaced RocksDB is kept
	require.NoError(t, os.MkdirAll(aside, 0o755))
	_, stdout, _ = runApp(t, "store", "status", "--store", root)
	require.Contains(t, stdout, "a damaged RocksDB of queues, which nothing needs any more: "+aside)

	flags, err := store.OpenRunningFlags(nil, store.NewLayout(root).StateDir())
	require.NoError(t, err)
	require.NoError(t, flags.Set(store.FlagLogicsQueueError, "no luck"))
	_, stdout, _ = runApp(t, "store", "status", "--store", root)
	require.Regexp(t, `LOGICS_QUEUE_ERROR +since .*: no luck`, stdout)
	require.Contains(t, stdout, "`tandemmq store recover --store "+root+"`")

	code, _, stderr = runApp(t, "store", "status", "--store", filepath.Join(root, "nothing"))
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "nothing")
}
