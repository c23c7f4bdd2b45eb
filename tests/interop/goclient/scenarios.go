package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func send(c *client) (any, error) {
	large := strings.Repeat("x", 5000) // the client compresses it
	if err := c.send("sync", large); err != nil {
		return nil, err
	}
	answers := make(chan error, 20)
	for i := range cap(answers) {
		if err := c.producer.SendAsync(c.ctx, func(_ context.Context, r *primitive.SendResult, err error) {
			if err == nil && r.Status != primitive.SendOK {
				err = fmt.Errorf("status %v", r.Status)
			}
			answers <- err
		}, c.message("A", "async"+strconv.Itoa(i))); err != nil {
			return nil, err
		}
	}
	for range cap(answers) {
		if err := <-answers; err != nil {
			return nil, err
		}
	}
	if err := c.producer.SendOneWay(c.ctx, c.message("A", "oneway")); err != nil {
		return nil, err
	}
	p, err := c.push("c", everything, nil)
	if err != nil {
		return nil, err
	}
	got, err := p.waitFor(23)
	return map[string]any{"consumed": len(got), "largeIsWhole": slices.Contains(got, large), "oneway": slices.Contains(got, "oneway")}, err
}

func batch(c *client) (any, error) {
	var messages []*primitive.Message
	for i := range 10 {
		messages = append(messages, c.message([]string{"even", "odd"}[i%2], "b"+strconv.Itoa(i)))
	}
	r, err := c.producer.SendSync(c.ctx, messages...)
	if err != nil {
		return nil, err
	}
	p, err := c.push("c", consumer.MessageSelector{Type: consumer.TAG, Expression: "odd"}, nil)
	if err != nil {
		return nil, err
	}
	odd, err := p.waitFor(5)
	return map[string]any{"ok": r.Status == primitive.SendOK, "ids": len(strings.Split(r.OffsetMsgID, ",")), "odd": odd}, err
}

func tags(c *client) (any, error) {
	for _, tag := range []string{"A", "B", "C", "A"} {
		if err := c.sendMessage(c.message(tag, tag)); err != nil {
			return nil, err
		}
	}
	if err := c.send("last"); err != nil {
		return nil, err
	}
	p, err := c.push("c", consumer.MessageSelector{Type: consumer.TAG, Expression: "A || B"}, nil)
	if err != nil {
		return nil, err
	}
	return p.waitFor(4)
}

func sql(c *client) (any, error) {
	for i := range 10 {
		m := c.message("A", "s"+strconv.Itoa(i))
		m.WithProperty("a", strconv.Itoa(i))
		m.WithProperty("b", []string{"x", "y"}[i%2])
		if err := c.sendMessage(m); err != nil {
			return nil, err
		}
	}
	p, err := c.push("c", consumer.MessageSelector{Type: consumer.SQL92, Expression: "a > 5 AND b = 'x'"}, nil)
	if err != nil {
		return nil, err
	}
	return p.waitFor(2)
}

// held sends a message while the consumer's pulls wait: it comes in a fraction of the time that they wait.
func held(c *client) (any, error) {
	if err := c.send("first"); err != nil {
		return nil, err
	}
	p, err := c.push("c", consumer.MessageSelector{Type: consumer.TAG, Expression: "A"}, nil)
	if err != nil {
		return nil, err
	}
	if _, err := p.waitFor(1); err != nil {
		return nil, err
	}
	time.Sleep(time.Second) // all queues have been pulled to their end by now
	if err := c.sendMessage(c.message("B", "not wanted")); err != nil {
		return nil, err
	}
	sent := time.Now()
	if err := c.send("second"); err != nil {
		return nil, err
	}
	got, err := p.waitFor(2)
	return map[string]any{"got": got, "beforeTheEndOfTheWait": time.Since(sent) < 10*time.Second}, err
}

// pull pulls a queue's messages, and from where it has none.
func pull(c *client) (any, error) {
	r, err := c.producer.SendSync(c.ctx, c.message("A", "p"))
	if err != nil {
		return nil, err
	}
	pc, err := consumer.NewPullConsumer(consumer.WithNsResolver(c.resolver()), consumer.WithGroupName("go-pull"), consumer.WithInstance("c-pull"))
	if err != nil {
		return nil, err
	}
	if err := pc.Subscribe(c.topic, everything); err != nil {
		return nil, err
	}
	if err := pc.Start(); err != nil {
		return nil, err
	}
	c.ends = append(c.ends, pc.Shutdown)
	from := func(q *primitive.MessageQueue, offset int64) (string, error) {
		got, err := pc.PullFrom(c.ctx, q, offset, 32)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %d next %d", status[got.Status], len(got.GetMessageExts()), got.NextBeginOffset), nil
	}
	there := ""
	for until := time.Now().Add(limit); !strings.HasPrefix(there, "found"); { // once the message is in its queue
		if there, err = from(r.MessageQueue, 0); err != nil || time.Now().After(until) {
			return there, err
		}
	}
	beyond, err := from(r.MessageQueue, 100)
	if err != nil {
		return nil, err
	}
	empty, err := from(&primitive.MessageQueue{Topic: c.topic, BrokerName: r.MessageQueue.BrokerName, QueueId: (r.MessageQueue.QueueId + 1) % 4}, 5)
	return map[string]any{"there": there, "beyond": beyond, "empty": empty}, err
}

var status = map[primitive.PullStatus]string{
	primitive.PullFound: "found", primitive.PullNoNewMsg: "no new", primitive.PullNoMsgMatched: "no match", primitive.PullOffsetIllegal: "illegal", primitive.PullBrokerTimeout: "timeout",
}

// orderly has each queue come in its order, to one member and then to another that takes the queues' locks over. The first one ends before: this client gives back no lock of a queue that
// it loses to another member, so that one waits until the broker lets the lock expire.
func orderly(c *client) (any, error) {
	sharded, err := rocketmq.NewProducer(producer.WithNsResolver(c.resolver()), producer.WithGroupName("go-pg-orderly-sharded"), producer.WithInstanceName("s-orderly"),
		producer.WithQueueSelector(producer.NewHashQueueSelector()))
	if err != nil {
		return nil, err
	}
	if err := sharded.Start(); err != nil {
		return nil, err
	}
	c.ends = append(c.ends, sharded.Shutdown)
	out := map[string]any{}
	sent := 0
	for _, name := range []string{"one", "two"} {
		for range 40 {
			m := c.message("A", strconv.Itoa(sent)).WithShardingKey(strconv.Itoa(sent % 4))
			if _, err := sharded.SendSync(c.ctx, m); err != nil {
				return nil, err
			}
			sent++
		}
		p, err := c.push(name, everything, nil, consumer.WithConsumerOrder(true))
		if err != nil {
			return nil, err
		}
		got, err := p.waitFor(40)
		if err != nil {
			return nil, err
		}
		if err := p.Shutdown(); err != nil {
			return nil, err
		}
		next := map[int]int64{}
		inOrder := true
		for _, m := range p.got() {
			before, again := next[m.Queue.QueueId]
			inOrder = inOrder && (!again || m.QueueOffset == before)
			next[m.Queue.QueueId] = m.QueueOffset + 1
		}
		out[name] = map[string]any{"messages": len(got), "inOrder": inOrder, "queues": len(next) > 1}
	}
	return out, nil
}

func broadcast(c *client) (any, error) {
	if err := c.send("0"); err != nil {
		return nil, err
	}
	var all [][]string
	var members []*push
	for _, name := range []string{"one", "two"} {
		p, err := c.push(name, everything, nil, consumer.WithConsumerModel(consumer.BroadCasting))
		if err != nil {
			return nil, err
		}
		members = append(members, p)
	}
	for _, p := range members {
		got, err := p.waitFor(1)
		if err != nil {
			return nil, err
		}
		all = append(all, got)
	}
	return all, nil
}

// rebalance has two members share the queues; when one goes, the other has them all.
func rebalance(c *client) (any, error) {
	if err := c.send("0"); err != nil {
		return nil, err
	}
	one, err := c.push("one", everything, nil)
	if err != nil {
		return nil, err
	}
	if _, err := one.waitFor(1); err != nil {
		return nil, err
	}
	two, err := c.push("two", everything, nil)
	if err != nil {
		return nil, err
	}
	sent := 1
	next := func() error { sent++; return c.send(strconv.Itoa(sent - 1)) }
	for until := time.Now().Add(limit); len(two.got()) == 0; time.Sleep(50 * time.Millisecond) { // the second one gets queues
		if err := next(); err != nil || time.Now().After(until) {
			return nil, fmt.Errorf("the second member gets nothing: %w", err)
		}
	}
	if err := two.Shutdown(); err != nil {
		return nil, err
	}
	for range 8 {
		if err := next(); err != nil {
			return nil, err
		}
	}
	all := func() int {
		distinct := map[string]bool{}
		for _, m := range append(one.got(), two.got()...) {
			distinct[string(m.Body)] = true
		}
		return len(distinct)
	}
	err = await("all messages", func() bool { return all() >= sent })
	return map[string]any{"missing": sent - all()}, err
}

func delay(c *client) (any, error) {
	sent := time.Now()
	if err := c.sendMessage(c.message("A", "later").WithDelayTimeLevel(2)); err != nil {
		return nil, err
	}
	if err := c.send("now"); err != nil {
		return nil, err
	}
	p, err := c.push("c", everything, nil)
	if err != nil {
		return nil, err
	}
	got, err := p.waitFor(2)
	return map[string]any{"got": got, "notBeforeItsTime": time.Since(sent) >= time.Second}, err
}

// answers commits, rolls back, or says nothing until it is asked, as the message's body says.
type answers struct {
	mu    sync.Mutex
	asked map[string]bool
}

func (a *answers) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	switch string(m.Body) {
	case "committed":
		return primitive.CommitMessageState
	case "rolled back":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (a *answers) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[string(m.Body)] = true
	return primitive.CommitMessageState
}

func transaction(c *client) (any, error) {
	a := &answers{asked: map[string]bool{}}
	p, err := rocketmq.NewTransactionProducer(a, producer.WithNsResolver(c.resolver()), producer.WithGroupName("go-pg-transactions"), producer.WithInstanceName("t-transaction"))
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	c.ends = append(c.ends, p.Shutdown)
	for _, body := range []string{"committed", "rolled back", "unknown"} {
		if _, err := p.SendMessageInTransaction(c.ctx, c.message("A", body)); err != nil {
			return nil, err
		}
	}
	consumer, err := c.push("c", everything, nil)
	if err != nil {
		return nil, err
	}
	got, err := consumer.waitFor(2)
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := []string{}
	for body := range a.asked {
		asked = append(asked, body)
	}
	return map[string]any{"got": got, "asked": asked}, err
}

// retry wants a message later, and gets it again, each time with a higher count. Another member has made the group's retry topic known before: the client looks for it every 20 s.
func retry(c *client) (any, error) {
	if err := c.send("first"); err != nil {
		return nil, err
	}
	early, err := c.push("early", everything, nil)
	if err != nil {
		return nil, err
	}
	if _, err := early.waitFor(1); err != nil {
		return nil, err
	}
	if err := early.Shutdown(); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	times := []int32{}
	if _, err := c.push("c", everything, func(m *primitive.MessageExt) consumer.ConsumeResult {
		mu.Lock()
		defer mu.Unlock()
		if string(m.Body) == "r" {
			times = append(times, m.ReconsumeTimes)
		}
		if len(times) < 4 {
			return consumer.ConsumeRetryLater
		}
		return consumer.ConsumeSuccess
	}); err != nil {
		return nil, err
	}
	if err := c.send("r"); err != nil {
		return nil, err
	}
	err = await("the fourth time", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(times) >= 4
	})
	return times, err
}
