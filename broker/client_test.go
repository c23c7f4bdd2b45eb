package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
)

func beat(id, group string, topics ...string) []byte {
	var subs []string
	for _, topic := range topics {
		subs = append(subs, fmt.Sprintf(`{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":1,"tagsSet":[],"topic":"%s"}`, topic))
	}
	return fmt.Appendf(nil, `{"clientID":"%s","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"%s","messageModel":"CLUSTERING","subscriptionDataSet":[%s],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"p"}],"withoutSub":false}`,
		id, group, strings.Join(subs, ","))
}

// member is a client that notes what it is told.
func member(t *testing.T) (client *remoting.Client, told chan string) {
	t.Helper()
	told = make(chan string, 100)
	o := remoting.DefaultClientOptions()
	o.Handler = remoting.Mux{remoting.NotifyConsumerIDsChanged: func(c *remoting.Conn, req *remoting.Command) {
		told <- req.Ext.Get("consumerGroup")
		c.Respond(req, &remoting.Command{})
	}}
	client, err := remoting.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // some tests close it earlier
	return client, told
}

func waitTold(t *testing.T, told chan string) {
	t.Helper()
	select {
	case group := <-told:
		require.Equal(t, "g", group)
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the member was not told that its group has changed")
	}
}

func TestT30MembersAreToldOfOneAnother(t *testing.T) {
	b, _ := openTest(t, nil)
	one, toldOne := member(t)
	resp := call(t, b, one, remoting.Heartbeat, beat("1", "g", "T"))
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	require.EqualValues(t, 513, resp.Version, "a Java client sends SQL92 subscriptions from 232 on only")
	waitTold(t, toldOne)
	retry, ok := b.topics.Get("%RETRY%g")
	require.True(t, ok)
	require.EqualValues(t, 1, retry.WriteQueues)

	two, toldTwo := member(t)
	require.Equal(t, remoting.Success, call(t, b, two, remoting.Heartbeat, beat("2", "g", "T")).Code)
	waitTold(t, toldOne)
	waitTold(t, toldTwo)
	resp = call(t, b, one, remoting.GetConsumerListByGroup, nil, field("consumerGroup", "g"))
	require.JSONEq(t, `{"consumerIdList":["1","2"]}`, string(resp.Body))
	require.Equal(t, remoting.SystemError, call(t, b, one, remoting.GetConsumerListByGroup, nil, field("consumerGroup", "none")).Code)

	require.NoError(t, two.Close())
	waitTold(t, toldOne)
	require.Equal(t, remoting.Success, call(t, b, one, remoting.UnregisterClient, nil, field("clientID", "1"), field("consumerGroup", "g")).Code)
	require.Empty(t, b.clients.ConsumerGroups())
}

func TestCheckClientConfig(t *testing.T) {
	b, client := openTest(t, nil)
	check := func(expressionType, text string) int32 {
		return call(t, b, client, remoting.CheckClientConfig, fmt.Appendf(nil, `{"clientId":"1","group":"g","subscriptionData":{"expressionType":"%s","subString":"%s","topic":"T"}}`, expressionType, text)).Code
	}
	require.Equal(t, remoting.Success, check("TAG", "A || B"))
	require.Equal(t, remoting.Success, check("SQL92", "a > 5 AND b = 'x'"))
	require.Equal(t, remoting.SubscriptionParseFailed, check("SQL92", "a >"))
	b, client = openTest(t, func(o *Options) { o.EnablePropertyFilter = false })
	require.Equal(t, remoting.SystemError, check("SQL92", "a > 5"))
}

func TestT29Locks(t *testing.T) {
	b, client := openTest(t, nil)
	body := func(id string) []byte {
		return fmt.Appendf(nil, `{"clientId":"%s","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":1,"topic":"T"}],"onlyThisBroker":false}`, id)
	}
	const locked, none = `{"lockOKMQSet":[{"brokerName":"b","queueId":1,"topic":"T"}]}`, `{"lockOKMQSet":[]}`
	require.JSONEq(t, locked, string(call(t, b, client, remoting.LockBatchMQ, body("1")).Body))
	require.JSONEq(t, none, string(call(t, b, client, remoting.LockBatchMQ, body("2")).Body))
	require.Equal(t, remoting.Success, call(t, b, client, remoting.UnlockBatchMQ, body("1")).Code)
	require.JSONEq(t, locked, string(call(t, b, client, remoting.LockBatchMQ, body("2")).Body))
	require.Equal(t, remoting.SystemError, call(t, b, client, remoting.LockBatchMQ, []byte("{")).Code)
}

func TestT31OffsetsOfGroups(t *testing.T) {
	b, client := openTest(t, nil)
	query := func(queueID string) *remoting.Command {
		return call(t, b, client, remoting.QueryConsumerOffset, nil, field("consumerGroup", "g"), field("topic", "T"), field("queueId", queueID))
	}
	update := func(group, topic, queueID string) int32 {
		return call(t, b, client, remoting.UpdateConsumerOffset, nil, field("consumerGroup", group), field("topic", topic), field("queueId", queueID), field("commitOffset", "7")).Code
	}
	require.Equal(t, remoting.QueryNotFound, query("0").Code, "an empty queue")
	put(t, b, "T", 0)
	require.Eventually(t, func() bool { return query("0").Code == remoting.Success }, 30*time.Second, time.Millisecond, "a young queue")
	require.Equal(t, "0", query("0").Ext.Get("offset"))

	require.Equal(t, remoting.SubscriptionGroupNotExist, update("g", "T", "0"))
	_, _, err := b.groups.Get("g")
	require.NoError(t, err)
	require.Equal(t, remoting.TopicNotExist, update("g", "T", "0"))
	require.NoError(t, b.topics.Put(meta.NewTopic("T", 4, 6)))
	require.Equal(t, remoting.InvalidParameter, update("g", "T", ""))
	require.Equal(t, remoting.Success, update("g", "T", "0"))
	require.Equal(t, "7", query("0").Ext.Get("offset"))
	require.NoError(t, b.Close())
	again, err := meta.OpenOffsets(b.o.StorePathRootDir+"/config", nil, nil)
	require.NoError(t, err)
	require.EqualValues(t, 7, again.Query("g", "T", 0), "saved when the broker is closed")
}

// put stores a message as a producer on this machine would have.
func put(t *testing.T, b *Broker, topic string, queueID int32) {
	t.Helper()
	host := message.HostOf(b.Addr())
	_, err := b.store.Put(t.Context(), &message.Message{Topic: topic, QueueID: queueID, BornHost: host, StoreHost: host, BornTimestampMs: 1, Body: []byte("body")})
	require.NoError(t, err)
}
