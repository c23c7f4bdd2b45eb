package store

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"

	"github.com/tandemq/tandemmq/cq/rocks"
)

// compressions are those that both this module and RocketMQ can read.
var compressions = []string{string(rocks.NoCompression), string(rocks.Snappy), string(rocks.LZ4), string(rocks.ZSTD)}

// rocksFaults returns what is wrong with the options of RocksDB. 5.5.0 takes a name of a compression that it does not know, LZ4 among them, for none.
func (o *Options) rocksFaults() (faults []error) {
	for name, c := range map[string]string{
		"rocksdbCompressionType": o.RocksdbCompressionType, "bottomMostCompressionTypeForConsumeQueueStore": o.BottomMostCompressionTypeForConsumeQueueStore,
	} {
		if !slices.Contains(compressions, c) {
			faults = append(faults, fmt.Errorf("%s is %q, want one of %q, in lower case (5.5.0 would take an unknown name for none without a word)", name, c, compressions))
		}
	}
	return faults
}

// rocksOptions returns the options of a RocksDB of consume queues.
func (o *Options) rocksOptions(cpus int, memory memoryBytes) rocks.Options {
	r := sizedRocksOptions(cpus, memory)
	o.nameRocks(&r.RocksDB)
	r.TailBytes = cmp.Or(o.RocksdbTailBytes, r.TailBytes)
	return r
}

// OfflineRocksOptions returns the options of a RocksDB of consume queues that is filled, trimmed or compared by a tool: those that are named are the store's, so that what
// is written is what the store would write; where they leave a size open it is not the machine's but a small one, see rocks.MigrationOptions.
func (o *Options) OfflineRocksOptions() rocks.Options {
	r := rocks.MigrationOptions()
	o.nameRocks(&r.RocksDB)
	return r
}

// nameRocks gives a database the options that have names, where they say something.
func (o *Options) nameRocks(db *rocks.RocksDBOptions) {
	db.Units.Compression = rocks.Compression(o.RocksdbCompressionType)
	db.Units.BottommostCompression = rocks.Compression(o.BottomMostCompressionTypeForConsumeQueueStore)
	db.Units.BlockCacheBytes = cmp.Or(o.RocksdbBlockCacheBytes, db.Units.BlockCacheBytes)
	db.Units.WriteBufferBytes = cmp.Or(o.RocksdbWriteBufferBytes, db.Units.WriteBufferBytes)
	if o.RocksdbBackgroundJobs > 0 {
		db.MaxBackgroundJobs, db.MaxSubcompactions = o.RocksdbBackgroundJobs, min(o.RocksdbBackgroundJobs, maxSubcompactions)
	}
	switch {
	case o.RocksdbRateLimitBytesPerSec < 0:
		db.RateLimitBytesPerSec = 0
	case o.RocksdbRateLimitBytesPerSec > 0:
		db.RateLimitBytesPerSec = o.RocksdbRateLimitBytesPerSec
	}
}

// Bounds of what is sized from the machine. Source: MaxBackgroundJobs 32 and MaxSubcompactions 8 of 5.5.0.
const (
	maxBackgroundJobs = 32
	maxSubcompactions = 8
)

// sizedRocksOptions returns rocks.DefaultOptions, which are for 2 cores and 24 GiB, for a machine of another size:
//
//	block cache of units      1/48 of the memory, 32 MiB to 4 GiB; of offsets a sixteenth of that
//	write buffer of units     1/384 of the memory, 16 MiB to 128 MiB, of which there are up to four; of offsets a quarter of that
//	newest units in memory    1/768 of the memory, 4 MiB to 256 MiB
//	background jobs           one for each core, 2 to 32; up to 8 threads share a compaction
//
// What is written in the background is bounded by 100 MiB a second whatever the machine is.
func sizedRocksOptions(cpus int, memory memoryBytes) rocks.Options {
	const mib = 1 << 20
	part := func(of, least, most int64) int64 { return min(max(int64(memory)/of, least), most) }
	r := rocks.DefaultOptions()
	db := &r.RocksDB
	db.Units.BlockCacheBytes = part(48, 32*mib, 4096*mib)
	db.Offsets.BlockCacheBytes = db.Units.BlockCacheBytes / 16
	db.Units.WriteBufferBytes = part(384, 16*mib, 128*mib)
	db.Offsets.WriteBufferBytes = db.Units.WriteBufferBytes / 4
	r.TailBytes = part(768, 4*mib, 256*mib)
	db.MaxBackgroundJobs = min(max(cpus, 2), maxBackgroundJobs)
	db.MaxSubcompactions = min(db.MaxBackgroundJobs, maxSubcompactions)
	return r
}

// machineRocksOptions returns the options for this machine.
func (o *Options) machineRocksOptions() rocks.Options {
	return o.rocksOptions(runtime.GOMAXPROCS(0), machineMemory())
}
