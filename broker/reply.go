package broker

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/remoting"
)

// Properties of requests that are answered by a message, and of their answers. Source: MessageConst, 5.5.0.
const (
	propReplyTo   = "REPLY_TO_CLIENT"
	propReplyTime = "PUSH_REPLY_TIME"
)

// sendReply serves SEND_REPLY_MESSAGE and SEND_REPLY_MESSAGE_V2: the answer to a message, which is passed on to the client that has sent it, and stored too.
//
// Source: ReplyMessageProcessor.processReplyMessageRequest, 5.5.0.
func (b *Broker) sendReply(c *remoting.Conn, req *remoting.Command) {
	s := b.sends.Get().(*sending)
	defer b.release(s)
	err := s.readSend(req)
	if err == nil {
		err = b.checkSend(s)
	}
	if err != nil {
		b.refuseSend(c, req, err)
		return
	}
	client := s.property(propReplyTo)
	s.set(nil, propReplyTime, strconv.FormatInt(time.Now().UnixMilli(), 10))
	s.m.Topic, s.m.QueueID, s.m.Properties, s.m.ReconsumeTimes = s.topic, s.queueID, s.props, s.reconsumed
	s.m.BornHost, s.m.StoreHost = hostOf(c), b.storeHost
	resp := &remoting.Command{Code: remoting.Success, Ext: remoting.Ext{
		{Key: propRegion, Value: b.o.RegionID},
		{Key: propTrace, Value: strconv.FormatBool(b.live().TraceOn)},
		{Key: "msgId", Value: "0"},
		{Key: "queueId", Value: strconv.Itoa(int(s.queueID))},
		{Key: "queueOffset", Value: "0"},
	}}
	if b.live().StoreReplyMessageEnable {
		b.storeReply(s, resp)
	}
	push := b.pushOf(req, s)
	conn, ok := b.clients.Producer(client)
	if !ok {
		resp.Code, resp.Remark = remoting.SystemError, "the client "+strconv.Quote(client)+" that is to be replied to is not connected"
		c.Respond(req, resp)
		return
	}
	ticket := c.Hold(req)
	conn.InvokeAsync(push, invokeTime, func(answer *remoting.Command, err error) {
		if err == nil {
			err = answer.Error()
		}
		if err != nil {
			resp.Code, resp.Remark = remoting.SystemError, err.Error()
		}
		ticket.Respond(resp)
	})
}

// storeReply stores a reply. That it is passed on counts, and not that it is stored.
func (b *Broker) storeReply(s *sending, resp *remoting.Command) {
	res, err := b.store.Put(context.Background(), &s.m)
	if !res.Status.Stored() {
		b.counts.putFailed.Add(1)
		resp.Remark = err.Error()
		return
	}
	b.counts.put(s.topic, &res)
	resp.Ext.Set("msgId", res.MsgIDs())
	resp.Ext.SetInt("queueOffset", res.Append.QueueOffset)
}

// pushOf returns PUSH_REPLY_MESSAGE_TO_CLIENT of a reply.
func (b *Broker) pushOf(req *remoting.Command, s *sending) *remoting.Command {
	ext := remoting.Ext{
		{Key: "bornHost", Value: strings.TrimPrefix(s.m.BornHost.String(), "/")},
		{Key: "storeHost", Value: strings.TrimPrefix(s.m.StoreHost.String(), "/")},
		{Key: "producerGroup", Value: s.group},
		{Key: "topic", Value: s.topic},
		{Key: "defaultTopic", Value: s.template},
		{Key: "properties", Value: string(s.props)},
		{Key: "unitMode", Value: "false"},
	}
	for name, n := range map[string]int64{
		"storeTimestamp": time.Now().UnixMilli(), "defaultTopicQueueNums": int64(s.templateQueues), "queueId": int64(s.queueID), "sysFlag": int64(s.m.SysFlag),
		"bornTimestamp": s.m.BornTimestampMs, "flag": int64(s.m.Flag), "reconsumeTimes": int64(s.reconsumed),
	} {
		ext.SetInt(name, n)
	}
	return &remoting.Command{Code: remoting.PushReplyMessageToClient, Ext: ext, Body: bytes.Clone(req.Body)} // the request ends before the call
}
