//go:build cgo

package rocks

import "sync/atomic"

// live counts the C objects that this package has made and not given back. Every object goes through made and destroy, or madeAll and destroyed where the binding has another
// name for it; those that another object owns from its making on (a rate limiter, a bloom filter) do not count. TestEveryObjectIsDestroyed reads it.
var live atomic.Int64

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
