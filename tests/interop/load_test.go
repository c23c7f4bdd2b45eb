//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/namesrv"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

// The load generator of the benchmarks works RocketMQ's broker as it works ours, with its checks, and so does RocketMQ's client.
func TestLoadOnRocketMQ(t *testing.T) {
	t.Parallel()
	names, err := namesrv.NewServer(namesrv.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, names.Close()) })
	at, err := names.Listen("127.0.0.1:0")
	require.NoError(t, err)
	cmd, err := java.BrokerCommand(t.Context(), t.TempDir(), at.String(), jvm("512m"), map[string]string{"mappedFileSizeCommitLog": "16777216"})
	require.NoError(t, err)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	addr := ""
	for lines := bufio.NewScanner(out); addr == "" && lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			addr = rest
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	defer func() {
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait(), errs.String())
	}()
	require.NotEmpty(t, addr, errs.String())

	r := &load.Remote{Addr: addr, Topic: "T", Queues: 4}
	require.NoError(t, r.Make(t.Context()))
	_, err = r.Send(t.Context(), load.SendLoad{Connections: 2, InFlight: 16, Messages: 200})
	require.NoError(t, err)
	require.NoError(t, r.Check(t.Context(), 200))
	got, err := r.Pull(t.Context(), load.PullLoad{Group: "g", Consumers: 2})
	require.NoError(t, err)
	require.Equal(t, 400, got.Messages)

	classPath, err := java.BuildBroker(t.Context())
	require.NoError(t, err)
	u := &load.Remote{Addr: addr, Topic: "U", Queues: 4}
	require.NoError(t, u.Make(t.Context()))
	for _, words := range [][]string{{"send", "U", "100", "2"}, {"consume", "U", "100"}} {
		home := t.TempDir()
		client := java.Command(t.Context(), classPath, home, jvm("256m", "-Drocketmq.client.logRoot="+home), "ClientLoad", append([]string{at.String()}, words...)...)
		client.Stdin = strings.NewReader("\n")
		said, err := client.Output()
		require.NoError(t, err)
		require.Regexp(t, `(?s)begin\n.*end \d+\n`, string(said))
		require.NoError(t, u.Await(t.Context(), 100))
	}
}
