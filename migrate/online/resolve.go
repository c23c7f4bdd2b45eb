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

// Resolve has one side of each of the queues stay, whatever the log says of it: for differences that the log does not decide, which keep everything else from going on. side is the one whose units stay; empty: the one that the
// queue is read from. The other side gets a copy; where there is no whole other side, the queue is only not held against the log any more, up to where it ends now. Who has chosen what is in the audit trail, and in
// Status.Chosen. Verified before the cutover is nothing then; when nothing else differs the verification begins again.
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
	case side != "" && side != cq.KindFile && side != cq.KindRocks:
		return refused("resolve", fmt.Sprintf("side %q: use %s or %s", side, cq.KindFile, cq.KindRocks))
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
	m.stuck = false
	for _, k := range keys {
		if err := m.resolveOne(ctx, actor, k, side); err != nil {
			return fmt.Errorf("resolve: %w", err)
		}
	}
	st = m.state()
	if st.Online.Findings.Remaining() > 0 || st.Phase != state.Diverged {
		m.kickNow()
		return nil
	}
	m.rounds, m.mending = 0, false
	err = m.advance(state.VerifyStart, actor, "a side was chosen of each queue that differed", nil)
	m.kickNow()
	return err
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
