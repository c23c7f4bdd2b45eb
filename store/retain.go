package store

import (
	"fmt"
	"sync"
)

// holder is somebody who needs the log from a position on.
type holder struct {
	name string
	from func() int64
}

// RetainFrom keeps retention from removing any file of the log that holds bytes at or above the physical offset that from returns, until
// release is called. It is for whoever reads the log over a longer time: a backfill, a verification, a copy. name says in the log, and in the refusal
// of puts when the disk is full, who it is.
//
// from is called before each removal, by another goroutine; it must not block, and must not go down. What has gone before RetainFrom returns is gone: ask the log
// for its MinOffset afterwards. release is idempotent.
func (s *Store) RetainFrom(name string, from func() int64) (release func()) {
	return s.holders.add(&holder{name, from})
}

// holders are those who called RetainFrom. Its lock is held from the question who needs a file to the removal of the file.
type holders struct {
	sync.Mutex
	m map[*holder]struct{}
}

func (h *holders) add(one *holder) (release func()) {
	h.Lock()
	defer h.Unlock()
	if h.m == nil {
		h.m = make(map[*holder]struct{})
	}
	h.m[one] = struct{}{}
	return func() {
		h.Lock()
		defer h.Unlock()
		delete(h.m, one)
	}
}

// neededLocked says who needs something below end, "" when nobody does.
func (h *holders) neededLocked(end int64) string {
	for one := range h.m {
		if from := one.from(); from < end {
			return fmt.Sprintf("%s needs the log from %d on", one.name, from)
		}
	}
	return ""
}

// needed says which view of the store needs something below end, "" when none does.
//
// Queues need what is not durable in them: a unit that a loss of power takes, of a record that has gone, would take the queue's max with it. While one of
// them is built again or compared with the log, they need all of it. An index needs what it has not read.
func (s *Store) needed(end int64) string {
	v := s.views
	if v == nil {
		return "no consume queues are built here, which would lose the messages"
	}
	name := v.view.name()
	if !v.known() {
		return name + " are being compared with the log"
	}
	if n := v.view.brokenNow.Load(); n > 0 {
		return fmt.Sprintf("%s: %d of them are being built again from the log", name, n)
	}
	if err := v.sides.servesLack(); err != nil {
		return err.Error()
	}
	if to := v.durableTo.Load(); to < end {
		return because(fmt.Sprintf("%s are durable up to %d", name, to), v.follow.failure())
	}
	if to, x := v.indexedTo(); to < end {
		return because(fmt.Sprintf("%s has come to %d", x.name(), to), x.feed().follow.failure())
	}
	return ""
}

// known tells whether what the store serves has been compared with the log since it was opened. A side that is being filled is not served: what expires meanwhile it need not have.
func (v *views) known() bool {
	select {
	case <-v.verified:
		return true
	default:
	}
	if d := v.sides; d != nil && v.rebuild.Load().ended() {
		select {
		case <-d.served:
			return d.held != "" && !d.hold.ended()
		default:
		}
	}
	return false
}

func because(what string, err error) string {
	if err != nil {
		return what + ": " + err.Error()
	}
	return what
}
