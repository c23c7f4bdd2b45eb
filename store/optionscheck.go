package store

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/internal/property"
	"github.com/tandemq/tandemmq/message"
)

// Bounds of Validate that are no plain Java int.
const (
	minMappedFileSize = 256     // a small record and the filler behind it
	recordExtraBytes  = 1 << 16 // what a record may have beside the body of maxMessageSize
	minMaxMessageSize = 10      // 5.5.0 ignores less
	maxQueryDays      = 100_000 // 273 years
)

// Validate returns every fault of o, joined, each with the property, its value and its bound, or with the other property
// that contradicts it. It touches no file.
func (o *Options) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	between := func(name string, v, low, high int64) {
		if v < low || v > high {
			fault("%s is %d, want %d to %d", name, v, low, high)
		}
	}
	millis := func(name string, d time.Duration) {
		if d < time.Millisecond || d > math.MaxInt32*time.Millisecond || d%time.Millisecond != 0 {
			fault("%s is %v, want whole milliseconds from 1 to %d", name, d, math.MaxInt32)
		}
	}

	if o.MappedFileSizeCommitLog == 0 && o.MaxMessageSize == 0 {
		fault("mappedFileSizeCommitLog is 0, want %d to %d: begin with DefaultOptions and change what is to differ", minMappedFileSize, math.MaxInt32)
	} else {
		between("mappedFileSizeCommitLog", o.MappedFileSizeCommitLog, minMappedFileSize, math.MaxInt32)
	}
	between("maxMessageSize", o.MaxMessageSize, minMaxMessageSize, math.MaxInt32)
	between("topicQueueLockNum", int64(o.TopicQueueLockNum), 1, 1<<16)
	between("flushCommitLogLeastPages", int64(o.FlushCommitLogLeastPages), 0, math.MaxInt32)
	between("transientStorePoolSize", int64(o.TransientStorePoolSize), 1, math.MaxInt32)
	between("commitCommitLogLeastPages", int64(o.CommitCommitLogLeastPages), 0, math.MaxInt32)
	between("sharedByteBufferNum", int64(o.SharedByteBufferNum), 1, math.MaxInt32)
	between("flushLeastPagesWhenWarmMapedFile", int64(o.FlushLeastPagesWhenWarmMapedFile), 1, math.MaxInt32)
	between("diskSpaceCleanForciblyRatio", int64(o.DiskSpaceCleanForciblyRatio), 30, 85) // where 5.5.0 clamps
	between("maxLmqConsumeQueueNum", int64(o.MaxLmqConsumeQueueNum), 0, math.MaxInt32)
	between("preallocateAheadBytes", o.PreallocateAheadBytes, 0, math.MaxInt64)
	between("stagingBufferBytes", o.StagingBufferBytes, 1, math.MaxInt64)
	millis("osPageCacheBusyTimeOutMills", o.OsPageCacheBusyTimeOutMills)
	millis("syncFlushTimeout", o.SyncFlushTimeout)
	millis("flushIntervalCommitLog", o.FlushIntervalCommitLog)
	millis("flushCommitLogThoroughInterval", o.FlushCommitLogThoroughInterval)
	millis("commitIntervalCommitLog", o.CommitIntervalCommitLog)
	millis("commitCommitLogThoroughInterval", o.CommitCommitLogThoroughInterval)
	millis("flushConsumeQueueThoroughInterval", o.FlushConsumeQueueThoroughInterval)
	between("mappedFileSizeConsumeQueue", o.MappedFileSizeConsumeQueue, 20, 1<<30)
	between("maxHashSlotNum", int64(o.MaxHashSlotNum), 1, math.MaxInt32/4)
	between("maxIndexNum", int64(o.MaxIndexNum), 2, math.MaxInt32/20)
	between("maxRocksDBIndexQueryDays", int64(o.MaxRocksDBIndexQueryDays), 1, maxQueryDays)
	between("maxTransferCountOnMessageInMemory", int64(o.MaxTransferCountOnMessageInMemory), 1, math.MaxInt32)
	between("maxTransferBytesOnMessageInMemory", int64(o.MaxTransferBytesOnMessageInMemory), 0, math.MaxInt32)
	between("maxTransferCountOnMessageInDisk", int64(o.MaxTransferCountOnMessageInDisk), 1, math.MaxInt32)
	between("maxTransferBytesOnMessageInDisk", int64(o.MaxTransferBytesOnMessageInDisk), 0, math.MaxInt32)
	between("accessMessageInMemoryMaxRatio", int64(o.AccessMessageInMemoryMaxRatio), 0, 100)
	between("accessMessageInMemoryHotRatio", int64(o.AccessMessageInMemoryHotRatio), 0, 100)
	between("cgColdReadThreshold", o.CgColdReadThreshold, 1, math.MaxInt64)
	between("globalColdReadThreshold", o.GlobalColdReadThreshold, 1, math.MaxInt64)
	between("maxFilterMessageSize", int64(o.MaxFilterMessageSize), 0, math.MaxInt32)
	between("travelCqFileNumWhenGetMessage", int64(o.TravelCqFileNumWhenGetMessage), 1, math.MaxInt32)
	between("fileReservedTime", int64(o.FileReservedTime), 0, maxReservedHours)
	between("deleteFileBatchMax", int64(o.DeleteFileBatchMax), 1, math.MaxInt32)
	between("diskMaxUsedSpaceRatio", int64(o.DiskMaxUsedSpaceRatio), 10, 95)           // as above
	between("diskSpaceWarningLevelRatio", int64(o.DiskSpaceWarningLevelRatio), 35, 90) // as above
	if o.DiskSpaceWarningLevelRatio <= o.DiskSpaceCleanForciblyRatio {
		fault("diskSpaceWarningLevelRatio is %d, want more than diskSpaceCleanForciblyRatio, which is %d: puts are refused above the one until the disk is at or below the other", o.DiskSpaceWarningLevelRatio, o.DiskSpaceCleanForciblyRatio)
	}
	millis("cleanResourceInterval", o.CleanResourceInterval)
	millis("deleteCommitLogFilesInterval", o.DeleteCommitLogFilesInterval)
	millis("deleteConsumeQueueFilesInterval", o.DeleteConsumeQueueFilesInterval)
	millis("destroyMapedFileIntervalForcibly", o.DestroyMapedFileIntervalForcibly)
	millis("redeleteHangedFileInterval", o.RedeleteHangedFileInterval)
	if _, err := parseHours(o.DeleteWhen); err != nil {
		fault("deleteWhen is %q: %v", o.DeleteWhen, err)
	}
	between("rocksdbBlockCacheBytes", o.RocksdbBlockCacheBytes, 0, math.MaxInt64)
	between("rocksdbWriteBufferBytes", o.RocksdbWriteBufferBytes, 0, math.MaxInt64)
	between("rocksdbBackgroundJobs", int64(o.RocksdbBackgroundJobs), 0, 1024)
	between("rocksdbRateLimitBytesPerSec", o.RocksdbRateLimitBytesPerSec, -1, math.MaxInt64)
	between("rocksdbTailBytes", o.RocksdbTailBytes, -1, math.MaxInt64)
	between("backfillBytesPerSec", o.BackfillBytesPerSec, 0, math.MaxInt64)
	between("backfillPutLatency", o.BackfillPutLatency.Milliseconds(), 0, math.MaxInt32)
	between("shadowReadPercent", int64(o.ShadowReadPercent), 0, 100)
	between("maxDispatchBehindBytes", o.MaxDispatchBehindBytes, 0, math.MaxInt64)
	if _, err := o.DelayLevels(); err != nil {
		faults = append(faults, err)
	}
	faults = append(faults, o.pathFaults()...)

	switch o.FlushDiskType {
	case AsyncFlush, SyncFlush:
	default:
		fault("flushDiskType is %q, want %s or %s", o.FlushDiskType, AsyncFlush, SyncFlush)
	}
	switch o.SyncFlushWriteMode {
	case SyncWriteAuto, SyncWriteMapped, SyncWriteStaged:
	default:
		fault("syncFlushWriteMode is %q, want %s, %s or %s", o.SyncFlushWriteMode, SyncWriteAuto, SyncWriteMapped, SyncWriteStaged)
	}
	switch o.StoreType {
	case StoreTypeFile, StoreTypeRocksDB:
	default:
		fault("storeType is %q, want %s or %s", o.StoreType, StoreTypeFile, StoreTypeRocksDB)
	}
	faults = append(faults, o.combineFaults()...)
	faults = append(faults, o.rocksFaults()...)
	switch o.BrokerRole {
	case AsyncMaster, Slave:
	case SyncMaster:
		fault("brokerRole is %s, which this version does not support: there is no replication, so an acknowledgement could not wait for a replica; set %s", SyncMaster, AsyncMaster)
	default:
		fault("brokerRole is %q, want %s or %s", o.BrokerRole, AsyncMaster, Slave)
	}
	if !o.LogDamagePolicy.valid() {
		fault("logDamagePolicy is %q, want %s, %s or %s", o.LogDamagePolicy, DamageRefuse, DamageMend, DamageAcceptLoss)
	}
	if !o.QueueDamagePolicy.valid() {
		fault("queueDamagePolicy is %q, want %s or %s", o.QueueDamagePolicy, QueueDamageRebuild, QueueDamageRefuse)
	}
	if o.DuplicationEnable {
		fault("duplicationEnable is true, which is not supported")
	}

	if o.TransientStorePoolEnable && o.WriteWithoutMmap {
		fault("transientStorePoolEnable and writeWithoutMmap are both true: use one of them")
	}
	if o.TransientStorePoolEnable && o.FlushDiskType == SyncFlush {
		fault("transientStorePoolEnable is true and flushDiskType %s: a put that waits for the disk gains nothing from the pool; set transientStorePoolEnable=false", SyncFlush)
	}
	if o.WriteWithoutMmap && o.SyncFlushWriteMode == SyncWriteMapped {
		fault("writeWithoutMmap is true and syncFlushWriteMode %s: use one of them", SyncWriteMapped)
	}
	if o.ForceVerifyPropCRC && !o.EnabledAppendPropCRC {
		fault("forceVerifyPropCRC is true and enabledAppendPropCRC false: the store would call its own records corrupt")
	}
	staged := o.TransientStorePoolEnable || o.FlushDiskType == SyncFlush && o.SyncFlushWriteMode != SyncWriteMapped
	if staged && o.StagingBufferBytes < o.MaxMessageSize+recordExtraBytes {
		fault("stagingBufferBytes is %d, want room for a record: maxMessageSize and 65536 bytes, %d", o.StagingBufferBytes, o.MaxMessageSize+recordExtraBytes)
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("store options: %w", err)
	}
	return nil
}

// pathFaults looks at the directories of the log. At least one must be left to write to.
func (o *Options) pathFaults() (faults []error) {
	check := func(name string, dirs []string) (clean []string) {
		for _, dir := range dirs {
			d := filepath.Clean(dir)
			switch {
			case strings.TrimSpace(dir) == "":
				faults = append(faults, fmt.Errorf("%s %q: an empty path among others", name, strings.Join(dirs, property.Separator)))
			case slices.Contains(clean, d):
				faults = append(faults, fmt.Errorf("%s names %s twice", name, d))
			default:
				clean = append(clean, d)
			}
		}
		return clean
	}
	write := check("storePathCommitLog", o.StorePathCommitLog)
	read := check("readOnlyCommitLogStorePaths", o.ReadOnlyCommitLogStorePaths)
	if len(write) > 0 && !slices.ContainsFunc(write, func(d string) bool { return !slices.Contains(read, d) }) {
		faults = append(faults, fmt.Errorf("storePathCommitLog %q: readOnlyCommitLogStorePaths has all of it, want one path to write to", strings.Join(write, property.Separator)))
	}
	return faults
}

// queueFileBytes returns the length of a queue file: whole units.
//
// Source: MessageStoreConfig.getMappedFileSizeConsumeQueue, 5.5.0.
func (o *Options) queueFileBytes() int64 {
	const unit = 20
	return (o.MappedFileSizeConsumeQueue + unit - 1) / unit * unit
}

// DelayLevels returns the delays of MessageDelayLevel.
func (o *Options) DelayLevels() (*message.DelayLevels, error) {
	levels, err := message.ParseDelayLevels(o.MessageDelayLevel)
	if err == nil && levels.Max() == 0 {
		err = errors.New("no level, want at least one")
	}
	if err != nil {
		return nil, fmt.Errorf("messageDelayLevel: %w", err)
	}
	return levels, nil
}
