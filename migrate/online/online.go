package online

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/latency"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// Store is what a Migration needs of an open store. *store.Store is one.
type Store interface {
	// SideRoles, SetSideRoles, SideStates and VerifySides answer store.ErrNotCombined where there is one store of queues.
	SideRoles() (store.SideRoles, error)
	SetSideRoles(r store.SideRoles) error
	SideStates() (map[cq.Kind]store.SideState, error)
	VerifySides(ctx context.Context, o store.VerifySidesOptions, each func(v *store.SideVerdict) error) error
	Watermarks() store.Watermarks
	Queues() ([]cq.Key, error)
	Bounds(k cq.Key) (cq.Bounds, bool, error)
	Units(topic string, queueID int32, from int64, dst []cq.Unit) (n int, b cq.Bounds, ok bool, err error)
	OpenedUnclean() bool
	ShadowReads() store.ShadowReads
	TopicUnits(ctx context.Context) ([]store.TopicUnits, error)
	// CheckSide is for a side that has no other to be compared with, also in a store with one kind of queues.
	CheckSide(ctx context.Context, kind cq.Kind, o store.VerifySidesOptions, each func(v *store.SideVerdict) error) error
	// LostFiles answers store.ErrNotCombined where queues of that kind are not open.
	LostFiles(ctx context.Context, kind cq.Kind) ([]string, error)
	KeepSide(ctx context.Context, k cq.Key, kind cq.Kind) (store.KeptSide, error)
	RebuildQueue(k cq.Key) error
}

var _ Store = (*store.Store)(nil)

// Options of Open.
type Options struct {
	Root string // of the store
	// Kind is what the store keeps its queues in: cq.KindCombine, or the one kind.
	Kind cq.Kind
	// LightAlone tells that light queues are in RocksDB alone.
	LightAlone bool
	// CQFileBytes is the length of a queue file.
	CQFileBytes int64
	// FreeBytes tells how much room the disk has; nil: nobody asks.
	FreeBytes func() (int64, error)
	// OpenScratch opens a side in a directory of its own, see migrate.Directory; nil: what room a new side takes is told by figures that were measured elsewhere.
	OpenScratch func(kind cq.Kind) (t migrate.Target, dir string, remove func() error, err error)
	// TimePuts has puts timed until stop is called, see store.Store.TimePuts; nil: they are not.
	TimePuts func() (take func() latency.Counts, stop func())
	// QueueDisk tells what the queues of each kind take on the disk, see store.Layout.QueueDisk; nil: nobody asks.
	QueueDisk func(ctx context.Context) (map[cq.Kind]int64, error)
	// PutsRefused says why the store takes no puts, nil while it does. nil: nobody asks.
	PutsRefused func() error
	// SampleEvery is for how long puts are timed before a sample of how the migration goes is taken down. Default 1 s.
	SampleEvery time.Duration
	// Actor is written into the audit trail for what happens by itself: user, host, process and version.
	Actor string
	// Samples is about how many records of each queue a verification decodes. Default 32.
	Samples int64
	// Tick is how often the Migration looks at the store. Default 200 ms.
	Tick time.Duration
	// Logger gets each change of the phase. nil: discard.
	Logger *slog.Logger
}

const (
	defaultSamples = 32
	defaultTick    = 200 * time.Millisecond
	// saveEvery is how often progress is written down that is only looked at: what has to go on after a kill is in the store.
	saveEvery = 10 * time.Second
	// retryAfter is how long a step waits that could not be done, before it is tried again.
	retryAfter = 5 * time.Second
	// verifyShare is how many parts of the time are waited for each part in which sides are compared.
	verifyShare = 1
	// finalizeWithin is for how long the comparison of the side that is kept counts: the other one is moved aside by a start within that time.
	finalizeWithin = 24 * time.Hour
	// maxRounds is how often queues are built again, and verified, before that is left to an operator.
	maxRounds = 3
)

// DefaultGrace is for how long a side is kept that was moved aside.
const DefaultGrace = 7 * 24 * time.Hour

// Migration is one of an open store. See the package comment.
type Migration struct {
	s   Store
	o   Options
	dir string
	now func() time.Time

	stop    context.CancelFunc
	running sync.WaitGroup
	kick    chan struct{}

	step   sync.Mutex   // one step at a time; also held while the loop does one
	urgent atomic.Int64 // steps that do not wait until a verification is done

	certified *migrate.CertifiedQueues // of the last verification; nil: none counts. Guarded by step
	retry     time.Time                // when what could not be done is tried again. The same
	saved     time.Time                // when progress was last written. The same
	rounds    int                      // of repairs. The same
	mending   bool                     // queues are built again, or were by now, for what was found last. The same
	shadow    int64                    // differences found by shadow reads that count no more: the state was told, or everything was compared since. The same
	judged    int64                    // of these, those that the log has decided. The same
	covered   *state.Coverage          // of the comparison in which certified was found; nil: that of a verification. The same
	stuck     bool                     // the side that is kept is not compared again before somebody has asked for something. The same

	seen sidesSeen // guarded by step

	topics topicsSeen

	mu struct {
		sync.Mutex
		st       *state.State
		why      string             // what the migration waits for, or why it does not go on
		done, of int                // queues, of a verification under way
		units    int64              // the same
		begun    time.Time          // when it was
		cancel   context.CancelFunc // of it
		rate     rate
		compared map[string]compared // topics, by the verification that counts or is under way
		asked    []*Step             // that somebody has asked for, the last ones
	}
}

// Open begins to look after the migration of an open store: one that is under way goes on. Close it before the store.
func Open(s Store, o Options) (*Migration, error) {
	if o.Samples <= 0 {
		o.Samples = defaultSamples
	}
	if o.Tick <= 0 {
		o.Tick = defaultTick
	}
	if o.SampleEvery <= 0 {
		o.SampleEvery = defaultSampleEvery
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Migration{s: s, o: o, dir: store.NewLayout(o.Root).StateDir(), now: time.Now, kick: make(chan struct{}, 1)}
	st, err := state.Load(m.dir)
	if err != nil {
		return nil, err
	}
	m.mu.st = st
	if err := m.adopt(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.running.Go(func() { m.run(ctx) })
	m.running.Go(func() { m.sample(ctx) })
	return m, nil
}

// adopt finds out what of a verification still counts.
func (m *Migration) adopt() error {
	st := m.state()
	m.mending = (st.Phase == state.Cutover || st.Phase == state.RolledBack) && len(openQueues(&st)) > 0 // it is seen whether they were built again
	if st.Online == nil || st.Phase != state.Verified && st.Phase != state.Cutover && st.Phase != state.RollingBack && st.Phase != state.Finalizing {
		return nil
	}
	why := ""
	switch certified, err := migrate.ReadCertificate(m.dir); {
	case m.s.OpenedUnclean():
		why = "the store was not closed in order"
	case !m.combined():
		why = fmt.Sprintf("the store was opened with its %s queues alone", m.o.Kind)
	case err != nil:
		why = err.Error()
	case st.Online.Verified == nil || st.Online.Verified.LogEnd > m.s.Watermarks().Appended:
		why = "the log ends before what was verified"
	default:
		m.certified = certified
		m.mu.compared = make(map[string]compared)
		for q := range certified.All() {
			c := m.mu.compared[q.Key.Topic]
			c.same++
			m.mu.compared[q.Key.Topic] = c
		}
		return nil
	}
	switch st.Phase {
	case state.Verified:
	case state.Finalizing: // the side that is kept is compared again
		return m.change(func(st *state.State) { st.Online.Verified = nil })
	default:
		return nil // what comes next compares everything
	}
	return m.advance(state.VerifyStart, m.o.Actor, why, func(st *state.State) { st.Online.Verified, st.Online.CanaryTopics = nil, nil })
}

// Close ends what is under way; it goes on when the store is next opened.
func (m *Migration) Close() {
	m.stop()
	m.running.Wait()
}

func (m *Migration) combined() bool { return m.o.Kind == cq.KindCombine }

// state returns a copy, of which only whole fields may be changed.
func (m *Migration) state() state.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *m.mu.st
}

// advance moves the state by an event, with what change changes, and makes that durable. On error nothing has changed.
func (m *Migration) advance(event state.Event, actor, note string, change func(st *state.State)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.mu.st.Phase
	next := copyState(m.mu.st)
	if err := next.Apply(event, actor, note, m.now()); err != nil {
		return err
	}
	if change != nil {
		change(next)
	}
	if err := next.Save(m.dir); err != nil {
		return err
	}
	m.mu.st, m.mu.why = next, ""
	if event == state.Plan {
		m.mu.compared = nil
	}
	m.o.Logger.Info("migration", slog.String("event", string(event)), slog.String("was", string(was)), slog.String("is", string(next.Phase)),
		slog.String("from", string(next.From)), slog.String("to", string(next.To)), slog.String("actor", actor), slog.String("note", note))
	return nil
}

// copyState copies what may be changed.
func copyState(st *state.State) *state.State {
	c := *st
	c.History = slices.Clone(st.History)
	if st.Online != nil {
		o := *st.Online
		c.Online = &o
	}
	c.Retired = slices.Clone(st.Retired)
	if c.Online != nil {
		c.Online.Kept = slices.Clone(c.Online.Kept)
	}
	return &c
}

// wait notes what the migration waits for.
func (m *Migration) wait(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if why != "" && why != m.mu.why {
		m.o.Logger.Warn("migration waits", slog.String("phase", string(m.mu.st.Phase)), slog.String("why", why))
	}
	m.mu.why = why
}

func (m *Migration) run(ctx context.Context) {
	t := time.NewTicker(m.o.Tick)
	defer t.Stop()
	for {
		m.goOn(ctx)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-m.kick:
		}
	}
}

func (m *Migration) kickNow() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// goOn does what is due, until nothing is for the moment.
func (m *Migration) goOn(ctx context.Context) {
	m.step.Lock()
	defer m.step.Unlock()
	for ctx.Err() == nil && m.urgent.Load() == 0 {
		if m.now().Before(m.retry) {
			return
		}
		more, err := m.next(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			m.wait(err.Error())
			m.retry = m.now().Add(retryAfter)
			return
		}
		if !more {
			return
		}
	}
}

// next does one thing that is due; false: nothing is.
func (m *Migration) next(ctx context.Context) (more bool, err error) {
	st := m.state()
	if done, err := m.removeRetired(&st); done || err != nil {
		return true, err
	}
	if st.Online == nil || st.Phase == state.Absent || st.Phase == state.Finalized {
		return false, nil
	}
	if st.Phase == state.RolledBack {
		if !m.combined() {
			return false, nil
		}
		return m.compareHealed(ctx, &st)
	}
	if !m.combined() && (st.Phase != state.Finalizing || m.o.Kind != st.Kept) {
		m.wait(notCombined(&st, m.o.Kind))
		return false, nil
	}
	if st.Phase == state.Finalizing {
		return m.compareKept(ctx, &st)
	}
	if err := m.giveRoles(&st); err != nil {
		return false, err
	}
	if more, err := m.lookAtShadow(&st); more || err != nil {
		return more, err
	}
	if more, err := m.lookAtSides(&st); more || err != nil {
		return more, err
	}
	switch st.Phase {
	case state.Planned:
		return true, m.advance(state.BackfillStart, m.o.Actor, "", nil)
	case state.Backfilling, state.CatchingUp:
		return m.watchFill(&st)
	case state.Verifying:
		if sides, err := m.s.SideStates(); err != nil || sides[st.From].Comparing && sides[st.To].Filling == nil {
			return false, err
		}
		return m.verify(ctx)
	case state.Diverged:
		return m.maybeRepair(&st)
	case state.Repairing:
		return m.watchRepair(&st)
	case state.RollingBack:
		return true, m.rollBack(ctx, m.o.Actor, RollbackOptions{})
	case state.Cutover:
		return m.compareHealed(ctx, &st)
	}
	return false, nil
}

func notCombined(st *state.State, kind cq.Kind) string {
	switch st.Phase {
	case state.Finalizing:
		return fmt.Sprintf("the store was opened with its %s queues alone, and the %s queues are kept", kind, st.Kept)
	case state.Planned:
		return "the broker has to be restarted: it then writes files and RocksDB both"
	case state.Finalized:
		return fmt.Sprintf("the migration is finalized, and the store has its %s queues alone", st.Kept)
	}
	return fmt.Sprintf("the store was opened with its %s queues alone, and the migration goes on when it is opened with both", kind)
}

// roles are those that the state asks for.
func roles(st *state.State) store.SideRoles {
	switch st.Phase {
	case state.Cutover, state.RollingBack:
		return store.SideRoles{Preferred: st.To, Authority: st.To}
	case state.Finalizing:
		return store.SideRoles{Preferred: st.Kept, Authority: st.Kept}
	}
	r := store.SideRoles{Preferred: st.From, Authority: st.From}
	if st.Phase == state.Verified && st.Online != nil {
		r.Topics = st.Online.CanaryTopics
	}
	return r
}

// giveRoles gives the sides the roles that the state asks for, where they have others.
func (m *Migration) giveRoles(st *state.State) error {
	have, err := m.s.SideRoles()
	want := roles(st)
	if err != nil || have.Preferred == want.Preferred && have.Authority == want.Authority && slices.Equal(have.Topics, want.Topics) {
		return err
	}
	return m.s.SetSideRoles(want)
}

// watchFill looks how far the store has filled the target.
func (m *Migration) watchFill(st *state.State) (more bool, err error) {
	sides, err := m.s.SideStates()
	if err != nil {
		return false, err
	}
	source, target := sides[st.From], sides[st.To]
	if fill := target.Filling; fill != nil {
		m.progress(fill.Done)
		if st.Phase == state.Backfilling && fill.Done >= target.History {
			return true, m.advance(state.HistoryEnd, m.o.Actor, fmt.Sprintf("the log up to %d", target.History), func(st *state.State) { st.BackfilledTo = fill.Done })
		}
		if m.now().Sub(m.saved) >= saveEvery {
			m.saved = m.now()
			if err := m.change(func(st *state.State) { st.BackfilledTo = fill.Done }); err != nil {
				return false, err
			}
		}
	}
	if err := errors.Join(source.Failure, target.Failure); err != nil {
		return false, fmt.Errorf("a side will not come to have what it lacks, until the store is opened again: %w", err)
	}
	if source.Filling != nil || target.Filling != nil || source.Diverged+target.Diverged > 0 || source.Comparing {
		m.wait("")
		return false, nil
	}
	if st.Phase == state.Backfilling {
		return true, m.advance(state.HistoryEnd, m.o.Actor, "", nil)
	}
	end := m.s.Watermarks().Appended
	m.rounds = 0
	return true, m.advance(state.CaughtUp, m.o.Actor, fmt.Sprintf("both sides are written; the log ends at %d", end), func(st *state.State) { st.BackfilledTo = end })
}

// change makes a change durable that does not move the state.
func (m *Migration) change(change func(st *state.State)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := copyState(m.mu.st)
	change(next)
	if err := next.Save(m.dir); err != nil {
		return err
	}
	m.mu.st = next
	return nil
}

// maybeRepair begins a repair when queues are being built again.
func (m *Migration) maybeRepair(st *state.State) (more bool, err error) {
	sides, err := m.s.SideStates()
	if err != nil {
		return false, err
	}
	n := sides[st.From].Diverged + sides[st.To].Diverged
	if n == 0 && !m.mending {
		return false, nil
	}
	m.mending = false // that may have been done before anybody looked
	if m.rounds >= maxRounds {
		m.wait(fmt.Sprintf("queues were built again %d times and still differ", m.rounds))
		return false, nil
	}
	m.rounds++
	note := fmt.Sprintf("%d queues are built again from the log", n)
	if n == 0 {
		note = "queues were built again from the log"
	}
	return true, m.advance(state.RepairStart, m.o.Actor, note, nil)
}

func (m *Migration) watchRepair(st *state.State) (more bool, err error) {
	sides, err := m.s.SideStates()
	if err != nil {
		return false, err
	}
	if err := errors.Join(sides[st.From].Failure, sides[st.To].Failure); err != nil {
		return false, err
	}
	if sides[st.From].Diverged+sides[st.To].Diverged > 0 {
		return false, nil
	}
	return true, m.advance(state.RepairEnd, m.o.Actor, "", nil)
}
