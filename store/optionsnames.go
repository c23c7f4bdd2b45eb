package store

// refusedDLedger replaces the log by one of another format. Source: MessageStoreConfig, 5.5.0.
const refusedDLedger = "enableDLegerCommitLog"

// otherDispatchers are properties that give records to further parts of RocketMQ, and what becomes of those records here: they are in the log and in the queues of their topics, like
// all others, and nothing else is made of them.
//
// Source: DefaultMessageStore constructor (dispatchers), 5.5.0.
var otherDispatchers = map[string]string{
	"transRocksDBEnable": "half and operation messages of RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC and RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC are stored and served like others, and rocksdbstore gets no rows of them",
	"timerRocksDBEnable": "timer messages are stored and served like others, and rocksdbstore gets no rows of them: none comes due",
	"enableCompaction":   "messages of topics with the cleanup policy COMPACTION are stored and served like others, and never compacted",
}

// otherProperties are the properties of RocketMQ's store that are no field of Options. docs/config.md lists them too, and is
// tested against this.
//
// Source: MessageStoreConfig, 5.5.0; dead are those without a reader there.
var otherProperties = map[string]NoteKind{
	"maxTopicLength":                        NoteDead,
	"spinLockCollisionRetreatOptimalDegree": NoteDead,
	"putMessageTimeout":                     NoteDead,
	"putMsgIndexHightWater":                 NoteDead,
	"maxAsyncPutMessageRequests":            NoteDead,
	"mappedFileSwapEnable":                  NoteDead,
	"commitLogForceSwapMapInterval":         NoteDead,
	"commitLogSwapMapInterval":              NoteDead,
	"commitLogSwapMapReserveFileNum":        NoteDead,
	"logicQueueForceSwapMapInterval":        NoteDead,
	"logicQueueSwapMapInterval":             NoteDead,
	"logicQueueSwapMapReserveFileNum":       NoteDead,
	"cleanSwapedMapInterval":                NoteDead,
	"dispatchCqThreads":                     NoteDead,
	"dispatchCqCacheNum":                    NoteDead,
	"enableAsyncReput":                      NoteDead,
	"dispatchFromSenderThread":              NoteDead,
	"maxRecoveryCommitlogFiles":             NoteDead,
	"maxBatchDeleteFilesNum":                NoteDead,
	"enableCleanExpiredOffset":              NoteDead,
	"pullBatchMaxMessageCount":              NoteDead,

	"storePathRootDir":                                NoteUnused,
	"mapperFileSizeBatchConsumeQueue":                 NoteUnused,
	"mappedFileSizeConsumeQueueExt":                   NoteUnused,
	"enableConsumeQueueExt":                           NoteUnused,
	"bitMapLengthConsumeQueueExt":                     NoteUnused,
	"debugLockEnable":                                 NoteUnused,
	"inSyncReplicas":                                  NoteUnused,
	"minInSyncReplicas":                               NoteUnused,
	"totalReplicas":                                   NoteUnused,
	"allAckInSyncStateSet":                            NoteUnused,
	"enableAutoInSyncReplicas":                        NoteUnused,
	"slaveTimeout":                                    NoteUnused,
	"flushIntervalConsumeQueue":                       NoteUnused,
	"flushConsumeQueueLeastPages":                     NoteUnused,
	"putConsumeQueueDataByFileChannel":                NoteUnused,
	"recheckReputOffsetFromCq":                        NoteUnused,
	"enableBuildConsumeQueueConcurrently":             NoteUnused,
	"batchDispatchRequestThreadPoolNums":              NoteUnused,
	"messageIndexSafe":                                NoteUnused,
	"transRocksDBEnable":                              NoteUnused,
	"transWriteOriginTransHalfEnable":                 NoteUnused,
	"timerRocksDBEnable":                              NoteUnused,
	"maxMsgsNumBatch":                                 NoteUnused,
	"defaultQueryMaxNum":                              NoteUnused,
	"flushDelayOffsetInterval":                        NoteUnused,
	"enableCompaction":                                NoteUnused,
	"combineCQMaxExtraSearchCommitLogFiles":           NoteUnused,
	"combineCQEnableCheckSelf":                        NoteUnused,
	"checkCommitLogOffsetOnRecover":                   NoteUnused,
	"commitLogRecoverMaxNum":                          NoteUnused,
	"enableAcceleratedRecovery":                       NoteUnused,
	"enableLogConsumeQueueRepeatedlyBuildWhenRecover": NoteUnused,
	"replicasPerDiskPartition":                        NoteUnused,
	"logicalDiskSpaceCleanForciblyThreshold":          NoteUnused,
	"correctLogicMinOffsetSleepInterval":              NoteUnused,
	"correctLogicMinOffsetForceInterval":              NoteUnused,
	"diskFallRecorded":                                NoteUnused,
	"offsetCheckInSlave":                              NoteUnused,
	"timerColdDataCheckIntervalMs":                    NoteUnused,
	"sampleSteps":                                     NoteUnused,
	"maxConsumeQueueScan":                             NoteUnused,
	"sampleCountThreshold":                            NoteUnused,
	"maxChecksumRange":                                NoteUnused,
	"iteratorWhenUseRocksdbConsumeQueue":              NoteUnused,
	"cleanRocksDBDirtyCQIntervalMin":                  NoteUnused,
	"statRocksDBCQIntervalSec":                        NoteUnused,
	"enableRocksDBLog":                                NoteUnused,
	"memTableFlushIntervalMs":                         NoteUnused,
	"realTimePersistRocksDBConfig":                    NoteUnused,
	"rocksdbFlushWalFrequency":                        NoteUnused,
	"rocksdbWalFileRollingThreshold":                  NoteUnused,
	refusedDLedger:                                    NoteUnused, // when it is false
}
