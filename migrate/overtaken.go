package migrate

import (
	"context"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
)

const adviceOvertaken = "reads belong to the other side since the cutover. To start over: migrate rollback, then migrate run"

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
