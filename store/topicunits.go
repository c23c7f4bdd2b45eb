package store

import (
	"context"

	"github.com/tandemq/tandemmq/cq"
)

// TopicUnits says how much the queues of a topic have on each side of a combined store.
type TopicUnits struct {
	Topic  string
	Queues int // without those that one side has alone, as it should
	Files  int64
	Rocks  int64
	// Diverged are queues that lack something on a side and are built again; Given are those that were given up. See SideState.
	Diverged, Given int
}

// Of returns the units on a side.
func (t *TopicUnits) Of(kind cq.Kind) int64 {
	if kind == cq.KindRocks {
		return t.Rocks
	}
	return t.Files
}

// TopicUnits looks at the bounds of every queue on both sides, and returns what the topics have, by name. It takes some microseconds for a queue.
//
// Errors: ErrNotCombined; those of a store of queues that cannot be listed; ctx.
func (s *Store) TopicUnits(ctx context.Context) (topics []TopicUnits, err error) {
	d, err := s.combined()
	if err != nil {
		return nil, err
	}
	keys, err := s.Queues()
	if err != nil {
		return nil, err
	}
	diverged, given := make(map[string]int), make(map[string]int)
	for _, one := range d.store.Diverged() {
		if !barred(one.Err) && !d.hasGivenUp(one.Side, one.Key) {
			diverged[one.Key.Topic]++
		}
	}
	d.gaveUp.Lock()
	for _, m := range d.gaveUp.keys {
		for k := range m {
			given[k.Topic]++
		}
	}
	d.gaveUp.Unlock()
	for i, k := range keys { // sorted
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if n := len(topics); n == 0 || topics[n-1].Topic != k.Topic {
			topics = append(topics, TopicUnits{Topic: k.Topic, Diverged: diverged[k.Topic], Given: given[k.Topic]})
		}
		if len(d.responsible(k)) < len(combinedKinds) {
			continue
		}
		t := &topics[len(topics)-1]
		t.Queues++
		for _, kind := range combinedKinds {
			q, ok := d.side(kind).Queue(k)
			if !ok {
				continue
			}
			b, err := q.Bounds()
			switch {
			case err != nil: // it is built again
			case kind == cq.KindFile:
				t.Files += b.Max - b.Min
			default:
				t.Rocks += b.Max - b.Min
			}
		}
	}
	return topics, nil
}
