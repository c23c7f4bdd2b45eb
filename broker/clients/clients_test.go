package clients

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/remoting"
)

type conn struct{ addr string }

func (c *conn) RemoteAddr() string             { return c.addr }
func (c *conn) OneWay(*remoting.Command) error { return nil }
func (c *conn) Close()                         {}
func (c *conn) Invoke(context.Context, *remoting.Command) (*remoting.Command, error) {
	return nil, remoting.ErrClosed
}

func (c *conn) InvokeAsync(_ *remoting.Command, _ time.Duration, answer func(*remoting.Command, error)) {
	answer(nil, remoting.ErrClosed)
}

var now = time.UnixMilli(1_700_000_000_000)

// Heartbeats as the clients of three languages send them.
func TestT35HeartbeatsOfAllLanguages(t *testing.T) {
	for name, body := range map[string]string{
		"Java": `{"clientID":"id","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[65,66],"expressionType":"TAG","subString":"A || B","subVersion":1700000000000,"tagsSet":["A","B"],"topic":"T"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"pg"}],"withoutSub":false}`,
		"Go":   `{"clientID":"id","producerDataSet":[{"groupName":"pg"}],"consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{"classFilterMode":false,"topic":"T","subString":"A || B","tagsSet":["A","B"],"codeSet":["1","2"],"subVersion":1700000000000,"expressionType":"TAG"}],"unitMode":false}]}`,
		"C++":  `{"clientID":"id","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"g","messageModel":1,"subscriptionDataSet":[{"codeSet":[0],"subString":"A || B","subVersion":"1700000000000","tagsSet":["A","B"],"topic":"T"}]}],"producerDataSet":[{"groupName":"pg"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			h, err := ParseHeartbeat([]byte(body))
			require.NoError(t, err)
			r := NewRegistry()
			require.Equal(t, []string{"g"}, r.Heartbeat(&conn{"a"}, h, remoting.Java, 513, now))
			c, ok := r.Consumers("g")
			require.True(t, ok)
			require.Equal(t, Passively, c.Type)
			require.Equal(t, "CLUSTERING", c.Model.String())
			require.Equal(t, []string{"id"}, c.IDs())
			f, err := c.Subscriptions["T"].Filter()
			require.NoError(t, err)
			require.True(t, f.MatchUnit(65), "the tag A, whatever codes the client sent")
			require.False(t, f.MatchUnit(1))
			text, err := remoting.MarshalBody(c.Subscriptions["T"])
			require.NoError(t, err)
			require.JSONEq(t, `{"classFilterMode":false,"codeSet":[65,66],"expressionType":"TAG","subString":"A || B","subVersion":1700000000000,"tagsSet":["A","B"],"topic":"T"}`, string(text))
			require.Len(t, r.Producers("pg"), 1)
		})
	}
	_, err := ParseHeartbeat([]byte(`{"clientID":`))
	require.ErrorContains(t, err, "heartbeat")
}

func beat(id, group string, version int64, topics ...string) *Heartbeat {
	d := ConsumerData{Group: group, Type: Passively, Model: Clustering}
	for _, topic := range topics {
		s := Subscription{Topic: topic, Expression: "*", Version: remoting.Int(version)}
		s.compile()
		d.Subscriptions = append(d.Subscriptions, s)
	}
	return &Heartbeat{ClientID: id, Consumers: []ConsumerData{d}, Producers: []ProducerData{{"p"}}}
}

func TestGroupsChange(t *testing.T) {
	r := NewRegistry()
	a, b, again := &conn{"a"}, &conn{"b"}, &conn{"c"}
	hear := func(c Conn, h *Heartbeat, at time.Time) []string { return r.Heartbeat(c, h, remoting.Java, 513, at) }
	require.Equal(t, []string{"g"}, hear(a, beat("1", "g", 1, "T"), now), "a new member")
	require.Empty(t, hear(a, beat("1", "g", 2, "T"), now), "nothing new but the version")
	require.Equal(t, []string{"g"}, hear(a, beat("1", "g", 2, "T", "U"), now), "another topic")
	require.Equal(t, []string{"g"}, hear(b, beat("2", "g", 1, "T", "U"), now.Add(time.Minute)), "another member")
	s, model, online := r.Subscription("g", "T")
	require.True(t, online)
	require.Equal(t, Clustering, model)
	require.EqualValues(t, 2, s.Version, "an older version does not replace a newer one")
	h := beat("1", "g", 2)
	h.WithoutSub = true
	require.Empty(t, hear(a, h, now), "a heartbeat without subscriptions changes none")
	require.Equal(t, []string{"g"}, r.GroupsOn("U"))
	require.Equal(t, []string{"g"}, hear(a, beat("1", "g", 3, "T"), now), "a topic less")
	require.Empty(t, r.GroupsOn("U"))

	require.Equal(t, []string{"g"}, hear(again, beat("1", "g", 3, "T"), now), "the same client on a new connection")
	c, _ := r.Consumers("g")
	require.Len(t, c.Members, 3)
	require.Equal(t, []string{"1", "2"}, c.IDs())
	require.ElementsMatch(t, []Conn{a, again}, r.Silent(now.Add(2*time.Minute+time.Second), 2*time.Minute))

	m, ok := r.Consumer("g", "2")
	require.True(t, ok)
	require.Equal(t, Conn(b), m.Conn)
	first, _ := r.Pick("p")
	second, _ := r.Pick("p")
	require.NotEqual(t, first.Conn, second.Conn, "another one each time")
	at, ok := r.Producer("1")
	require.True(t, ok)
	require.Equal(t, Conn(again), at)

	require.Equal(t, []string{"g"}, r.Drop(a))
	require.Empty(t, r.Drop(a))
	require.True(t, r.Unregister(b, "p", "g"))
	require.False(t, r.Unregister(b, "", "g"))
	require.Equal(t, []string{"g"}, r.Drop(again))
	require.Empty(t, r.ConsumerGroups())
	require.Empty(t, r.AllProducers())
	_, _, online = r.Subscription("g", "T")
	require.False(t, online)
}

func TestLocks(t *testing.T) {
	l := NewLocks()
	q := []remoting.MessageQueue{{BrokerName: "b", QueueID: 0, Topic: "T"}, {BrokerName: "b", QueueID: 1, Topic: "T"}}
	require.Equal(t, q, l.Lock("g", "1", q, now))
	require.Empty(t, l.Lock("g", "2", q, now.Add(LockLife)))
	require.Equal(t, q, l.Lock("h", "2", q, now), "groups do not disturb one another")
	require.Equal(t, q[:1], l.Lock("g", "1", q[:1], now.Add(LockLife)), "renewed")
	require.Equal(t, q[1:], l.Lock("g", "2", q, now.Add(LockLife+time.Second)), "the other was not")
	l.Unlock("g", "2", q)
	require.Equal(t, q[1:], l.Lock("g", "3", q, now.Add(LockLife+time.Second)))
	require.True(t, l.Any("g", now))
	l.Unlock("g", "1", q)
	l.Unlock("g", "3", q)
	require.False(t, l.Any("g", now))
}
