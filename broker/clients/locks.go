package clients

import (
	"sync"
	"time"

	"github.com/tandemq/tandemmq/remoting"
)

// LockLife is how long a lock lasts that nobody renews.
//
// Source: rocketmq.broker.rebalance.lockMaxLiveTime, 5.5.0.
const LockLife = time.Minute

type lock struct {
	clientID string
	renewed  time.Time
}

func (l *lock) over(now time.Time) bool { return now.Sub(l.renewed) > LockLife }

// Locks are the queues that clients have locked, by group.
type Locks struct {
	mu     sync.Mutex
	groups map[string]map[remoting.MessageQueue]lock
}

// NewLocks returns an empty table.
func NewLocks() *Locks { return &Locks{groups: map[string]map[remoting.MessageQueue]lock{}} }

// Lock gives the client those of the queues that are free, its own already, or held by one who has not renewed, and returns them.
func (l *Locks) Lock(group, clientID string, queues []remoting.MessageQueue, now time.Time) []remoting.MessageQueue {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.groups[group]
	if held == nil {
		held = map[remoting.MessageQueue]lock{}
		l.groups[group] = held
	}
	got := []remoting.MessageQueue{}
	for _, q := range queues {
		if by, ok := held[q]; ok && by.clientID != clientID && !by.over(now) {
			continue
		}
		held[q] = lock{clientID, now}
		got = append(got, q)
	}
	return got
}

// Unlock gives up those of the queues that the client holds.
func (l *Locks) Unlock(group, clientID string, queues []remoting.MessageQueue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.groups[group]
	for _, q := range queues {
		if held[q].clientID == clientID {
			delete(held, q)
		}
	}
	if len(held) == 0 {
		delete(l.groups, group)
	}
}

// Any tells whether a client of the group holds a queue.
func (l *Locks) Any(group string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, by := range l.groups[group] {
		if !by.over(now) {
			return true
		}
	}
	return false
}
