//go:build cgo

package golden_test

// hasRocks tells whether the tandemmq built for this run has RocksDB.
const hasRocks = true
