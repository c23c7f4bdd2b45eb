package broker

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/internal/logtest"
	"github.com/tandemq/tandemmq/remoting"
)

// A broker that goes registers no more, and does not complain of NameServers that know it no longer.
func TestABrokerThatGoesDoesNotRegister(t *testing.T) {
	var log logtest.Log
	b, _ := openTest(t, func(o *Options) {
		o.EmbeddedNamesrv = "127.0.0.1:0"
		o.Logger = log.Logger()
	})
	b.stopRegistering()
	require.NoError(t, b.topics.Put(meta.NewTopic("Late", 1, meta.PermRead|meta.PermWrite)))
	b.registerAll(b.ctx)
	require.NotContains(t, log.String(), "registration with a NameServer failed")
	resp, err := b.out.Invoke(b.ctx, b.NameServerAddr().String(), &remoting.Command{Code: remoting.GetRouteInfoByTopic, Ext: remoting.Ext{field("topic", "Late")}})
	require.NoError(t, err)
	require.Equal(t, remoting.TopicNotExist, resp.Code)
}

// The whole way of a client: NameServer, topic that a send makes, pull, query.
func TestT54EmbeddedNameServer(t *testing.T) {
	b, client := openTest(t, func(o *Options) { o.EmbeddedNamesrv = "127.0.0.1:0" })
	ask := func(code int32, ext ...remoting.Field) *remoting.Command {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		resp, err := client.Invoke(ctx, b.NameServerAddr().String(), &remoting.Command{Code: code, Ext: ext})
		require.NoError(t, err)
		return resp
	}
	require.Equal(t, remoting.TopicNotExist, ask(remoting.GetRouteInfoByTopic, field("topic", "T")).Code)
	require.Equal(t, remoting.Success, ask(remoting.GetRouteInfoByTopic, field("topic", "TBW102")).Code, "known once the broker has started")
	resp := sendV2(t, b, client, "T", []byte("hello"), "KEYS\x01key\x02UNIQ_KEY\x01U\x02")
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	route := ask(remoting.GetRouteInfoByTopic, field("topic", "T"))
	require.Equal(t, remoting.Success, route.Code)
	require.Contains(t, string(route.Body), `"brokerAddrs":{"0":"`+b.Addr().String()+`"}`)
	stored(t, b, "T", 1, 0)
	view := call(t, b, client, remoting.ViewMessageByID, nil, field("offset", "0"))
	require.Equal(t, []string{"hello"}, bodies(t, view))
	require.Equal(t, remoting.SystemError, call(t, b, client, remoting.ViewMessageByID, nil, field("offset", "1")).Code)

	query := func(key string, more ...remoting.Field) *remoting.Command {
		return call(t, b, client, remoting.QueryMessage, nil, append(more, field("topic", "T"), field("key", key), field("maxNum", "10"), field("beginTimestamp", "0"), field("endTimestamp", "9999999999999"))...)
	}
	require.Eventually(t, func() bool { return query("key").Code == remoting.Success }, 30*time.Second, time.Millisecond)
	require.Equal(t, []string{"hello"}, bodies(t, query("key")))
	require.Equal(t, []string{"hello"}, bodies(t, query("U", field("_UNIQUE_KEY_QUERY", "true"))))
	require.Equal(t, remoting.QueryNotFound, query("none").Code)
}

// A NameServer that does not answer holds up what makes a topic for a moment, and no longer.
func TestNameServerThatDoesNotAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	var seen atomic.Pointer[time.Time]
	b, client := openTest(t, nil)
	o := *b.live()
	o.NamesrvAddr = l.Addr().String()
	b.current.Store(&o)
	t.Cleanup(func() { // it is not asked to forget the broker
		none := o
		none.NamesrvAddr = ""
		b.current.Store(&none)
	})
	go func() {
		if c, err := l.Accept(); err == nil {
			now := time.Now()
			seen.Store(&now)
			_, _ = io.Copy(io.Discard, c) // until the broker hangs up
			_ = c.Close()
		}
	}()
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("x"), "").Code)
	require.NotNil(t, seen.Load(), "the NameServer was asked")
}
