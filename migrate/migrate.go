package migrate

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
)

// Target is the side that is written.
type Target interface {
	cq.Store
	cq.Importer
}

// Compactor is implemented by targets that leave work for later while they are filled.
type Compactor interface {
	// Compact merges what the import left unmerged; progress gets bytes done and the estimate of all.
	Compact(ctx context.Context, progress func(done, total int64)) error
	// SortedRuns counts what is unmerged. Each costs a descriptor and some memory while it is merged.
	SortedRuns() (int, error)
}

// maxSortedRuns is when a fill stops to merge: descriptors are often limited to 1024.
const maxSortedRuns = 300

// Directory is one store directory as migrate needs it. cmd/tandemmq fills it in, with the store's exclusive lock held;
// this package takes no lock of its own.
type Directory struct {
	Root     string         // store root, for messages
	StateDir string         // where the state file lives; created when first written
	Log      *commitlog.Log // open for reading

	Unclean     bool            // the abort mark is there
	BatchTopics []string        // topics with batch queues, which RocksDB cannot hold
	KnownTopics map[string]bool // topics of config/topics.json; nil when the file is absent or unreadable

	RocksFound  bool        // a RocksDB directory exists
	RocksLayout RocksLayout // of the existing one, else the one to be created
	FileFound   bool        // there is at least one file queue
	CQFileSize  int64       // bytes of a queue file: read off the directory, else the one to be created

	FreeBytes func() (int64, error) // free space where the target will lie

	// Unwritable tells what a migration to that side has to write and this process may not, a reason for each; nil: nothing is known.
	Unwritable func(to cq.Kind) []string

	// OpenReader opens a side read-only. OpenTarget opens it for writing, creating it when absent. RemoveTarget removes
	// a side that OpenTarget created, when nothing that was there before is in it.
	OpenReader   func(kind cq.Kind) (cq.Store, error)
	OpenTarget   func(kind cq.Kind) (Target, error)
	RemoveTarget func(kind cq.Kind) error

	// OpenScratch opens a new side of that kind in an empty directory of its own, for a plan to try out what a migration takes; remove, called when the side is closed, removes it. nil: a plan goes by figures that
	// were measured elsewhere.
	OpenScratch func(kind cq.Kind) (t Target, dir string, remove func() error, err error)

	// MoveMetadata has topics, groups and consumer offsets be where a broker on that side looks for them. With commit false it writes nothing. told says what was
	// done, or would be; refusals, why it cannot be, and then nothing was written. nil: there is nothing to move.
	MoveMetadata func(to cq.Kind, commit bool) (told, refusals []string, err error)

	// SetLogicsPosition records in the store's checkpoint file the start of the last record whose file unit is durable,
	// and its store time (logicsPhysicalOffset, logicsMsgTimestamp). Used when reads move to the file side.
	SetLogicsPosition func(phyOffset, storeTimestampMs int64) error
}

// found tells whether the side of that kind exists.
func (d *Directory) found(k cq.Kind) bool {
	if k == cq.KindRocks {
		return d.RocksFound
	}
	return d.FileFound
}

func (d *Directory) setFound(k cq.Kind, found bool) {
	if k == cq.KindRocks {
		d.RocksFound = found
	} else {
		d.FileFound = found
	}
}

// Options of a Migrator. Zero values mean the defaults named.
type Options struct {
	// To is the side to migrate to; default cq.KindRocks.
	To cq.Kind
	// Missing says what to do about queues the source lacks; default MissingRefuse.
	Missing MissingQueues
	// AcceptTornTail treats bytes after the last record that are no record as the end of the log.
	AcceptTornTail bool
	// FromLog lets a rollback do without the side that reads belong to: what the old side lacks is made from the log.
	FromLog bool
	// ReplaceTarget lets the backfill drop queues (and stale units) that only the target has.
	ReplaceTarget bool
	// Restart begins the backfill anew instead of resuming.
	Restart bool
	// ChunkUnits is how many units one import takes; default 2,000,000 (64 MB of memory twice).
	ChunkUnits int
	// Samples is about how many records verification decodes over all queues, at least two for each; default 100,000.
	Samples int
	// Level is how much a verification compares; default LevelUnits.
	Level Level
	// OnFinding is told of each finding of a verification or repair as it is found, where the results hold only the first ones of each kind; nil: nobody is. From one goroutine at a time.
	OnFinding func(Finding)
	// Version of the tool, for the audit trail.
	Version string
	// Progress is told about long work; nil: nobody is.
	Progress Progress
	// Logger gets what is worth keeping; nil: discard.
	Logger *slog.Logger
}

// Progress shows long work.
type Progress interface {
	// Phase ends the piece of work before it and begins one of total units (0: unknown; unit is "bytes" or a plural
	// noun). The function returned is told what is done so far, from any goroutine.
	Phase(name string, total int64, unit string) (update func(done int64))
}

type noProgress struct{}

func (noProgress) Phase(string, int64, string) func(int64) { return func(int64) {} }

// Migrator runs the steps of a migration over one directory. Not for concurrent use.
type Migrator struct {
	dir   Directory
	opt   Options
	state *State
	now   func() time.Time
	peak  int64 // bytes that a plan found to be needed; 0 without one
}

// New loads the state of the directory.
func New(dir Directory, o Options) (*Migrator, error) {
	if o.To == "" {
		o.To = cq.KindRocks
	}
	if o.To != cq.KindRocks && o.To != cq.KindFile {
		return nil, fmt.Errorf("migrate to %q: the sides are %s and %s", o.To, cq.KindRocks, cq.KindFile)
	}
	if o.Missing == "" {
		o.Missing = MissingRefuse
	}
	if o.ChunkUnits <= 0 {
		o.ChunkUnits = 2_000_000
	}
	if o.Samples <= 0 {
		o.Samples = 100_000
	}
	if o.Level == "" {
		o.Level = LevelUnits
	}
	if !o.Level.valid() {
		return nil, fmt.Errorf("verify at level %q: the levels are %s", o.Level, LevelNames)
	}
	if o.Progress == nil {
		o.Progress = noProgress{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	st, err := LoadState(dir.StateDir)
	if err != nil {
		return nil, err
	}
	return &Migrator{dir: dir, opt: o, state: st, now: time.Now}, nil
}

// State returns a copy of the state as it was last loaded or saved.
func (m *Migrator) State() State { return *m.state }

func other(k cq.Kind) cq.Kind {
	if k == cq.KindRocks {
		return cq.KindFile
	}
	return cq.KindRocks
}

// from is the source of a new migration.
func (m *Migrator) from() cq.Kind { return other(m.opt.To) }

// done tells whether the migration asked for has already been cut over.
func (m *Migrator) done() bool {
	return m.state.Phase == PhaseCutover && m.state.To == m.opt.To
}

func (m *Migrator) actor() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname()
	return strings.TrimSpace(fmt.Sprintf("%s@%s pid %d tandemmq %s", name, host, os.Getpid(), m.opt.Version))
}

// advance applies event to the state and makes it durable.
func (m *Migrator) advance(event Event, note string) error {
	if err := m.state.Apply(event, m.actor(), note, m.now()); err != nil {
		return err
	}
	return m.state.Save(m.dir.StateDir)
}

// RefusedError tells that a step was not begun, and every reason why. Nothing was changed.
type RefusedError struct {
	Step    string   `json:"step"`
	Reasons []string `json:"reasons"`
}

func (e *RefusedError) Error() string {
	if len(e.Reasons) == 1 {
		return fmt.Sprintf("%s refused: %s", e.Step, e.Reasons[0])
	}
	return fmt.Sprintf("%s refused for %d reasons:\n  - %s", e.Step, len(e.Reasons), strings.Join(e.Reasons, "\n  - "))
}

// ExitCode is 1: failed.
func (e *RefusedError) ExitCode() int { return 1 }

// DifferentError tells that something was compared and found different, or a store was found damaged.
type DifferentError struct {
	Step     string    `json:"step"`
	Findings *Findings `json:"findings"`
	// Advice says what to do next; may be empty.
	Advice string `json:"advice,omitempty"`
}

func (e *DifferentError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s found %s", e.Step, e.Findings.Summary())
	for _, f := range e.Findings.First {
		b.WriteString("\n  - ")
		b.WriteString(f.String())
	}
	if n := e.Findings.Len() - int64(len(e.Findings.First)); n > 0 {
		fmt.Fprintf(&b, "\n  ... and %d more", n)
	}
	if e.Advice != "" {
		b.WriteString("\n" + e.Advice)
	}
	return b.String()
}

// ExitCode is 3: verified and found different.
func (e *DifferentError) ExitCode() int { return 3 }

// moveMetadata moves topics, groups and offsets along. A *RefusedError says why that cannot be.
func (m *Migrator) moveMetadata(step string, to cq.Kind, commit bool) (told []string, err error) {
	if m.dir.MoveMetadata == nil {
		return nil, nil
	}
	told, refusals, err := m.dir.MoveMetadata(to, commit)
	if err == nil && len(refusals) > 0 {
		err = &RefusedError{Step: step, Reasons: refusals}
	}
	return told, err
}

// preconditions lists why no step that reads the queues of a side and the log may be begun.
func (m *Migrator) preconditions(from cq.Kind) []string {
	r := m.storeReasons()
	if !m.dir.found(from) {
		r = append(r, fmt.Sprintf("the store has no %s queues to migrate from", from))
	}
	return r
}

// unwritable lists what a backfill would have to write and cannot.
func (m *Migrator) unwritable() []string {
	if m.dir.Unwritable == nil {
		return nil
	}
	return m.dir.Unwritable(m.opt.To)
}

// brokers tells whether the migration under way is one of a running broker, which alone goes on with it. After a cutover, or the end of a rollback, nothing is under way.
func (m *Migrator) brokers() bool {
	return m.state.Online != nil && !m.opt.Restart && m.state.Phase != PhaseCutover && m.state.Phase != PhaseRolledBack && m.state.Phase != state.Finalized
}

// storeReasons are those that are about the store as a whole.
func (m *Migrator) storeReasons() []string {
	r := m.uncleanReasons()
	if m.brokers() {
		r = append(r, fmt.Sprintf("the migration from %s to %s is one of a running broker, and %s: start the broker and use `tandemmq migrate online`. `tandemmq migrate repair` of the stopped store, "+
			"first with --dry-run, holds both sides against the log; `tandemmq migrate run --restart` begins a migration of the stopped store", m.state.From, m.state.To, m.state.Phase))
	}
	return append(r, m.logReasons()...)
}

func (m *Migrator) uncleanReasons() []string {
	if !m.dir.Unclean {
		return nil
	}
	return []string{fmt.Sprintf("the store was not closed cleanly (%s/abort exists): recover first by starting and stopping its broker once", m.dir.Root)}
}

// logReasons are those about the log and the topics.
func (m *Migrator) logReasons() (r []string) {
	if len(m.dir.BatchTopics) > 0 {
		r = append(r, fmt.Sprintf("topics with batch queues cannot be held by RocksDB: %s", strings.Join(m.dir.BatchTopics, ", ")))
	}
	if m.dir.Log.MinOffset() < 0 {
		r = append(r, fmt.Sprintf("there is no commit log file in %s", m.dir.Log.Dir()))
	}
	return r
}
