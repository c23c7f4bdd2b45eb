package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/compare"
)

func benchLimitsCommand() *cli.Command {
	return &cli.Command{
		Name: "limits", Usage: "measure what this machine gives",
		Description: `Measures what no store can beat on this machine, each with one thread: copies into memory, checksums, the disk (reads, writes, syncs), the network within the machine, calls into C,
and RocksDB. Figures of benchmarks mean little without. What is written lies in the directory for a while: on the filesystem that is to be measured.

   tandemmq bench limits --dir /data/bench --reps 5`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "`DIR`ectory on the filesystem to measure; nothing stays in it", DefaultText: "bench in tandemmq's cache directory"},
			&cli.StringFlag{Name: "profile", Value: "quick", Usage: "`SIZE` of it all: quick (some seconds, 256 MB) or full (minutes, 4 GB)"},
			&cli.IntFlag{Name: "reps", Value: 3, Usage: "`N` repetitions"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document and no progress"},
			&cli.BoolFlag{Name: "quiet", Usage: "print no progress"},
		},
		Action: runBenchLimits,
	}
}

// limitsDocument is what bench limits --json prints.
type limitsDocument struct {
	Started time.Time             `json:"started"`
	Machine calibrate.MachineInfo `json:"machine"`
	Limits  []compare.Limit       `json:"limits"`
}

func runBenchLimits(c *cli.Context) error {
	profile, reps, err := profileAndReps(c)
	if err != nil {
		return err
	}
	dir, err := benchCache(c.String("dir"))
	if err != nil {
		return err
	}
	p := newProgress(c.App.ErrWriter, chooseProgress(c.App.ErrWriter, c.Bool("json") || c.Bool("quiet")))
	defer p.Finish()
	doc := limitsDocument{Started: time.Now().UTC(), Machine: calibrate.Machine(c.Context, dir, "")}
	doc.Machine.TandemMQ = "tandemmq " + version()
	if doc.Limits, err = measureLimits(c.Context, p, "limits", dir, profile, reps); err != nil {
		return err
	}
	p.Finish()
	if c.Bool("json") {
		return printJSON(c.App.Writer, doc)
	}
	_, err = fmt.Fprintln(c.App.Writer, doc.Machine)
	return errors.Join(err, compare.LimitsText(c.App.Writer, doc.Limits))
}

// benchProfiles are those that can be asked for; tests have one more.
var benchProfiles = []compare.Profile{compare.Quick, compare.Full}

// profileAndReps are the flags of these names.
func profileAndReps(c *cli.Context) (compare.Profile, int, error) {
	profile, reps := compare.Profile(c.String("profile")), c.Int("reps")
	if !slices.Contains(benchProfiles, profile) {
		return "", 0, usageError("--profile %q: use quick or full", profile)
	}
	if reps < 1 || reps > 1000 {
		return "", 0, usageError("--reps %d: want 1 to 1000", reps)
	}
	return profile, reps, nil
}

// measureLimits measures limits once what the machine has to write is written.
func measureLimits(ctx context.Context, p *progress, name, dir string, profile compare.Profile, reps int) ([]compare.Limit, error) {
	syscall.Sync()
	phase := p.Phase(name, int64(reps*compare.LimitCount()), "measurements")
	phase(0)
	return compare.MeasureLimits(ctx, dir, compare.LimitSizesOf(profile), reps, phase)
}
