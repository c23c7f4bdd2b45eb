//go:build cgo

package rocks

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"sync/atomic"
	"unsafe"

	"github.com/linxGnu/grocksdb"
)

// The binding keeps its C pointers to itself, each in the unexported first field of its type. The shim needs them, so this
// file, and no other, reads that field. TestHandleLayout holds the binding to the layout.

func cPointer[T grocksdb.DB | grocksdb.ColumnFamilyHandle | grocksdb.ReadOptions | grocksdb.WriteOptions | grocksdb.SSTFileWriter](o *T) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(o))
}

func rawDB(o *grocksdb.DB) *C.rocksdb_t { return (*C.rocksdb_t)(cPointer(o)) }

func rawFamily(o *grocksdb.ColumnFamilyHandle) *C.rocksdb_column_family_handle_t {
	return (*C.rocksdb_column_family_handle_t)(cPointer(o))
}

func rawReadOptions(o *grocksdb.ReadOptions) *C.rocksdb_readoptions_t {
	return (*C.rocksdb_readoptions_t)(cPointer(o))
}

func rawWriteOptions(o *grocksdb.WriteOptions) *C.rocksdb_writeoptions_t {
	return (*C.rocksdb_writeoptions_t)(cPointer(o))
}

func rawSSTWriter(o *grocksdb.SSTFileWriter) *C.rocksdb_sstfilewriter_t {
	return (*C.rocksdb_sstfilewriter_t)(cPointer(o))
}

// bytesPointer passes b to C for the time of one call.
func bytesPointer(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

// unitsPointer passes units to C for the time of one call. The constraint makes the compiler compare the fields.
func unitsPointer[T UnitLayout](u []T) *C.tmq_unit {
	return (*C.tmq_unit)(unsafe.Pointer(unsafe.SliceData(u)))
}

// unitFromC copies a unit out of a C struct.
func unitFromC(u C.tmq_unit) Unit {
	return Unit{PhyOffset: int64(u.phy), TagsCode: int64(u.tags), StoreTimestampMs: int64(u.time), Size: int32(u.size)}
}

// takeError turns an error string of RocksDB into a Go string and frees it; empty when there is none.
func takeError(s *C.char) string {
	if s == nil {
		return ""
	}
	text := C.GoString(s)
	C.rocksdb_free(unsafe.Pointer(s))
	return text
}

// minPhyFilter is the compaction filter that drops expired units: it removes a row whose value has at least 28 bytes and
// begins with a big-endian i64 below the bound. It never calls into Go. The bound lives in C memory.
// Source: RemoveConsumeQueueCompactionFilter of RocketMQ's RocksDB 8.4.4.
type minPhyFilter struct {
	bound *C.int64_t
}

func newMinPhyFilter(minPhy int64) *minPhyFilter {
	f := made(&minPhyFilter{bound: (*C.int64_t)(C.calloc(1, 8))})
	f.set(minPhy)
	return f
}

func (f *minPhyFilter) set(minPhy int64) {
	(*atomic.Int64)(unsafe.Pointer(f.bound)).Store(minPhy)
}

// install gives options the filter; they own it from then on, but not the bound.
func (f *minPhyFilter) install(o *grocksdb.Options) {
	o.SetCompactionFilter(grocksdb.NewNativeCompactionFilter(unsafe.Pointer(C.tmq_filter_create(f.bound))))
}

// Destroy releases the bound, after the database has closed and the options are gone.
func (f *minPhyFilter) Destroy() { C.free(unsafe.Pointer(f.bound)) }
