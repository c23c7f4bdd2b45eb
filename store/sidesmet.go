package store

import (
	"sync"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
)

// MetQueue is a queue that was found to lack something on a side, and why.
type MetQueue struct {
	Key cq.Key
	Err error
}

// maxMet bounds what is kept of them.
const maxMet = 100

// metQueues are those that were found since the store was opened.
type metQueues struct {
	mu   sync.Mutex
	n    [len(combinedKinds)]int64
	last [len(combinedKinds)][]MetQueue
}

func (m *metQueues) add(one combine.Divergence) {
	if barred(one.Err) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := indexOf(one.Side)
	m.n[at]++
	if list := m.last[at]; len(list) == maxMet {
		m.last[at] = append(list[:0], list[1:]...)
	}
	m.last[at] = append(m.last[at], MetQueue{Key: one.Key, Err: one.Err})
}

func (m *metQueues) get(kind cq.Kind) (n int64, last []MetQueue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := indexOf(kind)
	return m.n[at], append([]MetQueue(nil), m.last[at]...)
}
