//go:build cgo

package rocks

// #include "shim.h"
import "C"

import (
	"fmt"
	"slices"

	"github.com/linxGnu/grocksdb"
)

// ScanNamed is Scan over any family of the database, by its name: those in which a broker keeps its configuration are known
// to nobody here. A family that is not there has no rows.
func (db *DB) ScanNamed(family string, start []byte, fn func(key, value []byte) bool) error {
	return db.scan(func() *grocksdb.ColumnFamilyHandle {
		if i := slices.Index(db.names, family); i >= 0 {
			return db.handles[i]
		}
		return nil
	}, start, fn)
}

// NamedRow is a row of any family, by its name. Without a value (nil) it is taken away.
type NamedRow struct {
	Family     string
	Key, Value []byte
}

// WriteNamed writes rows as one change: all of them, or, on error, none. Unlike Write it goes through the write-ahead log, and the change is
// durable when WriteNamed returns. Errors: a family that is not there, *Error.
func (db *DB) WriteNamed(rows []NamedRow) error {
	if err := db.enterWrite(); err != nil {
		return err
	}
	defer db.leave()
	b := Batch{rep: make([]byte, batchHeader, 4*kib)}
	for i := range rows {
		r := &rows[i]
		at := slices.Index(db.names, r.Family)
		if at < 0 {
			return db.fail("write to", fmt.Sprintf("there is no family %q", r.Family))
		}
		if id := db.handles[at].ID(); r.Value == nil {
			b.rowOf(id, 0x00, 0x04, r.Key)
		} else {
			b.rowOf(id, 0x01, 0x05, r.Key)
			b.bytes(r.Value)
		}
	}
	o := made(grocksdb.NewDefaultWriteOptions())
	defer destroy(o)
	o.SetSync(true)
	var cErr *C.char
	rep := b.data()
	C.tmq_write(rawDB(db.c), rawWriteOptions(o), bytesPointer(rep), C.size_t(len(rep)), &cErr)
	if text := takeError(cErr); text != "" {
		return db.fail("write to", text)
	}
	return nil
}
