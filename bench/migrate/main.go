// Command migrate measures how fast `tandemmq migrate backfill` fills RocksDB from file queues, how fast `migrate verify`
// compares every unit, and every record, and how much memory both take. It makes a sample store once and keeps it, runs the
// real binary several times from nothing, each run behind a bare scan of the log, and prints medians, the spread, and one
// RATIO line for each limit. Then backfills of a log that is not in memory take turns with plain reads of its files. With -many
// it does it once more over a store of many queues, for the memory alone, and has a store that is open filled and verified as well.
//
// With -online it measures instead what a backfill in a running store costs those who put messages.
//
//	go run ./bench/migrate -bin bin/tandemmq -dir DIR [-many 1000000]
//	go run ./bench/migrate -bin bin/tandemmq -dir DIR -online
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
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

// Limits; see docs/benchmarks.md. Units are ingested as sorted files: through memtables half as many would do.
const (
	minUnitsPerSecond  = 1_800_000
	minVerifyPerSecond = 3_000_000
	maxRssAnonMiB      = 512
	maxPlanOffPercent  = 30
	minColdPercent     = 85 // of the rate at which the files of the log are read, where they are not in memory
)

func main() {
	var b bench
	flag.StringVar(&b.bin, "bin", "bin/tandemmq", "the binary to measure")
	flag.StringVar(&b.dir, "dir", "", "directory for the sample store, kept between runs (needs about 4.5 GB for the default size)")
	flag.StringVar(&b.out, "out", "", "file to append the raw results to, one JSON object a line")
	flag.Int64Var(&b.messages, "messages", 10_000_000, "messages in the store")
	flag.IntVar(&b.queues, "queues", 64, "queues, over 8 topics")
	flag.IntVar(&b.reps, "reps", 5, "repetitions; 0: only what -many asks for")
	flag.IntVar(&b.many, "many", 0, "queues of a second store, with two messages in each, run once for the memory (a million take 9 GB)")
	flag.BoolVar(&b.online, "online", false, "measure what puts lose beside a backfill in a running store, and nothing else")
	flag.IntVar(&b.puts, "puts", 1_000_000, "messages that a row of -online puts")
	child := flag.String("child", "", "for this program's own use: fill and verify the store of that directory while it is open, and say what memory that took")
	flag.Parse()
	if *child != "" {
		if err := openStore(context.Background(), *child); err != nil {
			fmt.Fprintln(os.Stderr, "bench-migrate:", err)
			os.Exit(1)
		}
		return
	}
	if err := b.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench-migrate:", err)
		os.Exit(1)
	}
}

type bench struct {
	bin, dir, out string
	messages      int64
	queues, reps  int
	many, puts    int
	online        bool

	missed bool // a limit is
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

	Queues           int     `json:"queues"`
	VerifyPerSecond  float64 `json:"verifyPerSecond"`  // units, by migrate verify: every unit of both sides
	RecordsPerSecond float64 `json:"recordsPerSecond"` // units, by migrate verify --level records: every record too
	VerifyRssMiB     float64 `json:"verifyRssMiB"`     // RssAnon, the largest seen of both

	PlannedSeconds float64 `json:"plannedSeconds"` // by migrate plan: backfill and verification of every unit
	TakenSeconds   float64 `json:"takenSeconds"`   // by these
	PlannedBytes   int64   `json:"plannedBytes"`
}

// off is by how many parts of a hundred an estimate misses.
func off(planned, taken float64) float64 { return 100 * math.Abs(planned/taken-1) }

var errMissed = errors.New("a limit is not met")

func (b *bench) run(ctx context.Context) error {
	if b.dir == "" {
		return errors.New("-dir is missing")
	}
	if b.online {
		missed, err := b.beside(ctx)
		if err == nil && missed > 0 {
			err = errMissed
		}
		return err
	}
	if b.reps > 0 {
		if err := b.few(); err != nil {
			return err
		}
	}
	if b.many > 0 {
		if err := b.manyQueues(); err != nil {
			return err
		}
	}
	if b.missed {
		return errMissed
	}
	return nil
}

// ratio prints the line of a limit.
func (b *bench) ratio(name string, value float64, op string, limit float64) {
	fmt.Printf("RATIO %s %.0f %s %.0f\n", name, value, op, limit)
	b.missed = b.missed || op == ">=" && value < limit || op == "<=" && value > limit
}

// few runs over a store of few queues.
func (b *bench) few() error {
	store, err := b.generate(b.messages, 8, b.queues/8, 200)
	if err != nil {
		return err
	}
	fmt.Printf("store: %d messages of 200 bytes over %d queues; %d processors, %s\n", b.messages, b.queues, runtime.NumCPU(), runtime.Version())
	var all []result
	for i := range b.reps {
		r, err := b.once(store, b.messages)
		if err != nil {
			return err
		}
		fmt.Printf("run %d: %s\n", i+1, r)
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
	verify := spread(all, func(r result) float64 { return r.VerifyPerSecond })
	records := spread(all, func(r result) float64 { return r.RecordsPerSecond })
	vrss := spread(all, func(r result) float64 { return r.VerifyRssMiB })
	fmt.Printf("verify: %.0f units/s (%.0f, %.0f); with every record %.0f (%.0f, %.0f)\n", verify[1], verify[0], verify[2], records[1], records[0], records[2])
	b.ratio("backfill_units_per_second", rate[1], ">=", minUnitsPerSecond)
	b.ratio("backfill_rss_anon_mib", rss[2], "<=", maxRssAnonMiB)
	b.ratio("verify_units_per_second", verify[1], ">=", minVerifyPerSecond)
	b.ratio("verify_records_units_per_second", records[1], ">=", minVerifyPerSecond)
	b.ratio("verify_rss_anon_mib", vrss[2], "<=", maxRssAnonMiB)
	b.planned(spread(all, func(r result) float64 { return r.PlannedSeconds / r.TakenSeconds }), "time")
	b.planned(spread(all, func(r result) float64 { return float64(r.PlannedBytes) / float64(r.RocksBytes) }), "space")
	b.ratio("plan_time_off_percent", spread(all, func(r result) float64 { return off(r.PlannedSeconds, r.TakenSeconds) })[1], "<=", maxPlanOffPercent)
	b.ratio("plan_space_off_percent", spread(all, func(r result) float64 { return off(float64(r.PlannedBytes), float64(r.RocksBytes)) })[1], "<=", maxPlanOffPercent)
	return b.cold(store)
}

// planned shows what estimates are, as parts of what was.
func (b *bench) planned(share [3]float64, of string) {
	fmt.Printf("plan: %.2f (%.2f, %.2f) of the %s that it takes\n", share[1], share[0], share[2], of)
}

// Queues get messages at random: with two for each, this part of them gets one.
const (
	filledShare  = 0.8647
	queuesATopic = 1000
	messagesEach = 2
)

// manyQueues runs once over a store of many queues.
func (b *bench) manyQueues() error {
	topics := max(int(math.Ceil(float64(b.many)/filledShare/queuesATopic)), 1)
	queues := min(queuesATopic, b.many)
	messages := int64(topics * queues * messagesEach)
	store, err := b.generate(messages, topics, queues, 20)
	if err != nil {
		return err
	}
	r, err := b.once(store, messages)
	if err != nil {
		return err
	}
	fmt.Printf("%d queues: %s\n", r.Queues, r)
	all, err := b.step(&struct{}{}, "verify", "--store", store, "--level", "all")
	if err != nil {
		return err
	}
	cutover, err := b.step(&struct{}{}, "cutover", "--store", store)
	if err != nil {
		return err
	}
	fmt.Printf("%d queues: RssAnon of verify --level all %.0f MiB, of cutover %.0f MiB\n", r.Queues, all, cutover)
	r.VerifyRssMiB = max(r.VerifyRssMiB, all, cutover)
	b.ratio("backfill_many_queues_rss_anon_mib", r.RssAnonMiB, "<=", maxRssAnonMiB)
	b.ratio("verify_many_queues_rss_anon_mib", r.VerifyRssMiB, "<=", maxRssAnonMiB)
	b.ratio("plan_many_queues_time_off_percent", off(r.PlannedSeconds, r.TakenSeconds), "<=", maxPlanOffPercent)
	if err := b.keep(r); err != nil {
		return err
	}
	return b.manyOpen(store, r.Queues)
}

func (r result) String() string {
	return fmt.Sprintf("%.0f units/s (load %.2f s), compaction %.2f s, RssAnon %.0f MiB, RocksDB %d MiB; log scan alone %.0f records/s; verify %.0f units/s, with every record %.0f, RssAnon %.0f MiB",
		r.UnitsPerSecond, r.LoadSeconds, r.CompactSeconds, r.RssAnonMiB, r.RocksBytes>>20, r.ScanPerSecond, r.VerifyPerSecond, r.RecordsPerSecond, r.VerifyRssMiB)
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

// generate makes a store, unless it is there from an earlier run.
func (b *bench) generate(messages int64, topics, queues, body int) (store string, err error) {
	store = filepath.Join(b.dir, fmt.Sprintf("store-%d-%d", messages, topics*queues))
	if _, err := os.Stat(filepath.Join(store, "checkpoint")); err == nil {
		if _, err := os.Stat(filepath.Join(store, "abort")); err != nil {
			return store, nil
		}
	}
	if err := os.RemoveAll(store); err != nil {
		return store, err
	}
	return store, b.generateAt(store, messages, topics, queues, body)
}

func (b *bench) generateAt(store string, messages int64, topics, queues, body int) error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	cmd := exec.Command(b.bin, "store", "generate", "--store", store, "--messages", strconv.FormatInt(messages, 10),
		"--topics", strconv.Itoa(topics), "--queues", strconv.Itoa(queues), "--body", strconv.Itoa(body))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// once runs one backfill from nothing, and verifies it twice.
func (b *bench) once(store string, messages int64) (r result, err error) {
	if err := clear(store); err != nil {
		return r, err
	}
	if r.ScanPerSecond, err = scan(filepath.Join(store, "commitlog")); err != nil { // brings the log into the page cache, too
		return r, err
	}
	var plan struct {
		EstimateNanos   int64
		DiskNeededBytes int64
	}
	if _, err := b.step(&plan, "plan", "--store", store); err != nil {
		return r, err
	}
	r.PlannedSeconds, r.PlannedBytes = float64(plan.EstimateNanos)/1e9, plan.DiskNeededBytes
	var filled struct {
		Units           int64
		Queues          int
		LoadNanos       int64
		CompactionNanos int64
	}
	if r.RssAnonMiB, err = b.step(&filled, "backfill", "--store", store); err != nil {
		return r, err
	}
	r.Time, r.Units, r.Queues = time.Now().UTC(), filled.Units, filled.Queues
	r.LoadSeconds, r.CompactSeconds = float64(filled.LoadNanos)/1e9, float64(filled.CompactionNanos)/1e9
	r.UnitsPerSecond = float64(filled.Units) / r.LoadSeconds
	if filled.Units != messages {
		return r, fmt.Errorf("the backfill wrote %d units, the store has %d messages", filled.Units, messages)
	}
	for _, level := range []string{"units", "records"} {
		rate := &r.VerifyPerSecond
		if level == "records" {
			rate = &r.RecordsPerSecond
		}
		var verified struct {
			Units        int64
			ElapsedNanos int64
		}
		rss, err := b.step(&verified, "verify", "--store", store, "--level", level)
		if err != nil {
			return r, err
		}
		if verified.Units != messages {
			return r, fmt.Errorf("verify compared %d units, the store has %d messages", verified.Units, messages)
		}
		if level == "units" {
			r.TakenSeconds = r.LoadSeconds + r.CompactSeconds + float64(verified.ElapsedNanos)/1e9
		}
		*rate, r.VerifyRssMiB = float64(verified.Units)/(float64(verified.ElapsedNanos)/1e9), max(r.VerifyRssMiB, rss)
	}
	r.RocksBytes, err = treeBytes(filepath.Join(store, "consumequeue_rocksdb"))
	return r, err
}

// clear leaves of a store what it was generated with, and nothing that is still to be written to the disk.
func clear(store string) error {
	for _, d := range []string{"consumequeue_rocksdb", "tandemmq"} {
		if err := os.RemoveAll(filepath.Join(store, d)); err != nil {
			return err
		}
	}
	return exec.Command("sync").Run()
}

// step runs one step of a migration, puts what it reports into out, and returns the largest RssAnon that was seen, in MiB.
func (b *bench) step(out any, args ...string) (rssMiB float64, err error) {
	text, rssMiB, err := process.Watched(exec.Command(b.bin, append(append([]string{"migrate"}, args...), "--json")...))
	if err != nil {
		return rssMiB, err
	}
	return rssMiB, json.Unmarshal(text, out)
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
