//go:build cgo

package rocks

// Available tells whether this binary has RocksDB.
const Available = true
