package broker

import (
	"slices"

	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// handlers says who serves which request code. Codes that are not there are answered with 3.
func (b *Broker) handlers() remoting.Mux {
	m := remoting.Mux{
		remoting.PullMessage:     b.pull,
		remoting.LitePullMessage: b.pull,

		remoting.SendMessage:      b.send,
		remoting.SendMessageV2:    b.send,
		remoting.SendBatchMessage: b.send,

		remoting.SendReplyMessage:       b.sendReply,
		remoting.SendReplyMessageV2:     b.sendReply,
		remoting.ConsumerSendMsgBack:    b.sendBack,
		remoting.EndTransaction:         b.endTransaction,
		remoting.ResumeCheckHalfMessage: b.resumeCheck,

		remoting.Heartbeat:              b.heartbeat,
		remoting.UnregisterClient:       b.unregisterClient,
		remoting.CheckClientConfig:      b.checkClientConfig,
		remoting.GetConsumerListByGroup: b.consumerIDs,
		remoting.LockBatchMQ:            b.lockQueues,
		remoting.UnlockBatchMQ:          b.unlockQueues,
		remoting.QueryConsumerOffset:    b.queryOffset,
		remoting.UpdateConsumerOffset:   b.updateOffset,

		remoting.ViewMessageByID:        b.viewMessage,
		remoting.QueryMessage:           b.queryMessage,
		remoting.GetConsumerRunningInfo: b.runningInfo,
		remoting.ConsumeMessageDirectly: b.consumeDirectly,

		remoting.GetMaxOffset:                    ofQueue("offset", b.store.MaxOffset), // of the next message; 0 of a queue that is not there
		remoting.GetMinOffset:                    ofQueue("offset", b.minOffset),
		remoting.SearchOffsetByTimestamp:         b.searchOffsetByTimestamp,
		remoting.GetEarliestMsgStoreTime:         ofQueue("timestamp", b.store.EarliestTime), // ms; -1 where nothing is stored
		remoting.InvokeBrokerToGetConsumerStatus: b.consumerStatus,
		remoting.CheckRocksDBCQWriteProgress:     b.checkRocksDB,
		remoting.MigrateOnline:                   b.migrateOnline,
		remoting.MigrateOnlineStatus:             b.migrationStatus,
	}
	for code, f := range map[int32]answer{
		remoting.UpdateAndCreateTopic:         b.updateTopic,
		remoting.UpdateAndCreateTopicList:     b.updateTopics,
		remoting.DeleteTopicInBroker:          b.deleteTopic,
		remoting.GetAllTopicConfig:            b.allTopics,
		remoting.GetTopicConfig:               b.topicConfig,
		remoting.GetTopicStatsInfo:            b.topicStats,
		remoting.GetSystemTopicListFromBroker: b.systemTopics,

		remoting.UpdateAndCreateSubscriptionGroup:     b.updateGroup,
		remoting.UpdateAndCreateSubscriptionGroupList: b.updateGroups,
		remoting.DeleteSubscriptionGroup:              b.deleteGroup,
		remoting.GetAllSubscriptionGroupConfig:        b.allGroups,
		remoting.GetSubscriptionGroupConfig:           b.groupConfig,
		remoting.UpdateAndGetGroupForbidden:           b.groupForbidden,
		remoting.QueryTopicConsumeByWho:               b.groupsOfTopic,
		remoting.QueryTopicsByConsumer:                b.topicsOfGroup,
		remoting.QuerySubscriptionByConsumer:          b.subscriptionOfGroup,

		remoting.GetConsumeStats:           b.groupProgress,
		remoting.GetBrokerConsumeStats:     b.allProgress,
		remoting.QueryConsumeTimeSpan:      b.timeSpans,
		remoting.QueryCorrectionOffset:     b.correctionOffsets,
		remoting.CloneGroupOffset:          b.cloneOffsets,
		remoting.GetAllConsumerOffset:      b.allOffsets,
		remoting.GetAllDelayOffset:         b.allDelayOffsets,
		remoting.InvokeBrokerToResetOffset: b.resetOffsets,

		remoting.GetConsumerConnectionList: b.consumerConnections,
		remoting.GetProducerConnectionList: b.producerConnections,
		remoting.GetAllProducerInfo:        b.allProducers,

		remoting.CleanExpiredConsumeQueue: b.cleanQueues,
		remoting.CleanUnusedTopic:         b.cleanTopics,
		remoting.DeleteExpiredCommitLog:   b.cleanLog,
		remoting.QueryConsumeQueue:        b.queryUnits,
		remoting.GetBrokerHAStatus:        b.haStatus,
		remoting.GetBrokerMemberGroup:     b.memberGroup,

		remoting.GetBrokerConfig:           b.getConfig,
		remoting.UpdateBrokerConfig:        b.updateConfig,
		remoting.ExportRocksDBConfigToJSON: b.exportConfig,
		remoting.SetMessageRequestMode:     b.setRequestMode,
		remoting.GetAllMessageRequestMode:  b.requestModes,
		remoting.RecallMessage:             b.recall,
		remoting.GetBrokerRuntimeInfo:      b.runtimeInfo,
		remoting.ViewBrokerStatsData:       b.viewStats,
	} {
		m[code] = f.serve
	}
	return m
}

// waitingPutWorkers is how many puts may wait for the disk at once under synchronous flush, beside those of sends.
const waitingPutWorkers = 128

// classes says which requests run where. Under synchronous flush what is put by handlers other than send waits for the disk, which the goroutine that reads a connection must not: they have
// workers then.
func (b *Broker) classes() []remoting.Class {
	classes := remoting.DefaultClasses()
	if b.o.Store.FlushDiskType != store.SyncFlush {
		return classes
	}
	i := slices.IndexFunc(classes, func(c remoting.Class) bool { return slices.Contains(c.Codes, remoting.SendMessageV2) })
	sends := []int32{remoting.SendMessage, remoting.SendMessageV2, remoting.SendBatchMessage}
	waiting := classes[i]
	waiting.Name, waiting.Workers = "waiting put", waitingPutWorkers
	waiting.Codes = slices.DeleteFunc(slices.Clone(waiting.Codes), func(code int32) bool { return slices.Contains(sends, code) })
	classes[i].Codes = sends
	return append(classes, waiting)
}
