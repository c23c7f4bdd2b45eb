package message

// Names of properties the store gives a meaning to.
//
// Source: MessageConst, 5.5.0.
const (
	PropertyKeys             = "KEYS" // separated by blanks
	PropertyTags             = "TAGS"
	PropertyUniqKey          = "UNIQ_KEY"
	PropertyDelay            = "DELAY"                    // delay level, i32 as text
	PropertyWait             = "WAIT"                     // "false": the producer does not wait for flush or replica
	PropertyInnerNum         = "INNER_NUM"                // messages in an inner batch, i16 as text
	PropertyInnerBase        = "INNER_BASE"               // first queue offset of an inner batch, i64 as text
	PropertyMultiDispatch    = "INNER_MULTI_DISPATCH"     // queue names separated by commas
	PropertyMultiQueueOffset = "INNER_MULTI_QUEUE_OFFSET" // i64 as text, separated by commas
	PropertyCRC              = "__CRC32#"                 // see PutPropertyCRC
	PropertyDupInfo          = "DUP_INFO"
	PropertyCluster          = "CLUSTER"
	PropertyRealTopic        = "REAL_TOPIC"
	PropertyRealQueueID      = "REAL_QID"
	// TransientPrefix marks properties of the client that are not meant to be stored.
	TransientPrefix = "__RMQ.TRANSIENT."
)

// Topics and prefixes of topics that are handled apart.
//
// Source: TopicValidator, MixAll, 5.5.0.
const (
	TopicSchedule    = "SCHEDULE_TOPIC_XXXX"
	TopicTransHalf   = "RMQ_SYS_TRANS_HALF_TOPIC"
	TopicTransOpHalf = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
	RetryPrefix      = "%RETRY%"
	DLQPrefix        = "%DLQ%"
	LMQPrefix        = "%LMQ%"
	SystemPrefix     = "rmq_sys_"
)
