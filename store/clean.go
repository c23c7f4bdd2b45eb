package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/index"
)

// MaxReserveHours is the most that CleanOptions.ReserveHours can be: a hundred years.
const MaxReserveHours = maxReservedHours

// CleanOptions of Clean.
type CleanOptions struct {
	// DryRun changes nothing: the report says what would go.
	DryRun bool
	// ReserveHours is for how many hours a log file is kept after its last record was stored (fileReservedTime). 0: whatever is not the last file goes.
	ReserveHours int
	// Options are those of the store's broker. nil: sizes are read off the directory, the rest are defaults.
	Options *Options
	// Given names the properties of Options that somebody has set, see RecoverOptions.
	Given []string
	// Now is the clock. nil: time.Now.
	Now func() time.Time
	// Logger gets what the parts report. nil: discard.
	Logger *slog.Logger
}

// CleanReport says what Clean removed, or would.
type CleanReport struct {
	Store        string        `json:"store"`
	DryRun       bool          `json:"dryRun"`
	ReserveHours int           `json:"reserveHours"`
	Unclean      bool          `json:"unclean"`        // the abort mark is there
	Removed      []CleanedFile `json:"removed"`        // of the log, oldest first
	Kept         *CleanedFile  `json:"kept,omitempty"` // the first file that stays, and why
	MinPhyOffset int64         `json:"minPhyOffset"`   // where the log begins then
	LogEnd       int64         `json:"logEnd"`
	Sides        []string      `json:"sides"`      // of the consume queues
	Queues       int           `json:"queues"`     // that were trimmed; 0 in a dry run
	QueueFiles   int           `json:"queueFiles"` // removed; 0 in a dry run
	IndexFiles   int           `json:"indexFiles"`
	IndexRemoved []CleanedFile `json:"indexRemoved"` // those files
	FreedBytes   int64         `json:"freedBytes"`   // of the log, and of queue files
	Notes        []string      `json:"notes,omitempty"`
}

// Clean removes the expired log files of a stopped store, by their age alone, and trims its consume queues, on both sides if there are two, and its index. Killed at any
// moment and started again, it goes on; a store that is opened in between is in order.
//
// Errors: *InUseError; a store that was not closed in order or whose log does not end cleanly, of which nothing may go before it is recovered (a dry run says what
// would); a store without consume queues, whose messages would be lost.
func Clean(ctx context.Context, root string, o CleanOptions) (rep *CleanReport, err error) {
	if o.ReserveHours < 0 || o.ReserveHours > maxReservedHours {
		return nil, fmt.Errorf("clean store %s: %d hours, want 0 to %d", root, o.ReserveHours, maxReservedHours)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &cleaning{o: o, layout: NewLayout(root), recovery: recovery{ctx: ctx, layout: NewLayout(root), o: RecoverOptions{Options: o.Options, Given: o.Given, Logger: o.Logger}}}
	if err := c.layout.CheckRoot(); err != nil {
		return nil, err
	}
	take := LockExclusive
	if o.DryRun {
		take = LockShared
	}
	lock, err := take(c.layout.Root)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := c.run(ctx); err != nil {
		return nil, fmt.Errorf("clean store %s: %w", c.layout.Root, err)
	}
	return &c.report, nil
}

// cleaning is one run of Clean.
type cleaning struct {
	o        CleanOptions
	layout   Layout
	recovery recovery // for what the directory tells of sizes and sides
	report   CleanReport
}

func (c *cleaning) run(ctx context.Context) error {
	rep := &c.report
	*rep = CleanReport{Store: c.layout.Root, DryRun: c.o.DryRun, ReserveHours: c.o.ReserveHours, Removed: []CleanedFile{}, IndexRemoved: []CleanedFile{}}
	var err error
	if rep.Unclean, err = c.layout.HasAbort(); err != nil {
		return err
	}
	if rep.Unclean && !c.o.DryRun {
		return errors.New("it was not closed in order: recover it first")
	}
	if err := c.recovery.options(); err != nil {
		return err
	}
	hasFile, err := c.layout.HasFileQueues()
	if err != nil {
		return err
	}
	if _, _, hasRocks, err := c.layout.FindRocks(); err != nil || !hasFile && !hasRocks {
		return errors.Join(err, errors.New("it has no consume queues: what goes from the log would be lost"))
	}
	rep.Sides, rep.Notes = c.recovery.rep.Sides, c.recovery.rep.Notes
	if err := c.plan(); err != nil {
		return err
	}
	if !c.o.DryRun {
		if err := c.removeFiles(ctx); err != nil {
			return err
		}
		if err := c.trimQueues(ctx); err != nil {
			return err
		}
	}
	return c.trimIndex()
}

func (c *cleaning) writerOptions() commitlog.WriterOptions {
	s := newStore(c.recovery.base)
	s.layout = c.layout
	return s.writerOptions()
}

// plan finds out which log files go.
func (c *cleaning) plan() (err error) {
	w := c.writerOptions()
	log, err := commitlog.Open(w.Dir, commitlog.Options{MoreDirs: append(w.MoreDirs, w.ReadOnlyDirs...), Logger: c.o.Logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	end, err := log.End(commitlog.ScanOptions{})
	if err != nil {
		return err
	}
	if end.Kind != commitlog.EndClean && !c.o.DryRun {
		return fmt.Errorf("the commit log ends in a %v at %d: recover it first", end.Kind, end.Offset)
	}
	rep := &c.report
	rep.LogEnd, rep.MinPhyOffset = end.Offset, max(log.MinOffset(), 0)
	now := c.o.Now()
	for _, f := range log.Files() {
		one := CleanedFile{Path: f.Path, PhyOffset: f.From, Bytes: f.End - f.From}
		if end.Offset <= f.End {
			one.Why = "it holds the last record"
			rep.Kept = &one
			return nil
		}
		ms, err := log.LastStoreTime(f.From)
		if err != nil && !errors.Is(err, commitlog.ErrNoRecord) {
			return err
		}
		old, text := age(now, ms, func() (int64, error) { return log.ChangedMs(f.From) })
		one.Why = fmt.Sprintf("%s, reserved for %dh", text, c.o.ReserveHours)
		if old < time.Duration(c.o.ReserveHours)*time.Hour {
			rep.Kept = &one
			return nil
		}
		rep.Removed = append(rep.Removed, one)
		rep.MinPhyOffset = f.End
		rep.FreedBytes += one.Bytes
	}
	return nil
}

// removeFiles removes the log files that plan found.
func (c *cleaning) removeFiles(ctx context.Context) (err error) {
	if len(c.report.Removed) == 0 {
		return nil
	}
	w, err := commitlog.OpenWriter(c.writerOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for range c.report.Removed {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, _, err := w.RemoveFirst(); err != nil {
			return err
		}
	}
	return nil
}

// trimQueues trims the queues of each side to where the log begins, also to what an earlier run left.
func (c *cleaning) trimQueues(ctx context.Context) error {
	for _, kind := range c.recovery.kinds {
		if err := c.trimSide(ctx, kind); err != nil {
			return err
		}
	}
	return nil
}

func (c *cleaning) trimSide(ctx context.Context, kind StoreType) (err error) {
	minPhy := c.report.MinPhyOffset
	var s cq.Store
	if kind == StoreTypeRocksDB {
		dir, _, _, ferr := c.layout.FindRocks()
		if ferr != nil {
			return ferr
		}
		o := c.recovery.base.OfflineRocksOptions()
		o.MinPhyOffset, o.Logger = minPhy, c.o.Logger
		s, err = rocks.Open(dir, o)
	} else {
		s, err = file.Open(c.layout.ConsumeQueueDir(), file.Options{FileSizeBytes: c.recovery.base.queueFileBytes(), MinPhyOffset: minPhy, ExtDir: c.layout.ExtDir(), Logger: c.o.Logger})
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	done, err := s.(cq.Expirer).Expire(ctx, 0)
	c.report.Queues += done.Queues
	c.report.QueueFiles += done.Files
	c.report.FreedBytes += done.Bytes
	if err != nil {
		return err
	}
	if err := s.Flush(ctx); err != nil {
		return err
	}
	if x, ok := s.(compacter); ok && len(c.report.Removed) > 0 {
		return x.Compact(ctx, nil)
	}
	return nil
}

// trimIndex removes index files all of whose messages have gone, or counts them.
func (c *cleaning) trimIndex() (err error) {
	b := &c.recovery.base
	if !b.MessageIndexEnable {
		return nil
	}
	if _, err := os.Stat(c.layout.IndexDir()); missing(err) {
		return nil
	}
	ix, err := index.Open(c.layout.IndexDir(), index.Options{
		HashSlots: int32(b.MaxHashSlotNum), MaxEntries: int32(b.MaxIndexNum), ReadOnly: c.o.DryRun, Logger: c.o.Logger,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	for files := ix.Files(); len(files) > 1 && files[0].EndPhyOffset < c.report.MinPhyOffset; files = files[1:] {
		f := CleanedFile{Path: files[0].Path, PhyOffset: files[0].BeginPhyOffset, Why: fmt.Sprintf("its last message, at %d, is below the log's beginning", files[0].EndPhyOffset)}
		if st, err := os.Stat(f.Path); err == nil {
			f.Bytes = st.Size()
		}
		c.report.IndexRemoved = append(c.report.IndexRemoved, f)
	}
	c.report.IndexFiles = len(c.report.IndexRemoved)
	if !c.o.DryRun {
		c.report.IndexFiles, err = ix.Expire(c.report.MinPhyOffset)
		c.report.IndexRemoved = c.report.IndexRemoved[:min(c.report.IndexFiles, len(c.report.IndexRemoved))]
	}
	return err
}
