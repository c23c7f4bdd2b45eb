//go:build cgo

package rocks

import (
	"bytes"
	"context"
	"log/slog"
	"strings"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// DeleteTopic removes all queues of a topic, with the units and the rows of each, those too that nothing knows of any more: units without a max row, min rows
// of queues that never had a unit. It returns how many queues the rows told of. Durable when it returns nil. A topic that is not there: 0.
//
// Units go as one range. Rows go one by one: the family that holds them overwrites values in place, which a range would outlive.
// Source: RocksDBConsumeQueueStore.deleteTopic, 5.5.0, which looks for max rows alone.
func (s *Store) DeleteTopic(ctx context.Context, topic string) (queues int, err error) {
	if queues, err = s.deleteTopic(ctx, topic, nil); err != nil || queues == 0 {
		return queues, err
	}
	return queues, s.Flush(ctx)
}

// deleteTopic is DeleteTopic without the flush; a topic that is kept after all is left alone.
func (s *Store) deleteTopic(ctx context.Context, topic string, keep func(topic string) bool) (int, error) {
	if err := validKey(cq.Key{Topic: topic, QueueID: 1}); err != nil {
		return 0, err
	}
	if err := s.beginChange(ctx); err != nil {
		return 0, err
	}
	defer s.write.Unlock()
	if keep != nil && keep(topic) {
		return 0, nil
	}
	keys := map[cq.Key]struct{}{}
	w := &s.write.rows
	first := appendTopic(nil, topic)
	last := bytes.Clone(first)
	last[len(last)-1]++
	err := s.db.Scan(rocks.Offsets, first, func(key, _ []byte) bool {
		if !bytes.HasPrefix(key, first) {
			return false
		}
		if _, queueID, _, ok := decodeRowKey(key); ok && !bytes.Equal(key, checkpointKey) {
			keys[cq.Key{Topic: topic, QueueID: queueID}] = struct{}{}
			w.batch.Delete(rocks.Offsets, key)
		}
		return true
	})
	if err != nil {
		return 0, s.wrap(err)
	}
	w.batch.DeleteRange(rocks.Units, first, last)
	if err := s.db.Write(w.batch, false); err != nil {
		return 0, s.stick(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range keys {
		s.mu.ends.remove(k)
	}
	s.mu.epoch++
	return len(keys), nil
}

// CleanDirty removes the topics of which keep says no, asking once more right before it removes one, and returns how many they were. Light queues stay: their
// names are in no list of topics. Where keep knows no topic at all nothing is removed and the error is a *NothingKeptError. Durable when it returns nil.
// keep is called while the store takes no units and must not call it.
// Source: RocksDBConsumeQueueStore.cleanDirty, 5.5.0, for which an empty list of topics removes all.
func (s *Store) CleanDirty(ctx context.Context, keep func(topic string) bool) (topics int, err error) {
	if err := s.writable(ctx); err != nil {
		return 0, err
	}
	var dirty []string
	kept := 0
	err = s.eachTopic(func(topic string) {
		switch {
		case strings.HasPrefix(topic, cq.LMQPrefix):
		case keep(topic):
			kept++
		default:
			dirty = append(dirty, topic)
		}
	})
	if err != nil || len(dirty) == 0 {
		return 0, err
	}
	if kept == 0 {
		return 0, &NothingKeptError{Dir: s.dir, Topics: len(dirty)}
	}
	for _, topic := range dirty {
		n, err := s.deleteTopic(ctx, topic, keep)
		if err != nil {
			return topics, err
		}
		if n > 0 {
			topics++
			s.log.Info("queues of a topic that is not known were removed", slog.String("topic", topic), slog.Int("queues", n))
		}
	}
	return topics, s.Flush(ctx)
}

// eachTopic calls fn with every topic that has a row.
func (s *Store) eachTopic(fn func(topic string)) error {
	last := ""
	err := s.db.Scan(rocks.Offsets, nil, func(key, _ []byte) bool {
		if name, _, _, ok := decodeRowKey(key); ok && string(name) != last && !bytes.Equal(key, checkpointKey) {
			last = string(name)
			fn(last)
		}
		return true
	})
	return s.wrap(err)
}
