package store

import (
	"context"
	"os"
	"path/filepath"
)

// Detected is what a store directory tells of the options it needs.
type Detected struct {
	Options Options
	// File and RocksDB say which consume queues there are; both may be missing, of a store that is new or has lost them.
	File, RocksDB bool
	// Kept says on which sides the store keeps its queues, whether they are there or not: by what was noted, and where there are none, by traces of them.
	Kept Kept
	// Notes are what an operator has to know.
	Notes []string
}

// Detect returns the options that open the store in root: o, but what is not named by given, the properties that somebody has set, is read off the directory as
// far as that tells it: sizes of files, and whether there are light queues. Which consume queues there are it tells, and leaves the choice to the caller. A directory that is not there, or
// empty, tells nothing. It changes nothing.
//
// Errors: a property that was set and that the files contradict (FR-B04), naming both; directories that cannot be read, or hold two RocksDB databases.
func Detect(root string, o Options, given []string) (d Detected, err error) {
	r := recovery{ctx: context.Background(), layout: NewLayout(root), o: RecoverOptions{Options: &o, Given: append([]string{}, given...), Logger: o.Logger}, base: o, mayBeNew: true}
	if _, err := os.Stat(root); err == nil {
		if err := r.readSizes(); err != nil {
			return d, err
		}
	}
	if d.File, err = r.layout.HasFileQueues(); err != nil {
		return d, err
	}
	if d.RocksDB, err = r.hasRocks(); err != nil {
		return d, err
	}
	if r.kept, err = r.layout.Kept(); err == nil && !d.File && !d.RocksDB {
		r.kept, err = r.layout.KeptBefore()
	}
	if err != nil {
		return d, err
	}
	r.placeRocks(d.RocksDB)
	d.Kept = r.kept
	d.Options, d.Notes = r.base, r.rep.Notes
	return d, nil
}

// hasLog tells whether one of the log's directories has a file.
func (r *recovery) hasLog() bool {
	dirs := append(r.base.writeDirs(), r.base.ReadOnlyCommitLogStorePaths...)
	if len(dirs) == 0 {
		dirs = []string{r.layout.CommitLogDir()}
	}
	for _, dir := range dirs {
		if names, err := filepath.Glob(filepath.Join(dir, "*")); err == nil && len(names) > 0 {
			return true
		}
	}
	return false
}
