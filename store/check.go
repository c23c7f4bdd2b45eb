package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
)

// CheckOptions of Check. The zero value is a shallow check of every side there is.
type CheckOptions struct {
	// Deep reads the whole log and proves every unit. Without it only files, ends and beginnings are looked at.
	Deep bool
	// Kind is the side to check: cq.KindFile, cq.KindRocks, or cq.KindCombine for both, which must be there then. "": those that are there.
	Kind cq.Kind
	// Workers is how many goroutines read. 0: one per processor.
	Workers int
	// Limit is the most findings listed of each kind; all are counted. 0: 100.
	Limit int
	// Progress is told of each stretch of work: its name, its total and their unit. The function it returns takes how much is done
	// so far, from any goroutine. nil: nobody.
	Progress func(phase string, total int64, unit string) (update func(done int64))
	// Logger gets what the parts report. nil: discard.
	Logger *slog.Logger
}

const checkDefaultLimit = 100

// CheckReport says what a check read and found.
type CheckReport struct {
	Store   string `json:"store"`
	Deep    bool   `json:"deep"`
	Sound   bool   `json:"sound"`   // no finding is an error
	Unclean bool   `json:"unclean"` // the store has an abort mark: recovery has not run

	Sides      []string `json:"sides"`               // that were checked
	LostSides  []string `json:"lostSides,omitempty"` // that the store keeps its queues on, and that are gone
	LogFiles   int64    `json:"logFiles"`
	LogMin     int64    `json:"logMin"` // physical offset of the first byte; -1 without a log
	LogEnd     int64    `json:"logEnd"` // physical offset behind the last record
	LogEndKind string   `json:"logEndKind"`
	Records    int64    `json:"records"`  // read with their checksums
	LogBytes   int64    `json:"logBytes"` // that they fill
	Damaged    int64    `json:"damagedBytes"`
	Queues     int64    `json:"queues"`
	Units      int64    `json:"units"`       // in [min, max), over all queues and sides
	Proven     int64    `json:"unitsProven"` // of them, whose record was read and has that slot

	Errors   int64        `json:"errors"`
	Warnings int64        `json:"warnings"`
	Notices  int64        `json:"notices"`
	Counts   []CheckCount `json:"counts"`
	// NotChecked lists, in words, what this check did not look at.
	NotChecked []string      `json:"notChecked"`
	Elapsed    time.Duration `json:"elapsedNanos"`

	// Findings are the worst first, at most CheckOptions.Limit of each kind.
	Findings []*CheckFinding `json:"-"`
}

// Check holds the store at root against its invariants (Invariant). It changes nothing on disk, and shares the lock: other
// readers may go on, a broker is kept out.
//
// Shallow: the run of the log's files and their beginnings; how the log ends, which reads its last file and looks its
// records up in their queues; of each queue the bounds, the first and the last unit with their records, and whether its two
// sides end alike; the index against itself, and some of its entries against their records; checkpoint, abort mark, topic table and the places of RocksDB.
//
// Deep: every record of the log, with its checksums, is looked up in its queues, light queues included; damage is told by range
// and passed over. What the records prove is counted, queue by queue. A queue whose count is its length is proven: each
// record proves one slot, and no two the same. Only of the others is each unit read and held against the log, and one side
// against the other.
//
// Counting makes the order in which the log is read indifferent, so its files are read in parallel, and memory does not grow
// with the number of messages. It is bounded by, beside what the queue stores keep: 300 bytes a queue, 24 MiB a worker, and
// Limit findings of each kind.
//
// A store with an abort mark is checked as it lies there: what the next recovery puts right is a warning.
//
// What is wrong is in the report, not in the error. Errors: the store could not be checked: it is in use (*InUseError), no store,
// has no queues of the asked kind, ctx, or could not be read.
func Check(ctx context.Context, root string, o CheckOptions) (*CheckReport, error) {
	c := newChecker(ctx, root, o)
	if err := c.run(); err != nil {
		return nil, err
	}
	return c.report(), nil
}

func newChecker(ctx context.Context, root string, o CheckOptions) *checker {
	c := &checker{ctx: ctx, o: o, layout: NewLayout(root), workers: o.Workers, windowUnits: windowBudgetUnits, begin: time.Now()}
	if c.workers <= 0 {
		c.workers = runtime.GOMAXPROCS(0)
	}
	if o.Limit <= 0 {
		c.o.Limit = checkDefaultLimit
	}
	c.found = newFindings(c.o.Limit)
	return c
}

func (c *checker) report() *CheckReport {
	rep := &c.rep
	rep.Store, rep.Deep, rep.Elapsed = c.layout.Root, c.o.Deep, time.Since(c.begin)
	rep.Findings, rep.Counts = c.found.report()
	for _, n := range rep.Counts {
		switch n.Severity {
		case CheckError:
			rep.Errors += n.Count
		case CheckWarning:
			rep.Warnings += n.Count
		case CheckNotice:
			rep.Notices += n.Count
		}
	}
	rep.Sound = rep.Errors == 0
	return rep
}

// checker is one run of Check.
type checker struct {
	ctx     context.Context
	o       CheckOptions
	layout  Layout
	workers int
	begin   time.Time
	found   *findings
	rep     CheckReport
	// index has the sizes of index files, where somebody knows them. nil: they are read off the files.
	index *Options
	// windowUnits is the constant, smaller in tests.
	windowUnits int

	log   *commitlog.Log
	sides [sideCount]*View // nil: not there, or not asked for
	kept  Kept
	lost  [sideCount]bool // the store keeps its queues there, and they are gone

	queues   []*checkedQueue // sorted
	table    map[cq.Key]*checkedQueue
	hasLight bool
	owed     owedQueues
	batch    map[string]bool // topics of batch queues
	topics   map[string]bool // of the topic table; nil: not known

	checkpoint Checkpoint
	// end is the physical offset behind the last record; until the log has been read, the end of its files.
	end int64
	// readFrom is the physical offset from which on the log is read, each record with its units.
	readFrom    int64
	lastStoreMs int64 // store time of the last record, -1: none

	// fillers are those that a unit has led to: where the filler of a file begins, by where the file does; the file's end where it has none.
	fillers struct {
		sync.Mutex
		begin map[int64]int64
	}
}

// The sides of a queue.
const (
	sideFile = iota
	sideRocks
	sideCount
)

var sideKinds = [sideCount]cq.Kind{cq.KindFile, cq.KindRocks}

func (c *checker) run() (err error) {
	if err := c.layout.CheckRoot(); err != nil {
		return err
	}
	lock, err := LockShared(c.layout.Root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return c.runLocked()
}

// runLocked is run by who has a lock on the store.
func (c *checker) runLocked() (err error) {
	if err := c.state(); err != nil {
		return err
	}
	if err := c.logRun(); err != nil || c.log == nil {
		return err
	}
	defer func() { err = errors.Join(err, c.log.Close()) }()
	defer func() {
		for _, v := range c.sides {
			if v != nil {
				err = errors.Join(err, v.Close())
			}
		}
	}()
	if err := c.openSides(); err != nil {
		return err
	}
	if err := c.listQueues(); err != nil {
		return err
	}
	c.reportLostSides()
	if err := c.readLog(); err != nil {
		return err
	}
	if err := c.lostEnd(); err != nil {
		return err
	}
	c.checkpointAgainstLog()
	c.topicsAgainstQueues()
	if err := c.checkIndexes(); err != nil {
		return err
	}
	return c.checkQueues()
}

func (c *checker) notChecked(what string) { c.rep.NotChecked = append(c.rep.NotChecked, what) }

// phase begins a stretch of work. The function returned adds to what is done of it.
func (c *checker) phase(name string, total int64, unit string) (add func(n int64)) {
	if c.o.Progress == nil {
		return func(int64) {}
	}
	update := c.o.Progress(name, total, unit)
	var done atomic.Int64
	return func(n int64) { update(done.Add(n)) }
}

// parallel calls fn for 0 to n-1, in that order, from up to c.workers goroutines, which it waits for. make is called once in
// each of them and returns fn and what to do when there is no more. The first error ends it.
func (c *checker) parallel(n int, worker func() (fn func(i int) error, end func())) error {
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(c.workers, n) {
		wg.Go(func() {
			fn, end := worker()
			defer end()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := fn(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// suspended returns CheckWarning for what the next recovery puts right in a store with an abort mark, and CheckError in one
// that was closed cleanly.
func (c *checker) suspended() CheckSeverity {
	if c.rep.Unclean {
		return CheckWarning
	}
	return CheckError
}

// undispatched is suspended for a record without a unit. What starts at or below the position to which the queues were
// flushed should have one whatever happened since.
func (c *checker) undispatched(phy int64) CheckSeverity {
	if phy <= c.checkpoint.LogicsPhysicalOffset && c.checkpoint.LogicsPhysicalOffset > 0 {
		return CheckError
	}
	return c.suspended()
}

func (c *checker) side(s int) string { return string(sideKinds[s]) }

// openSides opens the sides to be checked.
func (c *checker) openSides() error {
	var has [sideCount]bool
	var err error
	if has[sideFile], err = c.layout.HasFileQueues(); err != nil {
		return err
	}
	var bad bool // RocksDB is there and cannot be opened, which is told
	if has[sideRocks], bad, err = c.rocksPlace(); err != nil {
		return err
	}
	if err := c.lostSides(has, bad); err != nil {
		return err
	}
	want := has
	switch c.o.Kind {
	case "":
		want[sideFile] = has[sideFile] || !has[sideRocks] && !bad && !c.lost[sideRocks]
	case cq.KindFile, cq.KindRocks:
		want = [sideCount]bool{c.o.Kind == cq.KindFile, c.o.Kind == cq.KindRocks && !bad}
	case cq.KindCombine:
		want = [sideCount]bool{true, !bad}
	default:
		return fmt.Errorf("check store %s: no kind of queues is called %q", c.layout.Root, c.o.Kind)
	}
	for s := range c.sides {
		switch {
		case c.lost[s]: // there is nothing to open
		case want[s]:
			err = c.openSide(s, c.o.Kind == "" && has[sideFile])
		case has[s]:
			c.notChecked("the " + c.side(s) + " queues")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openSide opens one side. One that is damaged is told and left out; so is RocksDB in a binary without it, if that may be.
func (c *checker) openSide(s int, dispensable bool) error {
	v := &View{Layout: c.layout, Kind: sideKinds[s], Log: c.log}
	err := v.openQueues(ViewOptions{Kind: v.Kind, Logger: c.o.Logger})
	switch {
	case err == nil:
		c.sides[s] = v
		c.rep.Sides = append(c.rep.Sides, c.side(s))
	case errors.Is(err, cq.ErrCorrupt):
		c.found.add(placeFinding(CheckError, CheckBadSide, c.side(s), "", "%v", err))
	case errors.Is(err, cq.ErrNoRocksDB) && dispensable:
		c.notChecked("the rocks queues: " + err.Error())
	default:
		return err
	}
	return nil
}

// rocksPlace tells whether there is a database with queues, and reports remnants of one, or one in both places, as bad.
func (c *checker) rocksPlace() (found, bad bool, err error) {
	_, _, found, err = c.layout.FindRocks()
	var io *fs.PathError
	if err == nil || errors.As(err, &io) {
		return found, false, err
	}
	f := placeFinding(CheckError, CheckRocksPlace, c.side(sideRocks), "", "%v", err)
	var remnants *RemnantsError
	if errors.As(err, &remnants) {
		f.File, f.Got, f.Want = remnants.Dir, remnants.File, currentFile
	}
	c.found.add(f)
	return false, true, nil
}
