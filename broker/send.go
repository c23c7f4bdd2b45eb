package broker

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// Properties that a broker gives a meaning to, beside those of the store.
//
// Source: MessageConst, 5.5.0.
const (
	propPopCheck       = "POP_CK"
	propRegion         = "MSG_REGION"
	propTrace          = "TRACE_ON"
	propTransaction    = "TRAN_MSG"
	propTransactionID  = "__transactionId__"
	propProducerGroup  = "PGROUP"
	propRetryTopic     = "RETRY_TOPIC"
	propOriginID       = "ORIGIN_MESSAGE_ID"
	propTimerSeconds   = "TIMER_DELAY_SEC"
	propTimerMs        = "TIMER_DELAY_MS"
	propTimerDeliverMs = "TIMER_DELIVER_MS"
)

// sending is a request to store a message, taken apart. It lives in a pool: nothing of it may be kept.
type sending struct {
	topic, template string // defaultTopic: after which a topic that is not there is made
	group           string // of producers
	queueID         int32
	templateQueues  int32
	reconsumed      int32
	maxReconsume    int32 // -1: the group's
	batch           bool

	m     message.Message
	props []byte // m.Properties, while it is made
	spare []byte
	uniq  string
	delay int32
	half  bool // a prepared message, to be stored in the half topic
	resp  remoting.Command
	ext   [6]remoting.Field
}

// sendFields are the names of a send's header, in version 1 and in version 2, whose names are single letters.
var (
	sendFields   = [...]string{"producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp", "flag", "properties", "reconsumeTimes", "maxReconsumeTimes", "batch"}
	sendFieldsV2 = [len(sendFields)]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "l", "m"}
)

// readSend takes the header of either version apart.
func (s *sending) readSend(req *remoting.Command) error {
	h := req.Fields()
	name := &sendFieldsV2
	if req.Code == remoting.SendMessage || req.Code == remoting.SendReplyMessage {
		name = &sendFields
	}
	s.group, s.topic, s.template = h.String(name[0]), h.String(name[1]), h.StringOr(name[2], "")
	s.templateQueues, s.queueID = h.Int32Or(name[3], 0), h.Int32(name[4])
	s.m.SysFlag, s.m.BornTimestampMs, s.m.Flag = h.Int32(name[5]), h.Int64(name[6]), h.Int32(name[7])
	s.props = append(s.props[:0], h.StringOr(name[8], "")...)
	s.reconsumed, s.maxReconsume = h.Int32Or(name[9], 0), h.Int32Or(name[10], -1)
	s.batch = h.BoolOr(name[11], false)
	s.m.Body = req.Body
	return h.Err()
}

// property returns one of the message's; "" if it has none.
func (s *sending) property(name string) string {
	v, _ := message.FindProperty(s.props, name)
	return string(v)
}

// decisive are the properties that decide what becomes of a message. The bytes are those of the message's properties.
type decisive struct {
	uniq, delay     []byte
	prepared, timed bool
}

// decisive finds them in one pass. The last of a name counts.
func (s *sending) decisive() (d decisive) {
	r := message.Record{Properties: s.props}
	for name, value := range r.PropertiesSeq() {
		switch string(name) {
		case message.PropertyUniqKey:
			d.uniq = value
		case message.PropertyDelay:
			d.delay = value
		case propTransaction:
			d.prepared = string(value) == "true"
		case propTimerSeconds, propTimerMs, propTimerDeliverMs:
			d.timed = true
		}
	}
	return d
}

// set gives the message properties, pairs of name and value, in place of what it has under these names and those in drop. Values are never empty.
func (s *sending) set(drop []string, pairs ...string) {
	s.spare = message.AppendPropertiesExcept(s.spare[:0], s.props, func(name []byte) bool {
		for _, d := range drop {
			if string(name) == d {
				return true
			}
		}
		for i := 0; i < len(pairs); i += 2 {
			if string(name) == pairs[i] {
				return true
			}
		}
		return false
	})
	for i := 0; i < len(pairs); i += 2 {
		s.spare = message.AppendProperty(s.spare, pairs[i], pairs[i+1])
	}
	s.props, s.spare = s.spare, s.props
}

// release gives s back without anything of the request's.
func (b *Broker) release(s *sending) {
	props, spare := s.props[:0], s.spare[:0]
	*s = sending{props: props, spare: spare}
	b.sends.Put(s)
}

// send serves SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE, on the goroutine that reads the connection: so what one connection sends is stored in the order in which it comes. It is answered
// at once, and under synchronous flush when it is durable.
//
// Source: SendMessageProcessor, 5.5.0.
func (b *Broker) send(c *remoting.Conn, req *remoting.Command) {
	s := b.sends.Get().(*sending)
	err := s.readSend(req)
	if err == nil {
		err = b.checkSend(s)
	}
	if err == nil {
		err = b.complete(s, c, req.Version)
	}
	if err != nil {
		b.refuseSend(c, req, err)
		b.release(s)
		return
	}
	if b.o.Store.FlushDiskType == store.SyncFlush {
		b.sendFlushed(c, req, s)
		return
	}
	put := b.store.Put
	if s.batch {
		put = b.store.PutBatch
	}
	r, err := put(context.Background(), &s.m)
	b.answerSend(c, req, s, &r, err)
	b.release(s)
}

// sendFlushed stores a message that is answered when it is durable.
func (b *Broker) sendFlushed(c *remoting.Conn, req *remoting.Command, s *sending) {
	put := b.store.PutFunc
	if s.batch {
		put = b.store.PutBatchFunc
	}
	put(context.Background(), &s.m, func(r store.PutResult, err error) {
		b.answerSend(c, req, s, &r, err)
		b.release(s)
	})
}

// refuseSend answers a send that stores nothing. Clients read the two fields whatever the code.
func (b *Broker) refuseSend(c *remoting.Conn, req *remoting.Command, err error) {
	resp := remoting.Command{Code: remoting.SystemError, Remark: err.Error()}
	var re *remoting.ResponseError
	if errors.As(err, &re) {
		resp.Code, resp.Remark = re.Code, re.Remark
	}
	resp.Ext = remoting.Ext{{Key: propRegion, Value: b.o.RegionID}, {Key: propTrace, Value: strconv.FormatBool(b.live().TraceOn)}}
	c.Respond(req, &resp)
}

// checkSend refuses what may not be sent, in the order of 5.5.0, and makes the topic if it may be made.
func (b *Broker) checkSend(s *sending) error {
	switch err := meta.CheckTopicName(s.topic); {
	case err != nil:
		return remoting.Errorf(remoting.InvalidParameter, "%v", err)
	case meta.SendForbidden(s.topic):
		return remoting.Errorf(remoting.NoPermission, "topic %s is the broker's own", s.topic)
	}
	if b.live().BrokerPermission&meta.PermWrite == 0 {
		return remoting.Errorf(remoting.NoPermission, "the broker %s may not be written to: brokerPermission is %d", b.o.BrokerName, b.live().BrokerPermission)
	}
	t, err := b.topicForSend(s)
	if err != nil {
		return err
	}
	if s.queueID >= t.Queues() {
		return remoting.Errorf(remoting.InvalidParameter, "topic %s has no queue %d, but %d", s.topic, s.queueID, t.Queues())
	}
	if s.queueID < 0 {
		s.queueID = rand.Int32N(max(t.WriteQueues, 1))
	}
	if s.batch && (len(s.topic) > 127 || strings.HasPrefix(s.topic, meta.RetryPrefix)) {
		return remoting.Errorf(remoting.MessageIllegal, "topic %s does not take batches", s.topic)
	}
	return nil
}

func (b *Broker) topicForSend(s *sending) (meta.Topic, error) {
	if t, ok := b.topics.Get(s.topic); ok {
		return t, nil
	}
	if strings.HasPrefix(s.topic, meta.RetryPrefix) {
		return b.topics.Ensure(meta.NewTopic(strings.Clone(s.topic), 1, meta.PermRead|meta.PermWrite))
	}
	if b.live().AutoCreateTopicEnable {
		t, ok, err := b.topics.CreateForSend(strings.Clone(s.topic), s.template, s.templateQueues)
		if err != nil || ok {
			return t, err
		}
	}
	return meta.Topic{}, remoting.Errorf(remoting.TopicNotExist, "there is no topic %s, and none is made: create it, or send with the template %s", s.topic, meta.AutoCreateTopic)
}

// complete makes of a request the message that is stored.
func (b *Broker) complete(s *sending, c *remoting.Conn, version int32) error {
	s.m.BornHost, s.m.StoreHost = hostOf(c), b.storeHost
	s.m.ReconsumeTimes = s.reconsumed
	if s.batch {
		// WAIT of the request counts for all; nothing else of it is stored.
		s.m.Topic, s.m.QueueID, s.m.Properties = s.topic, s.queueID, s.props
		return nil
	}
	if group, ok := strings.CutPrefix(s.topic, meta.RetryPrefix); ok {
		if err := b.retrySend(s, group, version); err != nil {
			return err
		}
	}
	d := s.decisive()
	if s.uniq = string(d.uniq); s.uniq == "" {
		s.uniq = b.ids.next(b.storeHost)
	}
	if len(d.delay) > 0 {
		delay, _ := strconv.ParseInt(string(d.delay), 10, 32)
		s.delay = int32(delay)
	}
	s.half = d.prepared && (s.reconsumed == 0 || s.delay == 0)
	s.set([]string{propPopCheck}, message.PropertyUniqKey, s.uniq, propRegion, b.o.RegionID, propTrace, strconv.FormatBool(b.live().TraceOn), message.PropertyCluster, b.o.BrokerClusterName)
	switch {
	case s.half && b.live().RejectTransactionMessage:
		return remoting.Errorf(remoting.NoPermission, "the broker %s takes no prepared messages: rejectTransactionMessage is true", b.o.BrokerName)
	case s.half:
		s.toHalf()
	case s.delay > 0:
		s.toSchedule(int32(b.levels.Max()))
	case d.timed:
		return remoting.Errorf(remoting.SystemError, "messages for any time are not supported: %s, %s and %s need a timer; use a delay level", propTimerSeconds, propTimerMs, propTimerDeliverMs)
	default:
		s.m.Topic, s.m.QueueID = s.topic, s.queueID
	}
	s.m.Properties = s.props
	return nil
}

// toHalf makes a prepared message one of the half topic, where nobody sees it until its producer has decided.
//
// Source: TransactionalMessageBridge.parseHalfMessageInner, 5.5.0.
func (s *sending) toHalf() {
	s.set(nil, message.PropertyRealTopic, s.topic, message.PropertyRealQueueID, strconv.Itoa(int(s.queueID)), propTransactionID, s.uniq)
	s.m.SysFlag &^= message.FlagTransactionMask
	s.m.Topic, s.m.QueueID = meta.HalfTopic, 0
}

// toSchedule makes a message one of its delay level, to be delivered later. Levels above the last are the last.
//
// Source: HookUtils.handleScheduleMessage, 5.5.0.
func (s *sending) toSchedule(levels int32) {
	if t := s.m.SysFlag & message.FlagTransactionMask; t != message.TransactionNone && t != message.TransactionCommit {
		s.m.Topic, s.m.QueueID = s.topic, s.queueID
		return
	}
	s.delay = min(s.delay, levels)
	s.set(nil, message.PropertyDelay, strconv.Itoa(int(s.delay)), message.PropertyRealTopic, s.topic, message.PropertyRealQueueID, strconv.Itoa(int(s.queueID)))
	s.m.Topic, s.m.QueueID = meta.ScheduleTopic, s.delay-1
}

// retrySend judges a message that a consumer sends to its group's retry topic: one that was consumed too often, or that a group consumes in order, goes to the dead letters.
//
// Source: AbstractSendMessageProcessor.handleRetryAndDLQ, 5.5.0.
func (b *Broker) retrySend(s *sending, group string, version int32) error {
	g, ok, err := b.groups.Get(group)
	switch {
	case err != nil:
		return err
	case !ok:
		return remoting.Errorf(remoting.SubscriptionGroupNotExist, "there is no group %s", group)
	}
	most := g.RetryMaxTimes
	if version >= minMaxReconsumeVersion && s.maxReconsume >= 0 {
		most = s.maxReconsume
	}
	if s.reconsumed <= most && !b.locks.Any(group, time.Now()) {
		return nil
	}
	t, err := b.topics.Ensure(meta.NewTopic(meta.DLQTopic(group), 1, meta.PermRead|meta.PermWrite))
	if err != nil {
		return err
	}
	s.topic, s.queueID = t.Name, 0
	s.set(nil, message.PropertyDelay, "-1")
	return nil
}

// minMaxReconsumeVersion is V3_4_9, the first whose clients say how often a message may come again.
const minMaxReconsumeVersion = 121

// codeOf maps what became of a put to the code of its answer.
//
// Source: SendMessageProcessor.handlePutMessageResult, 5.5.0.
func codeOf(status store.PutStatus) int32 {
	switch status {
	case store.PutOK:
		return remoting.Success
	case store.PutFlushDiskTimeout:
		return remoting.FlushDiskTimeout
	case store.PutFlushSlaveTimeout:
		return remoting.FlushSlaveTimeout
	case store.PutSlaveNotAvailable:
		return remoting.SlaveNotAvailable
	case store.PutMessageIllegal, store.PutPropertiesSizeExceeded, store.PutWheelTimerMsgIllegal:
		return remoting.MessageIllegal
	case store.PutServiceNotAvailable:
		return remoting.ServiceNotAvailable
	case store.PutOSPageCacheBusy:
		return remoting.SystemBusy
	case store.PutLMQConsumeQueueNumExceeded:
		return remoting.LMQQuotaExceeded
	}
	return remoting.SystemError
}

// answerSend tells the producer what became of its message. One that is stored counts, whatever else is wrong.
func (b *Broker) answerSend(c *remoting.Conn, req *remoting.Command, s *sending, r *store.PutResult, err error) {
	resp := &s.resp
	resp.Code = codeOf(r.Status)
	resp.Ext = append(remoting.Ext(s.ext[:0]), remoting.Field{Key: propRegion, Value: b.o.RegionID}, remoting.Field{Key: propTrace, Value: strconv.FormatBool(b.live().TraceOn)})
	if err != nil {
		resp.Remark = err.Error()
	}
	if r.Status.Stored() {
		resp.Ext.Set("msgId", r.MsgIDs())
		resp.Ext.SetInt("queueId", int64(s.queueID))
		resp.Ext.SetInt("queueOffset", r.Append.QueueOffset)
		if s.uniq != "" {
			resp.Ext.Set("transactionId", s.uniq)
		}
		b.counts.put(s.topic, r)
	} else {
		b.counts.putFailed.Add(1)
	}
	c.Respond(req, resp)
}

// hostOf returns the address of a client, which is parsed once for a connection.
func hostOf(c *remoting.Conn) message.Host {
	if h, ok := c.Attached().(message.Host); ok {
		return h
	}
	var h message.Host
	if a, err := netip.ParseAddrPort(c.RemoteAddr()); err == nil {
		h = message.HostOf(a)
	}
	c.Attach(h)
	return h
}
