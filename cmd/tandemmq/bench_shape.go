package main

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/tandemq/tandemmq/message"
)

// shape is a kind of put that a load makes.
type shape int

const (
	shapePlain shape = iota
	shapeBatch
	shapeInnerBatch
	shapeLight
	shapePrepared
	shapeCommitted
	shapeRolledBack
	shapeDelayed
	shapeLongTopic // a record of version 2
	shapeIPv6
	shapeCount
)

var shapeNames = [shapeCount]string{
	"plain", "batch", "innerBatch", "light", "prepared", "committed", "rolledBack", "delayed", "longTopic", "ipv6",
}

// shapeTally counts messages by their shape.
type shapeTally [shapeCount]int64

// inLog is the tally of what the records of t tell: those of a batch are like others.
func (t shapeTally) inLog() shapeTally {
	t[shapePlain] += t[shapeBatch]
	t[shapeBatch] = 0
	return t
}

// byName leaves out what there is none of.
func (t shapeTally) byName() map[string]int64 {
	m := map[string]int64{}
	for s, n := range t {
		if n > 0 {
			m[shapeNames[s]] = n
		}
	}
	return m
}

// What --mix takes where --batch and --light do not say.
const (
	mixBatch = 10
	mixLight = 100
)

// shapes are the kinds of puts that follow one another, in a circle.
type shapes struct {
	cycle []shape
	batch int // messages in a batch
	light int // light queues
}

// chooseShapes makes the circle for the flags of the same names. Without mix, transactions and delayed messages come as often as in the
// stores that store generate makes.
func chooseShapes(batch, light int, transactions, delayed, mix bool) shapes {
	s := shapes{batch: batch, light: light}
	switch {
	case mix:
		if s.batch == 0 {
			s.batch = mixBatch
		}
		if s.light == 0 {
			s.light = mixLight
		}
		for kind := range shapeCount {
			s.cycle = append(s.cycle, kind)
		}
		return s
	case batch > 0:
		s.cycle = []shape{shapeBatch}
		return s
	}
	usual := shapePlain
	if light > 0 {
		usual = shapeLight
	}
	s.cycle = []shape{usual}
	if !transactions && !delayed {
		return s
	}
	for range 19 {
		s.cycle = append(s.cycle, usual)
	}
	if delayed {
		s.cycle[3] = shapeDelayed
	}
	if transactions {
		s.cycle[7], s.cycle[8], s.cycle[12] = shapePrepared, shapeCommitted, shapeRolledBack
	}
	return s
}

// options returns the options of a store that takes the shapes as such.
func (s *shapes) options() map[string]string {
	set := map[string]string{}
	for _, kind := range s.cycle {
		if kind == shapeLight {
			set["enableLmq"], set["enableMultiDispatch"] = "true", "true"
		}
		if kind == shapeInnerBatch { // of --mix alone, which has records with the checksum too
			set["enabledAppendPropCRC"] = "true"
		}
	}
	return set
}

// innerTopics is how the topics begin whose queues are batch queues.
const innerTopics = "bench_inner_"

func isInnerTopic(topic string) bool { return strings.HasPrefix(topic, innerTopics) }

// template is the message of one shape, made new for each put without allocating.
type template struct {
	shape  shape
	m      message.Message
	topics []string
	// properties are those that stay; behind them is room for those that differ from put to put.
	properties []byte
	body       []byte
	ends       []int    // of the messages in the body of a batch
	numbers    [][]byte // the digits in keys that count the messages; none without properties
	puts       int
	recordSize int64 // about, of all records of a put
}

// numberDigits is how many digits count a producer's messages in their keys.
const numberDigits = 9

// newTemplate makes the template of one shape for producer i.
func newTemplate(l *load, i int, kind shape) (*template, error) {
	host := message.HostOf(netip.MustParseAddrPort("127.0.0.1:10911"))
	if kind == shapeIPv6 {
		host = message.HostOf(netip.MustParseAddrPort("[2001:db8::1]:10911"))
	}
	t := &template{shape: kind, m: message.Message{BornHost: host, StoreHost: host}, body: bytes.Repeat([]byte("b"), l.bodyBytes)}
	for n := range l.topics {
		name := fmt.Sprintf("bench_%d", n)
		switch kind {
		case shapeInnerBatch:
			name = innerTopics + strconv.Itoa(n)
		case shapeLongTopic:
			name = fmt.Sprintf("bench_%0200d", n)
		}
		t.topics = append(t.topics, name)
	}
	switch kind {
	case shapePrepared:
		t.m.SysFlag = message.TransactionPrepared
	case shapeCommitted:
		t.m.SysFlag = message.TransactionCommit
	case shapeRolledBack:
		t.m.SysFlag = message.TransactionRollback
	}
	if kind == shapeBatch || kind == shapeInnerBatch {
		return t, t.addElements(l, i)
	}
	t.properties = make([]byte, 0, 1024)
	if l.properties {
		t.properties = t.appendProperties(t.properties, l, i, 0)
		t.numbers = findNumbers(nil, t.properties)
	}
	m := t.m
	m.Topic, m.Body, m.Properties = t.topics[0], t.body, t.properties
	size, err := m.EncodedSize()
	t.recordSize = int64(size)
	return t, err
}

// appendProperties appends the tag and the two keys of message n of a put. Those of plain messages are as long as those that tests/interop/java
// sends, so that the two stores write the same.
func (t *template) appendProperties(b []byte, l *load, i, n int) []byte {
	number := strings.Repeat("0", numberDigits)
	key, id := "key", "18B4AAC2"
	if t.shape != shapePlain {
		key, id = fmt.Sprintf("%s.%d", shapeNames[t.shape], n), fmt.Sprintf("%02X%06X", int(t.shape), n)
	}
	b = message.AppendProperty(b, message.PropertyKeys, fmt.Sprintf("%s-%03d-%s", key, i, number))
	b = message.AppendProperty(b, message.PropertyUniqKey, fmt.Sprintf("7F0000010000%s%03d%s", id, i, number))
	return message.AppendProperty(b, message.PropertyTags, "TagA")
}

// findNumbers appends the digits of properties that count.
func findNumbers(numbers [][]byte, properties []byte) [][]byte {
	for _, name := range []string{message.PropertyKeys, message.PropertyUniqKey} {
		value, _ := message.FindProperty(properties, name)
		numbers = append(numbers, value[len(value)-numberDigits:])
	}
	return numbers
}

// addElements makes the body one of a batch.
func (t *template) addElements(l *load, i int) error {
	var body []byte
	var fixed []int // where the properties of the elements begin
	for n := range l.shapes.batch {
		e := message.BatchElement{Body: t.body}
		if l.properties {
			e.Properties = t.appendProperties(nil, l, i, n)
		}
		var err error
		if body, err = e.AppendTo(body); err != nil {
			return err
		}
		fixed = append(fixed, len(body)-len(e.Properties))
		t.ends = append(t.ends, len(body))
		size, err := (&message.Message{Topic: t.topics[0], Body: e.Body, Properties: e.Properties, BornHost: t.m.BornHost, StoreHost: t.m.StoreHost}).EncodedSize()
		if err != nil {
			return err
		}
		t.recordSize += int64(size)
	}
	t.body = body
	for n := range fixed {
		if l.properties {
			t.numbers = findNumbers(t.numbers, body[fixed[n]:t.ends[n]])
		}
	}
	if t.shape == shapeInnerBatch { // without the key it would be taken apart
		t.properties = message.AppendProperty(nil, message.PropertyUniqKey, fmt.Sprintf("7F0000010000FFFFFFFF%03d%s", i, strings.Repeat("0", numberDigits)))
		value, _ := message.FindProperty(t.properties, message.PropertyUniqKey)
		t.numbers = append(t.numbers, value[len(value)-numberDigits:])
	}
	return nil
}

// next makes t.m the next message for a queue of a topic, or a batch of at most so many, and returns how many they are.
func (t *template) next(p *producer, topic, queue int, most int64) (messages int64) {
	for _, digits := range t.numbers {
		increment(digits)
	}
	m := &t.m
	m.Topic, m.QueueID, m.Body, m.Properties = t.topics[topic], int32(queue), t.body, t.properties
	messages = 1
	switch t.shape {
	case shapeBatch, shapeInnerBatch:
		messages = min(int64(len(t.ends)), most)
		m.Body = t.body[:t.ends[messages-1]]
	case shapeLight:
		m.Properties = t.appendLight(m.Properties, p.l.shapes.light)
	case shapeCommitted, shapeRolledBack:
		m.PreparedTransactionOffset = p.prepared
	case shapeDelayed: // as a broker stores it
		level := t.puts%18 + 1
		m.Properties = appendNumber(m.Properties, message.PropertyDelay, level)
		m.Properties = message.AppendProperty(m.Properties, message.PropertyRealTopic, m.Topic)
		m.Properties = appendNumber(m.Properties, message.PropertyRealQueueID, queue)
		m.Topic, m.QueueID = message.TopicSchedule, int32(level-1)
	}
	t.puts++
	return messages
}

// appendLight names one to three of so many light queues.
func (t *template) appendLight(b []byte, queues int) []byte {
	b = append(b, message.PropertyMultiDispatch...)
	b = append(b, '\x01')
	for n := range min(t.puts%3+1, queues) {
		if n > 0 {
			b = append(b, ',')
		}
		b = append(b, message.LMQPrefix+"bench_"...)
		b = strconv.AppendInt(b, int64((t.puts*3+n)%queues), 10)
	}
	return append(b, '\x02')
}

func appendNumber(b []byte, name string, n int) []byte {
	b = append(b, name...)
	b = append(b, '\x01')
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '\x02')
}

// shapeOf tells the shape of a record, and how many messages it has.
func shapeOf(r *message.Record) (kind shape, messages int64) {
	if r.SysFlag&message.FlagInnerBatch != 0 {
		num, _ := r.Property(message.PropertyInnerNum)
		messages, _ = strconv.ParseInt(string(num), 10, 64)
		return shapeInnerBatch, messages
	}
	light := bytes.Contains(r.Properties, []byte(message.PropertyMultiDispatch+"\x01"))
	switch {
	case r.Transaction() == message.TransactionPrepared:
		return shapePrepared, 1
	case r.Transaction() == message.TransactionCommit:
		return shapeCommitted, 1
	case r.Transaction() == message.TransactionRollback:
		return shapeRolledBack, 1
	case string(r.Topic) == message.TopicSchedule:
		return shapeDelayed, 1
	case light:
		return shapeLight, 1
	case r.Magic == message.MagicV2:
		return shapeLongTopic, 1
	case r.SysFlag&message.FlagBornHostV6 != 0:
		return shapeIPv6, 1
	}
	return shapePlain, 1
}
