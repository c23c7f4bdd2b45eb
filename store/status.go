package store

import (
	"errors"
	"fmt"
)

// PutStatus is what became of a put, as RocketMQ's PutMessageStatus names it. It is an error as syscall.Errno is one, so that
// errors.Is(err, store.PutMessageIllegal) asks for a class; a *PutError is what a put answers. The zero value is
// PutUnknownError: a status that nobody set is no success.
//
//	status                          raised when                                              stored  a producer then
//	PUT_OK                          the message is in the log, and durable if it waits       yes     goes on
//	FLUSH_DISK_TIMEOUT              the disk did not confirm within syncFlushTimeout         yes     retries only if a duplicate does no harm; else looks the message up later
//	FLUSH_SLAVE_TIMEOUT             no replica confirmed in time (not raised yet)            yes     the same
//	SLAVE_NOT_AVAILABLE             no replica is connected (not raised yet)                 yes     the same
//	SERVICE_NOT_AVAILABLE           closed, a SLAVE, a failed log, or a running flag says so no      retries at another broker
//	CREATE_MAPPED_FILE_FAILED       no log file could be made; the error has the reason      no      retries later or at another broker
//	MESSAGE_ILLEGAL                 the message breaks a rule or a limit                     no      mends the message; a retry fails again
//	PROPERTIES_SIZE_EXCEEDED        its properties are longer than 32767 bytes               no      mends the message; a retry fails again
//	OS_PAGE_CACHE_BUSY              the log's end was held, or had no room, for too long     no      retries after a pause
//	UNKNOWN_ERROR                   a failed write or flush, or a fault nobody foresaw       unknown retries at another broker; the message may appear
//	IN_SYNC_REPLICAS_NOT_ENOUGH     too few replicas to begin with (not raised yet)          no      retries later
//	PUT_TO_REMOTE_BROKER_FAIL       the broker passed it on and failed (not raised here)     no      retries
//	LMQ_CONSUME_QUEUE_NUM_EXCEEDED  it would make a light queue beyond the quota             no      uses a queue that exists
//	WHEEL_TIMER_FLOW_CONTROL        too many timers for that time (not raised here)          no      retries with another time
//	WHEEL_TIMER_NOT_ENABLE          timers are off (not raised here)                         no      mends the message
//	WHEEL_TIMER_MSG_ILLEGAL         its timer properties are wrong (not raised here)         no      mends the message
//
// After FLUSH_DISK_TIMEOUT the message has its place in the log and becomes durable when the disk comes back, and consumers
// get it. A retry is a second message: same UNIQ_KEY, another offset.
//
// Source: PutMessageStatus, 5.5.0.
type PutStatus int

// The statuses.
const (
	PutUnknownError PutStatus = iota
	PutOK
	PutFlushDiskTimeout
	PutFlushSlaveTimeout
	PutSlaveNotAvailable
	PutServiceNotAvailable
	PutCreateMappedFileFailed
	PutMessageIllegal
	PutPropertiesSizeExceeded
	PutOSPageCacheBusy
	PutInSyncReplicasNotEnough
	PutToRemoteBrokerFail
	PutLMQConsumeQueueNumExceeded
	PutWheelTimerFlowControl
	PutWheelTimerNotEnable
	PutWheelTimerMsgIllegal
)

var putStatusNames = [...]string{
	PutUnknownError:               "UNKNOWN_ERROR",
	PutOK:                         "PUT_OK",
	PutFlushDiskTimeout:           "FLUSH_DISK_TIMEOUT",
	PutFlushSlaveTimeout:          "FLUSH_SLAVE_TIMEOUT",
	PutSlaveNotAvailable:          "SLAVE_NOT_AVAILABLE",
	PutServiceNotAvailable:        "SERVICE_NOT_AVAILABLE",
	PutCreateMappedFileFailed:     "CREATE_MAPPED_FILE_FAILED",
	PutMessageIllegal:             "MESSAGE_ILLEGAL",
	PutPropertiesSizeExceeded:     "PROPERTIES_SIZE_EXCEEDED",
	PutOSPageCacheBusy:            "OS_PAGE_CACHE_BUSY",
	PutInSyncReplicasNotEnough:    "IN_SYNC_REPLICAS_NOT_ENOUGH",
	PutToRemoteBrokerFail:         "PUT_TO_REMOTE_BROKER_FAIL",
	PutLMQConsumeQueueNumExceeded: "LMQ_CONSUME_QUEUE_NUM_EXCEEDED",
	PutWheelTimerFlowControl:      "WHEEL_TIMER_FLOW_CONTROL",
	PutWheelTimerNotEnable:        "WHEEL_TIMER_NOT_ENABLE",
	PutWheelTimerMsgIllegal:       "WHEEL_TIMER_MSG_ILLEGAL",
}

// String returns RocketMQ's name.
func (s PutStatus) String() string {
	if s < 0 || int(s) >= len(putStatusNames) {
		return fmt.Sprintf("PutStatus(%d)", int(s))
	}
	return putStatusNames[s]
}

// Error returns RocketMQ's name.
func (s PutStatus) Error() string { return s.String() }

// Stored tells whether the message is in the log for certain: consumers will get it, and a retry makes a duplicate.
func (s PutStatus) Stored() bool {
	switch s {
	case PutOK, PutFlushDiskTimeout, PutFlushSlaveTimeout, PutSlaveNotAvailable:
		return true
	}
	return false
}

// PutError says why a put did not end in PUT_OK.
type PutError struct {
	Status PutStatus
	Err    error // the reason, with its values and bounds; may be nil
}

func (e *PutError) Error() string {
	if e.Err == nil {
		return "put message: " + e.Status.String()
	}
	return "put message: " + e.Status.String() + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *PutError) Unwrap() error { return e.Err }

// Is matches the PutStatus that e has.
func (e *PutError) Is(target error) bool {
	s, ok := target.(PutStatus)
	return ok && s == e.Status
}

// PutStatusOf returns the status in the chain of err: PutOK for nil, PutUnknownError where there is none.
func PutStatusOf(err error) PutStatus {
	if err == nil {
		return PutOK
	}
	var e *PutError
	if errors.As(err, &e) {
		return e.Status
	}
	s := PutUnknownError
	errors.As(err, &s) // leaves s alone when there is none
	return s
}

// AppendStatus is what became of the append of a record to a log file, as RocketMQ's AppendMessageStatus names it. The zero
// value is AppendUnknownError.
//
//	status                    raised when                                                  the put answers
//	PUT_OK                    the record is in the file                                    by the flush
//	END_OF_FILE               the rest of the file is too small; a filler ends it          nothing yet: the record goes to the next file
//	MESSAGE_SIZE_EXCEEDED     the record is longer than a limit                            MESSAGE_ILLEGAL
//	PROPERTIES_SIZE_EXCEEDED  its properties are, once the store has added its own         PROPERTIES_SIZE_EXCEEDED
//	UNKNOWN_ERROR             the write failed                                             UNKNOWN_ERROR
//	ROCKSDB_ERROR             a light queue's next offset could not be read from RocksDB   UNKNOWN_ERROR
//
// 5.5.0 answers PROPERTIES_SIZE_EXCEEDED of the append with MESSAGE_ILLEGAL and of the encoder with PROPERTIES_SIZE_EXCEEDED;
// here it is one status for one cause (W47).
//
// Source: AppendMessageStatus, CommitLog.asyncPutMessage, 5.5.0.
type AppendStatus int

// The statuses.
const (
	AppendUnknownError AppendStatus = iota
	AppendOK
	AppendEndOfFile
	AppendMessageSizeExceeded
	AppendPropertiesSizeExceeded
	AppendRocksDBError
)

// String returns RocketMQ's name.
func (s AppendStatus) String() string {
	switch s {
	case AppendUnknownError:
		return "UNKNOWN_ERROR"
	case AppendOK:
		return "PUT_OK"
	case AppendEndOfFile:
		return "END_OF_FILE"
	case AppendMessageSizeExceeded:
		return "MESSAGE_SIZE_EXCEEDED"
	case AppendPropertiesSizeExceeded:
		return "PROPERTIES_SIZE_EXCEEDED"
	case AppendRocksDBError:
		return "ROCKSDB_ERROR"
	}
	return fmt.Sprintf("AppendStatus(%d)", int(s))
}

// PutStatus returns what a put answers after s. After AppendEndOfFile it has gone on to the next file; standing alone that is
// an error.
func (s AppendStatus) PutStatus() PutStatus {
	switch s {
	case AppendOK:
		return PutOK
	case AppendMessageSizeExceeded:
		return PutMessageIllegal
	case AppendPropertiesSizeExceeded:
		return PutPropertiesSizeExceeded
	}
	return PutUnknownError
}
