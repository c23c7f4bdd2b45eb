package store

import (
	"log/slog"
	"time"

	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// FlushDiskType says whether a put waits until its message is durable. The values are RocketMQ's.
type FlushDiskType string

// The flush types.
const (
	AsyncFlush FlushDiskType = "ASYNC_FLUSH" // a put is acknowledged when it is in the log; a flush follows within the intervals
	SyncFlush  FlushDiskType = "SYNC_FLUSH"  // a put is acknowledged when it is durable, unless the message says WAIT=false
)

// BrokerRole is the part a store plays in replication. The values are RocketMQ's.
type BrokerRole string

// The roles.
const (
	AsyncMaster BrokerRole = "ASYNC_MASTER" // takes puts, waits for no replica
	SyncMaster  BrokerRole = "SYNC_MASTER"  // waits for replicas; refused until there is replication, see Options.BrokerRole
	Slave       BrokerRole = "SLAVE"        // takes what its master sent and no puts
)

// StoreType says where the consume queues are.
type StoreType string

// The store types.
const (
	StoreTypeFile    StoreType = "default"        // files
	StoreTypeRocksDB StoreType = "defaultRocksDB" // RocksDB
)

// SyncFlushWriteMode says how bytes get into the log's files under synchronous flush.
type SyncFlushWriteMode string

// The modes. Readers see the files through their mappings in each of them.
const (
	SyncWriteAuto   SyncFlushWriteMode = "auto"   // the store chooses
	SyncWriteMapped SyncFlushWriteMode = "mmap"   // stores into the mapping; ahead with one producer
	SyncWriteStaged SyncFlushWriteMode = "staged" // collected in memory, one write and one sync for all of a flush; ahead from some 16 waiting producers on
)

// Options of a store. Take them from DefaultOptions or ParseOptions: the zero value is refused by Validate. Each field mirrors the property of RocketMQ's
// MessageStoreConfig whose name is its own with a small first letter, which the tag prop carries as well; "live" behind the name
// says that an open store takes a new value over, see Store.SetOptions. docs/config.md has the same as a table, and is tested against this.
//
// Durations are whole milliseconds in properties. Where no word is said about zero, it is refused.
//
// Source: MessageStoreConfig, 5.5.0.
type Options struct {
	// StorePathCommitLog lists the directories of the log, separated by ',' in the property. Empty: <root>/commitlog. With
	// several, new files go to them in turn by file number.
	StorePathCommitLog []string `prop:"storePathCommitLog"`
	// ReadOnlyCommitLogStorePaths lists directories, separated by ',', whose files belong to the log and in which nothing is
	// made, changed or removed, also where StorePathCommitLog names them. Empty (default): none.
	ReadOnlyCommitLogStorePaths []string `prop:"readOnlyCommitLogStorePaths"`
	// MappedFileSizeCommitLog is the length of a log file in bytes. Default 1 GiB. It cannot change while there are files.
	MappedFileSizeCommitLog int64 `prop:"mappedFileSizeCommitLog"`

	// MaxMessageSize is the most bytes of a body; a record may have 64 KiB more. Default 4 MiB. Whatever it says, no record is longer than
	// a log file less 8 bytes (W1), and one rule holds for light queues too (W47). Stored messages are not affected.
	MaxMessageSize int64 `prop:"maxMessageSize,live"`
	// AutoMessageVersionOnTopicLen writes records of version 2 for topics over 127 bytes. Default true. Without it such topics are refused.
	AutoMessageVersionOnTopicLen bool `prop:"autoMessageVersionOnTopicLen"`
	// EnabledAppendPropCRC adds a checksum over the whole record as its last property. Default false.
	EnabledAppendPropCRC bool `prop:"enabledAppendPropCRC"`
	// ForceVerifyPropCRC checks that property in place of the body's checksum: a record without it is corrupt. Default false.
	// It needs EnabledAppendPropCRC, or the store would call its own records corrupt.
	ForceVerifyPropCRC bool `prop:"forceVerifyPropCRC"`

	// UseReentrantLockWhenPutMessage guards the log's end by a mutex (default true), otherwise by a spin lock.
	UseReentrantLockWhenPutMessage bool `prop:"useReentrantLockWhenPutMessage"`
	// UseABSLock guards it by a lock that spins under little contention and blocks under much, and goes before the option
	// above. Default false.
	UseABSLock bool `prop:"useABSLock"`
	// TopicQueueLockNum is how many locks the queues share. Default 32.
	TopicQueueLockNum int `prop:"topicQueueLockNum"`
	// OsPageCacheBusyTimeOutMills refuses puts (OS_PAGE_CACHE_BUSY) while another holds the log's end for longer. Default 1 s.
	OsPageCacheBusyTimeOutMills time.Duration `prop:"osPageCacheBusyTimeOutMills,live"`

	// FlushDiskType says whether puts wait for the disk. Default ASYNC_FLUSH. Only at a restart: 5.5.0 takes a change over and
	// then fails every put (W37).
	FlushDiskType FlushDiskType `prop:"flushDiskType"`
	// SyncFlushTimeout is how long a put waits for its flush before it answers FLUSH_DISK_TIMEOUT. Default 5 s.
	SyncFlushTimeout time.Duration `prop:"syncFlushTimeout,live"`
	// FlushIntervalCommitLog is the period of the asynchronous flush. Default 500 ms.
	FlushIntervalCommitLog time.Duration `prop:"flushIntervalCommitLog,live"`
	// FlushCommitLogTimed keeps to that period (default true); otherwise WakeFlushWhenPutMessage can wake the flush earlier.
	FlushCommitLogTimed bool `prop:"flushCommitLogTimed,live"`
	// FlushCommitLogLeastPages is how many pages of 4 KiB must be unflushed before the asynchronous flush does something.
	// Default 4. Zero: whenever a byte is.
	FlushCommitLogLeastPages int `prop:"flushCommitLogLeastPages,live"`
	// FlushCommitLogThoroughInterval is after how long it flushes whatever there is. Default 10 s.
	FlushCommitLogThoroughInterval time.Duration `prop:"flushCommitLogThoroughInterval,live"`
	// WakeFlushWhenPutMessage has a put wake the asynchronous flush. Default false. Without effect while FlushCommitLogTimed.
	WakeFlushWhenPutMessage bool `prop:"wakeFlushWhenPutMessage,live"`
	// EnableRunningFlagsInFlush is taken and changes nothing: a failed flush always sets NOT_WRITEABLE, and no flag ever keeps
	// accepted messages from being flushed, as it does in 5.5.0 with this option (W9). Default false.
	EnableRunningFlagsInFlush bool `prop:"enableRunningFlagsInFlush"`

	// TransientStorePoolEnable collects records in memory and writes them to the file in a loop of its own (the commit); what is
	// not yet committed is not readable and dies with the process. Default false. Refused with SYNC_FLUSH and with WriteWithoutMmap; without
	// effect on a SLAVE.
	TransientStorePoolEnable bool `prop:"transientStorePoolEnable"`
	// TransientStorePoolSize is how many files' worth of memory 5.5.0 takes for that. Default 5. Here StagingBufferBytes bounds the
	// memory, if it is less.
	TransientStorePoolSize int `prop:"transientStorePoolSize"`
	// FastFailIfNoBufferInStorePool refuses a put at once when that memory is full; otherwise the put waits for room. Default false.
	// 5.5.0 without it goes on with a file that cannot be read (W2).
	FastFailIfNoBufferInStorePool bool `prop:"fastFailIfNoBufferInStorePool,live"`
	// CommitIntervalCommitLog is the period of the commit. Default 200 ms.
	CommitIntervalCommitLog time.Duration `prop:"commitIntervalCommitLog,live"`
	// CommitCommitLogLeastPages is how many pages of 4 KiB must wait before it does something. Default 4. Zero: whenever a
	// byte does.
	CommitCommitLogLeastPages int `prop:"commitCommitLogLeastPages,live"`
	// CommitCommitLogThoroughInterval is after how long it commits whatever there is. Default 200 ms.
	CommitCommitLogThoroughInterval time.Duration `prop:"commitCommitLogThoroughInterval,live"`
	// WakeCommitWhenPutMessage has a put wake the commit. Default true.
	WakeCommitWhenPutMessage bool `prop:"wakeCommitWhenPutMessage,live"`

	// WriteWithoutMmap writes records with system calls and not through a mapping; reads go through mappings all the same.
	// Default false. What lies behind a record stays zero (W6).
	WriteWithoutMmap bool `prop:"writeWithoutMmap"`
	// SharedByteBufferNum is how many buffers 5.5.0 encodes into for that. Default 16.
	SharedByteBufferNum int `prop:"sharedByteBufferNum"`

	// WarmMapedFileEnable brings all pages of a log file into memory when it is made, and locks them there until it is full.
	// Default false.
	WarmMapedFileEnable bool `prop:"warmMapedFileEnable"`
	// FlushLeastPagesWhenWarmMapedFile is after how many pages 5.5.0 flushes meanwhile under SYNC_FLUSH. Default 4096. Here files are warmed
	// off the put path, and nothing is flushed for it.
	FlushLeastPagesWhenWarmMapedFile int `prop:"flushLeastPagesWhenWarmMapedFile"`
	// DataReadAheadEnable lets the kernel read ahead in the log (default true), and Get read up to 64 KiB at once of what is not in memory; otherwise the kernel is advised that
	// reads are random, and records are read one by one.
	DataReadAheadEnable bool `prop:"dataReadAheadEnable,live"`
	// DiskSpaceCleanForciblyRatio is the use in percent above which log files go that have not expired (CleanFileForciblyEnable), and above which a
	// directory of StorePathCommitLog gets no new file while another is below. Default 85.
	DiskSpaceCleanForciblyRatio int `prop:"diskSpaceCleanForciblyRatio,live"`

	// EnableLmq gives messages their offsets in light queues (INNER_MULTI_DISPATCH). Default false.
	EnableLmq bool `prop:"enableLmq"`
	// EnableMultiDispatch dispatches them to file queues. Default false.
	EnableMultiDispatch bool `prop:"enableMultiDispatch"`
	// EnableLmqQuota bounds how many light queues there are, if EnableLmq and EnableMultiDispatch are on. Default false.
	EnableLmqQuota bool `prop:"enableLmqQuota,live"`
	// MaxLmqConsumeQueueNum is that bound. Default 20000. Zero: no light queue can be made.
	MaxLmqConsumeQueueNum int `prop:"maxLmqConsumeQueueNum,live"`

	// CheckCRCOnRecover checks the bodies' checksums when the store is opened. Default true.
	CheckCRCOnRecover bool `prop:"checkCRCOnRecover"`
	// MessageDelayLevel lists the delays of levels 1, 2 and so on, separated by blanks: a number and s, m, h or d. Default 18
	// levels from 1s to 2h. DelayLevels parses it.
	MessageDelayLevel string `prop:"messageDelayLevel"`

	// StoreType says where consume queues are: default, in files, or defaultRocksDB. Default: default.
	StoreType StoreType `prop:"storeType"`
	// UseSeparateStorePathForRocksdbCQ says where a new RocksDB goes: consumequeue_rocksdb, or (default false) consumequeue. One that is
	// there is used where it is.
	UseSeparateStorePathForRocksdbCQ bool `prop:"useSeparateStorePathForRocksdbCQ"`
	// RocksdbCQDoubleWriteEnable keeps consume queues in files and in RocksDB, if StoreType is default: the combined store. With
	// defaultRocksDB it has no effect. Default false.
	RocksdbCQDoubleWriteEnable bool `prop:"rocksdbCQDoubleWriteEnable"`
	// CombineCQLoadingCQTypes lists the sides of the combined store, store types separated by ';'. Case does not matter, and unknown names are passed
	// over. With one of them alone it is that side's store. Default "default;defaultRocksDB".
	CombineCQLoadingCQTypes string `prop:"combineCQLoadingCQTypes"`
	// CombineCQPreferCQType is the side that queues are read from as far as it is ready for them, and CombineAssignOffsetCQType the one that says which offset
	// comes next in a queue. Both have to be loaded. Defaults: default.
	CombineCQPreferCQType     StoreType `prop:"combineCQPreferCQType,live"`
	CombineAssignOffsetCQType StoreType `prop:"combineAssignOffsetCQType,live"`
	// CombineCQUseRocksdbForLmq keeps light queues in RocksDB alone. Default false.
	CombineCQUseRocksdbForLmq bool `prop:"combineCQUseRocksdbForLmq"`
	// RocksdbCompressionType compresses the units of RocksDB queues, but for those on the last level: none, snappy, lz4 (default) or zstd.
	RocksdbCompressionType string `prop:"rocksdbCompressionType"`
	// BottomMostCompressionTypeForConsumeQueueStore compresses them there: likewise, default zstd.
	BottomMostCompressionTypeForConsumeQueueStore string `prop:"bottomMostCompressionTypeForConsumeQueueStore"`
	// MappedFileSizeConsumeQueue is the length of a queue file in bytes, rounded up to whole units of 20. Default 6000000.
	MappedFileSizeConsumeQueue int64 `prop:"mappedFileSizeConsumeQueue"`
	// FlushConsumeQueueThoroughInterval is after how long consume queues are made durable: what a crash makes dispatch again. Default 60 s.
	FlushConsumeQueueThoroughInterval time.Duration `prop:"flushConsumeQueueThoroughInterval,live"`
	// MessageIndexEnable keeps indexes, by which messages are found by key. Default true.
	MessageIndexEnable bool `prop:"messageIndexEnable"`
	// IndexFileWriteEnable keeps the hash index in files (default true). Without it files that are there answer what they have, and get nothing more.
	IndexFileWriteEnable bool `prop:"indexFileWriteEnable"`
	// IndexFileReadEnable has queries ask the files before RocksDB (default true). The other one is asked too while it has come further.
	IndexFileReadEnable bool `prop:"indexFileReadEnable"`
	// IndexRocksDBEnable keeps an index in RocksDB. Default false. A new one is filled with all that the log has.
	IndexRocksDBEnable bool `prop:"indexRocksDBEnable"`
	// MaxRocksDBIndexQueryDays is the window, in days, of a query without bounds, of either index. Default 7.
	MaxRocksDBIndexQueryDays int `prop:"maxRocksDBIndexQueryDays,live"`
	// MaxHashSlotNum and MaxIndexNum are the slots and entries of an index file. Defaults 5000000 and 20000000.
	MaxHashSlotNum int `prop:"maxHashSlotNum"`
	MaxIndexNum    int `prop:"maxIndexNum"`
	// ReadUnCommitted dispatches messages that are not confirmed: under SYNC_FLUSH before they are durable. Default false.
	ReadUnCommitted bool `prop:"readUnCommitted"`

	// MaxTransferCountOnMessageInMemory and MaxTransferBytesOnMessageInMemory bound the messages of one Get, and their bytes, while they are taken to be in memory.
	// Defaults 32 and 262144. The first message comes whatever its size.
	MaxTransferCountOnMessageInMemory int `prop:"maxTransferCountOnMessageInMemory,live"`
	MaxTransferBytesOnMessageInMemory int `prop:"maxTransferBytesOnMessageInMemory,live"`
	// MaxTransferCountOnMessageInDisk and MaxTransferBytesOnMessageInDisk do the same for messages on disk. Defaults 8 and 65536.
	MaxTransferCountOnMessageInDisk int `prop:"maxTransferCountOnMessageInDisk,live"`
	MaxTransferBytesOnMessageInDisk int `prop:"maxTransferBytesOnMessageInDisk,live"`
	// AccessMessageInMemoryMaxRatio is the part of the machine's memory, in percent, that the newest bytes of the log are taken to fill. Default 40.
	AccessMessageInMemoryMaxRatio int `prop:"accessMessageInMemoryMaxRatio,live"`
	// AccessMessageInMemoryHotRatio is the part of the machine's memory, in percent, that the newest bytes of the log fill which are never cold data, and for which nobody asks the
	// kernel whether they are in memory if they were put since the store was opened. Default 26.
	AccessMessageInMemoryHotRatio int `prop:"accessMessageInMemoryHotRatio,live"`
	// ColdDataFlowControlEnable counts what consumer groups read of cold data, behind AccessMessageInMemoryHotRatio. Default false. See Store.ColdLimited.
	ColdDataFlowControlEnable bool `prop:"coldDataFlowControlEnable,live"`
	// ColdDataScanEnable counts only what is not in memory of them, by the kernel's word (default false); otherwise all of it.
	ColdDataScanEnable bool `prop:"coldDataScanEnable,live"`
	// CgColdReadThreshold is how many bytes of cold data a group may read within five seconds, and GlobalColdReadThreshold how many all groups may together.
	// Defaults 3145728 and 104857600. They are properties of RocketMQ's BrokerConfig.
	CgColdReadThreshold     int64 `prop:"cgColdReadThreshold,live"`
	GlobalColdReadThreshold int64 `prop:"globalColdReadThreshold,live"`
	// MaxFilterMessageSize bounds how many units of a queue one Get looks at, in bytes of file units of 20, if it is not asked for more messages. Default 16000.
	MaxFilterMessageSize int `prop:"maxFilterMessageSize,live"`
	// TravelCqFileNumWhenGetMessage is how many files of a queue one Get looks at as long as it finds nothing; with the first that has something it ends. Default 1.
	TravelCqFileNumWhenGetMessage int `prop:"travelCqFileNumWhenGetMessage,live"`

	// DeleteWhen lists the hours of the day, local time, separated by ';', in which expired log files are removed. Default "04". Each counts from
	// its beginning to its end.
	DeleteWhen string `prop:"deleteWhen,live"`
	// FileReservedTime is for how many hours a log file is kept after its last record was stored. Default 72. That is the record's own store time, not the
	// file's time, which copies and late flushes change (W41).
	FileReservedTime int `prop:"fileReservedTime,live"`
	// DeleteFileBatchMax is how many log files one run removes at most. Default 10.
	DeleteFileBatchMax int `prop:"deleteFileBatchMax,live"`
	// CleanResourceInterval is the time between two runs, and between two looks at the disk. Default 10 s. The first run is a minute after the store was opened.
	CleanResourceInterval time.Duration `prop:"cleanResourceInterval,live"`
	// DeleteCommitLogFilesInterval is the pause between two log files that one run removes. Default 100 ms.
	DeleteCommitLogFilesInterval time.Duration `prop:"deleteCommitLogFilesInterval,live"`
	// DeleteConsumeQueueFilesInterval is the pause after each queue that lost files. Default 100 ms.
	DeleteConsumeQueueFilesInterval time.Duration `prop:"deleteConsumeQueueFilesInterval,live"`
	// CleanFileForciblyEnable removes log files that have not expired when the disk is above DiskSpaceCleanForciblyRatio (default true). Otherwise that
	// never happens, and puts are refused above DiskSpaceWarningLevelRatio.
	CleanFileForciblyEnable bool `prop:"cleanFileForciblyEnable,live"`
	// DiskMaxUsedSpaceRatio is the use of the disk in percent above which expired log files go at any hour. Default 75, 10 to 95. Above
	// DiskSpaceCleanForciblyRatio it has no effect.
	DiskMaxUsedSpaceRatio int `prop:"diskMaxUsedSpaceRatio,live"`
	// DiskSpaceWarningLevelRatio is the use in percent above which puts are refused (DISK_FULL), until it is at or below DiskSpaceCleanForciblyRatio
	// again. Default 90, and above that ratio.
	DiskSpaceWarningLevelRatio int `prop:"diskSpaceWarningLevelRatio,live"`
	// DestroyMapedFileIntervalForcibly is after how long 5.5.0 unmaps a removed file that is still read. Default 120 s. Taken and without effect: bytes that
	// somebody reads are never unmapped (W33).
	DestroyMapedFileIntervalForcibly time.Duration `prop:"destroyMapedFileIntervalForcibly"`
	// RedeleteHangedFileInterval is after how long 5.5.0 tries again to remove a file that it could not. Default 120 s. Taken and without effect: each
	// run tries again.
	RedeleteHangedFileInterval time.Duration `prop:"redeleteHangedFileInterval"`

	// BrokerRole is ASYNC_MASTER (default) or SLAVE. SYNC_MASTER is refused: its acknowledgement would claim a replica that
	// does not exist. (5.5.0 with its defaults waits for no replica either, W44.)
	BrokerRole BrokerRole `prop:"brokerRole"`
	// DuplicationEnable takes a log ordered by somebody else. Not supported: true is refused. Default false.
	DuplicationEnable bool `prop:"duplicationEnable"`

	// The options from here on are additions; RocketMQ ignores their names.

	// SyncFlushWriteMode says how bytes get into the log under SYNC_FLUSH: auto (default), mmap or staged.
	SyncFlushWriteMode SyncFlushWriteMode `prop:"syncFlushWriteMode,own"`
	// PreallocateAheadBytes is how far ahead of the write position the pages of the log are brought into memory, in bytes.
	// Default 64 MiB. Zero: not at all, and each put takes its own page faults.
	PreallocateAheadBytes int64 `prop:"preallocateAheadBytes,own"`
	// StagingBufferBytes bounds, in bytes, the records collected in memory and not yet in the files (staged, and the transient pool).
	// Default 64 MiB.
	StagingBufferBytes int64 `prop:"stagingBufferBytes,own"`

	// BuildConsumeQueues keeps the consume queues and the index up to the log (default true). Without it a store takes puts and nothing else: they are
	// built when it is next opened with it, or by RocketMQ.
	BuildConsumeQueues bool `prop:"buildConsumeQueues,own"`
	// MaxDispatchBehindBytes is how many bytes of the log the consume queues may be behind before puts wait for them, and after a
	// second are refused (OS_PAGE_CACHE_BUSY). Default 512 MiB. Zero: no bound.
	MaxDispatchBehindBytes int64 `prop:"maxDispatchBehindBytes,own,live"`

	// LogDamagePolicy says what becomes of a log with valid records behind damage: refuse (default), mend or accept-loss, see DamagePolicy.
	LogDamagePolicy DamagePolicy `prop:"logDamagePolicy,own"`

	// QueueDamagePolicy says what becomes of a RocksDB directory that is damaged: rebuild (default) or refuse, see QueueDamagePolicy.
	QueueDamagePolicy QueueDamagePolicy `prop:"queueDamagePolicy,own"`

	// RocksdbBlockCacheBytes is the memory for blocks of units of RocksDB queues. Default 0: by the machine, see sizedRocksOptions.
	RocksdbBlockCacheBytes int64 `prop:"rocksdbBlockCacheBytes,own"`
	// RocksdbWriteBufferBytes is the size of a memtable of units, of which there are up to four. Default 0: by the machine.
	RocksdbWriteBufferBytes int64 `prop:"rocksdbWriteBufferBytes,own"`
	// RocksdbBackgroundJobs is how many flushes and compactions run at once. Default 0: by the machine.
	RocksdbBackgroundJobs int `prop:"rocksdbBackgroundJobs,own"`
	// RocksdbRateLimitBytesPerSec bounds what they write, in bytes a second. Default 0: 100 MiB. -1: no bound.
	RocksdbRateLimitBytesPerSec int64 `prop:"rocksdbRateLimitBytesPerSec,own"`
	// RocksdbTailBytes is the memory for the newest units of RocksDB queues. Default 0: by the machine. -1: none.
	RocksdbTailBytes int64 `prop:"rocksdbTailBytes,own"`

	// BackfillBytesPerSec is how many bytes of the log are read in a second while a side of the combined store is filled from it. Default 64 MiB. 0: no bound. See
	// Store.SetBackfillPace.
	BackfillBytesPerSec int64 `prop:"backfillBytesPerSec,live,own"`
	// BackfillPutLatency is how long a put may take meanwhile: while more than one in a hundred takes longer, the side is filled a tenth of the time. Default 20 ms. Zero: no bound.
	BackfillPutLatency time.Duration `prop:"backfillPutLatency,live,own"`
	// ShadowReadPercent is of how many answers of a hundred, in a combined store, it is found out afterwards what the other side would have answered. Default 1. 0: of none. See Store.ShadowReads.
	ShadowReadPercent int `prop:"shadowReadPercent,live,own"`

	// FS is where the store lives. nil: the machine's filesystem. Not a property.
	FS mmap.FS `prop:"-"`
	// hooks replace what retention knows of the world, in tests.
	hooks retentionHooks `prop:"-"`
	// rebuildBytes replaces the constant, in tests.
	rebuildBytes int64 `prop:"-"`
	// indexFS holds the hash index, in tests.
	indexFS mmap.FS `prop:"-"`
	// rebuildStep is called before a rebuild and after each of its steps, in tests.
	rebuildStep func(phy int64) `prop:"-"`
	// IsBatchTopic tells whether the queues of a topic are batch queues (its attribute queue.type is BatchCQ), so that a batch for
	// it can be stored whole, as an inner batch. Called by puts and reads, and for each record that is dispatched, during Open too,
	// concurrently: it has to be ready before that. Where it panics dispatch to the queues stops. nil: no topic. Not a property.
	IsBatchTopic func(topic string) bool `prop:"-"`
	// HasBatchTopics tells, while the store is opened, whether there is any such topic: only then is the log read for what comes next in their queues, which are in no store of
	// queues. nil: there may be, where IsBatchTopic is set. Not a property.
	HasBatchTopics func() bool `prop:"-"`
	// OnLocked is called when Open has the store's lock and has changed nothing: an error of it refuses the store. nil: nobody asks. Not a property.
	OnLocked func() error `prop:"-"`
	// Logger gets what needs an operator's eye. nil: nothing is logged. Not a property.
	Logger *slog.Logger `prop:"-"`
}

// defaultDelayLevels are the 18 delays of RocketMQ.
const defaultDelayLevels = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

// DefaultOptions returns RocketMQ's defaults.
//
// Source: MessageStoreConfig, 5.5.0.
func DefaultOptions() Options {
	return Options{
		MappedFileSizeCommitLog: 1 << 30,

		MaxMessageSize:               4 << 20,
		AutoMessageVersionOnTopicLen: true,

		UseReentrantLockWhenPutMessage: true,
		TopicQueueLockNum:              32,
		OsPageCacheBusyTimeOutMills:    time.Second,

		FlushDiskType:                  AsyncFlush,
		SyncFlushTimeout:               5 * time.Second,
		FlushIntervalCommitLog:         500 * time.Millisecond,
		FlushCommitLogTimed:            true,
		FlushCommitLogLeastPages:       4,
		FlushCommitLogThoroughInterval: 10 * time.Second,

		TransientStorePoolSize:          5,
		CommitIntervalCommitLog:         200 * time.Millisecond,
		CommitCommitLogLeastPages:       4,
		CommitCommitLogThoroughInterval: 200 * time.Millisecond,
		WakeCommitWhenPutMessage:        true,

		SharedByteBufferNum: 16,

		FlushLeastPagesWhenWarmMapedFile: 4096,
		DataReadAheadEnable:              true,
		DiskSpaceCleanForciblyRatio:      85,

		MaxLmqConsumeQueueNum: 20000,

		CheckCRCOnRecover: true,
		MessageDelayLevel: defaultDelayLevels,

		StoreType:              StoreTypeFile,
		RocksdbCompressionType: string(rocks.LZ4),
		BottomMostCompressionTypeForConsumeQueueStore: string(rocks.ZSTD),
		CombineCQLoadingCQTypes:                       string(StoreTypeFile + combineSeparator + StoreTypeRocksDB),
		CombineCQPreferCQType:                         StoreTypeFile,
		CombineAssignOffsetCQType:                     StoreTypeFile,
		MappedFileSizeConsumeQueue:                    6_000_000,
		FlushConsumeQueueThoroughInterval:             time.Minute,
		MessageIndexEnable:                            true,
		IndexFileWriteEnable:                          true,
		IndexFileReadEnable:                           true,
		MaxRocksDBIndexQueryDays:                      7,
		MaxHashSlotNum:                                5_000_000,
		MaxIndexNum:                                   20_000_000,

		MaxTransferCountOnMessageInMemory: 32,
		MaxTransferBytesOnMessageInMemory: 262144,
		MaxTransferCountOnMessageInDisk:   8,
		MaxTransferBytesOnMessageInDisk:   65536,
		AccessMessageInMemoryMaxRatio:     40,
		AccessMessageInMemoryHotRatio:     26,
		CgColdReadThreshold:               3 << 20,
		GlobalColdReadThreshold:           100 << 20,
		MaxFilterMessageSize:              16000,
		TravelCqFileNumWhenGetMessage:     1,

		DeleteWhen:                       "04",
		FileReservedTime:                 72,
		DeleteFileBatchMax:               10,
		CleanResourceInterval:            10 * time.Second,
		DeleteCommitLogFilesInterval:     100 * time.Millisecond,
		DeleteConsumeQueueFilesInterval:  100 * time.Millisecond,
		CleanFileForciblyEnable:          true,
		DiskMaxUsedSpaceRatio:            75,
		DiskSpaceWarningLevelRatio:       90,
		DestroyMapedFileIntervalForcibly: 2 * time.Minute,
		RedeleteHangedFileInterval:       2 * time.Minute,

		BrokerRole: AsyncMaster,

		SyncFlushWriteMode:    SyncWriteAuto,
		PreallocateAheadBytes: 64 << 20,
		StagingBufferBytes:    64 << 20,

		BuildConsumeQueues:     true,
		MaxDispatchBehindBytes: 512 << 20,
		BackfillBytesPerSec:    64 << 20,
		BackfillPutLatency:     20 * time.Millisecond,
		ShadowReadPercent:      1,
		LogDamagePolicy:        DamageRefuse,
		QueueDamagePolicy:      QueueDamageRebuild,
	}
}
