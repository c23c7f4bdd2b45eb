package acl

import (
	"strings"

	"github.com/tandemq/tandemmq/broker/clients"
	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/remoting"
)

// need is a right that a request takes.
type need struct {
	group bool // a group, not a topic
	name  string
	of    Permission // any of them is enough
}

// needs is all that a request takes.
type needs struct {
	admin bool
	list  []need
}

func (n *needs) topic(name string, of Permission) { n.list = append(n.list, need{name: name, of: of}) }

func (n *needs) group(name string) { n.list = append(n.list, need{group: true, name: name, of: Sub}) }

// signed are codes that every account may use: they read what tools show, or tell of the client alone.
var signed = map[int32]bool{
	remoting.CheckClientConfig: true, remoting.QueryAssignment: true,

	remoting.GetAllTopicConfig: true, remoting.GetTopicConfig: true, remoting.GetAllSubscriptionGroupConfig: true, remoting.GetSubscriptionGroupConfig: true,
	remoting.GetBrokerConfig: true, remoting.GetBrokerRuntimeInfo: true, remoting.GetAllConsumerOffset: true, remoting.GetAllDelayOffset: true,
	remoting.GetTimerCheckPoint: true, remoting.GetTimerMetrics: true, remoting.GetTopicStatsInfo: true, remoting.GetConsumeStats: true,
	remoting.GetConsumerConnectionList: true, remoting.GetProducerConnectionList: true, remoting.GetAllProducerInfo: true, remoting.GetConsumerRunningInfo: true,
	remoting.InvokeBrokerToGetConsumerStatus: true, remoting.QueryTopicConsumeByWho: true, remoting.QueryConsumeTimeSpan: true, remoting.GetSystemTopicListFromBroker: true,
	remoting.QueryCorrectionOffset: true, remoting.ViewBrokerStatsData: true, remoting.GetBrokerConsumeStats: true, remoting.QueryTopicsByConsumer: true,
	remoting.QuerySubscriptionByConsumer: true, remoting.CheckRocksDBCQWriteProgress: true, remoting.GetAllMessageRequestMode: true, remoting.GetBrokerMemberGroup: true,
	remoting.GetBrokerHAStatus: true, remoting.MigrateOnlineStatus: true,
}

// needsOf says what a request takes. The error is the answer to one whose body cannot be read.
//
// The codes that are not here take an admin, those of tools that change something above all.
func needsOf(req *remoting.Command, at TopicAt) (n needs, err error) {
	get := req.Ext.Get
	switch req.Code {
	case remoting.SendMessage:
		n.topic(get("topic"), Pub)
	case remoting.SendMessageV2, remoting.SendBatchMessage:
		n.topic(get("b"), Pub)
	case remoting.SendReplyMessage:
		n.reply(get("topic"))
	case remoting.SendReplyMessageV2:
		n.reply(get("b"))
	case remoting.RecallMessage:
		n.topic(get("topic"), Pub)
	case remoting.EndTransaction:
		err = n.record(req, "commitLogOffset", Pub, at)
	case remoting.ConsumerSendMsgBack:
		n.group(get("group"))
		err = n.record(req, "offset", Sub, at)
	case remoting.ViewMessageByID:
		err = n.record(req, "offset", Sub, at)
	case remoting.PullMessage, remoting.LitePullMessage, remoting.QueryConsumerOffset, remoting.UpdateConsumerOffset:
		n.topic(get("topic"), Sub)
		n.group(get("consumerGroup"))
	case remoting.QueryMessage, remoting.QueryConsumeQueue:
		n.topic(get("topic"), Sub)
	case remoting.GetMaxOffset, remoting.GetMinOffset, remoting.SearchOffsetByTimestamp, remoting.GetEarliestMsgStoreTime:
		n.topic(get("topic"), Pub|Sub)
	case remoting.GetConsumerListByGroup:
		n.group(get("consumerGroup"))
	case remoting.UnregisterClient:
		if group := get("consumerGroup"); group != "" {
			n.group(group)
		}
	case remoting.LockBatchMQ, remoting.UnlockBatchMQ:
		var body struct {
			Group string `json:"consumerGroup"`
		}
		err = remoting.UnmarshalBody(req.Body, &body)
		n.group(body.Group)
	case remoting.Heartbeat:
		err = n.heartbeat(req.Body)
	default:
		n.admin = !signed[req.Code]
	}
	return n, err
}

// heartbeat: a group's member needs the right to it and to all that it subscribes to; a producer needs none, as its sends are looked at.
func (n *needs) heartbeat(body []byte) error {
	h, err := clients.ParseHeartbeat(body)
	if err != nil {
		return err
	}
	for i := range h.Consumers {
		n.group(h.Consumers[i].Group)
		for j := range h.Consumers[i].Subscriptions {
			n.topic(h.Consumers[i].Subscriptions[j].Topic, Sub)
		}
	}
	return nil
}

// reply: a reply goes to the client that has asked, by a topic of the cluster's that consumers need no right to.
func (n *needs) reply(topic string) {
	if !strings.HasSuffix(topic, meta.ReplyTopic("")) {
		n.topic(topic, Pub)
	}
}

// record: a request that names a record by its physical offset needs the right to the record's topic, whatever the request says it is. Where there is no record there is
// nothing to protect.
func (n *needs) record(req *remoting.Command, field string, of Permission, at TopicAt) error {
	h := req.Fields()
	phyOffset := h.Int64(field)
	if err := h.Err(); err != nil {
		return err
	}
	if topic, ok := at(phyOffset); ok {
		n.topic(topic, of)
	}
	return nil
}
