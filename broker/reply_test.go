package broker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/remoting"
)

// requester is a client that waits for replies: it answers each with a code, and passes it on.
func requester(t *testing.T, b *Broker, id string, code int32) chan *remoting.Command {
	t.Helper()
	got := make(chan *remoting.Command, 10)
	o := remoting.DefaultClientOptions()
	o.Handler = remoting.Mux{remoting.PushReplyMessageToClient: func(c *remoting.Conn, req *remoting.Command) {
		got <- &remoting.Command{Ext: append(remoting.Ext{}, req.Ext...), Body: append([]byte{}, req.Body...)}
		c.Respond(req, &remoting.Command{Code: code, Remark: "as told"})
	}}
	client, err := remoting.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	require.Equal(t, remoting.Success, call(t, b, client, remoting.Heartbeat, beat(id, "g")).Code)
	return got
}

// reply sends the reply to a request of a client.
func reply(t *testing.T, b *Broker, client *remoting.Client, to string) *remoting.Command {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	properties := "CORRELATION_ID\x01cid\x02TTL\x013000\x02MSG_TYPE\x01reply\x02"
	if to != "" {
		properties += "REPLY_TO_CLIENT\x01" + to + "\x02"
	}
	resp, err := client.Invoke(ctx, b.Addr().String(), &remoting.Command{Code: remoting.SendReplyMessageV2, Body: []byte("answer"), Ext: remoting.Ext{
		{Key: "a", Value: "pg"},
		{Key: "b", Value: "c_REPLY_TOPIC"},
		{Key: "c", Value: meta.AutoCreateTopic},
		{Key: "d", Value: "4"},
		{Key: "e", Value: "0"},
		{Key: "f", Value: "0"},
		{Key: "g", Value: "1700000000000"},
		{Key: "h", Value: "7"},
		{Key: "i", Value: properties},
		{Key: "j", Value: "0"},
	}})
	require.NoError(t, err)
	require.Equal(t, "true", resp.Ext.Get("TRACE_ON"))
	return resp
}

func TestT19RepliesReachTheirRequester(t *testing.T) {
	b, client := openTest(t, nil)
	got := requester(t, b, "one", remoting.Success)
	resp := reply(t, b, client, "one")
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	require.Equal(t, "0", resp.Ext.Get("queueOffset"))
	require.Len(t, resp.Ext.Get("msgId"), 32)
	r := stored(t, b, "c_REPLY_TOPIC", 0, 0)
	require.Equal(t, "answer", string(r.Body))

	push := <-got
	require.Equal(t, "answer", string(push.Body))
	for name, want := range map[string]string{
		"producerGroup": "pg", "topic": "c_REPLY_TOPIC", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0", "bornTimestamp": "1700000000000",
		"flag": "7", "reconsumeTimes": "0", "storeHost": b.Addr().String(),
	} {
		require.Equal(t, want, push.Ext.Get(name), name)
	}
	require.NotEmpty(t, push.Ext.Get("storeTimestamp"))
	require.Contains(t, push.Ext.Get("bornHost"), "127.0.0.1:")
	require.Contains(t, push.Ext.Get("properties"), "CORRELATION_ID\x01cid\x02")
	require.Contains(t, push.Ext.Get("properties"), "PUSH_REPLY_TIME\x01")
}

func TestT19RepliesThatReachNobody(t *testing.T) {
	b, client := openTest(t, func(o *Options) { o.StoreReplyMessageEnable = false })
	requester(t, b, "refuses", remoting.SystemError)
	require.Contains(t, reply(t, b, client, "refuses").Remark, "as told")
	for _, to := range []string{"none", "", "refuses"} {
		resp := reply(t, b, client, to)
		require.Equal(t, remoting.SystemError, resp.Code)
		require.Equal(t, "0", resp.Ext.Get("msgId"))
	}
	require.Zero(t, b.store.NextOffset("c_REPLY_TOPIC", 0), "not stored")
}
