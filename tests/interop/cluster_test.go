//go:build interop

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker"
	"github.com/tandemq/tandemmq/internal/laxjson"
	"github.com/tandemq/tandemmq/remoting"
)

// Our broker among RocketMQ's own NameServers and brokers.

var listening = regexp.MustCompile(`^ready broker=go .*listen=(\S+) `)

// brokerProcess runs `tandemmq broker` as broker "go" of cluster "c".
func brokerProcess(t *testing.T, dir, namesrv string) (cmd *exec.Cmd, addr string) {
	t.Helper()
	cmd = tandemmq.Command(t, "broker", "--store", dir, "--listen", "127.0.0.1:0", "--namesrv", namesrv, "--name", "go", "--cluster", "c", "--quiet",
		"--set", "mappedFileSizeCommitLog=1048576", "--set", "maxHashSlotNum=1000", "--set", "maxIndexNum=4000", "--set", "registerNameServerPeriod=10000")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // a test that failed in between
			_ = cmd.Wait()
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, listening, line)
	return cmd, listening.FindStringSubmatch(line)[1]
}

// A nameServer is asked for what it knows.
type nameServer struct {
	t      *testing.T
	client *remoting.Client
	addr   string
}

func newRemotingClient(t *testing.T) *remoting.Client {
	t.Helper()
	client, err := remoting.NewClient(remoting.DefaultClientOptions())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// brokers returns the address of each broker.
func (n *nameServer) brokers() map[string]string {
	n.t.Helper()
	var info struct {
		Brokers map[string]struct{ BrokerAddrs map[string]string } `json:"brokerAddrTable"`
	}
	body, err := laxjson.Strict(adminCall(n.t, n.client, n.addr, remoting.GetBrokerClusterInfo, "").Body)
	require.NoError(n.t, err)
	require.NoError(n.t, json.Unmarshal(body, &info))
	addrs := map[string]string{}
	for name, b := range info.Brokers {
		addrs[name] = b.BrokerAddrs["0"]
	}
	return addrs
}

// perm returns the permission that a topic has at a broker; 0 without a route.
func (n *nameServer) perm(topic, broker string) (perm int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 30*time.Second)
	defer cancel()
	resp, err := n.client.Invoke(ctx, n.addr, &remoting.Command{Code: remoting.GetRouteInfoByTopic, Ext: remoting.Ext{field("topic", topic)}})
	require.NoError(n.t, err)
	if resp.Code == remoting.TopicNotExist {
		return 0
	}
	require.Equal(n.t, remoting.Success, resp.Code, resp.Remark)
	var route struct {
		QueueDatas []struct {
			BrokerName string
			Perm       int
		}
	}
	body, err := laxjson.Strict(resp.Body)
	require.NoError(n.t, err)
	require.NoError(n.t, json.Unmarshal(body, &route))
	for _, q := range route.QueueDatas {
		if q.BrokerName == broker {
			return q.Perm
		}
	}
	return 0
}

// changed says whether the server holds another version of the broker's topics than this.
func (n *nameServer) changed(brokerAddr, version string) string {
	n.t.Helper()
	return adminCall(n.t, n.client, n.addr, remoting.QueryDataVersion, version, field("brokerName", "go"), field("brokerAddr", brokerAddr), field("clusterName", "c"), field("brokerId", "0")).Ext.Get("changed")
}

// eventually waits until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !so(); time.Sleep(20 * time.Millisecond) {
		require.True(t, time.Now().Before(until), "waited too long for: %s", what)
	}
}

// Two NameServers of RocketMQ learn of our broker, of its topics as they change, and of its end.
func TestT50T53NameServersOfRocketMQ(t *testing.T) {
	t.Parallel()
	s := startServers(t)
	client := newRemotingClient(t)
	servers := map[string]*nameServer{}
	for _, name := range []string{"n1", "n2"} {
		servers[name] = &nameServer{t, client, s.nameServer(t, name, "0")}
	}
	namesrv := servers["n1"].addr + ";" + servers["n2"].addr
	dir := filepath.Join(t.TempDir(), "store")
	var process *exec.Cmd
	var addr string
	start := func() { process, addr = brokerProcess(t, dir, namesrv) }
	start()
	version := func() string {
		var all struct{ DataVersion json.RawMessage }
		body := adminCall(t, client, addr, remoting.GetAllTopicConfig, "").Body
		require.NoError(t, json.Unmarshal(body, &all))
		return string(all.DataVersion)
	}
	before := version()
	topic := func(queues, perm string) {
		adminCall(t, client, addr, remoting.UpdateAndCreateTopic, "", field("topic", "T"), field("defaultTopic", "TBW102"), field("readQueueNums", queues), field("writeQueueNums", queues),
			field("perm", perm), field("topicFilterType", "SINGLE_TAG"), field("topicSysFlag", "0"), field("order", "false"))
	}
	for name, n := range servers {
		require.Equal(t, map[string]string{"go": addr}, n.brokers(), "%s, once the broker says that it is ready", name)
		require.Equal(t, "false", n.changed(addr, before), name)
		require.Equal(t, 7, n.perm("TBW102", "go"), name)
		require.Zero(t, n.perm("T", "go"), name)
	}
	topic("2", "6")
	for name, n := range servers {
		require.Equal(t, 6, n.perm("T", "go"), "%s, once the topic has been made", name)
		require.Equal(t, "true", n.changed(addr, before), name)
		require.Equal(t, "false", n.changed(addr, version()), name)
	}
	topic("2", "4")
	for name, n := range servers {
		require.Equal(t, 4, n.perm("T", "go"), "%s, once the topic has been changed", name)
	}

	t.Run("T50 a NameServer is restarted", func(t *testing.T) {
		_, port, err := net.SplitHostPort(servers["n2"].addr)
		require.NoError(t, err)
		s.stop(t, "n2")
		require.Equal(t, servers["n2"].addr, s.nameServer(t, "n2", port))
		eventually(t, "the broker registers again", func() bool { return servers["n2"].brokers()["go"] == addr })
		require.Equal(t, 4, servers["n2"].perm("T", "go"), "with its topics")
	})
	t.Run("T50 the broker is killed", func(t *testing.T) {
		require.NoError(t, process.Process.Kill())
		require.Error(t, process.Wait())
		for name, n := range servers {
			eventually(t, name, func() bool { return len(n.brokers()) == 0 })
			require.Zero(t, n.perm("T", "go"), name)
		}
		start()
		for name, n := range servers {
			require.Equal(t, map[string]string{"go": addr}, n.brokers(), name)
			require.Equal(t, 4, n.perm("T", "go"), name)
		}
	})
	t.Run("T50 the broker is stopped", func(t *testing.T) {
		require.NoError(t, process.Process.Signal(syscall.SIGTERM))
		require.NoError(t, process.Wait())
		for name, n := range servers {
			eventually(t, name, func() bool { return len(n.brokers()) == 0 })
		}
	})
}

// A broker of RocketMQ's and one of ours have a topic together, of which RocketMQ's client uses both while ours goes and comes back.
func TestT52ClusterOfBothBrokers(t *testing.T) {
	t.Parallel()
	s := startServers(t)
	namesrv := s.nameServer(t, "n", "0")
	javaAddr := s.broker(t, "java", filepath.Join(t.TempDir(), "store"), namesrv, nil)
	n := &nameServer{t, newRemotingClient(t), namesrv}
	dir := filepath.Join(t.TempDir(), "store")
	var ours *broker.Broker
	start := func() {
		ours = startBroker(t, func(o *broker.Options) {
			o.BrokerName, o.EmbeddedNamesrv, o.NamesrvAddr, o.StorePathRootDir = "go", "", namesrv, dir
		})
	}
	start()
	both := func() map[string]string { return map[string]string{"java": javaAddr, "go": ours.Addr().String()} }
	eventually(t, "both brokers", func() bool { return maps.Equal(both(), n.brokers()) })

	a := startAdmin(t, namesrv)
	a.comes([]string{`to ` + javaAddr + ` success`, `to ` + ours.Addr().String() + ` success`}, "updateTopic", "-c", "c", "-t", "Spread", "-r", "2", "-w", "2")
	for name := range n.brokers() {
		eventually(t, name, func() bool { return n.perm("Spread", name) == 6 })
	}
	theirRow := `c +java +0 +` + javaAddr + ` +V5_5_0`
	rows := func() []string { return []string{theirRow, `c +go +0 +` + ours.Addr().String() + ` +V5_5_0`} }
	a.comes(rows(), "clusterList")
	a.comes([]string{`"brokerName":"java"`, `"brokerName":"go"`, javaAddr, ours.Addr().String()}, "topicRoute", "-t", "Spread")

	var events []string
	results := runClient(t, javaClient(namesrv)(t, []string{"spread"}), func(r result) {
		events = append(events, r.Event)
		switch r.Event {
		case "both":
			if err := ours.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		case "one":
			if len(r.Brokers) != 1 || r.Brokers[0] != "java" {
				t.Errorf("sends go to %v while ours is away", r.Brokers)
			}
			eventually(t, "ours has gone", func() bool { return maps.Equal(map[string]string{"java": javaAddr}, n.brokers()) }) // the NameServer takes it out a little after it was told
			text := a.comes([]string{theirRow}, "clusterList")
			require.NotContains(t, text, ours.Addr().String())
			start()
			eventually(t, "ours is back", func() bool { return maps.Equal(both(), n.brokers()) })
		}
	})
	require.Empty(t, results["spread"].Error)
	require.Equal(t, []string{"both", "one", "both again"}, events)
	require.JSONEq(t, `{"allConsumed":true,"failedSends":[]}`, string(results["spread"].Result))
	a.comes(rows(), "clusterList")
	a.comes([]string{`(?s)java +0.*go +1|go +0.*java +1`}, "topicStatus", "-t", "Spread")
	s.stop(t, "java")
	eventually(t, "RocketMQ's broker has gone", func() bool { return len(n.brokers()) == 1 })
	a.comes([]string{`SEND_OK`}, "sendMessage", "-t", "Spread", "-p", "alone", "-b", "go", "-i", "1")
}

// configFiles are what two brokers exchange beside the messages.
var configFiles = []string{"topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"}

// readConfig returns those of a store, in strict JSON.
func readConfig(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range configFiles {
		text, err := os.ReadFile(filepath.Join(dir, "config", name))
		require.NoError(t, err)
		strict, err := laxjson.Strict(text)
		require.NoError(t, err, name)
		all[name] = string(strict)
	}
	return all
}

// A store of RocketMQ's broker is served by ours, and by RocketMQ's again: topics, groups, offsets and the progress of delayed messages stay as they are, and delayed messages come
// once, whoever took them in.
func TestT60StoreOfRocketMQsBrokerAndBack(t *testing.T) {
	t.Parallel()
	const levels = "1s 1s 1s 1s 3s 20s"
	s := startServers(t)
	namesrv := s.nameServer(t, "n", "0")
	dir := filepath.Join(t.TempDir(), "store")
	client := newRemotingClient(t)
	var addr string
	startJava := func() { addr = s.broker(t, "b", dir, namesrv, map[string]string{"messageDelayLevel": levels}) }
	startOurs := func() *broker.Broker {
		b := startBroker(t, func(o *broker.Options) {
			o.EmbeddedNamesrv, o.NamesrvAddr, o.StorePathRootDir, o.Store.MessageDelayLevel = "", namesrv, dir, levels
			o.Store.MappedFileSizeCommitLog, o.Store.MappedFileSizeConsumeQueue, o.Store.MaxHashSlotNum, o.Store.MaxIndexNum = 16<<20, 60_000, 1000, 4000
			o.TransactionCheckInterval = time.Minute // it notes where it has come to
		})
		addr = b.Addr().String()
		return b
	}
	send := func(body, properties string) {
		adminCall(t, client, addr, remoting.SendMessageV2, body, field("a", "pg"), field("b", "T"), field("c", "TBW102"), field("d", "4"), field("e", "0"), field("f", "0"), field("g", "1700000000000"), field("h", "0"),
			field("i", properties), field("j", "0"), field("k", "false"), field("m", "false"))
	}
	maxOffset := func() string {
		return adminCall(t, client, addr, remoting.GetMaxOffset, "", field("topic", "T"), field("queueId", "0")).Ext.Get("offset")
	}
	commit := func(offset string) {
		adminCall(t, client, addr, remoting.UpdateConsumerOffset, "", field("consumerGroup", "g"), field("topic", "T"), field("queueId", "0"), field("commitOffset", offset))
	}
	committed := func() string {
		return adminCall(t, client, addr, remoting.QueryConsumerOffset, "", field("consumerGroup", "g"), field("topic", "T"), field("queueId", "0")).Ext.Get("offset")
	}

	startJava()
	adminCall(t, client, addr, remoting.UpdateAndCreateTopic, "", field("topic", "T"), field("defaultTopic", "TBW102"), field("readQueueNums", "1"), field("writeQueueNums", "1"), field("perm", "6"),
		field("topicFilterType", "SINGLE_TAG"), field("topicSysFlag", "0"), field("order", "false"), field("attributes", "+message.type=DELAY"))
	adminCall(t, client, addr, remoting.UpdateAndCreateSubscriptionGroup, `{"groupName":"g","retryMaxTimes":3,"groupRetryPolicy":{"type":"EXPONENTIAL"}}`)
	send("m0", "")
	send("m1", "DELAY\x011\x02")
	eventually(t, "the delayed message", func() bool { return maxOffset() == "2" })
	commit("1")
	send("m2", "DELAY\x016\x02") // is on its way when the broker goes
	s.stop(t, "b")
	left := readConfig(t, dir)
	require.Contains(t, left["topics.json"], `"DELAY"`)

	ours := startOurs()
	require.Equal(t, "1", committed())
	require.NoError(t, ours.Close())
	kept := readConfig(t, dir)
	for _, name := range configFiles {
		require.JSONEq(t, left[name], kept[name], name)
	}

	ours = startOurs()
	eventually(t, "the message that RocketMQ delayed", func() bool { return maxOffset() == "3" })
	commit("3")
	send("m3", "DELAY\x015\x02")
	require.NoError(t, ours.Close())
	left = readConfig(t, dir)

	startJava()
	require.Equal(t, "3", committed())
	eventually(t, "the message that we delayed", func() bool { return maxOffset() == "4" })
	pulled := adminCall(t, client, addr, remoting.PullMessage, "", field("consumerGroup", "g"), field("topic", "T"), field("queueId", "0"), field("queueOffset", "0"), field("maxMsgNums", "32"),
		field("sysFlag", "4"), field("commitOffset", "0"), field("suspendTimeoutMillis", "0"), field("subscription", "*"), field("subVersion", "1"), field("expressionType", "TAG"))
	bodies := regexp.MustCompile(`m[0-9]`).FindAllString(string(pulled.Body), -1)
	require.Equal(t, []string{"m0", "m1", "m2", "m3"}, bodies)
	s.stop(t, "b")
	kept = readConfig(t, dir)
	require.Contains(t, left["consumerOffset.json"], `"pullOffsetTable":{}`)
	left["consumerOffset.json"] = strings.Replace(left["consumerOffset.json"], `"pullOffsetTable":{}`, `"pullOffsetTable":{"T@g":{"0":4}}`, 1) // by the pull
	for _, name := range configFiles[:3] {
		require.JSONEq(t, left[name], kept[name], name)
	}
}
