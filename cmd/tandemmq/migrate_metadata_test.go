//go:build cgo

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker/meta"
)

// configOf opens the tables of a store in one form, returns the offset that group g has of queue 0 of T, -1 for none, and changes them then.
func configOf(t *testing.T, dir string, f meta.Form, change func(topics *meta.Topics, offsets *meta.Offsets)) int64 {
	t.Helper()
	config := filepath.Join(dir, "config")
	var d *meta.Databases
	var err error
	if f != meta.FormFiles {
		d, err = meta.OpenDatabases(config, f)
		require.NoError(t, err)
		defer func() { require.NoError(t, d.Close()) }()
	}
	topics, err := meta.OpenTopics(config, meta.TopicsOptions{Databases: d})
	require.NoError(t, err)
	offsets, err := meta.OpenOffsets(config, d, nil)
	require.NoError(t, err)
	at := offsets.Query("g", "T", 0)
	if change != nil {
		change(topics, offsets)
		require.NoError(t, offsets.Save())
	}
	return at
}

func commit(at int64) func(*meta.Topics, *meta.Offsets) {
	return func(_ *meta.Topics, o *meta.Offsets) { o.Commit("g", "T", 0, at) }
}

// Issue 9 part 10: cutover and rollback take topics and offsets along, and refuse to write over what is newer.
func TestPart10CutoverAndRollbackMoveMetadata(t *testing.T) {
	dir := checkSample(t)
	configOf(t, dir, meta.FormFiles, commit(12))
	code, out, errs := runApp(t, "migrate", "run", "--store", dir, "--yes", "--quiet")
	require.Zero(t, code, errs)
	require.Contains(t, out, "offsets: 1 moved from "+filepath.Join(dir, "config", "consumerOffset.json")+" to "+filepath.Join(dir, "config", "consumerOffsets"))
	require.Equal(t, int64(12), configOf(t, dir, meta.FormRocks, commit(15)))

	// Somebody went on with files, which know nothing of that.
	code, _, errs = runApp(t, append([]string{"broker", "--store", dir, "--quiet"}, ownQueues("default")...)...)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "offsets of "+filepath.Join(dir, "config", "consumerOffsets")+" are newer")
	require.Contains(t, errs, "tandemmq migrate metadata --store "+dir+" --to file --yes")

	code, out, errs = runApp(t, "migrate", "rollback", "--store", dir, "--yes", "--quiet")
	require.Zero(t, code, errs)
	require.Contains(t, out, "offsets: 1 moved from "+filepath.Join(dir, "config", "consumerOffsets"))
	require.Equal(t, int64(15), configOf(t, dir, meta.FormFiles, commit(16)))

	// The databases are used once more, and then not to be written over.
	configOf(t, dir, meta.FormRocks, commit(20))
	configOf(t, dir, meta.FormRocks, commit(21))
	configOf(t, dir, meta.FormRocks, commit(22))
	code, _, errs = runApp(t, "migrate", "run", "--store", dir, "--yes", "--quiet")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "cutover refused")
	require.Contains(t, errs, "--overrule-metadata")
	require.Equal(t, int64(22), configOf(t, dir, meta.FormRocks, nil))
	code, _, errs = runApp(t, "migrate", "cutover", "--store", dir, "--overrule-metadata", "--yes", "--quiet")
	require.Zero(t, code, errs)
	require.Equal(t, int64(16), configOf(t, dir, meta.FormRocks, nil))
}

func TestPart10MetadataAlone(t *testing.T) {
	dir := checkSample(t)
	configOf(t, dir, meta.FormFiles, commit(12))
	code, out, errs := runApp(t, "migrate", "metadata", "--store", dir, "--to", "rocks")
	require.Zero(t, code, errs)
	require.Contains(t, out, "Nothing was changed; --yes does it")
	require.NoDirExists(t, filepath.Join(dir, "config", "topics"))
	conf := filepath.Join(t.TempDir(), "broker.conf")
	require.NoError(t, os.WriteFile(conf, []byte("useSingleRocksDBForAllConfigs=true\n"), 0o644))
	code, out, errs = runApp(t, "migrate", "metadata", "--store", dir, "--to", "rocks", "--conf", conf, "--json", "--yes")
	require.Zero(t, code, errs)
	var res metadataResult
	require.NoError(t, json.Unmarshal([]byte(out), &res))
	require.False(t, res.DryRun)
	require.Len(t, res.Tables, 3)
	require.Equal(t, filepath.Join(dir, "config", "metadata"), res.Tables[2].To)
	require.True(t, res.Tables[2].Written)
	require.Equal(t, int64(12), configOf(t, dir, meta.FormSingle, commit(13)))
	code, _, errs = runApp(t, "migrate", "metadata", "--store", dir, "--to", "file", "--yes") // the form is seen
	require.Zero(t, code, errs)
	require.Equal(t, int64(13), configOf(t, dir, meta.FormFiles, nil))

	for _, c := range []struct {
		conf, want string
		code       int
		args       []string
	}{
		{"configManagerVersion=v2\n", "configManagerVersion=v2", 1, []string{"--to", "file"}},
		{"", `--to "x"`, 2, []string{"--to", "x"}},
	} {
		require.NoError(t, os.WriteFile(conf, []byte(c.conf), 0o644))
		code, _, errs = runApp(t, append([]string{"migrate", "metadata", "--store", dir, "--conf", conf}, c.args...)...)
		require.Equal(t, c.code, code, errs)
		require.Contains(t, errs, c.want)
	}
	require.NoError(t, os.CopyFS(filepath.Join(dir, "config", "topics"), os.DirFS(filepath.Join(dir, "config", "metadata"))))
	code, _, errs = runApp(t, "migrate", "metadata", "--store", dir, "--to", "file", "--yes")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "in two forms")
}
