//go:build cgo

package rocks

import "sync/atomic"

// live counts the C objects that this package has made and not given back. Every object goes through made and destroy, or madeAll and destroyed where the binding has another
// name for it; those that another object owns from its making on (a rate limiter, a bloom filter) do not count.
var live atomic.Int64

// LiveObjects returns how many C objects this package has made in the process and not given back: 0 when nothing is open.
func LiveObjects() int64 { return live.Load() }

func made[T any](o T) T {
	live.Add(1)
	return o
}

func destroy(o interface{ Destroy() }) {
	o.Destroy()
	live.Add(-1)
}

func madeAll(n int) { live.Add(int64(n)) }

func destroyed(n int) { live.Add(int64(-n)) }
