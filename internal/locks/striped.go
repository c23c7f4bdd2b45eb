package locks

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
)

// Striped is a fixed number of locks, the stripes. A queue always has the same stripe; queues that share one wait for each
// other and nothing else comes of it.
//
// Who needs the stripes of several queues takes them with LockAll and holds none while calling it: all callers take them in
// ascending order, so no two wait for each other.
type Striped struct {
	seed    maphash.Seed
	stripes []sync.Locker
}

// NewStriped returns n unlocked stripes of a kind; upstream's topicQueueLockNum is 32. It panics when n is below 1.
//
// Source: TopicQueueLock, 5.5.0.
func NewStriped(k Kind, n int) *Striped {
	if n < 1 {
		panic("locks: fewer than one stripe")
	}
	s := &Striped{seed: maphash.MakeSeed(), stripes: make([]sync.Locker, n)}
	for i := range s.stripes {
		s.stripes[i] = New(k)
	}
	return s
}

// Stripe returns the number of a queue's stripe, 0 to n-1. It differs from one Striped to the next. No allocation.
func (s *Striped) Stripe(topic string, queueID int32) int {
	return s.reduce(maphash.String(s.seed, topic), queueID)
}

// StripeBytes is Stripe for a topic held as bytes, such as the name of a light queue inside a property.
func (s *Striped) StripeBytes(topic []byte, queueID int32) int {
	return s.reduce(maphash.Bytes(s.seed, topic), queueID)
}

// reduce mixes the queue id in and takes the result to [0, n) by its top bits. Steps of the golden ratio put the queues of one
// topic, whose ids are consecutive, far from each other.
func (s *Striped) reduce(hash uint64, queueID int32) int {
	hash += uint64(uint32(queueID)) * 0x9E3779B97F4A7C15
	stripe, _ := bits.Mul64(hash, uint64(len(s.stripes)))
	return int(stripe)
}

// Lock takes one stripe.
func (s *Striped) Lock(stripe int) { s.stripes[stripe].Lock() }

// Unlock gives one stripe back.
func (s *Striped) Unlock(stripe int) { s.stripes[stripe].Unlock() }

// LockAll takes several stripes, each once however often it is named, and returns what UnlockAll takes: the same slice, sorted
// and without repetitions. No allocation.
func (s *Striped) LockAll(stripes []int) (locked []int) {
	slices.Sort(stripes)
	locked = slices.Compact(stripes)
	for _, i := range locked {
		s.stripes[i].Lock()
	}
	return locked
}

// UnlockAll gives back what LockAll took.
func (s *Striped) UnlockAll(locked []int) {
	for _, i := range slices.Backward(locked) {
		s.stripes[i].Unlock()
	}
}
