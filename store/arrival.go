package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tandemq/tandemmq/cq"
)

// Arrival tells that the messages of slots [From, MaxOffset) of a queue can be read: Get finds them, from whichever store the queue is read. They are one message, told as it
// came, or those that came while nobody asked. Source: MessageArrivingListener.arriving, 5.5.0, which is told one by one, without the bits of the filter that nothing computes here.
type Arrival struct {
	Key cq.Key
	// From is the slot of the first message that this tells of, and MaxOffset the one behind the last. Who filters by what is below has to do so only when there is
	// one message (Single): of several nothing but the last is known.
	From, MaxOffset int64
	// PhyOffset, Size, TagsCode and StoreTimestampMs are those of the last message. Its record has the properties (Store.MessageAt). PhyOffset is -1, and the others are 0, of a queue
	// that was built again.
	PhyOffset        int64
	Size             int32
	TagsCode         int64
	StoreTimestampMs int64
}

// Single tells whether it is about one message, and known which.
func (a *Arrival) Single() bool { return a.MaxOffset-a.From == 1 && a.PhyOffset >= 0 }

// Subscription is told of the messages that arrive in any queue of a store. It must be asked by Next, or closed.
//
// Dispatch never waits for it: what is not asked for in time is put together, queue by queue, so that it takes memory by the number of queues and not of messages. Nothing is
// left out. One goroutine at a time uses Next; there are none of its own.
type Subscription struct {
	of   *arrivals
	wake chan struct{} // something is pending, or it is closed

	mu struct {
		sync.Mutex
		pending []Arrival
		foldAt  int            // pending are put together when there are so many
		at      map[cq.Key]int // used while they are
		closed  error          // why nothing comes any more
	}
}

// arrivals are the subscriptions of a store.
type arrivals struct {
	subs atomic.Pointer[[]*Subscription] // nil: nobody

	mu struct { // of who changes subs
		sync.Mutex
		closed bool
	}
}

// foldArrivals is how many arrivals may be pending, one for each message, before they are put together.
const foldArrivals = 4096

// SubscribeArrivals returns a subscription to all queues. Of what can be read when it returns nothing may be told: who waits for a message subscribes first, then looks for it, and
// then waits. So no message is missed that comes in between.
//
// Light queues are told of like others. Errors: ErrClosed, and that of a store without consume queues (BuildConsumeQueues).
//
// Source: DefaultMessageStore.notifyMessageArriveIfNecessary, 5.5.0.
func (s *Store) SubscribeArrivals() (*Subscription, error) {
	if s.views == nil {
		if s.closed.Load() {
			return nil, ErrClosed
		}
		return nil, errors.New("subscribe to arrivals: the store was opened without consume queues (buildConsumeQueues=false)")
	}
	return s.arrivals.subscribe()
}

func (a *arrivals) subscribe() (*Subscription, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.closed {
		return nil, ErrClosed
	}
	u := &Subscription{of: a, wake: make(chan struct{}, 1)}
	u.mu.foldAt = foldArrivals
	subs := append(slices.Clone(a.list()), u)
	a.subs.Store(&subs)
	return u, nil
}

func (a *arrivals) list() []*Subscription {
	if p := a.subs.Load(); p != nil {
		return *p
	}
	return nil
}

// note tells of messages that can be read, in the order in which they are in the log. One goroutine at a time.
func (a *arrivals) note(batch []cq.Entry) {
	for _, u := range a.list() {
		u.note(batch)
	}
}

// noteQueue tells of a queue that was built again: nobody was told what of it could be read when.
func (a *arrivals) noteQueue(k cq.Key, b cq.Bounds) {
	if b.Empty() {
		return
	}
	for _, u := range a.list() {
		u.mu.Lock()
		u.addLocked(Arrival{Key: k, From: b.Min, MaxOffset: b.Max, PhyOffset: -1})
		u.mu.Unlock()
		u.kick()
	}
}

// close ends all subscriptions, and lets none begin.
func (a *arrivals) close() {
	a.mu.Lock()
	a.mu.closed = true
	a.mu.Unlock()
	for _, u := range a.list() {
		u.end(ErrClosed)
	}
}

func (u *Subscription) note(batch []cq.Entry) {
	u.mu.Lock()
	for i := range batch {
		e := &batch[i]
		u.addLocked(Arrival{
			Key: e.Key, From: e.QueueOffset, MaxOffset: e.QueueOffset + 1, PhyOffset: e.Unit.PhyOffset, Size: e.Unit.Size, TagsCode: e.Unit.TagsCode, StoreTimestampMs: e.Unit.StoreTimestampMs,
		})
	}
	u.mu.Unlock()
	u.kick()
}

func (u *Subscription) kick() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *Subscription) addLocked(a Arrival) {
	if u.mu.closed != nil {
		return
	}
	if len(u.mu.pending) >= u.mu.foldAt {
		u.foldLocked()
		u.mu.foldAt = max(foldArrivals, 2*len(u.mu.pending)) // so that a message costs the same however many queues there are
	}
	u.mu.pending = append(u.mu.pending, a)
}

// foldLocked leaves one arrival for each queue, in the place of its first.
func (u *Subscription) foldLocked() {
	if u.mu.at == nil {
		u.mu.at = make(map[cq.Key]int)
	}
	kept := u.mu.pending[:0]
	for _, a := range u.mu.pending {
		i, ok := u.mu.at[a.Key]
		if !ok {
			u.mu.at[a.Key] = len(kept)
			kept = append(kept, a)
			continue
		}
		first := min(kept[i].From, a.From)
		if a.MaxOffset >= kept[i].MaxOffset {
			kept[i] = a
		}
		kept[i].From = first
	}
	clear(u.mu.pending[len(kept):]) // topics are not to be kept
	u.mu.pending = kept
	clear(u.mu.at)
}

// Next waits until messages have arrived, and returns what there is to tell since the last call. Of each queue it tells in the order of its slots, and of different
// queues in that of the first message not told of before. into is memory to be used for what comes next, such as an earlier answer; nil: none.
//
// Errors: that of ctx; ErrClosed when the store is closed, or the subscription, and all has been told.
func (u *Subscription) Next(ctx context.Context, into []Arrival) ([]Arrival, error) {
	for {
		u.mu.Lock()
		pending, closed := u.mu.pending, u.mu.closed
		if len(pending) > 0 {
			clear(into[:cap(into)])
			u.mu.pending, u.mu.foldAt = into[:0], foldArrivals
		}
		u.mu.Unlock()
		switch {
		case len(pending) > 0:
			return pending, nil
		case closed != nil:
			return nil, closed
		}
		select {
		case <-u.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close ends the subscription. Next, which it wakes, tells what is left. Idempotent.
func (u *Subscription) Close() {
	a := u.of
	a.mu.Lock()
	subs := slices.DeleteFunc(slices.Clone(a.list()), func(other *Subscription) bool { return other == u })
	if len(subs) == 0 {
		a.subs.Store(nil)
	} else {
		a.subs.Store(&subs)
	}
	a.mu.Unlock()
	u.end(ErrClosed)
}

func (u *Subscription) end(err error) {
	u.mu.Lock()
	if u.mu.closed == nil {
		u.mu.closed = err
	}
	u.mu.Unlock()
	u.kick()
}
