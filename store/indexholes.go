package store

import (
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/message"
)

// indexHole is a stretch of the log whose records with keys have no entries, although later ones have: index files between others, or before all of them, are
// gone. Index files are filled one after the other, so nothing with keys may lie between the last record of one and the first of the next.
type indexHole struct {
	from, to int64  // physical offsets: behind the last record before it that has entries, or the log's beginning; and where the first behind it begins
	record   int64  // the first record with keys
	file     string // the index file behind it
}

// Error says so.
func (h *indexHole) Error() string {
	return fmt.Sprintf("the index lacks records with keys from physical offset %d on, up to %d: a file before %s is gone", h.record, h.to, h.file)
}

// findIndexHole returns the first hole before or between files, behind a physical offset up to which there is none for sure (-1: none is known), nil without one. It goes by their headers, and reads what the log
// has between them.
func findIndexHole(log *commitlog.Log, known, end int64, files []index.FileInfo, levels *message.DelayLevels) (*indexHole, error) {
	begin := max(log.MinOffset(), known, 0)
	done := begin
	for i := range files {
		f := &files[i]
		if f.Entries == 0 || f.EndPhyOffset < begin {
			continue // nothing in it, or expired, or known
		}
		if to := min(f.BeginPhyOffset, end); to > done {
			record, err := firstWithKeys(log, done, to, levels)
			if err != nil {
				return nil, fmt.Errorf("read the log before index file %s: %w", f.Path, err)
			}
			if record >= 0 {
				return &indexHole{from: done, to: f.BeginPhyOffset, record: record, file: f.Path}, nil
			}
		}
		done = recordEnd(log, f.EndPhyOffset)
	}
	return nil, nil
}

// firstWithKeys returns the physical offset of the first record from one on that has entries in an index, -1 when there is none below to.
func firstWithKeys(log *commitlog.Log, from, to int64, levels *message.DelayLevels) (first int64, err error) {
	first = -1
	err = withKeys(log, from, to, levels, func(phy int64) bool {
		first = phy
		return false
	})
	return first, err
}

// withKeys calls visit with the physical offset of each record in [from, to) that has entries in an index, until it answers false. What is no record is stepped over.
func withKeys(log *commitlog.Log, from, to int64, levels *message.DelayLevels, visit func(phy int64) bool) error {
	var hashes []int32
	for from >= 0 && from < to {
		s := log.Scanner(from, commitlog.ScanOptions{To: to, NoReadahead: true})
		for s.Next() {
			d := s.Record().DispatchRequest(levels)
			if hashes = index.Hashes(hashes[:0], &d); len(hashes) > 0 && !visit(d.PhyOffset) {
				s.Close()
				return nil
			}
		}
		err := s.Err()
		s.Close()
		var damage *commitlog.EndError
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &damage):
			return err
		}
		from = damage.NextValid
	}
	return nil
}
