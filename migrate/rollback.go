package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/tandemq/tandemmq/cq"
)

// Rollback gives reads back to the side the migration came from. First that side is brought up to the log's end: what it
// lacks is taken from the other side, and from the log where that side ends before it; then both are compared in full.
// With commit false it only says whether it would begin, and writes nothing.
//
// With Options.FromLog the other side is not read at all (it is damaged or gone): every unit of the old side is proven
// against the log, and what follows is made from the log alone.
//
// Errors: *RefusedError, *DifferentError (the old side disagrees, see Options.ReplaceTarget), others (I/O; repeat).
func (m *Migrator) Rollback(ctx context.Context, commit bool) (_ *CutoverResult, err error) {
	start := time.Now()
	res := &CutoverResult{DryRun: !commit, Active: m.state.From}
	switch m.state.Phase {
	case PhaseRolledBack:
		res.Nothing, res.DryRun = true, false
		return res, m.conf(res)
	case PhaseCutover, PhaseRollingBack:
	default:
		return nil, &RefusedError{Step: "rollback", Reasons: []string{fmt.Sprintf("the migration is %s: reads never left the %s side", m.state.Phase, m.sideNow())}}
	}
	from := m.state.To
	if m.opt.FromLog {
		from = m.state.From
	}
	r := m.storeReasons() // from the log, the side may be missing altogether
	if !m.opt.FromLog {
		r = m.preconditions(from)
	}
	if len(r) > 0 {
		if !m.opt.FromLog && !m.dir.found(from) {
			r = append(r, fmt.Sprintf("where the %s side is lost, --from-log brings the %s side up from the log alone", m.state.To, m.state.From))
		}
		return nil, &RefusedError{Step: "rollback", Reasons: r}
	}
	if res.Metadata, err = m.moveMetadata("rollback", m.state.From, false); err != nil {
		return nil, err
	}
	f := &fill{
		m: m, step: "rollback", from: from, to: m.state.From, rollback: !m.opt.FromLog, fromLog: m.opt.FromLog, dry: !commit,
		join: joinOptions{known: m.dir.KnownTopics, missing: m.opt.Missing, extendFromLog: true, acceptTornTail: m.opt.AcceptTornTail},
	}
	if m.opt.FromLog {
		if f.join.light, err = m.hadLightQueues(); err != nil {
			return nil, err
		}
	}
	b, err := f.run(ctx)
	if err != nil {
		return nil, err
	}
	if !commit {
		return res, m.conf(res)
	}
	res.Backfill = *b
	if err := m.compareBack(ctx, res); err != nil {
		return nil, err
	}
	res.Notices.Merge(&b.Notices)
	if err := m.logicsPosition(ctx, m.state.From); err != nil {
		return nil, err
	}
	if res.Metadata, err = m.moveMetadata("rollback", m.state.From, true); err != nil {
		return nil, err
	}
	if err := m.advance(EventRollbackEnd, fmt.Sprintf("%d units added, %d compared", b.Units, res.Units)); err != nil {
		return nil, err
	}
	res.Elapsed = time.Since(start)
	return res, m.conf(res)
}

// hadLightQueues tells whether light queues were verified here: then the old side's having none does not mean that dispatch to
// them was off.
func (m *Migrator) hadLightQueues() (bool, error) {
	light := false
	_, err := readCertificate(m.dir.StateDir, func(k cq.Key, _ certLine) error {
		light = light || k.IsLMQ()
		return nil
	})
	return light, err
}

// compareBack proves the old side before reads go back to it.
func (m *Migrator) compareBack(ctx context.Context, res *CutoverResult) error {
	if m.opt.FromLog {
		p, err := m.prove(ctx, "rollback", m.state.From)
		if err != nil {
			return err
		}
		res.Queues, res.Units = p.queues, p.units
		return nil
	}
	v := &verification{m: m, step: "rollback", source: m.state.To, target: m.state.From, samples: m.opt.Samples, targetAhead: true}
	vr, err := v.run(ctx)
	if err != nil {
		return err
	}
	res.Queues, res.Units, res.Notices = vr.Queues, vr.Units, vr.Notices
	return nil
}

// prove walks the log against one side alone: every unit has its record, every record that owes a unit has one.
func (m *Migrator) prove(ctx context.Context, step string, side cq.Kind) (j *join, err error) {
	err = m.reading(side, func(s cq.Store) error {
		missing := m.opt.Missing
		if missing == MissingRefuse && m.state.Missing == MissingSkip {
			missing = MissingSkip // as was said when the queues were moved
		}
		j, err = newJoin(ctx, m.dir.Log, s, joinOptions{known: m.dir.KnownTopics, missing: missing, acceptTornTail: m.opt.AcceptTornTail})
		if err != nil {
			return err
		}
		j.emit = func(*cursor, int64, cq.Unit) error { return nil }
		update := m.opt.Progress.Phase(step+": "+string(side)+" against the log", 0, "bytes")
		j.tick = func(phy int64) error {
			update(phy - m.dir.Log.MinOffset())
			return nil
		}
		_, err = j.run(-1)
		j.queues, j.cursors, j.topics = len(j.cursors), nil, nil // what comes next takes memory for each queue as well
		return err
	})
	if err == nil && j.found.Len() > 0 {
		err = &DifferentError{Step: step, Findings: &j.found, Advice: fmt.Sprintf("the %s side and the log do not agree", side)}
	}
	return j, err
}
