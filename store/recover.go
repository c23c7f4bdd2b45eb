package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// RecoverOptions of Recover. The zero value repairs all that can be repaired without a decision.
type RecoverOptions struct {
	// DryRun changes nothing: the report says what was found and what would be done.
	DryRun bool
	// Damage says what becomes of a damaged log. "": DamageRefuse.
	Damage DamagePolicy
	// Kind is the side of the consume queues: cq.KindFile, cq.KindRocks, or cq.KindCombine for both. "": those that are there, and those that the store keeps and has lost; files where nothing
	// tells which that is.
	Kind cq.Kind
	// Full reads the log from its beginning, also what is known to be whole: for damage that the medium did later.
	Full bool
	// Create builds the queues of a Kind that the store neither has nor has lost, and keeps them from then on. Otherwise that is a *NoSideError: a migration moves queues, and proves them.
	Create bool
	// Options are those of the store's broker. nil: sizes are read off the directory, the rest are defaults.
	Options *Options
	// Given names the properties of Options that somebody has set. The others are read off the directory, where it tells them; one that was set and that the directory contradicts
	// is an error that names both (FR-B04). nil: Options count as they are.
	Given []string
	// Check has the store checked at the end, as Check does that is not Deep: what recovery does not mend is in the report.
	Check bool
	// Progress is told of each stretch of work, see CheckOptions.
	Progress func(phase string, total int64, unit string) (update func(done int64))
	// Logger gets what the parts report. nil: discard.
	Logger *slog.Logger
}

// RecoverReport says what Recover found and did.
type RecoverReport struct {
	Store   string `json:"store"`
	DryRun  bool   `json:"dryRun"`
	Unclean bool   `json:"unclean"` // the abort mark was there
	// DurableTo is the physical offset below which the log was known to be durable, -1: all of it was, after a stop in order; WholeBelow says how that is known.
	DurableTo  int64             `json:"durableTo"`
	WholeBelow string            `json:"wholeBelow"`
	Log        *commitlog.Survey `json:"log"` // nil where files are missing in its middle, and none took their place
	// Missing are the files that were missing in the middle of the log; with DamageMend a filler takes the place of each.
	Missing []commitlog.MissingFile `json:"missing,omitempty"`
	// Decision is what becomes of damage: "" without any, otherwise a DamagePolicy; Why says who decided.
	Decision DamagePolicy        `json:"decision,omitempty"`
	Why      string              `json:"why,omitempty"`
	Repaired *commitlog.Repaired `json:"repaired,omitempty"`
	// Flags were set when recovery began; RewrittenBytes were written again in place and synced, because a failed sync may have left them in memory alone.
	Flags          []string        `json:"flags,omitempty"`
	RewrittenBytes int64           `json:"rewrittenBytes,omitempty"`
	Views          []RecoveredView `json:"views"`
	// Lost are slots of queues that were built again, of which the damaged log has no record any more: they are empty; and those whose records were in files that are missing: readers
	// pass them too. At most 1,000 ranges.
	Lost []LostRange `json:"lost,omitempty"`
	// LostEnd are slots whose records were in the end that the log has lost: their units stay, so that their offsets are not given again. At most 1,000 ranges.
	LostEnd []LostRange `json:"lostEnd,omitempty"`
	// Forgotten are queues whose next offset nobody knows any more: the queues were lost, and the log has no record of them.
	Forgotten    []ForgottenQueue `json:"forgotten,omitempty"`
	Notes        []string         `json:"notes,omitempty"`
	AbortCleared bool             `json:"abortCleared"`
	Elapsed      time.Duration    `json:"elapsedNanos"`
	LogEnd       int64            `json:"logEnd"` // physical offset, after recovery
	Sides        []string         `json:"sides"`
	// Checked is what RecoverOptions.Check has found; nil where it was not asked for, or could not be done, which NotChecked explains.
	Checked    *CheckReport `json:"-"`
	NotChecked string       `json:"notChecked,omitempty"`
}

// RecoveredView is one view after recovery; in a dry run, before it.
type RecoveredView struct {
	Name string `json:"name"`
	// Plan says, in words, what would be done to it: of a dry run alone. Dispatched is then From.
	Plan string `json:"plan,omitempty"`
	// From is the physical offset from which the log was dispatched to queues again, and Why how it was known that they are complete below; "" for what is told elsewhere.
	From       int64  `json:"from"`
	Why        string `json:"why,omitempty"`
	Dispatched int64  `json:"dispatched"`
	PassedOver int64  `json:"passedOver"`
	HoleBytes  int64  `json:"holeBytes"`
	Conflicts  int64  `json:"conflicts"`
}

// Recover brings a stopped store in order: its log first, then its consume queues, on one side or both, then its index; and removes the abort mark when all of them
// agree and are durable. What cannot be done without a decision is left as it is. Killed at any moment and started again, it goes on.
//
// Error flags that an earlier run left (RunningFlags) are cleared, after what a failed sync may have kept from the disk was written again: the kernel takes such pages for clean, so that
// they are read as they were put, and are gone with the machine.
//
// Errors: *InUseError; *NoSideError; *DamageError when the log is damaged and Damage says refuse, and *MissingFilesError when files are missing in its middle and Damage does not say mend, beside the report; what could not be read or written. The report is nil only where nothing could be
// said.
func Recover(ctx context.Context, root string, o RecoverOptions) (rep *RecoverReport, err error) {
	begin := time.Now()
	r := &recovery{ctx: ctx, o: o, layout: NewLayout(root)}
	if err := r.layout.CheckRoot(); err != nil {
		return nil, err
	}
	if r.o.Damage == "" {
		r.o.Damage = DamageRefuse
	}
	if !r.o.Damage.valid() {
		return nil, fmt.Errorf("recover store %s: no policy %q", r.layout.Root, o.Damage)
	}
	if r.o.Logger == nil {
		r.o.Logger = slog.New(slog.DiscardHandler)
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
	err = r.run()
	if r.rep.Log == nil && len(r.rep.Missing) == 0 {
		return nil, err
	}
	r.rep.Elapsed = time.Since(begin)
	return &r.rep, err
}

// recovery is one run of Recover.
type recovery struct {
	ctx    context.Context
	o      RecoverOptions
	layout Layout
	rep    RecoverReport

	base      Options     // of the store, but for its type
	kinds     []StoreType // sides to bring in order
	kept      Kept        // sides that the store keeps, whether they are there or not
	found     Kept        // sides that are there
	building  bool        // by an earlier run, which has moved what was there out of the way
	noQueues  bool        // they are not asked for: a side that is gone stays away
	noIndex   bool        // its files cannot be understood without the store's options
	inTheWay  error       // what stands where its files belong; nil: nothing. noIndex then
	keepAbort bool
	known     durability
	flags     *RunningFlags

	noQueueFile, noIndexFile bool // there is none to tell its sizes
	mayBeNew                 bool // a store without a log file is one that has not begun yet
	readAll                  bool // of the log, whatever is known to be whole
}

func (r *recovery) note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(r.rep.Notes, note) {
		r.rep.Notes = append(r.rep.Notes, note)
	}
}

func (r *recovery) phase(name string, total int64, unit string) func(int64) {
	if r.o.Progress == nil {
		return func(int64) {}
	}
	return r.o.Progress(name, total, unit)
}

func (r *recovery) run() error {
	r.rep.Store, r.rep.DryRun, r.rep.Views, r.rep.Sides = r.layout.Root, r.o.DryRun, []RecoveredView{}, []string{}
	var err error
	if r.rep.Unclean, err = r.layout.HasAbort(); err != nil {
		return err
	}
	if r.flags, err = OpenRunningFlags(nil, r.layout.StateDir()); err != nil {
		return err
	}
	for _, e := range r.flags.Errors() {
		r.rep.Flags = append(r.rep.Flags, fmt.Sprintf("%v since %v: %s", e.Flag, e.Time.Format(time.RFC3339), e.Reason))
	}
	if done, err := r.missingFiles(); err != nil || done {
		return err
	}
	if err := r.options(); err != nil {
		return err
	}
	r.noteDefaults(true, true)
	if err := r.log(); err != nil {
		return err
	}
	if r.o.DryRun {
		return r.plan()
	}
	if _, err := markAbort(mmap.OS, r.layout.AbortPath()); err != nil {
		return err
	}
	if err := r.views(); err != nil {
		return err
	}
	if err := r.noteKept(); err != nil {
		return err
	}
	if err := r.finish(); err != nil || !r.o.Check {
		return err
	}
	return r.check()
}

// check looks at what recovery has made, and at what it leaves as it is, under the lock that is held.
func (r *recovery) check() error {
	for _, dir := range append(r.base.writeDirs(), r.base.ReadOnlyCommitLogStorePaths...) {
		if filepath.Clean(dir) != r.layout.CommitLogDir() {
			r.rep.NotChecked = fmt.Sprintf("the store: its log is in %s, and a check reads %s alone", dir, r.layout.CommitLogDir())
			return nil
		}
	}
	kind := cq.Kind(r.rep.Sides[0])
	if len(r.rep.Sides) > 1 {
		kind = cq.KindCombine
	}
	c := newChecker(r.ctx, r.layout.Root, CheckOptions{Kind: kind, Progress: r.o.Progress, Logger: r.o.Logger})
	if r.given("maxHashSlotNum") || r.given("maxIndexNum") {
		c.index = &r.base
	}
	if err := c.runLocked(); err != nil {
		return fmt.Errorf("check what was recovered: %w", err)
	}
	r.rep.Checked = c.report()
	return nil
}

// log surveys the log, repairs it as was decided, and makes durable what a failed sync may have left in memory.
func (r *recovery) log() error {
	s := newStore(r.base)
	s.layout, s.abort.found = r.layout, r.rep.Unclean
	r.known = s.knownDurable()
	if r.o.Full {
		r.known.to, r.known.beforeMs, r.known.exact, r.known.why = 0, 0, false, "all of it is read, as was asked"
	}
	r.rep.WholeBelow, r.rep.DurableTo = r.known.why, r.known.to
	if r.known.to == math.MaxInt64 {
		r.rep.DurableTo = -1
	}
	w := s.writerOptions()
	w.DurableTo, w.DurableBeforeMs, w.PromisedTo, w.SetAsideDir = r.known.to, r.known.beforeMs, r.known.promised, r.layout.brokenDir()
	if r.readAll {
		w.DurableTo, w.DurableBeforeMs = 0, 0
	}
	if r.flags.Bits()&FlagNotWriteable != 0 {
		w.DurableTo = min(w.DurableTo, r.durableNoted()) // whatever the abort mark says
	}
	if err := w.Validate(); err != nil { // what would keep the log from being opened once views are brought to it
		return fmt.Errorf("recover store %s: %w", r.layout.Root, err)
	}
	o := recoveryOptions(&w)
	o.ReadOnly = r.o.DryRun
	update := r.phase("log", 0, "bytes")
	o.Progress = func(done, _ int64) { update(done) }
	log, err := commitlog.OpenRecovery(o)
	if err != nil {
		return err
	}
	err = r.repair(s, log)
	if err == nil && !r.o.DryRun && r.flags.Bits()&errorFlags != 0 {
		update = r.phase("write again", 0, "bytes")
		err = r.rewrite(log, o.DurableTo)
	}
	return errors.Join(err, log.Close())
}

func (r *recovery) repair(s *Store, log *commitlog.Recovery) (err error) {
	if r.rep.Log, err = log.Survey(r.ctx); err != nil {
		return err
	}
	r.rep.LogEnd = r.rep.Log.End
	if len(r.rep.Log.Damage) == 0 {
		return nil
	}
	if _, lost := r.rep.Log.LostEnd(); lost {
		r.note("the log was durable up to physical offset %d (%s), and ends at %d: its end is lost", r.known.promised, r.known.promisedBy, r.rep.Log.End)
	}
	r.rep.Decision, r.rep.Why = r.o.Damage.decide(r.rep.Log, r.known)
	if r.rep.Decision == DamageRefuse {
		return &DamageError{Root: r.layout.Root, Survey: r.rep.Log, Err: commitlog.ErrCorrupt, Full: r.o.Full || r.readAll}
	}
	if r.o.DryRun {
		return nil
	}
	if _, err := markAbort(mmap.OS, r.layout.AbortPath()); err != nil { // before the first change
		return err
	}
	if r.rep.Decision == DamageMend {
		r.rep.Repaired, err = log.Mend(r.ctx, r.rep.Log)
	} else {
		r.rep.Repaired, err = s.acceptLoss(r.ctx, log, r.rep.Log)
	}
	return err
}

// durableNoted returns the position that is known to be durable whatever was done since: 0 when nothing is.
func (r *recovery) durableNoted() int64 {
	s := newStore(r.base)
	s.layout, s.abort.found = r.layout, true
	return s.knownDurable().to
}
