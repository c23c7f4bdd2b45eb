package online

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// refused is a *migrate.RefusedError.
func refused(step string, reasons ...string) error {
	return &migrate.RefusedError{Step: step, Reasons: reasons}
}

// BeginOptions of Begin.
type BeginOptions struct {
	// To is the side to move to. Empty: the one that the store does not serve from.
	To cq.Kind
	// Layout says where a new RocksDB goes. Empty: state.LayoutSeparate.
	Layout state.RocksLayout
	// BatchTopics are topics with batch queues, which RocksDB cannot hold.
	BatchTopics []string
	// AnySpace begins although the disk seems to have too little room.
	AnySpace bool
}

// Begin sets a migration up. A store with one kind of queues has to be opened again, with what Require answers then; one that is combined goes on at once. A migration that is under way in the same
// direction stays as it is. actor says who asked, for the audit trail, here and below.
//
// Errors: *migrate.RefusedError; those of the state's file.
func (m *Migration) Begin(ctx context.Context, actor string, o BeginOptions) error {
	if err := m.comparing("begin"); err != nil {
		return err
	}
	m.step.Lock()
	defer m.step.Unlock()
	st := m.state()
	from, err := m.serving()
	if err != nil {
		return err
	}
	if o.To == "" {
		o.To = otherKind(from)
		if st.Online != nil && underWay(st.Phase) {
			o.To = st.To
		}
	}
	switch {
	case o.To != cq.KindFile && o.To != cq.KindRocks:
		return refused("begin", fmt.Sprintf("side %q: use %s or %s", o.To, cq.KindFile, cq.KindRocks))
	case st.Online != nil && underWay(st.Phase) && st.To == o.To:
		return nil
	case st.Online != nil && underWay(st.Phase):
		return refused("begin", fmt.Sprintf("a migration from %s to %s is under way, and %s: roll it back first", st.From, st.To, st.Phase))
	case st.Phase == state.Cutover || st.Phase == state.RollingBack || st.Phase == state.Finalizing:
		return refused("begin", fmt.Sprintf("the migration from %s to %s is %s: finalize it, or roll it back first", st.From, st.To, st.Phase))
	case underWay(st.Phase) && st.Phase != state.Planned:
		return refused("begin", fmt.Sprintf("the migration from %s to %s of the stopped store is %s: go on with it there (`tandemmq migrate run`), which ends with a cutover or can be begun anew", st.From, st.To, st.Phase))
	case from == o.To:
		return refused("begin", fmt.Sprintf("the store is read from its %s queues already", o.To))
	}
	if reasons := m.obstacles(ctx, &o); len(reasons) > 0 {
		return refused("begin", reasons...)
	}
	if o.Layout == "" {
		o.Layout = state.LayoutSeparate
	}
	m.certified, m.covered, m.rounds, m.mending, m.stuck = nil, nil, 0, false, false
	note := fmt.Sprintf("from %s to %s in a running broker", from, o.To)
	if !m.combined() {
		note += ", which has to be restarted once to write both"
	}
	err = m.advance(state.Plan, actor, note, func(st *state.State) {
		st.From, st.To, st.RocksLayout, st.CQFileSize = from, o.To, o.Layout, m.o.CQFileBytes
		st.BackfilledTo, st.Verified, st.Notices, st.BuiltQueues, st.Missing, st.TargetCreated, st.Kept = -1, nil, nil, nil, "", false, ""
		st.Online = &state.Online{}
	})
	if st := m.state(); err == nil && !m.combined() {
		m.wait(notCombined(&st, m.o.Kind))
	}
	m.kickNow()
	return err
}

func underWay(p state.Phase) bool {
	switch p {
	case state.Planned, state.Backfilling, state.CatchingUp, state.Verifying, state.Verified, state.Diverged, state.Repairing:
		return true
	}
	return false
}

func otherKind(k cq.Kind) cq.Kind {
	if k == cq.KindFile {
		return cq.KindRocks
	}
	return cq.KindFile
}

// serving returns the side that the store is read from.
func (m *Migration) serving() (cq.Kind, error) {
	if !m.combined() {
		return m.o.Kind, nil
	}
	r, err := m.s.SideRoles()
	return r.Preferred, err
}

// obstacles are reasons against a migration that are known beforehand.
func (m *Migration) obstacles(ctx context.Context, o *BeginOptions) (reasons []string) {
	if len(o.BatchTopics) > 0 {
		reasons = append(reasons, "topics with batch queues cannot be held by RocksDB: "+strings.Join(o.BatchTopics, ", "))
	}
	keys, err := m.s.Queues()
	if err != nil {
		return append(reasons, err.Error())
	}
	if m.combined() {
		return reasons // both sides are there
	}
	if m.o.FreeBytes == nil || o.AnySpace {
		return reasons
	}
	need, err := m.space(ctx, o.To, keys)
	if err != nil {
		return append(reasons, fmt.Sprintf("what room is needed cannot be found out: %v", err))
	}
	if free, err := m.o.FreeBytes(); err != nil || free < need {
		reasons = append(reasons, fmt.Sprintf("about %d bytes are needed for the %s side, %d are free %v", need, o.To, free, errors.Join(err)))
	}
	return reasons
}

// Verify has everything be verified again, from the first unit on. Canary topics are read from the source again. After a rollback, while both sides are still written, it leads on to another cutover.
//
// Errors: *migrate.RefusedError; those of the state's file.
func (m *Migration) Verify(_ context.Context, actor string) (err error) {
	defer m.asks("verify", actor)(&err)
	m.lockNow()
	defer m.step.Unlock()
	st := m.state()
	switch {
	case st.Online == nil:
		return refused("verify", nothing(&st))
	case st.Phase == state.Planned || st.Phase == state.Backfilling || st.Phase == state.CatchingUp:
		return refused("verify", fmt.Sprintf("the migration is %s: it is verified when the target is filled", st.Phase))
	case !m.combined():
		return refused("verify", notCombined(&st, m.o.Kind))
	}
	m.rounds, m.retry = 0, time.Time{}
	err = m.advance(state.VerifyStart, actor, "", func(st *state.State) { st.Online.Verified, st.Online.CanaryTopics = nil, nil })
	if err != nil {
		return m.refuse("verify", err)
	}
	m.kickNow()
	return m.giveRolesNow()
}

func nothing(st *state.State) string {
	if st.Phase == state.Absent || st.Phase == "" {
		return "no migration has been begun: use begin"
	}
	return fmt.Sprintf("the migration from %s to %s is one of the stopped store, and %s", st.From, st.To, st.Phase)
}

// refuse makes a refusal of a transition that is not possible.
func (m *Migration) refuse(step string, err error) error {
	var bad *state.TransitionError
	if errors.As(err, &bad) {
		return refused(step, bad.Error())
	}
	return err
}

func (m *Migration) giveRolesNow() error {
	st := m.state()
	return m.giveRoles(&st)
}

// lockNow is m.step.Lock for a step that does not wait for a comparison under way: it ends it.
func (m *Migration) lockNow() {
	m.urgent.Add(1)
	m.mu.Lock()
	if m.mu.cancel != nil {
		m.mu.cancel()
	}
	m.mu.Unlock()
	m.step.Lock()
	m.urgent.Add(-1)
}

// comparing refuses a step that would have to wait for a comparison.
func (m *Migration) comparing(step string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.cancel == nil {
		return nil
	}
	return refused(step, fmt.Sprintf("the migration is %s: %d of %d queues are compared", m.mu.st.Phase, m.mu.done, m.mu.of))
}

// Cutover moves reads, and the say about the next offset, to the target; of topics alone it moves the reads, in addition to those that were moved before. First it compares the queues of these topics, or all, once
// more from the first unit on, at the pace of a verification, and of the others what came since. It is refused unless the migration is verified, both sides are whole, and that comparison finds nothing.
//
// Errors: *migrate.RefusedError, *DiffersError, which leave reads where they are; those of the store.
func (m *Migration) Cutover(ctx context.Context, actor string, topics []string) (err error) {
	defer m.asks("cutover", actor)(&err)
	if err := m.comparing("cutover"); err != nil {
		return err
	}
	m.step.Lock()
	defer m.step.Unlock()
	st := m.state()
	switch {
	case st.Online == nil:
		return refused("cutover", nothing(&st))
	case st.Phase == state.Cutover && len(topics) == 0:
		return m.giveRolesNow() // it was done
	case st.Phase != state.Verified || st.Online.Verified == nil || m.certified == nil:
		return refused("cutover", fmt.Sprintf("the migration is %s, not verified", st.Phase))
	case !m.combined():
		return refused("cutover", notCombined(&st, m.o.Kind))
	}
	if err := m.known(topics); err != nil {
		return err
	}
	if err := m.whole("cutover", st.From, st.To); err != nil {
		return err
	}
	if err := m.onDisk(ctx, "cutover", st.From, st.To); err != nil {
		return err
	}
	if _, err := m.compareAgain(ctx, "cutover", scope{since: m.certified, all: len(topics) == 0, topics: topics, share: verifyShare}); err != nil {
		return err
	}
	if err := m.whole("cutover", st.From, st.To); err != nil { // it may have taken long
		return err
	}
	if err := m.onDisk(ctx, "cutover", st.From, st.To); err != nil {
		return err
	}
	if len(topics) > 0 {
		return m.moveCanaries(actor, slices.Concat(st.Online.CanaryTopics, topics))
	}
	note := fmt.Sprintf("%d queues, compared from their first units up to %d", m.certified.Len(), m.state().Online.Verified.LogEnd)
	if err := m.advance(state.CutOver, actor, note, func(st *state.State) { st.Online.CanaryTopics = nil }); err != nil {
		return err
	}
	if err := m.giveRolesNow(); err != nil { // a side has failed in this very moment
		back := errors.Join(m.advance(state.RollbackStart, actor, "reads did not move: "+err.Error(), nil), m.giveBack(actor))
		return errors.Join(fmt.Errorf("cutover: %w", err), back)
	}
	return nil
}

// known tells whether there are such topics.
func (m *Migration) known(topics []string) error {
	if len(topics) == 0 {
		return nil
	}
	keys, err := m.s.Queues()
	if err != nil {
		return err
	}
	var reasons []string
	for _, t := range topics {
		if !slices.ContainsFunc(keys, func(k cq.Key) bool { return k.Topic == t }) {
			reasons = append(reasons, fmt.Sprintf("topic %s has no queues here", t))
		}
	}
	if len(reasons) > 0 {
		return refused("cutover", reasons...)
	}
	return nil
}

// whole tells why sides lack something.
func (m *Migration) whole(step string, kinds ...cq.Kind) error {
	sides, err := m.s.SideStates()
	if err != nil {
		return err
	}
	if reasons := lacks(sides, kinds...); len(reasons) > 0 {
		return refused(step, reasons...)
	}
	return nil
}

// lacks says in words what sides lack.
func lacks(sides map[cq.Kind]store.SideState, kinds ...cq.Kind) (reasons []string) {
	for _, kind := range kinds {
		s := sides[kind]
		if s.Comparing && s.Filling == nil {
			reasons = append(reasons, fmt.Sprintf("the %s side is being compared with the log since the store was opened", kind))
		}
		if s.Filling != nil {
			reasons = append(reasons, fmt.Sprintf("the %s side is being filled, and is at %d of %d", kind, s.Filling.Done, s.Filling.To))
		}
		if s.Diverged > 0 {
			reasons = append(reasons, fmt.Sprintf("%d queues are being built again on the %s side", s.Diverged, kind))
		}
		if s.Given > 0 {
			reasons = append(reasons, fmt.Sprintf("%d queues of the %s side differ, or it cannot have them: of a queue that differs, `tandemmq migrate online resolve --queue TOPIC/ID` says what stays", s.Given, kind))
		}
		if s.Failure != nil {
			reasons = append(reasons, fmt.Sprintf("the %s side was given up: %v", kind, s.Failure))
		}
	}
	return reasons
}

// onDisk refuses a step where files of a side are not in their directory as they should be: what a process has open it goes on reading, so that no comparison tells.
func (m *Migration) onDisk(ctx context.Context, step string, kinds ...cq.Kind) error {
	var reasons []string
	for _, kind := range kinds {
		lost, err := m.s.LostFiles(ctx, kind)
		if err != nil {
			return fmt.Errorf("%s: look for the files of the %s side: %w", step, kind, err)
		}
		for _, what := range lost {
			reasons = append(reasons, fmt.Sprintf("the %s side is not on the disk as it is read: %s", kind, what))
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	reasons[len(reasons)-1] += ". What is lost is built again from the log when the broker is stopped in order and started, with both sides as now: then repeat the step"
	return refused(step, reasons...)
}

// compareAgain compares what s says, and takes what was found for the certificate. What differs voids it.
func (m *Migration) compareAgain(ctx context.Context, step string, s scope) (*comparison, error) {
	c, err := m.compare(ctx, step, s)
	var differs *DiffersError
	if errors.As(err, &differs) {
		return nil, errors.Join(err, m.noteDifferences(c, differs))
	}
	if err == nil && s.counts() && s.alone == "" {
		err = c.keep()
	}
	if errors.Is(err, context.Canceled) {
		return nil, refused(step, "it was given up, as another step was asked for, or the store is being closed")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", step, err)
	}
	return c, m.change(func(st *state.State) {
		st.Online.Findings = c.findings
		if !s.counts() {
			return
		}
		if v := st.Online.Verified; v != nil && !s.all {
			c.coverage.Records += v.Records
		}
		st.Online.Verified, st.Online.Differences = &c.coverage, nil
	})
}

// noteDifferences voids what was verified. Before the cutover that is the phase too.
func (m *Migration) noteDifferences(c *comparison, differs *DiffersError) error {
	m.mending = differs.Mending
	void := func(st *state.State) {
		st.Online.Verified, st.Online.CanaryTopics, st.Online.Differences, st.Online.Findings = nil, nil, differs.Differences, c.findings
	}
	if m.state().Phase == state.Verified {
		return errors.Join(m.advance(state.VerifyDiffers, m.o.Actor, "found by "+differs.Step, void), m.giveRolesNow())
	}
	if c.counts() && c.alone == "" {
		m.certified, m.covered = c.found, &c.coverage // of what differs nothing counts
	}
	note := fmt.Sprintf("%s: %d queues, %s", differs.Step, differs.Queues, differs.Differences[0])
	return m.change(func(st *state.State) {
		void(st)
		st.Note(state.StepDiffers, m.o.Actor, note, m.now())
	})
}

// busy tells whether a side is not there as a whole, whatever single queues lack.
func busy(s store.SideState) bool { return s.Comparing || s.Filling != nil || s.Failure != nil }

// compareHealed compares queues that differed after the cutover, when they were built again.
func (m *Migration) compareHealed(ctx context.Context, st *state.State) (more bool, err error) {
	if !m.mending {
		return false, nil
	}
	sides, err := m.s.SideStates()
	if err != nil || sides[st.From].Diverged+sides[st.To].Diverged > 0 || busy(sides[st.From]) || busy(sides[st.To]) {
		return false, err
	}
	m.mending = false // once: what it finds waits for somebody
	only := openQueues(st)
	if len(only) == 0 {
		return false, nil
	}
	c, err := m.compare(ctx, "verify", scope{only: only, share: verifyShare})
	var differs *DiffersError
	if errors.As(err, &differs) {
		m.mending = differs.Mending && m.rounds < maxRounds
		m.rounds++
		return true, m.change(func(st *state.State) { st.Online.Differences, st.Online.Findings = differs.Differences, c.findings })
	}
	if err != nil {
		m.mending = true // it is tried again
		return false, err
	}
	m.rounds = 0
	m.certified = m.certified.With(c.found)
	return true, m.change(func(st *state.State) {
		st.Online.Findings = c.findings
		if c.findings.Remaining() == 0 {
			st.Online.Differences = nil
			if v := m.covered; v != nil && m.certified != nil {
				all := *v
				all.Queues += c.coverage.Queues
				all.Units += c.coverage.Units
				all.Records += c.coverage.Records
				st.Online.Verified = &all
			}
		}
		st.Note(state.Healed, m.o.Actor, fmt.Sprintf("%d queues were built again from the log, and are the same", len(c.same)), m.now())
	})
}

// moveCanaries has topics read from the target.
func (m *Migration) moveCanaries(actor string, topics []string) error {
	slices.Sort(topics)
	topics = slices.Compact(topics)
	before := m.state().Online.CanaryTopics
	move := func(to []string, note string) error {
		return m.advance(state.Canary, actor, note, func(st *state.State) { st.Online.CanaryTopics = to })
	}
	if err := move(topics, "read from the target: "+strings.Join(topics, ", ")); err != nil {
		return err
	}
	if err := m.giveRolesNow(); err != nil {
		return errors.Join(fmt.Errorf("cutover: %w", err), move(before, "reads did not move: "+err.Error()))
	}
	return nil
}

// RollbackOptions of Rollback.
type RollbackOptions struct {
	// Quick compares the ends of the queues alone, also where nothing counts that was compared before.
	Quick bool
}

// Rollback moves reads back to the source, which must have whatever the target has: the ends of the queues and what came since the last comparison are compared first, unless the target has failed. What was
// compared before is not read again, and the audit trail says how much that is. Where no comparison counts, all is compared, unless o says otherwise. Before the cutover it gives the
// migration up; canary topics are read from the source again. Both sides are still written, so that Verify leads on to another cutover; Finalize ends that.
//
// Errors: *migrate.RefusedError, *DiffersError, which leave reads where they are; those of the store.
func (m *Migration) Rollback(ctx context.Context, actor string, o RollbackOptions) (err error) {
	defer m.asks("rollback", actor)(&err)
	m.lockNow()
	defer m.step.Unlock()
	m.retry, m.stuck = time.Time{}, false
	st := m.state()
	switch {
	case st.Online == nil:
		return refused("rollback", nothing(&st))
	case st.Phase == state.RolledBack:
		return nil
	case underWay(st.Phase):
		if err := m.advance(state.Cancel, actor, "given up before reads have moved", func(st *state.State) { st.Online.CanaryTopics, st.Online.Verified = nil, nil }); err != nil {
			return err
		}
		if !m.combined() {
			return nil
		}
		return m.giveRolesNow()
	case st.Phase == state.Finalizing && st.Kept != st.To, st.Phase == state.Finalized:
		return refused("rollback", fmt.Sprintf("the migration is %s, and the %s side is kept", st.Phase, st.Kept))
	case !m.combined():
		return refused("rollback", notCombined(&st, m.o.Kind))
	}
	if st.Phase != state.RollingBack {
		note, err := m.readyToRollBack(ctx, &st, o) // before anything is noted
		if err != nil {
			return err
		}
		if err := m.advance(state.RollbackStart, actor, note, func(st *state.State) { st.Kept = "" }); err != nil {
			return m.refuse("rollback", err)
		}
		return m.giveBack(actor)
	}
	return m.rollBack(ctx, actor, o)
}

// readyToRollBack tells why reads cannot go back to the source. note says what was compared for it.
func (m *Migration) readyToRollBack(ctx context.Context, st *state.State, o RollbackOptions) (note string, err error) {
	if err := m.whole("rollback", st.From); err != nil {
		return "", err
	}
	sides, err := m.s.SideStates()
	if err != nil {
		return "", err
	}
	if target := sides[st.To]; !target.Whole() {
		m.o.Logger.Warn("the sides are not compared before the rollback: the one that is left lacks something", slog.String("kind", string(st.To)), slog.Any("err", target.Failure))
		return fmt.Sprintf("nothing was compared: the %s side lacks something", st.To), nil
	}
	before := st.Online.Verified
	c, err := m.compareAgain(ctx, "rollback", scope{since: m.certified, ends: o.Quick})
	switch {
	case err != nil:
		return "", err
	case c.unread == 0:
		return "all units were compared", nil
	case before == nil || o.Quick:
		return fmt.Sprintf("the ends of the queues were compared, and %d units were not: `verify` compares them", c.unread), nil
	}
	return fmt.Sprintf("the ends and what came last were compared; %d units that were the same by %s were not read again: `verify` compares them", c.unread, before.Time.Format(time.RFC3339)), nil
}

// rollBack goes on with a rollback that was begun.
func (m *Migration) rollBack(ctx context.Context, actor string, o RollbackOptions) error {
	st := m.state()
	if _, err := m.readyToRollBack(ctx, &st, o); err != nil {
		return err
	}
	return m.giveBack(actor)
}

// giveBack gives reads and authority back, and notes it.
func (m *Migration) giveBack(actor string) error {
	st := m.state()
	back := st
	back.Phase = state.RolledBack
	if err := m.giveRoles(&back); err != nil {
		return fmt.Errorf("rollback: %w", err)
	}
	return m.advance(state.RollbackEnd, actor, "", func(st *state.State) { st.Online.Verified, st.Online.CanaryTopics = nil, nil })
}

// Finalize gives up the side that reads do not belong to: the source after a cutover, the target after a rollback. First the side that is kept is compared once more, each unit of each queue: with the other side or,
// where that is not whole, with the log; at the pace of a verification. The other side is moved aside by Finish when the store is next opened after a stop in order, within a day: later the side that is kept is compared
// again before. It is deleted when grace is over (0: DefaultGrace). Until then it can be rolled back.
//
// Errors: *migrate.RefusedError, *DiffersError, which leave everything as it is; those of the store and of the state's file.
func (m *Migration) Finalize(ctx context.Context, actor string, grace time.Duration) (err error) {
	defer m.asks("finalize", actor)(&err)
	if err := m.comparing("finalize"); err != nil {
		return err
	}
	m.step.Lock()
	defer m.step.Unlock()
	m.stuck = false
	st := m.state()
	if st.Online == nil {
		return refused("finalize", nothing(&st))
	}
	kept := st.To
	switch st.Phase {
	case state.Finalized:
		return nil
	case state.Cutover:
	case state.RolledBack:
		kept = st.From
	case state.Finalizing:
		kept = st.Kept
	default:
		return refused("finalize", fmt.Sprintf("the migration is %s: only after a cutover, or a rollback, is there a side to give up", st.Phase))
	}
	how, err := m.compareWhole(ctx, kept)
	if err != nil {
		return err
	}
	if grace <= 0 {
		grace = DefaultGrace
	}
	note := fmt.Sprintf("%s; the %s queues are kept, the others are moved aside by the next start, and deleted %v later", how, kept, grace)
	return m.refuse("finalize", m.advance(state.FinalizeStart, actor, note, func(st *state.State) {
		st.Kept, st.Online.GraceSeconds = kept, int64(grace.Seconds())
	}))
}

// compareWhole compares the side that is to be kept, from its first units on, and says how.
func (m *Migration) compareWhole(ctx context.Context, kept cq.Kind) (how string, err error) {
	s := scope{all: true, share: verifyShare}
	with := "the log"
	if !m.combined() {
		if st := m.state(); m.o.Kind != kept {
			return "", refused("finalize", notCombined(&st, m.o.Kind))
		}
		s.alone = kept
	} else {
		if err := m.whole("finalize", kept); err != nil {
			return "", err
		}
		if err := m.lights(kept); err != nil {
			return "", err
		}
		sides, err := m.s.SideStates()
		if err != nil {
			return "", err
		}
		if other := sides[otherKind(kept)]; other.Whole() {
			with = fmt.Sprintf("the %s queues", other.Kind)
		} else {
			s.alone = kept
		}
	}
	if err := m.onDisk(ctx, "finalize", kept); err != nil {
		return "", err
	}
	c, err := m.compareAgain(ctx, "finalize", s)
	if err != nil {
		return "", err
	}
	if m.combined() {
		if err := m.whole("finalize", kept); err != nil { // it may have taken long
			return "", err
		}
	}
	if err := m.onDisk(ctx, "finalize", kept); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d units of %d queues were compared with %s", c.coverage.Units, c.coverage.Queues, with), nil
}

// compareKept compares the side that is kept where that was done long ago, or does not count any more: nothing is moved aside before.
func (m *Migration) compareKept(ctx context.Context, st *state.State) (more bool, err error) {
	if finalizeDue(st, m.now()) || m.stuck {
		return false, nil
	}
	if m.combined() {
		if err := m.giveRoles(st); err != nil {
			return false, err
		}
		sides, err := m.s.SideStates()
		if kept := sides[st.Kept]; err != nil || busy(kept) && kept.Failure == nil || kept.Diverged > 0 {
			m.wait("the side that is kept is compared once more, when it has whatever it lacks")
			return false, err
		}
	}
	_, err = m.compareWhole(ctx, st.Kept)
	var differs *DiffersError
	if errors.As(err, &differs) {
		m.stuck = !differs.Mending || m.rounds >= maxRounds
		m.rounds++
		m.wait(err.Error())
		return false, nil
	}
	if err == nil {
		m.rounds = 0
		m.wait("")
	}
	return false, err
}

// finalizeDue tells whether what was announced may be done: the side that is kept was compared a short time ago.
func finalizeDue(st *state.State, now time.Time) bool {
	v := st.Online.Verified
	return v != nil && now.Sub(v.Time) < finalizeWithin
}

// lights refuses to give RocksDB up while it has light queues for itself.
func (m *Migration) lights(kept cq.Kind) error {
	if kept != cq.KindFile || !m.o.LightAlone {
		return nil
	}
	keys, err := m.s.Queues()
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.IsLMQ() {
			return refused("finalize", fmt.Sprintf("light queues, %s for one, are in RocksDB alone: open the store with combineCQUseRocksdbForLmq=false and enableMultiDispatch=true first, which fills the files", k))
		}
	}
	return nil
}
