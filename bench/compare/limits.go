package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
)

// Names of limits.
const (
	LimitCopyWarm    = "copyWarm"
	LimitCopyCold    = "copyCold"
	LimitCRC         = "crc32"
	LimitRead        = "read"
	LimitWriteBack   = "writeBack"
	LimitSync        = "fdatasync"
	LimitBusySync    = "fdatasyncBusy"
	LimitWritev      = "writev"
	LimitSendfile    = "sendfile"
	LimitRandomWrite = "randomWrite"
	LimitRandomRead  = "randomRead"
	LimitCgo         = "cgoCall"
	LimitRocksWrite  = "rocksWrite"
	LimitRocksWalk   = "rocksIterate"
	LimitRocksGet    = "rocksGet"
)

// LimitSizes says how much is done to find a limit.
type LimitSizes struct {
	Time  time.Duration // of each that is measured by the time
	Bytes int64         // that are written, read back, and copied into cold memory
	Pages int           // that are written and read at random
	Units int           // in RocksDB
}

// LimitSizesOf are those of a profile.
func LimitSizesOf(p Profile) LimitSizes {
	switch p {
	case Full:
		return LimitSizes{Time: time.Second, Bytes: 2 << 30, Pages: 50_000, Units: 1_000_000}
	case Tiny:
		return LimitSizes{Time: time.Millisecond, Bytes: 1 << 20, Pages: 10, Units: 1000}
	}
	return LimitSizes{Time: 100 * time.Millisecond, Bytes: 128 << 20, Pages: 2000, Units: 100_000}
}

// limit is one that can be measured.
type limit struct {
	name, title, unit string
	measure           func(dir string, s LimitSizes) (float64, error)
}

func limits() []limit {
	warm := func(dir string, s LimitSizes) (float64, error) {
		c, err := calibrate.Memory(dir, s.Time)
		return c.CopyPerSecond * calibrate.RecordBytes, err
	}
	p50 := func(x calibrate.Synced, err error) (float64, error) { return float64(x.Latency.P50), err }
	all := []limit{
		{LimitCopyWarm, "records of 1 KiB copied into a mapped file whose pages are in memory", "B/s", warm},
		{LimitCopyCold, "the same, into pages that were never touched; their blocks are reserved", "B/s", func(dir string, s LimitSizes) (float64, error) { return calibrate.CopyCold(dir, s.Bytes) }},
		{LimitCRC, "CRC-32 of records of 1 KiB", "B/s", func(_ string, s LimitSizes) (float64, error) { return calibrate.Checksum(s.Time), nil }},
		{LimitRead, "a file read from end to end, nothing of it in memory before", "B/s", func(dir string, s LimitSizes) (float64, error) { return calibrate.Read(dir, s.Bytes) }},
		{LimitWriteBack, "a new file written from end to end and synced", "B/s", func(dir string, s LimitSizes) (float64, error) { return calibrate.WriteBack(dir, s.Bytes) }},
		{LimitSync, "1 KiB appended and synced, p50", "ns", func(dir string, s LimitSizes) (float64, error) { return p50(calibrate.Append(dir, s.Time)) }},
		{LimitBusySync, "the same beside one who writes another file all the time, p50", "ns", func(dir string, s LimitSizes) (float64, error) {
			return p50(calibrate.BusyAppend(dir, s.Bytes, s.Time))
		}},
		{LimitWritev, "loopback, 32 records of 1 KiB with each writev", "B/s", func(_ string, s LimitSizes) (float64, error) { return calibrate.Writev(s.Time) }},
		{LimitSendfile, "loopback, 256 KiB of a file in memory with each sendfile", "B/s", func(dir string, s LimitSizes) (float64, error) { return calibrate.Sendfile(dir, s.Time) }},
		{LimitRandomWrite, "4 KiB written at random places of a reserved file, until all are synced", "/s", func(dir string, s LimitSizes) (float64, error) {
			return calibrate.RandomWrites(dir, s.Bytes, s.Pages)
		}},
		{LimitRandomRead, "4 KiB read at random places of a file, nothing of it in memory before", "/s", func(dir string, s LimitSizes) (float64, error) {
			return calibrate.RandomReads(dir, s.Bytes, s.Pages)
		}},
	}
	return append(all, cgoLimits()...)
}

// MeasureLimits measures the limits of the machine in a directory of their own below dir, all of them in each repetition. phase is told how many measurements were done; nil: nobody.
func MeasureLimits(ctx context.Context, dir string, s LimitSizes, reps int, phase func(done int64)) (all []Limit, err error) {
	work, err := os.MkdirTemp(dir, "bench-limits-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	known := limits()
	for _, l := range known {
		all = append(all, Limit{Name: l.name, Title: l.title, Unit: l.unit})
	}
	for n := range reps {
		for i, l := range known {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			v, err := l.measure(work, s)
			if err != nil {
				return nil, fmt.Errorf("limit %s: %w", l.name, err)
			}
			all[i].Values = append(all[i].Values, v)
			if phase != nil {
				phase(int64(n*len(known) + i + 1))
			}
		}
	}
	return all, nil
}

// LimitCount is how many limits are measured.
func LimitCount() int { return len(limits()) }

// LimitsText writes limits as a table.
func LimitsText(w io.Writer, all []Limit) error {
	var b strings.Builder
	(&Report{Limits: all}).limitsText(&b)
	_, err := io.WriteString(w, b.String())
	return err
}
