package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const limit = time.Minute // of whatever is waited for

// client is what a scenario works with: a producer, and consumers as it makes them. Topic and group are named as the scenario.
type client struct {
	name, namesrv string
	topic         string
	ctx           context.Context
	stop          context.CancelFunc
	producer      rocketmq.Producer
	ends          []func() error
}

func newClient(name, namesrv string) (*client, error) {
	c := &client{name: name, namesrv: namesrv, topic: "Go-" + name}
	c.ctx, c.stop = context.WithTimeout(context.Background(), 2*limit)
	var err error
	if c.producer, err = rocketmq.NewProducer(producer.WithNsResolver(c.resolver()), producer.WithGroupName("go-pg-"+name), producer.WithInstanceName("p-"+name), producer.WithRetry(2)); err != nil {
		return nil, err
	}
	if err := c.producer.Start(); err != nil {
		return nil, err
	}
	c.ends = append(c.ends, c.producer.Shutdown)
	return c, nil
}

func (c *client) resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{c.namesrv})
}

func (c *client) close() {
	for _, end := range slices.Backward(c.ends) {
		_ = end() // what the scenario is about has been seen
	}
	c.stop()
}

func (c *client) message(tag, body string) *primitive.Message {
	return primitive.NewMessage(c.topic, []byte(body)).WithTag(tag)
}

// send sends messages one by one, A as their tag.
func (c *client) send(bodies ...string) error {
	for _, body := range bodies {
		if err := c.sendMessage(c.message("A", body)); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) sendMessage(m *primitive.Message) error {
	r, err := c.producer.SendSync(c.ctx, m)
	if err != nil {
		return err
	}
	if r.Status != primitive.SendOK {
		return fmt.Errorf("send: status %v", r.Status)
	}
	return nil
}

// push is a push consumer, and what it has got.
type push struct {
	rocketmq.PushConsumer
	mu       sync.Mutex
	messages []*primitive.MessageExt
}

var everything = consumer.MessageSelector{}

// push starts a consumer of the topic from its beginning; answer may be nil.
func (c *client) push(instance string, selector consumer.MessageSelector, answer func(m *primitive.MessageExt) consumer.ConsumeResult, options ...consumer.Option) (*push, error) {
	options = append([]consumer.Option{
		consumer.WithNsResolver(c.resolver()), consumer.WithGroupName("go-" + c.name), consumer.WithInstance(instance + "-" + c.name),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithRebalanceLockInterval(time.Second),
	}, options...)
	pc, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return nil, err
	}
	p := &push{PushConsumer: pc}
	if err := pc.Subscribe(c.topic, selector, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.messages = append(p.messages, messages...)
		if answer != nil {
			return answer(messages[0]), nil // one comes at a time
		}
		return consumer.ConsumeSuccess, nil
	}); err != nil {
		return nil, err
	}
	if err := pc.Start(); err != nil {
		return nil, err
	}
	c.ends = append(c.ends, pc.Shutdown)
	return p, nil
}

// got returns what has come, in its order.
func (p *push) got() []*primitive.MessageExt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.messages)
}

func bodies(messages []*primitive.MessageExt) (list []string) {
	for _, m := range messages {
		list = append(list, string(m.Body))
	}
	slices.Sort(list)
	return list
}

// waitFor returns the bodies, sorted, once there are n.
func (p *push) waitFor(n int) ([]string, error) {
	err := await(fmt.Sprintf("%d messages", n), func() bool { return len(p.got()) >= n })
	if err != nil {
		return nil, fmt.Errorf("%w, there are %v", err, bodies(p.got()))
	}
	return bodies(p.got()), nil
}

func await(what string, so func() bool) error {
	for until := time.Now().Add(limit); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			return fmt.Errorf("waited too long for %s", what)
		}
	}
	return nil
}
