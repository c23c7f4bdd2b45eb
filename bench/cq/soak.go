package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/process"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/store"
)

const (
	soakStep     = 30 * time.Second
	soakMessages = 20_000 // a cycle
	soakQueues   = 100
	soakCycles   = 10 // of one store
	// soakGrowth is the limit in MiB a minute: a leak of one allocation of 64 bytes in each of the cycle's calls would be more.
	soakGrowth = 1.0
)

// held is what the process has between two cycles, when no store is open.
type held struct {
	process.Held
	objects int64 // of RocksDB's C interface
}

// look returns what the process has, of stores below dir.
func look(dir string) (h held, err error) {
	debug.FreeOSMemory()
	h.objects = liveObjects()
	h.Held, err = process.Self().Held(dir)
	return h, err
}

// runSoak puts, reads, closes and opens again for that long, with each engine in turn, and prints each step what the process has while no store is open: memory that is not
// of files, C objects, mappings and descriptors. The growth is that of the second half: in the first one caches fill.
func runSoak(ctx context.Context, w io.Writer, dir, out string, d, step time.Duration) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, "bench-cq-soak-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	var seen []held
	start, next, cycle := time.Now(), step, 0
	for time.Since(start) < d {
		e := engines[cycle/soakCycles%len(engines)] // in turn, from one store to the next
		root := filepath.Join(work, string(e))
		if err := soak(ctx, e, root, cycle%soakCycles); err != nil {
			return fmt.Errorf("cycle %d, %s: %w", cycle, e, err)
		}
		if cycle++; cycle%soakCycles == 0 {
			if err := os.RemoveAll(root); err != nil {
				return err
			}
		}
		if time.Since(start) < next && time.Since(start) < d {
			continue
		}
		next += step
		h, err := look(work)
		if err != nil {
			return err
		}
		seen = append(seen, h)
		fmt.Fprintf(w, "%4.0f s, %d cycles: RssAnon %.1f MiB, %d C objects, %d mappings (%d of the store), %d descriptors (%d of the store)\n",
			time.Since(start).Seconds(), cycle, h.AnonMiB, h.objects, h.Mappings, h.OwnMapped, h.Descriptors, h.OwnOpen)
	}
	x := soakFigures(seen, step)
	soakRatios(w, x)
	x["seconds"], x["cycles"], x["messages"] = time.Since(start).Seconds(), float64(cycle), float64(cycle*soakMessages)
	return calibrate.AppendJSON(out, record{Time: time.Now().UTC(), Profile: "soak", Row: "soak", Figures: x})
}

// soakFigures tells what grew, and the most of what should not be there at all.
func soakFigures(seen []held, step time.Duration) figures {
	var anon []float64
	x := figures{}
	half := len(seen) / 2
	for i, h := range seen {
		if i >= half {
			anon = append(anon, h.AnonMiB)
		}
		for name, n := range map[string]float64{"objects": float64(h.objects), "mappingsLeft": float64(h.OwnMapped), "descriptorsLeft": float64(h.OwnOpen)} {
			x[name] = max(x[name], n)
		}
	}
	x["growthMiBPerMinute"] = report.Slope(anon) / step.Minutes()
	if len(seen) > 0 {
		x["descriptorsGrown"] = float64(seen[len(seen)-1].Descriptors - seen[half].Descriptors)
		x["mappings"], x["descriptors"] = float64(seen[len(seen)-1].Mappings), float64(seen[len(seen)-1].Descriptors)
	}
	return x
}

// soakRatios prints a line for each limit.
func soakRatios(w io.Writer, x figures) {
	for _, r := range []struct {
		name, figure string
		limit        float64
	}{
		{"soak_growth_mib_per_minute", "growthMiBPerMinute", soakGrowth},
		{"soak_c_objects", "objects", 0},
		{"soak_mappings_left", "mappingsLeft", 0},
		{"soak_descriptors_left", "descriptorsLeft", 0},
		{"soak_descriptors_grown", "descriptorsGrown", 0},
	} {
		verdict := "ok"
		if x[r.figure] > r.limit {
			verdict = "missed"
		}
		fmt.Fprintf(w, "RATIO %s %s <= %v %s\n", r.name, calibrate.Short(x[r.figure]), r.limit, verdict)
	}
}

// soak is one cycle: number n of its store.
func soak(ctx context.Context, e engine, root string, n int) error {
	return load.WithStore(e, root, func(s *store.Store) error {
		p := load.NewProducer(s, soakQueues, 100)
		p.Next = n * soakMessages
		for range soakMessages {
			if err := p.Put(ctx); err != nil {
				return err
			}
		}
		if err := load.AwaitBuilt(ctx, s); err != nil {
			return err
		}
		r := load.NewReader(p)
		defer r.Result.Release()
		got, err := r.Pull()
		if err == nil && got != p.Next {
			err = fmt.Errorf("%d messages were read, want %d", got, p.Next)
		}
		return errors.Join(err, p.Check())
	})
}
