//go:build cgo

package rocks

import (
	"fmt"
	"time"

	"github.com/linxGnu/grocksdb"
)

// owned is what a database needs beside itself. RocksDB shares caches, limiters and table options by count, so their
// handles are given up as soon as they are set; options objects live until the database has closed, because the
// units' options own the compaction filter.
type owned struct {
	db       *grocksdb.Options
	families []*grocksdb.Options
	caches   []*grocksdb.Cache
	filter   *minPhyFilter
}

func (r *owned) destroy() {
	for _, o := range r.families {
		destroy(o)
	}
	if r.db != nil {
		destroy(r.db)
	}
	for _, c := range r.caches {
		destroy(c)
	}
	if r.filter != nil {
		destroy(r.filter)
	}
	*r = owned{}
}

// compressionType maps our name to RocksDB's number; SameCompression is kDisableCompressionOption.
func compressionType(c Compression) grocksdb.CompressionType {
	switch c {
	case Snappy:
		return grocksdb.SnappyCompression
	case LZ4:
		return grocksdb.LZ4Compression
	case ZSTD:
		return grocksdb.ZSTDCompression
	case SameCompression:
		return grocksdb.CompressionType(0xff)
	default:
		return grocksdb.NoCompression
	}
}

// fromString makes options of those that the C API has no setter for; setters follow.
func fromString(format string, args ...any) (*grocksdb.Options, error) {
	text := fmt.Sprintf(format, args...)
	o, err := grocksdb.GetOptionsFromString(nil, text)
	if err != nil {
		return nil, fmt.Errorf("options %q: %w", text, err)
	}
	return made(o), nil
}

// newDBOptions returns the options of the database as a whole.
func newDBOptions(o Options) (*grocksdb.Options, error) {
	text := fmt.Sprintf("avoid_flush_during_shutdown=%t", o.AvoidFlushDuringShutdown)
	if o.DelayedWriteBytesPerSec > 0 {
		text += fmt.Sprintf(";delayed_write_rate=%d", o.DelayedWriteBytesPerSec)
	}
	c, err := fromString("%s", text)
	if err != nil {
		return nil, err
	}
	c.SetAtomicFlush(true)
	c.SetAllowConcurrentMemtableWrites(false)
	c.SetManualWALFlush(true)
	c.SetWALRecoveryMode(grocksdb.PointInTimeRecovery)
	c.SetMaxOpenFiles(o.MaxOpenFiles)
	c.SetMaxBackgroundJobs(o.MaxBackgroundJobs)
	c.SetMaxSubcompactions(uint32(o.MaxSubcompactions))
	c.SetParanoidChecks(o.ParanoidChecks)
	c.SetBytesPerSync(uint64(o.BytesPerSync))
	c.CompactionReadaheadSize(uint64(o.CompactionReadaheadBytes))
	c.SetMaxManifestFileSize(uint64(o.MaxManifestBytes))
	c.SetStatsDumpPeriodSec(uint(o.StatsDumpPeriod / time.Second))
	c.SetInfoLogLevel(grocksdb.InfoInfoLogLevel)
	c.SetMaxLogFileSize(uint64(o.MaxLogFileBytes))
	c.SetKeepLogFileNum(uint(o.KeepLogFiles))
	if o.LogDir != "" {
		c.SetDbLogDir(o.LogDir)
	}
	if o.RateLimitBytesPerSec > 0 {
		c.SetRateLimiter(grocksdb.NewRateLimiter(o.RateLimitBytesPerSec, 100_000, 10))
	}
	if o.Statistics {
		c.EnableStatistics()
		c.SetStatisticsLevel(grocksdb.StatisticsLevelExceptDetailedTimers)
	}
	return c, nil
}

// newFamilyOptions returns the options of one family; the cache it makes is added to r.
func (r *owned) newFamilyOptions(f FamilyOptions, disableAutoCompactions bool) (*grocksdb.Options, error) {
	c, err := fromString("compaction_options_universal={size_ratio=100;min_merge_width=2;max_merge_width=2147483647;" +
		"max_size_amplification_percent=25;compression_size_percent=-1;stop_style=kCompactionStopStyleTotalSize;allow_trivial_move=true}")
	if err != nil {
		return nil, err
	}
	style := grocksdb.LevelCompactionStyle
	if f.Universal {
		style = grocksdb.UniversalCompactionStyle
	}
	c.SetCompactionStyle(style)
	c.SetCompactionPri(grocksdb.KMinOverlappingRatioCompactionPri)
	c.SetLevelCompactionDynamicLevelBytes(!f.Universal)
	c.SetNumLevels(7)
	c.SetWriteBufferSize(uint64(f.WriteBufferBytes))
	c.SetMaxWriteBufferNumber(f.WriteBuffers)
	c.SetMinWriteBufferNumberToMerge(1)
	c.SetInplaceUpdateSupport(f.InplaceUpdate)
	c.SetCompression(compressionType(f.Compression))
	c.SetBottommostCompression(compressionType(f.BottommostCompression))
	c.SetTargetFileSizeBase(uint64(f.TargetFileBytes))
	c.SetTargetFileSizeMultiplier(f.TargetFileMultiplier)
	c.SetMaxBytesForLevelBase(uint64(f.MaxLevelBytes))
	c.SetMaxBytesForLevelMultiplier(f.MaxLevelMultiplier)
	c.SetMaxCompactionBytes(uint64(f.MaxCompactionBytes))
	c.SetSoftPendingCompactionBytesLimit(uint64(f.SoftPendingBytes))
	c.SetHardPendingCompactionBytesLimit(uint64(f.HardPendingBytes))
	c.SetLevel0FileNumCompactionTrigger(f.Level0Trigger)
	c.SetLevel0SlowdownWritesTrigger(f.Level0Slowdown)
	c.SetLevel0StopWritesTrigger(f.Level0Stop)
	c.SetDisableAutoCompactions(disableAutoCompactions)
	c.SetPeriodicCompactionSeconds(uint64(f.RewriteAfter / time.Second))
	c.SetOptimizeFiltersForHits(f.FilterForHits)
	if f.RewriteAfter > 0 {
		c.SetTTL(uint64(f.RewriteAfter / time.Second))
	}
	table := r.newTableOptions(f)
	c.SetBlockBasedTableFactory(table)
	destroy(table)
	return c, nil
}

// newTableOptions returns the layout of table files. The factory copies it.
func (r *owned) newTableOptions(f FamilyOptions) *grocksdb.BlockBasedTableOptions {
	t := made(grocksdb.NewDefaultBlockBasedTableOptions())
	t.SetFormatVersion(FormatVersion)
	t.SetChecksum(1) // kCRC32c
	if f.Checksum == XXH3 {
		t.SetChecksum(4)
	}
	t.SetBlockSize(f.BlockBytes)
	t.SetMetadataBlockSize(4 * kib)
	t.SetIndexType(grocksdb.KBinarySearchIndexType)
	if f.BlockHash {
		t.SetDataBlockIndexType(grocksdb.KDataBlockIndexTypeBinarySearchAndHash)
		t.SetDataBlockHashRatio(0.75)
	}
	if f.BloomBitsPerKey > 0 {
		t.SetFilterPolicy(grocksdb.NewBloomFilterFull(f.BloomBitsPerKey))
	}
	t.SetWholeKeyFiltering(true)
	t.SetCacheIndexAndFilterBlocks(f.CacheIndex)
	t.SetCacheIndexAndFilterBlocksWithHighPriority(true)
	t.SetPinL0FilterAndIndexBlocksInCache(false)
	t.SetPinTopLevelIndexAndFilter(true)
	lru := made(grocksdb.NewLRUCacheOptions())
	lru.SetCapacity(uint(f.BlockCacheBytes))
	lru.SetNumShardBits(f.BlockCacheShardBits)
	cache := made(grocksdb.NewLRUCacheWithOptions(lru))
	destroy(lru)
	t.SetBlockCache(cache)
	r.caches = append(r.caches, cache)
	return t
}
