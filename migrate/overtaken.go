package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
)

const adviceOvertaken = "reads belong to the other side since the cutover. To start over: migrate rollback, then migrate run"

// verifyAfter compares after a cutover. The side that reads belong to must hold every record of the log. The side that was
// left must still hold what it held at the cutover, and nothing that the other does not; it may be behind by what was
// written since, and it may have been removed altogether.
func (m *Migrator) verifyAfter(ctx context.Context) (*VerifyResult, error) {
	proven, err := m.prove(ctx, "verify", m.state.To)
	if de := (*DifferentError)(nil); errors.As(err, &de) {
		de.Advice = fmt.Sprintf("reads belong to the %s side, which does not hold what the log does. If only its end is missing, a start and stop of its broker completes it. "+
			"To start over: migrate rollback, then migrate run", m.state.To)
	}
	if err != nil {
		return nil, err
	}
	if !m.dir.found(m.state.From) {
		res := &VerifyResult{Queues: proven.queues, Units: proven.units, Samples: proven.records, Notices: proven.notices}
		res.Notices.Add(Finding{Code: CodeSideRemoved, QueueOffset: -1, PhyOffset: -1, Text: fmt.Sprintf("the %s side is not there any more: only the %s side was compared, with the log", m.state.From, m.state.To)})
		return res, nil
	}
	v := &verification{m: m, step: "verify", source: m.state.From, target: m.state.To, samples: m.opt.Samples, targetAhead: true, after: true, level: m.opt.Level}
	res, err := v.run(ctx)
	if err != nil {
		return nil, err
	}
	var lost *Findings
	err = m.reading(m.state.From, func(s cq.Store) error {
		lost = v.lostSince(s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if lost.Len() > 0 {
		return nil, &DifferentError{
			Step: "verify", Findings: lost,
			Advice: fmt.Sprintf("reads belong to the %s side, which is whole; migrate rollback makes good what the %s side lacks before it gives reads back", m.state.To, m.state.From),
		}
	}
	res.Notices.Merge(&proven.notices)
	return res, nil
}

// overtaken looks, after a cutover, whether the side that was left has been written since, past the other one: then
// "nothing to do" would be a lie.
func (m *Migrator) overtaken(ctx context.Context, step string) error {
	if !m.dir.found(m.state.From) {
		return nil // removed after the cutover
	}
	if !m.dir.found(m.state.To) {
		return &RefusedError{Step: step, Reasons: []string{fmt.Sprintf("reads belong to the %s side, which is gone", m.state.To)}}
	}
	var found Findings
	err := m.reading(m.state.From, func(src cq.Store) error {
		return m.reading(m.state.To, func(dst cq.Store) error {
			return eachQueue(ctx, src, &found, func(k cq.Key, _ cq.Queue, b cq.Bounds) error {
				other, err := maxOf(dst, k)
				if err == nil && b.Max > other {
					f := queueFinding(CodeMaxDiffers, k, fmt.Sprintf("the %s side goes to %d, the %s side only to %d: it was written after the cutover", m.state.From, b.Max, m.state.To, other))
					f.QueueOffset = other
					found.Add(f)
				}
				return err
			})
		})
	})
	if err != nil {
		return err
	}
	if found.Len() == 0 {
		return nil
	}
	return &DifferentError{Step: step, Findings: &found, Advice: adviceOvertaken}
}

// maxOf returns a queue's max offset, 0 when there is no such queue.
func maxOf(r cq.Reader, k cq.Key) (int64, error) {
	q, ok := r.Queue(k)
	if !ok {
		return 0, nil
	}
	b, err := q.Bounds()
	return b.Max, err
}
