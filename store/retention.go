package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/failpoint"
	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// Retention removes log files from the oldest on, and what the views keep of them. Its three goroutines are apart from dispatch, flush and checkpoint (W16), and from one another:
//
//	watch  looks how full the disks are, and refuses puts or takes them again
//	clean  removes log files
//	trim   removes queue files, index files and expired rows, behind clean
//
// docs/retention.md has the rules.

// retentionHooks are what retention knows of the world. Zero fields: the machine's.
type retentionHooks struct {
	now   func() time.Time
	usage func(dir string) (total, free int64, err error)
	still bool // no goroutine is started
}

// firstClean is after how long the first run comes.
const firstClean = time.Minute

// retention of one store.
type retention struct {
	s        *Store
	hooks    retentionHooks
	logDirs  []string
	queueDir string

	stop    context.CancelFunc
	running sync.WaitGroup
	kick    chan struct{}    // there is something to trim
	changed [2]chan struct{} // CleanResourceInterval is another one: for watch and for clean

	cleaning sync.Mutex      // one run at a time
	stored   map[int64]int64 // store time of the last record, by the file's beginning; guarded by cleaning
	told     string          // the last refusal that was logged; guarded by cleaning

	trimming sync.Mutex // one at a time
	trimmed  int64      // the views are trimmed to this physical offset; guarded by trimming

	mu struct {
		sync.Mutex
		use     diskUse
		level   bool   // the disk was above the warning level, and is not yet down again
		blocked string // the disk is above the force level, and why the oldest file stays all the same
		set     bool   // DISK_FULL is set by what is here
		files   int64
		bytes   int64
	}
}

// startRetention starts the goroutines.
func (s *Store) startRetention() {
	r := &retention{s: s, hooks: s.o.hooks, kick: make(chan struct{}, 1), changed: [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}, stored: make(map[int64]int64), trimmed: -1}
	if r.hooks.now == nil {
		r.hooks.now = time.Now
	}
	if r.hooks.usage == nil {
		r.hooks.usage = s.fs.Usage
	}
	r.logDirs, r.queueDir = s.retentionDirs()
	r.mu.use = diskUse{log: -1, queue: -1}
	r.warnOfRatios(s.live())
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	s.retention = r
	if r.hooks.still {
		return
	}
	r.running.Go(func() { r.each(ctx, r.changed[0], func() { r.watch() }) })
	r.running.Go(func() {
		if sleep(ctx, firstClean) {
			r.clean(ctx, false)
			r.each(ctx, r.changed[1], func() { r.clean(ctx, false) })
		}
	})
	r.running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-r.kick:
				r.trim(ctx)
			}
		}
	})
}

// close ends the goroutines.
func (r *retention) close() {
	r.stop()
	r.running.Wait()
}

// each calls do every CleanResourceInterval, which begins anew when changed tells that it is another.
func (r *retention) each(ctx context.Context, changed <-chan struct{}, do func()) {
	t := time.NewTicker(r.s.live().CleanResourceInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			t.Reset(r.s.live().CleanResourceInterval)
		case <-t.C:
			do()
		}
	}
}

// sleep returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// watch looks at the disks and sets or clears DISK_FULL.
func (r *retention) watch() diskUse {
	u := r.use()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.use = u
	r.refuseLocked()
	return u
}

// refuseLocked sets DISK_FULL above the warning level, and clears it when the disk is no longer above the force level. In between it sets it as long as the
// oldest log file should go and somebody needs it.
//
// Source: CleanCommitLogService.isSpaceToDelete, 5.5.0, which forgets that for the disk of the consume queues.
func (r *retention) refuseLocked() {
	o, m := r.s.live(), &r.mu
	force := m.use.above(o.DiskSpaceCleanForciblyRatio, "diskSpaceCleanForciblyRatio")
	why := m.use.above(o.DiskSpaceWarningLevelRatio, "diskSpaceWarningLevelRatio")
	switch {
	case why != "":
		m.level = true
	case force == "":
		m.level, m.blocked = false, ""
	case m.level:
		why = force + fmt.Sprintf("; it was above diskSpaceWarningLevelRatio %d", o.DiskSpaceWarningLevelRatio)
	}
	if m.blocked != "" {
		if why == "" {
			why = force
		}
		why += ", and " + m.blocked
	}
	if full := why != ""; full != m.set {
		m.set = full
		if full {
			r.s.logger.Error("puts are refused", slog.String("why", why))
		} else {
			r.s.logger.Info("puts are taken again: there is room on the disk")
			_ = r.s.flags.Clear(FlagDiskFull) // writes nothing
		}
	}
	if m.set {
		_ = r.s.flags.Set(FlagDiskFull, why) // writes nothing
	}
}

// block notes why the oldest file stays although the disk is above the force level; "": it does not.
func (r *retention) block(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.blocked = why
	r.refuseLocked()
}

// CleanedFile is a log file that retention looked at.
type CleanedFile struct {
	Path      string `json:"path"`
	PhyOffset int64  `json:"phyOffset"` // of its first byte
	Bytes     int64  `json:"bytes"`
	Why       string `json:"why"` // the rule by which it went, or the reason for which it stays
}

// CleanRun is what one run did.
type CleanRun struct {
	Removed []CleanedFile
	// Kept is the first file that should have gone and could not, or that has not expired. Nil when there is none, or the run ended for other reasons.
	Kept *CleanedFile
}

// CleanNow removes log files that have expired, at most deleteFileBatchMax, at whatever hour. Queues and index are trimmed soon afterwards.
//
// Source: DefaultMessageStore.executeDeleteFilesManually, 5.5.0, which asks for 20 runs.
func (s *Store) CleanNow(ctx context.Context) CleanRun { return s.retention.clean(ctx, true) }

// clean removes log files: those that have expired if it is time for that, and the oldest ones while the disk is too full.
func (r *retention) clean(ctx context.Context, asked bool) (run CleanRun) {
	r.cleaning.Lock()
	defer r.cleaning.Unlock()
	o := r.s.live()
	for n := 0; n < o.DeleteFileBatchMax && ctx.Err() == nil; n++ {
		v := r.judge(r.hooks.now(), r.watch(), asked)
		f, why, kept := r.cleanFirst(ctx, v)
		if v.force != "" && kept != "" {
			r.block(kept)
		} else {
			r.block("")
		}
		if why == "" {
			if kept != "" {
				run.Kept = &CleanedFile{f.Path, f.From, f.End - f.From, kept}
			}
			break
		}
		run.Removed = append(run.Removed, CleanedFile{f.Path, f.From, f.End - f.From, why})
		if n+1 < o.DeleteFileBatchMax && !sleep(ctx, o.DeleteCommitLogFilesInterval) {
			break
		}
	}
	r.kickTrim()
	return run
}

// cleanFirst removes the first file of the log if that is to go. why says by which rule it went, "" when it stays; kept, why a file
// stays that had to go.
func (r *retention) cleanFirst(ctx context.Context, v verdict) (f commitlog.LogFile, why, kept string) {
	w := r.s.writer
	f, ok := w.Log().First()
	if !ok || v.due == "" && v.force == "" || w.Positions().Flushed <= f.End { // it is the last one that has something
		return f, "", ""
	}
	expired, age := r.expired(f)
	switch {
	case expired && v.due != "":
		why = fmt.Sprintf("%s, fileReservedTime %dh; %s", age, r.s.live().FileReservedTime, v.due)
	case v.force != "":
		why = v.force
	default:
		return f, "", ""
	}
	r.flushFor(ctx, f)
	r.s.holders.Lock()
	defer r.s.holders.Unlock()
	who := r.s.needed(f.End)
	if who == "" {
		who = r.s.holders.neededLocked(f.End)
	}
	if who != "" {
		r.refuse(f, why, who)
		return f, "", fmt.Sprintf("log file %s cannot go: %s", f.Path, who)
	}
	_, removed, err := w.RemoveFirst()
	if !removed {
		r.refuse(f, why, fmt.Sprint(err))
		return f, "", fmt.Sprintf("log file %s cannot go: %v", f.Path, err)
	}
	delete(r.stored, f.From)
	r.told = ""
	failpoint.Hit(failpoint.LogFileRemoved)
	r.mu.Lock()
	r.mu.files++
	r.mu.bytes += f.End - f.From
	r.mu.Unlock()
	minPhy := w.Log().MinOffset()
	if x := r.expirer(); x != nil {
		err = errors.Join(err, x.SetMinPhyOffset(minPhy))
	}
	r.s.logger.Info("commit log file removed", slog.String("file", f.Path), slog.String("rule", why), slog.Int64("minPhyOffset", minPhy), slog.Any("err", err))
	return f, why, ""
}

// expired tells whether a file is older than fileReservedTime, and its age in words.
func (r *retention) expired(f commitlog.LogFile) (bool, string) {
	log := r.s.writer.Log()
	ms, known := r.stored[f.From]
	if !known {
		var err error
		if ms, err = log.LastStoreTime(f.From); err != nil && !errors.Is(err, commitlog.ErrNoRecord) {
			r.s.logger.Warn("the age of a commit log file cannot be told", slog.String("file", f.Path), slog.Any("err", err))
			return false, ""
		}
		r.stored[f.From] = ms
	}
	old, text := age(r.hooks.now(), ms, func() (int64, error) { return log.ChangedMs(f.From) })
	return old >= time.Duration(r.s.live().FileReservedTime)*time.Hour, text
}

// flushFor makes the units of a file's records durable, where all of them are delivered and not yet that.
func (r *retention) flushFor(ctx context.Context, f commitlog.LogFile) {
	v := r.s.views
	if v == nil || v.durableTo.Load() >= f.End || v.follow.from.Load() < f.End {
		return
	}
	if err := v.flush(ctx); err != nil && ctx.Err() == nil {
		r.s.logger.Error("consume queues could not be made durable", slog.Any("err", err))
	}
}

// refuse logs why a file stays, once.
func (r *retention) refuse(f commitlog.LogFile, rule, why string) {
	if told := f.Path + why; told != r.told {
		r.told = told
		r.s.logger.Warn("commit log file is kept", slog.String("file", f.Path), slog.String("rule", rule), slog.String("why", why))
	}
}

// expirer returns what trims the queues; nil when there are none.
func (r *retention) expirer() cq.Expirer {
	if r.s.views == nil {
		return nil
	}
	x, _ := r.s.views.queues.(cq.Expirer)
	return x
}

// kickTrim has the views trimmed when the log begins later than they do.
func (r *retention) kickTrim() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// TrimSoon has the queues and the index give back what they keep of records that are gone from the log, soon, beside what goes on.
func (s *Store) TrimSoon() { s.retention.kickTrim() }

// trim gives back what the views keep of records that have gone. It is tried again at the next run when something fails.
func (r *retention) trim(ctx context.Context) {
	r.trimming.Lock()
	defer r.trimming.Unlock()
	minPhy := r.s.writer.Log().MinOffset()
	x := r.expirer()
	if x == nil || minPhy <= 0 || minPhy == r.trimmed {
		return
	}
	pause := r.s.live().DeleteConsumeQueueFilesInterval
	err := x.SetMinPhyOffset(minPhy)
	done, eerr := x.Expire(ctx, pause)
	err = errors.Join(err, eerr)
	failpoint.Hit(failpoint.QueuesTrimmed)
	indexFiles := 0
	for _, x := range r.s.views.indexes(true) {
		n, ierr := x.expire(minPhy)
		indexFiles, err = indexFiles+n, errors.Join(err, ierr)
	}
	if c, ok := x.(compacter); ok && err == nil && r.roomToCompact() {
		err = c.Compact(ctx, nil)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.s.logger.Error("views could not be trimmed", slog.Int64("minPhyOffset", minPhy), slog.Any("err", err))
	default:
		r.trimmed = minPhy
		r.s.logger.Info("views are trimmed to the log", slog.Int64("minPhyOffset", minPhy), slog.Int("queues", done.Queues), slog.Int("queueFiles", done.Files), slog.Int("indexFiles", indexFiles))
	}
}

// compacter is a store of queues that gives expired units back when it is compacted.
type compacter interface {
	Compact(ctx context.Context, progress func(writtenBytes, totalBytes int64)) error
}

// roomToCompact tells whether the disk has room for what a compaction writes before it gives anything back. Without, expired units go as RocksDB compacts
// by itself.
func (r *retention) roomToCompact() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.use.above(r.s.live().DiskSpaceCleanForciblyRatio, "") == ""
}

// Bounds returns the limits of a queue as the log is at this moment: Min is the first slot whose record the log still has, right after an expiry too (W50). A slot below
// Min is out of range, though its unit may still be stored. ok is false when there is no such queue, or queues are not built.
func (s *Store) Bounds(k cq.Key) (b cq.Bounds, ok bool, err error) {
	if s.views == nil {
		return b, false, nil
	}
	if x := s.retention.expirer(); x != nil {
		if err := x.SetMinPhyOffset(s.Log().MinOffset()); err != nil {
			return b, false, err
		}
	}
	q, ok := s.views.queues.Queue(k)
	if !ok {
		return b, false, nil
	}
	b, err = q.Bounds()
	return b, true, err
}

// RetentionStatus is what retention has done and what keeps it from more.
type RetentionStatus struct {
	MinPhyOffset  int64  `json:"minPhyOffset"`
	LogDiskUsed   int    `json:"logDiskUsedPercent"`   // -1: not looked at yet, or it cannot be told
	QueueDiskUsed int    `json:"queueDiskUsedPercent"` // the same
	DiskFull      bool   `json:"diskFull"`             // puts are refused for it
	Blocked       string `json:"blocked,omitempty"`    // why the oldest log file stays although the disk is too full
	RemovedFiles  int64  `json:"removedFiles"`         // of the log, by this process
	RemovedBytes  int64  `json:"removedBytes"`
	// Lingering is how many removed files somebody in this process still reads: their room is not free yet. A number that stays tells of a reader that never
	// let go.
	Lingering int `json:"lingering"`
}

// Retention returns how retention stands.
func (s *Store) Retention() RetentionStatus {
	r := s.retention
	r.mu.Lock()
	defer r.mu.Unlock()
	return RetentionStatus{
		MinPhyOffset: max(s.Log().MinOffset(), 0), LogDiskUsed: r.mu.use.log, QueueDiskUsed: r.mu.use.queue, DiskFull: r.mu.set, Blocked: r.mu.blocked,
		RemovedFiles: r.mu.files, RemovedBytes: r.mu.bytes, Lingering: mappedfile.Lingering(),
	}
}
