//go:build cgo

package rocks

import (
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
