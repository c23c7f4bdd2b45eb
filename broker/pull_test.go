package broker

import (
	"context"
	"encoding/binary"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
)

// pullRequest asks queue 1 of T for 32 messages; more replaces or adds fields.
func pullRequest(code int32, offset int64, flags int, more ...remoting.Field) *remoting.Command {
	ext := remoting.Ext{
		{Key: "consumerGroup", Value: "g"},
		{Key: "topic", Value: "T"},
		{Key: "queueId", Value: "1"},
		{Key: "maxMsgNums", Value: "32"},
		{Key: "commitOffset", Value: "0"},
		{Key: "suspendTimeoutMillis", Value: "15000"},
		{Key: "subscription", Value: "*"},
		{Key: "subVersion", Value: "0"},
		{Key: "expressionType", Value: "TAG"},
	}
	ext.SetInt("queueOffset", offset)
	ext.SetInt("sysFlag", int64(flags))
	for _, f := range more {
		ext.Set(f.Key, f.Value)
	}
	return &remoting.Command{Code: code, Ext: ext}
}

func invoke(t *testing.T, b *Broker, client *remoting.Client, req *remoting.Command) *remoting.Command {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	resp, err := client.Invoke(ctx, b.Addr().String(), req)
	require.NoError(t, err)
	return resp
}

// bodies takes the records of an answer apart.
func bodies(t *testing.T, resp *remoting.Command) (list []string) {
	t.Helper()
	for b := resp.Body; len(b) > 0; {
		size := binary.BigEndian.Uint32(b)
		var r message.Record
		require.NoError(t, r.Decode(b[:size], true))
		list = append(list, string(r.Body))
		b = b[size:]
	}
	return list
}

func TestT25PullsOutsideOfAQueue(t *testing.T) {
	b, client := openTest(t, nil)
	require.NoError(t, b.topics.Put(meta.NewTopic("T", 4, 6)))
	for _, c := range []struct {
		offset int64
		code   int32
		next   string
	}{{0, remoting.PullNotFound, "0"}, {5, remoting.PullOffsetMoved, "0"}} {
		resp := invoke(t, b, client, pullRequest(remoting.PullMessage, c.offset, pullSubscription))
		require.Equal(t, c.code, resp.Code, resp.Remark)
		require.Equal(t, c.next, resp.Ext.Get("nextBeginOffset"))
	}
	for _, body := range []string{"a", "b", "c"} {
		require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte(body), "TAGS\x01"+body+"\x02").Code)
	}
	stored(t, b, "T", 1, 2)
	for _, c := range []struct {
		offset       int64
		code         int32
		next, status string
	}{
		{0, remoting.Success, "3", "FOUND"},
		{3, remoting.PullNotFound, "3", "OFFSET_OVERFLOW_ONE"},
		{4, remoting.PullOffsetMoved, "3", "OFFSET_OVERFLOW_BADLY"},
		{-1, remoting.PullOffsetMoved, "0", "OFFSET_TOO_SMALL"},
	} {
		resp := invoke(t, b, client, pullRequest(remoting.PullMessage, c.offset, pullSubscription))
		require.Equal(t, c.code, resp.Code, resp.Remark)
		require.Equal(t, c.status, resp.Remark)
		for name, want := range map[string]string{"nextBeginOffset": c.next, "minOffset": "0", "maxOffset": "3", "suggestWhichBrokerId": "0"} {
			require.Equal(t, want, resp.Ext.Get(name), name)
		}
		if c.code == remoting.Success {
			require.Equal(t, []string{"a", "b", "c"}, bodies(t, resp))
		}
	}
	resp := invoke(t, b, client, pullRequest(remoting.LitePullMessage, 1, pullSubscription|pullCommit, field("commitOffset", "1"), field("maxMsgNums", "1")))
	require.Equal(t, []string{"b"}, bodies(t, resp))
	require.EqualValues(t, 1, b.offsets.Query("g", "T", 1))
	require.EqualValues(t, 2, b.offsets.QueryPulled("g", "T", 1))
}

func TestT26RefusedPulls(t *testing.T) {
	b, client := openTest(t, func(o *Options) { o.AutoCreateSubscriptionGroup = false })
	require.NoError(t, b.topics.Put(meta.NewTopic("T", 4, 6), meta.NewTopic("W", 4, 2)))
	off := meta.NewGroup("off")
	off.ConsumeEnable = false
	require.NoError(t, b.groups.Put(meta.NewGroup("g"), off))
	for _, c := range []struct {
		name      string
		code      int32
		forbidden string
		flags     int
		more      remoting.Field
	}{
		{"queue", remoting.InvalidParameter, "", pullSubscription, field("queueId", "4")},
		{"negative queue", remoting.InvalidParameter, "", pullSubscription, field("queueId", "-1")},
		{"topic", remoting.TopicNotExist, "", pullSubscription, field("topic", "none")},
		{"topic without the right", remoting.NoPermission, "3", pullSubscription, field("topic", "W")},
		{"group", remoting.SubscriptionGroupNotExist, "", pullSubscription, field("consumerGroup", "none")},
		{"group that may not", remoting.NoPermission, "2", pullSubscription, field("consumerGroup", "off")},
		{"expression", remoting.SubscriptionParseFailed, "", pullSubscription, field("expressionType", "NONE")},
		{"nobody is there", remoting.SubscriptionNotExist, "", 0, field("x", "y")},
		{"no number", remoting.SystemError, "", pullSubscription, field("queueOffset", "x")},
		{"no messages wanted", remoting.InvalidParameter, "", pullSubscription, field("maxMsgNums", "0")},
	} {
		resp := invoke(t, b, client, pullRequest(remoting.PullMessage, 0, c.flags, c.more))
		require.Equal(t, c.code, resp.Code, c.name+": "+resp.Remark)
		require.Equal(t, c.forbidden, resp.Ext.Get("forbiddenType"), c.name)
	}
	require.Equal(t, remoting.Success, call(t, b, client, remoting.Heartbeat, beat("1", "g", "T")).Code)
	require.Equal(t, remoting.SubscriptionNotExist, invoke(t, b, client, pullRequest(remoting.PullMessage, 0, 0, field("topic", "BenchmarkTest"))).Code)
	require.Equal(t, remoting.SubscriptionNotLatest, invoke(t, b, client, pullRequest(remoting.PullMessage, 0, 0, field("subVersion", "2"))).Code)
	require.Equal(t, remoting.PullNotFound, invoke(t, b, client, pullRequest(remoting.PullMessage, 0, 0, field("subVersion", "1"))).Code)
	require.NoError(t, b.groups.SetReadable("g", "T", false))
	require.Equal(t, "5", invoke(t, b, client, pullRequest(remoting.PullMessage, 0, 0)).Ext.Get("forbiddenType"))
}

func TestT20T21FilteredPulls(t *testing.T) {
	b, client := openTest(t, nil)
	for i, tag := range []string{"A", "B", "C", "A"} {
		require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte(tag), "TAGS\x01"+tag+"\x02a\x01"+strconv.Itoa(i)+"\x02").Code)
	}
	stored(t, b, "T", 1, 3)
	get := func(kind, text string) *remoting.Command {
		return invoke(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription, field("expressionType", kind), field("subscription", text)))
	}
	require.Equal(t, []string{"A", "B", "A"}, bodies(t, get("TAG", "A || B")))
	require.Equal(t, []string{"C", "A"}, bodies(t, get("SQL92", "a > 1")))
	resp := get("TAG", "D")
	require.Equal(t, remoting.PullRetryImmediately, resp.Code)
	require.Equal(t, "4", resp.Ext.Get("nextBeginOffset"))
	require.Equal(t, remoting.SubscriptionParseFailed, get("SQL92", "a >").Code)
}

// waiting starts a pull that waits.
func waiting(t *testing.T, b *Broker, client *remoting.Client, req *remoting.Command) (answer chan *remoting.Command) {
	t.Helper()
	answer = make(chan *remoting.Command, 1)
	n := len(b.waitingPulls())
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		resp, err := client.Invoke(ctx, b.Addr().String(), req)
		if err != nil {
			t.Error(err)
		}
		answer <- resp
	}()
	require.Eventually(t, func() bool { return len(b.waitingPulls()) > n || len(answer) > 0 }, 30*time.Second, time.Millisecond) // its time may be over already
	return answer
}

func (b *Broker) waitingPulls() (list []*held) {
	for i := range b.holds.shards {
		s := &b.holds.shards[i]
		s.mu.Lock()
		list = append(list, s.byTime...)
		s.mu.Unlock()
	}
	return list
}

func TestT23PullsWaitForTheirMessage(t *testing.T) {
	b, client := openTest(t, nil)
	require.NoError(t, b.topics.Put(meta.NewTopic("T", 4, 6)))
	any := waiting(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription|pullSuspend))
	tagged := waiting(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription|pullSuspend, field("subscription", "B")))
	sql := waiting(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription|pullSuspend, field("subscription", "a = 2"), field("expressionType", "SQL92")))
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("one"), "TAGS\x01A\x02a\x011\x02").Code)
	require.Equal(t, []string{"one"}, bodies(t, <-any))
	require.Eventually(t, func() bool { return len(b.waitingPulls()) == 2 }, 10*time.Second, time.Millisecond, "those that do not want it wait on")
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("two"), "TAGS\x01B\x02a\x012\x02").Code)
	require.Equal(t, []string{"two"}, bodies(t, <-tagged))
	require.Equal(t, []string{"two"}, bodies(t, <-sql))

	resp := <-waiting(t, b, client, pullRequest(remoting.PullMessage, 2, pullSubscription|pullSuspend, field("suspendTimeoutMillis", "200")))
	require.Equal(t, remoting.PullNotFound, resp.Code, "its time is over")
	require.Empty(t, b.waitingPulls())
}

// A message comes that the pull does not want: it is answered after a while, so that its offset gets on.
func TestT23PullsGetOn(t *testing.T) {
	b, client := openTest(t, nil)
	require.NoError(t, b.topics.Put(meta.NewTopic("T", 4, 6)))
	b.holds.recheck = 10 * time.Millisecond
	answer := waiting(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription|pullSuspend, field("subscription", "B"), field("suspendTimeoutMillis", "60000")))
	before := b.waitingPulls()[0].due
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("one"), "TAGS\x01A\x02").Code)
	resp := <-answer
	require.Equal(t, remoting.PullRetryImmediately, resp.Code)
	require.Equal(t, "1", resp.Ext.Get("nextBeginOffset"))
	require.True(t, time.Now().Before(before))
}

func TestPullsThatWaitAreAnsweredAtTheEnd(t *testing.T) {
	b, client := openTest(t, nil)
	require.NoError(t, b.topics.Put(meta.NewTopic("T", 4, 6)))
	answer := waiting(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription|pullSuspend))
	require.NoError(t, b.Close())
	require.Equal(t, remoting.PullNotFound, (<-answer).Code)
}

func TestT44PullAfterAReset(t *testing.T) {
	b, client := openTest(t, nil)
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("one"), "").Code)
	stored(t, b, "T", 1, 0)
	b.offsets.Reset("g", "T", 1, 1)
	resp := invoke(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription|pullCommit))
	require.Equal(t, remoting.PullOffsetMoved, resp.Code)
	require.Equal(t, "1", resp.Ext.Get("nextBeginOffset"))
	require.EqualValues(t, 1, b.offsets.Query("g", "T", 1), "the pull's own commit is passed over")
	require.Equal(t, remoting.PullNotFound, invoke(t, b, client, pullRequest(remoting.PullMessage, 1, pullSubscription)).Code)
}
