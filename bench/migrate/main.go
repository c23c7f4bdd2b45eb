// Command migrate measures how fast `tandemmq migrate backfill` fills RocksDB from file queues, and how much memory it
// takes. It makes a sample store once and keeps it, runs the real binary several times from nothing, each run between
// two calibrations, and prints medians, the spread, and one RATIO line for each limit.
//
//	go run ./bench/migrate -bin bin/tandemmq -dir DIR
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/process"
	"github.com/tandemq/tandemmq/commitlog"
)

// Limits of the first issue of the project; see docs/benchmarks.md.
const (
	minUnitsPerSecond = 900_000
	maxRssAnonMiB     = 512
)

func main() {
	var b bench
	flag.StringVar(&b.bin, "bin", "bin/tandemmq", "the binary to measure")
	flag.StringVar(&b.dir, "dir", "", "directory for the sample store, kept between runs (needs about 4.5 GB for the default size)")
	flag.StringVar(&b.out, "out", "", "file to append the raw results to, one JSON object a line")
	flag.Int64Var(&b.messages, "messages", 10_000_000, "messages in the store")
	flag.IntVar(&b.queues, "queues", 64, "queues, over 8 topics")
	flag.IntVar(&b.reps, "reps", 5, "repetitions")
	flag.Parse()
	if err := b.run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-migrate:", err)
		os.Exit(1)
	}
}

type bench struct {
	bin, dir, out string
	messages      int64
	queues, reps  int
}

// result is one repetition.
type result struct {
	Time           time.Time `json:"time"`
	Units          int64     `json:"units"`
	UnitsPerSecond float64   `json:"unitsPerSecond"` // until both families were flushed
	LoadSeconds    float64   `json:"loadSeconds"`
	CompactSeconds float64   `json:"compactSeconds"`
	RssAnonMiB     float64   `json:"rssAnonMiB"` // the largest seen, load and compaction
	ScanPerSecond  float64   `json:"scanPerSecond"`
	RocksBytes     int64     `json:"rocksBytes"`
}

func (b *bench) run() error {
	if b.dir == "" {
		return errors.New("-dir is missing")
	}
	store := filepath.Join(b.dir, fmt.Sprintf("store-%d-%d", b.messages, b.queues))
	if err := b.generate(store); err != nil {
		return err
	}
	fmt.Printf("store: %d messages of 200 bytes over %d queues; %d processors, %s\n", b.messages, b.queues, runtime.NumCPU(), runtime.Version())
	var all []result
	for i := range b.reps {
		r, err := b.once(store)
		if err != nil {
			return err
		}
		fmt.Printf("run %d: %.0f units/s (load %.2f s), compaction %.2f s, RssAnon %.0f MiB, RocksDB %d MiB; log scan alone %.0f records/s\n",
			i+1, r.UnitsPerSecond, r.LoadSeconds, r.CompactSeconds, r.RssAnonMiB, r.RocksBytes>>20, r.ScanPerSecond)
		all = append(all, r)
		if err := b.keep(r); err != nil {
			return err
		}
	}
	rate := spread(all, func(r result) float64 { return r.UnitsPerSecond })
	rss := spread(all, func(r result) float64 { return r.RssAnonMiB })
	share := spread(all, func(r result) float64 { return r.UnitsPerSecond / r.ScanPerSecond })
	compact := spread(all, func(r result) float64 { return r.CompactSeconds })
	fmt.Printf("median of %d (min, max): %.0f units/s (%.0f, %.0f); %.2f of the log scan (%.2f, %.2f); compaction %.2f s (%.2f, %.2f)\n",
		b.reps, rate[1], rate[0], rate[2], share[1], share[0], share[2], compact[1], compact[0], compact[2])
	fmt.Printf("RATIO backfill_units_per_second %.0f >= %d\n", rate[1], minUnitsPerSecond)
	fmt.Printf("RATIO backfill_rss_anon_mib %.0f <= %d\n", rss[2], maxRssAnonMiB)
	if rate[1] < minUnitsPerSecond || rss[2] > maxRssAnonMiB {
		return errors.New("a limit is not met")
	}
	return nil
}

// spread returns min, median and max.
func spread(all []result, f func(result) float64) [3]float64 {
	v := make([]float64, 0, len(all))
	for _, r := range all {
		v = append(v, f(r))
	}
	slices.Sort(v)
	return [3]float64{v[0], v[len(v)/2], v[len(v)-1]}
}

func (b *bench) generate(store string) error {
	if _, err := os.Stat(filepath.Join(store, "checkpoint")); err == nil {
		if _, err := os.Stat(filepath.Join(store, "abort")); err != nil {
			return nil
		}
	}
	if err := os.RemoveAll(store); err != nil {
		return err
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	cmd := exec.Command(b.bin, "store", "generate", "--store", store, "--messages", strconv.FormatInt(b.messages, 10),
		"--topics", "8", "--queues", strconv.Itoa(b.queues/8), "--body", "200")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// once runs one backfill from nothing.
func (b *bench) once(store string) (r result, err error) {
	for _, d := range []string{"consumequeue_rocksdb", "tandemmq"} {
		if err := os.RemoveAll(filepath.Join(store, d)); err != nil {
			return r, err
		}
	}
	if err := exec.Command("sync").Run(); err != nil {
		return r, err
	}
	if r.ScanPerSecond, err = scan(filepath.Join(store, "commitlog")); err != nil { // brings the log into the page cache, too
		return r, err
	}
	cmd := exec.Command(b.bin, "migrate", "backfill", "--store", store, "--json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return r, err
	}
	peak := process.Of(cmd.Process.Pid).WatchAnon()
	text, err := io.ReadAll(out)
	if werr := cmd.Wait(); err == nil {
		err = werr
	}
	r.RssAnonMiB = peak()
	if err != nil {
		return r, err
	}
	var res struct {
		Units           int64
		LoadNanos       int64
		CompactionNanos int64
	}
	if err := json.Unmarshal(text, &res); err != nil {
		return r, err
	}
	r.Time, r.Units = time.Now().UTC(), res.Units
	r.LoadSeconds, r.CompactSeconds = float64(res.LoadNanos)/1e9, float64(res.CompactionNanos)/1e9
	r.UnitsPerSecond = float64(res.Units) / r.LoadSeconds
	if res.Units != b.messages {
		return r, fmt.Errorf("the backfill wrote %d units, the store has %d messages", res.Units, b.messages)
	}
	r.RocksBytes, err = treeBytes(filepath.Join(store, "consumequeue_rocksdb"))
	return r, err
}

// scan reads the whole log once and returns records per second: what the backfill cannot beat.
func scan(dir string) (float64, error) {
	l, err := commitlog.Open(dir, commitlog.Options{})
	if err != nil {
		return 0, err
	}
	defer l.Close()
	var rate float64
	for range 2 { // the first pass may read from the disk
		start, n := time.Now(), 0
		s := l.Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
		for s.Next() {
			n++
		}
		err := s.Err()
		s.Close()
		if err != nil {
			return 0, err
		}
		rate = float64(n) / time.Since(start).Seconds()
	}
	return rate, nil
}

func treeBytes(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		i, err := d.Info()
		if err == nil {
			n += i.Size()
		}
		return err
	})
	return n, err
}

// keep appends the raw result.
func (b *bench) keep(r result) error { return calibrate.AppendJSON(b.out, r) }
