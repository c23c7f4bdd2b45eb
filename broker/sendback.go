package broker

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strconv"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
)

// firstRetryLevel is the delay level of a message that comes the second time; each further time it is one level later. Source: SendMessageProcessor, 5.5.0.
const firstRetryLevel = 3

// sendBack serves CONSUMER_SEND_MSG_BACK: a consumer could not do anything with a message, and its group gets it again later, or, when it came too often, never.
//
// Source: AbstractSendMessageProcessor.consumerSendMsgBack, 5.5.0.
func (b *Broker) sendBack(c *remoting.Conn, req *remoting.Command) {
	if err := b.putBack(req); err != nil {
		c.RespondError(req, err)
		return
	}
	done(c, req)
}

func (b *Broker) putBack(req *remoting.Command) error {
	h := req.Fields()
	phyOffset, group, level := h.Int64("offset"), h.String("group"), h.Int32("delayLevel")
	most := h.Int32Or("maxReconsumeTimes", -1)
	if err := h.Err(); err != nil {
		return err
	}
	g, ok, err := b.groupFor(group)
	switch {
	case err != nil:
		return err
	case !ok:
		return remoting.Errorf(remoting.SubscriptionGroupNotExist, "there is no group %s", group)
	case b.live().BrokerPermission&meta.PermWrite == 0:
		return remoting.Errorf(remoting.NoPermission, "the broker %s may not be written to: brokerPermission is %d", b.o.BrokerName, b.live().BrokerPermission)
	case g.RetryQueues <= 0: // the group wants nothing again
		return nil
	}
	if most < 0 || req.Version < minMaxReconsumeVersion {
		most = g.RetryMaxTimes
	}
	t, err := b.topics.Ensure(meta.NewTopic(meta.RetryTopic(g.Name), g.RetryQueues, meta.PermRead|meta.PermWrite))
	if err != nil {
		return err
	}
	if !t.Writable() {
		return remoting.Errorf(remoting.NoPermission, "topic %s may not be written to", t.Name)
	}
	r, err := b.copyOf(phyOffset)
	if err != nil {
		return err
	}
	s := b.sends.Get().(*sending)
	defer b.release(s)
	s.m, s.reconsumed = r.Message(), r.ReconsumeTimes
	s.props = message.AppendPropertiesWithout(s.props[:0], r.Properties, message.HasCRC)
	if level == 0 {
		level = firstRetryLevel + s.reconsumed
	}
	if s.reconsumed >= most || level < 0 {
		if t, err = b.topics.Ensure(meta.NewTopic(meta.DLQTopic(g.Name), 1, meta.PermRead|meta.PermWrite)); err != nil {
			return err
		}
		level = 0
	}
	s.topic, s.queueID, s.delay = t.Name, rand.Int32N(max(t.WriteQueues, 1)), level
	return b.putAgain(s, r, g.Name)
}

// putAgain puts the copy of a message that its group gets again.
func (b *Broker) putAgain(s *sending, r *message.Record, group string) error {
	origin, topic := s.property(propOriginID), s.property(propRetryTopic)
	if origin == "" {
		origin = message.OffsetMsgID(r.StoreHost, r.PhyOffset)
	}
	if topic == "" {
		topic = string(r.Topic)
	}
	s.set(nil, propOriginID, origin, propRetryTopic, topic, message.PropertyDelay, strconv.Itoa(int(s.delay)))
	s.m.Topic, s.m.QueueID = s.topic, s.queueID
	if s.delay > 0 {
		s.toSchedule(int32(b.levels.Max()))
	}
	s.m.ReconsumeTimes, s.m.StoreHost, s.m.PreparedTransactionOffset, s.m.Properties = s.reconsumed+1, b.storeHost, 0, s.props
	res, err := b.store.Put(context.Background(), &s.m)
	if !res.Status.Stored() {
		b.counts.putFailed.Add(1)
		return remoting.Errorf(remoting.SystemError, "%v", err)
	}
	b.counts.put(s.m.Topic, &res)
	b.counts.table.Add(statSendBack, topic+"@"+group, 1)
	return nil
}

// copyOf returns a copy of the message that begins at a physical offset.
func (b *Broker) copyOf(phyOffset int64) (*message.Record, error) {
	var r message.Record
	release, err := b.store.MessageAt(phyOffset, &r)
	if err != nil {
		return nil, err
	}
	raw := bytes.Clone(r.Raw)
	release()
	c := new(message.Record)
	return c, c.Decode(raw, true)
}
