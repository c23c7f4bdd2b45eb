//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker"
	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

// startBroker starts a broker with a NameServer on free ports of this machine over a new store.
func startBroker(t *testing.T, change func(o *broker.Options)) *broker.Broker {
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
	require.NoError(t, b.Start())
	return b
}

// clientCheck runs scenarios of RocketMQ's client against a broker, and returns what came out of each.
func clientCheck(t *testing.T, b *broker.Broker, jvm []string, scenarios ...string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	classPath, err := java.BuildBroker(ctx)
	require.NoError(t, err)
	home := t.TempDir()
	cmd := java.Command(ctx, classPath, home, append([]string{"-Xmx256m", "-Drocketmq.client.logRoot=" + home}, jvm...), "ClientCheck", append([]string{b.NameServerAddr().String()}, scenarios...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	results := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if line[0] != '{' {
			continue // its logging says that it has begun
		}
		var r struct {
			Scenario, Error string
			Result          json.RawMessage
			Ms              int64
		}
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		require.Empty(t, r.Error, r.Scenario)
		results[r.Scenario] = string(r.Result)
		t.Logf("%s: %d ms", r.Scenario, r.Ms)
	}
	require.NoError(t, err, errs.String())
	require.Len(t, results, len(scenarios))
	return results
}

// clientWants is what RocketMQ's client has to see, by scenario. The ids are those of the test matrix.
var clientWants = []struct{ ids, scenario, want string }{
	{"T10 T11", "send", `{"sync":"SEND_OK","async":["SEND_OK"],"large":"SEND_OK","consumed":23,"largeIsWhole":true,"oneway":true}`},
	{"T12", "batch", `{"status":"SEND_OK","ids":10,"offsetIds":10,"odd":["b1","b3","b5","b7","b9"]}`},
	{"T20", "tags", `["A","A","B","last"]`},
	{"T21", "sql", `["s6","s8"]`},
	{"T22", "lite-assign", `{"queues":4,"got":["l0","l1","l2","l3","l4","l5","l6","l7"],"again":8}`},
	{"T22", "lite-subscribe", `["l0","l1","l2","l3","l4","l5","l6","l7"]`},
	{"T23", "held", `{"beforeTheEndOfTheWait":true,"got":["first","second"]}`},
	{"T29", "orderly", `{"queues":4,"messages":40,"inOrder":true}`},
	{"T26", "broadcast", `[["0"],["0"]]`},
	{"T30", "rebalance", `["0","1","2","3","4","5","6","7","8"]`},
	{"T15", "delay", `{"got":["later","now"],"notBeforeItsTime":true}`},
	{"T17", "transaction", `{"got":["committed","unknown"],"asked":["unknown"]}`},
	{"T19", "request", `"re: question"`},
	{"T27", "retry", `[0,1,2,3]`},
	{"T28", "dead-letter", `{"body":"d","topic":"Dead"}`},
	{"T33", "query", `{"byKey":"q","byUniqueKey":"q","byOffsetId":"q","max":1,"min":0,"byTime":0,"earliestIsNotBefore":true}`},
}

// RocketMQ's own client works with a broker on each kind of queues.
func TestRocketMQClient(t *testing.T) {
	for name, change := range map[string]func(o *broker.Options){
		"rocks": func(o *broker.Options) { o.Store.StoreType = store.StoreTypeRocksDB },
		"both":  func(o *broker.Options) { o.Store.RocksdbCQDoubleWriteEnable = true },
	} {
		t.Run(name, func(t *testing.T) {
			var scenarios []string
			for _, w := range clientWants {
				scenarios = append(scenarios, w.scenario)
			}
			results := clientCheck(t, startBroker(t, change), nil, scenarios...)
			for _, w := range clientWants {
				require.JSONEq(t, w.want, results[w.scenario], "%s %s", w.ids, w.scenario)
			}
		})
	}
}

// T06: frames with binary headers; over files.
func TestRocketMQClientWithBinaryHeaders(t *testing.T) {
	results := clientCheck(t, startBroker(t, nil), []string{"-Drocketmq.serialize.type=ROCKETMQ"}, "send", "tags")
	for _, w := range clientWants {
		if got, ok := results[w.scenario]; ok {
			require.JSONEq(t, w.want, got, "%s %s", w.ids, w.scenario)
		}
	}
}
