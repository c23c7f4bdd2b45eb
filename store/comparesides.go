package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
)

// Queues lists the queues that there are, in the order a person lists them; none where queues are not built.
func (s *Store) Queues() ([]cq.Key, error) {
	switch {
	case s.closed.Load():
		return nil, ErrClosed
	case s.views == nil:
		return nil, nil
	}
	keys, err := cq.SortedKeys(s.views.queues)
	return keys, s.closedOr(err)
}

// Units copies the units of consecutive slots of a queue into dst, as cq.Queue.Read does, with the bounds of the queue; ok is false for an unknown queue. n is 0 outside the bounds, too. Errors are those
// of OffsetByTime.
func (s *Store) Units(topic string, queueID int32, from int64, dst []cq.Unit) (n int, b cq.Bounds, ok bool, err error) {
	k := cq.Key{Topic: topic, QueueID: queueID}
	q, ok, err := s.queueFor("read units", k)
	if err != nil || !ok {
		return 0, b, false, err
	}
	if b, err = q.Bounds(); err == nil && from >= b.Min && from < b.Max {
		n, err = q.Read(from, dst)
	}
	if err != nil {
		return 0, b, true, fmt.Errorf("read units of %s: %w", k, s.closedOr(err))
	}
	return n, b, true, nil
}

// SidesReport says how the two sides of the consume queues compare.
type SidesReport struct {
	Queues      int      // that were compared
	Units       int64    // that were compared: those of slots that both sides have
	Different   int      // queues in which a difference was found
	Alone       int      // light queues that one side has alone, as it should: not compared
	Differences []string // the first ones, each with its queue
	// Topics are those in which something differs, or, while a side is being built, those of which it lacks something; the first ones, by name.
	Topics []TopicSides
	// MoreTopics is how many there are beside.
	MoreTopics int
}

// TopicSides says how the two sides of the queues of a topic compare.
type TopicSides struct {
	Topic     string
	Queues    int   // that were looked at
	Different int   // queues in which a difference was found; 0 while a side is being built
	Lacking   int64 // units that the one side has and the other has not yet, by the bounds of the queues; only while a side is being built
}

// maxSideDifferences bounds each list in a SidesReport.
const maxSideDifferences = 20

// note adds a topic, if there is something to tell of it.
func (r *SidesReport) note(t TopicSides) {
	switch {
	case t.Different == 0 && t.Lacking == 0:
	case len(r.Topics) == maxSideDifferences:
		r.MoreTopics++
	default:
		r.Topics = append(r.Topics, t)
	}
}

// CompareSides compares bounds and units of the queues of a topic, or of all (""), in files and in RocksDB, while the store goes on. It writes nothing.
//
// Errors: ErrNotCombined; ErrRebuilding, with the reason, while a side lacks something that is being built: the report then says by topic how much; those of a side that cannot be read; ctx. The
// report then has what was found before.
func (s *Store) CompareSides(ctx context.Context, topic string) (r SidesReport, err error) {
	keys, err := s.Queues()
	switch {
	case err != nil:
		return r, err
	case s.views == nil || s.views.sides == nil:
		return r, ErrNotCombined
	}
	if topic != "" {
		keys = slices.DeleteFunc(keys, func(k cq.Key) bool { return k.Topic != topic })
	}
	if err := s.views.sides.lacking(); err != nil {
		s.views.sides.report(&r, keys)
		return r, fmt.Errorf("%w: %w", ErrRebuilding, err)
	}
	t := TopicSides{}
	defer func() { r.note(t) }()
	for _, k := range keys { // sorted
		if k.Topic != t.Topic {
			r.note(t)
			t = TopicSides{Topic: k.Topic}
		}
		v, err := s.views.sides.store.Verify(ctx, k, combine.Units)
		if err != nil {
			return r, s.closedOr(err)
		}
		if v.Alone {
			r.Alone++
			continue
		}
		r.Queues++
		t.Queues++
		r.Units += v.Compared
		if !v.OK() {
			r.Different++
			t.Different++
		}
		for _, d := range v.Differences {
			if len(r.Differences) < maxSideDifferences {
				r.Differences = append(r.Differences, fmt.Sprintf("queue %s: %v of %s and %s", k, d, v.Kinds[0], v.Kinds[1]))
			}
		}
	}
	return r, nil
}

// report says, by topic, how much of its queues only one side has.
func (d *sides) report(r *SidesReport, keys []cq.Key) {
	t := TopicSides{}
	for _, k := range keys {
		if k.Topic != t.Topic {
			r.note(t)
			t = TopicSides{Topic: k.Topic}
		}
		if len(d.responsible(k)) < len(combinedKinds) {
			r.Alone++
			continue
		}
		t.Queues++
		r.Queues++
		var units [len(combinedKinds)]int64
		for i, kind := range combinedKinds {
			if q, ok := d.side(kind).Queue(k); ok {
				if b, err := q.Bounds(); err == nil { // one that cannot be read is one that is built again
					units[i] = b.Max - b.Min
				}
			}
		}
		t.Lacking += max(units[0], units[1]) - min(units[0], units[1])
	}
	r.note(t)
}
