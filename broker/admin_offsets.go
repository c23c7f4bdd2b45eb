package broker

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/broker/clients"
	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/remoting"
)

// progress is how far a group is in a queue.
type progress struct {
	Broker   int64 `json:"brokerOffset"`   // behind the last message
	Consumer int64 `json:"consumerOffset"` // what the group wants next, 0 where it has no offset
	LastMs   int64 `json:"lastTimestamp"`  // when the last message that it has consumed was stored, 0 where that is not known
	Pull     int64 `json:"pullOffset"`     // how far it has read
}

// consumeStats is how far a group is, on some topics.
type consumeStats struct {
	TPS     float64                            `json:"consumeTps"`
	Offsets map[remoting.MessageQueue]progress `json:"offsetTable"`
}

// subscribes tells whether a group that is online wants the topic; one that is not may.
func (b *Broker) subscribes(group, topic string) bool {
	s, _, online := b.clients.Subscription(group, topic)
	return !online || s != nil
}

// addProgress adds how far the group is in the first queues of a topic.
func (b *Broker) addProgress(s *consumeStats, group, topic string, queues int32) (err error) {
	for id := range queues {
		p := progress{Consumer: max(b.offsets.Query(group, topic, id), 0)}
		if p.Broker, err = b.store.MaxOffset(topic, id); err != nil {
			return err
		}
		p.Broker = max(p.Broker, 0)
		p.Pull = max(p.Consumer, b.offsets.QueryPulled(group, topic, id))
		if p.Consumer > 0 {
			if p.LastMs, err = b.storeTime(topic, id, p.Consumer-1); err != nil {
				return err
			}
		}
		s.Offsets[b.queue(topic, id)] = p
	}
	if w, ok := b.counts.table.Get(statGroupGet, topic+"@"+group); ok {
		s.TPS += w.Minute.PerSec
	}
	return nil
}

// groupProgress serves GET_CONSUME_STATS: of the topics in topicList, or the one in topic, or all that the group has offsets for. Without topicList, topics that the group is online and does not
// subscribe to are left out.
//
// Source: AdminBrokerProcessor.getConsumeStats, 5.5.0.
func (b *Broker) groupProgress(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	group, topic := h.String("consumerGroup"), h.StringOr("topic", "")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	var topics []string
	for name := range strings.SplitSeq(h.StringOr("topicList", ""), ";") {
		if name = strings.TrimSpace(name); name != "" {
			topics = append(topics, name)
		}
	}
	given := len(topics) > 0
	switch {
	case given:
	case strings.TrimSpace(topic) != "":
		topics = []string{topic}
	default:
		topics = b.offsets.TopicsOf(group)
	}
	stats := consumeStats{Offsets: map[remoting.MessageQueue]progress{}}
	for _, name := range topics {
		t, ok := b.topics.Get(name)
		if !ok || !given && !b.subscribes(group, name) {
			continue
		}
		if err := b.addProgress(&stats, group, name, t.ReadQueues); err != nil {
			return remoting.Command{}, err
		}
	}
	return withBody(stats)
}

// allProgress serves GET_BROKER_CONSUME_STATS: how far all groups are, on all topics that they have offsets for, or on ordered ones alone.
//
// Source: AdminBrokerProcessor.fetchAllConsumeStatsInBroker, 5.5.0.
func (b *Broker) allProgress(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	ordered := h.Bool("isOrder")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	body := struct {
		Addr     string                      `json:"brokerAddr"`
		Groups   []map[string][]consumeStats `json:"consumeStatsList"`
		Diff     int64                       `json:"totalDiff"`
		InFlight int64                       `json:"totalInflightDiff"`
	}{Addr: b.announced.String(), Groups: []map[string][]consumeStats{}}
	groups, _, _ := b.groups.All()
	names := make([]string, 0, len(groups))
	for name := range groups {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, group := range names {
		list := []consumeStats{}
		for _, name := range b.offsets.TopicsOf(group) {
			t, ok := b.topics.Get(name)
			if !ok || ordered && !t.Order || !b.subscribes(group, name) {
				continue
			}
			stats := consumeStats{Offsets: map[remoting.MessageQueue]progress{}}
			if err := b.addProgress(&stats, group, name, t.WriteQueues); err != nil {
				return remoting.Command{}, err
			}
			for _, p := range stats.Offsets {
				body.Diff += p.Broker - p.Consumer
				body.InFlight += p.Pull - p.Consumer
			}
			list = append(list, stats)
		}
		body.Groups = append(body.Groups, map[string][]consumeStats{group: list})
	}
	return withBody(body)
}

// timeSpan is between which times the messages of a queue were stored, and where in it the group is.
type timeSpan struct {
	ConsumeMs   int64                 `json:"consumeTimeStamp"`
	ConsumeText string                `json:"consumeTimeStampStr"`
	DelayMs     int64                 `json:"delayTime"` // how long the group's next message has waited
	MaxMs       int64                 `json:"maxTimeStamp"`
	MaxText     string                `json:"maxTimeStampStr"`
	Queue       remoting.MessageQueue `json:"messageQueue"`
	MinMs       int64                 `json:"minTimeStamp"`
	MinText     string                `json:"minTimeStampStr"`
}

// timeText writes a time as RocketMQ's tools do, in the zone of this machine.
func timeText(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05,000") }

// timeSpans serves QUERY_CONSUME_TIME_SPAN.
//
// Source: AdminBrokerProcessor.queryConsumeTimeSpan, 5.5.0.
func (b *Broker) timeSpans(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	name, group := h.String("topic"), h.String("group")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	t, err := b.topic(name)
	if err != nil {
		return remoting.Command{}, err
	}
	spans := []timeSpan{}
	for id := range t.WriteQueues {
		s := timeSpan{Queue: b.queue(name, id)}
		end, err := b.store.MaxOffset(name, id)
		if err == nil {
			s.MinMs, err = b.store.EarliestTime(name, id)
		}
		if err != nil {
			return remoting.Command{}, err
		}
		if s.MaxMs, err = b.storeTime(name, id, end-1); err != nil {
			return remoting.Command{}, err
		}
		at := max(b.offsets.Query(group, name, id), 0)
		s.ConsumeMs = s.MinMs
		if at > 0 {
			if s.ConsumeMs, err = b.storeTime(name, id, at-1); err != nil {
				return remoting.Command{}, err
			}
		}
		if at < end {
			next, err := b.storeTime(name, id, at)
			if err != nil {
				return remoting.Command{}, err
			}
			if next > 0 {
				s.DelayMs = max(time.Now().UnixMilli()-next, 0)
			}
		}
		s.MinText, s.MaxText, s.ConsumeText = timeText(s.MinMs), timeText(s.MaxMs), timeText(s.ConsumeMs)
		spans = append(spans, s)
	}
	return withBody(struct {
		Spans []timeSpan `json:"consumeTimeSpanSet"`
	}{spans})
}

// correctionOffsets serves QUERY_CORRECTION_OFFSET: the smallest offset of all groups, but for those that are named, in each queue of a topic.
func (b *Broker) correctionOffsets(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	topic := h.String("topic")
	h.String("compareGroup")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	return withBody(struct {
		Offsets map[int32]int64 `json:"correctionOffsets"`
	}{b.offsets.Min(topic, strings.Split(h.StringOr("filterGroups", ""), ","))})
}

// cloneOffsets serves CLONE_GROUP_OFFSET: a group gets the offsets of another on a topic; without a topic, on all that the other has offsets for. Unless the request says that it is offline, topics
// that the other group is online and does not subscribe to are left out.
//
// Source: AdminBrokerProcessor.cloneGroupOffset, 5.5.0, which without a topic copies nothing.
func (b *Broker) cloneOffsets(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	from, to := h.String("srcGroup"), strings.Clone(h.String("destGroup"))
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	topics := []string{strings.Clone(h.StringOr("topic", ""))}
	if strings.TrimSpace(topics[0]) == "" {
		topics = b.offsets.TopicsOf(from)
	}
	for _, topic := range topics {
		if _, ok := b.topics.Get(topic); !ok || !h.BoolOr("offline", false) && !b.subscribes(from, topic) {
			continue
		}
		b.offsets.Clone(from, to, topic)
	}
	return success(nil)
}

// allOffsets serves GET_ALL_CONSUMER_OFFSET, and allDelayOffsets GET_ALL_DELAY_OFFSET: the files' content, for a replica.
func (b *Broker) allOffsets(*remoting.Command, *remoting.Fields) (remoting.Command, error) {
	body, err := b.offsets.Text()
	return remoting.Command{Code: remoting.Success, Body: body}, err
}

func (b *Broker) allDelayOffsets(*remoting.Command, *remoting.Fields) (remoting.Command, error) {
	body, err := b.delays.Text()
	return remoting.Command{Code: remoting.Success, Body: body}, err
}

// reset is a request to set the offsets of a group on a topic.
type reset struct {
	topic, group string
	queueID      int32 // -1: all
	offset       int64 // of that queue; -1: by the time
	timestampMs  int64 // below 0: to the end
	force        bool  // forwards too, where clients are told to
}

// resetTable is the answer of a reset.
type resetTable struct {
	Offsets map[remoting.MessageQueue]int64 `json:"offsetTable"`
}

// resetOffsets serves INVOKE_BROKER_TO_RESET_OFFSET: each queue's next pull of the group is answered with the new offset, and what the group commits until then is passed over. With
// useServerSideResetOffset=false its members are told instead, which have to be online.
//
// Source: AdminBrokerProcessor.resetOffset, resetOffsetInner, 5.5.0.
func (b *Broker) resetOffsets(req *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	r := reset{
		topic: strings.Clone(h.String("topic")), group: strings.Clone(h.String("group")), timestampMs: h.Int64("timestamp"), force: h.Bool("isForce"),
		queueID: h.Int32Or("queueId", -1), offset: h.Int64Or("offset", -1),
	}
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	t, err := b.topic(r.topic)
	if err != nil {
		return remoting.Command{}, err
	}
	if _, ok := b.groups.Known(r.group); !ok {
		return remoting.Command{}, remoting.Errorf(remoting.SubscriptionGroupNotExist, "there is no group %s", r.group)
	}
	if !b.live().UseServerSideResetOffset {
		return b.resetAtClients(req, &r, t.WriteQueues)
	}
	table := resetTable{map[remoting.MessageQueue]int64{}}
	first, end := int32(0), t.ReadQueues
	if r.queueID >= 0 {
		first, end = r.queueID, r.queueID+1
	}
	for id := first; id < end; id++ {
		at, err := b.resetTo(&r, id)
		if err != nil {
			return remoting.Command{}, err
		}
		table.Offsets[b.queue(r.topic, id)] = at
	}
	for q, at := range table.Offsets {
		b.offsets.Reset(r.group, r.topic, q.QueueID, at)
	}
	b.log.Info("consumer offsets were reset", slog.String("group", r.group), slog.String("topic", r.topic), slog.Int("queues", len(table.Offsets)), slog.Int64("timestampMs", r.timestampMs))
	return withBody(table)
}

// resetTo returns where a reset sets a queue.
func (b *Broker) resetTo(r *reset, queueID int32) (int64, error) {
	end, err := b.store.MaxOffset(r.topic, queueID)
	switch {
	case err != nil:
		return 0, err
	case r.queueID >= 0 && r.offset != -1:
		begin, err := b.store.MinOffset(r.topic, queueID)
		if begin = max(begin, 0); err == nil && (r.offset < begin || r.offset > end+1) {
			err = remoting.Errorf(remoting.SystemError, "queue %d of %s: offset %d, want %d to %d", queueID, r.topic, r.offset, begin, end+1)
		}
		return r.offset, err
	case r.timestampMs < 0:
		return end, nil
	}
	at, err := b.store.OffsetByTime(r.topic, queueID, r.timestampMs, cq.BoundaryLower)
	return max(at, 0), err
}

// minResetVersion is V3_0_7_SNAPSHOT, the first whose clients can be told of a reset.
const minResetVersion = 28

// resetAtClients tells all members of a group to go on elsewhere.
//
// Source: Broker2Client.resetOffset, 5.5.0.
func (b *Broker) resetAtClients(req *remoting.Command, r *reset, queues int32) (remoting.Command, error) {
	g, online := b.clients.Consumers(r.group)
	if !online {
		return remoting.Command{}, remoting.Errorf(remoting.ConsumerNotOnline, "group %s has no consumer", r.group)
	}
	for i := range g.Members {
		if m := &g.Members[i]; m.Version < minResetVersion {
			return remoting.Command{}, remoting.Errorf(remoting.SystemError, "client %s of version %s cannot be told of a reset", m.ClientID, remoting.VersionName(m.Version))
		}
	}
	table := resetTable{map[remoting.MessageQueue]int64{}}
	type row struct {
		remoting.MessageQueue
		offset int64
	}
	var rows []row
	for id := range queues {
		at, err := b.resetTo(r, id)
		if err != nil {
			return remoting.Command{}, err
		}
		was := b.offsets.Query(r.group, r.topic, id)
		if was == meta.NoOffset {
			return remoting.Command{}, remoting.Errorf(remoting.SystemError, "group %s has no offset for queue %d of %s", r.group, id, r.topic)
		}
		if !r.force {
			at = min(at, was)
		}
		table.Offsets[b.queue(r.topic, id)] = at
		rows = append(rows, row{b.queue(r.topic, id), at})
	}
	asTable, err := remoting.MarshalBody(table)
	if err != nil {
		return remoting.Command{}, err
	}
	type listed struct {
		BrokerName string `json:"brokerName"`
		Offset     int64  `json:"offset"`
		QueueID    int32  `json:"queueId"`
		Topic      string `json:"topic"`
	}
	list := struct {
		Offsets []listed `json:"offsetTable"`
	}{}
	for _, w := range rows {
		list.Offsets = append(list.Offsets, listed{w.BrokerName, w.offset, w.QueueID, w.Topic})
	}
	asList, err := remoting.MarshalBody(list)
	if err != nil {
		return remoting.Command{}, err
	}
	tell := remoting.Command{Code: remoting.ResetConsumerClientOffset, Ext: remoting.Ext{{Key: "topic", Value: r.topic}, {Key: "group", Value: r.group}}}
	tell.Ext.SetInt("timestamp", r.timestampMs)
	tell.Ext.Set("isForce", req.Ext.Get("isForce"))
	for i := range g.Members {
		m := &g.Members[i]
		tell.Body = asTable
		if m.Language == remoting.CPP || req.Language == remoting.CPP {
			tell.Body = asList // its parser takes no objects for keys
		}
		if err := m.Conn.OneWay(&tell); err != nil {
			b.log.Warn("a consumer was not told of a reset", slog.String("group", r.group), slog.String("clientId", m.ClientID), slog.Any("err", err))
		}
	}
	return remoting.Command{Code: remoting.Success, Body: asTable}, nil
}

// statusTime is how long the members of a group may take to say how far they are.
const statusTime = 5 * time.Second

// consumerStatus serves INVOKE_BROKER_TO_GET_CONSUMER_STATUS: all members of a group, or one, say up to where they have consumed a topic.
//
// Source: Broker2Client.getConsumeStatus, 5.5.0.
func (b *Broker) consumerStatus(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	topic, group, clientID := strings.Clone(h.String("topic")), strings.Clone(h.String("group")), strings.Clone(h.StringOr("clientAddr", ""))
	if err := h.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	g, _ := b.clients.Consumers(group)
	members := slices.DeleteFunc(g.Members, func(m clients.Member) bool { return clientID != "" && m.ClientID != clientID })
	if len(members) == 0 {
		c.RespondError(req, remoting.Errorf(remoting.SystemError, "group %s has no such consumer", group))
		return
	}
	for i := range members {
		if m := &members[i]; m.Version < minResetVersion {
			c.RespondError(req, remoting.Errorf(remoting.SystemError, "client %s of version %s does not say how far it is", m.ClientID, remoting.VersionName(m.Version)))
			return
		}
	}
	ticket := c.Hold(req)
	b.services.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, statusTime)
		defer cancel()
		var mu sync.Mutex
		body := struct {
			Table map[string]map[remoting.MessageQueue]int64 `json:"consumerTable"`
		}{map[string]map[remoting.MessageQueue]int64{}}
		var asked sync.WaitGroup
		for i := range members {
			m := &members[i]
			asked.Go(func() {
				said, err := askStatus(ctx, m, topic, group)
				if err != nil {
					b.log.Warn("a consumer does not say how far it is", slog.String("group", group), slog.String("clientId", m.ClientID), slog.Any("err", err))
					return
				}
				mu.Lock()
				defer mu.Unlock()
				body.Table[m.ClientID] = said
			})
		}
		asked.Wait()
		resp, err := withBody(body)
		if err != nil {
			resp = remoting.Command{Code: remoting.SystemError, Remark: err.Error()}
		}
		ticket.Respond(&resp)
	})
}

func askStatus(ctx context.Context, m *clients.Member, topic, group string) (map[remoting.MessageQueue]int64, error) {
	resp, err := m.Conn.Invoke(ctx, &remoting.Command{Code: remoting.GetConsumerStatusFromClient, Ext: remoting.Ext{{Key: "topic", Value: topic}, {Key: "group", Value: group}}})
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		return nil, err
	}
	var said struct {
		Queues map[remoting.MessageQueue]remoting.Int `json:"messageQueueTable"`
	}
	if len(resp.Body) > 0 {
		if err := remoting.UnmarshalBody(resp.Body, &said); err != nil {
			return nil, err
		}
	}
	out := make(map[remoting.MessageQueue]int64, len(said.Queues))
	for q, at := range said.Queues {
		out[q] = int64(at)
	}
	return out, nil
}
