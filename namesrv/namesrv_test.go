package namesrv

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/remoting"
)

type world struct {
	t      *testing.T
	server *Server
	addr   string
	client *remoting.Client
}

func start(t *testing.T, o Options) *world {
	t.Helper()
	s, err := NewServer(o)
	require.NoError(t, err)
	addr, err := s.Listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &world{t, s, addr.String(), newClient(t)}
}

func newClient(t *testing.T) *remoting.Client {
	t.Helper()
	c, err := remoting.NewClient(remoting.DefaultClientOptions())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// call sends a request with the fields key, value, key, value...
func (w *world) call(code int32, body string, fields ...string) *remoting.Command {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req := &remoting.Command{Code: code, Body: []byte(body)}
	for i := 0; i < len(fields); i += 2 {
		req.Ext.Set(fields[i], fields[i+1])
	}
	resp, err := w.client.Invoke(ctx, w.addr, req)
	require.NoError(w.t, err)
	return resp
}

func (w *world) body(code int32, fields ...string) string {
	w.t.Helper()
	resp := w.call(code, "", fields...)
	require.Equal(w.t, remoting.Success, resp.Code, resp.Remark)
	return string(resp.Body)
}

// topics is the body of a registration of these topics, all with 4 queues.
func topics(counter int, names ...string) []byte {
	table := ""
	for i, name := range names {
		if i > 0 {
			table += ","
		}
		table += fmt.Sprintf(`"%s":{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"%s","topicSysFlag":0,"writeQueueNums":4}`, name, name)
	}
	return fmt.Appendf(nil, `{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":%d,"stateVersion":0,"timestamp":5},"topicConfigTable":{%s}}}`, counter, table)
}

var broker = Identity{Cluster: "c", Name: "b", Addr: "127.0.0.1:10911", HAAddr: "127.0.0.1:10912"}

func TestT50RegisteredBrokersComeAndGo(t *testing.T) {
	w := start(t, Options{})
	client := newClient(t)
	r := NewRegistrar(broker, client)
	ctx := context.Background()
	_, err := r.Register(ctx, []string{w.addr}, topics(1, "T"))
	require.ErrorContains(t, err, "register all topics first")
	_, err = r.Register(ctx, []string{w.addr, "127.0.0.1:1"}, topics(1, "T", "U"))
	require.ErrorContains(t, err, "NameServer 127.0.0.1:1", "one that is not there is named, and does not hold up the others")

	const route = `{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"b","cluster":"c","enableActingMaster":false}],"filterServerTable":{},` +
		`"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}`
	require.Equal(t, []string{route}, []string{w.body(remoting.GetRouteInfoByTopic, "topic", "T")}, "compact: the Go client cuts this text apart")
	require.Equal(t, remoting.TopicNotExist, w.call(remoting.GetRouteInfoByTopic, "", "topic", "none").Code)
	require.JSONEq(t, `{"brokerAddrTable":{"b":{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"b","cluster":"c","enableActingMaster":false}},"clusterAddrTable":{"c":["b"]}}`, w.body(remoting.GetBrokerClusterInfo))
	require.JSONEq(t, `{"topicList":["T","U"]}`, w.body(remoting.GetAllTopicListFromNameServer))
	require.JSONEq(t, `{"topicList":["c","b"],"brokerAddr":"127.0.0.1:10911"}`, w.body(remoting.GetSystemTopicListFromNS))
	require.JSONEq(t, `{"topicList":["T","U"]}`, w.body(remoting.GetTopicsByCluster, "cluster", "c"))
	require.JSONEq(t, `{"topicList":[]}`, w.body(remoting.GetTopicsByCluster, "cluster", "d"))
	require.JSONEq(t, `{"brokerMemberGroup":{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"b","cluster":"c"}}`, w.body(remoting.GetBrokerMemberGroup, "clusterName", "c", "brokerName", "b"))

	// T53: one topic more, alone in the registration.
	_, err = r.Register(ctx, []string{w.addr}, topics(2, "V"))
	require.NoError(t, err)
	require.JSONEq(t, `{"topicList":["T","U","V"]}`, w.body(remoting.GetAllTopicListFromNameServer))

	// The connection of the broker closes: it is gone at once, with its topics.
	require.NoError(t, client.Close())
	require.Eventually(t, func() bool {
		return w.call(remoting.GetRouteInfoByTopic, "", "topic", "T").Code == remoting.TopicNotExist
	}, 10*time.Second, time.Millisecond)
	require.JSONEq(t, `{"brokerAddrTable":{},"clusterAddrTable":{}}`, w.body(remoting.GetBrokerClusterInfo))

	again := NewRegistrar(broker, newClient(t))
	_, err = again.Register(ctx, []string{w.addr}, topics(1, "T", "U"))
	require.NoError(t, err)
	require.JSONEq(t, route, w.body(remoting.GetRouteInfoByTopic, "topic", "T"))
	require.NoError(t, again.Unregister(ctx, []string{w.addr}))
	require.Equal(t, remoting.TopicNotExist, w.call(remoting.GetRouteInfoByTopic, "", "topic", "T").Code)
}

// Several NameServers are told at once, by calls that share what they send.
func TestT50SeveralNameServers(t *testing.T) {
	var servers []string
	for range 4 {
		servers = append(servers, start(t, Options{}).addr)
	}
	r := NewRegistrar(broker, newClient(t))
	for n := range 3 {
		_, err := r.Register(context.Background(), servers, topics(n+1, "T", "U"))
		require.NoError(t, err)
	}
	require.NoError(t, r.Unregister(context.Background(), servers))
}

func TestRegistrationIsChecked(t *testing.T) {
	w := start(t, Options{})
	fields := []string{"clusterName", "c", "brokerName", "b", "brokerAddr", "a:1", "brokerId", "0"}
	require.Contains(t, w.call(remoting.RegisterBroker, "x", append(fields, "bodyCrc32", "1")...).Remark, "checksum")
	require.Contains(t, w.call(remoting.RegisterBroker, "", append(fields, "compressed", "true")...).Remark, "compressed")
	require.Equal(t, remoting.SystemError, w.call(remoting.RegisterBroker, "{", fields...).Code)
	require.Contains(t, w.call(remoting.RegisterBroker, "").Remark, "clusterName")
	require.EqualValues(t, 907060870, checksum([]byte("hello")))
	require.EqualValues(t, 25450748, checksum([]byte("abc0")))
}

func TestT47KeyValuesAndPermissions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kvConfig.json")
	w := start(t, Options{KVConfigPath: path, OrderMessageEnable: true})
	require.Equal(t, remoting.QueryNotFound, w.call(remoting.GetKVConfig, "", "namespace", orderTopics, "key", "T").Code)
	require.Equal(t, remoting.QueryNotFound, w.call(remoting.GetKVListByNamespace, "", "namespace", orderTopics).Code)
	w.body(remoting.PutKVConfig, "namespace", orderTopics, "key", "T", "value", "b:4")
	require.JSONEq(t, `{"table":{"T":"b:4"}}`, w.body(remoting.GetKVListByNamespace, "namespace", orderTopics))
	kept, err := NewServer(Options{KVConfigPath: path})
	require.NoError(t, err)
	v, ok := kept.values.get(orderTopics, "T")
	require.True(t, ok)
	require.Equal(t, "b:4", v)
	require.NoError(t, kept.Close())

	r := NewRegistrar(broker, newClient(t))
	ordered, err := r.Register(context.Background(), []string{w.addr}, topics(1, "T", "U"))
	require.NoError(t, err)
	require.Equal(t, []string{"T"}, ordered)
	require.Contains(t, w.body(remoting.GetRouteInfoByTopic, "topic", "T"), `"orderTopicConf":"b:4"`)
	resp := w.call(remoting.WipeWritePermOfBroker, "", "brokerName", "b")
	require.Equal(t, "2", resp.Ext.Get("wipeTopicCount"))
	require.Contains(t, w.body(remoting.GetRouteInfoByTopic, "topic", "T"), `"perm":4`)
	_, err = r.Register(context.Background(), []string{w.addr}, topics(1, "T", "U"))
	require.NoError(t, err)
	require.Contains(t, w.body(remoting.GetRouteInfoByTopic, "topic", "T"), `"perm":4`, "the same version changes nothing")
	w.call(remoting.AddWritePermOfBroker, "", "brokerName", "b")
	require.Contains(t, w.body(remoting.GetRouteInfoByTopic, "topic", "T"), `"perm":6`)

	w.body(remoting.DeleteTopicInNamesrv, "topic", "U")
	require.JSONEq(t, `{"topicList":["T"]}`, w.body(remoting.GetAllTopicListFromNameServer))
	w.body(remoting.DeleteKVConfig, "namespace", orderTopics, "key", "T")
	require.Equal(t, remoting.QueryNotFound, w.call(remoting.GetKVConfig, "", "namespace", orderTopics, "key", "T").Code)
	require.Contains(t, w.body(remoting.GetNamesrvConfig), "kvConfigPath="+path)
	require.Equal(t, remoting.NoPermission, w.call(remoting.UpdateNamesrvConfig, "kvConfigPath=x").Code)
	resp = w.call(remoting.RegisterTopicInNamesrv, `{"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":2,"topicSysFlag":0,"writeQueueNums":2},{"brokerName":"none"}]}`, "topic", "W")
	require.Equal(t, remoting.Success, resp.Code)
	require.Contains(t, w.body(remoting.GetRouteInfoByTopic, "topic", "W"), `"readQueueNums":2`)
}

type fakeConn struct{ name string }

func (*fakeConn) Close() {}

func TestTableRules(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	tb := newTable()
	reg := func(name, addr string, id int64, version int, change func(*registration), names ...string) error {
		r := registration{cluster: "c", name: name, addr: addr, id: id, ha: addr + "1"}
		r.body.Topics.Version = DataVersion{Counter: remoting.Int(version)}
		r.body.Topics.Table = map[string]topicConfig{}
		for _, n := range names {
			r.body.Topics.Table[n] = topicConfig{Perm: 6, ReadQueues: 4, WriteQueues: 4}
		}
		if change != nil {
			change(&r)
		}
		_, _, err := tb.register(&r, &fakeConn{addr}, now)
		return err
	}
	require.NoError(t, reg("b", "m:1", 0, 1, nil, "T", "U"))
	require.NoError(t, reg("b", "s:1", 1, 1, nil, "only", "here"), "a replica's topics are not taken")
	require.Equal(t, []string{"T", "U"}, tb.allTopics(""))
	master, ha, err := tb.register(&registration{cluster: "c", name: "b", addr: "s:1", id: 1}, &fakeConn{"s"}, now)
	require.NoError(t, err)
	require.Equal(t, "m:1", master)
	require.Equal(t, "m:11", ha)

	require.NoError(t, reg("b", "s:1", 2, 1, nil, "T", "U"), "the same address under another id")
	d, _ := tb.broker("b")
	require.Equal(t, map[int64]string{0: "m:1", 2: "s:1"}, d.Addrs)

	require.NoError(t, reg("b", "m:2", 0, 1, func(r *registration) { r.body.Topics.Version.StateVersion = 1 }, "T", "U"), "another master takes over")
	require.NoError(t, reg("b", "m:1", 0, 9, nil, "T", "U"), "one with an older state does not")
	d, _ = tb.broker("b")
	require.Equal(t, "m:2", d.Addrs[0])

	require.NoError(t, reg("d", "x:1", 0, 1, func(r *registration) { r.life = time.Second }, "T", "X"))
	r, ok := tb.route("T")
	require.True(t, ok)
	require.Len(t, r.Queues, 2)
	require.Len(t, tb.silent(now.Add(2*time.Second)), 1, "what its registration says")
	_, ok = tb.route("X")
	require.False(t, ok)
	_, changed := tb.heard("c", "m:2", DataVersion{Counter: 1, StateVersion: 1}, now.Add(time.Minute))
	require.False(t, changed)
	require.NotEmpty(t, tb.silent(now.Add(3*time.Minute-time.Second)))
	_, ok = tb.broker("b")
	require.True(t, ok)
	require.NotEmpty(t, tb.silent(now.Add(3*time.Minute+time.Second)))
	require.Empty(t, tb.allTopics(""))
}
