package rocks

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// FormatVersion is the table format of every file written, in every family. RocksDB 8.4.4, which RocketMQ 5.5.0 carries,
// answers "Corrupt or unsupported format_version" to 6 and later; it is therefore no option.
const FormatVersion = 5

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// Compression of table blocks. The names are those of rocksdbCompressionType; RocketMQ's library reads all of them.
type Compression string

// The compressions.
const (
	NoCompression Compression = "none"
	Snappy        Compression = "snappy"
	LZ4           Compression = "lz4"
	ZSTD          Compression = "zstd"
	// SameCompression as a bottommost compression: the same as the other levels.
	SameCompression Compression = ""
)

func (c Compression) known() bool {
	return slices.Contains([]Compression{NoCompression, Snappy, LZ4, ZSTD}, c)
}

// Checksum of table blocks.
type Checksum string

// The checksums.
const (
	// CRC32c is what RocketMQ's tables carry (the default of the Java binding).
	CRC32c Checksum = "crc32c"
	// XXH3 is RocksDB's own default; RocketMQ's library reads it too.
	XXH3 Checksum = "xxh3"
)

// FamilySet says which column families a new database gets beside "default". RocketMQ opens a database by the names of all its families and
// refuses one that has another, so a database must not get one too many.
type FamilySet string

// The sets.
const (
	QueueFamilies FamilySet = ""      // "offset": consume queues
	IndexFamilies FamilySet = "index" // "timer" and "trans": the message index, and what RocketMQ keeps beside it (rocksdbstore)

	// TableFamilies: "kvDataVersion", of a broker's topics, or of its consumer offsets.
	TableFamilies FamilySet = "table"
	// GroupFamilies: the same and "forbidden", of its consumer groups.
	GroupFamilies FamilySet = "groups"
	// ConfigFamilies: all of these tables in one database.
	ConfigFamilies FamilySet = "config"
)

// familyNames are the families beside "default". Source: databases written by 5.5.0.
var familyNames = map[FamilySet][]string{
	QueueFamilies: {"offset"},
	IndexFamilies: {"timer", "trans"},
	TableFamilies: {"kvDataVersion"},
	GroupFamilies: {"kvDataVersion", "forbidden"},
	ConfigFamilies: {
		"topic", "topicVersion", "subscriptionGroup", "subscriptionGroupVersion", "forbidden", "consumerOffset", "consumerOffsetVersion",
	},
}

// names lists the families beside "default".
func (s FamilySet) names() []string { return familyNames[s] }

// view tells whether what the families hold is made of the CommitLog, and can be made of it again.
func (s FamilySet) view() bool { return s == QueueFamilies || s == IndexFamilies }

// Options of a database. Take DefaultOptions or MigrationOptions and change what is needed: except where a field says so,
// zero is passed on to RocksDB as it is. RocketMQ's value is given where it differs from the default here.
type Options struct {
	// CreateIfMissing makes a new database where there is none. Default true. Source: DBOptions create_if_missing.
	CreateIfMissing bool
	// Families are made when they are missing. Default QueueFamilies. Without "offset" a batch has no rows for Offsets.
	Families FamilySet

	// MaxOpenFiles bounds the table files kept open; -1: all of them, with their index in memory. Default -1.
	// Source: DBOptions max_open_files.
	MaxOpenFiles int
	// MaxBackgroundJobs is the number of flushes and compactions at once. Default 2, RocketMQ 32.
	// Source: DBOptions max_background_jobs.
	MaxBackgroundJobs int
	// MaxSubcompactions is the number of threads that share one compaction. Default 2, RocketMQ 8.
	// Source: DBOptions max_subcompactions.
	MaxSubcompactions int
	// RateLimitBytesPerSec bounds what flushes and compactions write; 0: no bound. Default 100 MiB.
	// Source: DBOptions rate_limiter (100 ms refill, fairness 10, writes only).
	RateLimitBytesPerSec int64
	// DelayedWriteBytesPerSec is the rate of writers that are slowed down; 0: RocksDB's choice. Default 16 MiB.
	// Source: DBOptions delayed_write_rate.
	DelayedWriteBytesPerSec int64
	// CompactionReadaheadBytes is what a compaction reads ahead of each input file, held in memory for each; 0: the
	// operating system decides and no memory is held. Default 2 MiB, RocketMQ 4 MiB.
	// Source: DBOptions compaction_readahead_size.
	CompactionReadaheadBytes int64
	// BytesPerSync starts writeback of table files every so many bytes. Default 1 MiB.
	// Source: DBOptions bytes_per_sync.
	BytesPerSync int64
	// MaxManifestBytes is the size at which the manifest is rewritten. Default 64 MiB, RocketMQ 1 GiB.
	// Source: DBOptions max_manifest_file_size.
	MaxManifestBytes int64
	// ParanoidChecks makes RocksDB refuse damaged files early. Default true.
	// Source: DBOptions paranoid_checks.
	ParanoidChecks bool
	// AvoidFlushDuringShutdown makes Close drop what was not flushed, as a kill would. Default false.
	// Source: DBOptions avoid_flush_during_shutdown.
	AvoidFlushDuringShutdown bool
	// DisableAutoCompactions leaves merging to Compact; writers are then never slowed down or stopped because of the number
	// of files. Default false. Source: ColumnFamilyOptions disable_auto_compactions.
	DisableAutoCompactions bool
	// Statistics keeps tickers, at about a third of the speed of short scans. Default false, RocketMQ true.
	// Source: DBOptions statistics.
	Statistics bool
	// StatsDumpPeriod is how often statistics go to RocksDB's own log, in whole seconds; 0: never. Default 10 min.
	// Source: DBOptions stats_dump_period_sec.
	StatsDumpPeriod time.Duration

	// LogDir holds RocksDB's own log; empty: the database directory. Default empty, RocketMQ a directory below the user's
	// home. Source: DBOptions db_log_dir.
	LogDir string
	// MaxLogFileBytes is the size at which that log rolls. Default 16 MiB, RocketMQ 1 GiB.
	// Source: DBOptions max_log_file_size.
	MaxLogFileBytes int64
	// KeepLogFiles is how many rolled logs are kept. Default 5. Source: DBOptions keep_log_file_num.
	KeepLogFiles int

	// MaxCalls bounds the calls that are inside RocksDB at once, each of which occupies a thread; further ones wait.
	// Default 64. No counterpart in RocketMQ.
	MaxCalls int

	// Units are the options of the family "default".
	Units FamilyOptions
	// Offsets are the options of the family "offset", and of families this package does not know.
	Offsets FamilyOptions
}

// FamilyOptions are the options of one column family.
type FamilyOptions struct {
	// Universal selects universal compaction, otherwise level. Default true for units, false for offsets.
	// Source: ColumnFamilyOptions compaction_style.
	Universal bool
	// WriteBufferBytes is the size of a memtable. Default 64 MiB units, 16 MiB offsets; RocketMQ 128 and 64 MiB.
	// Source: ColumnFamilyOptions write_buffer_size.
	WriteBufferBytes int64
	// WriteBuffers is how many memtables may exist. Default 4. Source: ColumnFamilyOptions max_write_buffer_number.
	WriteBuffers int
	// InplaceUpdate overwrites a row of the memtable instead of adding a version; a scan beside a writer may then see a torn
	// value. Default false for units, true for offsets. Source: ColumnFamilyOptions inplace_update_support.
	InplaceUpdate bool

	// Compression of all levels but the last. Default lz4 for units, none for offsets.
	// Source: MessageStoreConfig rocksdbCompressionType.
	Compression Compression
	// BottommostCompression of the last level. Default zstd for units, same for offsets.
	// Source: MessageStoreConfig bottomMostCompressionTypeForConsumeQueueStore.
	BottommostCompression Compression

	// TargetFileBytes is the size of table files on level 1. Default 256 MiB units, 64 MiB offsets.
	// Source: ColumnFamilyOptions target_file_size_base.
	TargetFileBytes int64
	// TargetFileMultiplier multiplies it from level to level. Default 2. Source: target_file_size_multiplier.
	TargetFileMultiplier int
	// MaxLevelBytes is the size of level 1 under level compaction. Default 256 MiB.
	// Source: ColumnFamilyOptions max_bytes_for_level_base.
	MaxLevelBytes int64
	// MaxLevelMultiplier multiplies it from level to level. Default 10 units, 2 offsets.
	// Source: ColumnFamilyOptions max_bytes_for_level_multiplier.
	MaxLevelMultiplier float64
	// MaxCompactionBytes bounds one compaction; 0: RocksDB's choice. Default 100 GiB units, 0 offsets.
	// Source: ColumnFamilyOptions max_compaction_bytes.
	MaxCompactionBytes int64
	// SoftPendingBytes and HardPendingBytes of compaction debt slow writers down and stop them. Default 100 and 256 GiB
	// units, 64 and 256 GiB offsets. Source: soft_, hard_pending_compaction_bytes_limit.
	SoftPendingBytes, HardPendingBytes int64
	// Level0Trigger, Level0Slowdown and Level0Stop are numbers of files (sorted runs under universal compaction) that
	// start a compaction, slow writers down and stop them. Default 2, 8, 10.
	// Source: level0_file_num_compaction_trigger, level0_slowdown_writes_trigger, level0_stop_writes_trigger.
	Level0Trigger, Level0Slowdown, Level0Stop int
	// RewriteAfter is the age at which files are compacted again whatever their shape, so that expired units go, in whole
	// seconds; 0: never. Default 30 days units, 0 offsets. Source: periodic_compaction_seconds, ttl (5.5.0 effective values).
	RewriteAfter time.Duration

	// BlockBytes is the size of a data block before compression. Default 32 KiB. Source: block_size.
	BlockBytes int
	// BlockHash adds a hash index (ratio 0.75) to data blocks. Default true units, false offsets.
	// Source: data_block_index_type kDataBlockBinaryAndHash.
	BlockHash bool
	// BloomBitsPerKey of the whole-key filter. Default 16. Source: filter_policy BloomFilter(16, false).
	BloomBitsPerKey float64
	// FilterForHits leaves the filter out of the last level. Default true units, false offsets.
	// Source: optimize_filters_for_hits.
	FilterForHits bool
	// CacheIndex keeps index and filter blocks in the block cache instead of outside it, where they grow with the store
	// (about 0.1 bytes a unit for the index and 2 for the filter). Default false, as RocketMQ.
	// Source: cache_index_and_filter_blocks.
	CacheIndex bool
	// BlockCacheBytes is the size of the family's LRU cache of uncompressed blocks. Default 512 MiB units, 32 MiB offsets;
	// RocketMQ 1024 and 128 MiB. Source: block_cache.
	BlockCacheBytes int64
	// BlockCacheShardBits is the logarithm of the number of shards of that cache; -1: by size. Default -1, RocketMQ 8.
	BlockCacheShardBits int
	// Checksum of blocks. Default crc32c. Source: checksum_type.
	Checksum Checksum
}

// DefaultOptions returns the options of a serving store on a machine with 2 cores and 24 GiB: RocketMQ's, with caches,
// buffers and threads scaled from its 32 jobs.
func DefaultOptions() Options {
	table := FamilyOptions{
		WriteBuffers: 4, TargetFileMultiplier: 2, MaxLevelBytes: 256 * mib,
		Level0Trigger: 2, Level0Slowdown: 8, Level0Stop: 10,
		BlockBytes: 32 * kib, BloomBitsPerKey: 16, BlockCacheShardBits: -1, Checksum: CRC32c,
	}
	units, offsets := table, table
	units.Universal = true
	units.WriteBufferBytes = 64 * mib
	units.Compression, units.BottommostCompression = LZ4, ZSTD
	units.TargetFileBytes, units.MaxLevelMultiplier = 256*mib, 10
	units.MaxCompactionBytes = 100 * gib
	units.SoftPendingBytes, units.HardPendingBytes = 100*gib, 256*gib
	units.RewriteAfter = 30 * 24 * time.Hour
	units.BlockHash, units.FilterForHits = true, true
	units.BlockCacheBytes = 512 * mib

	offsets.WriteBufferBytes = 16 * mib
	offsets.InplaceUpdate = true
	offsets.Compression = NoCompression
	offsets.TargetFileBytes, offsets.MaxLevelMultiplier = 64*mib, 2
	offsets.SoftPendingBytes, offsets.HardPendingBytes = 64*gib, 256*gib
	offsets.BlockCacheBytes = 32 * mib
	return Options{
		CreateIfMissing: true,
		MaxOpenFiles:    -1, MaxBackgroundJobs: 2, MaxSubcompactions: 2,
		RateLimitBytesPerSec: 100 * mib, DelayedWriteBytesPerSec: 16 * mib,
		CompactionReadaheadBytes: 2 * mib, BytesPerSync: mib, MaxManifestBytes: 64 * mib,
		ParanoidChecks: true, StatsDumpPeriod: 10 * time.Minute,
		MaxLogFileBytes: 16 * mib, KeepLogFiles: 5, MaxCalls: 64,
		Units: units, Offsets: offsets,
	}
}

// MigrationOptions returns the options for filling and verifying a store offline in little memory: small buffers and
// caches, everything that grows with the store inside the cache, no automatic compaction, no rate limit. The files written
// are the same as under DefaultOptions.
func MigrationOptions() Options {
	o := DefaultOptions()
	o.MaxOpenFiles = 256
	o.MaxSubcompactions = 1
	o.RateLimitBytesPerSec = 0
	o.CompactionReadaheadBytes = 0
	o.DisableAutoCompactions = true
	o.StatsDumpPeriod = 0
	o.MaxCalls = 16
	for _, f := range []*FamilyOptions{&o.Units, &o.Offsets} {
		f.WriteBufferBytes, f.WriteBuffers = 8*mib, 2
		f.CacheIndex = true
		f.BlockCacheBytes, f.BlockCacheShardBits = 32*mib, 2
	}
	o.Offsets.BlockCacheBytes = 8 * mib
	return o
}

// ConfigOptions returns the options of a small database of a broker's configuration: little memory, and tables in levels, as RocketMQ has them.
func ConfigOptions(f FamilySet) Options {
	o := DefaultOptions()
	o.Families = f
	o.MaxSubcompactions, o.RateLimitBytesPerSec, o.CompactionReadaheadBytes, o.StatsDumpPeriod = 1, 0, 0, 0
	o.Offsets.InplaceUpdate = false // rows are scanned beside a writer
	o.Offsets.WriteBufferBytes, o.Offsets.WriteBuffers = 8*mib, 2
	o.Offsets.BlockCacheBytes, o.Offsets.CacheIndex = 4*mib, true
	o.Units = o.Offsets
	return o
}

// Validate reports every fault at once.
func (o Options) Validate() error {
	var faults []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	add(familyNames[o.Families] == nil, "unknown set of families %q", o.Families)
	add(o.MaxOpenFiles < -1, "max open files %d is less than -1", o.MaxOpenFiles)
	add(o.MaxBackgroundJobs < 1, "max background jobs %d is less than 1", o.MaxBackgroundJobs)
	add(o.MaxSubcompactions < 1, "max subcompactions %d is less than 1", o.MaxSubcompactions)
	add(o.MaxCalls < 1, "max calls %d is less than 1", o.MaxCalls)
	add(o.KeepLogFiles < 1, "keep log files %d is less than 1", o.KeepLogFiles)
	for name, n := range map[string]int64{
		"rate limit": o.RateLimitBytesPerSec, "delayed write rate": o.DelayedWriteBytesPerSec,
		"compaction readahead": o.CompactionReadaheadBytes, "bytes per sync": o.BytesPerSync,
		"max manifest bytes": o.MaxManifestBytes, "max log file bytes": o.MaxLogFileBytes, "stats dump period": int64(o.StatsDumpPeriod),
	} {
		add(n < 0, "%s %d is negative", name, n)
	}
	for name, f := range map[string]FamilyOptions{"units": o.Units, "offsets": o.Offsets} {
		add(f.WriteBufferBytes < 64*kib, "%s: write buffer of %d bytes is less than 64 KiB", name, f.WriteBufferBytes)
		add(f.WriteBuffers < 2, "%s: %d write buffers are less than 2", name, f.WriteBuffers)
		add(f.BlockBytes < 1*kib || f.BlockBytes > 4*mib, "%s: block of %d bytes is outside 1 KiB to 4 MiB", name, f.BlockBytes)
		add(f.BloomBitsPerKey < 0, "%s: %v bloom bits per key are negative", name, f.BloomBitsPerKey)
		add(f.BlockCacheBytes < 0, "%s: block cache of %d bytes is negative", name, f.BlockCacheBytes)
		add(f.TargetFileBytes < 1 || f.TargetFileMultiplier < 1, "%s: target file size %d × %d is less than 1", name, f.TargetFileBytes, f.TargetFileMultiplier)
		add(f.MaxLevelBytes < 1 || f.MaxLevelMultiplier < 1, "%s: level size %d × %v is less than 1", name, f.MaxLevelBytes, f.MaxLevelMultiplier)
		add(f.Level0Trigger < 1 || f.Level0Slowdown < f.Level0Trigger || f.Level0Stop < f.Level0Slowdown,
			"%s: level 0 trigger %d, slowdown %d, stop %d must be at least 1 and ascending", name, f.Level0Trigger, f.Level0Slowdown, f.Level0Stop)
		add(f.RewriteAfter < 0, "%s: rewrite after %v is negative", name, f.RewriteAfter)
		add(!f.Compression.known(), "%s: unknown compression %q", name, f.Compression)
		add(f.BottommostCompression != SameCompression && !f.BottommostCompression.known(),
			"%s: unknown bottommost compression %q", name, f.BottommostCompression)
		add(f.Checksum != CRC32c && f.Checksum != XXH3, "%s: unknown checksum %q", name, f.Checksum)
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("options of RocksDB: %w", errors.Join(faults...))
}
