package soak

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// id names a message: a producer and its number there.
type id struct {
	producer int
	seq      int64
}

// ledger knows which message is where in each queue, and which group has consumed it.
type ledger struct {
	mu     sync.Mutex
	queues []queueLedger
	acked  int64
}

type queueLedger struct {
	ids      []id                   // by offset: as they were first consumed
	last     map[int]int64          // the last number of each producer in ids
	acked    map[int64]id           // acknowledged, and not consumed by any group yet
	consumed map[string]*groupQueue // by group
}

type groupQueue struct {
	next int64 // the offset behind the last message that was consumed
	phy  int64 // the place of the log behind it
}

func newLedger(queues int, groups []string) *ledger {
	l := &ledger{queues: make([]queueLedger, queues)}
	for i := range l.queues {
		q := &l.queues[i]
		q.last, q.acked, q.consumed = map[int]int64{}, map[int64]id{}, map[string]*groupQueue{}
		for _, g := range groups {
			q.consumed[g] = &groupQueue{}
		}
	}
	return l
}

// ack notes a message that the broker has acknowledged.
func (l *ledger) ack(queue int, offset int64, m id) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := &l.queues[queue]
	if offset < int64(len(q.ids)) {
		if q.ids[offset] != m {
			return fmt.Errorf("queue %d at %d: %v was acknowledged, and %v was consumed there", queue, offset, m, q.ids[offset])
		}
		l.acked++
		return nil
	}
	if other, ok := q.acked[offset]; ok && other != m {
		return fmt.Errorf("queue %d at %d: %v and %v were acknowledged there", queue, offset, other, m)
	}
	q.acked[offset] = m
	l.acked++
	return nil
}

// consume notes what a group got: the message at that offset, which ends at phy in the log.
func (l *ledger) consume(group string, queue int, offset int64, m id, phy int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := &l.queues[queue]
	g := q.consumed[group]
	if offset > g.next {
		return fmt.Errorf("queue %d: group %s got the message at %d and has not seen that at %d", queue, group, offset, g.next)
	}
	if offset < int64(len(q.ids)) {
		if q.ids[offset] != m {
			return fmt.Errorf("queue %d at %d: group %s got %v, and %v was consumed there before", queue, offset, group, m, q.ids[offset])
		}
	} else {
		if last, ok := q.last[m.producer]; ok && m.seq < last {
			return fmt.Errorf("queue %d at %d: %v comes behind number %d of its producer", queue, offset, m, last)
		}
		if acked, ok := q.acked[offset]; ok && acked != m {
			return fmt.Errorf("queue %d at %d: group %s got %v, and %v was acknowledged", queue, offset, group, m, acked)
		}
		delete(q.acked, offset)
		q.ids, q.last[m.producer] = append(q.ids, m), m.seq
	}
	if offset == g.next {
		g.next, g.phy = offset+1, phy
	}
	return nil
}

// moved notes that the broker sent a group on to an offset: what lies before must have been consumed.
func (l *ledger) moved(group string, queue int, to int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next := l.queues[queue].consumed[group].next; to > next {
		return fmt.Errorf("queue %d: group %s is sent on to %d and has consumed up to %d", queue, group, to, next)
	}
	return nil
}

// needed is the place of the log from which on some group has not consumed it.
func (l *ledger) needed() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	least := int64(-1)
	for i := range l.queues {
		for _, g := range l.queues[i].consumed {
			if least < 0 || g.phy < least {
				least = g.phy
			}
		}
	}
	return least
}

// left says what is acknowledged and not consumed by all groups; "": nothing.
func (l *ledger) left() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.queues {
		q := &l.queues[i]
		for offset, m := range q.acked {
			return fmt.Sprintf("queue %d at %d: %v was acknowledged, and nobody has consumed it", i, offset, m)
		}
		for name, g := range q.consumed {
			if g.next < int64(len(q.ids)) {
				return fmt.Sprintf("queue %d: group %s has consumed up to %d of %d", i, name, g.next, len(q.ids))
			}
		}
	}
	return ""
}

// counts returns how many messages were acknowledged, and how many places of queues were consumed.
func (l *ledger) counts() (acked, stored int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.queues {
		stored += int64(len(l.queues[i].ids))
	}
	return l.acked, stored
}

// A ledger that passes everything would make the soak worth nothing.
func TestLedger(t *testing.T) {
	a0, a1, b0 := id{0, 0}, id{0, 1}, id{1, 0}
	l := newLedger(1, []string{"g", "h"})
	require.NoError(t, l.ack(0, 0, a0))
	require.Contains(t, l.left(), "nobody has consumed it")
	require.NoError(t, l.consume("g", 0, 0, a0, 10))
	require.Contains(t, l.left(), "group h has consumed up to 0 of 1")
	require.EqualValues(t, 0, l.needed())
	require.NoError(t, l.consume("h", 0, 0, a0, 10))
	require.Empty(t, l.left())
	require.EqualValues(t, 10, l.needed())
	require.NoError(t, l.consume("g", 0, 0, a0, 10), "once more is allowed")
	require.ErrorContains(t, l.consume("g", 0, 0, b0, 10), "was consumed there before")
	require.ErrorContains(t, l.consume("g", 0, 2, a1, 30), "has not seen that at 1")
	require.ErrorContains(t, l.ack(0, 0, b0), "was consumed there")
	require.NoError(t, l.ack(0, 1, b0))
	require.ErrorContains(t, l.ack(0, 1, a1), "were acknowledged there")
	require.ErrorContains(t, l.consume("g", 0, 1, a1, 20), "was acknowledged")
	require.NoError(t, l.consume("g", 0, 1, b0, 20))
	require.NoError(t, l.consume("g", 0, 2, a1, 30))
	require.NoError(t, l.consume("g", 0, 3, a1, 40), "sent again")
	require.ErrorContains(t, l.consume("g", 0, 4, a0, 50), "comes behind number 1")
	require.NoError(t, l.moved("g", 0, 4))
	require.ErrorContains(t, l.moved("h", 0, 2), "has consumed up to 1")
	acked, stored := l.counts()
	require.EqualValues(t, 2, acked)
	require.EqualValues(t, 4, stored)
}
