package load

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// CheckStopped looks at a store that is not open, and changes nothing of it: each queue, of each kind that the engine has, holds as many units as there are messages for it from 0 on, and some of those lead to a
// message that was put into it, which its key finds.
func CheckStopped(root string, e Engine, queues, messages, body, samples int) error {
	kinds := map[Engine][]cq.Kind{FileQueues: {cq.KindFile}, RocksQueues: {cq.KindRocks}, CombineRocks: {cq.KindFile, cq.KindRocks}}[e]
	for _, kind := range kinds {
		v, err := store.OpenView(root, store.ViewOptions{Kind: kind})
		if err != nil {
			return err
		}
		p := NewProducer(nil, queues, 0)
		p.Next = messages
		if err := errors.Join(p.checkEnds(v), p.checkView(v, body, samples), v.Close()); err != nil {
			return fmt.Errorf("queues in %s: %w", kind, err)
		}
	}
	return nil
}

func (p *Producer) checkEnds(v *store.View) error {
	if v.Unclean {
		return errors.New("it was not closed in order")
	}
	for i := range min(p.Queues, p.Next) {
		k, count := p.Key(i), p.count(i)
		q, ok := v.Queues.Queue(k)
		if !ok {
			return fmt.Errorf("there is no queue %s, want %d messages in it", k, count)
		}
		if b, err := q.Bounds(); err != nil || b.Min != 0 || b.Max != count {
			return fmt.Errorf("queue %s [%d, %d), want [0, %d): %w", k, b.Min, b.Max, count, errors.Join(err, errContents))
		}
	}
	return nil
}

// count is how many messages are in the queue of message i, which is one of the first of each.
func (p *Producer) count(i int) int64 { return int64((p.Next - i + p.Queues - 1) / p.Queues) }

func (p *Producer) checkView(v *store.View, body, samples int) (err error) {
	x, err := v.OpenIndex()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	var found store.QueryResult
	defer found.Release()
	random := rand.New(rand.NewPCG(3, 5))
	for range samples {
		i := random.IntN(min(p.Queues, p.Next))
		offset := random.Int64N(p.count(i))
		r, n, err := p.messageOf(v, i, offset, body)
		if err != nil {
			return fmt.Errorf("%s at %d: %w", p.Key(i), offset, err)
		}
		if err := v.Query(x, store.QueryRequest{Topic: p.Key(i).Topic, Key: key(n), Max: 2, EndMs: math.MaxInt64}, &found); err != nil {
			return err
		}
		if len(found.Messages) != 1 || found.Messages[0].PhyOffset != r.PhyOffset {
			return fmt.Errorf("key %s finds %d messages, want that at %d: %w", key(n), len(found.Messages), r.PhyOffset, errContents)
		}
	}
	return nil
}

// messageOf is what the unit of the queue of message i leads to: a message of this producer.
func (p *Producer) messageOf(v *store.View, i int, offset int64, body int) (r message.Record, n int, err error) {
	q, ok := v.Queues.Queue(p.Key(i))
	if !ok {
		return r, 0, errContents
	}
	var units [1]cq.Unit
	if n, err := q.Read(offset, units[:]); err != nil || n != 1 {
		return r, 0, fmt.Errorf("%d units: %w", n, errors.Join(err, errContents))
	}
	release, err := v.MessageAt(units[0].PhyOffset, &r)
	if err != nil {
		return r, 0, err
	}
	defer release()
	n, err = p.numberOf(&r, body)
	if err == nil && (n%p.Queues != i || string(r.Topic) != p.Key(i).Topic || r.QueueID != p.Key(i).QueueID || r.QueueOffset != offset) {
		err = fmt.Errorf("message %d of %s/%d at %d: %w", n, r.Topic, r.QueueID, r.QueueOffset, errContents)
	}
	return r, n, err
}
