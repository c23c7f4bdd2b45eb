package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/store/offsets"
)

// offsetStore makes a store of two queues of topic sample_0 with these offsets, and returns its root and the offset file.
func offsetStore(t *testing.T, file string) (dir, path string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	code, _, stderr := runApp(t, "store", "generate", "--store", dir, "--messages", "100", "--topics", "1", "--queues", "2")
	require.Zero(t, code, stderr)
	path = filepath.Join(dir, "config", "consumerOffset.json")
	if file != "" {
		require.NoError(t, os.WriteFile(path, []byte(file), 0o644))
	}
	return dir, path
}

func requireContent(t *testing.T, want, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(b))
}

const someTable = `{"offsetTable":{"sample_0@g":{0:900,1:5}}}`

func TestOffsetsUsage(t *testing.T) {
	dir, _ := offsetStore(t, someTable)
	for _, tt := range []struct {
		name   string
		args   []string
		stderr string
	}{
		{"no store", []string{"check"}, "tandemmq: store offsets check: --store is missing\n"},
		{"no selection", []string{"reset", "--store", dir, "--to-min"}, "tandemmq: store offsets reset: say which: --group, --topic or --all\n"},
		{"no target", []string{"reset", "--store", dir, "--all"}, "tandemmq: store offsets reset: use one of --to-time, --to-min, --to-max and --clamp\n"},
		{"two targets", []string{"reset", "--store", dir, "--all", "--to-min", "--clamp"}, "tandemmq: store offsets reset: use one of --to-time, --to-min, --to-max and --clamp\n"},
		{"a time without a zone", []string{"reset", "--store", dir, "--all", "--to-time", "2026-01-02T15:04:05"}, "tandemmq: --to-time \"2026-01-02T15:04:05\": use ms since the epoch, or a time with its zone like 2026-01-02T15:04:05+01:00\n"},
		{"an unknown place", []string{"list", "--store", dir, "--place", "tape"}, "tandemmq: --place \"tape\": use one of [json json-lmq rocksdb rocksdb-single rocksdb-v2]\n"},
		{"a negative queue", []string{"list", "--store", dir, "--queue", "-2"}, "tandemmq: --queue -2: use a queue id, 0 or more\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := runApp(t, append([]string{"store", "offsets"}, tt.args...)...)
			require.Equal(t, 2, code)
			require.Empty(t, stdout)
			require.Equal(t, tt.stderr+"see 'tandemmq store offsets "+tt.args[0]+" --help'\n", stderr)
		})
	}
}

func TestOffsetsCheckAndClamp(t *testing.T) {
	dir, path := offsetStore(t, someTable)
	code, stdout, stderr := runApp(t, "store", "offsets", "check", "--store", dir)
	require.Equal(t, 3, code)
	require.Equal(t, "tandemmq: check consumer offsets: 1 finding; nothing was changed\n", stderr)
	require.Contains(t, stdout, path+": 2 offsets of 1 group\n")
	require.Contains(t, stdout, "above-max  group g topic sample_0 queue 0\n")
	require.Contains(t, stdout, "at line 1, column 33\n")

	code, stdout, _ = runApp(t, "store", "offsets", "check", "--store", dir, "--json")
	require.Equal(t, 3, code)
	var rep offsets.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &rep))
	require.Len(t, rep.Findings, 1)
	require.Equal(t, offsets.AboveMax, rep.Findings[0].Kind)

	code, stdout, _ = runApp(t, "store", "offsets", "reset", "--store", dir, "--all", "--clamp")
	require.Zero(t, code)
	require.Contains(t, stdout, "repeat the command with --yes")
	requireContent(t, someTable, path) // a dry run writes nothing

	code, stdout, stderr = runApp(t, "store", "offsets", "reset", "--store", dir, "--all", "--clamp", "--yes", "--json")
	require.Zero(t, code, stderr)
	var res struct {
		Changes []offsets.Change
		Applied *offsets.Applied
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &res))
	require.Len(t, res.Changes, 1)
	requireContent(t, someTable, res.Applied.Copy)
	code, stdout, _ = runApp(t, "store", "offsets", "check", "--store", dir)
	require.Zero(t, code)
	require.Contains(t, stdout, "nobody can tell")
}

func TestOffsetsRestore(t *testing.T) {
	dir, path := offsetStore(t, "{")
	require.NoError(t, os.WriteFile(path+".bak", []byte(`{"offsetTable":{"sample_0@g":{0:9,1:5}}}`), 0o644))
	code, stdout, _ := runApp(t, "store", "offsets", "check", "--store", dir)
	require.Equal(t, 3, code)
	require.Contains(t, stdout, "file-unreadable\n  read offset file "+path+" at line 1, column 2: the text ends, want a key or }")

	code, stdout, _ = runApp(t, "store", "offsets", "restore", "--store", dir, "--group", "g", "--yes", "--json")
	require.Equal(t, 1, code)
	require.Contains(t, stdout, "restore all of the backup first")
	requireContent(t, "{", path)

	code, stdout, stderr := runApp(t, "store", "offsets", "restore", "--store", dir, "--yes")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "What it held before is in "+path+".")
	code, stdout, _ = runApp(t, "store", "offsets", "list", "--store", dir, "--json")
	require.Zero(t, code)
	var l offsets.Listing
	require.NoError(t, json.Unmarshal([]byte(stdout), &l))
	require.Len(t, l.Lines, 2)
	require.Equal(t, int64(9), *l.Lines[0].Offset)
}

// Who only looks may look together; who writes is alone.
func TestOffsetsLock(t *testing.T) {
	dir, path := offsetStore(t, someTable)
	lock, err := store.LockShared(dir)
	require.NoError(t, err)
	for _, args := range [][]string{{"list"}, {"reset", "--all", "--to-min"}} {
		code, _, stderr := runApp(t, append(append([]string{"store", "offsets"}, args...), "--store", dir)...)
		require.Zero(t, code, stderr)
	}
	code, _, stderr := runApp(t, "store", "offsets", "reset", "--all", "--to-min", "--yes", "--store", dir)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "in use")
	require.NoError(t, lock.Close())
	requireContent(t, someTable, path)

	lock, err = store.LockExclusive(dir)
	require.NoError(t, err)
	code, _, stderr = runApp(t, "store", "offsets", "check", "--store", dir)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "in use")
	require.NoError(t, lock.Close())
}

func TestOffsetsOfNothing(t *testing.T) {
	dir, path := offsetStore(t, "")
	code, stdout, _ := runApp(t, "store", "offsets", "check", "--store", dir)
	require.Zero(t, code)
	require.Contains(t, stdout, "holds no consumer offsets")
	code, _, stderr := runApp(t, "store", "offsets", "restore", "--store", dir)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, path+".bak: there is none")
	code, stdout, stderr = runApp(t, "store", "offsets", "reset", "--store", dir, "--group", "g", "--topic", "sample_0", "--to-max", "--yes")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, path+" is written.\n")
	require.FileExists(t, path)
}

// A group or topic that nobody has is an error that names it: a script that misspells one is not to take it for done.
func TestOffsetsOfNobody(t *testing.T) {
	dir, path := offsetStore(t, someTable)
	require.NoError(t, os.WriteFile(path+".bak", []byte(someTable), 0o644))
	for _, yes := range [][]string{nil, {"--yes"}} {
		for want, args := range map[string][]string{
			`group "nope", in `:                       {"reset", "--group", "nope", "--to-max"},
			`group "g" topic "nope", in `:             {"reset", "--group", "g", "--topic", "nope", "--to-max"},
			`group "g" topic "sample_0" queue 9, in `: {"reset", "--group", "g", "--topic", "sample_0", "--queue", "9", "--to-min"},
			`topic "nope", in `:                       {"restore", "--topic", "nope"},
		} {
			code, stdout, stderr := runApp(t, append(append([]string{"store", "offsets", args[0], "--store", dir}, args[1:]...), yes...)...)
			require.Equal(t, 1, code, args)
			require.Empty(t, stdout)
			require.Equal(t, "tandemmq: no consumer offset matches "+want+path+"\n", stderr)
			requireContent(t, someTable, path)
		}
	}
	code, stdout, _ := runApp(t, "store", "offsets", "reset", "--store", dir, "--group", "g", "--clamp", "--dry-run")
	require.Zero(t, code)
	require.Contains(t, stdout, "Nothing was changed")
}
