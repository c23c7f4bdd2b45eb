package message

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEncodeLimits(t *testing.T) {
	for _, c := range []struct {
		name  string
		edit  func(*Message)
		class error // nil: accepted
	}{
		{"least", func(m *Message) { m.Topic = "T" }, nil},
		{"no topic", func(m *Message) { m.Topic = "" }, ErrTopicLength},
		{"topic 255", func(m *Message) { m.Topic = strings.Repeat("t", 255) }, nil},
		{"topic 256", func(m *Message) { m.Topic = strings.Repeat("t", 256) }, ErrTopicLength},
		{"V1 alone, topic 127", func(m *Message) { m.V1Only, m.Topic = true, strings.Repeat("t", 127) }, nil},
		{"V1 alone, topic 128", func(m *Message) { m.V1Only, m.Topic = true, strings.Repeat("t", 128) }, ErrTopicLength},
		{"V1 alone, topic of 43 characters, 129 bytes", func(m *Message) { m.V1Only, m.Topic = true, strings.Repeat("中", 43) }, ErrTopicLength},
		{"topic of 86 characters, 258 bytes", func(m *Message) { m.Topic = strings.Repeat("中", 86) }, ErrTopicLength},
		{"properties 32767", func(m *Message) { m.Properties = make([]byte, 32767) }, nil},
		{"properties 32768", func(m *Message) { m.Properties = make([]byte, 32768) }, ErrPropertiesLength},
		{"properties 32746 and checksum", func(m *Message) {
			m.PropertyCRC, m.Properties = true, bytes.Repeat([]byte{'p'}, 32746)
		}, nil},
		{"properties 32747 and checksum", func(m *Message) {
			m.PropertyCRC, m.Properties = true, bytes.Repeat([]byte{'p'}, 32747)
		}, ErrPropertiesLength},
		{"properties 32747 ended and checksum", func(m *Message) {
			m.PropertyCRC, m.Properties = true, append(bytes.Repeat([]byte{'p'}, 32746), propertySeparator)
		}, nil},
		{"body as given", func(m *Message) { m.MaxBodyBytes, m.Body = 10, make([]byte, 10) }, nil},
		{"body above", func(m *Message) { m.MaxBodyBytes, m.Body = 10, make([]byte, 11) }, ErrBodyLength},
		{"no born host", func(m *Message) { m.BornHost = Host{} }, ErrNoHost},
		{"no store host", func(m *Message) { m.StoreHost = Host{} }, ErrNoHost},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := goldenMessage()
			m.Topic = "TopicA"
			c.edit(&m)
			size, err := m.EncodedSize()
			require.ErrorIs(t, err, c.class)
			dst := []byte("before")
			out, err := m.AppendTo(dst)
			require.ErrorIs(t, err, c.class)
			buf := bytes.Repeat([]byte{0xEE}, max(size, MinRecordSize))
			require.ErrorIs(t, m.PutTo(buf), c.class)
			if c.class != nil {
				require.Zero(t, size)
				require.Equal(t, bytes.Repeat([]byte{0xEE}, MinRecordSize), buf)
				require.Equal(t, "before", string(out))
				return
			}
			require.NoError(t, err)
			require.Equal(t, "before", string(out[:6]))
			require.Len(t, out[6:], size)
			require.Equal(t, out[6:], buf)
			var r Record
			require.NoError(t, r.Decode(out[6:], true))
			require.Equal(t, m.Topic, string(r.Topic))
		})
	}
}

// A buffer of another length is refused before it is written to.
func TestPutToBufferLength(t *testing.T) {
	m := benchMessage(t, 1024)
	for _, n := range []int{0, 1023, 1025} {
		dst := bytes.Repeat([]byte{0xEE}, n)
		err := m.PutTo(dst)
		require.ErrorIs(t, err, ErrBufferLength)
		var limit *LimitError
		require.ErrorAs(t, err, &limit)
		require.Equal(t, LimitError{ErrBufferLength, n, 1024, 1024}, *limit)
		require.Equal(t, bytes.Repeat([]byte{0xEE}, n), dst)
	}
}

// A batch becomes records through one Message that has the fields of the envelope; nothing is allocated on the way.
func TestBatchToRecords(t *testing.T) {
	var batch []byte
	var want []BatchElement
	for i := range 3 {
		e := BatchElement{Flag: int32(i), Body: bytes.Repeat([]byte{'a' + byte(i)}, 10*i), Properties: AppendProperty(nil, PropertyTags, "T"[:1])}
		want = append(want, e)
		var err error
		batch, err = e.AppendTo(batch)
		require.NoError(t, err)
	}
	m := goldenMessage()
	m.Topic = "T"
	dst := make([]byte, 1024)
	var end int
	require.Zero(t, testing.AllocsPerRun(10, func() {
		var e BatchElement
		m.QueueOffset, end = 5, 0
		for rest := batch; len(rest) > 0; m.QueueOffset++ {
			n, err := e.Decode(rest)
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			m.Flag, m.Body, m.Properties, m.PhyOffset = e.Flag, e.Body, e.Properties, int64(end)
			size, err := m.EncodedSize()
			if err != nil {
				t.Fatal(err)
			}
			if err := m.PutTo(dst[end : end+size]); err != nil {
				t.Fatal(err)
			}
			end += size
		}
	}))
	at := 0
	for i, e := range want {
		var r Record
		require.NoError(t, r.Decode(dst[at:end], true))
		require.Equal(t, []any{e.Flag, string(e.Body), string(e.Properties), int64(5 + i), int64(at)},
			[]any{r.Flag, string(r.Body), string(r.Properties), r.QueueOffset, r.PhyOffset})
		at += int(r.TotalSize)
	}
	require.Equal(t, end, at)
}

// Zero is a checksum like any other: those of the first two bodies are 0 and, before the top bit goes, 0x80000000.
func TestFRA04ZeroChecksum(t *testing.T) {
	for body, sum := range map[string]uint32{"abki9136": 0, "abnh9zvg": 0x80000000} {
		require.Equal(t, sum, crc32.ChecksumIEEE([]byte(body)))
		m := goldenMessage()
		m.Topic, m.Body = "T", []byte(body)
		raw, err := m.AppendTo(nil)
		require.NoError(t, err)
		var r Record
		require.NoError(t, r.Decode(raw, true))
		require.Zero(t, r.BodyCRC)
		for i := range 8 * len(body) {
			flipped := bytes.Clone(raw)
			flipped[bodyIPv4+i/8] ^= 1 << (i % 8)
			require.ErrorIs(t, r.Decode(flipped, true), ErrCorrupt)
		}
	}
}

// What a producer sent is what is stored, with the room of a checksum neither left behind nor overrun: the properties of a plain
// message and of one with light queues, with and without the checksum.
func TestFRA03PropertiesByteForByte(t *testing.T) {
	plain := []byte("b\x01\xff\xfe\x02a\x01\x02KEYS\x01k1 k2\x02TAGS\x01标签")
	lmq := []byte("INNER_MULTI_DISPATCH\x01%LMQ%a,x,%LMQ%b\x02b\x01\xff\x02INNER_MULTI_QUEUE_OFFSET\x01999\x02a\x011")
	withOffsets := AppendPropertiesWith(nil, lmq, HasMultiQueueOffset, []byte("7,,9"))
	require.Equal(t, "INNER_MULTI_DISPATCH\x01%LMQ%a,x,%LMQ%b\x02b\x01\xff\x02a\x011\x02INNER_MULTI_QUEUE_OFFSET\x017,,9\x02", string(withOffsets))
	for _, c := range []struct {
		name       string
		properties []byte
		crc        bool
		ended      string
	}{
		{"plain", plain, false, ""},
		{"plain, checksum", plain, true, "\x02"},
		{"light queues", withOffsets, false, ""},
		{"light queues, checksum", withOffsets, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := goldenMessage()
			m.Topic, m.Body, m.Properties, m.PropertyCRC = "T", []byte("b"), c.properties, c.crc
			size, err := m.EncodedSize()
			require.NoError(t, err)
			dst := bytes.Repeat([]byte{0xEE}, size+PropertyCRCSize)
			require.NoError(t, m.PutTo(dst[:size:size]))
			require.Equal(t, bytes.Repeat([]byte{0xEE}, PropertyCRCSize), dst[size:])
			var r Record
			require.NoError(t, r.Decode(dst[:size], true))
			want := string(c.properties) + c.ended
			if c.crc {
				require.NoError(t, r.VerifyPropertyCRC())
				want += string(r.Properties[len(want):])
				require.Len(t, want, len(c.properties)+len(c.ended)+PropertyCRCSize)
			}
			require.Equal(t, want, string(r.Properties))
		})
	}
}

func TestEncodeErrorText(t *testing.T) {
	m := goldenMessage()
	_, err := m.EncodedSize()
	require.EqualError(t, err, "encode message: topic length out of bounds: got 0 bytes, want 1 to 255")
}

// The size is stored in 31 bits.
func TestEncodeRecordLimit(t *testing.T) {
	size, err := withBody(MinRecordSize, math.MaxInt32-MinRecordSize)
	require.NoError(t, err)
	require.Equal(t, math.MaxInt32, size)
	_, err = withBody(MinRecordSize, math.MaxInt32-MinRecordSize+1)
	require.ErrorIs(t, err, ErrRecordLength)
}

// The version follows the bytes of the topic: 127 is the last of V1.
func TestEncodeVersion(t *testing.T) {
	for topic, want := range map[string]int32{
		strings.Repeat("t", 127): MagicV1, strings.Repeat("t", 128): MagicV2, strings.Repeat("中", 42): MagicV1, strings.Repeat("中", 43): MagicV2,
	} {
		m := goldenMessage()
		m.Topic = topic
		raw, err := m.AppendTo(nil)
		require.NoError(t, err)
		require.Equal(t, want, int32(binary.BigEndian.Uint32(raw[4:])), topic)
	}
}

// The V6 bits say how long the hosts are. A producer that sends them for an IPv4 host must not make a record that cannot be read.
func TestEncodeHostsDecideV6Bits(t *testing.T) {
	v4, v6 := hostOf("10.1.2.3:1"), hostOf("[fd00::1]:2")
	for _, sysFlag := range []int32{0, FlagBornHostV6, FlagStoreHostV6, -1} {
		for _, c := range []struct {
			born, store Host
			want        int32
		}{{v4, v4, 0}, {v6, v4, FlagBornHostV6}, {v4, v6, FlagStoreHostV6}, {v6, v6, FlagBornHostV6 | FlagStoreHostV6}} {
			m := Message{Topic: "T", SysFlag: sysFlag, BornHost: c.born, StoreHost: c.store}
			raw, err := m.AppendTo(nil)
			require.NoError(t, err)
			var r Record
			require.NoError(t, r.Decode(raw, true))
			require.Equal(t, c.want, r.SysFlag&(FlagBornHostV6|FlagStoreHostV6))
			require.Equal(t, sysFlag&^(FlagBornHostV6|FlagStoreHostV6), r.SysFlag&^(FlagBornHostV6|FlagStoreHostV6))
			require.Equal(t, c.born, DecodeHost(r.BornHost))
			require.Equal(t, c.store, DecodeHost(r.StoreHost))
		}
	}
}

func TestNoAllocations(t *testing.T) {
	m := benchMessage(t, 1024)
	m.PropertyCRC = true
	m.Topic = TopicSchedule
	m.Properties = AppendProperty(m.Properties, PropertyDelay, "3")
	m.Properties = AppendProperty(m.Properties, PropertyInnerNum, "3")
	m.Properties = AppendProperty(m.Properties, PropertyInnerBase, "4")
	lmq := goldenMessage()
	lmq.Topic = "T"
	lmq.Properties = AppendProperty(lmq.Properties, PropertyMultiDispatch, "%LMQ%a,%LMQ%b")
	lmq.Properties = AppendProperty(lmq.Properties, PropertyMultiQueueOffset, "1,2")
	dst := make([]byte, 0, 4096)
	raw, err := m.AppendTo(nil)
	require.NoError(t, err)
	put := make([]byte, len(raw))
	lmqRaw, err := lmq.AppendTo(nil)
	require.NoError(t, err)
	batch, err := (&BatchElement{Body: []byte("b")}).AppendTo(nil)
	require.NoError(t, err)
	var r Record
	require.NoError(t, r.Decode(raw, true))
	var l Record
	require.NoError(t, l.Decode(lmqRaw, true))
	var found int
	levels := DefaultDelayLevels()
	for name, f := range map[string]func(){
		"decode":   func() { var r Record; found += len(r.Topic); _ = r.Decode(raw, true) },
		"encode":   func() { _, _ = m.AppendTo(dst) },
		"put":      func() { _ = m.PutTo(put) },
		"scan":     func() { s, _ := ScanProperties(m.Properties); found += s.Count },
		"with":     func() { dst = AppendPropertiesWith(dst[:0], m.Properties, HasInnerBase, raw[:1]) },
		"without":  func() { dst = AppendPropertiesWithout(dst[:0], m.Properties, HasInnerBase|HasInnerNum) },
		"verify":   func() { _ = r.VerifyPropertyCRC() },
		"property": func() { v, _ := r.Property(PropertyUniqKey); found += len(v) },
		"tagsCode": func() { found += int(r.TagsCode(levels)) },
		"dispatch": func() { d := r.DispatchRequest(levels); found += int(d.BatchSize) },
		"multi": func() {
			l.MultiDispatch(func(q []byte, _ int32, _ int64, _ bool) bool { found += len(q); return true })
		},
		"seq": func() {
			for n := range r.PropertiesSeq() {
				found += len(n)
			}
		},
		"hash":  func() { found += int(TagsHash([]byte("标签😀"))) },
		"batch": func() { var e BatchElement; n, _ := e.Decode(batch); found += n },
		"blank": func() { dst = AppendBlank(dst[:0], 8) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
	require.NotZero(t, found)
}
