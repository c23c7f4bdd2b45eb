package broker

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseOptions(t *testing.T) {
	o, notes, err := ParseOptions(map[string]string{
		"brokerName": "b", "listenPort": "0", "namesrvAddr": "127.0.0.1:9876; 127.0.0.1:9877", "flushDiskType": "SYNC_FLUSH", "brokerRole": "ASYNC_MASTER",
		"enableControllerMode": "false", "sendMessageThreadPoolNum": "4", "brokerNam": "x",
	})
	require.NoError(t, err)
	require.Equal(t, []string{"127.0.0.1:9876", "127.0.0.1:9877"}, o.NameServers())
	require.EqualValues(t, "SYNC_FLUSH", o.Store.FlushDiskType)
	require.Len(t, notes, 2)
	require.Equal(t, "brokerNam: unknown; did you mean brokerName?", notes[0].Text)
	all := o.Properties()
	require.Equal(t, "b", all["brokerName"])
	require.Equal(t, "SYNC_FLUSH", all["flushDiskType"])
	again, _, err := ParseOptions(all)
	require.NoError(t, err)
	require.Equal(t, all, again.Properties())
}

// What RocketMQ's broker has is no misspelling of something else.
func TestPropertiesOfRocketMQAreKnown(t *testing.T) {
	names := strings.Fields(rocketmqProperties)
	require.True(t, slices.IsSorted(names))
	conf := map[string]string{}
	for _, name := range names {
		conf[name] = "" // not all have a good value
	}
	_, notes, _ := ParseOptions(conf)
	require.NotEmpty(t, notes)
	for _, n := range notes {
		require.False(t, n.Unknown, n.Text)
		require.NotContains(t, n.Text, "unknown")
	}
	_, notes, err := ParseOptions(map[string]string{"brokerIP2": "127.0.0.1", "haListenPort": "10912", "sendMessageThreadPoolNums": "4", "timerWheelEnable": "true", "haListenPrt": "1"})
	require.NoError(t, err)
	for i, name := range []string{"brokerIP2", "haListenPort", "haListenPrt", "sendMessageThreadPoolNums", "timerWheelEnable"} {
		if name == "haListenPrt" {
			require.True(t, notes[i].Unknown)
			continue
		}
		require.Equal(t, name+": known to RocketMQ, without effect here", notes[i].Text)
	}
}

func TestNameServersAreAddresses(t *testing.T) {
	for value, good := range map[string]bool{
		"": true, "127.0.0.1:9876;mq-1.example_x.org:1": true, "[::1]:65535": true, "foo:99999": false, "foo:0": false, "foo:+5": false, "foo:x": false, ":9876": false, "foo": false,
		"fo o:9876": false, "a:1\nb:2": false, "a:1,b:2": false, "::1:9876": false, "foo:9876\nx=y": false,
	} {
		_, _, err := ParseOptions(map[string]string{"namesrvAddr": value})
		if good {
			require.NoError(t, err, value)
		} else {
			require.ErrorContains(t, err, "namesrvAddr has", value)
		}
	}
}

func TestOptionsAreRefused(t *testing.T) {
	for name, value := range map[string]string{
		"brokerName": "a b", "brokerId": "1", "listenPort": "70000", "bindAddress": "here", "namesrvAddr": "host", "brokerPermission": "8", "transactionTimeOut": "0",
		"enableControllerMode": "true", "inSyncReplicas": "2", "brokerRole": "SLAVE", "maxConnections": "x",
	} {
		_, _, err := ParseOptions(map[string]string{name: value})
		require.ErrorContains(t, err, name)
	}
}
