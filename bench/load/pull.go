package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
)

// PullLoad says how a topic is pulled, from the first message of each queue to the last.
type PullLoad struct {
	Group     string
	Consumers int // of which each pulls everything, over a connection of its own, with one pull of 32 messages on the way for each queue
}

// Pulled is what came.
type Pulled struct {
	Messages int // of all consumers
	Took     time.Duration
}

// Pull pulls all messages that are there, and fails when one is missing or out of order.
func (r *Remote) Pull(ctx context.Context, l PullLoad) (Pulled, error) { return r.pull(ctx, l, nil) }

// pull is Pull that hands over each record.
func (r *Remote) pull(ctx context.Context, l PullLoad, each func(queue int, record []byte) error) (Pulled, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends, err := r.Ends(ctx)
	if err != nil {
		return Pulled{}, err
	}
	want := 0
	for _, end := range ends {
		want += int(end)
	}
	pullers := make([]*puller, l.Consumers)
	for i := range pullers {
		w, err := dial(ctx, r.Addr)
		if err != nil {
			return Pulled{}, err
		}
		defer w.close()
		if pullers[i], err = newPuller(r, l.Group, w, ends, each); err != nil {
			return Pulled{}, err
		}
	}
	var group sync.WaitGroup
	faults := make([]error, len(pullers))
	start := time.Now()
	for i, p := range pullers {
		group.Go(func() {
			if faults[i] = p.run(); faults[i] != nil {
				cancel()
			}
		})
	}
	group.Wait()
	return Pulled{Messages: want * l.Consumers, Took: time.Since(start)}, errors.Join(faults...)
}

// puller is one consumer.
type puller struct {
	topic  string
	w      *wire
	frames []frame // by queue
	offset []int   // where the offset stands in them
	next   []int64
	ends   []int64
	each   func(queue int, record []byte) error
	out    []byte
}

func newPuller(r *Remote, group string, w *wire, ends []int64, each func(int, []byte) error) (*puller, error) {
	p := &puller{topic: r.Topic, w: w, next: make([]int64, r.Queues), ends: ends, each: each}
	for q := range r.Queues {
		f, err := newFrame(PullCommand(group, r.Topic, int32(q), 0, 32, 0))
		if err != nil {
			return nil, err
		}
		at, err := f.place(`"queueOffset":"`, fmt.Sprintf("%0*d", offsetDigits, 0))
		if err != nil {
			return nil, err
		}
		f.setOpaque(q)
		p.frames, p.offset = append(p.frames, f), append(p.offset, at)
	}
	return p, nil
}

// ask adds a pull of a queue to what is written next, unless its end is reached.
func (p *puller) ask(queue int) (asked bool) {
	if p.next[queue] >= p.ends[queue] {
		return false
	}
	f := &p.frames[queue]
	putDigits(f.b[p.offset[queue]:][:offsetDigits], int(p.next[queue]))
	p.out = append(p.out, f.b...)
	return true
}

func (p *puller) run() error {
	open := 0
	for q := range p.frames {
		if p.ask(q) {
			open++
		}
	}
	for open > 0 {
		if len(p.out) > 0 {
			if _, err := p.w.c.Write(p.out); err != nil {
				return err
			}
			p.out = p.out[:0]
		}
		if err := p.w.read(func(a answer) error {
			queue, err := p.take(&a)
			if err == nil && !p.ask(queue) {
				open--
			}
			return err
		}); err != nil {
			return fmt.Errorf("pull %s: %w", p.topic, err)
		}
	}
	return nil
}

// Where records have the fields that are looked at, see package message.
const (
	recordQueueID     = 12
	recordQueueOffset = 20
	recordHead        = recordQueueOffset + 8
)

// take looks at the messages of an answer.
func (p *puller) take(a *answer) (queue int, err error) {
	if !a.good() {
		return 0, a.err()
	}
	opaque, err := a.number(`"opaque":`)
	if err != nil {
		return 0, err
	}
	queue = opaque - firstOpaque
	if queue < 0 || queue >= len(p.frames) {
		return 0, fmt.Errorf("an answer to %d, which nobody asked", opaque)
	}
	next, err := a.number(`"nextBeginOffset":"`)
	if err != nil {
		return 0, err
	}
	at := p.next[queue]
	for b := a.body; len(b) > 0; at++ {
		if len(b) < recordHead || int(binary.BigEndian.Uint32(b)) > len(b) || binary.BigEndian.Uint32(b) < recordHead {
			return 0, fmt.Errorf("queue %d at %d: a record that does not fit", queue, at)
		}
		size := int(binary.BigEndian.Uint32(b))
		if id, offset := int(binary.BigEndian.Uint32(b[recordQueueID:])), int64(binary.BigEndian.Uint64(b[recordQueueOffset:])); id != queue || offset != at {
			return 0, fmt.Errorf("queue %d at %d: a record of queue %d at %d", queue, at, id, offset)
		}
		if p.each != nil {
			if err := p.each(queue, b[:size]); err != nil {
				return 0, err
			}
		}
		b = b[size:]
	}
	if at == p.next[queue] || at != int64(next) {
		return 0, fmt.Errorf("queue %d: the messages from %d go to %d, and the answer says to go on at %d", queue, p.next[queue], at, next)
	}
	p.next[queue] = at
	return queue, nil
}
