package main

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	rocksdb "github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/migrate/online"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// The way of the runbook, by its commands.
func TestMigrateOnlineCommands(t *testing.T) {
	if !rocksdb.Available {
		t.Skip("built without cgo: no RocksDB")
	}
	root := filepath.Join(t.TempDir(), "store")
	g := store.DefaultGenerateOptions()
	g.Messages, g.Topics, g.CommitLogFileBytes = 200, 2, 4<<20
	_, err := store.Generate(t.Context(), root, g)
	require.NoError(t, err)
	small := []string{"--store", root, "--set", "maxHashSlotNum=100", "--set", "maxIndexNum=400", "--set", "preallocateAheadBytes=1048576"}
	ready, stop := startBroker(t, small...)
	require.Equal(t, "file", ready[5])
	ask := func(code int, args ...string) (out, errs string) {
		t.Helper()
		got, out, errs := runApp(t, append(append([]string{"migrate", "online"}, args...), "--broker", ready[2])...)
		require.Equal(t, code, got, "%s%s", out, errs)
		return out, errs
	}
	out, _ := ask(0, "status")
	require.Equal(t, "Migration: absent\n", out)
	_, errs := ask(1, "cutover")
	require.Contains(t, errs, "no migration has been begun")
	out, _ = ask(0, "begin", "--to", "rocks")
	require.Contains(t, out, "Next: restart the broker")
	out, _ = ask(0, "status", "--watch")
	require.Contains(t, out, "Migration: planned; the broker has to be restarted")
	stop()

	ready, stop = startBroker(t, small...)
	require.Equal(t, "file+rocksdb", ready[5])
	out, _ = ask(0, "status", "--watch", "--every", "10ms", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var st online.Status
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &st))
	require.Equal(t, state.Verified, st.Phase)
	require.EqualValues(t, 200, st.Verified.Units)
	out, _ = ask(0, "status")
	require.Contains(t, out, "Migration: verified\n")
	require.Contains(t, out, "Next: tandemmq migrate online cutover")
	require.Contains(t, out, "caught-up       -> verifying")
	_, errs = ask(1, "cutover", "--topics", "sample_0,sample_9")
	require.Contains(t, errs, "topic sample_9 has no queues here")
	out, _ = ask(0, "cutover", "--topics", "sample_0,sample_1")
	require.Contains(t, out, "sample_0, sample_1")
	out, _ = ask(0, "cutover")
	require.Contains(t, out, "Migration: cutover\n")
	require.Regexp(t, `read from +rocks`, out)
	out, _ = ask(0, "rollback")
	require.Regexp(t, `read from +file`, out)
	ask(0, "verify")
	ask(0, "status", "--watch", "--every", "10ms")
	out, _ = ask(0, "cutover", "--json")
	require.NoError(t, json.Unmarshal([]byte(out), &st))
	require.Equal(t, cq.KindRocks, st.Reads)
	out, _ = ask(0, "finalize", "--grace", "1h")
	require.Contains(t, out, "Next: stop the broker in order and start it")
	stop()

	ready, stop = startBroker(t, small...)
	defer stop()
	require.Equal(t, "rocksdb", ready[5])
	out, _ = ask(0, "status")
	require.Contains(t, out, "Migration: finalized\n")
	require.Contains(t, out, "the file queues, in tandemmq/retired/file-")
	require.DirExists(t, filepath.Join(root, "tandemmq", "retired"))
	code, out, errs := runApp(t, "migrate", "status", "--store", root)
	require.Zero(t, code, errs)
	require.Contains(t, out, "finalized")
	require.Contains(t, out, "reads belong to  rocks")
}

func TestMigrateOnlineUsage(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := l.Addr().String()
	require.NoError(t, l.Close())
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{"status", "--broker", "x"}, `--broker "x": use HOST:PORT`},
		{2, []string{"finalize", "--grace", "0s"}, "--grace 0s: use 1s or more"},
		{2, []string{"status", "--watch", "--every", "1ns"}, "--every 1ns: use 10ms or more"},
		{2, []string{"dance"}, `no command "dance"`},
		{1, []string{"status", "--broker", nobody}, "ask broker " + nobody},
		{1, []string{"status", "--broker", nobody, "--tls-trust", "nowhere.pem"}, "--tls-trust: open nowhere.pem"},
		{1, []string{"status", "--broker", nobody, "--access-key", "k", "--secret-key-file", "nowhere"}, "--secret-key-file: open nowhere"},
	} {
		code, _, errs := runApp(t, append([]string{"migrate", "online"}, c.args...)...)
		require.Equal(t, c.code, code, errs)
		require.Contains(t, errs, c.want)
	}
}
