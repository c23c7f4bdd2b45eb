package locks

import (
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func eachKind(t *testing.T, f func(t *testing.T, k Kind)) {
	for k := Mutex; k <= Adaptive; k++ {
		t.Run(k.String(), func(t *testing.T) { f(t, k) })
	}
}

func TestKindNames(t *testing.T) {
	for k := Mutex; k <= Adaptive; k++ {
		parsed, err := ParseKind(k.String())
		require.NoError(t, err)
		require.Equal(t, k, parsed)
	}
	for _, name := range []string{"", "Mutex", "ticket"} {
		_, err := ParseKind(name)
		require.Error(t, err)
	}
	_, err := ParseKind("ticket")
	require.EqualError(t, err, `parse lock kind: got "ticket", want mutex, spin or adaptive`)
	require.Equal(t, "Kind(3)", Kind(3).String())
	require.Panics(t, func() { New(Kind(3)) })
}

func TestPutLockKind(t *testing.T) {
	require.Equal(t, Mutex, PutLockKind(true, false), "upstream's default")
	require.Equal(t, Spin, PutLockKind(false, false))
	require.Equal(t, Adaptive, PutLockKind(true, true))
	require.Equal(t, Adaptive, PutLockKind(false, true))
}

// Two goroutines are never inside at once, and each comes in: with as many goroutines as threads, with many more, and with one
// thread, where every waiter has to give way to the holder.
func TestMutualExclusion(t *testing.T) {
	eachKind(t, func(t *testing.T, k Kind) {
		for _, c := range []struct{ procs, goroutines, rounds int }{{1, 8, 2000}, {2, 2, 20000}, {2, 64, 500}, {8, 8, 5000}} {
			before := runtime.GOMAXPROCS(c.procs)
			l := New(k)
			var inside, entered int
			var wg sync.WaitGroup
			for range c.goroutines {
				wg.Go(func() {
					for i := range c.rounds {
						l.Lock()
						inside++
						if inside != 1 {
							t.Error("two inside")
						}
						if i%64 == 0 {
							runtime.Gosched() // a holder that has lost its thread
						}
						entered++
						inside--
						l.Unlock()
					}
				})
			}
			wg.Wait()
			runtime.GOMAXPROCS(before)
			require.Equal(t, c.goroutines*c.rounds, entered)
		}
	})
}

// A holder may take its time: those who came meanwhile all get in.
func TestNoLostWakeup(t *testing.T) {
	eachKind(t, func(t *testing.T, k Kind) {
		const goroutines = 16
		l := New(k)
		for range 20 {
			var coming, done sync.WaitGroup
			entered := 0
			l.Lock()
			for range goroutines {
				coming.Add(1)
				done.Go(func() {
					coming.Done()
					l.Lock()
					entered++
					l.Unlock()
				})
			}
			coming.Wait()
			for range 100 {
				runtime.Gosched()
			}
			require.Zero(t, entered)
			l.Unlock()
			done.Wait()
			require.Equal(t, goroutines, entered)
		}
	})
}

// While the lock is held, waiters end up at the gate, all of them; once it is free again the gate is left empty, so the next
// waiter spins.
func TestAdaptiveQueuesAndLeavesTheQueue(t *testing.T) {
	const goroutines = 8
	l := new(adaptiveLock)
	var done sync.WaitGroup
	l.Lock()
	for range goroutines {
		done.Go(func() {
			l.Lock()
			l.Unlock() //nolint:staticcheck // SA2001: getting in is all that is asked
		})
	}
	for l.queued.Load() != goroutines {
		runtime.Gosched()
	}
	require.False(t, l.gate.TryLock(), "one of them has passed the gate")
	l.Unlock()
	done.Wait()
	require.Zero(t, l.queued.Load())
	require.True(t, l.gate.TryLock())
	require.True(t, l.take(), "free")
}

func TestUnlockOfUnlockedPanics(t *testing.T) {
	for _, k := range []Kind{Spin, Adaptive} { // sync.Mutex ends the process
		l := New(k)
		require.Panics(t, l.Unlock, k)
		l.Lock()
		l.Unlock() //nolint:staticcheck // SA2001: no section
		require.Panics(t, l.Unlock, k)
	}
}

// Locks made one after the other must not slow each other down.
func TestLocksFillACacheLine(t *testing.T) {
	require.EqualValues(t, cacheLine, unsafe.Sizeof(mutexLock{}))
	require.EqualValues(t, cacheLine, unsafe.Sizeof(spinLock{}))
	require.EqualValues(t, cacheLine, unsafe.Sizeof(adaptiveLock{}))
}
