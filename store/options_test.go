package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

func TestDefaultOptionsAreValid(t *testing.T) {
	o := DefaultOptions()
	require.NoError(t, o.Validate())
	levels, err := o.DelayLevels()
	require.NoError(t, err)
	require.Equal(t, message.DefaultDelayLevels(), levels)

	other := DefaultOptions()
	other.StorePathCommitLog = append(other.StorePathCommitLog, "a")
	require.Empty(t, DefaultOptions().StorePathCommitLog, "defaults are not shared")
}

func TestValidateNamesEachFault(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Options)
		want   []string
	}{
		{"zero value", func(o *Options) { *o = Options{} }, []string{
			"store options: mappedFileSizeCommitLog is 0, want 256 to 2147483647: begin with DefaultOptions", "maxMessageSize is 0, want 10 to 2147483647",
			"topicQueueLockNum is 0, want 1 to 65536", "syncFlushTimeout is 0s, want whole milliseconds from 1 to 2147483647",
			`flushDiskType is "", want ASYNC_FLUSH or SYNC_FLUSH`, `brokerRole is ""`, `syncFlushWriteMode is ""`, "messageDelayLevel: no level",
			"stagingBufferBytes is 0",
		}},
		{"log file too large for a filler", func(o *Options) { o.MappedFileSizeCommitLog = 1 << 31 }, []string{"mappedFileSizeCommitLog is 2147483648, want 256 to 2147483647"}},
		{"negative pages", func(o *Options) { o.FlushCommitLogLeastPages, o.CommitCommitLogLeastPages = -1, -2 }, []string{
			"flushCommitLogLeastPages is -1, want 0 to 2147483647", "commitCommitLogLeastPages is -2, want 0 to 2147483647",
		}},
		{"intervals", func(o *Options) {
			o.FlushIntervalCommitLog, o.FlushCommitLogThoroughInterval = 0, -time.Second
			o.CommitIntervalCommitLog, o.CommitCommitLogThoroughInterval = time.Microsecond, 1<<31*time.Millisecond
			o.OsPageCacheBusyTimeOutMills = 1500 * time.Microsecond
		}, []string{
			"flushIntervalCommitLog is 0s", "flushCommitLogThoroughInterval is -1s", "commitIntervalCommitLog is 1µs", "commitCommitLogThoroughInterval is 596h31m23.648s",
			"osPageCacheBusyTimeOutMills is 1.5ms, want whole milliseconds from 1 to 2147483647",
		}},
		{"counts", func(o *Options) {
			o.TransientStorePoolSize, o.SharedByteBufferNum, o.FlushLeastPagesWhenWarmMapedFile, o.MaxLmqConsumeQueueNum = 0, 0, 0, -1
		}, []string{"transientStorePoolSize is 0", "sharedByteBufferNum is 0", "flushLeastPagesWhenWarmMapedFile is 0", "maxLmqConsumeQueueNum is -1"}},
		{"ratio that 5.5.0 would clamp", func(o *Options) { o.DiskSpaceCleanForciblyRatio = 90 }, []string{"diskSpaceCleanForciblyRatio is 90, want 30 to 85"}},
		{"additions", func(o *Options) { o.PreallocateAheadBytes, o.StagingBufferBytes = -1, -1 }, []string{"preallocateAheadBytes is -1", "stagingBufferBytes is -1"}},
		{"duplication", func(o *Options) { o.DuplicationEnable = true }, []string{"duplicationEnable is true, which is not supported"}},
		{"unknown enum value", func(o *Options) { o.FlushDiskType, o.BrokerRole = "SYNC", "MASTER" }, []string{`flushDiskType is "SYNC"`, `brokerRole is "MASTER", want ASYNC_MASTER or SLAVE`}},
		{"pool without mapping", func(o *Options) { o.TransientStorePoolEnable, o.WriteWithoutMmap = true, true }, []string{"transientStorePoolEnable and writeWithoutMmap are both true"}},
		{"mapping of what is not mapped", func(o *Options) { o.WriteWithoutMmap, o.SyncFlushWriteMode = true, SyncWriteMapped }, []string{"writeWithoutMmap is true and syncFlushWriteMode mmap"}},
		{"checksums asked for and not written", func(o *Options) { o.ForceVerifyPropCRC = true }, []string{"forceVerifyPropCRC is true and enabledAppendPropCRC false"}},
		{"record longer than the staging memory", func(o *Options) {
			o.FlushDiskType, o.MaxMessageSize = SyncFlush, 64<<20
		}, []string{"stagingBufferBytes is 67108864, want room for a record: maxMessageSize and 65536 bytes, 67174400"}},
		{"empty path", func(o *Options) { o.StorePathCommitLog = []string{"a", " "} }, []string{`storePathCommitLog "a, ": an empty path among others`}},
		{"path twice", func(o *Options) { o.ReadOnlyCommitLogStorePaths = []string{"a", "./a/"} }, []string{"readOnlyCommitLogStorePaths names a twice"}},
		{"nothing to write to", func(o *Options) {
			o.StorePathCommitLog, o.ReadOnlyCommitLogStorePaths = []string{"a", "b"}, []string{"b", "c", "a/"}
		}, []string{`storePathCommitLog "a,b": readOnlyCommitLogStorePaths has all of it`}},
		{"sides without a combined store", func(o *Options) { o.CombineCQLoadingCQTypes = "default;foo" }, []string{
			`combineCQLoadingCQTypes is "default;foo", want default, defaultRocksDB or both`,
		}},
		{"combined store of nothing", func(o *Options) { o.RocksdbCQDoubleWriteEnable, o.CombineCQLoadingCQTypes = true, "a;b" }, []string{
			`combineCQLoadingCQTypes is "a;b", want default, defaultRocksDB or both`,
		}},
		{"combined store without the side that is asked for", func(o *Options) {
			o.RocksdbCQDoubleWriteEnable, o.CombineCQLoadingCQTypes = true, "Default"
			o.CombineCQPreferCQType, o.CombineAssignOffsetCQType, o.CombineCQUseRocksdbForLmq = StoreTypeRocksDB, "rocks", true
		}, []string{
			"combineCQPreferCQType is defaultRocksDB, and combineCQLoadingCQTypes", `combineAssignOffsetCQType is "rocks", want default or defaultRocksDB`,
			"combineCQUseRocksdbForLmq is true, and combineCQLoadingCQTypes",
		}},
		{"delay without unit", func(o *Options) { o.MessageDelayLevel = "1s 20" }, []string{`level 2 is "20"`}},
		{"delay without number", func(o *Options) { o.MessageDelayLevel = "m" }, []string{`level 1 is "m"`}},
		{"negative delay", func(o *Options) { o.MessageDelayLevel = "-1s" }, []string{`level 1 is "-1s"`}},
		{"delay of more than 292 years", func(o *Options) { o.MessageDelayLevel = "106752d" }, []string{`level 1 is "106752d"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := DefaultOptions()
			tt.change(&o)
			err := o.Validate()
			require.Error(t, err)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestValidateAccepts(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Options)
	}{
		{"smallest values", func(o *Options) {
			o.MappedFileSizeCommitLog, o.MaxMessageSize, o.TopicQueueLockNum = 256, 10, 1
			o.FlushCommitLogLeastPages, o.CommitCommitLogLeastPages, o.MaxLmqConsumeQueueNum, o.PreallocateAheadBytes = 0, 0, 0, 0
			o.SyncFlushTimeout, o.FlushIntervalCommitLog = time.Millisecond, time.Millisecond
		}},
		{"combined store", func(o *Options) {
			o.RocksdbCQDoubleWriteEnable, o.CombineCQPreferCQType, o.CombineAssignOffsetCQType = true, "DefaultRocksDB", StoreTypeRocksDB
			o.CombineCQUseRocksdbForLmq = true
		}},
		{"combined store that is not asked for", func(o *Options) { o.CombineCQLoadingCQTypes, o.CombineCQPreferCQType = "", "" }},
		{"RocksDB alone", func(o *Options) {
			o.StoreType, o.RocksdbCQDoubleWriteEnable, o.CombineCQLoadingCQTypes = StoreTypeRocksDB, true, ""
		}},
		{"slave with a pool", func(o *Options) { o.BrokerRole, o.TransientStorePoolEnable = Slave, true }},
		{"both locks", func(o *Options) { o.UseABSLock = true }},
		{"one path of two read-only", func(o *Options) {
			o.StorePathCommitLog, o.ReadOnlyCommitLogStorePaths = []string{"a", "b"}, []string{"a"}
		}},
		{"staging memory that nobody uses", func(o *Options) { o.StagingBufferBytes = 1 }},
		{"staging memory for one record", func(o *Options) {
			o.FlushDiskType, o.StagingBufferBytes = SyncFlush, o.MaxMessageSize+65536
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := DefaultOptions()
			tt.change(&o)
			require.NoError(t, o.Validate())
		})
	}
}

// Write buffering together with synchronous flush is refused when the options are read, not by a timeout of every put.
func TestFRA08PoolWithSyncFlushIsRefused(t *testing.T) {
	o := DefaultOptions()
	o.TransientStorePoolEnable, o.FlushDiskType = true, SyncFlush
	require.ErrorContains(t, o.Validate(), "transientStorePoolEnable is true and flushDiskType SYNC_FLUSH")
}

// An acknowledgement never claims a replica that nobody has.
func TestW44SyncMasterIsRefused(t *testing.T) {
	o := DefaultOptions()
	o.BrokerRole = SyncMaster
	require.ErrorContains(t, o.Validate(), "brokerRole is SYNC_MASTER, which this version does not support")
}

func TestOptionsNameTheSides(t *testing.T) {
	tests := []struct {
		name        string
		change      func(*Options)
		file, rocks bool
	}{
		{"files", func(*Options) {}, true, false},
		{"RocksDB", func(o *Options) { o.StoreType, o.RocksdbCQDoubleWriteEnable = StoreTypeRocksDB, true }, false, true},
		{"both", func(o *Options) { o.RocksdbCQDoubleWriteEnable = true }, true, true},
		{"one of them, in another case, among others", func(o *Options) {
			o.RocksdbCQDoubleWriteEnable, o.CombineCQLoadingCQTypes = true, "x; DEFAULTROCKSDB ;"
		}, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := DefaultOptions()
			tt.change(&o)
			file, rocks := o.sides()
			require.Equal(t, tt.file, file)
			require.Equal(t, tt.rocks, rocks)
		})
	}
}
