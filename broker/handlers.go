package broker

import "github.com/tandemq/tandemmq/remoting"

// handlers says who serves which request code. Codes that are not there are answered with 3.
func (b *Broker) handlers() remoting.Mux {
	return remoting.Mux{
		remoting.PullMessage:     b.pull,
		remoting.LitePullMessage: b.pull,

		remoting.SendMessage:      b.send,
		remoting.SendMessageV2:    b.send,
		remoting.SendBatchMessage: b.send,

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

		remoting.GetMaxOffset:            b.getMaxOffset,
		remoting.GetMinOffset:            b.getMinOffset,
		remoting.SearchOffsetByTimestamp: b.searchOffsetByTimestamp,
		remoting.GetEarliestMsgStoreTime: b.getEarliestStoreTime,
	}
}
