package locks

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// work keeps a core busy for n steps, 1 ns or so each: a chain of multiplications.
func work(x uint64, n int) uint64 {
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

// BenchmarkLocker measures rounds of a section of about 50 ns under the lock and of outside ns beside it (0, or the 100 ns that
// encoding a message takes). ns/op is one round of any goroutine, so the least possible is the section, 50 ns. The name
// tells the machine's cores: more procs than cores show what happens when a holder loses its core.
func BenchmarkLocker(b *testing.B) {
	const section = 55
	for _, outside := range []int{0, 80} {
		for _, procs := range []int{2, 8} {
			for _, goroutines := range []int{1, 2, 8, 64} {
				for k := Mutex; k <= Adaptive; k++ {
					b.Run(fmt.Sprintf("outside=%d/procs=%d,cores=%d/goroutines=%d/impl=%v", outside, procs, runtime.NumCPU(), goroutines, k), func(b *testing.B) {
						defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
						l := New(k)
						shared := uint64(1)
						var wg sync.WaitGroup
						b.ReportAllocs()
						b.ResetTimer()
						for g := range goroutines {
							rounds := b.N / goroutines
							if g == 0 {
								rounds += b.N % goroutines
							}
							wg.Go(func() {
								own := uint64(1)
								for range rounds {
									l.Lock()
									shared = work(shared, section)
									l.Unlock()
									own = work(own, outside)
								}
								if own == 0 {
									panic("never")
								}
							})
						}
						wg.Wait()
					})
				}
			}
		}
	}
}

// BenchmarkUncontended measures a lock and its unlock alone: a sync.Mutex called directly, and each variant.
func BenchmarkUncontended(b *testing.B) {
	b.Run("impl=sync.Mutex", func(b *testing.B) {
		var mu sync.Mutex
		for b.Loop() {
			mu.Lock()
			mu.Unlock() //nolint:staticcheck // SA2001: the empty section is what is measured
		}
	})
	for k := Mutex; k <= Adaptive; k++ {
		b.Run(fmt.Sprintf("impl=%v", k), func(b *testing.B) {
			l := New(k)
			for b.Loop() {
				l.Lock()
				l.Unlock() //nolint:staticcheck // SA2001: the empty section is what is measured
			}
		})
	}
	for k := Mutex; k <= Adaptive; k++ {
		b.Run(fmt.Sprintf("impl=striped,%v", k), func(b *testing.B) {
			s := NewStriped(k, 32)
			for b.Loop() {
				i := s.Stripe("BenchTopic", 3)
				s.Lock(i)
				s.Unlock(i)
			}
		})
	}
	b.Run("op=stripe", func(b *testing.B) {
		s := NewStriped(Mutex, 32)
		for b.Loop() {
			s.Stripe("BenchTopic", 3)
		}
	})
}
