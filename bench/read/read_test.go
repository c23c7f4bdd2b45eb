package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

// tiny sizes; nothing is measured with them.
var tiny = sizes{Messages: 1000, IndexMessages: 800, NewMessages: 800, ScanBytes: 1 << 20, Beside: 50 * time.Millisecond, Samples: 50}

func supported(t *testing.T, e load.Engine) bool {
	t.Helper()
	s, err := store.Open(t.TempDir(), load.Options(e))
	if err == nil {
		require.NoError(t, s.Close())
		return true
	}
	require.ErrorIs(t, err, cq.ErrNoRocksDB)
	return false
}

// Every row but Java's is run, twice, its figures are kept, and its directory goes. Rows of Java get the store that ours has read.
func TestRows(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	b := &bench{
		w: &out, dir: dir, out: filepath.Join(dir, "raw"), reps: 2, sizes: tiny,
		sync: func() {}, memory: func() (calibrate.Copy, error) { return calibrate.Copy{CopyPerSecond: 1e7}, nil },
		child: func(ctx context.Context, r row, dir string) (report.Figures, error) {
			x := report.Figures{}
			return x, r.measure(ctx, r, tiny, dir, x)
		},
		java: func(_ context.Context, r row, root, _ string, x report.Figures) error {
			s, err := store.OpenView(root, store.ViewOptions{LogOnly: true})
			if err != nil {
				return err
			}
			maps.Copy(x, report.Figures{"pullPerSecond": 1, "getP50Micros": 1e9, "newestP50Micros": 1e9, "queryP50Micros": 1e9, "timeP50Micros": 1e9})
			return s.Close()
		},
	}
	for _, r := range rows(tiny) {
		if supported(t, r.engine) {
			b.rows = append(b.rows, r)
		}
	}
	require.NotEmpty(t, b.rows)
	_, err := b.run(t.Context())
	require.NoError(t, err, out.String())
	raw, err := os.ReadFile(b.out)
	require.NoError(t, err)
	for _, r := range b.rows {
		require.Contains(t, out.String(), "2 "+r.name+" ")
	}
	require.Equal(t, 1+2*len(b.rows), strings.Count(string(raw), "\n"))
	require.NotContains(t, string(raw), dir)
	for _, name := range []string{"pull_file_of_java", "get_file_of_java", "query_of_java", "query_large_of_java", "scan_put_p99", "scan_pull_p99", "pull_file_allocs"} {
		require.Contains(t, out.String(), "RATIO "+name+" ")
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1) // the raw results
}

// A row that fails ends the run, and leaves nothing.
func TestFailingRow(t *testing.T) {
	dir := t.TempDir()
	b := &bench{
		w: io.Discard, dir: dir, reps: 1, rows: []row{{name: "a", store: "s", fill: nothing}}, sync: func() {}, memory: func() (calibrate.Copy, error) { return calibrate.Copy{}, nil },
		child: func(context.Context, row, string) (report.Figures, error) { return nil, io.ErrUnexpectedEOF },
	}
	_, err := b.run(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "row a")
	b.rows[0].fill = func(context.Context, row, sizes, string) error { return errors.New("no room") }
	_, err = b.run(t.Context())
	require.ErrorContains(t, err, "make store s: no room")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A process of its own prints what the row gave, and nothing else.
func TestRunRow(t *testing.T) {
	var out bytes.Buffer
	root := filepath.Join(t.TempDir(), "store")
	i := slices.IndexFunc(rows(tiny), func(r row) bool { return r.name == "read-file" })
	r := rows(sizes{Messages: 100, Samples: 10})[i]
	require.NoError(t, fill(t.Context(), r, tiny, root))
	require.NoError(t, run(t.Context(), []string{"-dir", root, "-row", "read-file", "-sizes", `{"messages":100,"samples":10}`}, &out))
	require.Regexp(t, `^\{.*"pullPerSecond":[0-9.e+]+.*\}\n$`, out.String())
	// A store that has another number of messages is no measurement.
	require.ErrorContains(t, run(t.Context(), []string{"-dir", root, "-row", "read-file", "-sizes", `{"messages":101,"samples":10}`}, io.Discard), "want [0, 13)")
	require.ErrorContains(t, run(t.Context(), []string{"-dir", root, "-row", "java-file", "-sizes", "{}"}, io.Discard), `no row "java-file"`)
	require.ErrorContains(t, run(t.Context(), []string{"-dir", root, "-row", "read-file"}, io.Discard), "-sizes")
	require.ErrorContains(t, run(t.Context(), nil, io.Discard), "-dir is missing")
	require.ErrorContains(t, run(t.Context(), []string{"-dir", root, "-only", "("}, io.Discard), "-only")
}

// Every limit is of rows that there are: of one on which all is measured, all are judged.
func TestRatios(t *testing.T) {
	rep := report.Repetition{}
	for _, r := range rows(defaultSizes) {
		rep[r.name] = report.Figures{
			"pullPerSecond": 1, "pullAllocs": 1, "getP50Micros": 1, "timeP50Micros": 1, "queryP50Micros": 1, "newestP50Micros": 1, "scannedPutPerSecond": 1,
			"scannedPutP99Micros": 2, "alonePutP99Micros": 1, "scannedPullP99Micros": 2, "alonePullP99Micros": 1,
		}
	}
	var out bytes.Buffer
	require.Equal(t, len(ratios()), report.PrintRatios(&out, ratios(), []report.Repetition{rep}), out.String())
	require.NotContains(t, out.String(), "not measured")
	out.Reset()
	require.Zero(t, report.PrintRatios(&out, ratios(), []report.Repetition{{}}))
	require.Contains(t, out.String(), "not measured: pull_file_of_java, ")
}
