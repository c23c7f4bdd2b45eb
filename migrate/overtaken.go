package migrate

import (
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
)

const adviceOvertaken = "reads belong to the other side since the cutover. To start over: migrate rollback, then migrate run"

// overtaken looks, after a cutover, whether the side that was left has been written since, past the other one: then
// "nothing to do" would be a lie.
func (m *Migrator) overtaken(step string) (err error) {
	if !m.dir.found(m.state.From) {
		return nil // removed after the cutover
	}
	if !m.dir.found(m.state.To) {
		return &RefusedError{Step: step, Reasons: []string{fmt.Sprintf("reads belong to the %s side, which is gone", m.state.To)}}
	}
	src, err := m.dir.OpenReader(m.state.From)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := m.dir.OpenReader(m.state.To)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	var found Findings
	for k, err := range src.Queues() {
		if err != nil {
			return err
		}
		max, err := maxOf(src, k)
		if err != nil {
			return err
		}
		other, err := maxOf(dst, k)
		if err != nil {
			return err
		}
		if max > other {
			found.Add(Finding{
				Code: CodeMaxDiffers, Topic: k.Topic, QueueID: k.QueueID, QueueOffset: other, PhyOffset: -1,
				Text: fmt.Sprintf("the %s side goes to %d, the %s side only to %d: it was written after the cutover", m.state.From, max, m.state.To, other),
			})
		}
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
