package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/commitlog"
)

// checkLog demands that the log holds what the load was told, kind by kind.
func checkLog(found logCount, acknowledged shapeTally, root string) error {
	var total int64
	for _, n := range acknowledged {
		total += n
	}
	if found.messages != total {
		return fmt.Errorf("bench put: the log in %s holds %d messages, %d were acknowledged", root, found.messages, total)
	}
	for s, n := range acknowledged.inLog() {
		if found.shapes[s] != n {
			return fmt.Errorf("bench put: the log in %s holds %d messages of kind %s, %d were acknowledged", root, found.shapes[s], shapeNames[s], n)
		}
	}
	return nil
}

// logCount is what a log holds.
type logCount struct {
	messages, bytes int64
	shapes          shapeTally
}

// countLog reads the whole log, checksums included.
func countLog(ctx context.Context, dir string, propertyCRC bool, progress func(int64)) (found logCount, err error) {
	l, err := commitlog.Open(dir, commitlog.Options{})
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	progress(0)
	s := l.Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
	defer s.Close()
	for records := 1; s.Next(); records++ {
		r := s.Record()
		if propertyCRC {
			if err := r.VerifyPropertyCRC(); err != nil {
				return found, fmt.Errorf("record at physical offset %d: %w", r.PhyOffset, err)
			}
		}
		kind, n := shapeOf(r)
		found.bytes += int64(len(r.Raw))
		found.messages += n
		found.shapes[kind] += n
		if records%4096 == 0 {
			progress(found.messages)
			if err := ctx.Err(); err != nil {
				return found, err
			}
		}
	}
	progress(found.messages)
	return found, s.Err()
}
