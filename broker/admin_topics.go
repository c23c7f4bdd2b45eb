package broker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/remoting"
)

// maxTopicQueues bounds the queues that a request gives a topic.
const maxTopicQueues = 1 << 16

// checkTopic tells why an operator cannot make or change a topic so; text are the changes of its attributes.
func (b *Broker) checkTopic(t *meta.Topic, text string) error {
	if err := b.checkTopicName(t.Name); err != nil {
		return err
	}
	if t.ReadQueues < 0 || t.WriteQueues < 0 || t.ReadQueues > maxTopicQueues || t.WriteQueues > maxTopicQueues {
		return remoting.Errorf(remoting.InvalidParameter, "topic %s: %d queues to read and %d to write, want 0 to %d", t.Name, t.ReadQueues, t.WriteQueues, maxTopicQueues)
	}
	const perms = meta.PermInherit | meta.PermWrite | meta.PermRead | meta.PermPriority
	if t.Perm&^perms != 0 {
		return remoting.Errorf(remoting.InvalidParameter, "topic %s: perm is %d, want the sum of 4 (read), 2 (write) and others up to %d", t.Name, t.Perm, perms)
	}
	old, known := b.topics.Get(t.Name)
	if !known && strings.HasPrefix(strings.TrimSpace(text), "-") {
		return remoting.Errorf(remoting.SystemError, "topic %s is new: it has no attributes to take away", t.Name)
	}
	attributes, err := meta.ApplyAttributes(old.Attributes, text)
	if err != nil {
		return remoting.Errorf(remoting.SystemError, "topic %s: %v", t.Name, err)
	}
	if attributes[meta.AttributeMessageType] == "MIXED" && old.Attributes[meta.AttributeMessageType] != "MIXED" {
		return remoting.Errorf(remoting.InvalidParameter, "topic %s: message.type MIXED is not enabled", t.Name)
	}
	for name, refused := range map[string]string{meta.AttributeQueueType: meta.QueueTypeBatch, meta.AttributeCleanup: meta.CleanupCompaction} {
		if attributes[name] == refused && old.Attributes[name] != refused {
			return remoting.Errorf(remoting.SystemError, "topic %s: %s=%s is not supported", t.Name, name, refused)
		}
	}
	if was := old.Attributes[meta.AttributeQueueType]; was != "" && attributes[meta.AttributeQueueType] != was {
		return remoting.Errorf(remoting.SystemError, "topic %s: %s is %s and cannot be changed", t.Name, meta.AttributeQueueType, was)
	}
	t.Attributes = attributes
	return nil
}

// checkTopicName tells why an operator cannot make, change or delete a topic of that name.
func (b *Broker) checkTopicName(name string) error {
	if err := meta.CheckTopicName(name); err != nil {
		return remoting.Errorf(remoting.InvalidParameter, "%v", err)
	}
	if meta.IsSystemTopic(name, b.o.BrokerClusterName, b.o.BrokerName) {
		return remoting.Errorf(remoting.InvalidParameter, "topic %s is the system's own", name)
	}
	return nil
}

// updateTopic serves UPDATE_AND_CREATE_TOPIC: the topic is durable when the answer goes, and registered.
//
// Source: AdminBrokerProcessor.updateAndCreateTopic, 5.5.0.
func (b *Broker) updateTopic(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	t := meta.Topic{
		Name: strings.Clone(h.String("topic")), ReadQueues: h.Int32("readQueueNums"), WriteQueues: h.Int32("writeQueueNums"), Perm: h.Int32("perm"),
		FilterType: strings.Clone(h.StringOr("topicFilterType", "SINGLE_TAG")), SysFlag: h.Int32Or("topicSysFlag", 0), Order: h.BoolOr("order", false),
	}
	text := strings.Clone(h.StringOr("attributes", ""))
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	if err := b.checkTopic(&t, text); err != nil {
		return remoting.Command{}, err
	}
	return success(b.topics.Put(t))
}

// updateTopics serves UPDATE_AND_CREATE_TOPIC_LIST: all of them, or none if one cannot be. Attributes have the sign of a change before their name, or none, which sets them.
func (b *Broker) updateTopics(req *remoting.Command, _ *remoting.Fields) (remoting.Command, error) {
	var body struct {
		Topics []meta.Topic `json:"topicConfigList"`
	}
	if err := remoting.UnmarshalBody(req.Body, &body); err != nil {
		return remoting.Command{}, err
	}
	if len(body.Topics) == 0 {
		return remoting.Command{}, remoting.Errorf(remoting.InvalidParameter, "the list of topics is empty")
	}
	for i := range body.Topics {
		if err := b.checkTopic(&body.Topics[i], attributesText(body.Topics[i].Attributes)); err != nil {
			return remoting.Command{}, err
		}
	}
	return success(b.topics.Put(body.Topics...))
}

// attributesText writes attributes of a body as those of a header.
func attributesText(attributes map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		switch {
		case strings.HasPrefix(name, "-"):
			parts = append(parts, name)
		default:
			parts = append(parts, "+"+strings.TrimPrefix(name, "+")+"="+attributes[name])
		}
	}
	return strings.Join(parts, ",")
}

// deleteTopicTime is how long what was put into a topic may take to be dispatched before it is deleted.
const deleteTopicTime = 30 * time.Second

// deleteTopic serves DELETE_TOPIC_IN_BROKER: the topic goes with its queues and with the offsets of all groups. What a group is to get again of it stays, but for the topics of pop. A topic that
// is not known, or of which something is left, is deleted as well.
//
// Source: AdminBrokerProcessor.deleteTopic, 5.5.0.
func (b *Broker) deleteTopic(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	name := h.String("topic")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	if strings.TrimSpace(name) == "" {
		return remoting.Command{}, remoting.Errorf(remoting.InvalidParameter, "the topic is blank")
	}
	if meta.IsSystemTopic(name, b.o.BrokerClusterName, b.o.BrokerName) {
		return remoting.Command{}, remoting.Errorf(remoting.InvalidParameter, "topic %s is the system's own", name)
	}
	names := []string{name}
	for _, group := range b.offsets.GroupsOf(name) {
		for _, of := range []string{meta.RetryTopic(group) + "_" + name, meta.RetryTopic(group) + "+" + name} {
			if _, ok := b.topics.Get(of); ok {
				names = append(names, of)
			}
		}
	}
	return success(b.deleteTopics(names...))
}

// deleteTopics removes topics with all that belongs to them.
func (b *Broker) deleteTopics(names ...string) error {
	if err := b.topics.Delete(names...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(b.ctx, deleteTopicTime)
	defer cancel()
	var faults []error
	for _, name := range names {
		b.offsets.RemoveTopic(name)
		b.counts.table.Remove(name)
		_, err := b.store.DeleteTopic(ctx, name)
		faults = append(faults, err)
	}
	return errors.Join(append(faults, b.offsets.Save())...)
}

// allTopics serves GET_ALL_TOPIC_CONFIG.
func (b *Broker) allTopics(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	all, v := b.topics.All()
	part := page(all, h, "topicSeq", "maxTopicNum", v)
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	resp, err := withBody(topicsTable{Version: v, Table: part})
	resp.Ext.SetInt("totalTopicNum", int64(len(all)))
	return resp, err
}

// systemTopics serves GET_SYSTEM_TOPIC_LIST_FROM_BROKER.
func (b *Broker) systemTopics(*remoting.Command, *remoting.Fields) (remoting.Command, error) {
	all, _ := b.topics.All()
	maps.DeleteFunc(all, func(name string, _ meta.Topic) bool {
		return !meta.IsSystemTopic(name, b.o.BrokerClusterName, b.o.BrokerName)
	})
	return withBody(topicList{Topics: slices.AppendSeq([]string{}, maps.Keys(all))}.sorted())
}

// topicList is the answer of all that lists topics.
type topicList struct {
	BrokerAddr string   `json:"brokerAddr,omitempty"`
	Topics     []string `json:"topicList"`
}

func (l topicList) sorted() topicList {
	slices.Sort(l.Topics)
	return l
}

// topicConfig serves GET_TOPIC_CONFIG.
func (b *Broker) topicConfig(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	name := h.String("topic")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	t, err := b.topic(name)
	if err != nil {
		return remoting.Command{}, err
	}
	return withBody(t)
}

// queueStats is how far a queue of a topic is.
type queueStats struct {
	LastUpdateMs int64 `json:"lastUpdateTimestamp"` // store time of the last message, 0 without one
	Max          int64 `json:"maxOffset"`
	Min          int64 `json:"minOffset"`
}

// topicStats serves GET_TOPIC_STATS_INFO.
//
// Source: AdminBrokerProcessor.getTopicStatsInfo, 5.5.0.
func (b *Broker) topicStats(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	name := h.String("topic")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	t, err := b.topic(name)
	if err != nil {
		return remoting.Command{}, err
	}
	body := struct {
		Offsets map[remoting.MessageQueue]queueStats `json:"offsetTable"`
		PutTPS  float64                              `json:"topicPutTps"`
	}{Offsets: make(map[remoting.MessageQueue]queueStats, t.Queues())}
	for id := range t.Queues() {
		q := queueStats{}
		if q.Min, err = b.store.MinOffset(name, id); err != nil {
			return remoting.Command{}, err
		}
		if q.Max, err = b.store.MaxOffset(name, id); err != nil {
			return remoting.Command{}, err
		}
		q.Min, q.Max = max(q.Min, 0), max(q.Max, 0)
		if q.Max > 0 {
			if q.LastUpdateMs, err = b.storeTime(name, id, q.Max-1); err != nil {
				return remoting.Command{}, err
			}
		}
		body.Offsets[b.queue(name, id)] = q
	}
	if w, ok := b.counts.table.Get(statTopicPut, name); ok {
		body.PutTPS = w.Minute.PerSec
	}
	return withBody(body)
}

// storeTime returns when a message was stored, in ms; 0 where the queue has none there.
func (b *Broker) storeTime(topic string, queueID int32, offset int64) (int64, error) {
	ms, err := b.store.StoreTime(topic, queueID, offset)
	return max(ms, 0), err
}
