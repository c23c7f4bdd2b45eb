//go:build cgo

package rocks

// #include "shim.h"
import "C"

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/linxGnu/grocksdb"
)

// progressInterval is how often Compact reports.
const progressInterval = time.Second

// Compact flushes and then merges all tables of the units' family into one sorted run, dropping expired units
// (SetMinPhyOffset) and replaced ones. It rewrites what is already one run too, which is how expired units go. While it
// runs the directory holds input and output side by side; the input goes at the end.
//
// progress, which may be nil, is called about once a second with the bytes written so far and the bytes to be read; the
// output is smaller than the input, so written ends below total. A cancelled ctx ends the merge and leaves the database
// as it was; the error is then ctx's.
func (db *DB) Compact(ctx context.Context, progress func(writtenBytes, totalBytes int64)) error {
	if err := db.Flush(); err != nil {
		return err
	}
	if err := db.enterWrite(); err != nil {
		return err
	}
	defer db.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	var (
		watch  sync.WaitGroup
		paused bool
		done   = make(chan struct{})
	)
	watch.Go(func() { paused = db.watchCompaction(ctx, done, progress) })
	o := made(grocksdb.NewCompactRangeOptions())
	o.SetBottommostLevelCompaction(grocksdb.KForce)
	o.SetMaxSubCompactions(int32(db.options.MaxSubcompactions))
	db.c.CompactRangeCFOpt(db.units, grocksdb.Range{}, o)
	destroy(o)
	close(done)
	watch.Wait()
	if paused { // RocksDB counts pauses
		C.rocksdb_enable_manual_compaction(rawDB(db.c))
		return ctx.Err()
	}
	if db.closing.Load() {
		return fmt.Errorf("compact %s: %w", db.dir, ErrClosed)
	}
	// The C API drops the status of a compaction; its effect tells.
	if n := db.runsLocked(); n > 1 {
		return db.fail("compact", fmt.Sprintf("%d sorted runs are left (background errors: %s)", n,
			db.c.GetPropertyCF("rocksdb.background-errors", db.units)))
	}
	return nil
}

// watchCompaction pauses manual compactions when ctx ends, which it then returns, and reports progress, until done is closed.
func (db *DB) watchCompaction(ctx context.Context, done <-chan struct{}, progress func(int64, int64)) (paused bool) {
	total, _ := db.c.GetIntPropertyCF("rocksdb.live-sst-files-size", db.units)
	before := db.newestTable()
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	cancelled := ctx.Done()
	for {
		select {
		case <-done:
			return paused
		case <-cancelled:
			db.c.DisableManualCompaction()
			paused, cancelled = true, nil
		case <-tick.C:
			if progress != nil {
				progress(db.tableBytesAfter(before), int64(total))
			}
		}
	}
}

// cancelCompaction ends a running Compact for good; it answers ErrClosed.
func (db *DB) cancelCompaction() {
	db.closing.Store(true)
	db.mu.RLock()
	defer db.mu.RUnlock()
	if !db.closed && !db.readOnly {
		db.c.DisableManualCompaction()
	}
}

// runsLocked counts the sorted runs of the units' family: each file of level 0 and each level that has files.
func (db *DB) runsLocked() int {
	n := 0
	for level := range 7 {
		files, _ := strconv.Atoi(db.c.GetPropertyCF("rocksdb.num-files-at-level"+strconv.Itoa(level), db.units))
		if level > 0 {
			files = min(files, 1)
		}
		n += files
	}
	return n
}

// SortedRuns counts the sorted runs of the units' family, which a read has to look into: each file of level 0 and each
// further level that has files.
func (db *DB) SortedRuns() (int, error) {
	if err := db.enter(); err != nil {
		return 0, err
	}
	defer db.leave()
	return db.runsLocked(), nil
}

// TableBytes returns the size of all live table files of both families.
func (db *DB) TableBytes() (int64, error) {
	if err := db.enter(); err != nil {
		return 0, err
	}
	defer db.leave()
	var sum int64
	for _, h := range db.handles {
		n, _ := db.c.GetIntPropertyCF("rocksdb.live-sst-files-size", h)
		sum += int64(n)
	}
	return sum, nil
}

// eachTable calls fn with number and size of each table file in the directory.
func (db *DB) eachTable(fn func(number uint64, size int64)) {
	names, _ := filepath.Glob(filepath.Join(db.dir, "*.sst"))
	for _, name := range names {
		number, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(name), ".sst"), 10, 64)
		if err != nil {
			continue
		}
		if info, err := os.Stat(name); err == nil {
			fn(number, info.Size())
		}
	}
}

func (db *DB) newestTable() (newest uint64) {
	db.eachTable(func(number uint64, _ int64) { newest = max(newest, number) })
	return newest
}

func (db *DB) tableBytesAfter(newest uint64) (sum int64) {
	db.eachTable(func(number uint64, size int64) {
		if number > newest {
			sum += size
		}
	})
	return sum
}
