package online

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// KeepLog is for Resolve: the log is what stays.
const KeepLog cq.Kind = "log"

// Resolve has one side of each of the queues stay, whatever the log says of it: for differences that the log does not decide, which keep everything else from going on. side is the one whose units stay; empty: the one that the
// queue is read from. The other side gets a copy; where there is no whole other side, the queue is only not held against the log any more, up to where it ends now. Who has chosen what is in the audit trail, and in
// Status.Chosen. Verified before the cutover is nothing then; when nothing else differs the verification begins again. With KeepLog nothing is chosen: the queues are built again from the log on both sides, as far as it has
// their records, and compared then.
//
// Errors: *migrate.RefusedError, for a queue in which nothing was found; those of the store, after which the queues before are done.
func (m *Migration) Resolve(ctx context.Context, actor string, keys []cq.Key, side cq.Kind) (err error) {
	defer m.asks("resolve", actor)(&err)
	if err := m.comparing("resolve"); err != nil {
		return err
	}
	m.step.Lock()
	defer m.step.Unlock()
	st := m.state()
	switch {
	case st.Online == nil:
		return refused("resolve", nothing(&st))
	case len(keys) == 0:
		return refused("resolve", "say which queues, each as TOPIC/ID")
	case side != "" && side != cq.KindFile && side != cq.KindRocks && side != KeepLog:
		return refused("resolve", fmt.Sprintf("side %q: use %s, %s or %s", side, cq.KindFile, cq.KindRocks, KeepLog))
	case st.Phase == state.Planned || st.Phase == state.Backfilling || st.Phase == state.CatchingUp || st.Phase == state.Finalized:
		return refused("resolve", fmt.Sprintf("the migration is %s: nothing was compared", st.Phase))
	}
	t := newTally(&st)
	var reasons []string
	for _, k := range keys {
		if _, open := t.open[k]; !open && t.more == 0 {
			reasons = append(reasons, fmt.Sprintf("nothing was found in queue %s, or it was healed", k))
		}
	}
	if len(reasons) > 0 {
		return refused("resolve", reasons...)
	}
	m.stuck, m.rounds = false, 0
	if side == KeepLog {
		return m.rebuild(actor, keys)
	}
	for _, k := range keys {
		if err := m.resolveOne(ctx, actor, k, side); err != nil {
			return fmt.Errorf("resolve: %w", err)
		}
	}
	m.skipMet()
	st = m.state()
	if st.Online.Findings.Remaining() > 0 || st.Phase != state.Diverged {
		m.kickNow()
		return nil
	}
	m.mending = false
	err = m.advance(state.VerifyStart, actor, "a side was chosen of each queue that differed", nil)
	m.kickNow()
	return err
}

// rebuild has queues be built again from the log.
func (m *Migration) rebuild(actor string, keys []cq.Key) error {
	var names []string
	for _, k := range keys {
		if err := m.s.RebuildQueue(k); err != nil {
			return fmt.Errorf("resolve: %w", err)
		}
		names = append(names, k.String())
	}
	m.skipMet()
	m.mending = true
	m.kickNow()
	what := "built again from the log: " + strings.Join(names[:min(len(names), maxDifferences)], ", ")
	if more := len(names) - maxDifferences; more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	return m.change(func(st *state.State) { st.Note(state.QueueRebuilt, actor, what, m.now()) })
}

func (m *Migration) resolveOne(ctx context.Context, actor string, k cq.Key, side cq.Kind) error {
	kept, err := m.s.KeepSide(ctx, k, side)
	what := ""
	switch {
	case err == nil:
		what = fmt.Sprintf("queue %s: the %s side stays, and the other one has got its %d units", k, kept.Side, kept.Copied)
	case errors.Is(err, store.ErrNotCombined) || errors.Is(err, store.ErrRebuilding):
		serves, roles := m.serving()
		b, there, look := m.s.Bounds(k)
		switch {
		case roles != nil || look != nil:
			return errors.Join(roles, look)
		case !there:
			return err
		case side != "" && side != serves:
			return refused("resolve", fmt.Sprintf("queue %s: the %s side is not whole: %v", k, side, err))
		}
		kept = store.KeptSide{Key: k, Side: serves, To: b.Max}
		what = fmt.Sprintf("queue %s: the %s side stays as it is up to slot %d", k, serves, b.Max)
	default:
		return err
	}
	m.certified = m.certified.Without(k)
	return m.change(func(st *state.State) {
		t := newTally(st)
		t.kept(k)
		o := st.Online
		o.Findings = t.findings()
		one := state.KeptQueue{QueueName: nameOf(k), Side: kept.Side, To: kept.To, By: actor, Time: m.now().UTC()}
		at, found := slices.BinarySearchFunc(o.Kept, k, func(q state.KeptQueue, k cq.Key) int { return keyOf(q.QueueName).Compare(k) })
		if found {
			o.Kept[at] = one
		} else {
			o.Kept = slices.Insert(o.Kept, at, one)
		}
		mine := fmt.Sprintf("queue %s: ", k)
		var was []string
		var rest []string
		for _, d := range o.Differences {
			if strings.HasPrefix(d, mine) {
				was = append(was, strings.TrimPrefix(d, mine))
			} else {
				rest = append(rest, d)
			}
		}
		if o.Differences = rest; len(was) > 0 {
			what += "; it was: " + strings.Join(was[:min(len(was), 3)], "; ")
		}
		st.Note(state.QueueKept, actor, what, m.now())
	})
}
