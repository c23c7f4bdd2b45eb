//go:build cgo

package rocks

import (
	"fmt"
	"os"
	"strconv"

	"github.com/linxGnu/grocksdb"
)

// Stats asks RocksDB for its sizes and looks at the directory.
func (db *DB) Stats() (Stats, error) {
	if err := db.enter(); err != nil {
		return Stats{}, err
	}
	defer db.leave()
	s := Stats{Units: db.familyStats(db.units)}
	if db.offsets != nil {
		s.Offsets = db.familyStats(db.offsets)
	}
	s.BackgroundErrors = db.number("background-errors", db.units)
	s.WriteStopped = db.number("is-write-stopped", db.units) != 0
	var err error
	s.DiskBytes, err = filesIn(db.dir)
	return s, err
}

func (db *DB) number(property string, h *grocksdb.ColumnFamilyHandle) int64 {
	n, _ := db.c.GetIntPropertyCF("rocksdb."+property, h)
	return int64(n)
}

func (db *DB) familyStats(h *grocksdb.ColumnFamilyHandle) FamilyStats {
	f := FamilyStats{
		TableBytes:             db.number("live-sst-files-size", h),
		MemtableBytes:          db.number("size-all-mem-tables", h),
		IndexBytes:             db.number("estimate-table-readers-mem", h),
		CacheBytes:             db.number("block-cache-usage", h),
		CachePinnedBytes:       db.number("block-cache-pinned-usage", h),
		PendingCompactionBytes: db.number("estimate-pending-compaction-bytes", h),
		Rows:                   db.number("estimate-num-keys", h),
	}
	for level := range f.Files {
		f.Files[level], _ = strconv.Atoi(db.c.GetPropertyCF("rocksdb.num-files-at-level"+strconv.Itoa(level), h))
	}
	return f
}

// filesIn returns the size of the files of a directory. One that goes meanwhile has none.
func filesIn(dir string) (sum int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("size of RocksDB: %w", err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
	}
	return sum, nil
}
