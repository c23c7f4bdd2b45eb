package broker

import (
	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// queryOffset serves QUERY_CONSUMER_OFFSET. A group without an offset on a young queue, all of whose messages are still there and in memory, begins at its first message; otherwise
// the answer is 22, and the client chooses where to begin.
//
// Source: ConsumerManageProcessor.queryConsumerOffset, 5.5.0.
func (b *Broker) queryOffset(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	group := h.String("consumerGroup")
	topic, queueID := queueOf(&h)
	zero := h.BoolOr("setZeroIfNotFound", true)
	if err := h.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	if at := b.offsets.Query(group, topic, queueID); at != meta.NoOffset {
		number(c, req, "offset", at)
		return
	}
	young, err := b.young(topic, queueID)
	switch {
	case err != nil:
		c.RespondError(req, err)
	case zero && young:
		number(c, req, "offset", 0)
	default:
		c.RespondError(req, remoting.Errorf(remoting.QueryNotFound, "group %s has no offset for queue %d of %s", group, queueID, topic))
	}
}

// young tells whether the first message that the queue ever had is still there, so near the end of the log that it is taken to be in memory.
func (b *Broker) young(topic string, queueID int32) (bool, error) {
	r := b.results.Get().(*store.GetResult)
	defer b.results.Put(r)
	defer r.Release()
	if err := b.store.Get(&store.GetRequest{Topic: topic, QueueID: queueID, MaxMessages: 1}, r); err != nil {
		return false, err
	}
	return r.Status == store.GetFound && r.Messages[0].QueueOffset == 0 && !r.SuggestSlave, nil
}

// updateOffset serves UPDATE_CONSUMER_OFFSET. Any offset is taken, smaller ones and -1 too.
//
// Source: ConsumerManageProcessor.updateConsumerOffset, 5.5.0.
func (b *Broker) updateOffset(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	group, topic := h.String("consumerGroup"), h.String("topic")
	if err := h.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	if _, ok := b.groups.Known(group); !ok {
		c.RespondError(req, remoting.Errorf(remoting.SubscriptionGroupNotExist, "there is no group %s", group))
		return
	}
	if _, ok := b.topics.Get(topic); !ok {
		c.RespondError(req, remoting.Errorf(remoting.TopicNotExist, "there is no topic %s", topic))
		return
	}
	queueID, offset := h.Int32("queueId"), h.Int64("commitOffset")
	if err := h.Err(); err != nil {
		c.RespondError(req, remoting.Errorf(remoting.InvalidParameter, "%v", err))
		return
	}
	b.offsets.Commit(group, topic, queueID, offset)
	done(c, req)
}
