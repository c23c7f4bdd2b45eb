package broker

import (
	"strconv"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/broker/clients"
	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/filter"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// Bits of sysFlag of a pull. Source: PullSysFlag, 5.5.0.
const (
	pullCommit       = 1 << 0 // commitOffset is to be stored
	pullSuspend      = 1 << 1 // the broker may wait for a message
	pullSubscription = 1 << 2 // the header's subscription counts, not that of the heartbeat
)

// Values of forbiddenType of an answer with code 16. Source: ForbiddenType, 5.5.0.
const (
	forbiddenBroker = iota + 1
	forbiddenGroup
	forbiddenTopic
	forbiddenBroadcast
	forbiddenSubscription
)

// pull is what a consumer asks for. Its strings share the memory of the request's frame.
type pull struct {
	group, topic string
	queueID      int32
	max          int32
	offset       int64
	filter       *compiled
	suspend      time.Duration // 0: do not wait
}

// Outcomes of a pull that stores decide, by the name of the status, which goes into the remark.
//
// Source: PullMessageProcessor.composeResponseHeader, 5.5.0.
func pullCode(status store.GetStatus, offset int64) int32 {
	switch status {
	case store.GetFound:
		return remoting.Success
	case store.GetNoMatchedMessage, store.GetMessageWasRemoving:
		return remoting.PullRetryImmediately
	case store.GetNoQueue, store.GetQueueEmpty:
		if offset != 0 {
			return remoting.PullOffsetMoved
		}
		return remoting.PullNotFound
	case store.GetOffsetFoundNull, store.GetOffsetOverflowOne:
		return remoting.PullNotFound
	case store.GetOffsetOverflowBadly, store.GetOffsetTooSmall:
		return remoting.PullOffsetMoved
	}
	return remoting.SystemError
}

// pulled is the answer to a pull, in a pool: it goes back when its messages were written.
type pulled struct {
	b       *Broker
	res     store.GetResult
	slices  [][]byte
	payload remoting.Payload
	free    func()
	resp    remoting.Command
	ext     [8]remoting.Field
	touched byte // so that touch is not left out
}

func (b *Broker) newPulled() any {
	a := &pulled{b: b}
	a.free = func() {
		a.res.Release()
		clear(a.slices)
		a.slices, a.payload = a.slices[:0], remoting.Payload{}
		a.resp = remoting.Command{}
		b.pulls.Put(a)
	}
	return a
}

// pull serves PULL_MESSAGE and LITE_PULL_MESSAGE.
//
// Source: PullMessageProcessor, 5.5.0.
func (b *Broker) pull(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	p := pull{group: h.String("consumerGroup")}
	p.topic, p.queueID = queueOf(&h)
	p.offset, p.max = h.Int64("queueOffset"), h.Int32("maxMsgNums")
	flags, commit, suspend := h.Int32("sysFlag"), h.Int64("commitOffset"), h.Int64("suspendTimeoutMillis")
	version, subscription, kind := h.Int64("subVersion"), h.StringOr("subscription", ""), h.StringOr("expressionType", "")
	if err := h.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	if kind == "" {
		kind = filter.TypeTag
	}
	forbidden, err := b.checkPull(&p, req.Code)
	if err == nil {
		forbidden, err = b.subscriptionOf(&p, flags, version, subscription, kind)
	}
	if err != nil {
		b.refusePull(c, req, forbidden, err)
		return
	}
	if at, ok := b.offsets.TakeReset(p.group, p.topic, p.queueID); ok {
		b.movePull(c, req, &p, at)
		return
	}
	if flags&pullCommit != 0 {
		b.offsets.Commit(strings.Clone(p.group), strings.Clone(p.topic), p.queueID, commit)
	}
	if flags&pullSuspend != 0 && suspend > 0 {
		p.suspend = time.Duration(suspend) * time.Millisecond
		if !b.live().LongPollingEnable {
			p.suspend = b.live().ShortPollingTimeMills
		}
	}
	b.answerPull(&p, c, req)
}

// checkPull refuses what may not be read. The error is the answer, and forbidden its reason where that has a number.
func (b *Broker) checkPull(p *pull, code int32) (forbidden int, err error) {
	if b.live().BrokerPermission&meta.PermRead == 0 {
		return forbiddenBroker, remoting.Errorf(remoting.NoPermission, "the broker %s may not be read: brokerPermission is %d", b.o.BrokerName, b.live().BrokerPermission)
	}
	if code == remoting.LitePullMessage && !b.live().LitePullMessageEnable {
		return forbiddenBroker, remoting.Errorf(remoting.NoPermission, "the broker %s serves no lite pulls: litePullMessageEnable is false", b.o.BrokerName)
	}
	g, ok, err := b.groupFor(p.group)
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return 0, remoting.Errorf(remoting.SubscriptionGroupNotExist, "there is no group %s", p.group)
	case !g.ConsumeEnable:
		return forbiddenGroup, remoting.Errorf(remoting.NoPermission, "group %s may not consume: consumeEnable is false", p.group)
	}
	t, ok := b.topics.Get(p.topic)
	switch {
	case !ok:
		return 0, remoting.Errorf(remoting.TopicNotExist, "there is no topic %s", p.topic)
	case !t.Readable():
		return forbiddenTopic, remoting.Errorf(remoting.NoPermission, "topic %s may not be read", p.topic)
	case p.queueID < 0 || p.queueID >= t.ReadQueues:
		return 0, remoting.Errorf(remoting.InvalidParameter, "topic %s has no queue %d to read, but %d", p.topic, p.queueID, t.ReadQueues)
	case p.max < 1:
		return 0, remoting.Errorf(remoting.InvalidParameter, "maxMsgNums is %d, want 1 or more", p.max)
	}
	return 0, nil
}

// groupFor returns the group of that name, and makes it if it may be made; the name is copied only then.
func (b *Broker) groupFor(name string) (meta.Group, bool, error) {
	if g, ok := b.groups.Known(name); ok {
		return g, true, nil
	}
	return b.groups.Get(strings.Clone(name))
}

// subscriptionOf finds what the pull filters by: what it says itself, or what the group's members said last.
func (b *Broker) subscriptionOf(p *pull, flags int32, version int64, text, kind string) (forbidden int, err error) {
	if flags&pullSubscription != 0 {
		if kind != filter.TypeTag && !b.live().EnablePropertyFilter {
			return 0, remoting.Errorf(remoting.SystemError, "the broker does not filter by %s: enablePropertyFilter is false", kind)
		}
		if p.filter = b.filters.get(strings.Clone(kind), strings.Clone(text)); p.filter.err != nil {
			return 0, remoting.Errorf(remoting.SubscriptionParseFailed, "subscription of group %s to %s: %v", p.group, p.topic, p.filter.err)
		}
		return 0, nil
	}
	s, model, online := b.clients.Subscription(p.group, p.topic)
	switch {
	case !online:
		return 0, remoting.Errorf(remoting.SubscriptionNotExist, "group %s has no member", p.group)
	case model == clients.Broadcasting && !b.broadcasts(p.group):
		return forbiddenBroadcast, remoting.Errorf(remoting.NoPermission, "group %s may not consume by broadcasting: consumeBroadcastEnable is false", p.group)
	case !b.groups.Readable(p.group, p.topic):
		return forbiddenSubscription, remoting.Errorf(remoting.NoPermission, "group %s may not read topic %s", p.group, p.topic)
	case s == nil:
		return 0, remoting.Errorf(remoting.SubscriptionNotExist, "group %s does not subscribe to %s", p.group, p.topic)
	case int64(s.Version) < version:
		return 0, remoting.Errorf(remoting.SubscriptionNotLatest, "subscription of group %s to %s is of version %d, and the pull of %d", p.group, p.topic, s.Version, version)
	case s.ExpressionType != filter.TypeTag && !b.live().EnablePropertyFilter:
		return 0, remoting.Errorf(remoting.SystemError, "the broker does not filter by %s: enablePropertyFilter is false", s.ExpressionType)
	}
	if p.filter = b.filters.get(s.ExpressionType, s.Expression); p.filter.err != nil {
		return 0, remoting.Errorf(remoting.FilterDataNotExist, "subscription of group %s to %s: %v", p.group, p.topic, p.filter.err)
	}
	return 0, nil
}

func (b *Broker) broadcasts(group string) bool {
	g, _ := b.groups.Known(group)
	return g.ConsumeBroadcastEnable
}

// refusePull answers a pull that may not be.
func (b *Broker) refusePull(c *remoting.Conn, req *remoting.Command, forbidden int, err error) {
	if forbidden == 0 {
		c.RespondError(req, err)
		return
	}
	c.Respond(req, &remoting.Command{Code: remoting.NoPermission, Remark: err.Error(), Ext: remoting.Ext{{Key: "forbiddenType", Value: strconv.Itoa(forbidden)}}})
}

// movePull sends the consumer to another offset.
func (b *Broker) movePull(c *remoting.Conn, req *remoting.Command, p *pull, to int64) {
	least, err := b.store.MinOffset(p.topic, p.queueID)
	most := int64(0)
	if err == nil {
		most, err = b.store.MaxOffset(p.topic, p.queueID)
	}
	if err != nil {
		c.RespondError(req, err)
		return
	}
	resp := remoting.Command{Code: remoting.PullOffsetMoved, Remark: "OFFSET_RESET"}
	resp.Ext = pullFields(nil, to, max(least, 0), most)
	c.Respond(req, &resp)
}

// pullFields are the fields that each answer to a pull has: clients fail on one that is missing.
func pullFields(ext remoting.Ext, next, least, most int64) remoting.Ext {
	ext.SetInt("maxOffset", most) // in the order in which they are written
	ext.SetInt("minOffset", least)
	ext.SetInt("nextBeginOffset", next)
	return append(ext, remoting.Field{Key: "suggestWhichBrokerId", Value: "0"})
}

// answerPull reads, and answers or waits. req is nil and ticket is used when the pull has waited.
func (b *Broker) answerPull(p *pull, c *remoting.Conn, req *remoting.Command) {
	a := b.pulls.Get().(*pulled)
	code, err := a.read(p)
	if err != nil {
		a.free()
		c.RespondError(req, err)
		return
	}
	if code == remoting.PullNotFound && p.suspend > 0 {
		a.free()
		if !b.holds.reserve(p) {
			c.RespondError(req, remoting.Errorf(remoting.SystemBusy, "[OVERLOAD]too many pulls wait for messages: maxHeldPulls is %d, maxHeldPullBytes %d", b.o.MaxHeldPulls, b.o.MaxHeldPullBytes))
			return
		}
		b.holds.add(p, c.Hold(req))
		return
	}
	c.Respond(req, a.make(p, code))
}

// answerHeld reads once more for a pull that has waited, and answers whatever there is.
func (b *Broker) answerHeld(p *pull, t remoting.Ticket) {
	if c := t.Conn(); c != nil && c.OverBudget() {
		t.Respond(&remoting.Command{Code: remoting.SystemBusy, Remark: "[OVERLOAD]too many answers wait to be written"})
		return
	}
	a := b.pulls.Get().(*pulled)
	code, err := a.read(p)
	if err != nil {
		a.free()
		t.Respond(&remoting.Command{Code: remoting.SystemError, Remark: err.Error()})
		return
	}
	t.Respond(a.make(p, code))
}

// read gets the messages.
func (a *pulled) read(p *pull) (code int32, err error) {
	b := a.b
	req := store.GetRequest{Group: p.group, Topic: p.topic, QueueID: p.queueID, Offset: p.offset, MaxMessages: int(p.max), Filter: p.filter.store}
	if b.store.ColdLimited(p.group) {
		cold, err := b.store.InColdArea(p.topic, p.queueID, p.offset)
		if err != nil {
			return 0, err
		}
		if cold {
			return 0, remoting.Errorf(remoting.FlowControl, "group %s has read more cold data than it may: try again later", p.group)
		}
	}
	if err := b.store.Get(&req, &a.res); err != nil {
		return 0, err
	}
	return pullCode(a.res.Status, p.offset), nil
}

// touchStep is how far apart bytes are read to find out whether a record can be: a page.
const touchStep = 4096

// touch reads a byte of each page of the records: a file that was cut short, or a disk that fails, shows here, and not when the bytes are written to the client.
func (a *pulled) touch() error {
	return commitlog.GuardFault(func() error {
		sum := byte(0)
		for i := range a.res.Messages {
			r := a.res.Messages[i].Record
			for at := 0; at < len(r); at += touchStep {
				sum ^= r[at]
			}
			sum ^= r[len(r)-1]
		}
		a.touched = sum
		return nil
	})
}

// make makes the answer. It goes back to the pool when it was written.
func (a *pulled) make(p *pull, code int32) *remoting.Command {
	b := a.b
	resp := &a.resp
	*resp = remoting.Command{Code: code, Remark: a.res.Status.String()}
	if err := a.touch(); err != nil {
		*resp = remoting.Command{Code: remoting.SystemError, Remark: err.Error()}
		code = remoting.SystemError
	}
	resp.Ext = pullFields(remoting.Ext(a.ext[:0]), a.res.NextOffset, a.res.MinOffset, a.res.MaxOffset)
	switch code {
	case remoting.Success:
		for i := range a.res.Messages {
			a.slices = append(a.slices, a.res.Messages[i].Record)
		}
		n, size := int64(len(a.slices)), int64(a.res.Bytes)
		b.counts.got.Add(n)
		b.counts.gotBytes.Add(size)
		b.counts.found.Add(1)
		key := p.topic + "@" + p.group
		b.counts.table.Add(statGroupGet, key, n)
		b.counts.table.Add(statGroupSize, key, size)
		b.offsets.Pulled(p.group, p.topic, p.queueID, a.res.NextOffset)
	default:
		b.counts.missed.Add(1)
	}
	a.payload.Slices, a.payload.Release = a.slices, a.free
	resp.Payload = &a.payload
	return resp
}
