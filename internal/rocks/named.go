//go:build cgo

package rocks

import (
	"slices"

	"github.com/linxGnu/grocksdb"
)

// ScanNamed is Scan over any family of the database, by its name: those in which a broker keeps its configuration are known
// to nobody here. A family that is not there has no rows.
func (db *DB) ScanNamed(family string, start []byte, fn func(key, value []byte) bool) error {
	var h *grocksdb.ColumnFamilyHandle
	if i := slices.Index(db.names, family); i >= 0 {
		h = db.handles[i]
	}
	return db.scan(h, start, fn)
}
