package meta

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/message"
)

// Prefixes of the topics of a group.
const (
	RetryPrefix = message.RetryPrefix // messages that a group shall get again
	DLQPrefix   = message.DLQPrefix   // messages that a group gave up
)

// Topics that brokers and clients use among themselves.
const (
	AutoCreateTopic    = "TBW102" // the template of topics that a send creates
	ScheduleTopic      = message.TopicSchedule
	TraceTopic         = "RMQ_SYS_TRACE_TOPIC"
	HalfTopic          = message.TopicTransHalf
	OpHalfTopic        = message.TopicTransOpHalf
	rocksHalfTopic     = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
	rocksOpHalfTopic   = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
	CheckMaxTimeTopic  = "TRANS_CHECK_MAX_TIME_TOPIC"
	SelfTestTopic      = "SELF_TEST_TOPIC"
	OffsetMovedTopic   = "OFFSET_MOVED_EVENT"
	BenchmarkTopic     = "BenchmarkTest"
	SystemTopicPrefix  = message.SystemPrefix
	systemGroupPrefix  = "CID_RMQ_SYS_"
	replyTopicSuffix   = "_REPLY_TOPIC"
	ToolsGroup         = "TOOLS_CONSUMER" // what mqadmin pulls with
	TransactionGroup   = "CID_RMQ_SYS_TRANS"
	maxTopicBytes      = 127
	maxGroupTopicBytes = 255 // of retry and dead letter topics
	maxGroupBytes      = 120
)

// systemGroups are made at the start.
//
// Source: SubscriptionGroupManager.init, 5.5.0.
var systemGroups = []string{
	ToolsGroup, "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
	"CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", TransactionGroup,
}

// IsSystemGroup tells whether operators cannot delete a group: those made at the start, and the broker's own.
func IsSystemGroup(name string) bool {
	return slices.Contains(systemGroups, name) || strings.HasPrefix(name, systemGroupPrefix)
}

// ErrName says that a topic or a group cannot have such a name.
var ErrName = errors.New("illegal name")

// CheckTopicName returns nil, or what is wrong with the name of a topic, wrapping ErrName.
//
// Source: TopicValidator.validateTopic, 5.5.0.
func CheckTopicName(name string) error {
	limit := maxTopicBytes
	if strings.HasPrefix(name, RetryPrefix) || strings.HasPrefix(name, DLQPrefix) {
		limit = maxGroupTopicBytes
	}
	return checkName("topic", name, limit)
}

// CheckGroupName does the same for a group of consumers.
//
// Source: Validators.checkGroup, 5.5.0.
func CheckGroupName(name string) error { return checkName("group", name, maxGroupBytes) }

func checkName(what, name string, limit int) error {
	if strings.TrimSpace(name) == "" {
		return fmt.Errorf("%w: the %s is blank", ErrName, what)
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; !nameCharacter(c) {
			return fmt.Errorf("%w: %s %q has %q at byte %d, want only letters, digits, %%, |, _ and -", ErrName, what, name, c, i)
		}
	}
	if len(name) > limit {
		return fmt.Errorf("%w: %s of %d bytes, want at most %d", ErrName, what, len(name), limit)
	}
	return nil
}

func nameCharacter(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '%' || c == '|' || c == '_' || c == '-'
}

// fixedSystemTopics cannot be made or deleted by an operator.
var fixedSystemTopics = map[string]bool{
	AutoCreateTopic: true, ScheduleTopic: true, TraceTopic: true, HalfTopic: true, OpHalfTopic: true, rocksHalfTopic: true, rocksOpHalfTopic: true,
	CheckMaxTimeTopic: true, SelfTestTopic: true, OffsetMovedTopic: true, BenchmarkTopic: true,
}

// sendForbidden are the topics no client may send to.
var sendForbidden = map[string]bool{
	ScheduleTopic: true, HalfTopic: true, OpHalfTopic: true, rocksHalfTopic: true, rocksOpHalfTopic: true,
	CheckMaxTimeTopic: true, SelfTestTopic: true, OffsetMovedTopic: true,
}

// SendForbidden tells whether clients may not send to a topic, because the broker alone writes it.
//
// Source: TopicValidator.isNotAllowedSendTopic, 5.5.0.
func SendForbidden(topic string) bool { return sendForbidden[topic] }

// RetryTopic returns the topic whose messages a group gets again.
func RetryTopic(group string) string { return RetryPrefix + group }

// DLQTopic returns the topic of the messages a group gave up.
func DLQTopic(group string) string { return DLQPrefix + group }

// ReplyTopic returns the topic of replies in a cluster.
func ReplyTopic(cluster string) string { return cluster + replyTopicSuffix }
