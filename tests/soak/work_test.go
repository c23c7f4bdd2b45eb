package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
)

const (
	topic     = "Soak"
	queues    = 8
	producers = 4
	groups    = 4
	members   = 2 // of each group
	bodyBytes = 1000
	// perSecond is how many messages each producer sends.
	perSecond = 250

	callTime   = 10 * time.Second
	holdTime   = 5 * time.Second        // of a pull
	retryPause = 20 * time.Millisecond  // after a call that failed
	commitStep = 500 * time.Millisecond // between commits, and between looks at the members of the group
)

func groupName(i int) string { return fmt.Sprintf("soak_%d", i) }

// work is what producers and consumers share.
type work struct {
	ledger *ledger
	fail   func(error) // ends everything

	mu   sync.Mutex
	addr string // of the broker; "": it is down
	up   *sync.Cond
}

func newWork(l *ledger, fail func(error)) *work {
	w := &work{ledger: l, fail: fail}
	w.up = sync.NewCond(&w.mu)
	return w
}

// serves says where the broker is; "": it is down.
func (w *work) serves(addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addr = addr
	w.up.Broadcast()
}

// broker returns where the broker is; false when ctx ended first.
func (w *work) broker(ctx context.Context) (string, bool) {
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.up.Broadcast()
	})
	defer stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.addr == "" && ctx.Err() == nil {
		w.up.Wait()
	}
	return w.addr, ctx.Err() == nil
}

// passing tells whether the broker may answer so for a while, for instance because it has just been started, or is about to stop.
func passing(code int32) bool {
	return slices.Contains([]int32{
		remoting.SystemBusy, remoting.ServiceNotAvailable, remoting.FlushDiskTimeout, remoting.SubscriptionNotExist, remoting.SubscriptionNotLatest, remoting.SubscriptionGroupNotExist, remoting.GoAway,
	}, code)
}

// call sends a request. ok is false where it has to be tried again: the connection broke, or the answer says so; any other answer than those wanted fails everything.
func (w *work) call(ctx context.Context, c *remoting.Client, addr string, req *remoting.Command, wanted ...int32) (resp *remoting.Command, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	resp, err := c.Invoke(ctx, addr, req)
	switch {
	case err != nil:
		return nil, false
	case slices.Contains(wanted, resp.Code) || resp.Code == remoting.Success:
		return resp, true
	case !passing(resp.Code):
		w.fail(fmt.Errorf("%s: %w", remoting.RequestCodeName(req.Code), resp.Error()))
	}
	return nil, false
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// produce sends messages until ctx ends; the last one is sent until it is acknowledged, or until hard ends.
func (w *work) produce(ctx, hard context.Context, producer int) {
	c, err := remoting.NewClient(remoting.DefaultClientOptions())
	if err != nil {
		w.fail(err)
		return
	}
	defer c.Close()
	start := time.Now()
	for seq := int64(0); ctx.Err() == nil; seq++ {
		sleep(ctx, time.Until(start.Add(time.Duration(seq)*time.Second/perSecond)))
		queue := int(seq+int64(producer)) % queues
		body := fmt.Sprintf("%d %d ", producer, seq)
		body += strings.Repeat("b", bodyBytes-len(body))
		props := message.AppendProperty(nil, message.PropertyKeys, fmt.Sprintf("p%d-%d", producer, seq))
		for hard.Err() == nil {
			addr, ok := w.broker(hard)
			if !ok {
				return
			}
			resp, ok := w.call(hard, c, addr, load.SendCommand(topic, int32(queue), string(props), []byte(body)))
			if !ok {
				sleep(hard, retryPause)
				continue
			}
			offset, err := strconv.ParseInt(resp.Ext.Get("queueOffset"), 10, 64)
			if err == nil {
				err = w.ledger.ack(queue, offset, id{producer, seq})
			}
			if err != nil {
				w.fail(err)
			}
			break
		}
	}
}

// idOf reads a body.
func idOf(body []byte) (m id, err error) {
	_, err = fmt.Sscanf(string(body[:min(len(body), 40)]), "%d %d ", &m.producer, &m.seq)
	if err == nil && len(body) != bodyBytes {
		err = fmt.Errorf("a body of %d bytes", len(body))
	}
	return m, err
}

// consume is a member of a group, until ctx ends.
func (w *work) consume(ctx context.Context, group, name string) {
	for ctx.Err() == nil {
		if addr, ok := w.broker(ctx); ok {
			w.session(ctx, addr, group, name)
			sleep(ctx, retryPause)
		}
	}
}

// session is a member's life on one connection, until that breaks.
func (w *work) session(ctx context.Context, addr, group, name string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o := remoting.DefaultClientOptions()
	changed := make(chan struct{}, 1)
	o.Handler = remoting.Mux{remoting.NotifyConsumerIDsChanged: func(c *remoting.Conn, req *remoting.Command) {
		c.Respond(req, &remoting.Command{})
		select {
		case changed <- struct{}{}:
		default:
		}
	}}
	o.OnClose = func(*remoting.Conn, error) { cancel() }
	c, err := remoting.NewClient(o)
	if err != nil {
		w.fail(err)
		return
	}
	defer c.Close()
	beat := fmt.Appendf(nil, `{"clientID":%q,"consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":%q,"messageModel":"CLUSTERING",`+
		`"subscriptionDataSet":[{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":1,"tagsSet":[],"topic":%q}],"unitMode":false}],"producerDataSet":[]}`, name, group, topic)
	shares := map[int]*share{}
	defer func() {
		for _, s := range shares {
			s.end()
		}
	}()
	for ctx.Err() == nil {
		if _, ok := w.call(ctx, c, addr, &remoting.Command{Code: remoting.Heartbeat, Body: beat}); !ok {
			return
		}
		resp, ok := w.call(ctx, c, addr, &remoting.Command{Code: remoting.GetConsumerListByGroup, Ext: remoting.Ext{{Key: "consumerGroup", Value: group}}})
		if !ok {
			return
		}
		var list struct {
			IDs []string `json:"consumerIdList"`
		}
		if err := remoting.UnmarshalBody(resp.Body, &list); err != nil {
			w.fail(err)
			return
		}
		mine := shareOf(list.IDs, name)
		for q, s := range shares {
			if !slices.Contains(mine, q) {
				s.end()
				delete(shares, q)
			}
		}
		for _, q := range mine {
			if shares[q] == nil {
				shares[q] = w.take(ctx, c, addr, group, q)
			}
		}
		for _, s := range shares {
			s.commit(c, addr, group)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(commitStep):
		}
	}
}

// shareOf is the queues of a member: as many on end as the others have, in the order of their names.
//
// Source: AllocateMessageQueueAveragely, 5.5.0.
func shareOf(ids []string, name string) (mine []int) {
	slices.Sort(ids)
	i := slices.Index(ids, name)
	if i < 0 {
		return nil
	}
	n := len(ids)
	for q := queues * i / n; q < queues*(i+1)/n; q++ {
		mine = append(mine, q)
	}
	return mine
}

// share is a queue that a member consumes.
type share struct {
	queue  int
	end    func()
	mu     sync.Mutex
	next   int64 // to be committed; -1: nothing is known
	stored int64
}

// take consumes a queue until the share ends.
func (w *work) take(ctx context.Context, c *remoting.Client, addr, group string, queue int) *share {
	ctx, cancel := context.WithCancel(ctx)
	s := &share{queue: queue, next: -1}
	done := make(chan struct{})
	s.end = func() {
		cancel()
		<-done
		s.commit(c, addr, group)
	}
	go func() {
		defer close(done)
		w.pulls(ctx, c, addr, group, s)
	}()
	return s
}

func (w *work) pulls(ctx context.Context, c *remoting.Client, addr, group string, s *share) {
	next := int64(-1)
	for ctx.Err() == nil && next < 0 {
		resp, ok := w.call(ctx, c, addr, &remoting.Command{Code: remoting.QueryConsumerOffset, Ext: remoting.Ext{
			{Key: "consumerGroup", Value: group},
			{Key: "topic", Value: topic},
			{Key: "queueId", Value: strconv.Itoa(s.queue)},
			{Key: "setZeroIfNotFound", Value: "false"},
		}}, remoting.QueryNotFound)
		switch {
		case !ok:
			sleep(ctx, retryPause)
		case resp.Code == remoting.QueryNotFound:
			next = 0
		default:
			next, _ = strconv.ParseInt(resp.Ext.Get("offset"), 10, 64)
		}
	}
	for ctx.Err() == nil {
		resp, ok := w.call(ctx, c, addr, load.PullCommand(group, topic, int32(s.queue), next, 32, holdTime), remoting.PullNotFound, remoting.PullRetryImmediately, remoting.PullOffsetMoved)
		if !ok {
			sleep(ctx, retryPause)
			continue
		}
		to, err := strconv.ParseInt(resp.Ext.Get("nextBeginOffset"), 10, 64)
		switch {
		case err != nil:
		case resp.Code == remoting.Success:
			err = w.took(group, s.queue, next, resp.Body)
		case to > next:
			err = w.ledger.moved(group, s.queue, to)
		}
		if err != nil {
			w.fail(err)
			return
		}
		next = to
		s.mu.Lock()
		s.next = next
		s.mu.Unlock()
	}
}

// took notes the messages of an answer, which begin at that offset.
func (w *work) took(group string, queue int, at int64, body []byte) error {
	for len(body) > 0 {
		var r message.Record
		if err := r.Decode(body, true); err != nil {
			return fmt.Errorf("queue %d at %d: %w", queue, at, err)
		}
		m, err := idOf(r.Body)
		if err == nil && (r.QueueOffset != at || int(r.QueueID) != queue) {
			err = fmt.Errorf("a record of queue %d at %d", r.QueueID, r.QueueOffset)
		}
		if err != nil {
			return fmt.Errorf("queue %d at %d: %w", queue, at, err)
		}
		if err := w.ledger.consume(group, queue, at, m, r.PhyOffset+int64(r.TotalSize)); err != nil {
			return err
		}
		body = body[r.TotalSize:]
		at++
	}
	return nil
}

// commit tells the broker how far the queue is consumed. One that fails is made up for by the next.
func (s *share) commit(c *remoting.Client, addr, group string) {
	s.mu.Lock()
	next := s.next
	s.mu.Unlock()
	if next < 0 || next == s.stored {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	resp, err := c.Invoke(ctx, addr, &remoting.Command{Code: remoting.UpdateConsumerOffset, Ext: remoting.Ext{
		{Key: "consumerGroup", Value: group},
		{Key: "topic", Value: topic},
		{Key: "queueId", Value: strconv.Itoa(s.queue)},
		{Key: "commitOffset", Value: strconv.FormatInt(next, 10)},
	}})
	if err == nil && resp.Code == remoting.Success {
		s.stored = next
	}
}

// errDone ends the run in order.
var errDone = errors.New("done")
