//go:build interop

package interop

import (
	"bytes"
	"net/netip"
	"strings"

	"github.com/tandemq/tandemmq/message"
)

// host is an address with what Java prints for it, alone and with its port.
type host struct {
	message.Host
	address, socket string
}

var (
	bornV4  = host{message.Host{Addr: netip.MustParseAddr("10.1.2.3"), Port: 4567}, "10.1.2.3", "/10.1.2.3:4567"}
	storeV4 = host{message.Host{Addr: netip.MustParseAddr("10.9.8.7"), Port: 10911}, "10.9.8.7", "/10.9.8.7:10911"}
	bornV6  = host{
		message.Host{Addr: netip.MustParseAddr("2001:db8::1"), Port: 65535},
		"2001:db8:0:0:0:0:0:1", "/[2001:db8:0:0:0:0:0:1]:65535",
	}
	storeV6 = host{
		message.Host{Addr: netip.MustParseAddr("fd00::a:15"), Port: 10911},
		"fd00:0:0:0:0:0:a:15", "/[fd00:0:0:0:0:0:a:15]:10911",
	}
)

// property is a name and a value.
type property [2]string

// element is one message of a batch.
type element struct {
	flag       int32
	body       []byte
	properties []property
	open       bool // no separator behind the last property
}

// shape is a message of one form, or a batch of such.
type shape struct {
	name           string
	topic          string
	queueID        int32
	flag           int32
	sysFlag        int32
	reconsumeTimes int32
	prepared       int64
	born, store    host // the zero host: bornV4, storeV4
	element             // without flag: of a message; the properties also of a batch's envelope
	batch          []element

	// What follows from it.
	light   []string // light queues that the message is dispatched to
	delayMs int64    // above 0: the unit has the time of delivery, so long after the store time, in place of the tags' hash
	inner   bool     // the batch stays one record
	hidden  bool     // in the log, in no queue
}

const (
	batchTopic = "Batches"
	baseTopic  = "Topic"
	// largestBody is maxMessageSize, by default.
	largestBody = 4 << 20
	// largestProperties is the limit of a record's properties in bytes.
	largestProperties = 32767
	crcPropertyBytes  = 20
)

// shapes returns messages of every form a put can take. With crc there is less room for properties.
func shapes(crc bool) []shape {
	room := largestProperties - len("fill\x01\x02")
	if crc {
		room -= crcPropertyBytes
	}
	text := func(s string) element { return element{body: []byte(s)} }
	with := func(s string, p ...property) element { return element{body: []byte(s), properties: p} }
	dispatch := func(names ...string) element {
		return with("light", property{"TAGS", "TagL"}, property{"INNER_MULTI_DISPATCH", strings.Join(names, ",")})
	}
	elements := []element{
		{flag: 1, body: []byte("first"), properties: []property{{"TAGS", "TagA"}, {"KEYS", "b1"}, {"UNIQ_KEY", "0A01020300001234ABCD000000000001"}}},
		{flag: -2, body: []byte("no properties")},
		{body: nil, properties: []property{{"TAGS", "TagB"}, {"WAIT", "true"}}},
		{flag: 3, body: bytes.Repeat([]byte{0xFF}, 3000), properties: []property{{"KEYS", "b2 b3"}, {"TAGS", "open"}}, open: true},
		{flag: 4, body: []byte("last"), properties: []property{{"DELAY", "0"}}},
	}
	return []shape{
		{name: "plain", topic: baseTopic, element: text("hello world")},
		{name: "tags, keys, unique key", topic: baseTopic, queueID: 1, element: with("hello", property{"KEYS", "k1 k2"}, property{"TAGS", "TagA"},
			property{"UNIQ_KEY", "0A01020300001234ABCD000000000000"}, property{"user", "a value, with = and %"})},
		{name: "characters", topic: baseTopic, queueID: 1, element: with("größe", property{"KEYS", "schlüssel 鍵 🔑"}, property{"TAGS", "标签🏷"}, property{"ключ", "ß"})},
		{name: "open properties", topic: baseTopic, queueID: 1, element: element{body: []byte("open"), properties: []property{{"TAGS", "TagO"}}, open: true}},
		{name: "empty value", topic: baseTopic, queueID: 1, element: with("empty", property{"gone", ""}, property{"TAGS", "TagE"})},
		{name: "largest properties", topic: baseTopic, queueID: 1, element: with("long", property{"fill", strings.Repeat("p", room)})},
		{name: "empty body", topic: baseTopic, queueID: 1},
		{name: "zeros", topic: baseTopic, queueID: 1, element: element{body: make([]byte, 5000)}},
		{
			name: "fields", topic: baseTopic, queueID: 2147483647, flag: -2147483648, reconsumeTimes: 16, prepared: 1 << 40,
			sysFlag: message.FlagCompressed | message.FlagMultiTags | 0x200, element: with("\x28\xB5\x2F\xFD", property{"TAGS", "A || B"}),
		},
		{name: "no wait", topic: baseTopic, element: with("no wait", property{"WAIT", "false"})},
		{name: "127 bytes", topic: strings.Repeat("a", 127), element: text("V1")},
		{name: "%RETRY%, 128 bytes", topic: "%RETRY%" + strings.Repeat("g", 121), element: text("x")},
		{name: "128 bytes", topic: strings.Repeat("b", 128), element: with("x", property{"TAGS", "TagV"})},
		{name: "200 bytes", topic: strings.Repeat("c", 200), queueID: 3, element: text("x")},
		{name: "%RETRY%, 255 bytes", topic: "%RETRY%" + strings.Repeat("h", 248), element: with("x", property{"KEYS", "v2"})},
		{name: "255 bytes, IPv6", topic: strings.Repeat("d", 255), born: bornV6, store: storeV6, element: text("x")},
		{name: "IPv6 born", topic: "Six", born: bornV6, element: with("v6", property{"TAGS", "TagA"})},
		{name: "IPv6 store", topic: "Six", store: storeV6, element: with("v6", property{"TAGS", "TagA"})},
		{name: "IPv6", topic: "Six", born: bornV6, store: storeV6, element: element{}},
		{name: "prepared", topic: "Transactions", hidden: true, sysFlag: message.TransactionPrepared, prepared: 77, element: with("half", property{"TAGS", "TagT"})},
		{name: "rolled back", topic: "Transactions", hidden: true, sysFlag: message.TransactionRollback, prepared: 78, element: text("gone")},
		{name: "committed", topic: "Transactions", sysFlag: message.TransactionCommit, prepared: 79, element: with("whole", property{"TAGS", "TagT"})},
		{name: "largest body", topic: baseTopic, element: element{body: bytes.Repeat([]byte("0123456789abcdef"), largestBody/16)}},
		{
			name: "delay level 3", topic: message.TopicSchedule, queueID: 2, delayMs: 10_000,
			element: with("later", property{"DELAY", "3"}, property{"TAGS", "TagD"}, property{"REAL_TOPIC", baseTopic}, property{"REAL_QID", "0"}),
		},
		{name: "delay level 99", topic: message.TopicSchedule, queueID: 98, delayMs: 7_200_000, element: with("later", property{"DELAY", "99"})},
		{name: "delay level elsewhere", topic: baseTopic, element: with("now", property{"DELAY", "3"}, property{"TAGS", "TagD"})},
		{name: "one light queue", topic: baseTopic, light: []string{"%LMQ%one"}, element: dispatch("%LMQ%one")},
		{
			name: "light queues", topic: "Lit", queueID: 1, light: []string{"%LMQ%two", "%LMQ%one", "%LMQ%three"},
			element: dispatch("%LMQ%two", "%LMQ%one", "%LMQ%three"),
		},
		{
			name: "light queues, V2, IPv6", topic: strings.Repeat("e", 130), born: bornV6, store: storeV6,
			light: []string{"%LMQ%" + strings.Repeat("l", 250), "%LMQ%two"}, element: dispatch("%LMQ%"+strings.Repeat("l", 250), "%LMQ%two"),
		},
		{name: "a light queue's own", topic: "%LMQ%three", element: with("direct", property{"TAGS", "TagL"})},
		{name: "not dispatched", topic: "%RETRY%group", element: dispatch("%LMQ%one")},
		{name: "batch", topic: baseTopic, element: element{properties: []property{{"TAGS", "envelope"}}}, batch: elements},
		{name: "batch, V2, IPv6", topic: strings.Repeat("f", 128), queueID: 5, reconsumeTimes: 2, born: bornV6, store: storeV6, batch: elements},
		{name: "single in a batch queue", topic: batchTopic, element: with("single", property{"TAGS", "TagS"})},
		{name: "batch without UNIQ_KEY", topic: batchTopic, batch: elements},
		{
			name: "inner batch", topic: batchTopic, inner: true, batch: elements,
			element: element{properties: []property{{"UNIQ_KEY", "0A01020300001234ABCD000000000009"}, {"TAGS", "TagI"}}},
		},
	}
}

// propertyBytes returns the properties as a producer sends them.
func (e *element) propertyBytes() (b []byte) {
	for _, p := range e.properties {
		b = message.AppendProperty(b, p[0], p[1])
	}
	if e.open {
		b = b[:len(b)-1]
	}
	return b
}

// seen returns the properties as RocketMQ reads them: it does not see one with an empty value.
func (e *element) seen() map[string]string {
	m := map[string]string{}
	for _, p := range e.properties {
		if p[1] != "" {
			m[p[0]] = p[1]
		}
	}
	return m
}
