package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// Times of delivery. Source: ScheduleMessageService, 5.5.0, which looks at an idle level every 100 ms.
const (
	delaySave  = 10 * time.Second       // between two writes of the offsets
	delayRetry = 100 * time.Millisecond // after a put that failed
	delayPause = time.Second            // after a queue could not be read
	delayLook  = time.Minute            // the longest sleep: the clock may be set
)

// delayer delivers the messages of SCHEDULE_TOPIC_XXXX to their own topics when they are due. Each level has a queue, in which messages come due in their order, and a goroutine that
// sleeps until the first of them is due, or one arrives.
//
// A message is put into its topic first, and passed in the queue then. How far that went is durable only later, and what was delivered is made durable before: a crash delivers
// the messages of the last seconds again, and never loses one.
type delayer struct {
	b      *Broker
	levels []*delayLevel // by queue
	saving sync.Mutex
}

// delayLevel is a queue of delayed messages.
type delayLevel struct {
	b     *Broker
	key   cq.Key
	delay time.Duration
	next  atomic.Int64 // queue offset of the first message that is not delivered
	idle  atomic.Bool  // all are, and whoever makes another one known wakes
	wake  chan struct{}
	walk  walker
	props []byte
	saved int64 // next as it was saved

	failing bool // told already
}

func newDelayer(b *Broker) *delayer {
	d := &delayer{b: b}
	for level := 1; level <= b.levels.Max(); level++ {
		l := &delayLevel{b: b, key: cq.Key{Topic: meta.ScheduleTopic, QueueID: int32(level - 1)}, delay: b.levels.Delay(level), wake: make(chan struct{}, 1)}
		l.walk.store = b.store
		l.saved = l.begin()
		l.next.Store(l.saved)
		d.levels = append(d.levels, l)
	}
	return d
}

// begin returns where to go on. An offset above the messages that there are, from a store that has lost its end, would pass over those that come.
func (l *delayLevel) begin() int64 {
	next, most := l.b.delays.Next(l.key.QueueID+1), l.b.store.NextOffset(l.key.Topic, l.key.QueueID)
	if next > most {
		l.b.log.Warn("the offset of a delay level is larger than its queue, and is corrected", l.attrs(slog.Int64("queueOffset", next), slog.Int64("max", most))...)
		return most
	}
	return max(next, 0)
}

func (l *delayLevel) attrs(more ...any) []any {
	return append([]any{slog.String("topic", l.key.Topic), slog.Int("queueId", int(l.key.QueueID))}, more...)
}

// arrived wakes the level of a message that has arrived.
func (d *delayer) arrived(k *cq.Key) {
	if k.Topic == meta.ScheduleTopic && int(k.QueueID) < len(d.levels) {
		if l := d.levels[k.QueueID]; l.idle.CompareAndSwap(true, false) {
			l.kick()
		}
	}
}

func (l *delayLevel) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run delivers until its context ends.
func (d *delayer) run(ctx context.Context) {
	var levels sync.WaitGroup
	defer levels.Wait()
	for _, l := range d.levels {
		levels.Go(func() { l.run(ctx) })
	}
	tick := time.NewTicker(delaySave)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := d.save(); err != nil {
				d.b.log.Error("offsets of delay levels were not saved", slog.Any("err", err))
			}
		}
	}
}

// save makes durable how far delivery has come, after what was delivered.
func (d *delayer) save() error {
	d.saving.Lock()
	defer d.saving.Unlock()
	changed := false
	now := make([]int64, len(d.levels))
	for i, l := range d.levels {
		now[i] = l.next.Load()
		changed = changed || now[i] != l.saved
	}
	if !changed {
		return nil
	}
	if err := d.b.store.Flush(); err != nil {
		return fmt.Errorf("make delivered messages durable: %w", err)
	}
	for i := range d.levels {
		d.b.delays.Set(int32(i+1), now[i])
	}
	if err := d.b.delays.Save(); err != nil {
		return err
	}
	for i, l := range d.levels {
		l.saved = now[i]
	}
	return nil
}

func (l *delayLevel) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(l.deliver(ctx))
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
		}
	}
}

// deliver delivers what is due, and returns how long there is nothing to do, unless something arrives.
func (l *delayLevel) deliver(ctx context.Context) time.Duration {
	for {
		wait, began := time.Duration(0), l.next.Load()
		next, err := l.walk.walk(l.key, began, func(m *walked) bool {
			if ctx.Err() != nil {
				return false
			}
			if wait = l.due(m); wait > 0 {
				return false
			}
			if err := l.forward(m); err != nil {
				l.tell(m.queueOffset, fmt.Errorf("put it into its topic: %w", err))
				wait = delayRetry
				return false
			}
			l.failing = false
			l.next.Store(m.queueOffset + 1)
			return true
		})
		l.next.Store(next)
		if next > began && l.b.o.Store.FlushDiskType == store.SyncFlush {
			if err := l.b.store.Flush(); err != nil { // consumers see what is durable
				l.tell(next, fmt.Errorf("make what was delivered durable: %w", err))
			}
		}
		switch {
		case ctx.Err() != nil:
			return delayLook
		case err != nil:
			l.tell(next, err)
			return delayPause
		case wait > 0:
			return min(wait, delayLook)
		case l.idle.Swap(true): // it was looked at once more since it said so
			return delayLook
		}
	}
}

// tell logs the first of several failures.
func (l *delayLevel) tell(at int64, err error) {
	if !l.failing && !errors.Is(err, store.ErrClosed) {
		l.failing = true
		l.b.log.Warn("a delayed message could not be delivered, and is tried again", l.attrs(slog.Int64("queueOffset", at), slog.Any("err", err))...)
	}
}

// due returns how long a message has to wait. One that would have to wait for longer than its level's delay, for the clock was set back, waits no more.
//
// Source: ScheduleMessageService.correctDeliverTimestamp, 5.5.0.
func (l *delayLevel) due(m *walked) time.Duration {
	at := m.tagsCode
	if cq.IsExtAddress(at) {
		at = m.record.StoreTimestampMs + l.delay.Milliseconds()
	}
	wait := time.Duration(at-l.b.o.now().UnixMilli()) * time.Millisecond
	if wait > l.delay {
		return 0
	}
	return wait
}

// forward puts a message into its own topic. One that can never be put is passed over, and stays where it is: the error of nil says that the level can go on.
//
// Source: ScheduleMessageService.messageTimeUp, 5.5.0.
func (l *delayLevel) forward(m *walked) error {
	r := &m.record
	topic, queueID, err := realQueue(r)
	switch {
	case err != nil:
	case topic == meta.HalfTopic:
		err = errors.New("a prepared message is never delayed")
	default:
		out := r.Message()
		out.Topic, out.QueueID, out.PreparedTransactionOffset, out.StoreHost = topic, queueID, 0, l.b.storeHost
		l.props = message.AppendPropertiesWithout(l.props[:0], r.Properties, message.HasCRC)
		out.Properties = l.props
		var res store.PutResult
		if res, err = l.b.store.PutUnflushed(context.Background(), &out); err == nil || res.Status.Stored() {
			l.b.counts.put(topic, &res)
			return nil
		}
		if s := res.Status; s != store.PutMessageIllegal && s != store.PutPropertiesSizeExceeded {
			l.b.counts.putFailed.Add(1)
			return err
		}
	}
	l.b.log.Error("a delayed message cannot be delivered, and is passed over", l.attrs(slog.Int64("queueOffset", m.queueOffset), slog.Int64("phyOffset", r.PhyOffset), slog.Any("err", err))...)
	return nil
}

// realQueue returns the queue that a message which is kept elsewhere for a while is for.
func realQueue(r *message.Record) (topic string, queueID int32, err error) {
	name, _ := r.Property(message.PropertyRealTopic)
	text, _ := r.Property(message.PropertyRealQueueID)
	id, err := strconv.ParseInt(string(text), 10, 32)
	if len(name) == 0 || err != nil || id < 0 {
		return "", 0, fmt.Errorf("its properties %s and %s are %q and %q, want a topic and the number of a queue", message.PropertyRealTopic, message.PropertyRealQueueID, name, text)
	}
	return string(name), int32(id), nil
}
