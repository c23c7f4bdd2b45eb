package store

import (
	"encoding/json"
	"hash/crc32"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// record encodes and decodes a message, so that the test prints what was stored.
func record(t *testing.T, m message.Message) *message.Record {
	t.Helper()
	b, err := m.AppendTo(nil)
	require.NoError(t, err)
	r := new(message.Record)
	require.NoError(t, r.Decode(b, true))
	return r
}

func TestMessageLine(t *testing.T) {
	v4 := message.Host{Addr: netip.MustParseAddr("127.0.0.1"), Port: 10911}
	v6 := message.Host{Addr: netip.MustParseAddr("fd00::15"), Port: 4567}
	props := message.AppendProperty(nil, "KEYS", `k1 "k2"`)
	props = message.AppendProperty(props, "TAGS", "标签")
	tests := []struct {
		name string
		key  cq.Key
		slot int64
		m    message.Message
		want string
	}{
		{
			name: "plain", key: cq.Key{Topic: "T", QueueID: 3}, slot: 7,
			m: message.Message{
				Topic: "T", QueueID: 3, QueueOffset: 7, PhyOffset: 1742, Flag: 1, BornTimestampMs: 5, StoreTimestampMs: 6,
				BornHost: message.Host{Addr: netip.MustParseAddr("10.0.6.7"), Port: 9}, StoreHost: v4, Body: []byte("hello world"), Properties: props,
			},
			want: `{"t":"msg","topic":"T","queueId":3,"queueOffset":7,"commitLogOffset":1742,"size":128,"storeTimestamp":6,"tagsCode":-5,` +
				`"msgId":"7F00000100002A9F00000000000006CE","crc32":222957957,"keys":"k1 \"k2\"","tags":"标签","uniqKey":null,"bodyLen":11,` +
				`"sysFlag":0,"flag":1,"bornTimestamp":5,"bornHost":"10.0.6.7","storeHost":"/127.0.0.1:10911","reconsumeTimes":0,` +
				`"preparedTransactionOffset":0,"magicV2":false,"rawCrc32":RAW}`,
		},
		{
			name: "light queue, long topic, IPv6", key: cq.Key{Topic: "%LMQ%l"}, slot: 2,
			m: message.Message{
				Topic: strings.Repeat("x", 128), QueueID: 1, QueueOffset: 9, SysFlag: message.TransactionCommit, ReconsumeTimes: 2,
				PreparedTransactionOffset: 77, BornHost: v6, StoreHost: v6,
			},
			want: `{"t":"msg","topic":"%LMQ%l","queueId":0,"queueOffset":2,"commitLogOffset":0,"size":244,"storeTimestamp":0,"tagsCode":-5,` +
				`"msgId":"FD000000000000000000000000000015000011D70000000000000000","crc32":0,"keys":null,"tags":null,"uniqKey":null,"bodyLen":0,` +
				`"sysFlag":56,"flag":0,"bornTimestamp":0,"bornHost":"fd00:0:0:0:0:0:0:15","storeHost":"/[fd00:0:0:0:0:0:0:15]:4567","reconsumeTimes":2,` +
				`"preparedTransactionOffset":77,"magicV2":true,"rawCrc32":RAW,"msgTopic":"` + strings.Repeat("x", 128) + `","msgQueueId":1,"msgQueueOffset":9}`,
		},
		{
			name: "stored under another number", key: cq.Key{Topic: "T", QueueID: 3}, slot: 8,
			m: message.Message{Topic: "T", QueueID: 3, QueueOffset: 7, BornHost: v4, StoreHost: v4},
			want: `{"t":"msg","topic":"T","queueId":3,"queueOffset":8,"commitLogOffset":0,"size":92,"storeTimestamp":0,"tagsCode":-5,` +
				`"msgId":"7F00000100002A9F0000000000000000","crc32":0,"keys":null,"tags":null,"uniqKey":null,"bodyLen":0,` +
				`"sysFlag":0,"flag":0,"bornTimestamp":0,"bornHost":"127.0.0.1","storeHost":"/127.0.0.1:10911","reconsumeTimes":0,` +
				`"preparedTransactionOffset":0,"magicV2":false,"rawCrc32":RAW,"msgTopic":"T","msgQueueId":3,"msgQueueOffset":7}`,
		},
	}
	var line msgLine // one for all: nothing of the line before may be left
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := record(t, tt.m)
			line.begin(tt.key)
			b, damage := line.msg(tt.slot, &cq.Unit{TagsCode: -5}, r)
			require.NoError(t, damage)
			got := string(b)
			raw, err := tt.m.AppendTo(nil)
			require.NoError(t, err)
			require.Equal(t, strings.Replace(tt.want, "RAW", strconv.FormatUint(uint64(crc32.ChecksumIEEE(raw)), 10), 1)+"\n", got)
		})
	}
}

// A line costs no memory once its buffer has grown, but for the id.
func TestMessageLineAllocations(t *testing.T) {
	r := record(t, message.Message{Topic: "T", BornHost: message.Host{Addr: netip.IPv4Unspecified()}, StoreHost: message.Host{Addr: netip.IPv4Unspecified()}})
	var line msgLine
	line.begin(cq.Key{Topic: "T"})
	u := &cq.Unit{}
	_, damage := line.msg(0, u, r)
	require.NoError(t, damage)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = line.msg(0, u, r) }), 1.0)
}

func TestAppendString(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "TagA", `"TagA"`},
		{"empty", "", `""`},
		{"quotes", `a"b\c`, `"a\"b\\c"`},
		{"controls", "\x00\b\t\n\f\r\x1f\x7f", `"\u0000\b\t\n\f\r\u001f` + "\x7f" + `"`},
		{"html stays", "<a&b>", `"<a&b>"`},
		{"unicode", "标签😀", `"标签😀"`},
		{"line separators", "a\u2028b\u2029c", `"a\u2028b\u2029c"`},
		{"no UTF-8", "a\xffb\xe6\xa0", "\"a\ufffdb\ufffd\ufffd\""},
		{"replacement itself", "\ufffd", "\"\ufffd\""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, string(appendString(nil, tt.in)))
			require.Equal(t, tt.want, string(appendString(nil, []byte(tt.in))))
		})
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\xff\u2028\"")
	f.Fuzz(func(t *testing.T, s string) {
		got := appendString([]byte("x"), s)
		var back string
		require.NoError(t, json.Unmarshal(got[1:], &back))
		require.Equal(t, string([]rune(s)), back)
	})
}
