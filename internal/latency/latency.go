// Package latency counts how long something took, by size: four sizes to a power of two, so that what is read from the counts is within a tenth of what was.
//
// # Goroutines
//
// Any number may record into a Histogram, and take counts from it, at once. Counts are a value of whoever took them.
package latency

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

// buckets is how many sizes there are; the last one, of eighteen minutes and more, takes in what is larger.
const buckets = 4 * 41

// Histogram counts. The zero value is ready.
type Histogram struct{ n [buckets]atomic.Int64 }

// Record counts one.
func (h *Histogram) Record(d time.Duration) { h.n[bucket(d)].Add(1) }

// bucket is that of d: four times the power of two at or below it, and which quarter of the way to the next one.
func bucket(d time.Duration) int {
	if d < 4 {
		return max(int(d), 0) // 0 to 3 ns, for which there are no quarters
	}
	e := bits.Len64(uint64(d)) - 1
	return min(4*(e-1)+int(d>>(e-2))&3, buckets-1)
}

// middle of a bucket, in ns.
func middle(i int) float64 {
	if i < 4 {
		return float64(i)
	}
	e, quarter := i/4+1, float64(i%4)
	return math.Ldexp(1+(quarter+0.5)/4, e)
}

// Counts is what a Histogram held, or took in between two looks: how many by bucket. It is written as JSON in a stable form.
type Counts map[int]int64

// Counts returns what was recorded so far.
func (h *Histogram) Counts() Counts {
	c := Counts{}
	for i := range h.n {
		if n := h.n[i].Load(); n > 0 {
			c[i] = n
		}
	}
	return c
}

// Sub returns what c has more than before.
func (c Counts) Sub(before Counts) Counts {
	d := Counts{}
	for i, n := range c {
		if n -= before[i]; n > 0 {
			d[i] = n
		}
	}
	return d
}

// Add takes in all of o.
func (c Counts) Add(o Counts) {
	for i, n := range o {
		c[i] += n
	}
}

// Total is how many there are.
func (c Counts) Total() (n int64) {
	for _, k := range c {
		n += k
	}
	return n
}

// Quantile is what a part of them (0 to 1) took at most; 0 without any.
func (c Counts) Quantile(part float64) time.Duration {
	left := int64(math.Ceil(part * float64(c.Total())))
	if len(c) == 0 {
		return 0
	}
	sizes := slices.Sorted(maps.Keys(c))
	for _, i := range sizes {
		if left -= c[i]; left <= 0 {
			return time.Duration(middle(i))
		}
	}
	return time.Duration(middle(sizes[len(sizes)-1]))
}
