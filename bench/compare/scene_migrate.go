package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/tandemq/tandemmq/bench/process"
	"github.com/tandemq/tandemmq/bench/report"
)

// Migration is the engine of scenarios that have but one.
const Migration = "tandemmq"

// MigrateScenarios move the consume queues of a stopped store from files into RocksDB, and compare both, by the commands with which that is done.
func MigrateScenarios() []Scenario {
	if !HasRocks {
		return nil
	}
	part := func(name, title, prefix, headline string) Scenario {
		return Scenario{
			Name: "migrate/" + name, Title: title, Engines: []string{Migration}, Headline: headline, Shared: "migrate", Prefix: prefix, Run: runMigrate, Inputs: true, Limit: slowLimit, Disk: 8 << 30,
			Bounds: map[string]string{LimitRocksWalk: headline},
		}
	}
	all := []Scenario{
		part("backfill", "units written into RocksDB, until all are durable: tandemmq migrate backfill", "backfill", "backfillUnitsPerSecond"),
		part("verify", "units of both sides compared, each of them: tandemmq migrate verify", "verify", "verifyUnitsPerSecond"),
		part("verify-records", "the same with every record read: tandemmq migrate verify --level records", "records", "recordsUnitsPerSecond"),
	}
	all[0].Bounds = map[string]string{LimitRocksWrite: "backfillUnitsPerSecond"}
	return all
}

func runMigrate(ctx context.Context, r *Run) error {
	if r.Program == "" {
		return errors.New("there is no program to do it")
	}
	messages := size(r.Profile, 500_000, 10_000_000)
	from, err := r.Input(fmt.Sprintf("generated-%d", messages), func(dir string) error {
		_, err := report.Output(exec.CommandContext(ctx, r.Program, "store", "generate", "--store", dir, "--messages", strconv.Itoa(messages), "--topics", "8", "--queues", "8", "--body", "200", "--quiet"))
		return err
	})
	if err != nil {
		return err
	}
	root := filepath.Join(r.Dir, "store")
	if err := CopyInput(from, root); err != nil {
		return err
	}
	var filled struct {
		Units           int64
		LoadNanos       int64
		CompactionNanos int64
	}
	peak, err := r.migrate(ctx, &filled, "backfill", "--store", root)
	if err != nil {
		return err
	}
	if filled.Units != int64(messages) {
		return fmt.Errorf("%d units were written, the store has %d messages", filled.Units, messages)
	}
	r.Figures["backfillUnitsPerSecond"] = float64(filled.Units) / (float64(filled.LoadNanos) / 1e9)
	r.Figures["backfillCompactionMillis"] = float64(filled.CompactionNanos) / 1e6
	r.Figures["backfill"+ownPeak] = peak
	for _, level := range []struct{ prefix, name string }{{"verify", "units"}, {"records", "records"}} {
		var verified struct {
			Units        int64
			ElapsedNanos int64
		}
		peak, err := r.migrate(ctx, &verified, "verify", "--store", root, "--level", level.name)
		if err != nil {
			return err
		}
		if verified.Units != int64(messages) {
			return fmt.Errorf("%d units were compared, the store has %d messages", verified.Units, messages)
		}
		r.Figures[level.prefix+"UnitsPerSecond"] = float64(verified.Units) / (float64(verified.ElapsedNanos) / 1e9)
		r.Figures[level.prefix+ownPeak] = peak
	}
	r.checked("%d units were written, as many compared and found the same, with their records", messages)
	return nil
}

// migrate runs a step of a migration, puts what it reports into out and returns its largest RssAnon in MiB.
func (r *Run) migrate(ctx context.Context, out any, words ...string) (peak float64, err error) {
	cmd := exec.CommandContext(ctx, r.Program, append(append([]string{"migrate"}, words...), "--json")...)
	text, peak, err := process.Watched(cmd)
	if err != nil {
		return peak, err
	}
	return peak, json.Unmarshal(text, out)
}
