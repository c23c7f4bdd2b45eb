package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
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

// runSoak puts, reads, closes and opens again for that long, with each engine in turn, and prints each step the memory that is not of files. The growth is that of
// the second half: in the first one caches fill.
func runSoak(ctx context.Context, w io.Writer, dir, out string, d, step time.Duration) (err error) {
	work, err := os.MkdirTemp(dir, "bench-cq-soak-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	var seen []float64
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
		if time.Since(start) < next {
			continue
		}
		next += step
		mib, err := anonMiB()
		if err != nil {
			return err
		}
		seen = append(seen, mib)
		fmt.Fprintf(w, "%4.0f s, %d cycles: RssAnon %.1f MiB\n", time.Since(start).Seconds(), cycle, mib)
	}
	growth := slope(seen[len(seen)/2:]) / step.Minutes()
	verdict := "ok"
	if growth > soakGrowth {
		verdict = "missed"
	}
	fmt.Fprintf(w, "RATIO soak_growth_mib_per_minute %s <= %v %s\n", calibrate.Short(growth), soakGrowth, verdict)
	return calibrate.AppendJSON(out, record{Time: time.Now().UTC(), Profile: "soak", Row: "soak", Figures: figures{
		"growthMiBPerMinute": growth, "seconds": time.Since(start).Seconds(), "cycles": float64(cycle), "messages": float64(cycle * soakMessages),
	}})
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
