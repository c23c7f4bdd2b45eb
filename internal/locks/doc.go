// Package locks holds the locks of the put path: one lock around the end of the log, and stripes of them for the offset
// tables of the queues. Which variant serves is an option (New, Kind); all of them are a sync.Locker.
//
// # Basics
//
//	Mutex     sync.Mutex: spins a little where other threads run, then parks. The default
//	Spin      one word, taken by compare-and-swap; tries for a bounded time, then lets other goroutines run, and so on
//	Adaptive  spins while nobody queues, queues at a mutex while somebody does
//	Striped   n locks, chosen by topic and queue id; several may be taken together
//
// # Caveats
//
// None is recursive and none is fair: a goroutine that has just unlocked often locks again before one that waits. Only Mutex
// bounds the wait (it hands the lock over after 1 ms). Spin and Adaptive are for sections of some tens of nanoseconds that
// never wait for anything; a holder that sleeps keeps one core busy, or with Spin all of them.
//
// Without contention no variant is faster than sync.Mutex: each takes two atomic instructions, one to lock and one to unlock,
// and on amd64 Go has no cheaper way to publish a word. With contention sync.Mutex measured best or equal on two cores and
// on eight threads sharing two (BenchmarkLocker), so it is the default, as it is upstream.
//
// # Goroutines
//
// The package starts none.
package locks
