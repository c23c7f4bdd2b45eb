package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/broker/clients"
	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/filter"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// cleanQueues serves CLEAN_EXPIRED_CONSUMEQUEUE: what queues and index keep of expired messages goes, beside what else the store does.
func (b *Broker) cleanQueues(*remoting.Command, *remoting.Fields) (remoting.Command, error) {
	b.store.TrimSoon()
	return success(nil)
}

// cleanLog serves DELETE_EXPIRED_COMMITLOG: log files that have expired go at whatever hour, beside what else the store does.
func (b *Broker) cleanLog(*remoting.Command, *remoting.Fields) (remoting.Command, error) {
	if !b.cleaning.CompareAndSwap(false, true) {
		return success(nil) // it goes on
	}
	b.services.Go(func() {
		defer b.cleaning.Store(false)
		run := b.store.CleanNow(b.ctx)
		b.log.Info("the log was cleaned on request", slog.Int("files", len(run.Removed)))
	})
	return success(nil)
}

// cleanTopics serves CLEAN_UNUSED_TOPIC: queues of topics that are not in the table go. Light queues stay, as their names are in no table; and all do where the table has none of the topics.
//
// Source: DefaultMessageStore.cleanUnusedTopic, 5.5.0.
func (b *Broker) cleanTopics(*remoting.Command, *remoting.Fields) (remoting.Command, error) {
	keys, err := b.store.Queues()
	if err != nil {
		return remoting.Command{}, err
	}
	var unknown []string
	known, last := 0, ""
	for _, k := range keys { // sorted
		if k.Topic == last || k.IsLMQ() || meta.IsSystemTopic(k.Topic, b.o.BrokerClusterName, b.o.BrokerName) {
			continue
		}
		last = k.Topic
		if _, ok := b.topics.Get(last); ok {
			known++
		} else {
			unknown = append(unknown, last)
		}
	}
	if known == 0 && len(unknown) > 0 {
		return remoting.Command{}, remoting.Errorf(remoting.SystemError, "none of the %d topics with queues is in the topic table: it may have been lost, and nothing is removed", len(unknown))
	}
	ctx, cancel := context.WithTimeout(b.ctx, deleteTopicTime)
	defer cancel()
	for _, topic := range unknown {
		if _, err := b.store.DeleteTopic(ctx, topic); err != nil {
			return remoting.Command{}, err
		}
	}
	return success(nil)
}

// maxUnits bounds the units of one answer.
const maxUnits = 10_000

// unit is a unit of a queue as tools see it.
type unit struct {
	Eval      bool  `json:"eval"` // the group's subscription takes it, as far as its tags tell
	PhyOffset int64 `json:"physicOffset"`
	Size      int32 `json:"physicSize"`
	TagsCode  int64 `json:"tagsCode"`
}

// queryUnits serves QUERY_CONSUME_QUEUE: units of a queue from a slot on, and whether a group's subscription takes them.
//
// Source: AdminBrokerProcessor.queryConsumeQueue, 5.5.0.
func (b *Broker) queryUnits(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	topic, queueID := queueOf(h)
	from, count, group := h.Int64("index"), h.Int32("count"), h.StringOr("consumerGroup", "")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	want := int(min(max(count, 1), maxUnits))
	buf := make([]cq.Unit, want)
	n, bounds, ok, err := b.store.Units(topic, queueID, from, buf)
	if err == nil && !ok {
		err = remoting.Errorf(remoting.SystemError, "there is no queue %d of %s", queueID, topic)
	}
	if err != nil {
		return remoting.Command{}, err
	}
	for got := n; n > 0 && n < want && got > 0; n += got { // a read ends with the queue's file
		if got, _, _, err = b.store.Units(topic, queueID, from+int64(n), buf[n:]); err != nil {
			return remoting.Command{}, err
		}
	}
	if n == 0 {
		return success(nil)
	}
	body := struct {
		Filter       string                `json:"filterData,omitempty"`
		Max          int64                 `json:"maxQueueIndex"`
		Min          int64                 `json:"minQueueIndex"`
		Units        []unit                `json:"queueData"`
		Subscription *clients.Subscription `json:"subscriptionData,omitempty"`
	}{Max: bounds.Max, Min: bounds.Min, Units: make([]unit, n)}
	var f *filter.Filter
	if strings.TrimSpace(group) != "" {
		if body.Subscription, _, _ = b.clients.Subscription(group, topic); body.Subscription != nil {
			f, _ = body.Subscription.Filter() // what does not compile takes nothing away here
		}
	}
	if f != nil {
		body.Filter = fmt.Sprintf("%s %s", body.Subscription.ExpressionType, body.Subscription.Expression)
	}
	for i, u := range buf[:n] {
		body.Units[i] = unit{f == nil || f.MatchUnit(u.TagsCode), u.PhyOffset, u.Size, u.TagsCode}
	}
	return withBody(body)
}

// Status of CHECK_ROCKSDB_CQ_WRITE_PROGRESS. Source: CheckRocksdbCqWriteResult, 5.5.0.
const (
	checkOK int32 = iota
	checkDiffers
	checkRunning
	checkFailed
)

// checkAnswer is the answer of CHECK_ROCKSDB_CQ_WRITE_PROGRESS.
type checkAnswer struct {
	Result string `json:"checkResult,omitempty"`
	Status int32  `json:"checkStatus"`
}

// checkWait is how long a comparison may take to be answered with its outcome.
const checkWait = 2 * time.Second

// checkRocksDB serves CHECK_ROCKSDB_CQ_WRITE_PROGRESS: it compares bounds and units of all queues, or of those of one topic, in files with those in RocksDB. What takes longer than checkWait goes on, and its
// outcome is logged, as every one is: mqadmin shows the words of checkFailed alone, and for all else that the log has them.
//
// Source: AdminBrokerProcessor.checkRocksdbCqWriteProgress, 5.5.0, which never answers with the outcome.
func (b *Broker) checkRocksDB(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	topic := strings.TrimSpace(strings.Clone(h.StringOr("topic", "")))
	if !b.checking.CompareAndSwap(false, true) {
		answerBody(c, req, checkAnswer{"an earlier comparison goes on; its outcome will be in the broker's log", checkRunning})
		return
	}
	ticket := c.Hold(req)
	b.services.Go(func() {
		outcome := make(chan checkAnswer, 1)
		b.services.Go(func() {
			defer b.checking.Store(false)
			a := checkResult(b.store.CompareSides(b.ctx, topic))
			level := slog.LevelInfo
			if a.Status != checkOK {
				level = slog.LevelWarn
			}
			b.log.Log(b.ctx, level, "consume queues in files and in RocksDB were compared", slog.Int("status", int(a.Status)), slog.String("result", a.Result))
			outcome <- a
		})
		a := checkAnswer{"the comparison goes on; its outcome will be in the broker's log", checkRunning}
		timer := time.NewTimer(checkWait)
		defer timer.Stop()
		select {
		case a = <-outcome:
		case <-timer.C:
		}
		resp, err := withBody(a)
		if err != nil {
			resp = remoting.Command{Code: remoting.SystemError, Remark: err.Error()}
		}
		ticket.Respond(&resp)
	})
}

// checkResult puts the outcome of a comparison into words.
func checkResult(r store.SidesReport, err error) checkAnswer {
	compared := fmt.Sprintf("%d queues and %d units compared, %d light queues that one side has alone left out", r.Queues, r.Units, r.Alone)
	switch {
	case errors.Is(err, store.ErrNotCombined):
		return checkAnswer{"not possible: " + err.Error(), checkFailed}
	case errors.Is(err, store.ErrRebuilding):
		return checkAnswer{err.Error() + topicsText(&r), checkRunning}
	case err != nil:
		return checkAnswer{fmt.Sprintf("%v (%s)", err, compared), checkFailed}
	case r.Different > 0:
		return checkAnswer{fmt.Sprintf("%d queues differ (%s)%s; %s", r.Different, compared, topicsText(&r), strings.Join(r.Differences, "; ")), checkDiffers}
	}
	return checkAnswer{"equal: " + compared, checkOK}
}

// topicsText lists what is to be told by topic, with a semicolon before each.
func topicsText(r *store.SidesReport) string {
	var b strings.Builder
	for _, t := range r.Topics {
		if t.Different > 0 {
			fmt.Fprintf(&b, "; topic %s: %d of %d queues differ", t.Topic, t.Different, t.Queues)
		} else {
			fmt.Fprintf(&b, "; topic %s: %d units of %d queues are on one side alone", t.Topic, t.Lacking, t.Queues)
		}
	}
	if r.MoreTopics > 0 {
		fmt.Fprintf(&b, "; and %d topics more", r.MoreTopics)
	}
	return b.String()
}

// haStatus serves GET_BROKER_HA_STATUS: a master without replicas.
func (b *Broker) haStatus(*remoting.Command, *remoting.Fields) (remoting.Command, error) {
	type client struct {
		Activated   bool  `json:"activated"`
		LastRead    int64 `json:"lastReadTimestamp"`
		LastWrite   int64 `json:"lastWriteTimestamp"`
		Flushed     int64 `json:"masterFlushOffset"`
		Max         int64 `json:"maxOffset"`
		Transferred int64 `json:"transferredByteInSecond"`
	}
	return withBody(struct {
		Client      client     `json:"haClientRuntimeInfo"`
		Connections []struct{} `json:"haConnectionInfo"`
		InSync      int        `json:"inSyncSlaveNums"`
		Master      bool       `json:"master"`
		Max         int64      `json:"masterCommitLogMaxOffset"`
	}{Connections: []struct{}{}, Master: true, Max: b.store.Positions().Wrote})
}

// memberGroup serves GET_BROKER_MEMBER_GROUP: the broker alone has its name.
func (b *Broker) memberGroup(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	cluster, name := h.String("clusterName"), h.String("brokerName")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	type group struct {
		Addrs   map[string]string `json:"brokerAddrs"`
		Name    string            `json:"brokerName"`
		Cluster string            `json:"cluster"`
	}
	g := group{map[string]string{}, name, cluster}
	if cluster == b.o.BrokerClusterName && name == b.o.BrokerName {
		g.Addrs["0"] = b.announced.String()
	}
	return withBody(struct {
		Group group `json:"brokerMemberGroup"`
	}{g})
}
