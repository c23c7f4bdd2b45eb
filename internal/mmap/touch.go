package mmap

import (
	"sync/atomic"
	"unsafe"
)

// Touch brings in the pages of b, which is memory of a mapping and begins at a page, as a store to each would, and changes nothing: it adds zero bits to the first word of each page
// atomically, so that a store by somebody else is not lost. It is for kernels that do not know PopulateWrite. It may fault as any store may.
func Touch(b []byte) {
	const word = 4
	for i := int64(0); i+word <= int64(len(b)); i += pageSize {
		atomic.OrUint32((*uint32)(unsafe.Pointer(&b[i])), 0)
	}
}
