package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxReservedHours is a hundred years.
const maxReservedHours = 100 * 365 * 24

// parseHours reads the hours of deleteWhen.
//
// Source: UtilAll.isItTimeToDo, 5.5.0.
func parseHours(text string) (hours [24]bool, err error) {
	for word := range strings.SplitSeq(text, ";") {
		h, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || h < 0 || h > 23 {
			return hours, fmt.Errorf("%q is no hour, want 00 to 23, separated by ';'", word)
		}
		hours[h] = true
	}
	return hours, nil
}

// diskFull tells whether an error says that there is no room.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// diskUse is how full the disks are, in whole percent, rounded up; -1 where that is not known.
type diskUse struct {
	log      int // of the directory of the log that is used least: any of them can take a file
	logDir   string
	queue    int // of the consume queues
	queueDir string
}

// above says which of them is above so many percent, "" for none.
func (u diskUse) above(percent int, option string) string {
	dir, n := u.logDir, u.log
	if u.queue > n {
		dir, n = u.queueDir, u.queue
	}
	if n <= percent {
		return ""
	}
	return fmt.Sprintf("the disk of %s is %d%% full, above %s %d", dir, n, option, percent)
}

// use looks at the disks. One that cannot be looked at does not count.
//
// Source: UtilAll.getDiskPartitionSpaceUsedPercent and CleanCommitLogService.isSpaceToDelete, 5.5.0, where a directory that is missing counts as a reason to
// clean.
func (r *retention) use() diskUse {
	u := diskUse{log: -1, queue: -1}
	for _, dir := range r.logDirs {
		if n := r.percent(dir); n >= 0 && (u.log < 0 || n < u.log) {
			u.log, u.logDir = n, dir
		}
	}
	u.queueDir = r.queueDir
	if r.queueDir != "" {
		u.queue = r.percent(r.queueDir)
	}
	return u
}

// percent returns how full the disk of dir is, -1 when that cannot be told.
func (r *retention) percent(dir string) int {
	total, free, err := r.hooks.usage(dir)
	if err != nil || total <= 0 {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.s.logger.Warn("how full the disk is cannot be told", slog.String("dir", dir), slog.Any("err", err))
		}
		return -1
	}
	used := total - free
	return int((100*used + total - 1) / total)
}

// verdict is what the rules say at a moment.
type verdict struct {
	due   string // why expired files go now; "": they do not
	force string // why the oldest file goes whatever its age; "": it does not
}

// judge applies the rules.
//
// Source: CleanCommitLogService.deleteExpiredFiles, 5.5.0.
func (r *retention) judge(now time.Time, u diskUse, asked bool) (v verdict) {
	o := r.s.live()
	hours, _ := parseHours(o.DeleteWhen) // Validate has seen it
	force := u.above(o.DiskSpaceCleanForciblyRatio, "diskSpaceCleanForciblyRatio")
	if o.CleanFileForciblyEnable {
		v.force = force
	}
	space := u.above(o.DiskMaxUsedSpaceRatio, "diskMaxUsedSpaceRatio")
	switch hour := now.Hour(); {
	case asked:
		v.due = "asked for"
	case hours[hour]:
		v.due = fmt.Sprintf("hour %02d of deleteWhen", hour)
	case space != "":
		v.due = space
	case force != "":
		v.due = force
	}
	return v
}

// age tells how long ago the last record of a file was stored, and in words. A store time that lies in the future was taken from a clock that has been set back since: then
// the file's own time counts, and when that lies in the future too, the file is new (FR-J07).
func age(now time.Time, storedMs int64, changedMs func() (int64, error)) (time.Duration, string) {
	stored, what := time.UnixMilli(storedMs), "last record stored"
	if stored.After(now) || storedMs <= 0 {
		ms, err := changedMs()
		if err != nil {
			return 0, fmt.Sprintf("last record stored %s, and the file's time cannot be told: %v", when(stored), err)
		}
		stored, what = time.UnixMilli(ms), fmt.Sprintf("last record stored %s, which cannot be, file changed", when(stored))
	}
	old := max(now.Sub(stored), 0)
	return old, fmt.Sprintf("%s %s, %s ago", what, when(stored), old.Truncate(time.Second))
}

func when(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// retentionDirs returns the directories whose disks count: those in which log files are made, and that of the consume queues, "" without any.
func (s *Store) retentionDirs() (logDirs []string, queueDir string) {
	if logDirs = s.o.writeDirs(); len(logDirs) == 0 {
		logDirs = []string{s.layout.CommitLogDir()}
	}
	for i := range logDirs {
		logDirs[i] = filepath.Clean(logDirs[i])
	}
	if s.views == nil {
		return logDirs, ""
	}
	queueDir = s.layout.ConsumeQueueDir()
	if d, ok := s.views.queues.(interface{ Dir() string }); ok {
		queueDir = d.Dir()
	}
	return logDirs, queueDir
}
