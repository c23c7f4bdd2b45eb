package broker

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
)

// back has a consumer of group g send a message back; more replaces or adds fields.
func back(t *testing.T, b *Broker, client *remoting.Client, phyOffset int64, level int, more ...remoting.Field) *remoting.Command {
	t.Helper()
	ext := remoting.Ext{{Key: "group", Value: "g"}, {Key: "originMsgId", Value: "U"}, {Key: "originTopic", Value: "T"}, {Key: "unitMode", Value: "false"}}
	ext.SetInt("offset", phyOffset)
	ext.SetInt("delayLevel", int64(level))
	for _, f := range more {
		ext.Set(f.Key, f.Value)
	}
	return call(t, b, client, remoting.ConsumerSendMsgBack, nil, ext...)
}

func TestT27MessagesThatAreSentBackComeAgain(t *testing.T) {
	b, client, clock := openClocked(t, nil)
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("body"), "TAGS\x01A\x02UNIQ_KEY\x01U\x02").Code)
	r := stored(t, b, "T", 1, 0)
	origin := message.OffsetMsgID(r.StoreHost, r.PhyOffset)
	born := r.BornTimestampMs
	for i, wait := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute} {
		clock.ahead.Store(0) // messages are stored by the real clock
		require.Equal(t, remoting.Success, back(t, b, client, r.PhyOffset, 0, field("maxReconsumeTimes", "16")).Code)
		waiting := stored(t, b, meta.ScheduleTopic, int32(2+i), 0)
		require.Equal(t, strconv.Itoa(3+i), prop(&waiting, "DELAY"))
		clock.advance(b, wait-time.Second)
		require.EqualValues(t, i, maxOffset(t, b, "%RETRY%g", 0))
		clock.advance(b, 2*time.Second)
		r = stored(t, b, "%RETRY%g", 0, int64(i))
		require.EqualValues(t, i+1, r.ReconsumeTimes)
		require.Equal(t, "body", string(r.Body))
		require.Equal(t, born, r.BornTimestampMs)
		require.Equal(t, origin, prop(&r, "ORIGIN_MESSAGE_ID"), "the id of the first one")
		require.Equal(t, "T", prop(&r, "RETRY_TOPIC"))
		require.Equal(t, "A", prop(&r, "TAGS"))
		require.Equal(t, "U", prop(&r, "UNIQ_KEY"))
	}
	require.Equal(t, remoting.Success, back(t, b, client, r.PhyOffset, 1).Code, "with a level of the consumer's")
	one := stored(t, b, meta.ScheduleTopic, 0, 0)
	require.Equal(t, "%RETRY%g", prop(&one, "REAL_TOPIC"))
	w, ok := b.counts.table.Get(statSendBack, "T@g")
	require.True(t, ok, w)
}

func TestT28MessagesThatCameTooOftenAreDeadLetters(t *testing.T) {
	b, client := openTest(t, nil)
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("body"), "").Code)
	r := stored(t, b, "T", 1, 0)
	g := meta.NewGroup("g")
	g.RetryMaxTimes = 0
	require.NoError(t, b.groups.Put(g))
	require.Equal(t, remoting.Success, back(t, b, client, r.PhyOffset, 0, field("maxReconsumeTimes", "16")).Code)
	require.EqualValues(t, 1, b.store.NextOffset(meta.ScheduleTopic, 2), "what the request says goes before the group")
	for i, resp := range []*remoting.Command{
		back(t, b, client, r.PhyOffset, 0, field("maxReconsumeTimes", "0")), back(t, b, client, r.PhyOffset, -1, field("maxReconsumeTimes", "16")), back(t, b, client, r.PhyOffset, 0),
	} {
		require.Equal(t, remoting.Success, resp.Code, resp.Remark)
		dead := stored(t, b, "%DLQ%g", 0, int64(i))
		require.Equal(t, "0", prop(&dead, "DELAY"))
		require.Equal(t, "T", prop(&dead, "RETRY_TOPIC"))
		require.EqualValues(t, 1, dead.ReconsumeTimes)
	}
	topic, ok := b.topics.Get("%DLQ%g")
	require.True(t, ok)
	require.EqualValues(t, 1, topic.WriteQueues)
	require.EqualValues(t, 6, topic.Perm)
}

func TestT27RefusedSendBacks(t *testing.T) {
	b, client := openTest(t, func(o *Options) { o.AutoCreateSubscriptionGroup = false })
	require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("body"), "").Code)
	r := stored(t, b, "T", 1, 0)
	require.Equal(t, remoting.SubscriptionGroupNotExist, back(t, b, client, r.PhyOffset, 0).Code)
	g := meta.NewGroup("g")
	g.RetryQueues = 0
	require.NoError(t, b.groups.Put(g))
	require.Equal(t, remoting.Success, back(t, b, client, r.PhyOffset, 0).Code, "dropped")
	_, ok := b.topics.Get("%RETRY%g")
	require.False(t, ok)
	require.NoError(t, b.groups.Put(meta.NewGroup("g")))
	for _, offset := range []int64{r.PhyOffset + 1, -1, 1 << 40} {
		require.Equal(t, remoting.SystemError, back(t, b, client, offset, 0).Code, offset)
	}
	require.Equal(t, remoting.SystemError, back(t, b, client, r.PhyOffset, 0, field("delayLevel", "")).Code)
	require.NoError(t, b.topics.Put(meta.NewTopic("%RETRY%g", 1, meta.PermRead)))
	require.Equal(t, remoting.NoPermission, back(t, b, client, r.PhyOffset, 0).Code)
	require.Zero(t, b.store.NextOffset(meta.ScheduleTopic, 2))
}
