//go:build cgo

package compare

// HasRocks tells whether stores can have RocksDB queues.
const HasRocks = true
