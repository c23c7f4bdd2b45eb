package acl

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/logtest"
	"github.com/tandemq/tandemmq/remoting"
)

// sample is a file as RocketMQ's distribution has it, with what updateAclConfig adds.
const sample = `globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.{100,101}

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
      - topicD=PUB
    groupPerms:
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB
      - groupD=PUB

  - accessKey: rocketmq2
    secretKey: abcdefgh
    whiteRemoteAddress: 192.168.1.*
    admin: true

  - accessKey: nothing
    secretKey: abcdefgh

dataVersion:
  - counter: 1
    timestamp: 1700000000000
`

// request is signed with the secret key, unless that is empty.
func request(code int32, accessKey, secretKey, body string, fields ...string) *remoting.Command {
	req := &remoting.Command{Code: code, Body: []byte(body), Version: remoting.CurrentVersion}
	for i := 0; i < len(fields); i += 2 {
		req.Ext = append(req.Ext, remoting.Field{Key: fields[i], Value: fields[i+1]})
	}
	switch {
	case secretKey != "":
		remoting.Credentials{AccessKey: accessKey, SecretKey: secretKey}.Sign(req)
	case accessKey != "":
		req.Ext.Set(remoting.FieldAccessKey, accessKey)
	}
	return req
}

// records stands for a log with messages of three topics.
func records(phyOffset int64) (string, bool) {
	topic, ok := map[int64]string{1: "topicA", 2: "topicB", 3: "topicC", 4: "topicD", 5: "%RETRY%groupA", 6: "%RETRY%groupC"}[phyOffset]
	return topic, ok
}

func TestWhoIsTaken(t *testing.T) {
	r, err := Parse([]byte(sample))
	require.NoError(t, err)
	require.Equal(t, 3, r.Accounts())
	const far = "1.2.3.4:5"
	for _, c := range []struct {
		name   string
		remote string
		req    *remoting.Command
		want   string // of the remark; empty: taken
	}{
		{"listed for all", "10.10.103.7:1", request(remoting.DeleteTopicInBroker, "", "", ""), ""},
		{"listed for all, in braces", "192.168.0.101:1", request(remoting.DeleteTopicInBroker, "", "", ""), ""},
		{"not listed", "192.168.0.102:1", request(remoting.GetBrokerConfig, "", "", ""), "needs an access key"},
		{"no account of that key", far, request(remoting.GetBrokerConfig, "unknown", "12345678", ""), "access key or the signature is wrong"},
		{"another secret", far, request(remoting.GetBrokerConfig, "RocketMQ", "12345679", ""), "access key or the signature is wrong"},
		{"no signature", far, request(remoting.GetBrokerConfig, "RocketMQ", "", ""), "access key or the signature is wrong"},
		{"signed", far, request(remoting.GetBrokerConfig, "RocketMQ", "12345678", ""), ""},
		{"an admin from afar", far, request(remoting.DeleteTopicInBroker, "rocketmq2", "abcdefgh", ""), ""},
		{"an admin from afar with another secret", far, request(remoting.DeleteTopicInBroker, "rocketmq2", "12345678", ""), "is wrong"},
		{"listed for the account", "192.168.1.9:1", request(remoting.DeleteTopicInBroker, "rocketmq2", "", ""), ""},
		{"listed for another account", "192.168.1.9:1", request(remoting.DeleteTopicInBroker, "RocketMQ", "12345678", ""), "needs an admin's account"},
		{"an address that is none", "x", request(remoting.GetBrokerConfig, "", "", ""), "needs an access key"},
	} {
		err := r.Allow(c.remote, c.req, records)
		if c.want == "" {
			require.NoError(t, err, c.name)
			continue
		}
		require.ErrorContains(t, err, c.want, c.name)
		var re *remoting.ResponseError
		require.ErrorAs(t, err, &re, c.name)
		require.Equal(t, remoting.NoPermission, re.Code, c.name)
		for _, secret := range []string{"12345678", "abcdefgh", "Signature"} {
			require.NotContains(t, re.Remark, secret, c.name)
		}
	}
	changed := request(remoting.SendMessage, "RocketMQ", "12345678", "body", "topic", "topicB")
	changed.Ext.Set("topic", "topicA")
	require.ErrorContains(t, r.Allow(far, changed, records), "signature is wrong", "the fields are signed")
}

func beat(group string, topics ...string) string {
	subs := []string{}
	for _, topic := range topics {
		subs = append(subs, fmt.Sprintf(`{"topic":%q,"subString":"*"}`, topic))
	}
	return fmt.Sprintf(`{"clientID":"c","consumerDataSet":[{"groupName":%q,"subscriptionDataSet":[%s]}],"producerDataSet":[{"groupName":"pg"}]}`, group, strings.Join(subs, ","))
}

func TestWhatAnAccountMayDo(t *testing.T) {
	r, err := Parse([]byte(sample))
	require.NoError(t, err)
	const ok, no = true, false
	for _, c := range []struct {
		name   string
		code   int32
		body   string
		fields []string
		want   bool
	}{
		{"send: PUB|SUB", remoting.SendMessage, "", []string{"topic", "topicB"}, ok},
		{"send: PUB", remoting.SendMessageV2, "", []string{"b", "topicD"}, ok},
		{"send: SUB", remoting.SendMessageV2, "", []string{"b", "topicC"}, no},
		{"send: DENY", remoting.SendMessageV2, "", []string{"b", "topicA"}, no},
		{"send: the default", remoting.SendMessageV2, "", []string{"b", "other"}, no},
		{"send: the field of the other version counts for nothing", remoting.SendMessageV2, "", []string{"topic", "topicB", "b", "topicA"}, no},
		{"send: the last of two fields counts", remoting.SendMessage, "", []string{"topic", "topicB", "topic", "topicA"}, no},
		{"send: no topic", remoting.SendMessage, "", nil, no},
		{"batch", remoting.SendBatchMessage, "", []string{"b", "topicD"}, ok},
		{"batch: SUB", remoting.SendBatchMessage, "", []string{"b", "topicC"}, no},
		{"retry topic: SUB of the group", remoting.SendMessageV2, "", []string{"b", "%RETRY%groupC"}, ok},
		{"retry topic: PUB of the group alone", remoting.SendMessageV2, "", []string{"b", "%RETRY%groupD"}, no},
		{"retry topic: DENY", remoting.SendMessageV2, "", []string{"b", "%RETRY%groupA"}, no},
		{"retry topic: the group's default", remoting.SendMessageV2, "", []string{"b", "%RETRY%other"}, ok},
		{"dead letters are a topic", remoting.SendMessageV2, "", []string{"b", "%DLQ%groupC"}, no},
		{"reply by the cluster's topic", remoting.SendReplyMessageV2, "", []string{"b", "c_REPLY_TOPIC"}, ok},
		{"reply by another topic", remoting.SendReplyMessageV2, "", []string{"b", "topicC"}, no},
		{"reply, version 1", remoting.SendReplyMessage, "", []string{"topic", "topicA"}, no},
		{"recall", remoting.RecallMessage, "", []string{"topic", "topicC"}, no},
		{"end of a transaction: the record's topic", remoting.EndTransaction, "", []string{"commitLogOffset", "2", "topic", "topicA"}, ok},
		{"end of a transaction of another topic", remoting.EndTransaction, "", []string{"commitLogOffset", "1", "topic", "topicB"}, no},
		{"end of a transaction that is not there", remoting.EndTransaction, "", []string{"commitLogOffset", "99"}, ok},

		{"pull", remoting.PullMessage, "", []string{"topic", "topicC", "consumerGroup", "groupC"}, ok},
		{"lite pull", remoting.LitePullMessage, "", []string{"topic", "topicB", "consumerGroup", "other"}, ok},
		{"pull: PUB", remoting.PullMessage, "", []string{"topic", "topicD", "consumerGroup", "groupC"}, no},
		{"pull: DENY", remoting.LitePullMessage, "", []string{"topic", "topicA", "consumerGroup", "groupC"}, no},
		{"pull: the group's DENY", remoting.PullMessage, "", []string{"topic", "topicC", "consumerGroup", "groupA"}, no},
		{"pull of the group's retry topic", remoting.PullMessage, "", []string{"topic", "%RETRY%groupC", "consumerGroup", "groupC"}, ok},
		{"pull of another group's retry topic", remoting.PullMessage, "", []string{"topic", "%RETRY%groupA", "consumerGroup", "groupC"}, no},
		{"pull of dead letters", remoting.PullMessage, "", []string{"topic", "%DLQ%groupC", "consumerGroup", "groupC"}, no},
		{"back", remoting.ConsumerSendMsgBack, "", []string{"group", "groupC", "offset", "3"}, ok},
		{"back: a second time", remoting.ConsumerSendMsgBack, "", []string{"group", "groupC", "offset", "6"}, ok},
		{"back: the group's DENY", remoting.ConsumerSendMsgBack, "", []string{"group", "groupA", "offset", "3"}, no},
		{"back: a record of a topic that is denied", remoting.ConsumerSendMsgBack, "", []string{"group", "groupC", "offset", "1", "originTopic", "topicC"}, no},
		{"view", remoting.ViewMessageByID, "", []string{"offset", "3"}, ok},
		{"view: a record of a topic that is denied", remoting.ViewMessageByID, "", []string{"offset", "1", "topic", "topicC"}, no},
		{"view: a retried record of another group", remoting.ViewMessageByID, "", []string{"offset", "5"}, no},
		{"query", remoting.QueryMessage, "", []string{"topic", "topicC"}, ok},
		{"query: PUB", remoting.QueryMessage, "", []string{"topic", "topicD"}, no},
		{"units", remoting.QueryConsumeQueue, "", []string{"topic", "topicA"}, no},
		{"offset", remoting.QueryConsumerOffset, "", []string{"topic", "topicC", "consumerGroup", "groupC"}, ok},
		{"offset: the group's DENY", remoting.QueryConsumerOffset, "", []string{"topic", "topicC", "consumerGroup", "groupA"}, no},
		{"commit", remoting.UpdateConsumerOffset, "", []string{"topic", "topicC", "consumerGroup", "groupC"}, ok},
		{"commit: DENY", remoting.UpdateConsumerOffset, "", []string{"topic", "topicA", "consumerGroup", "groupC"}, no},
		{"bounds: SUB", remoting.GetMaxOffset, "", []string{"topic", "topicC"}, ok},
		{"bounds: PUB", remoting.GetMinOffset, "", []string{"topic", "topicD"}, ok},
		{"bounds: DENY", remoting.SearchOffsetByTimestamp, "", []string{"topic", "topicA"}, no},
		{"bounds of a retry topic", remoting.GetEarliestMsgStoreTime, "", []string{"topic", "%RETRY%groupC"}, ok},

		{"heartbeat", remoting.Heartbeat, beat("groupC", "topicC", "%RETRY%groupC"), nil, ok},
		{"heartbeat: the group's DENY", remoting.Heartbeat, beat("groupA", "topicC"), nil, no},
		{"heartbeat: one of the subscriptions", remoting.Heartbeat, beat("groupC", "topicC", "topicA"), nil, no},
		{"heartbeat of a producer", remoting.Heartbeat, `{"clientID":"c","producerDataSet":[{"groupName":"pg"}]}`, nil, ok},
		{"heartbeat that is none", remoting.Heartbeat, `{`, nil, no},
		{"unregister a producer", remoting.UnregisterClient, "", []string{"producerGroup", "pg"}, ok},
		{"unregister a consumer", remoting.UnregisterClient, "", []string{"consumerGroup", "groupC"}, ok},
		{"unregister: DENY", remoting.UnregisterClient, "", []string{"consumerGroup", "groupA"}, no},
		{"members", remoting.GetConsumerListByGroup, "", []string{"consumerGroup", "groupC"}, ok},
		{"members: DENY", remoting.GetConsumerListByGroup, "", []string{"consumerGroup", "groupA"}, no},
		{"lock", remoting.LockBatchMQ, `{"consumerGroup":"groupC"}`, nil, ok},
		{"lock: DENY", remoting.LockBatchMQ, `{"consumerGroup":"groupA"}`, nil, no},
		{"unlock: DENY", remoting.UnlockBatchMQ, `{"consumerGroup":"groupA"}`, nil, no},
		{"unlock: no body", remoting.UnlockBatchMQ, `{`, nil, no},

		{"what tools read", remoting.GetBrokerRuntimeInfo, "", nil, ok},
		{"topic", remoting.UpdateAndCreateTopic, "", []string{"topic", "topicB"}, no},
		{"how a migration stands", remoting.MigrateOnlineStatus, "", nil, ok},
		{"a step of a migration", remoting.MigrateOnline, "", []string{"step", "cutover"}, no},
		{"configuration", remoting.UpdateBrokerConfig, "", nil, no},
		{"group", remoting.UpdateAndCreateSubscriptionGroup, "", nil, no},
		{"delete a group", remoting.DeleteSubscriptionGroup, "", nil, no},
		{"reset offsets", remoting.InvokeBrokerToResetOffset, "", []string{"topic", "topicB", "group", "groupB"}, no},
		{"consume here", remoting.ConsumeMessageDirectly, "", nil, no},
		{"a code that nothing is said about", 9999, "", nil, no},
	} {
		err := r.Allow("1.2.3.4:5", request(c.code, "RocketMQ", "12345678", c.body, c.fields...), records)
		require.Equal(t, c.want, err == nil, "%s: %v", c.name, err)
	}
	for _, code := range []int32{remoting.SendMessage, remoting.PullMessage, remoting.GetMaxOffset, remoting.GetConsumerListByGroup} {
		err := r.Allow("1.2.3.4:5", request(code, "nothing", "abcdefgh", "", "topic", "topicB", "consumerGroup", "groupB"), records)
		require.ErrorContains(t, err, "has no permission", "where nothing is said, it is DENY")
	}
}

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		text    string
		in, out []string
	}{
		{"", nil, []string{"1.2.3.4", "::1"}},
		{"*", []string{"1.2.3.4", "::1"}, nil},
		{"1.2.3.4", []string{"1.2.3.4", "::ffff:1.2.3.4"}, []string{"1.2.3.5"}},
		{"192.168.*.*", []string{"192.168.0.0", "192.168.255.255"}, []string{"192.169.0.0", "::1"}},
		{"192.168.100-200.10-20", []string{"192.168.100.10", "192.168.200.20"}, []string{"192.168.99.10", "192.168.100.21"}},
		{"192.168.0.{100,101}", []string{"192.168.0.100", "192.168.0.101"}, []string{"192.168.0.102"}},
		{"192.168.1.1, 192.168.1.{2,4-5}", []string{"192.168.1.1", "192.168.1.2", "192.168.1.5"}, []string{"192.168.1.3"}},
		{"10.0.0.0/8,fe80::/10", []string{"10.255.0.1", "fe80::1", "fe80::1%eth0"}, []string{"11.0.0.1", "::1"}},
		{"::1", []string{"::1"}, []string{"::2", "0.0.0.1"}},
	} {
		var a addresses
		require.NoError(t, a.add(c.text), c.text)
		for _, ip := range c.in {
			require.True(t, a.has(netip.MustParseAddr(ip)), "%s in %s", ip, c.text)
		}
		for _, ip := range c.out {
			require.False(t, a.has(netip.MustParseAddr(ip)), "%s in %s", ip, c.text)
		}
		require.Equal(t, c.text == "*", a.has(netip.Addr{}))
	}
	for _, text := range []string{"1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.9-8", "1.2.3.{4,5", "1.2.3.{}", "here", "10.0.0.0/33", "1.2..4", "fe80::*", "1.2.3.4*", "1.2.3.-1", "1.2.3.+1"} {
		require.Error(t, new(addresses).add(text), text)
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	account := func(more string) string {
		return "accounts:\n- accessKey: aaaaaaa\n  secretKey: TOPSECRET\n" + more
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "access rules F: the file is empty"},
		{"a comment", "# nothing\n", "access rules F: the file is empty"},
		{"no fields", "just words\n", "access rules F:1: want fields"},
		{"misspelt", "acounts: []\n", "access rules F:1: a field that is not known here; want one of accounts, dataVersion, globalWhiteRemoteAddresses"},
		{"misspelt in an account", account("  amin: true\n"), "access rules F:4: a field that is not known here"},
		{"twice", account("  admin: true\n  admin: false\n"), "access rules F:5: admin is there twice"},
		{"no YAML", account("  admin: [\n"), "access rules F:4: no YAML"},
		{"an anchor that is none", "accounts:\n- accessKey: aaaaaaa\n  secretKey: *TOPSECRET\n", "access rules F: no YAML: unknown anchor"},
		{"two documents", account("---\naccounts: []\n"), "access rules F: more than one document"},
		{"admin", account("  admin: maybe\n"), "access rules F:4: admin is neither true nor false"},
		{"no permission", account("  defaultTopicPerm: ALL\n"), "access rules F:4: want one of DENY, PUB, SUB and PUB|SUB"},
		{"no permission of a topic", account("  topicPerms:\n  - T=PUB\n  - U=READ\n"), "access rules F:6: want one of DENY"},
		{"no name", account("  topicPerms:\n  - PUB\n"), "access rules F:5: want NAME=PERMISSION"},
		{"a topic twice", account("  topicPerms: [T=PUB, T=SUB]\n"), "access rules F:4: T is there twice"},
		{"no list", account("  groupPerms: g=SUB\n"), "access rules F:4: want a list"},
		{"no address", account("  whiteRemoteAddress: 1.2.3\n"), `access rules F:4: "1.2.3" is no address`},
		{"no address for all", "globalWhiteRemoteAddresses:\n- 1.2.3.4\n- x\n", `access rules F:3: "x" is no address`},
		{"no secret key", "accounts:\n- accessKey: aaaaaaa\n", "access rules F:2: secretKey is missing"},
		{"a short secret key", "accounts:\n- accessKey: aaaaaaa\n  secretKey: SECRET\n", "access rules F:2: secretKey is missing or has less than 7 bytes"},
		{"a short access key", "accounts:\n- accessKey: a\n  secretKey: TOPSECRET\n", "access rules F:2: accessKey is missing"},
		{"a secret key that is none", "accounts:\n- accessKey: aaaaaaa\n  secretKey: [TOPSECRET]\n", "access rules F:3: want one value"},
		{"an account twice", account("- accessKey: aaaaaaa\n  secretKey: TOPSECRET\n"), "access rules F:4: the accessKey of this account is there twice"},
		{"namespaces", account("  namespacePerms: []\n"), "access rules F:4: a field that is not known here"},
	} {
		path := filepath.Join(t.TempDir(), "plain_acl.yml")
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		_, err := Load(path)
		require.Error(t, err, c.name)
		got := strings.ReplaceAll(err.Error(), path, "F")
		require.True(t, strings.HasPrefix(got, c.want), "%s: %s", c.name, got)
		require.NotContains(t, got, "SECRET", c.name)
	}
	_, err := Load(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plain_acl.yml")
	stamp := time.Now()
	write := func(text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		stamp = stamp.Add(time.Second)
		require.NoError(t, os.Chtimes(path, stamp, stamp))
	}
	write(sample)
	var logged logtest.Log
	f, err := Open(path, logged.Logger())
	require.NoError(t, err)
	first := f.Rules()
	f.Reload()
	require.Same(t, first, f.Rules(), "the file has not changed")

	write(strings.Replace(sample, "admin: false", "admin: TOPSECRET", 1))
	f.Reload()
	f.Reload()
	require.Same(t, first, f.Rules(), "a bad file is kept out")
	require.Equal(t, 1, strings.Count(logged.String(), "plain_acl.yml:9: admin is neither true nor false"))
	require.NotContains(t, logged.String(), "TOPSECRET")

	require.NoError(t, os.Remove(path))
	f.Reload()
	f.Reload()
	require.Same(t, first, f.Rules(), "a missing file opens nothing")
	require.Equal(t, 1, strings.Count(logged.String(), "cannot be read"))

	write(strings.Replace(sample, "topicA=DENY", "topicA=PUB", 1))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f.Watch(ctx) }()
	require.Eventually(t, func() bool { return f.Rules() != first }, time.Minute, time.Millisecond)
	cancel()
	<-ended
	require.NoError(t, f.Rules().Allow("1.2.3.4:5", request(remoting.SendMessage, "RocketMQ", "12345678", "", "topic", "topicA"), records))
}
