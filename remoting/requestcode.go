package remoting

import "strconv"

// The codes of requests: those that a broker or a NameServer of 5.5.0 answers or sends, as far as clients and the admin tool use them.
//
// Source: RequestCode, 5.5.0.
const (
	SendMessage                          int32 = 10
	PullMessage                          int32 = 11
	QueryMessage                         int32 = 12
	QueryConsumerOffset                  int32 = 14
	UpdateConsumerOffset                 int32 = 15
	UpdateAndCreateTopic                 int32 = 17
	UpdateAndCreateTopicList             int32 = 18
	GetAllTopicConfig                    int32 = 21
	UpdateBrokerConfig                   int32 = 25
	GetBrokerConfig                      int32 = 26
	GetBrokerRuntimeInfo                 int32 = 28
	SearchOffsetByTimestamp              int32 = 29
	GetMaxOffset                         int32 = 30
	GetMinOffset                         int32 = 31
	GetEarliestMsgStoreTime              int32 = 32
	ViewMessageByID                      int32 = 33
	Heartbeat                            int32 = 34
	UnregisterClient                     int32 = 35
	ConsumerSendMsgBack                  int32 = 36
	EndTransaction                       int32 = 37
	GetConsumerListByGroup               int32 = 38
	CheckTransactionState                int32 = 39
	NotifyConsumerIDsChanged             int32 = 40
	LockBatchMQ                          int32 = 41
	UnlockBatchMQ                        int32 = 42
	GetAllConsumerOffset                 int32 = 43
	GetAllDelayOffset                    int32 = 45
	CheckClientConfig                    int32 = 46
	GetTimerCheckPoint                   int32 = 60
	GetTimerMetrics                      int32 = 61
	PutKVConfig                          int32 = 100
	GetKVConfig                          int32 = 101
	DeleteKVConfig                       int32 = 102
	RegisterBroker                       int32 = 103
	UnregisterBroker                     int32 = 104
	GetRouteInfoByTopic                  int32 = 105
	GetBrokerClusterInfo                 int32 = 106
	UpdateAndCreateSubscriptionGroup     int32 = 200
	GetAllSubscriptionGroupConfig        int32 = 201
	GetTopicStatsInfo                    int32 = 202
	GetConsumerConnectionList            int32 = 203
	GetProducerConnectionList            int32 = 204
	WipeWritePermOfBroker                int32 = 205
	GetAllTopicListFromNameServer        int32 = 206
	DeleteSubscriptionGroup              int32 = 207
	GetConsumeStats                      int32 = 208
	DeleteTopicInBroker                  int32 = 215
	DeleteTopicInNamesrv                 int32 = 216
	RegisterTopicInNamesrv               int32 = 217
	GetKVListByNamespace                 int32 = 219
	ResetConsumerClientOffset            int32 = 220
	GetConsumerStatusFromClient          int32 = 221
	InvokeBrokerToResetOffset            int32 = 222
	InvokeBrokerToGetConsumerStatus      int32 = 223
	GetTopicsByCluster                   int32 = 224
	UpdateAndCreateSubscriptionGroupList int32 = 225
	QueryTopicConsumeByWho               int32 = 300
	QueryConsumeTimeSpan                 int32 = 303
	GetSystemTopicListFromNS             int32 = 304
	GetSystemTopicListFromBroker         int32 = 305
	CleanExpiredConsumeQueue             int32 = 306
	GetConsumerRunningInfo               int32 = 307
	QueryCorrectionOffset                int32 = 308
	ConsumeMessageDirectly               int32 = 309
	SendMessageV2                        int32 = 310
	GetUnitTopicList                     int32 = 311
	GetHasUnitSubTopicList               int32 = 312
	GetHasUnitSubUnunitTopicList         int32 = 313
	CloneGroupOffset                     int32 = 314
	ViewBrokerStatsData                  int32 = 315
	CleanUnusedTopic                     int32 = 316
	GetBrokerConsumeStats                int32 = 317
	UpdateNamesrvConfig                  int32 = 318
	GetNamesrvConfig                     int32 = 319
	SendBatchMessage                     int32 = 320
	QueryConsumeQueue                    int32 = 321
	QueryDataVersion                     int32 = 322
	ResumeCheckHalfMessage               int32 = 323
	SendReplyMessage                     int32 = 324
	SendReplyMessageV2                   int32 = 325
	PushReplyMessageToClient             int32 = 326
	AddWritePermOfBroker                 int32 = 327
	GetAllProducerInfo                   int32 = 328
	DeleteExpiredCommitLog               int32 = 329
	QueryTopicsByConsumer                int32 = 343
	QuerySubscriptionByConsumer          int32 = 345
	GetTopicConfig                       int32 = 351
	GetSubscriptionGroupConfig           int32 = 352
	UpdateAndGetGroupForbidden           int32 = 353
	CheckRocksDBCQWriteProgress          int32 = 354
	ExportRocksDBConfigToJSON            int32 = 355
	LitePullMessage                      int32 = 361
	RecallMessage                        int32 = 370
	QueryAssignment                      int32 = 400
	SetMessageRequestMode                int32 = 401
	GetAllMessageRequestMode             int32 = 402
	GetBrokerMemberGroup                 int32 = 901
	BrokerHeartbeat                      int32 = 904
	GetBrokerHAStatus                    int32 = 907
	PopMessage                           int32 = 200050
	AckMessage                           int32 = 200051
	PeekMessage                          int32 = 200052
	ChangeMessageInvisibleTime           int32 = 200053
	Notification                         int32 = 200054
	PollingInfo                          int32 = 200055
	PopRollback                          int32 = 200056
	BatchAckMessage                      int32 = 200151
)

// The codes of this module's own requests, in a range that RocketMQ does not use.
const (
	MigrateOnlineStatus int32 = 770_001 // how the migration in a running broker stands
	MigrateOnline       int32 = 770_002 // a step of it
)

var requestCodeNames = map[int32]string{
	SendMessage:                          "SEND_MESSAGE",
	PullMessage:                          "PULL_MESSAGE",
	QueryMessage:                         "QUERY_MESSAGE",
	QueryConsumerOffset:                  "QUERY_CONSUMER_OFFSET",
	UpdateConsumerOffset:                 "UPDATE_CONSUMER_OFFSET",
	UpdateAndCreateTopic:                 "UPDATE_AND_CREATE_TOPIC",
	UpdateAndCreateTopicList:             "UPDATE_AND_CREATE_TOPIC_LIST",
	GetAllTopicConfig:                    "GET_ALL_TOPIC_CONFIG",
	UpdateBrokerConfig:                   "UPDATE_BROKER_CONFIG",
	GetBrokerConfig:                      "GET_BROKER_CONFIG",
	GetBrokerRuntimeInfo:                 "GET_BROKER_RUNTIME_INFO",
	SearchOffsetByTimestamp:              "SEARCH_OFFSET_BY_TIMESTAMP",
	GetMaxOffset:                         "GET_MAX_OFFSET",
	GetMinOffset:                         "GET_MIN_OFFSET",
	GetEarliestMsgStoreTime:              "GET_EARLIEST_MSG_STORETIME",
	ViewMessageByID:                      "VIEW_MESSAGE_BY_ID",
	Heartbeat:                            "HEART_BEAT",
	UnregisterClient:                     "UNREGISTER_CLIENT",
	ConsumerSendMsgBack:                  "CONSUMER_SEND_MSG_BACK",
	EndTransaction:                       "END_TRANSACTION",
	GetConsumerListByGroup:               "GET_CONSUMER_LIST_BY_GROUP",
	CheckTransactionState:                "CHECK_TRANSACTION_STATE",
	NotifyConsumerIDsChanged:             "NOTIFY_CONSUMER_IDS_CHANGED",
	LockBatchMQ:                          "LOCK_BATCH_MQ",
	UnlockBatchMQ:                        "UNLOCK_BATCH_MQ",
	GetAllConsumerOffset:                 "GET_ALL_CONSUMER_OFFSET",
	GetAllDelayOffset:                    "GET_ALL_DELAY_OFFSET",
	CheckClientConfig:                    "CHECK_CLIENT_CONFIG",
	GetTimerCheckPoint:                   "GET_TIMER_CHECK_POINT",
	GetTimerMetrics:                      "GET_TIMER_METRICS",
	PutKVConfig:                          "PUT_KV_CONFIG",
	GetKVConfig:                          "GET_KV_CONFIG",
	DeleteKVConfig:                       "DELETE_KV_CONFIG",
	RegisterBroker:                       "REGISTER_BROKER",
	UnregisterBroker:                     "UNREGISTER_BROKER",
	GetRouteInfoByTopic:                  "GET_ROUTEINFO_BY_TOPIC",
	GetBrokerClusterInfo:                 "GET_BROKER_CLUSTER_INFO",
	UpdateAndCreateSubscriptionGroup:     "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP",
	GetAllSubscriptionGroupConfig:        "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
	GetTopicStatsInfo:                    "GET_TOPIC_STATS_INFO",
	GetConsumerConnectionList:            "GET_CONSUMER_CONNECTION_LIST",
	GetProducerConnectionList:            "GET_PRODUCER_CONNECTION_LIST",
	WipeWritePermOfBroker:                "WIPE_WRITE_PERM_OF_BROKER",
	GetAllTopicListFromNameServer:        "GET_ALL_TOPIC_LIST_FROM_NAMESERVER",
	DeleteSubscriptionGroup:              "DELETE_SUBSCRIPTIONGROUP",
	GetConsumeStats:                      "GET_CONSUME_STATS",
	DeleteTopicInBroker:                  "DELETE_TOPIC_IN_BROKER",
	DeleteTopicInNamesrv:                 "DELETE_TOPIC_IN_NAMESRV",
	RegisterTopicInNamesrv:               "REGISTER_TOPIC_IN_NAMESRV",
	GetKVListByNamespace:                 "GET_KVLIST_BY_NAMESPACE",
	ResetConsumerClientOffset:            "RESET_CONSUMER_CLIENT_OFFSET",
	GetConsumerStatusFromClient:          "GET_CONSUMER_STATUS_FROM_CLIENT",
	InvokeBrokerToResetOffset:            "INVOKE_BROKER_TO_RESET_OFFSET",
	InvokeBrokerToGetConsumerStatus:      "INVOKE_BROKER_TO_GET_CONSUMER_STATUS",
	GetTopicsByCluster:                   "GET_TOPICS_BY_CLUSTER",
	UpdateAndCreateSubscriptionGroupList: "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST",
	QueryTopicConsumeByWho:               "QUERY_TOPIC_CONSUME_BY_WHO",
	QueryConsumeTimeSpan:                 "QUERY_CONSUME_TIME_SPAN",
	GetSystemTopicListFromNS:             "GET_SYSTEM_TOPIC_LIST_FROM_NS",
	GetSystemTopicListFromBroker:         "GET_SYSTEM_TOPIC_LIST_FROM_BROKER",
	CleanExpiredConsumeQueue:             "CLEAN_EXPIRED_CONSUMEQUEUE",
	GetConsumerRunningInfo:               "GET_CONSUMER_RUNNING_INFO",
	QueryCorrectionOffset:                "QUERY_CORRECTION_OFFSET",
	ConsumeMessageDirectly:               "CONSUME_MESSAGE_DIRECTLY",
	SendMessageV2:                        "SEND_MESSAGE_V2",
	GetUnitTopicList:                     "GET_UNIT_TOPIC_LIST",
	GetHasUnitSubTopicList:               "GET_HAS_UNIT_SUB_TOPIC_LIST",
	GetHasUnitSubUnunitTopicList:         "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST",
	CloneGroupOffset:                     "CLONE_GROUP_OFFSET",
	ViewBrokerStatsData:                  "VIEW_BROKER_STATS_DATA",
	CleanUnusedTopic:                     "CLEAN_UNUSED_TOPIC",
	GetBrokerConsumeStats:                "GET_BROKER_CONSUME_STATS",
	UpdateNamesrvConfig:                  "UPDATE_NAMESRV_CONFIG",
	GetNamesrvConfig:                     "GET_NAMESRV_CONFIG",
	SendBatchMessage:                     "SEND_BATCH_MESSAGE",
	QueryConsumeQueue:                    "QUERY_CONSUME_QUEUE",
	QueryDataVersion:                     "QUERY_DATA_VERSION",
	ResumeCheckHalfMessage:               "RESUME_CHECK_HALF_MESSAGE",
	SendReplyMessage:                     "SEND_REPLY_MESSAGE",
	SendReplyMessageV2:                   "SEND_REPLY_MESSAGE_V2",
	PushReplyMessageToClient:             "PUSH_REPLY_MESSAGE_TO_CLIENT",
	AddWritePermOfBroker:                 "ADD_WRITE_PERM_OF_BROKER",
	GetAllProducerInfo:                   "GET_ALL_PRODUCER_INFO",
	DeleteExpiredCommitLog:               "DELETE_EXPIRED_COMMITLOG",
	QueryTopicsByConsumer:                "QUERY_TOPICS_BY_CONSUMER",
	QuerySubscriptionByConsumer:          "QUERY_SUBSCRIPTION_BY_CONSUMER",
	GetTopicConfig:                       "GET_TOPIC_CONFIG",
	GetSubscriptionGroupConfig:           "GET_SUBSCRIPTIONGROUP_CONFIG",
	UpdateAndGetGroupForbidden:           "UPDATE_AND_GET_GROUP_FORBIDDEN",
	CheckRocksDBCQWriteProgress:          "CHECK_ROCKSDB_CQ_WRITE_PROGRESS",
	ExportRocksDBConfigToJSON:            "EXPORT_ROCKSDB_CONFIG_TO_JSON",
	LitePullMessage:                      "LITE_PULL_MESSAGE",
	RecallMessage:                        "RECALL_MESSAGE",
	QueryAssignment:                      "QUERY_ASSIGNMENT",
	SetMessageRequestMode:                "SET_MESSAGE_REQUEST_MODE",
	GetAllMessageRequestMode:             "GET_ALL_MESSAGE_REQUEST_MODE",
	GetBrokerMemberGroup:                 "GET_BROKER_MEMBER_GROUP",
	BrokerHeartbeat:                      "BROKER_HEARTBEAT",
	GetBrokerHAStatus:                    "GET_BROKER_HA_STATUS",
	PopMessage:                           "POP_MESSAGE",
	AckMessage:                           "ACK_MESSAGE",
	PeekMessage:                          "PEEK_MESSAGE",
	ChangeMessageInvisibleTime:           "CHANGE_MESSAGE_INVISIBLETIME",
	Notification:                         "NOTIFICATION",
	PollingInfo:                          "POLLING_INFO",
	PopRollback:                          "POP_ROLLBACK",
	BatchAckMessage:                      "BATCH_ACK_MESSAGE",
	MigrateOnlineStatus:                  "TANDEMMQ_MIGRATE_ONLINE_STATUS",
	MigrateOnline:                        "TANDEMMQ_MIGRATE_ONLINE",
}

// RequestCodeName gives RocketMQ's name of a request code, and the number of one that is not in the list.
func RequestCodeName(code int32) string {
	if name, ok := requestCodeNames[code]; ok {
		return name
	}
	return strconv.Itoa(int(code))
}
