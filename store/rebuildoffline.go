package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// RebuildOptions of Rebuild. The zero value builds everything that is there anew.
type RebuildOptions struct {
	// DryRun changes nothing: the report says what would be built, and from how much of the log.
	DryRun bool
	// Kind is the side of the consume queues: cq.KindFile, cq.KindRocks, or cq.KindCombine for both. "": those that are there, and those that the store keeps and has lost; none, where only the index is asked for.
	Kind cq.Kind
	// Create builds the queues of a Kind that the store neither has nor has lost, and keeps them from then on. Otherwise that is a *NoSideError: a migration moves queues, and proves them.
	Create bool
	// Index asks for the index. Neither Kind nor Index: both.
	Index bool
	// Topic limits the queues to those of a topic, QueueID to one of them; below 0: all of the topic. They come without the index.
	Topic   string
	QueueID int32
	// Options are those of the store's broker. nil: sizes are read off the directory, the rest are defaults.
	Options *Options
	// Given names the properties of Options that somebody has set, see RecoverOptions.
	Given []string
	// Progress is told of each stretch of work, see CheckOptions.
	Progress func(phase string, total int64, unit string) (update func(done int64))
	// Logger gets what the parts report. nil: discard.
	Logger *slog.Logger
}

// RebuildReport says what Rebuild built.
type RebuildReport struct {
	Store   string        `json:"store"`
	DryRun  bool          `json:"dryRun"`
	Resumed bool          `json:"resumed"` // an earlier run was cut off
	Unclean bool          `json:"unclean"` // the abort mark was there when the first run began
	LogMin  int64         `json:"logMin"`  // physical offset of the log's first byte
	LogEnd  int64         `json:"logEnd"`
	Views   []RebuiltView `json:"views"`
	// Aside is where the old files were until the new ones were durable; empty in a dry run.
	Aside []string `json:"aside,omitempty"`
	// Lost are slots of queues of which the log has no record any more, for it was damaged: they are empty. At most 1,000 ranges.
	Lost []LostRange `json:"lost,omitempty"`
	// Forgotten are queues whose next offset nobody knows any more: the log has no record of them.
	Forgotten    []ForgottenQueue `json:"forgotten,omitempty"`
	Notes        []string         `json:"notes,omitempty"`
	AbortCleared bool             `json:"abortCleared"`
	Elapsed      time.Duration    `json:"elapsedNanos"`
}

// RebuiltView is one side of the queues, or the index.
type RebuiltView struct {
	Name     string        `json:"name"`     // "file queues", "rocks queues", "index" or "rocks index"
	Queues   int64         `json:"queues"`   // built, or there now in a dry run; 0 for the index
	Units    int64         `json:"units"`    // in [min, max) of them; for an index, its entries, about those of one in RocksDB
	LogBytes int64         `json:"logBytes"` // of the log, from which they are built
	Elapsed  time.Duration `json:"elapsedNanos"`
}

// Rebuild builds consume queues, the index, or both, anew from the log of a stopped store. The old files are moved aside and removed when the new ones are durable. The log itself is opened as Open
// does and otherwise left alone. Killed at any moment, the store has an abort mark: Rebuild goes on when it is started again in the same way, and a store that is opened
// instead builds what is missing while it serves.
//
// A queue of which the log has no record any more stays as it is in RocksDB, and comes back as an empty queue that goes on at its max in files.
//
// Errors: *InUseError; *NoSideError; *DamageError when the log is damaged, *UnknownQueueError when neither queues nor log know what was asked for; damage of a RocksDB of which single queues were asked for, which takes no units: these before anything is changed; an unfinished rebuild of something else; what could not be read or written.
func Rebuild(ctx context.Context, root string, o RebuildOptions) (rep *RebuildReport, err error) {
	r := &rebuilding{o: o, layout: NewLayout(root), begin: time.Now()}
	if err := r.layout.CheckRoot(); err != nil {
		return nil, err
	}
	take := LockExclusive
	if o.DryRun {
		take = LockShared
	}
	lock, err := take(r.layout.Root)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	r.rec = recovery{ctx: ctx, layout: r.layout, o: RecoverOptions{DryRun: o.DryRun, Damage: DamageRefuse, Kind: o.Kind, Create: o.Create, Options: o.Options, Given: o.Given, Progress: o.Progress, Logger: o.Logger}}
	if r.rec.o.Logger == nil {
		r.rec.o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := r.run(ctx); err != nil {
		var damage *DamageError
		if errors.As(err, &damage) {
			return nil, err
		}
		return nil, fmt.Errorf("rebuild store %s: %w", r.layout.Root, err)
	}
	r.rep.Elapsed = time.Since(r.begin)
	return &r.rep, nil
}

// rebuilding is one run of Rebuild.
type rebuilding struct {
	o      RebuildOptions
	layout Layout
	begin  time.Time
	rec    recovery // for what the directory tells of sizes and sides, and for the survey of the log
	job    rebuildJob
	rep    RebuildReport
	// separate tells that remnants of a database were in the separate place.
	separate bool
}

// The file rebuild-job tells of a Rebuild that has not ended. It is there from before the first change to after the last.
const rebuildJobName = "rebuild-job.json"

// maxRebuildJobBytes bounds what is read of it.
const maxRebuildJobBytes = 1 << 20

// rebuildJob is what is being built, and how far that is.
type rebuildJob struct {
	Kind    cq.Kind  `json:"kind"`
	Index   bool     `json:"index"`
	Topic   string   `json:"topic,omitempty"`
	QueueID int32    `json:"queueId"`
	Unclean bool     `json:"unclean"` // there was an abort mark before
	Moved   bool     `json:"moved"`   // the old files are out of the way
	Aside   []string `json:"aside"`   // names below tandemmq/broken
	// Shape is what was read off the old files.
	Shape *rebuildShape `json:"shape,omitempty"`
	// Ends are the next offsets of single queues that RocksDB was made to drop, 0 where the old rows did not tell.
	Ends []jobEnd `json:"ends,omitempty"`
}

type jobEnd struct {
	Topic   string `json:"topic"`
	QueueID int32  `json:"queueId"`
	Next    int64  `json:"next"`
}

// rebuildShape is what cannot be read off the directory once the old files are moved.
type rebuildShape struct {
	Sides       []StoreType `json:"sides"`
	QueueBytes  int64       `json:"queueBytes"`
	Light       bool        `json:"light"`
	MultiLight  bool        `json:"multiLight"`
	Separate    bool        `json:"separate"` // RocksDB
	IndexSlots  int         `json:"indexSlots"`
	IndexNumber int         `json:"indexNumber"`
	// IndexInRocks tells that there is an index in RocksDB, NoIndexFiles that there is none in files beside it.
	IndexInRocks bool `json:"indexInRocks"`
	NoIndexFiles bool `json:"noIndexFiles"`
}

// shape reads it off the old files, or takes what an earlier run has read.
func (r *rebuilding) shape() error {
	o := &r.rec.base
	if k := r.job.Shape; k != nil {
		r.rec.kinds = k.Sides
		o.MappedFileSizeConsumeQueue, o.EnableLmq, o.EnableMultiDispatch = k.QueueBytes, k.Light, k.MultiLight
		o.UseSeparateStorePathForRocksdbCQ, o.MaxHashSlotNum, o.MaxIndexNum = k.Separate, k.IndexSlots, k.IndexNumber
		o.IndexRocksDBEnable, o.IndexFileWriteEnable = k.IndexInRocks, !k.NoIndexFiles
		r.rec.noIndex = false
		return nil
	}
	if r.rec.inTheWay != nil && r.job.Index { // it is set aside
		o.MessageIndexEnable, r.rec.noIndex = true, false
	}
	if r.rec.noIndex && r.job.Index {
		return errors.New("the index: maxHashSlotNum and maxIndexNum cannot be read off its files: give the broker's options")
	}
	_, layout, found, err := r.layout.FindRocks()
	if err != nil {
		return err
	}
	if found {
		o.UseSeparateStorePathForRocksdbCQ = layout == RocksSeparate
	} else if r.separate {
		o.UseSeparateStorePathForRocksdbCQ = true
	}
	r.job.Shape = &rebuildShape{
		Sides: r.rec.kinds, QueueBytes: o.MappedFileSizeConsumeQueue, Light: o.EnableLmq, MultiLight: o.EnableMultiDispatch,
		Separate: o.UseSeparateStorePathForRocksdbCQ, IndexSlots: o.MaxHashSlotNum, IndexNumber: o.MaxIndexNum,
		IndexInRocks: o.IndexRocksDBEnable, NoIndexFiles: !o.IndexFileWriteEnable,
	}
	return nil
}

func (l Layout) rebuildJobPath() string { return filepath.Join(l.StateDir(), rebuildJobName) }

// same tells whether two jobs build the same.
func (j *rebuildJob) same(k *rebuildJob) bool {
	return j.Kind == k.Kind && j.Index == k.Index && j.Topic == k.Topic && j.QueueID == k.QueueID
}

func (j *rebuildJob) String() string {
	s := fmt.Sprintf("kind %q, index %v", j.Kind, j.Index)
	if j.Topic != "" {
		s += fmt.Sprintf(", topic %s, queue %d", j.Topic, j.QueueID)
	}
	return s
}

// owns tells whether a queue is among those to be built.
func (j *rebuildJob) owns(k cq.Key) bool {
	return j.Topic == "" || k.Topic == j.Topic && (j.QueueID < 0 || k.QueueID == j.QueueID)
}

func (r *rebuilding) run(ctx context.Context) (err error) {
	r.rep.Store, r.rep.DryRun, r.rep.Views = r.layout.Root, r.o.DryRun, []RebuiltView{}
	if r.rep.Unclean, err = r.layout.HasAbort(); err != nil {
		return err
	}
	r.rec.rep.Unclean = r.rep.Unclean
	if err := r.loadJob(); err != nil {
		return err
	}
	if err := r.clearRemnants(); err != nil {
		return err
	}
	if r.rec.flags, err = OpenRunningFlags(nil, r.layout.StateDir()); err != nil {
		return err
	}
	if bits := r.rec.flags.Bits() & errorFlags; bits != 0 {
		return errors.New("a write or sync has failed (see tandemmq/running-flags.json): recover the store first")
	}
	r.rec.building, r.rec.noQueues = r.rep.Resumed || len(r.job.Aside) > 0, !r.wantsQueues()
	if err := r.rec.options(); err != nil {
		return err
	}
	if err := r.shape(); err != nil {
		return err
	}
	r.rec.readAll = !r.job.Moved        // queues and index are built from all of it, and the old ones may know more than a damaged log
	if err := r.rec.log(); err != nil { // nothing is moved while the log is not in order
		return err
	}
	if !r.job.Moved {
		if err := r.known(ctx); err != nil {
			return err
		}
		if err := r.canReplaceRows(ctx); err != nil {
			return err
		}
		r.rec.noteDefaults(r.wantsQueues(), r.job.Index)
	}
	if r.o.DryRun {
		return r.dryRun(ctx)
	}
	if _, err := markAbort(mmap.OS, r.layout.AbortPath()); err != nil {
		return err
	}
	if !r.job.Moved {
		if err := r.moveAll(ctx); err != nil {
			return err
		}
	}
	for i, kind := range r.sides() {
		if err := r.build(ctx, kind, i == len(r.sides())-1); err != nil {
			return err
		}
	}
	return r.finish()
}

// loadJob finds out whether an earlier run was cut off, and notes this one.
func (r *rebuilding) loadJob() error {
	r.job = rebuildJob{Kind: r.o.Kind, Index: r.o.Index || r.o.Kind == "" && r.o.Topic == "", Topic: r.o.Topic, QueueID: r.o.QueueID, Unclean: r.rep.Unclean}
	if r.job.Topic == "" {
		r.job.QueueID = -1
	}
	b, err := readFile(mmap.OS, r.layout.rebuildJobPath(), maxRebuildJobBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var old rebuildJob
	if err == nil {
		err = json.Unmarshal(b, &old)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", r.layout.rebuildJobPath(), err)
	}
	if !old.same(&r.job) {
		return fmt.Errorf("an earlier rebuild has not ended (%s): run it again first; it goes on where it was", &old)
	}
	r.job, r.rep.Resumed, r.rep.Unclean = old, true, old.Unclean
	return nil
}

func (r *rebuilding) saveJob() error {
	if err := makeDir(mmap.OS, r.layout.StateDir()); err != nil {
		return err
	}
	b, err := json.Marshal(&r.job)
	if err != nil {
		return err
	}
	return replaceFile(mmap.OS, r.layout.rebuildJobPath(), append(b, '\n'))
}

// wantsQueues tells whether queues are to be built.
func (r *rebuilding) wantsQueues() bool { return r.job.Kind != "" || !r.o.Index }

// sides are those to open: one of them, where only the index is built.
func (r *rebuilding) sides() []StoreType {
	if !r.wantsQueues() {
		return r.rec.kinds[:1]
	}
	return r.rec.kinds
}

// clearRemnants sets aside what is left of a database without CURRENT, if RocksDB is to be built: it would stand in the way of every look.
func (r *rebuilding) clearRemnants() error {
	for {
		_, _, _, err := r.layout.FindRocks()
		var remnants *RemnantsError
		if !errors.As(err, &remnants) {
			return err
		}
		if r.o.DryRun || r.job.Topic != "" || r.job.Kind != cq.KindRocks && r.job.Kind != cq.KindCombine {
			return fmt.Errorf("%w (building the rocks queues as a whole sets it aside)", err)
		}
		if err := r.saveJob(); err != nil {
			return err
		}
		if _, err := markAbort(mmap.OS, r.layout.AbortPath()); err != nil {
			return err
		}
		to, err := setAsideRocks(mmap.OS, r.layout, remnants.Dir)
		if err != nil {
			return err
		}
		r.separate = remnants.Layout == RocksSeparate
		r.job.Aside = append(r.job.Aside, filepath.Base(to))
		if err := r.saveJob(); err != nil {
			return err
		}
	}
}

// finish removes the old files, which nobody needs any more, and leaves the store as it was found.
func (r *rebuilding) finish() error {
	for _, name := range r.job.Aside {
		dir := filepath.Join(r.layout.brokenDir(), filepath.Base(name))
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove old files: %w", err)
		}
		r.rep.Aside = append(r.rep.Aside, dir)
	}
	if r.wantsQueues() {
		if err := r.rec.noteKept(); err != nil {
			return err
		}
	}
	if err := removeDurably(mmap.OS, r.layout.rebuildJobPath()); err != nil {
		return err
	}
	switch {
	case r.rep.Unclean:
		r.rep.Notes = append(r.rep.Notes, "the abort mark stays: it was there before; recover the store")
		return nil
	case r.rec.keepAbort:
		return nil
	}
	mark := abortMark{fs: mmap.OS, path: r.layout.AbortPath()}
	if err := mark.remove(); err != nil {
		return err
	}
	r.rep.AbortCleared = true
	return nil
}

// removeDurably removes a file that may be missing.
func removeDurably(fsys mmap.FS, path string) error {
	err := fsys.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, fsys.SyncDir(filepath.Dir(path)))
}
