package broker

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// sendV2 is the request of a Java producer; more replaces or adds fields.
func sendV2(t *testing.T, b *Broker, client *remoting.Client, topic string, body []byte, properties string, more ...remoting.Field) *remoting.Command {
	t.Helper()
	ext := remoting.Ext{
		{Key: "a", Value: "pg"},
		{Key: "b", Value: topic},
		{Key: "c", Value: meta.AutoCreateTopic},
		{Key: "d", Value: "4"},
		{Key: "e", Value: "1"},
		{Key: "f", Value: "0"},
		{Key: "g", Value: "1700000000000"},
		{Key: "h", Value: "7"},
		{Key: "i", Value: properties},
		{Key: "j", Value: "0"},
		{Key: "k", Value: "false"},
		{Key: "m", Value: "false"},
	}
	for _, f := range more {
		ext.Set(f.Key, f.Value)
	}
	return call(t, b, client, remoting.SendMessageV2, body, ext...)
}

// stored reads the message at a place once it can be read.
func stored(t *testing.T, b *Broker, topic string, queueID int32, offset int64) message.Record {
	t.Helper()
	var res store.GetResult
	t.Cleanup(res.Release)
	require.Eventually(t, func() bool {
		require.NoError(t, b.store.Get(&store.GetRequest{Topic: topic, QueueID: queueID, Offset: offset, MaxMessages: 1}, &res))
		return res.Status == store.GetFound
	}, 30*time.Second, time.Millisecond, "%s/%d at %d", topic, queueID, offset)
	var r message.Record
	require.NoError(t, r.Decode(res.Messages[0].Record, true))
	return r
}

func prop(r *message.Record, name string) string {
	v, _ := r.Property(name)
	return string(v)
}

func TestT10SendMakesTheTopic(t *testing.T) {
	b, client := openTest(t, nil)
	resp := sendV2(t, b, client, "T", []byte("hello"), "k\x01v\x02UNIQ_KEY\x01U\x02POP_CK\x01x\x02MSG_REGION\x01theirs")
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	require.Equal(t, "1", resp.Ext.Get("queueId"))
	require.Equal(t, "0", resp.Ext.Get("queueOffset"))
	require.Equal(t, "U", resp.Ext.Get("transactionId"))
	require.Equal(t, "DefaultRegion", resp.Ext.Get("MSG_REGION"))
	require.Equal(t, "true", resp.Ext.Get("TRACE_ON"))
	topic, ok := b.topics.Get("T")
	require.True(t, ok)
	require.EqualValues(t, 4, topic.WriteQueues)

	r := stored(t, b, "T", 1, 0)
	require.Equal(t, "hello", string(r.Body))
	require.EqualValues(t, 7, r.Flag)
	require.EqualValues(t, 1_700_000_000_000, r.BornTimestampMs)
	require.Equal(t, map[string]string{"k": "v", "UNIQ_KEY": "U", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "c"}, propsOf(&r))
	host, phy, ok := message.ParseOffsetMsgID(resp.Ext.Get("msgId"))
	require.True(t, ok)
	require.Equal(t, r.PhyOffset, phy)
	require.EqualValues(t, b.Addr().Port(), host.Port, "tools connect to the address in the id")

	// The header of version 1, as the Go client sends it.
	resp = call(t, b, client, remoting.SendMessage, []byte("x"), field("producerGroup", "pg"), field("topic", "T"), field("defaultTopic", meta.AutoCreateTopic), field("defaultTopicQueueNums", "4"),
		field("queueId", "-1"), field("sysFlag", "0"), field("bornTimestamp", "1"), field("flag", "0"), field("properties", ""), field("reconsumeTimes", "0"), field("unitMode", "false"), field("batch", "false"))
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	require.Len(t, resp.Ext.Get("transactionId"), 32, "a unique key is made")
}

func propsOf(r *message.Record) map[string]string {
	m := map[string]string{}
	for k, v := range r.PropertiesSeq() {
		m[string(k)] = string(v)
	}
	return m
}

func TestT12Batch(t *testing.T) {
	b, client := openTest(t, nil)
	var body []byte
	for range 10 {
		var err error
		body, err = (&message.BatchElement{Body: []byte("one"), Properties: []byte("TAGS\x01A\x02")}).AppendTo(body)
		require.NoError(t, err)
	}
	resp := sendV2(t, b, client, "T", body, "", field("m", "true"))
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	require.Len(t, strings.Split(resp.Ext.Get("msgId"), ","), 10)
	require.Equal(t, "0", resp.Ext.Get("queueOffset"))
	r := stored(t, b, "T", 1, 9)
	require.Equal(t, "A", prop(&r, "TAGS"))
	require.Equal(t, remoting.MessageIllegal, sendV2(t, b, client, "%RETRY%g", body, "", field("m", "true"), field("e", "0")).Code)
}

func TestT13RefusedSends(t *testing.T) {
	b, client := openTest(t, func(o *Options) { o.RejectTransactionMessage = true })
	send := func(topic string, body int, more ...remoting.Field) int32 {
		resp := sendV2(t, b, client, topic, make([]byte, body), "", more...)
		require.Equal(t, "true", resp.Ext.Get("TRACE_ON"), "clients read it whatever the code")
		return resp.Code
	}
	for _, c := range []struct {
		name string
		want int32
		got  int32
	}{
		{"127 bytes", remoting.Success, send(strings.Repeat("x", 127), 1)},
		{"128 bytes", remoting.InvalidParameter, send(strings.Repeat("x", 128), 1)},
		{"a dot", remoting.InvalidParameter, send("a.b", 1)},
		{"the broker's own", remoting.NoPermission, send(meta.ScheduleTopic, 1)},
		{"queue id too large", remoting.InvalidParameter, send("T", 1, field("e", "4"))},
		{"body too large", remoting.MessageIllegal, send("T", 4<<20+1)},
		{"prepared", remoting.NoPermission, send("T", 1, field("i", "TRAN_MSG\x01true\x02"))},
		{"any time", remoting.SystemError, send("T", 1, field("i", "TIMER_DELAY_SEC\x0110\x02"))},
		{"no template", remoting.TopicNotExist, send("U", 1, field("c", "none"))},
		{"a number that is none", remoting.SystemError, send("T", 1, field("e", "x"))},
	} {
		require.Equal(t, c.want, c.got, c.name)
	}
	b, client = openTest(t, func(o *Options) { o.AutoCreateTopicEnable, o.AutoCreateSubscriptionGroup = false, false })
	require.Equal(t, remoting.TopicNotExist, send("T", 1))
	require.Equal(t, remoting.SubscriptionGroupNotExist, send("%RETRY%g", 1, field("e", "0")))
}

func TestT15DelayedMessagesGoToTheirLevel(t *testing.T) {
	b, client := openTest(t, nil)
	for _, delay := range []string{"3", "19", "99"} {
		resp := sendV2(t, b, client, "T", []byte("later"), "DELAY\x01"+delay+"\x02")
		require.Equal(t, remoting.Success, resp.Code, resp.Remark)
		require.Equal(t, "1", resp.Ext.Get("queueId"), "that of the request")
	}
	r := stored(t, b, meta.ScheduleTopic, 2, 0)
	require.Equal(t, "T", prop(&r, "REAL_TOPIC"))
	require.Equal(t, "1", prop(&r, "REAL_QID"))
	require.Equal(t, "3", prop(&r, "DELAY"))
	r = stored(t, b, meta.ScheduleTopic, 17, 1)
	require.Equal(t, "18", prop(&r, "DELAY"))
}

func TestT17PreparedMessagesGoToTheHalfTopic(t *testing.T) {
	b, client := openTest(t, nil)
	resp := sendV2(t, b, client, "T", []byte("half"), "TRAN_MSG\x01true\x02UNIQ_KEY\x01U\x02PGROUP\x01pg\x02", field("f", "4"))
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	require.Equal(t, "1", resp.Ext.Get("queueId"))
	r := stored(t, b, meta.HalfTopic, 0, 0)
	require.Equal(t, message.TransactionNone, r.Transaction())
	require.Equal(t, "T", prop(&r, "REAL_TOPIC"))
	require.Equal(t, "U", prop(&r, "__transactionId__"))
}

func TestT28SendsThatCameTooOftenAreDeadLetters(t *testing.T) {
	b, client := openTest(t, nil)
	resp := sendV2(t, b, client, "%RETRY%g", []byte("again"), "DELAY\x013\x02", field("e", "0"), field("j", "3"), field("l", "3"))
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	r := stored(t, b, meta.ScheduleTopic, 2, 0)
	require.Equal(t, "%RETRY%g", prop(&r, "REAL_TOPIC"))
	require.EqualValues(t, 3, r.ReconsumeTimes)
	resp = sendV2(t, b, client, "%RETRY%g", []byte("again"), "DELAY\x013\x02", field("e", "0"), field("j", "4"), field("l", "3"))
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	r = stored(t, b, "%DLQ%g", 0, 0)
	require.Equal(t, "-1", prop(&r, "DELAY"))
}

func TestUniqueIDs(t *testing.T) {
	u := newUniqueIDs()
	seen := map[string]bool{}
	for range 1000 {
		id := u.next(message.Host{})
		require.Len(t, id, 32)
		require.False(t, seen[id])
		seen[id] = true
	}
}
