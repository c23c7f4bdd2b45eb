//go:build cgo

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// An operator's way from a broken offset file to a good one, on a store whose queues are in files, and in RocksDB: the same
// offsets on both, whichever side the times are read from, and nothing but the offset file and its copy is touched.
func TestOffsetsRescue(t *testing.T) {
	const backup = `{"offsetTable":{"sample_0@g":{0:100,1:9000,2:7}},"unknown":[1]}`
	var results []string
	for _, side := range []string{"file", "rocks"} {
		t.Run(side, func(t *testing.T) {
			dir := sample(t)
			if side == "rocks" {
				tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes")
			}
			path := filepath.Join(dir, "config", "consumerOffset.json")
			require.NoError(t, os.WriteFile(path, []byte(backup[:40]), 0o644))
			require.NoError(t, os.WriteFile(path+".bak", []byte(backup), 0o644))
			before := treeSums(t, dir)
			offsets := func(code int, args ...string) golden.Result {
				r := tandemmq.Run(t, append([]string{"store", "offsets", args[0], "--store", dir, "--cq", side}, args[1:]...)...)
				require.Equal(t, code, r.Code, "%v\n%s%s", args, r.Stdout, r.Stderr)
				return r
			}

			r := offsets(3, "check")
			require.Contains(t, r.Stdout, path+" at line 1, column ")
			require.Contains(t, r.Stdout, "above-max  group g topic sample_0 queue 1")
			offsets(0, "restore")
			offsets(0, "reset", "--group", "g", "--to-max")
			require.Equal(t, before, treeSums(t, dir), "nothing is written without --yes")

			offsets(0, "restore", "--clamp", "--yes")
			offsets(0, "check")
			offsets(0, "reset", "--group", "g", "--topic", "sample_0", "--queue", "2", "--to-time", "1700000001000", "--yes")
			offsets(0, "check")
			results = append(results, offsets(0, "list", "--json").Stdout)

			b, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Contains(t, string(b), `"unknown":[1]`)
			after := treeSums(t, dir)
			copies, err := filepath.Glob(path + ".*.before-reset")
			require.NoError(t, err)
			require.Len(t, copies, 2)
			for _, name := range append(copies, path) {
				name, err = filepath.Rel(dir, name)
				require.NoError(t, err)
				delete(after, name)
				delete(before, name)
			}
			require.Equal(t, before, after)
		})
	}
	require.Len(t, results, 2)
	require.Equal(t, results[0], results[1])
	var list struct {
		Offsets []struct {
			Offset, Max int64
			StoreMs     int64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(results[0]), &list))
	require.Len(t, list.Offsets, 3)
	require.Equal(t, int64(100), list.Offsets[0].Offset)
	require.Equal(t, list.Offsets[1].Max, list.Offsets[1].Offset)
	require.GreaterOrEqual(t, list.Offsets[2].StoreMs, int64(1700000001000))
}
