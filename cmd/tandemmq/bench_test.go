package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/store"
)

// smallBench is bench put with files small enough that 300 messages roll several times.
func smallBench(dir string, more ...string) []string {
	return append([]string{
		"bench", "put", "--dir", dir, "--messages", "300", "--set", "mappedFileSizeCommitLog=65536",
		"--set", "preallocateAheadBytes=65536",
	}, more...)
}

func TestBenchPut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bench")
	code, stdout, stderr := runApp(t, smallBench(dir, "--producers", "1, 3")...)
	require.Zero(t, code, stderr)
	require.Regexp(t, `^1 producer: 300 messages with bodies of 1\.0 KiB in \S+: [0-9,]+ messages/s, \S+ .iB/s
  latency    p50 \S+ .s, p99 \S+ .s, p99\.9 \S+ .s, longest \S+ .s \(one put in 17\)
  rolls      5, p50 \S+ .s, longest \S+ .s
  statuses   PUT_OK 300
  undurable  at most \S+ K?i?B, for at most \S+
  disk       [0-9,]+ syncs, (n/a|\S+ .*B) of the device's writes a sync
  memory     \d+\.\d{4} allocations a put
3 producers: 300 messages `, stdout)
	require.Regexp(t, `The logs hold what was acknowledged\. \d+ processors used by go\S+\.\n$`, stdout)
	require.Contains(t, stderr, "put by 3: 300 messages in ")
	require.NoDirExists(t, dir, "it was made for this")
}

// Every write mode under both kinds of flush, in a directory that was there and is left as it was.
func TestBenchPutModes(t *testing.T) {
	tests := []struct {
		flush, mode string
		option      string // that the mode sets
	}{
		{"async", "default", ""},
		{"async", "pool", "transientStorePoolEnable"},
		{"async", "pwrite", "writeWithoutMmap"},
		{"sync", "default", ""},
		{"sync", "mmap", "syncFlushWriteMode"},
		{"sync", "staged", "syncFlushWriteMode"},
		{"sync", "pwrite", "writeWithoutMmap"},
	}
	for _, tt := range tests {
		t.Run(tt.flush+" "+tt.mode, func(t *testing.T) {
			dir := t.TempDir()
			code, stdout, stderr := runApp(t, smallBench(dir, "--flush", tt.flush, "--write-mode", tt.mode, "--producers", "4", "--json",
				"--messages", "40", "--topics", "2", "--queues", "3", "--body", "3000", "--properties=false")...)
			require.Zero(t, code, stderr)
			require.Empty(t, stderr)
			var doc benchDocument
			require.NoError(t, json.Unmarshal([]byte(stdout), &doc))
			require.Len(t, doc.Runs, 1)
			run := doc.Runs[0]
			require.EqualValues(t, 40, run.Messages)
			require.Equal(t, map[string]int64{"PUT_OK": 40}, run.Statuses)
			require.Positive(t, run.MessagesPerSecond)
			require.Greater(t, run.LogBytes, int64(40*3000))
			require.Equal(t, 4, run.Producers)
			if tt.option != "" {
				require.Contains(t, doc.Options, tt.option)
			}
			if tt.flush == "sync" {
				require.Positive(t, run.Syncs)
				require.EqualValues(t, 40, run.Latency.Samples)
				require.Equal(t, string(store.SyncFlush), doc.Options["flushDiskType"])
			}
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

func TestBenchPutKeeps(t *testing.T) {
	dir := t.TempDir()
	code, _, stderr := runApp(t, smallBench(dir, "--keep", "--quiet", "--messages", "20")...)
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	found, err := countLog(t.Context(), filepath.Join(dir, "producers-1", "commitlog"), false, func(int64) {})
	require.NoError(t, err)
	require.EqualValues(t, 20, found.messages)

	code, stdout, stderr := runApp(t, smallBench(dir)...)
	require.Equal(t, 2, code)
	require.Empty(t, stdout)
	require.Equal(t, "tandemmq: --dir "+dir+": not empty\nsee 'tandemmq bench put --help'\n", stderr)
	require.DirExists(t, filepath.Join(dir, "producers-1"), "what is there stays")
}

// A log that lacks an acknowledged message is told, whatever the store said.
func TestBenchPutCountsTheLog(t *testing.T) {
	dir := t.TempDir()
	code, _, stderr := runApp(t, smallBench(dir, "--keep", "--quiet", "--messages", "20")...)
	require.Zero(t, code, stderr)
	root := filepath.Join(dir, "producers-1")
	found, err := countLog(t.Context(), filepath.Join(root, "commitlog"), false, func(int64) {})
	require.NoError(t, err)
	require.NoError(t, checkLog(found, shapeTally{shapePlain: 20}, root))
	require.NoError(t, checkLog(found, shapeTally{shapePlain: 15, shapeBatch: 5}, root))
	require.EqualError(t, checkLog(found, shapeTally{shapePlain: 21}, root), "bench put: the log in "+root+" holds 20 messages, 21 were acknowledged")
	require.EqualError(t, checkLog(found, shapeTally{shapePlain: 19, shapeLight: 1}, root),
		"bench put: the log in "+root+" holds 20 messages of kind plain, 19 were acknowledged")
	_, err = countLog(t.Context(), filepath.Join(root, "commitlog"), true, func(int64) {})
	require.ErrorContains(t, err, "record at physical offset 0: ", "there are no property checksums")
}

// Every shape arrives as it was meant, is counted as many messages as it is, and is dispatched.
func TestBenchPutShapes(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		puts   int64
		shapes map[string]int64
	}{
		{"plain", nil, 300, nil},
		{"batches, the last one shorter", []string{"--batch", "40"}, 8, map[string]int64{"batch": 300}},
		{"light", []string{"--light", "2"}, 300, map[string]int64{"light": 300}},
		{"delayed", []string{"--delayed"}, 300, map[string]int64{"plain": 285, "delayed": 15}},
		{"transactions with light queues", []string{"--transactions", "--light", "5"}, 300, map[string]int64{
			"light": 255, "prepared": 15, "committed": 15, "rolledBack": 15,
		}},
		{"mix", []string{"--mix"}, 103, map[string]int64{
			"plain": 11, "batch": 110, "innerBatch": 109, "light": 10, "prepared": 10, "committed": 10, "rolledBack": 10, "delayed": 10, "longTopic": 10, "ipv6": 10,
		}},
		{"mix without properties", []string{"--mix", "--properties=false", "--batch", "20", "--flush", "sync"}, 62, map[string]int64{
			"plain": 7, "batch": 131, "innerBatch": 120, "light": 6, "prepared": 6, "committed": 6, "rolledBack": 6, "delayed": 6, "longTopic": 6, "ipv6": 6,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			code, stdout, stderr := runApp(t, smallBench(dir, append(tt.args, "--json", "--keep", "--topics", "2")...)...)
			require.Zero(t, code, stderr)
			require.Empty(t, stderr)
			var doc benchDocument
			require.NoError(t, json.Unmarshal([]byte(stdout), &doc))
			run := doc.Runs[0]
			require.EqualValues(t, 300, run.Messages)
			require.Equal(t, tt.puts, run.Puts)
			require.Equal(t, tt.shapes, run.Shapes)
			require.Equal(t, map[string]int64{"PUT_OK": tt.puts}, run.Statuses)
			rep, err := store.Check(t.Context(), filepath.Join(dir, "producers-1"), store.CheckOptions{Deep: true})
			require.NoError(t, err)
			if tt.shapes["innerBatch"] == 0 { // batch queues are RocketMQ's to build
				require.True(t, rep.Sound, "%+v", rep.Findings)
			}
		})
	}
}

// The text says what the kinds are, and that messages which timed out are stored.
func TestBenchText(t *testing.T) {
	var out strings.Builder
	require.NoError(t, printBench(&out, benchDocument{Go: "go1", GoMaxProcs: 2, Runs: []benchRun{{
		Producers: 1, Messages: 30, Puts: 21, Seconds: 1, SampledEvery: 1, Interrupted: true,
		Statuses: map[string]int64{"PUT_OK": 20, "FLUSH_DISK_TIMEOUT": 1}, Shapes: map[string]int64{"plain": 20, "batch": 10},
	}}}))
	require.Contains(t, out.String(), "Interrupted; until then:\n1 producer: 30 messages")
	require.Contains(t, out.String(), "  statuses   FLUSH_DISK_TIMEOUT 1 (stored all the same, and counted), PUT_OK 20\n")
	require.Contains(t, out.String(), "  messages   plain 20, batch 10, in 21 puts\n")
}

func TestBenchPutUsage(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no number", []string{"--producers", "1,x"}, `--producers "1,x": want numbers from 1 to 10000, with commas between`},
		{"no producer", []string{"--producers", "0"}, `--producers "0": want numbers from 1 to 10000, with commas between`},
		{"twice", []string{"--producers", "2,2"}, `--producers "2,2": 2 is there twice`},
		{"no message", []string{"--messages", "0"}, "--messages 0: want 1 to 1099511627776"},
		{"no topic", []string{"--topics", "0"}, "--topics 0: want 1 to 1000000"},
		{"no queue", []string{"--queues", "-1"}, "--queues -1: want 1 to 65536"},
		{"body", []string{"--body", "-1"}, "--body -1: want 0 to 1073741824"},
		{"sample", []string{"--sample", "0"}, "--sample 0: want 1 to 1073741824"},
		{"duration", []string{"--duration", "0s"}, "--duration 0s: want more than 0"},
		{"batch", []string{"--batch", "0"}, "--batch 0: want 1 to 65536"},
		{"batch for light queues", []string{"--batch", "5", "--light", "2"}, "--batch and --light: a batch has no such messages; --mix puts both"},
		{"flush", []string{"--flush", "never"}, `--flush "never": use async or sync`},
		{"mode", []string{"--write-mode", "tape"}, `--write-mode "tape": use default, mmap, staged, pool or pwrite`},
		{"mode of the other flush", []string{"--write-mode", "staged"}, "--write-mode staged: only with --flush sync"},
		{"not a setting", []string{"--set", "flushDiskType"}, `--set "flushDiskType": want NAME=VALUE`},
		{"elsewhere", []string{"--set", "storePathCommitLog=/x"}, "--set storePathCommitLog=/x: the stores lie in --dir"},
		{"unknown option", []string{"--set", "flushDiskTypo=x"}, "--set flushDiskTypo: unknown; did you mean flushDiskType?"},
		{"options that exclude each other", []string{"--flush", "sync", "--write-mode", "pool"}, "transientStorePoolEnable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "bench")
			code, stdout, stderr := runApp(t, append([]string{"bench", "put", "--dir", dir}, tt.args...)...)
			require.Equal(t, 2, code, stderr)
			require.Empty(t, stdout)
			require.Contains(t, stderr, tt.want)
			require.Contains(t, stderr, "see 'tandemmq bench put --help'\n")
			require.NoDirExists(t, dir)
		})
	}
}
