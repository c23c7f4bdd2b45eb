package load

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
)

// Remote is a topic of a broker that is driven over the network.
type Remote struct {
	Addr   string // of the broker
	Topic  string
	Queues int
}

// callTime is how long a broker may take for a call that is not measured.
const callTime = 30 * time.Second

// Call sends a request that is not measured, over a connection of its own, and returns the answer. One with a code other than 0 is an error.
func (r *Remote) Call(ctx context.Context, req *remoting.Command) (*remoting.Command, error) {
	c, err := remoting.NewClient(remoting.DefaultClientOptions())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	resp, err := c.Invoke(ctx, r.Addr, req)
	if err == nil {
		err = resp.Error()
	}
	return resp, errors.Join(err, c.Close())
}

// Make makes the topic.
func (r *Remote) Make(ctx context.Context) error {
	n := strconv.Itoa(r.Queues)
	_, err := r.Call(ctx, &remoting.Command{Code: remoting.UpdateAndCreateTopic, Ext: remoting.Ext{
		{Key: "topic", Value: r.Topic},
		{Key: "defaultTopic", Value: "TBW102"},
		{Key: "readQueueNums", Value: n},
		{Key: "writeQueueNums", Value: n},
		{Key: "perm", Value: "6"},
		{Key: "topicFilterType", Value: "SINGLE_TAG"},
		{Key: "topicSysFlag", Value: "0"},
		{Key: "order", Value: "false"},
	}})
	return err
}

// Ends returns the offset behind the last message of each queue.
func (r *Remote) Ends(ctx context.Context) ([]int64, error) {
	ends := make([]int64, r.Queues)
	for i := range ends {
		resp, err := r.Call(ctx, &remoting.Command{Code: remoting.GetMaxOffset, Ext: remoting.Ext{{Key: "topic", Value: r.Topic}, {Key: "queueId", Value: strconv.Itoa(i)}}})
		if err != nil {
			return nil, err
		}
		if ends[i], err = strconv.ParseInt(resp.Ext.Get("offset"), 10, 64); err != nil {
			return nil, fmt.Errorf("end of %s/%d: %w", r.Topic, i, err)
		}
	}
	return ends, nil
}

// awaitStep is how often Await looks.
const awaitStep = 5 * time.Millisecond

// Await returns when all messages that were sent can be read.
func (r *Remote) Await(ctx context.Context, messages int) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	for {
		ends, err := r.Ends(ctx)
		if err != nil {
			return err
		}
		have := 0
		for _, end := range ends {
			have += int(end)
		}
		if have == messages {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("topic %s has %d messages, want %d: %w", r.Topic, have, messages, ctx.Err())
		case <-time.After(awaitStep):
		}
	}
}

// SendCommand is a send as the Java client makes it.
func SendCommand(topic string, queueID int32, properties string, body []byte) *remoting.Command {
	return &remoting.Command{Code: remoting.SendMessageV2, Body: body, Ext: remoting.Ext{
		{Key: "a", Value: "load_producer"},
		{Key: "b", Value: topic},
		{Key: "c", Value: "TBW102"},
		{Key: "d", Value: "4"},
		{Key: "e", Value: strconv.Itoa(int(queueID))},
		{Key: "f", Value: "0"},
		{Key: "g", Value: strconv.FormatInt(time.Now().UnixMilli(), 10)},
		{Key: "h", Value: "0"},
		{Key: "i", Value: properties},
		{Key: "j", Value: "0"},
		{Key: "k", Value: "false"},
		{Key: "m", Value: "false"},
		{Key: "n", Value: "broker"},
	}}
}

// offsetDigits is how long the offset in a pull is, with zeros in front: so a frame can be used for all.
const offsetDigits = 12

// PullCommand is a pull of count messages, as the Java client makes it for one who takes all of them; it waits so long for one.
func PullCommand(group, topic string, queueID int32, offset int64, count int, wait time.Duration) *remoting.Command {
	flags := 1 << 2 // the subscription stands in the header
	if wait > 0 {
		flags |= 1 << 1
	}
	return &remoting.Command{Code: remoting.PullMessage, Ext: remoting.Ext{
		{Key: "commitOffset", Value: "0"},
		{Key: "consumerGroup", Value: group},
		{Key: "expressionType", Value: "TAG"},
		{Key: "maxMsgNums", Value: strconv.Itoa(count)},
		{Key: "queueId", Value: strconv.Itoa(int(queueID))},
		{Key: "queueOffset", Value: fmt.Sprintf("%0*d", offsetDigits, offset)},
		{Key: "subVersion", Value: "0"},
		{Key: "subscription", Value: "*"},
		{Key: "suspendTimeoutMillis", Value: strconv.FormatInt(wait.Milliseconds(), 10)},
		{Key: "sysFlag", Value: strconv.Itoa(flags)},
		{Key: "topic", Value: topic},
	}}
}

// Check pulls all messages of the topic, and fails unless they are those of numbers 0 to messages-1, each once and in the queue that Send puts it in.
func (r *Remote) Check(ctx context.Context, messages int) error {
	if err := r.Await(ctx, messages); err != nil {
		return err
	}
	seen := make([]bool, messages)
	n := 0
	_, err := r.pull(ctx, PullLoad{Group: "load_check", Consumers: 1}, func(queue int, record []byte) error {
		var m message.Record
		if err := m.Decode(record, true); err != nil {
			return fmt.Errorf("%s/%d: %w", r.Topic, queue, err)
		}
		number, err := numberOf(m.Body)
		switch {
		case err != nil || number < 0 || number >= messages || number%r.Queues != queue:
			return fmt.Errorf("%s/%d at %d: a message that was not sent there: %.20q", r.Topic, queue, m.QueueOffset, m.Body)
		case seen[number]:
			return fmt.Errorf("%s/%d at %d: message %d is there twice", r.Topic, queue, m.QueueOffset, number)
		}
		seen[number] = true
		n++
		return nil
	})
	if err == nil && n != messages {
		err = fmt.Errorf("topic %s has %d messages, want %d", r.Topic, n, messages)
	}
	return err
}

// bodyOf is the body of a message before its number is written into it.
func bodyOf(size int) []byte {
	return []byte(firstKeyText + strings.Repeat("b", max(0, size-len(firstKeyText))))
}

// firstKeyText is what message numbers, counted from firstKey, are written over.
var firstKeyText = strconv.Itoa(firstKey)

func numberOf(body []byte) (int, error) {
	if len(body) < len(firstKeyText) {
		return 0, errors.New("a short body")
	}
	n, err := strconv.Atoi(string(body[:len(firstKeyText)]))
	return n - firstKey, err
}
