package locks

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A queue has one stripe, in range, whether its topic is a string or bytes; queues spread over the stripes.
func TestStripe(t *testing.T) {
	for _, n := range []int{1, 3, 32, 1000} {
		s := NewStriped(Mutex, n)
		count := make([]int, n)
		const topics, queues = 100, 80
		for topic := range topics {
			name := fmt.Sprintf("topic-%d", topic)
			for queueID := range int32(queues) {
				i := s.Stripe(name, queueID)
				require.Equal(t, i, s.StripeBytes([]byte(name), queueID))
				require.Equal(t, i, s.Stripe(strings.Clone(name), queueID))
				count[i]++ // panics out of range
			}
		}
		// At 8 queues a stripe (n=1000) chance may leave one empty and put 30 into another.
		require.LessOrEqual(t, slices.Max(count), 2*topics*queues/n+30, n)
	}
	require.Panics(t, func() { NewStriped(Mutex, 0) })
}

// The queues of one topic, which have consecutive ids, are hardly ever two on a stripe while there are stripes enough.
func TestStripeSpreadsQueuesOfATopic(t *testing.T) {
	s := NewStriped(Mutex, 32)
	used := map[int]bool{}
	for queueID := range int32(16) {
		used[s.Stripe("TopicA", queueID)] = true
	}
	require.GreaterOrEqual(t, len(used), 12)
}

// recorder notes which stripe is locked and unlocked when.
type recorder struct {
	stripe int
	log    *[]int
}

func (r recorder) Lock()   { *r.log = append(*r.log, r.stripe) }
func (r recorder) Unlock() { *r.log = append(*r.log, -r.stripe) }

func TestLockAllOrder(t *testing.T) {
	for _, c := range []struct {
		name          string
		in, want, log []int
	}{
		{"none", []int{}, []int{}, nil},
		{"one", []int{3}, []int{3}, []int{3, -3}},
		{"descending", []int{9, 4, 1}, []int{1, 4, 9}, []int{1, 4, 9, -9, -4, -1}},
		{"repeated", []int{4, 1, 4, 4, 1}, []int{1, 4}, []int{1, 4, -4, -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewStriped(Mutex, 10)
			var log []int
			for i := range s.stripes {
				s.stripes[i] = recorder{i, &log}
			}
			locked := s.LockAll(c.in)
			require.Equal(t, c.want, locked)
			s.UnlockAll(locked)
			require.Equal(t, c.log, log)
		})
	}
}

// Goroutines that name the same stripes in different orders, beside others that take one, all get through, and no two are
// on one stripe at once.
func TestLockAllExcludesAndDoesNotDeadlock(t *testing.T) {
	eachKind(t, func(t *testing.T, k Kind) {
		const n, rounds = 8, 1000
		s := NewStriped(k, n)
		var entered [n]int
		var wg sync.WaitGroup
		for g := range 6 {
			wg.Go(func() {
				scratch := make([]int, 0, 4)
				for i := range rounds {
					if g%3 == 0 {
						s.Lock((g + i) % n)
						entered[(g+i)%n]++
						s.Unlock((g + i) % n)
						continue
					}
					a, b := (g+i)%n, (g*5+i*3)%n
					if g%2 == 0 {
						a, b = b, a
					}
					locked := s.LockAll(append(scratch[:0], a, b, a))
					for _, stripe := range locked {
						entered[stripe]++
					}
					s.UnlockAll(locked)
				}
			})
		}
		wg.Wait()
		sum := 0
		for _, e := range entered {
			sum += e
		}
		want := 2 * rounds
		for g := range 6 {
			for i := range rounds {
				if g%3 == 0 {
					continue
				}
				want += 2
				if (g+i)%n == (g*5+i*3)%n {
					want--
				}
			}
		}
		require.Equal(t, want, sum)
	})
}

func TestNoAllocations(t *testing.T) {
	s := NewStriped(Mutex, 32)
	topic, scratch := []byte("%LMQ%a"), make([]int, 0, 4)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		i := s.Stripe("BenchTopic", 3)
		s.Lock(i)
		s.Unlock(i)
		s.UnlockAll(s.LockAll(append(scratch, i, s.StripeBytes(topic, 0), i)))
	}))
}
