package rocks

// Stats is what a database occupies, as of one moment; sizes in bytes. Source: the properties of RocksDB that each field names.
type Stats struct {
	Units, Offsets FamilyStats
	// DiskBytes is the size of every file of the database: tables, those too that wait to be deleted, manifests and logs. Directories inside, such as those
	// of queues kept in files beside it, do not count.
	DiskBytes int64
	// BackgroundErrors counts failed flushes and compactions since Open (background-errors).
	BackgroundErrors int64
	// WriteStopped tells that writers are held up until memtables are flushed or tables merged (is-write-stopped).
	WriteStopped bool
}

// FamilyStats is one family's share.
type FamilyStats struct {
	TableBytes             int64  // live table files (live-sst-files-size)
	MemtableBytes          int64  // memtables, those too that are pinned by readers (size-all-mem-tables)
	IndexBytes             int64  // index and filters held outside the cache (estimate-table-readers-mem)
	CacheBytes             int64  // block cache in use (block-cache-usage)
	CachePinnedBytes       int64  // of that, what cannot be evicted (block-cache-pinned-usage)
	PendingCompactionBytes int64  // estimate of what is to be merged (estimate-pending-compaction-bytes)
	Rows                   int64  // estimate (estimate-num-keys)
	Files                  [7]int // table files, level by level (num-files-at-level)
}
