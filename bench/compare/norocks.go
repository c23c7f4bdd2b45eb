//go:build !cgo

package compare

// HasRocks tells whether stores can have RocksDB queues.
const HasRocks = false

// cgoLimits are those of the way into C: there is none.
func cgoLimits() []limit { return nil }
