//go:build !cgo

package offsets

import "github.com/tandemq/tandemmq/cq"

// readDatabase answers cq.ErrNoRocksDB: there is no RocksDB in a binary without cgo.
func readDatabase(*Source) error { return cq.ErrNoRocksDB }
