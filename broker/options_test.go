package broker

import (
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

func TestOptionsAreRefused(t *testing.T) {
	for name, value := range map[string]string{
		"brokerName": "a b", "brokerId": "1", "listenPort": "70000", "bindAddress": "here", "namesrvAddr": "host", "brokerPermission": "8", "transactionTimeOut": "0",
		"enableControllerMode": "true", "inSyncReplicas": "2", "brokerRole": "SLAVE", "maxConnections": "x",
	} {
		_, _, err := ParseOptions(map[string]string{name: value})
		require.ErrorContains(t, err, name)
	}
}
