//go:build !cgo

package rocks

import (
	"context"
	"iter"
	"time"

	"github.com/tandemq/tandemmq/cq"
)

var (
	_ cq.Store       = (*Store)(nil)
	_ cq.Importer    = (*Store)(nil)
	_ cq.Expirer     = (*Store)(nil)
	_ cq.Skipper     = (*Store)(nil)
	_ cq.Trimmer     = (*Store)(nil)
	_ cq.NameChecker = (*Store)(nil)
	_ cq.Noter       = (*Store)(nil)
)

// Available tells whether this binary has RocksDB.
const Available = false

// Store stands in for the RocksDB store in a binary without cgo. None can be opened; every call answers cq.ErrNoRocksDB or
// nothing.
type Store struct{}

// Open answers cq.ErrNoRocksDB.
func Open(string, Options) (*Store, error) { return nil, cq.ErrNoRocksDB }

// Repair answers cq.ErrNoRocksDB.
func Repair(string) error { return cq.ErrNoRocksDB }

// Kind names the store.
func (*Store) Kind() cq.Kind { return cq.KindRocks }

// Dir is empty.
func (*Store) Dir() string { return "" }

// SetMinPhyOffset answers cq.ErrNoRocksDB.
func (*Store) SetMinPhyOffset(int64) error { return cq.ErrNoRocksDB }

// Expire answers cq.ErrNoRocksDB.
func (*Store) Expire(context.Context, time.Duration) (cq.Expired, error) {
	return cq.Expired{}, cq.ErrNoRocksDB
}

// CheckName answers cq.ErrNoRocksDB.
func (*Store) CheckName(cq.Key) error { return cq.ErrNoRocksDB }

// TruncateDirtyKeepingMax answers cq.ErrNoRocksDB.
func (*Store) TruncateDirtyKeepingMax(context.Context, int64) error { return cq.ErrNoRocksDB }

// Queue finds none.
func (*Store) Queue(cq.Key) (cq.Queue, bool) { return nil, false }

// Queues yields none.
func (*Store) Queues() iter.Seq2[cq.Key, error] {
	return func(yield func(cq.Key, error) bool) { yield(cq.Key{}, cq.ErrNoRocksDB) }
}

// DispatchFrom answers -1.
func (*Store) DispatchFrom() int64 { return -1 }

// Progress answers -1 thrice.
func (*Store) Progress() (accepted, readable, durable int64) { return -1, -1, -1 }

// TableBytes answers cq.ErrNoRocksDB.
func (*Store) TableBytes() (int64, error) { return 0, cq.ErrNoRocksDB }

// Stats answers cq.ErrNoRocksDB.
func (*Store) Stats() (Stats, error) { return Stats{}, cq.ErrNoRocksDB }

// SortedRuns answers cq.ErrNoRocksDB.
func (*Store) SortedRuns() (int, error) { return 0, cq.ErrNoRocksDB }

// Compact answers cq.ErrNoRocksDB.
func (*Store) Compact(context.Context, func(writtenBytes, totalBytes int64)) error {
	return cq.ErrNoRocksDB
}

// Append answers cq.ErrNoRocksDB.
func (*Store) Append(context.Context, []cq.Entry) error { return cq.ErrNoRocksDB }

// Skip answers cq.ErrNoRocksDB.
func (*Store) Skip(context.Context, cq.Key, int64) error { return cq.ErrNoRocksDB }

// ReadAll answers cq.ErrNoRocksDB.
func (*Store) ReadAll(context.Context, func(int64)) error { return cq.ErrNoRocksDB }

// Noted does nothing.
func (*Store) Noted() {}

// Replace answers cq.ErrNoRocksDB.
func (*Store) Replace(context.Context, func(dir string) error) error { return cq.ErrNoRocksDB }

// NextSlots returns none.
func (*Store) NextSlots() map[cq.Key]int64 { return nil }

// AwaitReadable answers cq.ErrNoRocksDB.
func (*Store) AwaitReadable(context.Context) error { return cq.ErrNoRocksDB }

// Waiting answers nil.
func (*Store) Waiting() error { return nil }

// Failure answers cq.ErrNoRocksDB.
func (*Store) Failure() error { return cq.ErrNoRocksDB }

// Flush answers cq.ErrNoRocksDB.
func (*Store) Flush(context.Context) error { return cq.ErrNoRocksDB }

// TruncateDirty answers cq.ErrNoRocksDB.
func (*Store) TruncateDirty(context.Context, int64) error { return cq.ErrNoRocksDB }

// Import answers cq.ErrNoRocksDB.
func (*Store) Import(context.Context, []cq.Run) error { return cq.ErrNoRocksDB }

// Publish answers cq.ErrNoRocksDB.
func (*Store) Publish(context.Context, []cq.QueueEnd, int64) error { return cq.ErrNoRocksDB }

// DropQueue answers cq.ErrNoRocksDB.
func (*Store) DropQueue(context.Context, cq.Key) error { return cq.ErrNoRocksDB }

// DeleteTopic answers cq.ErrNoRocksDB.
func (*Store) DeleteTopic(context.Context, string) (int, error) { return 0, cq.ErrNoRocksDB }

// CleanDirty answers cq.ErrNoRocksDB.
func (*Store) CleanDirty(context.Context, func(string) bool) (int, error) {
	return 0, cq.ErrNoRocksDB
}

// Close does nothing.
func (*Store) Close() error { return nil }

// TrimQueue answers cq.ErrNoRocksDB.
func (*Store) TrimQueue(context.Context, cq.Key, int64) error { return cq.ErrNoRocksDB }

// UnitFrom answers cq.ErrNoRocksDB.
func (*Store) UnitFrom(cq.Key, int64) (int64, error) { return -1, cq.ErrNoRocksDB }

// LostFiles answers cq.ErrNoRocksDB.
func (*Store) LostFiles() ([]string, error) { return nil, cq.ErrNoRocksDB }
