package broker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// ok calls and wants success.
func ok(t *testing.T, b *Broker, client *remoting.Client, code int32, body string, ext ...remoting.Field) *remoting.Command {
	t.Helper()
	resp := call(t, b, client, code, []byte(body), ext...)
	require.Equal(t, remoting.Success, resp.Code, "%s: %s", remoting.RequestCodeName(code), resp.Remark)
	return resp
}

func updateTopic(topic string, more ...remoting.Field) []remoting.Field {
	ext := remoting.Ext{
		{Key: "topic", Value: topic},
		{Key: "defaultTopic", Value: meta.AutoCreateTopic},
		{Key: "readQueueNums", Value: "4"},
		{Key: "writeQueueNums", Value: "4"},
		{Key: "perm", Value: "6"},
		{Key: "topicFilterType", Value: "SINGLE_TAG"},
		{Key: "topicSysFlag", Value: "0"},
		{Key: "order", Value: "false"},
	}
	for _, f := range more {
		ext.Set(f.Key, f.Value)
	}
	return ext
}

func configFile(t *testing.T, b *Broker, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.o.StorePathRootDir, "config", name))
	require.NoError(t, err)
	return string(text)
}

func TestT41Topics(t *testing.T) {
	b, client := openTest(t, func(o *Options) { o.EmbeddedNamesrv = "127.0.0.1:0" })
	ok(t, b, client, remoting.UpdateAndCreateTopic, "", updateTopic("T", field("attributes", "+message.type=FIFO"))...)
	require.Contains(t, configFile(t, b, "topics.json"), `"message.type": "FIFO"`)
	ctx := t.Context()
	route, err := client.Invoke(ctx, b.NameServerAddr().String(), &remoting.Command{Code: remoting.GetRouteInfoByTopic, Ext: remoting.Ext{{Key: "topic", Value: "T"}}})
	require.NoError(t, err)
	require.Equal(t, remoting.Success, route.Code, "registered when the answer goes")
	resp := ok(t, b, client, remoting.GetTopicConfig, "", field("topic", "T"))
	require.JSONEq(t, `{"attributes":{"message.type":"FIFO"},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":4}`, string(resp.Body))
	for id, want := range map[string]string{"3": "0", "4": "-1"} {
		require.Equal(t, want, ok(t, b, client, remoting.GetMinOffset, "", field("topic", "T"), field("queueId", id)).Ext.Get("offset"), "mqadmin printMsg pulls from there")
	}
	v := b.topics.Version()
	ok(t, b, client, remoting.UpdateAndCreateTopic, "", updateTopic("T")...)
	require.Equal(t, v, b.topics.Version(), "a topic that is so already changes nothing")
	ok(t, b, client, remoting.UpdateAndCreateTopic, "", updateTopic("T", field("perm", "4"), field("attributes", "-message.type"))...)
	require.Contains(t, configFile(t, b, "topics.json"), `"perm": 4`)

	for _, c := range []struct {
		name string
		want int32
		ext  []remoting.Field
	}{
		{"no name for a topic", remoting.InvalidParameter, updateTopic("a.b")},
		{"the system's own", remoting.InvalidParameter, updateTopic(meta.ScheduleTopic)},
		{"the broker's", remoting.InvalidParameter, updateTopic("b")},
		{"by its prefix", remoting.InvalidParameter, updateTopic("rmq_sys_x")},
		{"mixed", remoting.InvalidParameter, updateTopic("U", field("attributes", "+message.type=MIXED"))},
		{"attribute that is none", remoting.SystemError, updateTopic("U", field("attributes", "+a=b"))},
		{"value that is none", remoting.SystemError, updateTopic("U", field("attributes", "+message.type=X"))},
		{"nothing to take away", remoting.SystemError, updateTopic("U", field("attributes", "-message.type"))},
		{"batch queues", remoting.SystemError, updateTopic("U", field("attributes", "+queue.type=BatchCQ"))},
		{"perm", remoting.InvalidParameter, updateTopic("U", field("perm", "16"))},
		{"queues", remoting.InvalidParameter, updateTopic("U", field("readQueueNums", "-1"))},
		{"number that is none", remoting.SystemError, updateTopic("U", field("readQueueNums", "x"))},
	} {
		require.Equal(t, c.want, call(t, b, client, remoting.UpdateAndCreateTopic, nil, c.ext...).Code, c.name)
	}
	require.NotContains(t, configFile(t, b, "topics.json"), `"U"`)
	require.Equal(t, remoting.TopicNotExist, call(t, b, client, remoting.GetTopicConfig, nil, field("topic", "U")).Code)

	list := `{"topicConfigList":[{"topicName":"L1","readQueueNums":2,"writeQueueNums":2,"perm":6},{"topicName":"%s","attributes":{"+message.type":"DELAY"}}]}`
	require.Equal(t, remoting.InvalidParameter, call(t, b, client, remoting.UpdateAndCreateTopicList, fmt.Appendf(nil, list, "TBW102")).Code)
	_, known := b.topics.Get("L1")
	require.False(t, known, "all or none")
	ok(t, b, client, remoting.UpdateAndCreateTopicList, fmt.Sprintf(list, "L2"))
	l2, _ := b.topics.Get("L2")
	require.Equal(t, map[string]string{"message.type": "DELAY"}, l2.Attributes)

	resp = ok(t, b, client, remoting.GetSystemTopicListFromBroker, "")
	require.Contains(t, string(resp.Body), `"TBW102"`)
	require.NotContains(t, string(resp.Body), `"T"`)
}

func TestT41DeleteTopic(t *testing.T) {
	b, client := openTest(t, nil)
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("one"), "").Code)
	stored(t, b, "T", 1, 0)
	b.offsets.Commit("g", "T", 1, 1)
	b.offsets.Commit("g", "%RETRY%g", 0, 5)
	b.offsets.Pulled("g", "T", 1, 1)
	ok(t, b, client, remoting.UpdateAndCreateTopic, "", updateTopic("%RETRY%g")...)
	ok(t, b, client, remoting.UpdateAndCreateTopic, "", updateTopic("%RETRY%g_T")...)
	for _, name := range []string{" ", "TBW102", "rmq_sys_x"} {
		require.Equal(t, remoting.InvalidParameter, call(t, b, client, remoting.DeleteTopicInBroker, nil, field("topic", name)).Code)
	}
	ok(t, b, client, remoting.DeleteTopicInBroker, "", field("topic", "T"))
	ok(t, b, client, remoting.DeleteTopicInBroker, "", field("topic", "T"))
	for name, want := range map[string]bool{"T": false, "%RETRY%g_T": false, "%RETRY%g": true} {
		_, known := b.topics.Get(name)
		require.Equal(t, want, known, name)
	}
	require.NotContains(t, configFile(t, b, "topics.json"), `"T"`)
	require.NotContains(t, configFile(t, b, "consumerOffset.json"), "T@g")
	require.EqualValues(t, 5, b.offsets.Query("g", "%RETRY%g", 0))
	require.EqualValues(t, meta.NoOffset, b.offsets.QueryPulled("g", "T", 1))
	require.Equal(t, "0", call(t, b, client, remoting.GetMaxOffset, nil, field("topic", "T"), field("queueId", "1")).Ext.Get("offset"))

	// FR-I03: a topic of that name begins anew, and stays so.
	require.Equal(t, "0", sendV2(t, b, client, "T", []byte("two"), "").Ext.Get("queueOffset"))
	r := stored(t, b, "T", 1, 0)
	require.Equal(t, "two", string(r.Body))
}

func TestAllTopicsInPages(t *testing.T) {
	b, client := openTest(t, nil)
	var topics []meta.Topic
	for i := range 5 {
		topics = append(topics, meta.NewTopic("T"+strconv.Itoa(i), 1, 6))
	}
	require.NoError(t, b.topics.Put(topics...))
	type table struct {
		Version meta.DataVersion      `json:"dataVersion"`
		Table   map[string]meta.Topic `json:"topicConfigTable"`
	}
	get := func(ext ...remoting.Field) (got table, total int) {
		resp := ok(t, b, client, remoting.GetAllTopicConfig, "", ext...)
		require.NoError(t, remoting.UnmarshalBody(resp.Body, &got))
		total, err := strconv.Atoi(resp.Ext.Get("totalTopicNum"))
		require.NoError(t, err)
		return got, total
	}
	whole, total := get()
	require.Len(t, whole.Table, total)
	require.Equal(t, b.topics.Len(), total)
	// As a Java caller goes through the pages: it ends once it has all but one.
	for most := 1; most <= total; most++ {
		got, seq, version := map[string]meta.Topic{}, 0, ""
		for range total {
			part, _ := get(field("topicSeq", strconv.Itoa(seq)), field("maxTopicNum", strconv.Itoa(most)), field("dataVersion", version))
			for name, topic := range part.Table {
				got[name] = topic
			}
			text, err := json.Marshal(part.Version)
			require.NoError(t, err)
			seq, version = seq+len(part.Table), string(text)
			if seq >= total-1 {
				break
			}
		}
		require.Len(t, got, total, "pages of %d", most)
	}
	part, _ := get(field("topicSeq", "3"), field("maxTopicNum", "2"), field("dataVersion", `{"counter":1}`))
	require.Contains(t, part.Table, "BenchmarkTest", "another version: from the beginning")
}

func TestT41Groups(t *testing.T) {
	b, client := openTest(t, nil)
	ok(t, b, client, remoting.UpdateAndCreateSubscriptionGroup, `{"groupName":"g","retryMaxTimes":3,"consumeFromMinEnable":false,"attributes":{"+k":"v"}}`)
	require.Contains(t, configFile(t, b, "subscriptionGroup.json"), `"retryMaxTimes": 3`)
	resp := ok(t, b, client, remoting.GetSubscriptionGroupConfig, "", field("group", "g"))
	require.JSONEq(t, `{"attributes":{"k":"v"},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":false,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,
		"groupName":"g","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":3,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}`, string(resp.Body))
	ok(t, b, client, remoting.UpdateAndCreateSubscriptionGroup, `{"groupName":"g","attributes":{"-k":""}}`)
	g, _ := b.groups.Known("g")
	require.Empty(t, g.Attributes)
	require.Equal(t, remoting.InvalidParameter, call(t, b, client, remoting.UpdateAndCreateSubscriptionGroup, []byte(`{"groupName":"a b"}`)).Code)
	require.Equal(t, remoting.SystemError, call(t, b, client, remoting.UpdateAndCreateSubscriptionGroup, []byte(`{`)).Code)
	ok(t, b, client, remoting.UpdateAndCreateSubscriptionGroupList, `{"groupConfigList":[{"groupName":"h"},{"groupName":"i"}]}`)
	require.Equal(t, remoting.InvalidParameter, call(t, b, client, remoting.UpdateAndCreateSubscriptionGroupList, []byte(`{"groupConfigList":[{"groupName":"j"},{"groupName":""}]}`)).Code)
	require.Equal(t, remoting.SubscriptionGroupNotExist, call(t, b, client, remoting.GetSubscriptionGroupConfig, nil, field("group", "j")).Code)

	forbidden := func(ext ...remoting.Field) string {
		return string(ok(t, b, client, remoting.UpdateAndGetGroupForbidden, "", append(ext, field("group", "g"), field("topic", "T"))...).Body)
	}
	require.JSONEq(t, `{"group":"g","readable":true,"topic":"T"}`, forbidden())
	require.JSONEq(t, `{"group":"g","readable":false,"topic":"T"}`, forbidden(field("readable", "false")))
	require.JSONEq(t, `{"group":"g","readable":false,"topic":"T"}`, forbidden())

	var all struct {
		Forbidden map[string]map[string]int32 `json:"forbiddenTable"`
		Table     map[string]meta.Group       `json:"subscriptionGroupTable"`
	}
	resp = ok(t, b, client, remoting.GetAllSubscriptionGroupConfig, "")
	require.NoError(t, json.Unmarshal(resp.Body, &all))
	require.Equal(t, strconv.Itoa(len(all.Table)), resp.Ext.Get("totalGroupNum"))
	require.Contains(t, all.Table, "TOOLS_CONSUMER")
	require.Equal(t, map[string]map[string]int32{"g": {"T": 1}}, all.Forbidden)

	b.offsets.Commit("g", "T", 0, 7)
	b.offsets.Commit("h", "T", 0, 7)
	ok(t, b, client, remoting.DeleteSubscriptionGroup, "", field("groupName", "g"), field("cleanOffset", "true"))
	ok(t, b, client, remoting.DeleteSubscriptionGroup, "", field("groupName", "h"))
	ok(t, b, client, remoting.DeleteSubscriptionGroup, "", field("groupName", "none"))
	for _, own := range []string{"CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_REVIVE_GROUP", "TOOLS_CONSUMER"} {
		resp := call(t, b, client, remoting.DeleteSubscriptionGroup, nil, field("groupName", own))
		require.Equal(t, remoting.InvalidParameter, resp.Code, own)
		require.Contains(t, resp.Remark, "the system's own")
	}
	require.NotContains(t, configFile(t, b, "subscriptionGroup.json"), `"g"`)
	require.NotContains(t, configFile(t, b, "consumerOffset.json"), "T@g")
	require.EqualValues(t, 7, b.offsets.Query("h", "T", 0))
}

// consumer is a member of group g on topic T that sends the given heartbeat.
func consumer(t *testing.T, b *Broker, handler remoting.Mux) *remoting.Client {
	t.Helper()
	o := remoting.DefaultClientOptions()
	o.Handler = handler
	client, err := remoting.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	ok(t, b, client, remoting.Heartbeat, string(beat("id", "g", "T")))
	return client
}

func TestT42ProgressAndConnections(t *testing.T) {
	b, client := openTest(t, nil)
	require.Equal(t, remoting.ConsumerNotOnline, call(t, b, client, remoting.GetConsumerConnectionList, nil, field("consumerGroup", "g")).Code)
	require.Equal(t, remoting.SystemError, call(t, b, client, remoting.GetProducerConnectionList, nil, field("producerGroup", "p")).Code)
	require.Equal(t, remoting.SystemError, call(t, b, client, remoting.GetAllProducerInfo, nil).Code)
	ok(t, b, client, remoting.UpdateAndCreateTopic, "", updateTopic("T", field("readQueueNums", "2"), field("writeQueueNums", "2"))...)
	ok(t, b, client, remoting.UpdateAndCreateTopic, "", updateTopic("U", field("readQueueNums", "1"), field("writeQueueNums", "1"))...)
	for range 3 {
		require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("x"), "").Code)
	}
	last := stored(t, b, "T", 1, 2)
	b.offsets.Commit("g", "T", 1, 1)
	b.offsets.Pulled("g", "T", 1, 2)
	b.offsets.Commit("g", "U", 0, -1)
	first := stored(t, b, "T", 1, 0).StoreTimestampMs

	row := func(topic string, id int, broker, consumer, ms, pull int64) string {
		return fmt.Sprintf(`{"brokerName":"b","queueId":%d,"topic":"%s"}:{"brokerOffset":%d,"consumerOffset":%d,"lastTimestamp":%d,"pullOffset":%d}`, id, topic, broker, consumer, ms, pull)
	}
	rows := row("T", 0, 0, 0, 0, 0) + "," + row("T", 1, 3, 1, first, 2)
	progress := func(ext ...remoting.Field) string {
		return string(ok(t, b, client, remoting.GetConsumeStats, "", append(ext, field("consumerGroup", "g"))...).Body)
	}
	require.Equal(t, `{"consumeTps":0,"offsetTable":{`+row("T", 0, 0, 0, 0, 0)+","+row("U", 0, 0, 0, 0, 0)+","+row("T", 1, 3, 1, first, 2)+`}}`, progress(), "objects as keys")
	require.Equal(t, `{"consumeTps":0,"offsetTable":{`+rows+`}}`, progress(field("topic", "T")))
	require.JSONEq(t, `{"consumeTps":0,"offsetTable":{}}`, progress(field("topic", "none")))

	running := make(chan string, 1)
	consumer(t, b, remoting.Mux{
		remoting.NotifyConsumerIDsChanged: func(c *remoting.Conn, req *remoting.Command) { c.Respond(req, &remoting.Command{}) },
		remoting.GetConsumerRunningInfo: func(c *remoting.Conn, req *remoting.Command) {
			running <- req.Ext.Get("consumerGroup")
			c.Respond(req, &remoting.Command{Body: []byte(`{"properties":{}}`)})
		},
		remoting.GetConsumerStatusFromClient: func(c *remoting.Conn, req *remoting.Command) {
			c.Respond(req, &remoting.Command{Body: []byte(`{"consumerTable":{},"messageQueueTable":{{"brokerName":"b","queueId":1,"topic":"` + req.Ext.Get("topic") + `"}:9}}`)})
		},
	})
	require.Equal(t, `{"consumeTps":0,"offsetTable":{`+rows+`}}`, progress(), "U is not subscribed to")
	require.Equal(t, `{"consumeTps":0,"offsetTable":{`+row("U", 0, 0, 0, 0, 0)+`}}`, progress(field("topicList", "U;none;")))
	all := string(ok(t, b, client, remoting.GetBrokerConsumeStats, "", field("isOrder", "false")).Body)
	require.Contains(t, all, `{"g":[{"consumeTps":0,"offsetTable":{`+rows+`}}]}`)
	require.Contains(t, all, `"totalDiff":2,"totalInflightDiff":1}`)
	require.Contains(t, string(ok(t, b, client, remoting.GetBrokerConsumeStats, "", field("isOrder", "true")).Body), `{"g":[]}`)

	body := string(ok(t, b, client, remoting.GetConsumerConnectionList, "", field("consumerGroup", "g")).Body)
	require.Contains(t, body, `"clientId":"id","language":"GO","version":513}]`)
	require.Contains(t, body, `"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":{"T":{"classFilterMode":false,`)
	require.Contains(t, string(ok(t, b, client, remoting.GetProducerConnectionList, "", field("producerGroup", "p")).Body), `"clientId":"id"`)
	require.Contains(t, string(ok(t, b, client, remoting.GetAllProducerInfo, "").Body), `{"data":{"p":[{"clientId":"id","language":"GO","lastUpdateTimestamp":`)
	require.JSONEq(t, `{"properties":{}}`, string(ok(t, b, client, remoting.GetConsumerRunningInfo, "", field("consumerGroup", "g"), field("clientId", "id")).Body))
	require.Equal(t, "g", <-running)
	queue := `{"brokerName":"b","queueId":1,"topic":"T"}`
	require.Equal(t, `{"consumerTable":{"id":{`+queue+`:9}}}`,
		string(ok(t, b, client, remoting.InvokeBrokerToGetConsumerStatus, "", field("topic", "T"), field("group", "g")).Body))
	require.Equal(t, remoting.SystemError, call(t, b, client, remoting.InvokeBrokerToGetConsumerStatus, nil, field("topic", "T"), field("group", "g"), field("clientAddr", "other")).Code)

	require.JSONEq(t, `{"groupList":["g"]}`, string(ok(t, b, client, remoting.QueryTopicConsumeByWho, "", field("topic", "T")).Body))
	require.JSONEq(t, `{"brokerAddr":"`+b.Addr().String()+`","topicList":["T","U"]}`, string(ok(t, b, client, remoting.QueryTopicsByConsumer, "", field("group", "g")).Body))
	require.Contains(t, string(ok(t, b, client, remoting.QuerySubscriptionByConsumer, "", field("group", "g"), field("topic", "T")).Body), `"subString":"*"`)
	require.JSONEq(t, `{"group":"g","topic":"U"}`, string(ok(t, b, client, remoting.QuerySubscriptionByConsumer, "", field("group", "g"), field("topic", "U")).Body))

	var spans struct {
		Spans []timeSpan `json:"consumeTimeSpanSet"`
	}
	require.NoError(t, json.Unmarshal(ok(t, b, client, remoting.QueryConsumeTimeSpan, "", field("topic", "T"), field("group", "g")).Body, &spans))
	require.Len(t, spans.Spans, 2)
	require.Equal(t, first, spans.Spans[1].MinMs)
	require.Equal(t, last.StoreTimestampMs, spans.Spans[1].MaxMs)
	require.Equal(t, first, spans.Spans[1].ConsumeMs)
	require.Regexp(t, `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}$`, spans.Spans[1].MinText)
	require.Equal(t, remoting.TopicNotExist, call(t, b, client, remoting.QueryConsumeTimeSpan, nil, field("topic", "none"), field("group", "g")).Code)
}

func TestT40TopicStats(t *testing.T) {
	b, client := openTest(t, nil)
	require.Equal(t, remoting.TopicNotExist, call(t, b, client, remoting.GetTopicStatsInfo, nil, field("topic", "T")).Code)
	ok(t, b, client, remoting.UpdateAndCreateTopic, "", updateTopic("T", field("readQueueNums", "1"), field("writeQueueNums", "2"))...)
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("x"), "").Code)
	r := stored(t, b, "T", 1, 0)
	want := fmt.Sprintf(`{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0},`+
		`{"brokerName":"b","queueId":1,"topic":"T"}:{"lastUpdateTimestamp":%d,"maxOffset":1,"minOffset":0}},"topicPutTps":0}`, r.StoreTimestampMs)
	require.Equal(t, want, string(ok(t, b, client, remoting.GetTopicStatsInfo, "", field("topic", "T")).Body))
	require.Equal(t, remoting.SystemError, call(t, b, client, remoting.ViewBrokerStatsData, nil, field("statsName", "TOPIC_PUT_NUMS"), field("statsKey", "none")).Code)
	require.Contains(t, string(ok(t, b, client, remoting.ViewBrokerStatsData, "", field("statsName", "TOPIC_PUT_NUMS"), field("statsKey", "T")).Body), `"statsMinute":{"sum":`)
}

func TestT40RuntimeInfo(t *testing.T) {
	b, client := openTest(t, nil)
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("x"), "DELAY\x0118\x02").Code) // not delivered meanwhile
	stored(t, b, meta.ScheduleTopic, 17, 0)
	var info struct{ Table map[string]string }
	require.NoError(t, json.Unmarshal(ok(t, b, client, remoting.GetBrokerRuntimeInfo, "").Body, &info))
	for _, name := range []string{
		"sendThreadPoolQueueSize", "pullThreadPoolQueueSize", "sendThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueHeadWaitTimeMills", "pageCacheLockTimeMills", "earliestMessageTimeStamp",
		"timerReadBehind", "timerOffsetBehind", "timerCongestNum", "msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgPutTotalTodayNow", "msgGetTotalYesterdayMorning",
		"msgGetTotalTodayMorning", "msgGetTotalTodayNow",
	} {
		_, err := strconv.ParseInt(info.Table[name], 10, 64)
		require.NoError(t, err, name)
	}
	for _, name := range []string{"commitLogDiskRatio", "consumeQueueDiskRatio", "timerEnqueueTps", "timerDequeueTps"} {
		_, err := strconv.ParseFloat(info.Table[name], 64)
		require.NoError(t, err, name)
	}
	for _, name := range []string{"putTps", "getTransferredTps", "getFoundTps", "getMissTps", "getTotalTps"} {
		require.Regexp(t, `^\d+\.\d{3} \d+\.\d{3} \d+\.\d{3}$`, info.Table[name], name)
	}
	require.Equal(t, "V5_5_0", info.Table["brokerVersionDesc"])
	require.Equal(t, "true", info.Table["brokerActive"])
	require.Equal(t, "1", info.Table["msgPutTotalTodayNow"])
	require.Equal(t, "0,1", info.Table["scheduleMessageOffset_18"])
	require.Regexp(t, `^\[ 0 days, 0 hours, \d+ minutes, \d+ seconds \]$`, info.Table["runtime"])
}

func TestT44ResetOffsets(t *testing.T) {
	b, client := openTest(t, nil)
	ok(t, b, client, remoting.UpdateAndCreateTopic, "", updateTopic("T", field("readQueueNums", "2"), field("writeQueueNums", "2"))...)
	var times []int64
	for i := range 3 {
		require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("x"), "").Code)
		times = append(times, stored(t, b, "T", 1, int64(i)).StoreTimestampMs)
		time.Sleep(2 * time.Millisecond) // store times differ
	}
	reset := func(want int32, ms int64, more ...remoting.Field) string {
		resp := call(t, b, client, remoting.InvokeBrokerToResetOffset, nil, append(remoting.Ext{
			{Key: "topic", Value: "T"}, {Key: "group", Value: "g"}, {Key: "timestamp", Value: strconv.FormatInt(ms, 10)}, {Key: "isForce", Value: "true"},
		}, more...)...)
		require.Equal(t, want, resp.Code, resp.Remark)
		return string(resp.Body)
	}
	reset(remoting.SubscriptionGroupNotExist, -1)
	require.NoError(t, b.groups.Put(meta.NewGroup("g")))
	row := func(id int, at int64) string {
		return fmt.Sprintf(`{"brokerName":"b","queueId":%d,"topic":"T"}:%d`, id, at)
	}
	require.Equal(t, `{"offsetTable":{`+row(0, 0)+`,`+row(1, 3)+`}}`, reset(remoting.Success, -1), "to the end")
	require.Equal(t, `{"offsetTable":{`+row(0, 0)+`,`+row(1, int64(slices.Index(times, times[1])))+`}}`, reset(remoting.Success, times[1]))
	require.Equal(t, `{"offsetTable":{`+row(0, 0)+`,`+row(1, 0)+`}}`, reset(remoting.Success, 0))
	require.Equal(t, `{"offsetTable":{`+row(1, 2)+`}}`, reset(remoting.Success, 0, field("queueId", "1"), field("offset", "2")))
	reset(remoting.SystemError, 0, field("queueId", "1"), field("offset", "5"))
	require.Equal(t, remoting.TopicNotExist, call(t, b, client, remoting.InvokeBrokerToResetOffset, nil, field("topic", "none"), field("group", "g"), field("timestamp", "0"), field("isForce", "true")).Code)

	// The next pull is told, once, and what is committed before is passed over.
	ok(t, b, client, remoting.UpdateConsumerOffset, "", field("consumerGroup", "g"), field("topic", "T"), field("queueId", "1"), field("commitOffset", "0"))
	require.EqualValues(t, 2, b.offsets.Query("g", "T", 1))
	resp := invoke(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription))
	require.Equal(t, remoting.PullOffsetMoved, resp.Code)
	require.Equal(t, "2", resp.Ext.Get("nextBeginOffset"))
	resp = invoke(t, b, client, pullRequest(remoting.PullMessage, 2, pullSubscription))
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
}

func TestResetAtClients(t *testing.T) {
	b, client := openTest(t, func(o *Options) { o.UseServerSideResetOffset = false })
	ok(t, b, client, remoting.UpdateAndCreateTopic, "", updateTopic("T", field("readQueueNums", "2"), field("writeQueueNums", "2"))...)
	require.NoError(t, b.groups.Put(meta.NewGroup("g")))
	for range 2 {
		require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("x"), "").Code)
	}
	stored(t, b, "T", 1, 1)
	ext := func(force string) []remoting.Field {
		return []remoting.Field{field("topic", "T"), field("group", "g"), field("timestamp", "-1"), field("isForce", force)}
	}
	require.Equal(t, remoting.ConsumerNotOnline, call(t, b, client, remoting.InvokeBrokerToResetOffset, nil, ext("false")...).Code)
	told := make(chan string, 10)
	consumer(t, b, remoting.Mux{
		remoting.NotifyConsumerIDsChanged: func(c *remoting.Conn, req *remoting.Command) { c.Respond(req, &remoting.Command{}) },
		remoting.ResetConsumerClientOffset: func(c *remoting.Conn, req *remoting.Command) {
			told <- req.Ext.Get("topic") + req.Ext.Get("group") + req.Ext.Get("timestamp") + req.Ext.Get("isForce") + string(req.Body)
			c.Respond(req, &remoting.Command{})
		},
	})
	require.Equal(t, remoting.SystemError, call(t, b, client, remoting.InvokeBrokerToResetOffset, nil, ext("false")...).Code, "no offsets")
	b.offsets.Commit("g", "T", 0, 0)
	b.offsets.Commit("g", "T", 1, 1)
	table := `{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:0,{"brokerName":"b","queueId":1,"topic":"T"}:%d}}`
	require.Equal(t, fmt.Sprintf(table, 1), string(ok(t, b, client, remoting.InvokeBrokerToResetOffset, "", ext("false")...).Body), "forwards by force alone")
	require.Equal(t, "Tg-1false"+fmt.Sprintf(table, 1), <-told)
	co := remoting.DefaultClientOptions()
	co.Language = remoting.CPP
	cpp, err := remoting.NewClient(co)
	require.NoError(t, err)
	defer cpp.Close()
	require.Equal(t, fmt.Sprintf(table, 2), string(ok(t, b, cpp, remoting.InvokeBrokerToResetOffset, "", ext("true")...).Body))
	require.Equal(t, `Tg-1true{"offsetTable":[{"brokerName":"b","offset":0,"queueId":0,"topic":"T"},{"brokerName":"b","offset":2,"queueId":1,"topic":"T"}]}`, <-told)
	require.EqualValues(t, 1, b.offsets.Query("g", "T", 1), "the members commit it")
}

func TestOffsetsForTools(t *testing.T) {
	b, client := openTest(t, nil)
	ok(t, b, client, remoting.UpdateAndCreateTopic, "", updateTopic("T")...)
	b.offsets.Commit("g", "T", 0, 7)
	b.offsets.Commit("g", "T", 1, 3)
	b.offsets.Commit("h", "T", 0, 5)
	correction := func(filter string) string {
		return string(ok(t, b, client, remoting.QueryCorrectionOffset, "", field("topic", "T"), field("compareGroup", "g"), field("filterGroups", filter)).Body)
	}
	require.JSONEq(t, `{"correctionOffsets":{"0":5,"1":3}}`, correction(""))
	require.JSONEq(t, `{"correctionOffsets":{"0":7,"1":3}}`, correction("x,h"))
	ok(t, b, client, remoting.CloneGroupOffset, "", field("srcGroup", "g"), field("destGroup", "k"), field("topic", "T"), field("offline", "true"))
	require.Equal(t, map[int32]int64{0: 7, 1: 3}, b.offsets.Of("k", "T"))
	ok(t, b, client, remoting.CloneGroupOffset, "", field("srcGroup", "g"), field("destGroup", "l"))
	require.Equal(t, map[int32]int64{0: 7, 1: 3}, b.offsets.Of("l", "T"))
	require.Contains(t, string(ok(t, b, client, remoting.GetAllConsumerOffset, "").Body), `"T@g":{"0":7,"1":3}`)
	b.delays.Set(3, 9)
	require.Contains(t, string(ok(t, b, client, remoting.GetAllDelayOffset, "").Body), `"offsetTable":{"3":9}`)
}

func TestT43QueryUnits(t *testing.T) {
	b, client := openTest(t, nil)
	for _, tag := range []string{"A", "B", "A"} {
		require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("x"), "TAGS\x01"+tag+"\x02").Code)
	}
	stored(t, b, "T", 1, 2)
	query := func(topic, queueID, index string, more ...remoting.Field) *remoting.Command {
		return call(t, b, client, remoting.QueryConsumeQueue, nil, append(more, field("topic", topic), field("queueId", queueID), field("index", index), field("count", "10"))...)
	}
	var body struct {
		Max          int64  `json:"maxQueueIndex"`
		Min          int64  `json:"minQueueIndex"`
		Units        []unit `json:"queueData"`
		Subscription *struct {
			Text string `json:"subString"`
		} `json:"subscriptionData"`
	}
	require.NoError(t, json.Unmarshal(query("T", "1", "1").Body, &body))
	require.EqualValues(t, 3, body.Max)
	require.Len(t, body.Units, 2)
	require.EqualValues(t, "B"[0], body.Units[0].TagsCode)
	require.Positive(t, body.Units[0].Size)
	require.Less(t, body.Units[0].PhyOffset, body.Units[1].PhyOffset)
	ok(t, b, client, remoting.Heartbeat, strings.Replace(string(beat("id", "g", "T")), `"subString":"*"`, `"subString":"A"`, 1))
	require.NoError(t, json.Unmarshal(query("T", "1", "1", field("consumerGroup", "g")).Body, &body))
	require.Equal(t, "A", body.Subscription.Text)
	require.False(t, body.Units[0].Eval)
	require.True(t, body.Units[1].Eval)
	resp := query("T", "1", "3")
	require.Equal(t, remoting.Success, resp.Code)
	require.Empty(t, resp.Body)
	require.Equal(t, remoting.SystemError, query("none", "0", "0").Code)
}

func TestT45Config(t *testing.T) {
	b, client := openTest(t, nil)
	get := func() string { return string(ok(t, b, client, remoting.GetBrokerConfig, "").Body) }
	require.Contains(t, get(), "\nbrokerName=b\n")
	require.Contains(t, get(), "\nautoCreateTopicEnable=true\n")
	resp := ok(t, b, client, remoting.UpdateBrokerConfig, "# comment\nautoCreateTopicEnable=false\nuseEpoll : true\n")
	require.Contains(t, resp.Remark, "useEpoll")
	require.Contains(t, resp.Remark, "until the broker is restarted")
	require.Contains(t, get(), "\nautoCreateTopicEnable=false\n")
	require.Contains(t, get(), "\nuseEpoll=true\n")
	require.Equal(t, remoting.TopicNotExist, sendV2(t, b, client, "T", []byte("x"), "").Code, "in effect at once")
	for _, c := range []struct {
		text, remark string
		code         int32
	}{
		{"brokerPermission=4\nbrokerConfigPath=/x", "brokerConfigPath", remoting.NoPermission},
		{"configBlackList=a", "configBlackList", remoting.NoPermission},
		{"brokerPermission=4\nbrokerName=other\nflushDiskType=SYNC_FLUSH", "brokerName takes a restart of the broker\nflushDiskType takes a restart of the broker", remoting.SystemError},
		{"brokerPermission=9", "brokerPermission", remoting.SystemError},
		{"brokerPermission=x", "brokerPermission", remoting.SystemError},
		{"fileReservedTime=-1", "fileReservedTime", remoting.SystemError},
		{"inSyncReplicas=2", "replication", remoting.SystemError},
		{"combineCQPreferCQType=defaultRocksDB", "both", remoting.SystemError},
		{"namesrvAddr=127.0.0.1:9876\\nx=y", "control characters", remoting.SystemError},
		{"useEpoll=a\\nbrokerName=c", "control characters", remoting.SystemError},
		{"namesrvAddr=foo:99999", "namesrvAddr has \"foo:99999\"", remoting.SystemError},
		{"", "no property", remoting.SystemError},
	} {
		resp := call(t, b, client, remoting.UpdateBrokerConfig, []byte(c.text))
		require.Equal(t, c.code, resp.Code, c.text)
		require.Contains(t, resp.Remark, c.remark)
	}
	require.Contains(t, get(), "\nbrokerPermission=6\n", "nothing was changed")
	ok(t, b, client, remoting.UpdateBrokerConfig, "brokerName=b\nbrokerPermission=4\ndataReadAheadEnable=false")
	require.Contains(t, get(), "\ndataReadAheadEnable=false\n")
	require.Equal(t, remoting.NoPermission, sendV2(t, b, client, "TBW102", []byte("x"), "").Code)
	require.Equal(t, 3, int(b.changes)+1)

	// Issue 8: options of the store are in force too, and those that take a restart are named.
	ok(t, b, client, remoting.UpdateBrokerConfig, "fileReservedTime=5\nmaxMessageSize=100\nflushIntervalCommitLog=50\nbrokerPermission=6")
	require.Contains(t, get(), "\nfileReservedTime=5\n")
	require.Equal(t, 5, b.store.Options().FileReservedTime)
	resp = sendV2(t, b, client, "TBW102", make([]byte, 101), "")
	require.Equal(t, remoting.MessageIllegal, resp.Code, resp.Remark)
	resp = call(t, b, client, remoting.UpdateBrokerConfig, []byte("fileReservedTime=6\nenableLmq=true"))
	require.Equal(t, remoting.SystemError, resp.Code)
	require.Contains(t, resp.Remark, "enableLmq takes a restart of the broker")
	require.Equal(t, 5, b.store.Options().FileReservedTime, "nothing was changed")
	require.Contains(t, ok(t, b, client, remoting.GetBrokerConfig, "").Ext.Get("version"), `"counter":3`)
}

// Changed properties stand in the broker.conf when the answer goes, beside what somebody wrote there.
func TestT45ConfigIsWrittenToBrokerConf(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "real.conf"), filepath.Join(dir, "broker.conf")
	require.NoError(t, os.WriteFile(path, []byte("# mine\nautoCreateTopicEnable = true\nbrokerName=b\n"), 0o600))
	require.NoError(t, os.Symlink("real.conf", link))
	b, client := openTest(t, func(o *Options) { o.ConfFile = link })
	resp := ok(t, b, client, remoting.UpdateBrokerConfig, "autoCreateTopicEnable=false\nuseEpoll=true\n")
	require.NotContains(t, resp.Remark, "restart")
	want := "# mine\nautoCreateTopicEnable=false\nbrokerName=b\nuseEpoll=true\n"
	read := func() string {
		text, err := os.ReadFile(link)
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, want, read())
	at, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, at.Mode()&os.ModeSymlink)
	at, err = os.Stat(link)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), at.Mode().Perm(), "who may read it stays")

	require.Equal(t, remoting.SystemError, call(t, b, client, remoting.UpdateBrokerConfig, []byte("autoCreateTopicEnable=true\nbrokerPermission=9")).Code)
	require.Equal(t, want, read(), "what is refused is not written")
	require.NoError(t, os.Remove(link))
	resp = call(t, b, client, remoting.UpdateBrokerConfig, []byte("autoCreateTopicEnable=true"))
	require.Equal(t, remoting.SystemError, resp.Code)
	require.Contains(t, resp.Remark, "in effect until the broker is restarted, and not written")
	require.Contains(t, resp.Remark, link)
	require.True(t, b.live().AutoCreateTopicEnable)
}

// TestT45NameServers: a broker that is given another NameServer registers there and leaves the old one.
func TestT45NameServers(t *testing.T) {
	one, client := openTest(t, func(o *Options) { o.BrokerName, o.EmbeddedNamesrv = "one", "127.0.0.1:0" })
	two, _ := openTest(t, func(o *Options) { o.BrokerName, o.EmbeddedNamesrv = "two", "127.0.0.1:0" })
	b, _ := openTest(t, func(o *Options) { o.NamesrvAddr = one.NameServerAddr().String() })
	knows := func(at *Broker) bool {
		resp, err := client.Invoke(t.Context(), at.NameServerAddr().String(), &remoting.Command{Code: remoting.GetBrokerClusterInfo})
		require.NoError(t, err)
		return strings.Contains(string(resp.Body), b.Addr().String())
	}
	require.True(t, knows(one))
	ok(t, b, client, remoting.UpdateBrokerConfig, "namesrvAddr="+two.NameServerAddr().String())
	require.Eventually(t, func() bool { return knows(two) && !knows(one) }, 30*time.Second, time.Millisecond)
}

func TestT46Cleaning(t *testing.T) {
	b, client := openTest(t, nil)
	for _, code := range []int32{remoting.CleanExpiredConsumeQueue, remoting.CleanUnusedTopic, remoting.DeleteExpiredCommitLog} {
		ok(t, b, client, code, "")
	}
	for _, topic := range []string{"T", "U"} {
		require.Equal(t, remoting.Success, sendV2(t, b, client, topic, []byte("x"), "").Code)
		stored(t, b, topic, 1, 0)
	}
	require.NoError(t, b.topics.Delete("T"))
	ok(t, b, client, remoting.CleanUnusedTopic, "")
	keys, err := b.store.Queues()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.Equal(t, "U", keys[0].Topic)
	require.NoError(t, b.topics.Delete("U"))
	resp := call(t, b, client, remoting.CleanUnusedTopic, nil)
	require.Equal(t, remoting.SystemError, resp.Code)
	require.Contains(t, resp.Remark, "may have been lost")

	resp = ok(t, b, client, remoting.GetBrokerHAStatus, "")
	require.JSONEq(t, fmt.Sprintf(`{"haClientRuntimeInfo":{"activated":false,"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":0,"maxOffset":0,"transferredByteInSecond":0},"haConnectionInfo":[],
		"inSyncSlaveNums":0,"master":true,"masterCommitLogMaxOffset":%d}`, b.store.Positions().Wrote), string(resp.Body))
	resp = ok(t, b, client, remoting.GetBrokerMemberGroup, "", field("clusterName", "c"), field("brokerName", "b"))
	require.JSONEq(t, `{"brokerMemberGroup":{"brokerAddrs":{"0":"`+b.Addr().String()+`"},"brokerName":"b","cluster":"c"}}`, string(resp.Body))
}

func TestT46CheckRocksDB(t *testing.T) {
	b, client := openTest(t, nil)
	var a checkAnswer
	check := func(b *Broker) {
		t.Helper()
		a = checkAnswer{}
		require.NoError(t, json.Unmarshal(ok(t, b, client, remoting.CheckRocksDBCQWriteProgress, "", field("checkStoreTime", "0")).Body, &a))
	}
	check(b)
	require.Equal(t, checkFailed, a.Status, "FR-G02: one side alone is not equal")
	require.Contains(t, a.Result, "not possible")
	if !rocks.Available {
		t.Skip("built without cgo: no RocksDB")
	}
	b, client = openTest(t, combined)
	for range 5 {
		require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("x"), "").Code)
	}
	stored(t, b, "T", 1, 4)
	require.Eventually(t, func() bool { check(b); return a.Status != checkRunning }, 30*time.Second, time.Millisecond)
	require.Equal(t, checkAnswer{"equal: 1 queues and 5 units compared, 0 light queues that one side has alone left out", checkOK}, a)
	require.Equal(t, checkAnswer{"1 queues differ (2 queues and 9 units compared, 0 light queues that one side has alone left out); topic T: 1 of 2 queues differ; x", checkDiffers},
		checkResult(store.SidesReport{Queues: 2, Units: 9, Different: 1, Differences: []string{"x"}, Topics: []store.TopicSides{{Topic: "T", Queues: 2, Different: 1}}}, nil))
	require.Equal(t, checkAnswer{store.ErrRebuilding.Error() + "; topic T: 7 units of 2 queues are on one side alone; and 3 topics more", checkRunning},
		checkResult(store.SidesReport{Topics: []store.TopicSides{{Topic: "T", Queues: 2, Lacking: 7}}, MoreTopics: 3}, store.ErrRebuilding))
	ok(t, b, client, remoting.UpdateBrokerConfig, "combineCQPreferCQType=defaultRocksDB")
	require.Contains(t, string(ok(t, b, client, remoting.GetBrokerConfig, "").Body), "\ncombineCQPreferCQType=defaultRocksDB\n")
}

func TestWhatIsNotThere(t *testing.T) {
	b, client := openTest(t, nil)
	ok(t, b, client, remoting.SetMessageRequestMode, `{"consumerGroup":"g","mode":"PULL","popShareQueueNum":0,"topic":"T"}`)
	require.Equal(t, remoting.SystemError, call(t, b, client, remoting.SetMessageRequestMode, []byte(`{"consumerGroup":"g","mode":"POP","topic":"T"}`)).Code)
	require.Equal(t, remoting.NoPermission, call(t, b, client, remoting.SetMessageRequestMode, []byte(`{"consumerGroup":"g","mode":"PULL","topic":"%RETRY%g"}`)).Code)
	require.JSONEq(t, `{"messageRequestModeMap":{}}`, string(ok(t, b, client, remoting.GetAllMessageRequestMode, "").Body))
	require.Equal(t, remoting.NoPermission, call(t, b, client, remoting.RecallMessage, nil).Code)
	b.offsets.Commit("g", "T", 0, 7)
	ok(t, b, client, remoting.ExportRocksDBConfigToJSON, "", field("configType", "topics;subscriptionGroups;consumerOffsets"))
	require.Contains(t, configFile(t, b, "consumerOffset.json"), "T@g")
	require.Equal(t, remoting.SystemError, call(t, b, client, remoting.ExportRocksDBConfigToJSON, nil, field("configType", "x")).Code)
	for _, code := range []int32{400, 513, 5001, 200050, 200071, 906, 1001, 2001, 3001, 13, 209, 301} {
		require.Equal(t, remoting.RequestCodeNotSupported, call(t, b, client, code, nil).Code, code)
	}
}

// combined has queues in files and in RocksDB.
func combined(o *Options) {
	o.Store.StoreType, o.Store.RocksdbCQDoubleWriteEnable = store.StoreTypeFile, true
}
