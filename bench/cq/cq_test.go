package main

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/process"
	"github.com/tandemq/tandemmq/cq"
)

// tiny sizes; nothing is measured with them.
var tiny = sizes{
	Units: 5000, ManyUnits: 1000, FileUnits: 10_000, ReadUnits: 4000, Reads: 50, Messages: 200, Big: 100, Queues: 200, Samples: 20,
	Paced: 50 * time.Millisecond, Sustained: 100 * time.Millisecond, Point: time.Hour, RocksQueues: []int{20}, FileQueues: []int{20},
}

// supported tells whether a row can be run here.
func supported(t *testing.T, r row) bool {
	t.Helper()
	s, err := openQueues(r.engine, t.TempDir())
	if err == nil {
		require.NoError(t, s.Close())
		return true
	}
	require.ErrorIs(t, err, cq.ErrNoRocksDB)
	return false
}

// Every row but Java's and those of 100,000 queues is run, its figures are kept, and its directory goes.
func TestRows(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	b := &bench{
		w: &out, dir: dir, out: filepath.Join(dir, "raw"), reps: 1, sizes: tiny, profile: "tiny",
		sync: func() {}, memory: func() (calibrate.Copy, error) { return calibrate.Copy{CopyPerSecond: 1e7}, nil },
		child: func(ctx context.Context, r row, dir string) (figures, error) {
			return r.measure(ctx, r, tiny, filepath.Join(dir, "row"))
		},
	}
	for _, r := range chosen(rows(tiny), regexp.MustCompile(""), false) {
		if r.queues < 100_000 && supported(t, r) {
			b.rows = append(b.rows, r)
		}
	}
	require.NotEmpty(t, b.rows)
	_, err := b.run(t.Context())
	require.NoError(t, err, out.String())
	raw, err := os.ReadFile(b.out)
	require.NoError(t, err)
	for _, r := range b.rows {
		require.Contains(t, out.String(), "1 "+r.name+" ")
	}
	require.Equal(t, 1+len(b.rows), strings.Count(string(raw), "\n"))
	require.NotContains(t, string(raw), dir)
	require.Contains(t, out.String(), "RATIO file_append ")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1) // the raw results
}

// What is run once is left out of further repetitions, and a row that fails ends the run.
func TestRepetitions(t *testing.T) {
	dir := t.TempDir()
	var run []string
	fail := ""
	b := &bench{
		w: io.Discard, dir: dir, reps: 3, rows: []row{{name: "a"}, {name: "b", once: true}},
		sync: func() {}, memory: func() (calibrate.Copy, error) { return calibrate.Copy{}, nil },
		child: func(_ context.Context, r row, _ string) (figures, error) {
			if run = append(run, r.name); r.name == fail {
				return nil, io.ErrUnexpectedEOF
			}
			return figures{}, nil
		},
	}
	_, err := b.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "a", "a"}, run)
	fail = "b"
	_, err = b.run(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "row b")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A point of a curve that would take too long is left out.
func TestTooLong(t *testing.T) {
	var out bytes.Buffer
	b := &bench{
		w: &out, dir: t.TempDir(), reps: 1, sizes: sizes{Point: time.Nanosecond},
		rows: []row{{name: "a", curve: true, engine: fileQueues}, {name: "b", curve: true, engine: fileQueues}, {name: "c", curve: true, engine: rocksQueues}, {name: "d", engine: fileQueues}},
		sync: func() {}, memory: func() (calibrate.Copy, error) { return calibrate.Copy{}, nil },
		child: func(context.Context, row, string) (figures, error) { return figures{}, nil },
	}
	_, err := b.run(t.Context())
	require.NoError(t, err)
	require.Contains(t, out.String(), "no row b: the one before took 0 s\n")
	for _, name := range []string{"a", "c", "d"} {
		require.Contains(t, out.String(), "1 "+name+" ")
	}
}

// A row that lacks a unit, or has another one, is no measurement.
func TestCheckQueues(t *testing.T) {
	require.NoError(t, withQueues(fileQueues, t.TempDir(), func(s cq.Store) error {
		f := filler{s: s, keys: keysOf(3)}
		require.NoError(t, f.append(t.Context(), 10))
		require.NoError(t, checkQueues(s, f.keys, 10))
		require.ErrorContains(t, checkQueues(s, f.keys, 11), "has units [0, 3), want [0, 4)")
		require.ErrorContains(t, checkQueues(s, keysOf(4), 10), "bench_000000/0 has units [0, 4), want [0, 3)")
		require.ErrorContains(t, checkEnd(s, f.keys[0], 4, 8), "unit 3 is ")
		require.ErrorContains(t, checkEnd(s, cq.Key{Topic: "none"}, 4, -1), "none/0 is not there")
		return nil
	}))
}

// A process of its own prints what the row gave, and nothing else.
func TestRunRow(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	require.NoError(t, run(t.Context(), []string{"-dir", dir, "-row", "file-append-8", "-sizes", `{"fileUnits":1000}`}, &out))
	require.Regexp(t, `^\{"unitsPerSecond":[0-9.e+]+\}\n$`, out.String())
	require.ErrorContains(t, run(t.Context(), []string{"-dir", dir, "-row", "java-file", "-sizes", "{}"}, io.Discard), `no row "java-file"`)
	require.ErrorContains(t, run(t.Context(), []string{"-dir", dir, "-row", "file-read"}, io.Discard), "-sizes")
	require.ErrorContains(t, run(t.Context(), nil, io.Discard), "-dir is missing")
	require.ErrorContains(t, run(t.Context(), []string{"-dir", dir, "-only", "("}, io.Discard), "-only")
}

func TestSoak(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	require.NoError(t, runSoak(t.Context(), &out, dir, filepath.Join(dir, "raw"), time.Millisecond, time.Microsecond))
	require.Contains(t, out.String(), "RATIO soak_growth_mib_per_minute ")
	for _, name := range []string{"c_objects", "mappings_left", "descriptors_left"} {
		require.Contains(t, out.String(), "RATIO soak_"+name+" 0.00 <= 0 ok\n")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "raw"))
	require.NoError(t, err)
	require.Contains(t, string(raw), `"row":"soak"`)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// What a store that is open has is counted, and what is left of one is told.
func TestSoakCountsWhatIsHeld(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, withQueues(fileQueues, dir, func(s cq.Store) error {
		f := filler{s: s, keys: keysOf(3)}
		require.NoError(t, f.append(t.Context(), 10))
		kept, err := os.Create(filepath.Join(dir, "kept"))
		require.NoError(t, err)
		defer func() { require.NoError(t, kept.Close()) }()
		h, err := look(dir)
		require.NoError(t, err)
		require.Equal(t, 3, h.OwnMapped)
		require.Equal(t, 1, h.OwnOpen)
		require.Greater(t, h.Mappings, h.OwnMapped)
		return nil
	}))
	var out bytes.Buffer
	step := 30 * time.Second
	left := held{Held: process.Held{AnonMiB: 10, Descriptors: 7}}
	soakRatios(&out, soakFigures([]held{left, left, left, left}, step))
	require.Equal(t, 5, strings.Count(out.String(), " ok\n"), out.String())
	out.Reset()
	worse := held{Held: process.Held{AnonMiB: 11, OwnMapped: 1, Descriptors: 8, OwnOpen: 1}, objects: 1}
	soakRatios(&out, soakFigures([]held{left, left, left, worse}, step))
	require.Equal(t, 5, strings.Count(out.String(), " missed\n"), out.String())
}

// A machine on which every limit is just kept, one on which each is missed, and one on which nothing was measured.
func TestRatios(t *testing.T) {
	s := profiles["full"]
	kept, missed := repetition{}, repetition{}
	for _, r := range rows(s) {
		kept[r.name], missed[r.name] = figures{"copyPerSecond": 10e6}, figures{"copyPerSecond": 10e6}
	}
	set := func(rep repetition, row string, pairs figures) { maps.Copy(rep[row], pairs) }
	for _, rep := range []repetition{kept, missed} {
		set(rep, "rocks-read", figures{"bareGetMicros": 1})
		set(rep, "sustained-file", figures{"putPerSecond": 2e6})
	}
	set(kept, "rocks-append-8", figures{"unitsPerSecond": 1.8e6})
	set(kept, "rocks-append-100000", figures{"unitsPerSecond": 0.8e6})
	set(kept, "rocks-read", figures{"read32PerSecond": 1.8e6, "read256PerSecond": 3e6, "getMicros": 1.2, "tailMicros": 0.1})
	set(kept, "file-append-8", figures{"unitsPerSecond": 25e6})
	set(kept, "written-rocks", figures{"diskBytes": 12})
	set(kept, "readable-combine", figures{"readableP99Millis": 5, "putPerSecond": 0.99e5})
	set(kept, "sustained-combine", figures{"putPerSecond": 1.8e6, "lagGrowth": 0.01})
	set(missed, "rocks-append-8", figures{"unitsPerSecond": 1})
	set(missed, "rocks-append-100000", figures{"unitsPerSecond": 1})
	set(missed, "rocks-read", figures{"read32PerSecond": 1, "read256PerSecond": 1, "getMicros": 9, "tailMicros": 9})
	set(missed, "file-append-8", figures{"unitsPerSecond": 1})
	set(missed, "written-rocks", figures{"diskBytes": 44})
	set(missed, "readable-combine", figures{"readableP99Millis": 6, "putPerSecond": 1})
	set(missed, "sustained-combine", figures{"putPerSecond": 1, "lagGrowth": 1})
	for _, r := range rows(s) {
		switch {
		case r.java:
			for _, rep := range []repetition{kept, missed} {
				set(rep, r.name, figures{"builtPerSecond": 1, "pullPerSecond": 1, "getP50Micros": 1, "timeP50Micros": 1, "readyMillis": 1})
			}
		case strings.HasPrefix(r.name, "store-"):
			set(kept, r.name, figures{"builtPerSecond": 10, "pullPerSecond": 10, "getP50Micros": 0.5, "timeP50Micros": 0.25, "readyMillis": 0.2})
			set(missed, r.name, figures{"builtPerSecond": 1, "pullPerSecond": 1, "getP50Micros": 1, "timeP50Micros": 1, "readyMillis": 1})
		}
	}
	var out bytes.Buffer
	require.Zero(t, printRatios(&out, []repetition{kept, kept}), out.String())
	require.NotContains(t, out.String(), "not measured")
	require.Contains(t, out.String(), "0.18 of M (10.0 million/s) is 1.80 million messages/s")
	out.Reset()
	require.Equal(t, len(ratios()), printRatios(&out, []repetition{missed}), out.String())
	out.Reset()
	require.Zero(t, printRatios(&out, []repetition{{}}))
	require.Contains(t, out.String(), "not measured: rocks_append_8, ")
	// What is measured once counts although other repetitions lack it.
	out.Reset()
	printRatios(&out, []repetition{{"file-append-8": {"unitsPerSecond": 3e7}}, {}, {}})
	require.Contains(t, out.String(), "RATIO file_append 30000000 >= 2.5e+07 ok")
}

// Every limit is of a row that there is.
func TestRatioRows(t *testing.T) {
	var names []string
	for _, r := range rows(profiles["full"]) {
		require.False(t, slices.Contains(names, r.name), "%s is there twice", r.name)
		names = append(names, r.name)
		require.Equal(t, r.java, r.measure == nil, r.name)
	}
	for _, p := range profiles {
		require.LessOrEqual(t, len(rows(p)), len(names))
	}
}
