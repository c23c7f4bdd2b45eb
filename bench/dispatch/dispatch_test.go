package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

// Every row but Java's, on small stores, leaves a store with its log alone, or as it was.
func TestRows(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	b := &bench{
		w: &out, dir: dir, out: filepath.Join(dir, "raw"), reps: 1, rows: chosen(rows(), regexp.MustCompile("^(catchup-file-index|rebuild-rocks|crash-file|restart-rocks|read|scan)$"), false),
		sync: func() {}, memory: func() (calibrate.Copy, error) { return calibrate.Copy{CopyPerSecond: 1e7}, nil },
		sizes: sizes{messages: 2000, manyMessages: 2000, restartBytes: 2000 * recordBytes},
	}
	_, err := b.run(t.Context())
	if errors.Is(err, cq.ErrNoRocksDB) {
		t.Skip("built without cgo: no RocksDB")
	}
	require.NoError(t, err, out.String())
	for _, r := range b.rows {
		require.Contains(t, out.String(), "1 "+r.name+" ")
	}
	require.Contains(t, out.String(), "RATIO scan_of_read ")
	raw, err := os.ReadFile(b.out)
	require.NoError(t, err)
	require.Len(t, strings.Split(strings.TrimSpace(string(raw)), "\n"), 1+len(b.rows))
	require.NotContains(t, string(raw), dir)
	kept, err := filepath.Glob(filepath.Join(dir, "dispatch", "*"))
	require.NoError(t, err)
	require.Len(t, kept, 2) // and no store that is half made
	require.NotContains(t, strings.Join(kept, " "), ".part")
	require.Equal(t, 2, strings.Count(out.String(), "making "))

	s := samples{dir: filepath.Join(dir, "dispatch"), sizes: b.sizes, w: io.Discard}
	root, err := s.store(t.Context(), eight)
	require.NoError(t, err)
	require.NoError(t, wipe(root, true))
	has, err := store.NewLayout(root).HasAbort()
	require.NoError(t, err)
	require.True(t, has)
}

func TestUseRows(t *testing.T) {
	b := &bench{dir: t.TempDir(), sizes: sizes{idle: 10 * time.Millisecond, lag: 1100 * time.Millisecond}}
	r := row{kind: store.StoreTypeFile, index: true}
	x, err := lag(t.Context(), b, r, "")
	require.NoError(t, err)
	require.Len(t, x.LagBytes, 1)
	require.Positive(t, x.PerSecond)
	x, err = idle(t.Context(), b, r, "")
	require.NoError(t, err)
	require.GreaterOrEqual(t, x.CPUShare, 0.0)
	left, err := os.ReadDir(b.dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A machine on which every limit is just kept, and one on which each is missed.
func TestRatios(t *testing.T) {
	kept := repetition{}
	for _, r := range rows() {
		x := result{PerSecond: 4e6, CopyPerSecond: 10e6, Millis: 100, BytesPerSecond: 1e9, CPUShare: 0.01, Slope: 0.01}
		switch {
		case r.java:
			x.Millis = 500
		case r.name == "scan":
			x.BytesPerSecond = 0.8e9
		}
		kept[r.name] = x
	}
	var out bytes.Buffer
	require.Zero(t, report.PrintRatios(&out, ratios(), []repetition{kept, kept}), out.String())
	require.Contains(t, out.String(), "RATIO dispatch_file_of_copy 0.40 >= 0.4 ok\n")
	require.NotContains(t, out.String(), "not measured")

	missed := repetition{}
	for name, x := range kept {
		x.PerSecond, x.Slope, x.CPUShare = 1, 1, 1
		if strings.HasPrefix(name, "java") {
			x.Millis = 1
		} else {
			x.Millis = 3000
		}
		x.BytesPerSecond = map[string]float64{"scan": 1, "read": 10}[name]
		missed[name] = x
	}
	require.Equal(t, len(ratios()), report.PrintRatios(io.Discard, ratios(), []repetition{missed}))
	out.Reset()
	require.Zero(t, report.PrintRatios(&out, ratios(), []repetition{{}}))
	require.Contains(t, out.String(), "not measured: dispatch_file_of_copy, ")
}

func TestParseJava(t *testing.T) {
	x, err := parseJava([]byte("noise\n" + `{"t":"open","java":"17","loadMillis":1.5,"startMillis":2.5,"readyMillis":9,"queues":8,"messages":100}` + "\n"))
	require.NoError(t, err)
	require.InDelta(t, 4, x.OpenMillis, 1e-9)
	require.InDelta(t, 9, x.Millis, 1e-9)
	require.EqualValues(t, 100, x.Java.Messages)
	_, err = parseJava([]byte("nothing"))
	require.ErrorContains(t, err, "StoreOpen printed no measurement")
	_, err = output(exec.Command("sh", "-c", "echo why >&2; exit 3"))
	require.ErrorContains(t, err, "why")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
}
