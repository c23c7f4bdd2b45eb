//go:build cgo

package rocks

// #cgo noescape tmq_rows_before
// #cgo nocallback tmq_rows_before
// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"iter"
	"runtime"
)

// rowLengths is what stands before each row of RowsBefore: the lengths of key and value.
const rowLengths = 8

// Rows are copies of rows, from the greatest key down; they live in the buffer that RowsBefore was given.
type Rows struct {
	b []byte
	// More tells that the buffer was full: go on before the key of the last row.
	More bool
}

// All yields keys and values.
func (r Rows) All() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for b := r.b; len(b) > 0; {
			k, v := int(binary.NativeEndian.Uint32(b)), int(binary.NativeEndian.Uint32(b[4:]))
			b = b[rowLengths:]
			if !yield(b[:k:k], b[k:k+v:k+v]) {
				return
			}
			b = b[k+v:]
		}
	}
}

// RowsBefore copies into buf the rows of a family whose key is below before, from the greatest down, as long as they begin with prefix and there is room. The first row that
// does not begin so comes too, with an empty value, and is the last: it tells where to look next. No row: there is none below before. A row that is longer than buf is passed over.
// One call into C.
func (db *DB) RowsBefore(f Family, before, prefix, buf []byte) (Rows, error) {
	if err := db.enter(); err != nil {
		return Rows{}, err
	}
	defer db.leave()
	h := db.handle(f)
	if h == nil {
		return Rows{}, nil
	}
	var cErr *C.char
	var more C.int
	n := C.tmq_rows_before(rawDB(db.c), rawReadOptions(db.read), rawFamily(h), bytesPointer(before), C.size_t(len(before)),
		bytesPointer(prefix), C.size_t(len(prefix)), bytesPointer(buf), C.size_t(len(buf)), &more, &cErr)
	runtime.KeepAlive(db)
	if text := takeError(cErr); text != "" {
		return Rows{}, db.fail("read rows", text)
	}
	return Rows{b: buf[:n], More: more != 0}, nil
}
