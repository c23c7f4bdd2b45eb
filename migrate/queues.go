package migrate

import (
	"context"
	"errors"

	"github.com/tandemq/tandemmq/cq"
)

// eachQueue calls fn with every queue of r and its bounds. A queue that contradicts itself becomes a finding in bad, and
// is passed over; any other error, and fn's, ends the walk.
func eachQueue(ctx context.Context, r cq.Reader, bad *Findings, fn func(k cq.Key, q cq.Queue, b cq.Bounds) error) error {
	for k, err := range r.Queues() {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		q, ok := r.Queue(k)
		if !ok {
			continue
		}
		b, err := q.Bounds()
		if errors.Is(err, cq.ErrCorrupt) {
			bad.Add(badQueue(k, err))
			continue
		}
		if err != nil {
			return err
		}
		if err := fn(k, q, b); err != nil {
			return err
		}
	}
	return nil
}

func badQueue(k cq.Key, err error) Finding {
	return queueFinding(CodeBadQueue, k, err.Error())
}

// queueFinding is about a queue as a whole.
func queueFinding(code Code, k cq.Key, text string) Finding {
	return Finding{Code: code, Topic: k.Topic, QueueID: k.QueueID, QueueOffset: -1, PhyOffset: -1, Text: text}
}

// reading opens a side read-only for fn.
func (m *Migrator) reading(kind cq.Kind, fn func(s cq.Store) error) (err error) {
	s, err := m.dir.OpenReader(kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return fn(s)
}
