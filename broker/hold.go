package broker

import (
	"container/heap"
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// recheck is after how long a pull is answered that waits while messages arrive which it does not want: so that it gets on. Source: PullRequestHoldService, 5.5.0.
const recheck = 5 * time.Second

// held is a pull that waits for a message: some 200 bytes.
type held struct {
	pull   pull
	ticket remoting.Ticket
	due    time.Time // it is answered then, whatever there is
	at     int       // in the heap of its shard; -1: it does not wait any more
}

// holdShards is how many locks the waiting pulls share.
const holdShards = 32

type holdShard struct {
	mu      sync.Mutex
	byQueue map[cq.Key]map[*held]struct{}
	byTime  holdHeap
	release func(p *pull) // the holder's
}

// holder has the pulls that wait. A pull is put in first, and then it is looked whether its message has come meanwhile; so none is missed.
type holder struct {
	b      *Broker
	seed   maphash.Seed
	shards [holdShards]holdShard
	ready  chan *held          // to be answered
	sub    *store.Subscription // nil: there is none

	waiting, bytes atomic.Int64 // pulls that wait, and their memory

	recheck time.Duration // the constant; less in tests
}

func newHolder(b *Broker) *holder {
	h := &holder{b: b, seed: maphash.MakeSeed(), ready: make(chan *held, 1024), recheck: recheck}
	for i := range h.shards {
		h.shards[i].byQueue, h.shards[i].release = map[cq.Key]map[*held]struct{}{}, h.release
	}
	return h
}

func (h *holder) shard(k cq.Key) *holdShard {
	return &h.shards[(maphash.String(h.seed, k.Topic)+uint64(k.QueueID))%holdShards]
}

// heldBytes is what a pull that waits takes beside its strings and its filter, in the maps too.
const heldBytes = 512

// memory is what the pull takes without its filter, which it may share with others.
func (p *pull) memory() int64 { return heldBytes + int64(len(p.group)+len(p.topic)) }

// reserve makes room for a pull, which add or release must follow; false: there is none.
func (h *holder) reserve(p *pull) bool {
	size := p.memory()
	if p.filter.waiting.Add(1) == 1 {
		size += p.filter.bytes
	}
	n, bytes := h.waiting.Add(1), h.bytes.Add(size)
	if n > h.b.o.MaxHeldPulls || bytes > h.b.o.MaxHeldPullBytes {
		h.release(p)
		return false
	}
	return true
}

func (h *holder) release(p *pull) {
	size := p.memory()
	if p.filter.waiting.Add(-1) == 0 {
		size += p.filter.bytes
	}
	h.waiting.Add(-1)
	h.bytes.Add(-size)
}

// add has a pull wait that there is room for, and answers it at once if its message has come.
func (h *holder) add(p *pull, t remoting.Ticket) {
	w := &held{pull: *p, ticket: t, due: time.Now().Add(p.suspend)}
	w.pull.group, w.pull.topic = strings.Clone(p.group), strings.Clone(p.topic)
	k := cq.Key{Topic: w.pull.topic, QueueID: p.queueID}
	s := h.shard(k)
	s.mu.Lock()
	if s.byQueue[k] == nil {
		s.byQueue[k] = map[*held]struct{}{}
	}
	s.byQueue[k][w] = struct{}{}
	heap.Push(&s.byTime, w)
	s.mu.Unlock()
	if most, err := h.b.store.MaxOffset(k.Topic, k.QueueID); err != nil || most > p.offset || h.b.ctx.Err() != nil {
		if h.take(s, w) {
			h.b.answerHeld(&w.pull, w.ticket)
		}
	}
}

// take ends the waiting of a pull; false if somebody else has.
func (h *holder) take(s *holdShard, w *held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeLocked(w)
}

func (s *holdShard) takeLocked(w *held) bool {
	if w.at < 0 {
		return false
	}
	heap.Remove(&s.byTime, w.at)
	k := cq.Key{Topic: w.pull.topic, QueueID: w.pull.queueID}
	if delete(s.byQueue[k], w); len(s.byQueue[k]) == 0 {
		delete(s.byQueue, k)
	}
	s.release(&w.pull)
	return true
}

// arrived wakes the pulls that a message is for.
func (h *holder) arrived(ctx context.Context, a *store.Arrival) {
	s := h.shard(a.Key)
	properties := h.properties(a)
	var woken []*held
	s.mu.Lock()
	for w := range s.byQueue[a.Key] {
		switch {
		case w.pull.offset >= a.MaxOffset:
		case a.Single() && !w.pull.filter.matches(a.TagsCode, properties):
			// It is not for this one, which shall get on all the same.
			if due := time.Now().Add(h.recheck); due.Before(w.due) {
				w.due = due
				heap.Fix(&s.byTime, w.at)
			}
		case s.takeLocked(w):
			woken = append(woken, w)
		}
	}
	s.mu.Unlock()
	for _, w := range woken {
		h.answer(ctx, w)
	}
}

// properties returns a function that reads those of the message, once.
func (h *holder) properties(a *store.Arrival) func() ([]byte, bool) {
	var p []byte
	read, ok := false, false
	return func() ([]byte, bool) {
		if !read {
			read = true
			var r message.Record
			if release, err := h.b.store.MessageAt(a.PhyOffset, &r); err == nil {
				p, ok = append([]byte{}, r.Properties...), true
				release()
			}
		}
		return p, ok
	}
}

// answer has a worker answer a pull.
func (h *holder) answer(ctx context.Context, w *held) {
	select {
	case h.ready <- w:
	case <-ctx.Done():
		h.b.answerHeld(&w.pull, w.ticket)
	}
}

// expired answers the pulls whose time is over.
func (h *holder) expired(ctx context.Context, now time.Time) {
	for i := range h.shards {
		s := &h.shards[i]
		var over []*held
		s.mu.Lock()
		for len(s.byTime) > 0 && !s.byTime[0].due.After(now) {
			w := s.byTime[0]
			s.takeLocked(w)
			over = append(over, w)
		}
		s.mu.Unlock()
		for _, w := range over {
			h.answer(ctx, w)
		}
	}
}

// holdTick is how exact the end of waiting is.
const holdTick = 100 * time.Millisecond

// subscribe makes messages known that arrive from now on, to pulls that wait and to the levels of delayed messages.
func (h *holder) subscribe() {
	var err error
	if h.sub, err = h.b.store.SubscribeArrivals(); err != nil {
		h.b.log.Error("pulls are not told of messages, and wait to the end of their time", slog.Any("err", err))
	}
}

// run serves until its context ends, and then answers all that wait.
func (h *holder) run(ctx context.Context) {
	var workers, following sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for w := range h.ready {
				h.b.answerHeld(&w.pull, w.ticket)
			}
		})
	}
	if h.sub != nil {
		following.Go(func() { h.follow(ctx, h.sub) })
	}
	tick := time.NewTicker(holdTick)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case now := <-tick.C:
			h.expired(ctx, now)
		case <-ctx.Done():
		}
	}
	if h.sub != nil {
		h.sub.Close()
	}
	following.Wait()
	h.expired(ctx, time.Now().Add(24*365*time.Hour)) // one that is added from now on is answered by who adds it
	close(h.ready)
	workers.Wait()
}

func (h *holder) follow(ctx context.Context, sub *store.Subscription) {
	var batch []store.Arrival
	for {
		var err error
		if batch, err = sub.Next(ctx, batch); err != nil {
			if !errors.Is(err, context.Canceled) && !errors.Is(err, store.ErrClosed) {
				h.b.log.Error("pulls are not told of messages any more", slog.Any("err", err))
			}
			return
		}
		for i := range batch {
			h.b.delayer.arrived(&batch[i].Key)
			h.arrived(ctx, &batch[i])
		}
	}
}

// holdHeap orders waiting pulls by the end of their time.
type holdHeap []*held

func (h holdHeap) Len() int           { return len(h) }
func (h holdHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h holdHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push and Pop are called by the package heap alone.
func (h *holdHeap) Push(x any) {
	w := x.(*held)
	w.at = len(*h)
	*h = append(*h, w)
}

// Pop takes the last one out.
func (h *holdHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	w.at = -1
	return w
}
