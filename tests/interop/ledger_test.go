//go:build interop

package interop

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/tests/golden"
)

// bornAtMs is the born time of all messages, but for the count of them.
const bornAtMs = 1_700_000_000_000

// ledger knows what RocketMQ has to find in a store: what was put, by the sender's own account. It counts the offsets of every
// queue itself, and lays out the records by the format's own sums.
type ledger struct {
	crc     bool             // enabledAppendPropCRC
	from    int64            // position in the log where records begins
	records []record         // of the log, as its lines show them
	queues  map[string]queue // by topic/id
	pending []pending        // put since the last seal
	puts    int64
}

// queue is one queue: its messages, as its lines show them, and the offsets they take.
type queue struct {
	topic     string
	id        int32
	min, next int64
	messages  []record
	batch     bool // its units are not those of a plain queue
	// The first offsets of the two kinds, where they differ from min.
	fileMin, rocksMin int64
}

// pending is a record whose bytes have not been looked at, and the queues it is in.
type pending struct {
	record
	in []place
}

type place struct {
	topic  string
	id     int32
	offset int64
}

func newLedger(crc bool) *ledger { return &ledger{crc: crc, queues: map[string]queue{}} }

// take gives out n offsets of a queue.
func (l *ledger) take(topic string, id int32, n int64) place {
	name := golden.Queue{Topic: topic, QueueID: id}.Name()
	q, ok := l.queues[name]
	if !ok {
		q = queue{topic: topic, id: id, batch: topic == batchTopic}
	}
	p := place{topic, id, q.next}
	q.next += n
	l.queues[name] = q
	return p
}

// put puts a message or batch into the store, which has to give it the offsets that come next and the bytes it needs.
func (l *ledger) put(t *testing.T, s *store.Store, sh *shape) {
	t.Helper()
	born, at := sh.born, sh.store
	if born.address == "" {
		born = bornV4
	}
	if at.address == "" {
		at = storeV4
	}
	m := message.Message{
		Topic: sh.topic, QueueID: sh.queueID, Flag: sh.flag, SysFlag: sh.sysFlag, BornTimestampMs: bornAtMs + l.puts,
		BornHost: born.Host, StoreHost: at.Host, ReconsumeTimes: sh.reconsumeTimes, PreparedTransactionOffset: sh.prepared,
		Body: sh.body, Properties: sh.propertyBytes(),
	}
	l.puts++
	put := s.Put
	if sh.batch != nil {
		put = s.PutBatch
		for _, e := range sh.batch {
			var err error
			b := message.BatchElement{Flag: e.flag, Body: e.body, Properties: e.propertyBytes()}
			m.Body, err = b.AppendTo(m.Body)
			require.NoError(t, err, sh.name)
		}
	}
	r, err := put(t.Context(), &m)
	require.NoError(t, err, sh.name)
	require.Equal(t, store.PutOK, r.Status, sh.name)

	common := record{
		Topic: sh.topic, QueueID: sh.queueID, PhyOffset: r.Append.PhyOffset, StoreTimestampMs: r.Append.StoreTimestampMs,
		SysFlag: sh.sysFlag, BornTimestampMs: m.BornTimestampMs, BornHost: born.address, StoreHost: at.socket,
		ReconsumeTimes: sh.reconsumeTimes, MagicV2: len(sh.topic) > 127,
	}
	if born.Addr.Is6() {
		common.SysFlag |= message.FlagBornHostV6
	}
	if at.Addr.Is6() {
		common.SysFlag |= message.FlagStoreHostV6
	}
	first := len(l.pending)
	switch {
	case sh.inner:
		l.inner(sh, common, m.Body)
	case sh.batch != nil:
		for _, e := range sh.batch {
			in := l.take(sh.topic, sh.queueID, 1)
			common.QueueOffset = in.offset
			l.add(common, &e, e.flag, e.properties, []place{in}, 0)
			common.PhyOffset += int64(l.pending[len(l.pending)-1].Size)
		}
	default:
		common.Prepared = sh.prepared
		l.single(sh, common)
	}
	l.requireResult(t, sh.name, &r, l.pending[first:])
}

func (l *ledger) single(sh *shape, rec record) {
	properties := sh.properties
	var in []place
	if !sh.hidden {
		own := l.take(sh.topic, sh.queueID, 1)
		in, rec.QueueOffset = append(in, own), own.offset
	}
	var offsets []string
	for _, name := range sh.light {
		p := l.take(name, 0, 1)
		in, offsets = append(in, p), append(offsets, strconv.FormatInt(p.offset, 10))
	}
	if offsets != nil {
		properties = append(properties[:len(properties):len(properties)], property{"INNER_MULTI_QUEUE_OFFSET", strings.Join(offsets, ",")})
	}
	l.add(rec, &sh.element, sh.flag, properties, in, sh.delayMs)
}

func (l *ledger) inner(sh *shape, rec record, body []byte) {
	in := l.take(sh.topic, sh.queueID, int64(len(sh.batch)))
	rec.QueueOffset = in.offset
	rec.SysFlag |= message.FlagInnerBatch | message.FlagNeedUnwrap
	for i, e := range sh.batch {
		properties := e.seen()
		properties["WAIT"] = "true" // added by who takes the batch apart
		rec.Within = append(rec.Within, within{in.offset + int64(i), e.flag, len(e.body), crc32.ChecksumIEEE(e.body), properties})
	}
	e := element{body: body, properties: append(sh.properties[:len(sh.properties):len(sh.properties)],
		property{"INNER_NUM", strconv.Itoa(len(sh.batch))}, property{"INNER_BASE", strconv.FormatInt(in.offset, 10)})}
	l.add(rec, &e, sh.flag, e.properties, []place{in}, 0)
}

// add completes a record: e as it was sent, properties as they are stored, in the queues it is in.
func (l *ledger) add(rec record, e *element, flag int32, properties []property, in []place, delayMs int64) {
	stored := element{properties: properties, open: e.open && len(properties) == len(e.properties) && !l.crc}
	rec.Flag, rec.BodyLen, rec.BodyCRC32 = flag, len(e.body), crc32.ChecksumIEEE(e.body)
	rec.Properties = stored.seen()
	for name, to := range map[string]**string{"KEYS": &rec.Keys, "TAGS": &rec.Tags, "UNIQ_KEY": &rec.UniqKey} {
		if v, ok := rec.Properties[name]; ok {
			*to = &v
		}
	}
	if delayMs > 0 {
		rec.TagsCode = rec.StoreTimestampMs + delayMs
	} else if rec.Tags != nil {
		rec.TagsCode = message.TagsHash([]byte(*rec.Tags))
	}
	rec.Size = 91 + len(e.body) + len(rec.Topic) + len(stored.propertyBytes())
	if rec.MagicV2 {
		rec.Size++
	}
	for _, v6 := range []int32{message.FlagBornHostV6, message.FlagStoreHostV6} {
		if rec.SysFlag&v6 != 0 {
			rec.Size += 12
		}
	}
	if l.crc {
		rec.Size += crcPropertyBytes
	}
	l.pending = append(l.pending, pending{rec, in})
}

// requireResult compares what the put answered with the records it has to have made.
func (l *ledger) requireResult(t *testing.T, name string, r *store.PutResult, made []pending) {
	t.Helper()
	size := 0
	ids := strings.Split(r.MsgIDs(), ",")
	require.Len(t, ids, len(made), name)
	for i := range made {
		made[i].MsgID = ids[i]
		size += made[i].Size
	}
	count := len(made)
	if made[0].Within != nil {
		count = len(made[0].Within)
	}
	require.Equal(t, size, r.Append.Bytes, name)
	require.Equal(t, count, r.Append.Count, name)
	require.Equal(t, made[0].QueueOffset, r.Append.QueueOffset, name)
}

// seal reads the bytes of what was put since the last time out of the files of the closed store.
func (l *ledger) seal(t *testing.T, dir string, fileSize int64) {
	t.Helper()
	for _, p := range l.pending {
		raw := make([]byte, p.Size)
		f, err := os.Open(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", p.PhyOffset/fileSize*fileSize)))
		require.NoError(t, err)
		_, err = f.ReadAt(raw, p.PhyOffset%fileSize)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		p.RawCRC32 = crc32.ChecksumIEEE(raw)
		if l.crc {
			digits := []byte(fmt.Sprintf("%010d", crc32.ChecksumIEEE(raw[:p.Size-crcPropertyBytes])&0x7FFFFFFF))
			for i := range len(digits) / 2 {
				digits[i], digits[9-i] = digits[9-i], digits[i]
			}
			p.Properties["__CRC32#"] = string(digits)
		}
		l.records = append(l.records, p.record)
		for _, in := range p.in {
			name := golden.Queue{Topic: in.topic, QueueID: in.id}.Name()
			q := l.queues[name]
			q.messages = append(q.messages, p.inQueue(in))
			l.queues[name] = q
		}
	}
	l.pending = nil
}

// inQueue is the line of the record in one of its queues.
func (p *pending) inQueue(in place) record {
	m := p.record
	m.Properties, m.Within = nil, nil
	m.Topic, m.QueueID, m.QueueOffset = in.topic, in.id, in.offset
	if in.topic != p.Topic || in.id != p.QueueID || in.offset != p.QueueOffset {
		m.MsgTopic, m.MsgQueueID, m.MsgQueueOffset = &p.Topic, &p.QueueID, &p.QueueOffset
	}
	return m
}

// adopt takes over what RocketMQ itself serves, in place of all that was put before.
func (l *ledger) adopt(t *testing.T, served *golden.Listing, records []record) {
	t.Helper()
	l.records, l.queues = records, map[string]queue{}
	for _, q := range served.Queues {
		own := queue{topic: q.Topic, id: q.QueueID, min: q.Min, next: q.Max, batch: q.Topic == batchTopic}
		if q.File != nil {
			own.fileMin = q.File.Min
		}
		if q.Rocks != nil {
			own.rocksMin = q.Rocks.Min
		}
		for _, line := range served.Of(q) {
			own.messages = append(own.messages, lineRecord(t, line))
		}
		l.queues[q.Name()] = own
	}
}

func lineRecord(t *testing.T, line golden.Line) (r record) {
	t.Helper()
	require.NoError(t, line.Decode(&r))
	return r
}

// requireOffsets checks that the store gives every queue the offset that comes next.
func (l *ledger) requireOffsets(t *testing.T, s *store.Store) {
	t.Helper()
	for name, q := range l.queues {
		require.Equal(t, q.next, s.NextOffset(q.topic, q.id), name)
	}
}

// requireRead checks that RocketMQ found all of it and nothing else, field by field.
func (l *ledger) requireRead(t *testing.T, got *golden.Listing, log logReport) {
	t.Helper()
	for len(log.records) > 0 && log.records[0].PhyOffset < l.from {
		log.records = log.records[1:]
	}
	for i := range min(len(l.records), len(log.records)) {
		require.Equal(t, l.records[i], log.records[i], "record %d of the log", i)
	}
	require.Len(t, log.records, len(l.records))
	require.Len(t, got.Queues, len(l.queues), "%v", names(got))
	for _, g := range got.Queues {
		q, ok := l.queues[g.Name()]
		require.True(t, ok, "no message was put into %s", g.Name())
		require.Empty(t, g.Stuck, g.Name())
		require.Equal(t, q.min, g.Min, g.Name())
		require.Equal(t, q.next, g.Max, g.Name())
		require.EqualValues(t, len(q.messages), g.Readable, g.Name())
		lines := got.Of(g)
		require.Len(t, lines, len(q.messages), g.Name())
		for i, line := range lines {
			require.Equal(t, q.messages[i], lineRecord(t, line), "message %d of %s", i, g.Name())
		}
		if !q.batch {
			q.requireUnits(t, g)
		}
	}
}

// requireUnits compares the queue's own units, of each kind that there is.
func (q *queue) requireUnits(t *testing.T, g golden.Queue) {
	t.Helper()
	require.True(t, g.File != nil || g.Rocks != nil, g.Name())
	inRocks := g.Rocks != nil && strings.HasPrefix(q.topic, "%LMQ%") // there alone, where there are both
	if g.File != nil && !inRocks {
		require.Equal(t, q.side(q.fileMin), *g.File, g.Name())
	}
	if g.Rocks != nil {
		require.Equal(t, q.side(q.rocksMin), *g.Rocks, g.Name())
	}
}

// side is what a kind of queue holds from an offset on.
func (q *queue) side(from int64) golden.Side {
	crc := crc32.NewIEEE()
	for _, m := range q.messages {
		if m.QueueOffset < from {
			continue
		}
		unit := binary.BigEndian.AppendUint64(nil, uint64(m.PhyOffset))
		unit = binary.BigEndian.AppendUint32(unit, uint32(m.Size))
		_, _ = crc.Write(binary.BigEndian.AppendUint64(unit, uint64(m.TagsCode))) // a hash never fails
	}
	return golden.Side{Min: from, Max: q.next, CQCRC32: crc.Sum32()}
}
