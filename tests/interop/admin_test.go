//go:build interop

package interop

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// admin runs commands of mqadmin in one JVM.
type admin struct {
	t       *testing.T
	peer    *peer
	namesrv string
}

func startAdmin(t *testing.T, namesrv string) *admin {
	t.Helper()
	return &admin{t: t, peer: startPeer(t, "AdminRun", jvm("256m")), namesrv: namesrv}
}

// bodyFile is where some commands leave the body of a message.
var bodyFile = regexp.MustCompile(`Message Body Path: +(\S+)`)

// run returns what the command printed, whatever that is.
func (a *admin) run(words ...string) string {
	a.t.Helper()
	text := a.peer.ask(a.t, append(words, "-n", a.namesrv)...)
	if m := bodyFile.FindStringSubmatch(text); m != nil {
		body, err := os.ReadFile(m[1])
		require.NoError(a.t, err)
		text += "\nBODY: " + string(body)
		require.NoError(a.t, os.Remove(m[1]))
		_ = os.Remove(filepath.Dir(m[1])) // when nothing else is there
		_ = os.Remove(filepath.Dir(filepath.Dir(m[1])))
	}
	return text
}

// comes is good of a command that may be repeated: what it asks for may take a while, and on a busy machine it runs into its own time limits, which are seconds.
func (a *admin) comes(want []string, words ...string) (text string) {
	a.t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		text = a.run(words...)
		if !strings.Contains(text, "Exception") && !slices.ContainsFunc(want, func(w string) bool { return !regexp.MustCompile(w).MatchString(text) }) {
			return text
		}
	}
	require.Failf(a.t, "waited too long", "mqadmin %s prints no %q:\n%s", words, want, text)
	return ""
}

// good is run of a command that has to succeed and to print all of that.
func (a *admin) good(want []string, words ...string) string {
	a.t.Helper()
	text := a.run(words...)
	require.NotContains(a.t, text, "Exception", "mqadmin %s", words)
	require.NotContains(a.t, text, "usage: mqadmin", "mqadmin %s", words)
	for _, w := range want {
		require.Regexp(a.t, w, text, "mqadmin %s", words)
	}
	return text
}

// adminBroker is a broker with its NameServer, and queues in files and in RocksDB.
func adminBroker(t *testing.T) (b *broker.Broker, root string) {
	t.Helper()
	o := broker.DefaultOptions()
	o.BrokerClusterName, o.BrokerName, o.ListenPort, o.EmbeddedNamesrv = "c", "b", 0, "127.0.0.1:0"
	root = t.TempDir()
	o.StorePathRootDir = root
	o.Store.StoreType, o.Store.RocksdbCQDoubleWriteEnable = store.StoreTypeFile, true
	o.Store.MappedFileSizeCommitLog, o.Store.MappedFileSizeConsumeQueue = 8<<20, 20_000
	o.Store.MaxHashSlotNum, o.Store.MaxIndexNum = 1000, 4000
	b, err := broker.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	require.NoError(t, b.Start())
	return b, root
}

// adminMember is a consumer and producer that says what Java clients say.
func adminMember(t *testing.T, b *broker.Broker) *remoting.Client {
	t.Helper()
	o := remoting.DefaultClientOptions()
	o.Language = remoting.Java
	o.Handler = remoting.Mux{
		remoting.NotifyConsumerIDsChanged: func(c *remoting.Conn, req *remoting.Command) { c.Respond(req, &remoting.Command{}) },
		remoting.GetConsumerRunningInfo: func(c *remoting.Conn, req *remoting.Command) {
			c.Respond(req, &remoting.Command{Body: []byte(`{"mqPopTable":{},"mqTable":{},"properties":{"PROP_CONSUME_TYPE":"CONSUME_PASSIVELY","PROP_CLIENT_VERSION":"V5_5_0","PROP_CONSUMER_START_TIMESTAMP":"1"},"statusTable":{},"subscriptionSet":[],"userConsumerInfo":{}}`)})
		},
	}
	client, err := remoting.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	adminCall(t, client, b.Addr().String(), remoting.Heartbeat, `{"clientID":"127.0.0.1@member","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"g",`+
		`"messageModel":"CLUSTERING","subscriptionDataSet":[{"expressionType":"TAG","subString":"*","subVersion":1,"topic":"T"},{"expressionType":"TAG","subString":"*","subVersion":1,"topic":"%RETRY%g"}]}],"producerDataSet":[{"groupName":"pg"}]}`)
	return client
}

func adminCall(t *testing.T, client *remoting.Client, addr string, code int32, body string, ext ...remoting.Field) *remoting.Command {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	resp, err := client.Invoke(ctx, addr, &remoting.Command{Code: code, Ext: ext, Body: []byte(body)})
	require.NoError(t, err)
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	return resp
}

func field(key, value string) remoting.Field { return remoting.Field{Key: key, Value: value} }

// TestT54Admin goes through the commands of mqadmin, of which each has to say what is so, and none that anything failed. The names of the parts are those of the list of what has to work.
func TestT54Admin(t *testing.T) {
	t.Parallel()
	b, root := adminBroker(t)
	addr, namesrv := b.Addr().String(), b.NameServerAddr().String()
	client := adminMember(t, b)
	a := startAdmin(t, namesrv)
	part := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			outer := a.t
			a.t = t
			defer func() { a.t = outer }()
			f(t)
		})
	}
	config := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, "config", name))
		require.NoError(t, err)
		return string(text)
	}
	send := func(body, properties string) {
		adminCall(t, client, addr, remoting.SendMessageV2, body, field("a", "pg"), field("b", "T"), field("c", "TBW102"), field("d", "4"), field("e", "1"), field("f", "0"), field("g", "1700000000000"), field("h", "0"),
			field("i", properties), field("j", "0"), field("k", "false"), field("m", "false"))
	}
	offset := func() string {
		return adminCall(t, client, addr, remoting.QueryConsumerOffset, "", field("consumerGroup", "g"), field("topic", "T"), field("queueId", "1")).Ext.Get("offset")
	}

	part("T41 topics and groups are made", func(t *testing.T) {
		a.good([]string{`success`}, "updateTopic", "-c", "c", "-t", "T", "-r", "2", "-w", "2")
		a.good([]string{`success`}, "updateTopic", "-b", addr, "-t", "U", "-r", "1", "-w", "1", "-a", "+message.type=NORMAL")
		a.good([]string{`from 6 to 4`}, "updateTopicPerm", "-b", addr, "-t", "U", "-p", "4")
		a.good([]string{`success`}, "updateSubGroup", "-b", addr, "-g", "h")
		require.Contains(t, config("topics.json"), `"message.type": "NORMAL"`)
		require.Contains(t, config("topics.json"), `"perm": 4`)
		require.Contains(t, config("subscriptionGroup.json"), `"h": {`)
		require.Contains(t, a.run("updateTopic", "-b", addr, "-t", "TBW102"), "CODE: 29")
	})
	part("T43 messages", func(t *testing.T) {
		a.good([]string{`SEND_OK`}, "sendMessage", "-t", "T", "-p", "hello", "-k", "K1", "-c", "tagA", "-b", "b", "-i", "1")
		send("world", "KEYS\x01K2\x02TAGS\x01tagB\x02UNIQ_KEY\x01U2\x02")
		require.Eventually(t, func() bool { at, err := b.Store().MaxOffset("T", 1); return err == nil && at == 2 }, 30*time.Second, time.Millisecond)
		a.good([]string{`BODY: hello`, `BODY: world`}, "consumeMessage", "-t", "T", "-b", "b", "-i", "1", "-o", "0", "-c", "2")
		a.good([]string{`minOffset=0, maxOffset=0, MessageQueue \[topic=T, brokerName=b, queueId=0]`, `(?s)BODY: hello.*BODY: world`}, "printMsg", "-t", "T")
		a.good([]string{`K1`}, "queryMsgByKey", "-t", "T", "-k", "K1")
		text := a.good([]string{`Queue Offset: +1`, `BODY: world`}, "queryMsgByOffset", "-t", "T", "-b", "b", "-i", "1", "-o", "1")
		id := regexp.MustCompile(`OffsetID: +(\S+)`).FindStringSubmatch(text)
		require.NotNil(t, id)
		a.good([]string{`Queue Offset: +1`, `BODY: world`}, "queryMsgById", "-t", "T", "-i", id[1])
		a.good([]string{`Queue Offset: +1`, `BODY: world`}, "queryMsgByUniqueKey", "-t", "T", "-i", "U2")
		a.good([]string{`max: 2, min: 0`, `(?s)physicSize.*physicSize`}, "queryCq", "-t", "T", "-q", "1", "-i", "0", "-c", "10", "-b", addr)
	})
	part("T40 state", func(t *testing.T) {
		a.good([]string{`c +b +0 +` + addr + ` +V5_5_0`}, "clusterList")
		a.good([]string{`msgPutTotalTodayNow +: 2`}, "brokerStatus", "-b", addr)
		a.good([]string{`(?m)^T$`, `(?m)^U$`, `(?m)^%RETRY%g$`}, "topicList")
		a.good([]string{`(?m)^c +T +g`}, "topicList", "-c")
		a.good([]string{`"readQueueNums":2`, addr}, "topicRoute", "-t", "T")
		a.good([]string{`b +0 +0 +0`, `b +1 +0 +2 +\d{4}-`}, "topicStatus", "-t", "T")
		a.good([]string{`(?m)^T +g +2 `}, "statsAll", "-t", "T")
	})
	part("T42 groups and connections", func(t *testing.T) {
		adminCall(t, client, addr, remoting.UpdateConsumerOffset, "", field("consumerGroup", "g"), field("topic", "T"), field("queueId", "1"), field("commitOffset", "1"))
		a.good([]string{`T +b +1 +2 +1 .* 1 +`, `Consume Diff Total: 1`}, "consumerProgress", "-g", "g")
		a.good([]string{`(?m)^g +1 +V5_5_0 +PUSH +CLUSTERING`}, "consumerProgress")
		a.good([]string{`127\.0\.0\.1@member +127\.0\.0\.1:\d+ +JAVA +V5_5_0`, `CONSUME_PASSIVELY`, `CLUSTERING`}, "consumerConnection", "-g", "g")
		a.good([]string{`127\.0\.0\.1@member`}, "consumerStatus", "-g", "g")
		a.good([]string{`127\.0\.0\.1@member +127\.0\.0\.1:\d+ +JAVA`}, "producerConnection", "-g", "pg", "-t", "T")
		a.good([]string{`pg`, `127\.0\.0\.1@member`}, "producer", "-b", addr)
	})
	part("T44 offsets are reset", func(t *testing.T) {
		a.good([]string{`b +1 +2`}, "resetOffsetByTime", "-g", "g", "-t", "T", "-s", "now")
		require.Equal(t, "2", offset())
		a.good([]string{`b +1 +0`}, "resetOffsetByTime", "-g", "g", "-t", "T", "-s", "0")
		require.Equal(t, "0", offset())
		a.good([]string{`b +1 +2`}, "skipAccumulatedMessage", "-g", "g", "-t", "T")
		require.Equal(t, "2", offset())
		a.good(nil, "cloneGroupOffset", "-s", "g", "-d", "h", "-t", "T")
	})
	part("T45 properties", func(t *testing.T) {
		a.good([]string{`autoCreateTopicEnable += +true`}, "getBrokerConfig", "-b", addr)
		a.good([]string{`success`}, "updateBrokerConfig", "-b", addr, "-k", "autoCreateTopicEnable", "-v", "false")
		a.good([]string{`autoCreateTopicEnable += +false`}, "getBrokerConfig", "-b", addr)
		require.Contains(t, a.run("updateBrokerConfig", "-b", addr, "-k", "brokerConfigPath", "-v", "/x"), "CODE: 16")
		require.Contains(t, a.run("updateBrokerConfig", "-b", addr, "-k", "brokerName", "-v", "x"), "takes a restart")
	})
	part("T46 cleaning and checks", func(t *testing.T) {
		a.good([]string{`get the result from log`}, "checkRocksdbCqWriteProgress", "-c", "c", "-cf", "0")
		for _, command := range []string{"cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"} {
			a.good([]string{`success`}, command, "-b", addr)
		}
		a.good([]string{addr, `SlaveNum\s+0`}, "haStatus", "-b", addr)
	})
	part("T47 NameServer", func(t *testing.T) {
		a.good([]string{`b:2`}, "updateOrderConf", "-t", "T", "-v", "b:2", "-m", "put")
		a.good([]string{`b:2`}, "updateOrderConf", "-t", "T", "-m", "get")
		a.good([]string{`OK`}, "wipeWritePerm", "-b", "b")
		a.good([]string{`"perm":4`}, "topicRoute", "-t", "T")
		a.good([]string{`OK`}, "addWritePerm", "-b", "b")
		a.good([]string{`"perm":6`}, "topicRoute", "-t", "T")
		a.good([]string{`success`}, "updateKvConfig", "-s", "ns", "-k", "k", "-v", "v")
		require.Equal(t, "v", adminCall(t, client, namesrv, remoting.GetKVConfig, "", field("namespace", "ns"), field("key", "k")).Ext.Get("value"))
	})
	part("T48 exports and tables", func(t *testing.T) {
		dir := t.TempDir()
		for file, want := range map[string]string{"metadata": `"topicName":"T"`, "configs": `"brokerName":"b"`, "metrics": `"rocketmqVersion":"V5_5_0"`} {
			a.good([]string{`success`}, "export"+strings.ToUpper(file[:1])+file[1:], "-c", "c", "-f", dir)
			text, err := os.ReadFile(filepath.Join(dir, file+".json"))
			require.NoError(t, err)
			require.Contains(t, string(text), want)
		}
		a.good([]string{`(?m)^T +g +b +1 +2 +2 +0`, `Diff Total:`}, "brokerConsumeStats", "-b", addr)
		a.good([]string{`groupName += +g`, `retryMaxTimes += +16`}, "getConsumerConfig", "-g", "g")
	})
	part("T41 topics and groups are deleted", func(t *testing.T) {
		a.good([]string{`success`}, "deleteSubGroup", "-b", addr, "-g", "h", "-r", "true")
		a.good([]string{`success`}, "deleteTopic", "-c", "c", "-t", "U")
		require.NotContains(t, config("topics.json"), `"U"`)
		require.NotContains(t, config("subscriptionGroup.json"), `"h": {`)
		require.NotContains(t, config("consumerOffset.json"), `@h"`)
		require.Contains(t, a.run("topicRoute", "-t", "U"), "CODE: 17")
	})
}
