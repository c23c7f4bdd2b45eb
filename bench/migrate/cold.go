package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
)

// coldResult is a pair of passes over a log that was not in memory.
type coldResult struct {
	Time                   time.Time `json:"time"`
	ReadBytesPerSecond     float64   `json:"coldReadBytesPerSecond"`     // of the files of the log, one after the other, by read(2)
	BackfillBytesPerSecond float64   `json:"coldBackfillBytesPerSecond"` // of the log, by a backfill from nothing, until both families were flushed
}

// cold has plain reads of the log's files and backfills take turns, each over files that are not in memory when it begins. The queues are in memory, where they were.
func (b *bench) cold(store string) error {
	files, err := filepath.Glob(filepath.Join(store, "commitlog", "*"))
	if err != nil {
		return err
	}
	var shares []float64
	for range b.reps {
		r := coldResult{Time: time.Now().UTC()}
		if err := clear(store); err != nil {
			return err
		}
		if err := calibrate.DropCache(files); err != nil {
			return err
		}
		var filled struct {
			LogEnd    int64
			LoadNanos int64
		}
		if _, err := b.step(&filled, "backfill", "--store", store); err != nil {
			return err
		}
		r.BackfillBytesPerSecond = float64(filled.LogEnd) / (float64(filled.LoadNanos) / 1e9)
		if err := calibrate.DropCache(files); err != nil {
			return err
		}
		if r.ReadBytesPerSecond, err = calibrate.SequentialReadOf(files, filled.LogEnd); err != nil {
			return err
		}
		fmt.Printf("cold log: read %.0f MB/s, backfill %.0f MB/s\n", r.ReadBytesPerSecond/1e6, r.BackfillBytesPerSecond/1e6)
		shares = append(shares, 100*r.BackfillBytesPerSecond/r.ReadBytesPerSecond)
		if err := calibrate.AppendJSON(b.out, r); err != nil {
			return err
		}
	}
	slices.Sort(shares)
	b.ratio("backfill_cold_percent_of_read", shares[len(shares)/2], ">=", minColdPercent)
	return nil
}
