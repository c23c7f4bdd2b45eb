package store

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"

	"github.com/tandemq/tandemmq/message"
)

// sampleQueue is a queue of the sample and the next slot in it.
type sampleQueue struct {
	name string
	id   int32
	next int64
}

// sampleTag is a tag and its code.
type sampleTag struct {
	name string
	code int64
}

// bodyPool is the length of the random bytes that bodies are cut from; a prime, so that cuts do not repeat soon.
const bodyPool = 65_521

// Where in each run of 20 messages the special ones come.
const (
	sampleCycle     = 20
	cycleDelayed    = 3
	cyclePrepared   = 7
	cycleCommitted  = 8
	cycleRolledBack = 12
)

// sample makes up the messages of a sample store, one after the other. What it returns is valid until the next call.
type sample struct {
	o        *GenerateOptions
	rnd      *rand.PCG
	topics   []string
	queues   []sampleQueue // of topics[i/QueuesPerTopic]
	schedule []sampleQueue // by delay level - 1
	light    []sampleQueue
	tags     []sampleTag
	pool     []byte
	levels   *message.DelayLevels

	m        message.Message
	props    []byte
	picked   []*sampleQueue
	tagsCode int64 // of the message returned last
	prepared int64 // phyOffset of the last record without a unit, set by the caller
}

func newSample(o *GenerateOptions) *sample {
	s := &sample{o: o, rnd: rand.NewPCG(o.Seed, 0x7461_6e64_656d), levels: message.DefaultDelayLevels()}
	for t := range o.Topics {
		s.topics = append(s.topics, fmt.Sprintf("sample_%d", t))
		for q := range o.QueuesPerTopic {
			s.queues = append(s.queues, sampleQueue{name: s.topics[t], id: int32(q)})
		}
	}
	if o.Delayed {
		for level := range s.levels.Max() {
			s.schedule = append(s.schedule, sampleQueue{name: message.TopicSchedule, id: int32(level)})
		}
	}
	for i := range o.LMQ {
		s.light = append(s.light, sampleQueue{name: fmt.Sprintf("%slight_%d", message.LMQPrefix, i)})
	}
	for i := range o.Tags {
		name := fmt.Sprintf("Tag%d", i)
		s.tags = append(s.tags, sampleTag{name, message.TagsHash([]byte(name))})
	}
	s.pool = make([]byte, bodyPool+o.BodyBytes+8)
	for i := 0; i+8 <= len(s.pool); i += 8 {
		binary.LittleEndian.PutUint64(s.pool[i:], s.rnd.Uint64())
	}
	s.m.BornHost = message.Host{Addr: netip.AddrFrom4([4]byte{10, 0, 0, 1}), Port: 50_000}
	s.m.StoreHost = message.Host{Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Port: 10_911}
	return s
}

// next makes up message number i and takes its slots: the message's own queue and light are advanced by it. PhyOffset is
// left to the caller.
func (s *sample) next(i int64) (m *message.Message, light []*sampleQueue) {
	r := s.rnd.Uint64()
	q := &s.queues[r%uint64(len(s.queues))]
	r >>= 24
	m = &s.m
	m.Topic, m.QueueID, m.SysFlag, m.PreparedTransactionOffset = q.name, q.id, message.TransactionNone, 0
	m.StoreTimestampMs = s.o.StartMs + i
	m.BornTimestampMs = m.StoreTimestampMs - int64(r%16)
	m.Flag = int32(r >> 32 % 5)
	at := r % bodyPool
	m.Body = s.pool[at : at+uint64(s.o.BodyBytes)]
	s.props = s.props[:0]
	s.tagsCode = 0
	if len(s.tags) > 0 {
		tag := &s.tags[r%uint64(len(s.tags))]
		s.props = message.AppendProperty(s.props, message.PropertyTags, tag.name)
		s.tagsCode = tag.code
	}
	s.addKeys(i)
	s.addUniqKey(i)

	s.picked = s.picked[:0]
	switch special := i % sampleCycle; {
	case s.o.Delayed && special == cycleDelayed:
		q = s.delay(m, q, r)
	case s.o.Transactions && (special == cyclePrepared || special == cycleRolledBack):
		m.SysFlag = message.TransactionPrepared
		if special == cycleRolledBack {
			m.SysFlag, m.PreparedTransactionOffset = message.TransactionRollback, s.prepared
		}
		m.QueueOffset = 0
		m.Properties = s.props
		return m, nil
	case s.o.Transactions && special == cycleCommitted:
		m.SysFlag, m.PreparedTransactionOffset = message.TransactionCommit, s.prepared
	case len(s.light) > 0 && i%2 == 0:
		s.pickLight(r)
	}
	m.QueueOffset = q.next
	q.next++
	m.Properties = s.props
	return m, s.picked
}

func (s *sample) addKeys(i int64) {
	if s.o.Keys == 0 {
		return
	}
	s.props = append(s.props, message.PropertyKeys...)
	s.props = append(s.props, 1)
	for k := range s.o.Keys {
		if k > 0 {
			s.props = append(s.props, ' ')
		}
		s.props = append(s.props, 'k')
		s.props = strconv.AppendInt(s.props, i*int64(s.o.Keys)+int64(k), 10)
	}
	s.props = append(s.props, 2)
}

// addUniqKey adds the 32 hexadecimal digits a producer would: here the host, the seed and the message's number.
func (s *sample) addUniqKey(i int64) {
	const digits = "0123456789ABCDEF"
	s.props = append(s.props, message.PropertyUniqKey...)
	s.props = append(s.props, 1)
	s.props = append(s.props, "0A000001"...)
	for shift := 28; shift >= 0; shift -= 4 {
		s.props = append(s.props, digits[s.o.Seed>>shift&15])
	}
	for shift := 60; shift >= 0; shift -= 4 {
		s.props = append(s.props, digits[uint64(i)>>shift&15])
	}
	s.props = append(s.props, 2)
}

// delay makes m a message that waits for its time on the schedule topic, as a broker stores one.
//
// Source: HookUtils.transformDelayLevelMessage, 5.5.0.
func (s *sample) delay(m *message.Message, q *sampleQueue, r uint64) *sampleQueue {
	level := int(r%uint64(len(s.schedule))) + 1
	s.props = message.AppendProperty(s.props, message.PropertyDelay, strconv.Itoa(level))
	s.props = message.AppendProperty(s.props, message.PropertyRealTopic, q.name)
	s.props = message.AppendProperty(s.props, message.PropertyRealQueueID, strconv.Itoa(int(q.id)))
	q = &s.schedule[level-1]
	m.Topic, m.QueueID = q.name, q.id
	s.tagsCode = m.StoreTimestampMs + s.levels.Delay(level).Milliseconds()
	return q
}

// pickLight sends the message to one to three light queues as well, each once.
func (s *sample) pickLight(r uint64) {
	n := min(int(r%3)+1, len(s.light))
	first := int(r % uint64(len(s.light)))
	for k := range n {
		s.picked = append(s.picked, &s.light[(first+k)%len(s.light)])
	}
	s.props = append(s.props, message.PropertyMultiDispatch...)
	s.props = append(s.props, 1)
	for k, q := range s.picked {
		if k > 0 {
			s.props = append(s.props, ',')
		}
		s.props = append(s.props, q.name...)
	}
	s.props = append(s.props, 2)
	s.props = append(s.props, message.PropertyMultiQueueOffset...)
	s.props = append(s.props, 1)
	for k, q := range s.picked {
		if k > 0 {
			s.props = append(s.props, ',')
		}
		s.props = strconv.AppendInt(s.props, q.next, 10)
		q.next++
	}
	s.props = append(s.props, 2)
}

// usedQueues counts the queues that have a slot.
func (s *sample) usedQueues() (n int) {
	for _, queues := range [][]sampleQueue{s.queues, s.schedule, s.light} {
		for i := range queues {
			if queues[i].next > 0 {
				n++
			}
		}
	}
	return n
}

// brokerTopics lists the topics with their number of queues. Light queues are no topics of the broker.
func (s *sample) brokerTopics() []brokerTopic {
	var topics []brokerTopic
	for _, name := range s.topics {
		topics = append(topics, brokerTopic{name, s.o.QueuesPerTopic})
	}
	if len(s.schedule) > 0 {
		topics = append(topics, brokerTopic{message.TopicSchedule, len(s.schedule)})
	}
	return topics
}
