package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/process"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/broker"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/store"
)

// tiny sizes; nothing is measured with them.
var tiny = sizes{Reps: 2, Warmup: 200, Sends: 300, Pipelined: 2000, Pulled: 1000, Paced: 100, Held: 500, Wakes: 5, StartBytes: 1 << 20}

// startHere starts a broker of ours in this process.
func startHere(_ context.Context, dir string) (*server, error) {
	o := broker.DefaultOptions()
	o.BrokerName, o.ListenPort, o.StorePathRootDir = "b", 0, filepath.Join(dir, "store")
	if rocks.Available {
		o.Store.StoreType = store.StoreTypeRocksDB
	}
	o.Store.MappedFileSizeCommitLog, o.Store.PreallocateAheadBytes = tiny.StartBytes, 1<<20
	b, err := broker.Open(o)
	if err != nil {
		return nil, err
	}
	if err := b.Start(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return &server{addr: b.Addr().String(), process: process.Self(), stop: b.Close, kill: b.Close}, nil
}

// echoHere answers alone, in this process.
func echoHere(ctx context.Context, _ string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- load.Echo(ctx, l) }()
	return &server{addr: l.Addr().String(), process: process.Self(), stop: func() error {
		cancel()
		return <-ended
	}}, nil
}

func testBench(t *testing.T, w io.Writer) *bench {
	dir := t.TempDir()
	return &bench{
		w: w, dir: dir, out: filepath.Join(dir, "raw"), reps: tiny.Reps, sizes: tiny, sync: func() {},
		start: map[impl]starter{ours: startHere, javas: startHere, echoed: echoHere},
	}
}

// Every row but those with RocketMQ's client is run, twice, with another broker of ours in RocketMQ's place; its figures are kept, and its directories go.
func TestRows(t *testing.T) {
	var out bytes.Buffer
	b := testBench(t, &out)
	for _, r := range rows() {
		if !r.client && (rocks.Available || r.what != "start") {
			b.rows = append(b.rows, r)
		}
	}
	_, err := b.run(t.Context(), "")
	require.NoError(t, err, out.String())
	raw, err := os.ReadFile(b.out)
	require.NoError(t, err)
	for _, r := range b.rows {
		require.Contains(t, out.String(), "2 "+r.name()+" ")
	}
	require.Equal(t, 1+2*len(b.rows), strings.Count(string(raw), "\n"))
	require.NotContains(t, string(raw), b.dir)
	for _, name := range []string{"send_of_java", "send_of_echo", "send_p99_of_java", "paced_p99_of_java", "pipelined_per_second", "pull_of_java", "anon_of_java", "held_bytes", "wake_p99_millis"} {
		require.Contains(t, out.String(), "RATIO "+name+" ")
	}
	left, err := os.ReadDir(b.dir)
	require.NoError(t, err)
	require.Len(t, left, 1) // the raw results
}

// A row that fails ends the run, and leaves nothing.
func TestFailingRow(t *testing.T) {
	b := testBench(t, io.Discard)
	b.rows = []row{{what: "a", of: ours, measure: func(_ context.Context, j *job) error {
		require.NoError(t, os.MkdirAll(filepath.Join(j.work, "x"), 0o755))
		return io.ErrUnexpectedEOF
	}}}
	_, err := b.run(t.Context(), "")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "repetition 1: row a-ours")
	left, err := os.ReadDir(b.dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestUsage(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), nil, io.Discard), "-dir is missing")
	require.ErrorContains(t, run(t.Context(), []string{"-dir", t.TempDir(), "-only", "("}, io.Discard), "-only")
}

// The server that answers alone says where it is, and ends with its input.
func TestServeEcho(t *testing.T) {
	in, end := io.Pipe()
	out := &tail{}
	ended := make(chan error, 1)
	go func() { ended <- serveEcho(t.Context(), out, in) }()
	require.NoError(t, end.Close())
	require.NoError(t, <-ended)
	require.NotEmpty(t, word(strings.TrimPrefix(out.text(), "ready "), "listen"))
}

// Without RocketMQ, what is compared with it is said not to be measured.
func TestRatios(t *testing.T) {
	figures := func(v float64) report.Figures {
		return report.Figures{
			"perSecond": v, "p99Micros": 1, "sendCPUMicros": 1, "consumeCPUMicros": 1, "anonMiB": 1, "startMillis": 2000, "bytesEach": 2000, "wakeP99Millis": 2,
		}
	}
	rep := report.Repetition{}
	for _, r := range rows() {
		rep[r.name()] = figures(1)
	}
	rep["send-echo"] = figures(2)
	var out bytes.Buffer
	require.Equal(t, len(ratios()), report.PrintRatios(&out, ratios(), []report.Repetition{rep}), out.String())
	require.NotContains(t, out.String(), "not measured")
	for _, r := range rows() {
		if r.of == javas {
			delete(rep, r.name())
		}
	}
	out.Reset()
	report.PrintRatios(&out, ratios(), []report.Repetition{rep})
	require.Contains(t, out.String(), "not measured: send_of_java, send_p99_of_java, ")
}
