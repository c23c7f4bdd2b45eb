package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The names are what RocketMQ's tools and logs say, and whether the message is in the log decides about a retry.
func TestPutStatus(t *testing.T) {
	tests := []struct {
		status PutStatus
		name   string
		stored bool
	}{
		{PutOK, "PUT_OK", true},
		{PutFlushDiskTimeout, "FLUSH_DISK_TIMEOUT", true},
		{PutFlushSlaveTimeout, "FLUSH_SLAVE_TIMEOUT", true},
		{PutSlaveNotAvailable, "SLAVE_NOT_AVAILABLE", true},
		{PutServiceNotAvailable, "SERVICE_NOT_AVAILABLE", false},
		{PutCreateMappedFileFailed, "CREATE_MAPPED_FILE_FAILED", false},
		{PutMessageIllegal, "MESSAGE_ILLEGAL", false},
		{PutPropertiesSizeExceeded, "PROPERTIES_SIZE_EXCEEDED", false},
		{PutOSPageCacheBusy, "OS_PAGE_CACHE_BUSY", false},
		{PutUnknownError, "UNKNOWN_ERROR", false},
		{PutInSyncReplicasNotEnough, "IN_SYNC_REPLICAS_NOT_ENOUGH", false},
		{PutToRemoteBrokerFail, "PUT_TO_REMOTE_BROKER_FAIL", false},
		{PutLMQConsumeQueueNumExceeded, "LMQ_CONSUME_QUEUE_NUM_EXCEEDED", false},
		{PutWheelTimerFlowControl, "WHEEL_TIMER_FLOW_CONTROL", false},
		{PutWheelTimerNotEnable, "WHEEL_TIMER_NOT_ENABLE", false},
		{PutWheelTimerMsgIllegal, "WHEEL_TIMER_MSG_ILLEGAL", false},
		{PutStatus(-1), "PutStatus(-1)", false},
		{PutStatus(99), "PutStatus(99)", false},
	}
	require.Len(t, putStatusNames, len(tests)-2, "statuses in the table")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.name, tt.status.String())
			require.Equal(t, tt.stored, tt.status.Stored())
		})
	}
	var unset PutStatus
	require.Equal(t, PutUnknownError, unset, "a status nobody set")
}

func TestPutErrorMatchesItsClass(t *testing.T) {
	cause := errors.New("topic is 300 bytes, want 1 to 255")
	err := fmt.Errorf("send: %w", &PutError{Status: PutMessageIllegal, Err: cause})
	require.EqualError(t, err, "send: put message: MESSAGE_ILLEGAL: topic is 300 bytes, want 1 to 255")
	require.ErrorIs(t, err, PutMessageIllegal)
	require.ErrorIs(t, err, cause)
	require.NotErrorIs(t, err, PutUnknownError)
	require.EqualError(t, &PutError{Status: PutFlushDiskTimeout}, "put message: FLUSH_DISK_TIMEOUT")

	require.Equal(t, PutMessageIllegal, PutStatusOf(err))
	require.Equal(t, PutOK, PutStatusOf(nil))
	require.Equal(t, PutUnknownError, PutStatusOf(cause))
	require.Equal(t, PutOSPageCacheBusy, PutStatusOf(fmt.Errorf("send: %w", PutOSPageCacheBusy)))
}

func TestAppendStatus(t *testing.T) {
	tests := []struct {
		status AppendStatus
		name   string
		put    PutStatus
	}{
		{AppendOK, "PUT_OK", PutOK},
		{AppendEndOfFile, "END_OF_FILE", PutUnknownError},
		{AppendMessageSizeExceeded, "MESSAGE_SIZE_EXCEEDED", PutMessageIllegal},
		{AppendPropertiesSizeExceeded, "PROPERTIES_SIZE_EXCEEDED", PutPropertiesSizeExceeded},
		{AppendUnknownError, "UNKNOWN_ERROR", PutUnknownError},
		{AppendRocksDBError, "ROCKSDB_ERROR", PutUnknownError},
		{AppendStatus(77), "AppendStatus(77)", PutUnknownError},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.name, tt.status.String())
			require.Equal(t, tt.put, tt.status.PutStatus())
		})
	}
}
