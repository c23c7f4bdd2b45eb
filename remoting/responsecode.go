package remoting

import "strconv"

// The codes of responses.
//
// Source: ResponseCode and RemotingSysResponseCode, 5.5.0.
const (
	Success                       int32 = 0
	SystemError                   int32 = 1
	SystemBusy                    int32 = 2
	RequestCodeNotSupported       int32 = 3
	TransactionFailed             int32 = 4
	FlushDiskTimeout              int32 = 10
	SlaveNotAvailable             int32 = 11
	FlushSlaveTimeout             int32 = 12
	MessageIllegal                int32 = 13
	ServiceNotAvailable           int32 = 14
	VersionNotSupported           int32 = 15
	NoPermission                  int32 = 16
	TopicNotExist                 int32 = 17
	TopicExistAlready             int32 = 18
	PullNotFound                  int32 = 19
	PullRetryImmediately          int32 = 20
	PullOffsetMoved               int32 = 21
	QueryNotFound                 int32 = 22
	SubscriptionParseFailed       int32 = 23
	SubscriptionNotExist          int32 = 24
	SubscriptionNotLatest         int32 = 25
	SubscriptionGroupNotExist     int32 = 26
	FilterDataNotExist            int32 = 27
	FilterDataNotLatest           int32 = 28
	InvalidParameter              int32 = 29
	NoBuyerID                     int32 = 204
	NotInCurrentUnit              int32 = 205
	ConsumerNotOnline             int32 = 206
	ConsumeMsgTimeout             int32 = 207
	NoMessage                     int32 = 208
	PollingFull                   int32 = 209
	PollingTimeout                int32 = 210
	BrokerNotExist                int32 = 211
	BrokerDispatchNotComplete     int32 = 212
	BroadcastConsumption          int32 = 213
	FlowControl                   int32 = 215
	NotLeaderForQueue             int32 = 501
	IllegalOperation              int32 = 604
	GoAway                        int32 = 1500
	LMQQuotaExceeded              int32 = 2017
	LiteSubscriptionQuotaExceeded int32 = 2018
)

// The codes of answers to this module's own requests.
const (
	MigrationRefused int32 = 770_101 // the step was not begun; the remark has the reasons
	MigrationDiffers int32 = 770_102 // the sides were compared and differ
)

var responseCodeNames = map[int32]string{
	MigrationRefused:              "TANDEMMQ_MIGRATION_REFUSED",
	MigrationDiffers:              "TANDEMMQ_MIGRATION_DIFFERS",
	Success:                       "SUCCESS",
	SystemError:                   "SYSTEM_ERROR",
	SystemBusy:                    "SYSTEM_BUSY",
	RequestCodeNotSupported:       "REQUEST_CODE_NOT_SUPPORTED",
	TransactionFailed:             "TRANSACTION_FAILED",
	FlushDiskTimeout:              "FLUSH_DISK_TIMEOUT",
	SlaveNotAvailable:             "SLAVE_NOT_AVAILABLE",
	FlushSlaveTimeout:             "FLUSH_SLAVE_TIMEOUT",
	MessageIllegal:                "MESSAGE_ILLEGAL",
	ServiceNotAvailable:           "SERVICE_NOT_AVAILABLE",
	VersionNotSupported:           "VERSION_NOT_SUPPORTED",
	NoPermission:                  "NO_PERMISSION",
	TopicNotExist:                 "TOPIC_NOT_EXIST",
	TopicExistAlready:             "TOPIC_EXIST_ALREADY",
	PullNotFound:                  "PULL_NOT_FOUND",
	PullRetryImmediately:          "PULL_RETRY_IMMEDIATELY",
	PullOffsetMoved:               "PULL_OFFSET_MOVED",
	QueryNotFound:                 "QUERY_NOT_FOUND",
	SubscriptionParseFailed:       "SUBSCRIPTION_PARSE_FAILED",
	SubscriptionNotExist:          "SUBSCRIPTION_NOT_EXIST",
	SubscriptionNotLatest:         "SUBSCRIPTION_NOT_LATEST",
	SubscriptionGroupNotExist:     "SUBSCRIPTION_GROUP_NOT_EXIST",
	FilterDataNotExist:            "FILTER_DATA_NOT_EXIST",
	FilterDataNotLatest:           "FILTER_DATA_NOT_LATEST",
	InvalidParameter:              "INVALID_PARAMETER",
	NoBuyerID:                     "NO_BUYER_ID",
	NotInCurrentUnit:              "NOT_IN_CURRENT_UNIT",
	ConsumerNotOnline:             "CONSUMER_NOT_ONLINE",
	ConsumeMsgTimeout:             "CONSUME_MSG_TIMEOUT",
	NoMessage:                     "NO_MESSAGE",
	PollingFull:                   "POLLING_FULL",
	PollingTimeout:                "POLLING_TIMEOUT",
	BrokerNotExist:                "BROKER_NOT_EXIST",
	BrokerDispatchNotComplete:     "BROKER_DISPATCH_NOT_COMPLETE",
	BroadcastConsumption:          "BROADCAST_CONSUMPTION",
	FlowControl:                   "FLOW_CONTROL",
	NotLeaderForQueue:             "NOT_LEADER_FOR_QUEUE",
	IllegalOperation:              "ILLEGAL_OPERATION",
	GoAway:                        "GO_AWAY",
	LMQQuotaExceeded:              "LMQ_QUOTA_EXCEEDED",
	LiteSubscriptionQuotaExceeded: "LITE_SUBSCRIPTION_QUOTA_EXCEEDED",
}

// ResponseCodeName gives RocketMQ's name of a response code, and the number of one that is not in the list.
func ResponseCodeName(code int32) string {
	if name, ok := responseCodeNames[code]; ok {
		return name
	}
	return strconv.Itoa(int(code))
}
