//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

// startBroker starts a broker with a NameServer on free ports of this machine over a new store.
func startBroker(t *testing.T, change func(o *broker.Options)) *broker.Broker {
	t.Helper()
	b, err := openBroker(t, change)
	require.NoError(t, err)
	return b
}

func openBroker(t *testing.T, change func(o *broker.Options)) (*broker.Broker, error) {
	t.Helper()
	o := broker.DefaultOptions()
	o.BrokerClusterName, o.BrokerName, o.ListenPort, o.EmbeddedNamesrv, o.StorePathRootDir = "c", "b", 0, "127.0.0.1:0", t.TempDir()
	o.Store.MessageDelayLevel = "1s 1s 1s 1s 1s 1s" // a message comes again after level 3 and up
	o.TransactionTimeOut, o.TransactionCheckInterval = time.Second, time.Second
	o.Store.MappedFileSizeCommitLog, o.Store.MaxHashSlotNum, o.Store.MaxIndexNum = 16<<20, 10_000, 40_000
	if change != nil {
		change(&o)
	}
	b, err := broker.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b, b.Start()
}

// An outcome is what a scenario of a client has to come to. The name begins with its ids in the test matrix and ends with the scenario.
type outcome struct{ name, want string }

func (o outcome) scenario() string { return o.name[strings.LastIndexByte(o.name, ' ')+1:] }

// clientWants is what RocketMQ's client has to see.
var clientWants = []outcome{
	{"T10 T11 send", `{"sync":"SEND_OK","async":["SEND_OK"],"large":"SEND_OK","consumed":23,"largeIsWhole":true,"oneway":true}`},
	{"T12 batch", `{"status":"SEND_OK","ids":10,"offsetIds":10,"odd":["b1","b3","b5","b7","b9"]}`},
	{"T13 limits", `{"name of 127":"OK","name of 128":"client","system topic":"client","body of 4 MiB":"OK","body of 4 MiB + 1":"13"}`},
	{"T20 tags", `["A","A","B","last"]`},
	{"T21 sql", `["s6","s8"]`},
	{"T22 lite-assign", `{"queues":4,"got":["l0","l1","l2","l3","l4","l5","l6","l7"],"again":8}`},
	{"T22 lite-subscribe", `["m0","m1","m2","m3","m4","m5","m6","m7"]`},
	{"T23 held", `{"beforeTheEndOfTheWait":true,"got":["first","second"]}`},
	{"T25 pull", `{"there":"FOUND 1 next 1","beyond":"OFFSET_ILLEGAL 0 next 1","empty":"OFFSET_ILLEGAL 0 next 0"}`},
	{"T29 orderly", `{"queues":4,"messages":40,"inOrder":true}`},
	{"broadcast", `[["0"],["0"]]`},
	{"trace", `[true,true,true]`},
	{"T30 rebalance", `["0","1","2","3","4","5","6","7","8"]`},
	{"T31 young", `["first"]`},
	{"T15 delay", `{"got":["later","now"],"notBeforeItsTime":true}`},
	{"T17 transaction", `{"got":["committed","unknown"],"asked":["unknown"]}`},
	{"T19 request", `"re: question"`},
	{"T27 retry", `[0,1,2,3]`},
	{"T28 dead-letter", `{"body":"d","topic":"Dead"}`},
	{"T33 query", `{"byKey":"q","byUniqueKey":"q","byOffsetId":"q","max":1,"min":0,"byTime":0,"earliestIsNotBefore":true}`},
}

// requireOutcomes runs scenarios of a client, and requires each to come to what it has to.
func requireOutcomes(t *testing.T, wants []outcome, client func(t *testing.T, scenarios []string) *exec.Cmd) {
	t.Helper()
	var scenarios []string
	for _, w := range wants {
		scenarios = append(scenarios, w.scenario())
	}
	results := runClient(t, client(t, scenarios), nil)
	require.Len(t, results, len(wants))
	for _, w := range wants {
		t.Run(w.name, func(t *testing.T) {
			r := results[w.scenario()]
			require.Empty(t, r.Error)
			require.JSONEq(t, w.want, string(r.Result))
		})
	}
}

// javaClient is RocketMQ's own client, with further options of its JVM.
func javaClient(namesrv string, options ...string) func(t *testing.T, scenarios []string) *exec.Cmd {
	return func(t *testing.T, scenarios []string) *exec.Cmd {
		home := t.TempDir()
		quiet, err := java.Quiet(home)
		require.NoError(t, err)
		options = append(append(quiet, options...), "-Drocketmq.client.rebalance.waitInterval=1000")
		return java.Command(t.Context(), peerClassPath(t), home, jvm("256m", options...), "ClientCheck", append([]string{namesrv}, scenarios...)...)
	}
}

// A result is a line of a client's: what a scenario came to, or an event in it.
type result struct {
	Scenario, Error string
	Result          json.RawMessage
	Ms              int64
	Event           string
	Brokers         []string
}

// runClient runs a client to its end, and returns what its scenarios came to. Its events go to event.
func runClient(t *testing.T, cmd *exec.Cmd, event func(r result)) map[string]result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill() // it may have ended
		}
	})
	defer stop()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	results := map[string]result{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "{") {
			continue // its logging says that it has begun
		}
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Errorf("%s: %v", lines.Text(), err)
			continue
		}
		if r.Event != "" {
			event(r)
			continue
		}
		results[r.Scenario] = r
		t.Logf("%s: %d ms", r.Scenario, r.Ms)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("client: %v: %s", err, lastBytes(&errs, 4000))
	}
	return results
}

// RocketMQ's own client works with a broker that is its own NameServer, on each kind of queues.
func TestT54RocketMQClient(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(o *broker.Options){
		"rocks": func(o *broker.Options) { o.Store.StoreType = store.StoreTypeRocksDB },
		"both":  func(o *broker.Options) { o.Store.RocksdbCQDoubleWriteEnable = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireOutcomes(t, clientWants, javaClient(startBroker(t, change).NameServerAddr().String()))
		})
	}
}

// Frames with binary headers; over files.
func TestT06RocketMQClientWithBinaryHeaders(t *testing.T) {
	t.Parallel()
	wants := []outcome{clientWants[0], clientWants[3]}
	requireOutcomes(t, wants, javaClient(startBroker(t, nil).NameServerAddr().String(), "-Drocketmq.serialize.type=ROCKETMQ"))
}

// Clients with TLS and without, and one that uses the second port, at once.
func TestT07RocketMQClientWithTLS(t *testing.T) {
	t.Parallel()
	var b *broker.Broker
	for range 20 { // until nobody has taken the pair of ports in between
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		require.NoError(t, l.Close())
		if b, err = openBroker(t, func(o *broker.Options) {
			o.ListenPort, o.TLSMode, o.TLSTestMode = port, remoting.TLSPermissive, true
		}); err == nil {
			break
		}
		b = nil
	}
	require.NotNil(t, b)
	requireOutcomes(t, []outcome{{"T07 tls", `{"plain":"SEND_OK","tls":"SEND_OK","vip":"SEND_OK","got":["plain","tls","vip"]}`}},
		javaClient(b.NameServerAddr().String()))
}

// aclRules are those that the scenario acl is about.
const aclRules = `accounts:
  - accessKey: adminKey
    secretKey: admin-secret
    admin: true
  - accessKey: producerKey
    secretKey: producer-secret
    topicPerms:
      - AclOpen=PUB
  - accessKey: consumerKey
    secretKey: consumer-secret
    topicPerms:
      - AclOpen=SUB
    groupPerms:
      - acl-group=SUB
`

// Clients with access keys.
func TestRocketMQClientWithAccessKeys(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plain_acl.yml")
	require.NoError(t, os.WriteFile(file, []byte(aclRules), 0o600))
	b := startBroker(t, func(o *broker.Options) { o.ACLEnable, o.ACLFile = true, file })
	requireOutcomes(t, []outcome{{"acl", fmt.Sprintf(`{"allowed":"OK","wrong secret":"%[1]d","unknown key":"%[1]d","no key":"%[1]d","forbidden topic":"%[1]d",`+
		`"consumer sends":"%[1]d","admin refused":"%[1]d","admin":"OK","consumed":["allowed"],"by a group without rights":0}`, remoting.NoPermission)}},
		javaClient(b.NameServerAddr().String()))
}
