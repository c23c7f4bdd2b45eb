//go:build !cgo

package rocks

import "github.com/tandemq/tandemmq/index"

// Index stands in for the RocksDB index in a binary without cgo. None can be opened; every call answers index.ErrNoRocksDB or nothing.
type Index struct{}

// Open answers index.ErrNoRocksDB.
func Open(string, Options) (*Index, error) { return nil, index.ErrNoRocksDB }

// Exists answers index.ErrNoRocksDB.
func Exists(string, RocksDBOptions) (bool, error) { return false, index.ErrNoRocksDB }

// Dir is empty.
func (*Index) Dir() string { return "" }

// AppendBatch answers index.ErrNoRocksDB.
func (*Index) AppendBatch(*Batch) error { return index.ErrNoRocksDB }

// Query answers index.ErrNoRocksDB.
func (*Index) Query(index.Query, func(int64) bool) (index.Answer, error) {
	return index.Answer{}, index.ErrNoRocksDB
}

// Flush answers index.ErrNoRocksDB.
func (*Index) Flush() error { return index.ErrNoRocksDB }

// Progress answers -1 twice.
func (*Index) Progress() (indexed, durable int64) { return -1, -1 }

// DispatchFrom answers -1.
func (*Index) DispatchFrom() int64 { return -1 }

// Last answers -1 and 0.
func (*Index) Last() (phy, ms int64) { return -1, 0 }

// Skipped answers 0.
func (*Index) Skipped() int64 { return 0 }

// TruncateDirty answers index.ErrNoRocksDB.
func (*Index) TruncateDirty(int64) error { return index.ErrNoRocksDB }

// Expire answers index.ErrNoRocksDB.
func (*Index) Expire(int64) (bool, error) { return false, index.ErrNoRocksDB }

// Clear answers index.ErrNoRocksDB.
func (*Index) Clear() error { return index.ErrNoRocksDB }

// Rows answers index.ErrNoRocksDB.
func (*Index) Rows(func(Row) bool, func(error)) error { return index.ErrNoRocksDB }

// RowCount answers index.ErrNoRocksDB.
func (*Index) RowCount() (int64, error) { return 0, index.ErrNoRocksDB }

// Close does nothing.
func (*Index) Close() error { return nil }
