package broker

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tandemq/tandemmq/broker/clients"
	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/filter"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
)

// Clients that say nothing for clientLife are taken out; looked for every clientScan. Source: ClientHousekeepingService, 5.5.0.
const (
	clientLife = 2 * time.Minute
	clientScan = 10 * time.Second
)

// done answers a request with nothing but success.
func done(c *remoting.Conn, req *remoting.Command) {
	c.Respond(req, &remoting.Command{Code: remoting.Success})
}

// answerBody answers a request with v in JSON.
func answerBody(c *remoting.Conn, req *remoting.Command, v any) {
	body, err := remoting.MarshalBody(v)
	if err != nil {
		c.RespondError(req, err)
		return
	}
	c.Respond(req, &remoting.Command{Code: remoting.Success, Body: body})
}

// heartbeat serves HEART_BEAT: who the client is, in which groups, and what it subscribes to. The answer's version tells the client what the broker can do.
func (b *Broker) heartbeat(c *remoting.Conn, req *remoting.Command) {
	h, err := clients.ParseHeartbeat(req.Body)
	if err != nil {
		c.RespondError(req, err)
		return
	}
	good := h.Consumers[:0]
	for _, d := range h.Consumers {
		g, ok, err := b.groups.Get(d.Group)
		if err != nil {
			c.RespondError(req, err)
			return
		}
		if !ok { // no name for a group, or none that may come to be: as if it were not there
			continue
		}
		if err := b.ensureRetryTopic(&g, d.Subscriptions); err != nil {
			c.RespondError(req, err)
			return
		}
		for i := range d.Subscriptions {
			if s := &d.Subscriptions[i]; s != nil {
				if _, err := s.Filter(); err != nil {
					b.log.Warn("a subscription does not compile", slog.String("group", d.Group), slog.String("topic", s.Topic), slog.Any("err", err))
				}
			}
		}
		good = append(good, d)
	}
	h.Consumers = good
	changed := b.clients.Heartbeat(c, h, req.Language, req.Version, time.Now())
	done(c, req)
	b.notify(changed)
}

// ensureRetryTopic makes the topic whose messages the group gets again.
func (b *Broker) ensureRetryTopic(g *meta.Group, subscriptions []clients.Subscription) error {
	if g.RetryQueues <= 0 {
		return nil
	}
	t := meta.NewTopic(meta.RetryTopic(g.Name), g.RetryQueues, meta.PermRead|meta.PermWrite)
	for i := range subscriptions {
		if of, ok := b.topics.Get(subscriptions[i].Topic); ok && of.Order {
			t.Order = true
		}
	}
	_, err := b.topics.Ensure(t)
	return err
}

// notify tells all members of the groups that there are others than before, so that they share the queues anew.
func (b *Broker) notify(groups []string) {
	if !b.live().NotifyConsumerIdsChangedEnable {
		return
	}
	for _, name := range groups {
		g, ok := b.groups.Known(name)
		if ok && !g.NotifyConsumerIDsChange {
			continue
		}
		members, ok := b.clients.Consumers(name)
		if !ok || members.Model == clients.Broadcasting {
			continue
		}
		req := &remoting.Command{Code: remoting.NotifyConsumerIDsChanged, Ext: remoting.Ext{{Key: "consumerGroup", Value: name}}}
		for i := range members.Members {
			if err := members.Members[i].Conn.OneWay(req); err != nil {
				b.log.Debug("a consumer was not told that its group has changed", slog.String("group", name), slog.Any("err", err))
			}
		}
	}
}

// gone takes a closed connection out.
func (b *Broker) gone(c *remoting.Conn, _ error) {
	b.notify(b.clients.Drop(c))
}

// dropSilent closes connections of clients that were not heard of for too long.
func (b *Broker) dropSilent(ctx context.Context) {
	tick := time.NewTicker(clientScan)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, c := range b.clients.Silent(now, clientLife) {
				c.Close()
			}
		}
	}
}

// unregisterClient serves UNREGISTER_CLIENT: the client leaves the groups that are named.
func (b *Broker) unregisterClient(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	h.String("clientID")
	producer, consumer := h.StringOr("producerGroup", ""), h.StringOr("consumerGroup", "")
	if err := h.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	changed := b.clients.Unregister(c, producer, consumer)
	done(c, req)
	if changed {
		b.notify([]string{consumer})
	}
}

// checkClientConfig serves CHECK_CLIENT_CONFIG: whether a subscription can be served.
func (b *Broker) checkClientConfig(c *remoting.Conn, req *remoting.Command) {
	var body struct {
		Subscription *clients.Subscription `json:"subscriptionData"`
	}
	if len(req.Body) > 0 {
		if err := remoting.UnmarshalBody(req.Body, &body); err != nil {
			c.RespondError(req, err)
			return
		}
	}
	s := body.Subscription
	if s == nil || s.ExpressionType == "" || s.ExpressionType == filter.TypeTag {
		done(c, req)
		return
	}
	if err := b.checkFilter(s.ExpressionType, s.Expression); err != nil {
		c.RespondError(req, err)
		return
	}
	done(c, req)
}

// checkFilter tells why a subscription by properties cannot be served; nil if it can.
func (b *Broker) checkFilter(expressionType, expression string) error {
	if !b.live().EnablePropertyFilter {
		return remoting.Errorf(remoting.SystemError, "the broker does not filter by %s: enablePropertyFilter is false", expressionType)
	}
	if _, err := filter.Compile(expressionType, expression, filter.Options{}); err != nil {
		return remoting.Errorf(remoting.SubscriptionParseFailed, "%v", err)
	}
	return nil
}

// consumerIDs serves GET_CONSUMER_LIST_BY_GROUP.
func (b *Broker) consumerIDs(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	group := h.String("consumerGroup")
	if err := h.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	members, ok := b.clients.Consumers(group)
	if !ok {
		c.RespondError(req, remoting.Errorf(remoting.SystemError, "group %s has no consumer", group))
		return
	}
	answerBody(c, req, struct {
		IDs []string `json:"consumerIdList"`
	}{members.IDs()})
}

// lockBody is the body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ.
type lockBody struct {
	ClientID string                  `json:"clientId"`
	Group    string                  `json:"consumerGroup"`
	Queues   []remoting.MessageQueue `json:"mqSet"`
}

// lockQueues serves LOCK_BATCH_MQ: the queues that the client may consume in order.
func (b *Broker) lockQueues(c *remoting.Conn, req *remoting.Command) {
	var body lockBody
	if err := remoting.UnmarshalBody(req.Body, &body); err != nil {
		c.RespondError(req, err)
		return
	}
	answerBody(c, req, struct {
		OK []remoting.MessageQueue `json:"lockOKMQSet"`
	}{b.locks.Lock(body.Group, body.ClientID, body.Queues, time.Now())})
}

// unlockQueues serves UNLOCK_BATCH_MQ.
func (b *Broker) unlockQueues(c *remoting.Conn, req *remoting.Command) {
	var body lockBody
	if err := remoting.UnmarshalBody(req.Body, &body); err != nil {
		c.RespondError(req, err)
		return
	}
	b.locks.Unlock(body.Group, body.ClientID, body.Queues)
	done(c, req)
}

// invokeTime is how long a client may take to answer a call that is passed on to it.
const invokeTime = 10 * time.Second

// callConsumer passes a request on to a consumer and answers with what it says. ext and body are what the consumer gets.
//
// Source: Broker2Client.callClient, 5.5.0.
func (b *Broker) callConsumer(c *remoting.Conn, req *remoting.Command, group, clientID string, ext remoting.Ext, body []byte) {
	m, ok := b.clients.Consumer(group, clientID)
	switch {
	case !ok:
		c.RespondError(req, remoting.Errorf(remoting.SystemError, "client %s is not online in group %s", clientID, group))
		return
	case m.Version < minForwardVersion:
		c.RespondError(req, remoting.Errorf(remoting.SystemError, "client %s of version %s does not take calls", clientID, remoting.VersionName(m.Version)))
		return
	}
	ticket, code := c.Hold(req), req.Code
	b.services.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, invokeTime)
		defer cancel()
		resp, err := m.Conn.Invoke(ctx, &remoting.Command{Code: code, Ext: ext, Body: body})
		switch {
		case err == nil:
			ticket.Respond(&remoting.Command{Code: resp.Code, Remark: resp.Remark, Ext: resp.Ext, Body: resp.Body})
		case ctx.Err() != nil:
			ticket.Respond(&remoting.Command{Code: remoting.ConsumeMsgTimeout, Remark: fmt.Sprintf("client %s did not answer within %v", clientID, invokeTime)})
		default:
			ticket.Respond(&remoting.Command{Code: remoting.SystemError, Remark: err.Error()})
		}
	})
}

// minForwardVersion is V3_1_8_SNAPSHOT, the first whose clients take calls.
const minForwardVersion = 62

// runningInfo serves GET_CONSUMER_RUNNING_INFO: the consumer itself knows.
func (b *Broker) runningInfo(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	group, clientID := h.String("consumerGroup"), h.String("clientId")
	if err := h.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	b.callConsumer(c, req, group, clientID, slices.Clone(req.Ext), nil) // the request's own are used again once it is held
}

// consumeDirectly serves CONSUME_MESSAGE_DIRECTLY: a consumer is given the message that an id names, and says what it made of it.
//
// Source: AdminBrokerProcessor.consumeMessageDirectly, 5.5.0.
func (b *Broker) consumeDirectly(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	group, clientID, id := h.String("consumerGroup"), h.String("clientId"), h.String("msgId")
	topic := h.StringOr("topic", "")
	if err := h.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	var r message.Record
	release, err := b.store.MessageByID(id, &r)
	if err != nil {
		c.RespondError(req, err)
		return
	}
	body := bytes.Clone(r.Raw)
	release()
	ext := slices.Clone(req.Ext)
	ext.Set("brokerName", b.o.BrokerName)
	if t, ok := b.topics.Get(topic); ok {
		ext.SetInt("topicSysFlag", int64(t.SysFlag))
	}
	if g, ok := b.groups.Known(group); ok {
		ext.SetInt("groupSysFlag", int64(g.SysFlag))
	}
	b.callConsumer(c, req, group, clientID, ext, body)
}
