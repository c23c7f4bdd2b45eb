package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/tandemq/tandemmq/cq"
)

// deleteStep is how often DeleteTopic looks whether what was put has come to a queue.
const deleteStep = time.Millisecond

// DeleteTopic removes the queues of a topic from all stores of queues, and returns how many there were; its records stay in the log until they expire, and keys still find them. Durable
// when it returns nil. A topic of the same name begins at offset 0 again. Puts into a queue wait while that one is removed.
//
// On an error queues that it had not come to are as they were, and it can be called again. While queues are being built again from the log nothing is removed: what is built could bring it
// back. That is ErrRebuilding. An unknown topic: 0.
//
// Source: DefaultMessageStore.deleteTopics, 5.5.0, which answers before anything is durable and does not wait for what was put.
func (s *Store) DeleteTopic(ctx context.Context, topic string) (queues int, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("delete queues of topic %s: %w", topic, s.closedOr(err))
		}
	}()
	v := s.views
	switch {
	case s.closed.Load():
		return 0, ErrClosed
	case v == nil:
		return 0, errors.New("the store was opened without consume queues (buildConsumeQueues=false)")
	case !v.compared():
		return 0, ErrRebuilding
	}
	if err := v.sides.lacking(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrRebuilding, err)
	}
	if !v.view.mending.TryLock() {
		return 0, ErrRebuilding
	}
	defer v.view.mending.Unlock()
	keys, err := s.queuesOf(topic)
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	for _, k := range keys {
		there, err := s.deleteQueue(ctx, k)
		if err != nil {
			return queues, err
		}
		if there {
			queues++
		}
	}
	v.flushing.Lock()
	v.noted = -1 // it knows of these queues
	v.flushing.Unlock()
	if err := v.flush(ctx); err != nil {
		return queues, err
	}
	s.logger.Info("the queues of a topic were removed", slog.String("topic", topic), slog.Int("queues", queues))
	return queues, nil
}

// queuesOf lists the queues of a topic that a store of queues or the table of offsets knows.
func (s *Store) queuesOf(topic string) ([]cq.Key, error) {
	found := map[cq.Key]bool{}
	for k, err := range s.views.queues.Queues() {
		if err != nil {
			return nil, err
		}
		if k.Topic == topic {
			found[k] = true
		}
	}
	view := s.views.view
	view.mu.Lock()
	for k := range view.mu.known {
		if k.Topic == topic {
			found[k] = true
		}
	}
	view.mu.Unlock()
	for _, id := range s.offsets.idsOf(topic) {
		found[cq.Key{Topic: topic, QueueID: id}] = true
	}
	return slices.SortedFunc(maps.Keys(found), cq.Key.Compare), nil
}

// deleteQueue removes one queue. Nobody is given an offset in it until all records that have one are dispatched, and the queue is gone with what dispatch knows of it.
func (s *Store) deleteQueue(ctx context.Context, k cq.Key) (there bool, err error) {
	t, v := s.offsets, s.views
	stripe := t.Stripe(k.Topic, k.QueueID)
	t.Lock(stripe)
	defer t.Unlock(stripe)
	if err := s.writer.AwaitPublished(); err != nil {
		return false, err
	}
	for end := s.writer.Positions().Wrote; v.follow.from.Load() < end; {
		if err := v.follow.failure(); err != nil {
			return false, err
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("queue %s: what was put is not dispatched yet: %w", k, ctx.Err())
		case <-time.After(deleteStep):
		}
	}
	_, there = v.queues.Queue(k)
	if err := v.view.drop(ctx, k); err != nil {
		return there, err
	}
	t.resetLocked(stripe, k.Topic, k.QueueID)
	return there, nil
}

// drop removes a queue, with all that is known of it, while nothing is delivered.
func (v *queueView) drop(ctx context.Context, k cq.Key) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.queues.(cq.Dropper).DropQueue(ctx, k); err != nil {
		return err
	}
	delete(v.mu.known, k)
	delete(v.mu.barred, k)
	if _, ok := v.mu.broken[k]; !ok {
		return nil
	}
	delete(v.mu.broken, k)
	delete(v.mu.mended, k)
	v.mu.saved = false
	v.brokenNow.Store(int64(len(v.mu.broken)))
	return v.saveBrokenLocked()
}

// idsOf lists the queues of a topic that have a row.
func (t *offsetTable) idsOf(topic string) (ids []int32) {
	for i := range t.rows {
		t.Lock(i)
		for k := range t.rows[i] {
			if k.topic == topic {
				ids = append(ids, k.id)
			}
		}
		t.Unlock(i)
	}
	return ids
}

// resetLocked has a queue begin at 0 again. Its row stays, so that nobody asks what the log said of it.
func (t *offsetTable) resetLocked(i int, topic string, id int32) {
	if row := t.rowLocked(i, topic, id); row != nil {
		*row = 0
		return
	}
	t.addLocked(i, topic, id, 0)
}
