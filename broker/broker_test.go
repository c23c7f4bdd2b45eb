package broker

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/remoting"
)

// openTest starts a broker on a free port of 127.0.0.1 over a new store with small files, changed by change, and a client of it. Both are ended with the test.
func openTest(t *testing.T, change func(o *Options)) (*Broker, *remoting.Client) {
	t.Helper()
	o := DefaultOptions()
	o.BrokerClusterName, o.BrokerName, o.ListenPort, o.StorePathRootDir = "c", "b", 0, t.TempDir()
	o.Store.MappedFileSizeCommitLog, o.Store.MappedFileSizeConsumeQueue = 1<<20, 2000
	o.Store.MaxHashSlotNum, o.Store.MaxIndexNum = 1000, 4000
	o.Store.PreallocateAheadBytes = 1 << 20
	if change != nil {
		change(&o)
	}
	b, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	require.NoError(t, b.Start())
	client, err := remoting.NewClient(remoting.DefaultClientOptions())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return b, client
}

// call sends a request and returns the answer.
func call(t *testing.T, b *Broker, client *remoting.Client, code int32, body []byte, ext ...remoting.Field) *remoting.Command {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	resp, err := client.Invoke(ctx, b.Addr().String(), &remoting.Command{Code: code, Ext: ext, Body: body})
	require.NoError(t, err)
	return resp
}

func field(key, value string) remoting.Field { return remoting.Field{Key: key, Value: value} }

func TestBoundsOfAQueueThatIsNotThere(t *testing.T) {
	b, client := openTest(t, nil)
	for _, c := range []struct {
		code        int32
		field, want string
	}{
		{remoting.GetMaxOffset, "offset", "0"},
		{remoting.GetMinOffset, "offset", "-1"},
		{remoting.SearchOffsetByTimestamp, "offset", "0"},
		{remoting.GetEarliestMsgStoreTime, "timestamp", "-1"},
	} {
		resp := call(t, b, client, c.code, nil, field("topic", "T"), field("queueId", "0"), field("timestamp", "5"))
		require.Equal(t, remoting.Success, resp.Code, resp.Remark)
		require.Equal(t, c.want, resp.Ext.Get(c.field), remoting.RequestCodeName(c.code))
	}
	resp := call(t, b, client, remoting.GetMaxOffset, nil, field("topic", "T"))
	require.Equal(t, remoting.SystemError, resp.Code)
	require.Contains(t, resp.Remark, "queueId")
	require.Equal(t, remoting.RequestCodeNotSupported, call(t, b, client, 9999, nil).Code)
}

// A store asks for topics while it is opened, of records that came since it was closed in order: after a kill, and after RocketMQ.
func TestT60AStoreIsOpenedWithMoreInItsLogThanIsWrittenDown(t *testing.T) {
	b, client := openTest(t, nil)
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("x"), "").Code)
	b, client = again(t, b)
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("y"), "").Code)
	stored(t, b, "T", 1, 1)
	var killed string
	require.Eventually(t, func() bool { // a file may go while it is copied
		killed = t.TempDir()
		return os.CopyFS(killed, os.DirFS(b.o.StorePathRootDir)) == nil
	}, 30*time.Second, time.Millisecond)
	b, client = openTest(t, func(o *Options) {
		*o = b.o
		o.StorePathRootDir = killed
	})
	require.Equal(t, "2", sendV2(t, b, client, "T", []byte("z"), "").Ext.Get("queueOffset"))
	r := stored(t, b, "T", 1, 1)
	require.Equal(t, "y", string(r.Body))
}
