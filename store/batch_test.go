package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

var netip6 = netip.MustParseAddr("2001:db8::1")

// batchBody returns the body of a batch of n small messages.
func batchBody(t *testing.T, n int) (body []byte) {
	t.Helper()
	for i := range n {
		e := message.BatchElement{Flag: int32(i), Body: fmt.Appendf(nil, "body %d", i), Properties: props("KEYS", fmt.Sprint("k", i))}
		var err error
		body, err = e.AppendTo(body)
		require.NoError(t, err)
	}
	return body
}

// A batch becomes records that stand one behind the other, with consecutive offsets and one store time.
func TestPutBatch(t *testing.T) {
	o := putOptions()
	o.EnabledAppendPropCRC = true
	overBoth(t, o, func(t *testing.T, f *fixture) {
		_, err := f.Put(t.Context(), newMessage("T"))
		require.NoError(t, err)
		m := newMessage("T")
		m.Body, m.Flag, m.ReconsumeTimes, m.PreparedTransactionOffset = batchBody(t, 3), 99, 4, 5
		m.BornHost.Addr = netip6
		r, err := f.PutBatch(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, 3, r.Append.Count)
		require.EqualValues(t, 1, r.Append.QueueOffset)
		require.EqualValues(t, 4, f.NextOffset("T", 0))
		all := f.records(t)[1:]
		require.Len(t, all, 3)
		var bytes int
		var ids []string
		for i, rec := range all {
			require.Equal(t, r.Append.PhyOffset+int64(bytes), rec.PhyOffset)
			require.EqualValues(t, 1+i, rec.QueueOffset)
			require.EqualValues(t, i, rec.Flag)
			require.Equal(t, fmt.Sprint("body ", i), string(rec.Body))
			require.Equal(t, fmt.Sprint("k", i), prop(&rec, "KEYS"))
			require.Empty(t, prop(&rec, "TAGS")) // of the envelope
			require.NoError(t, rec.VerifyPropertyCRC())
			require.EqualValues(t, 4, rec.ReconsumeTimes)
			require.Zero(t, rec.PreparedTransactionOffset)
			require.Equal(t, message.FlagBornHostV6, rec.SysFlag)
			require.Equal(t, r.Append.StoreTimestampMs, rec.StoreTimestampMs)
			bytes += int(rec.TotalSize)
			ids = append(ids, message.OffsetMsgID(rec.StoreHost, rec.PhyOffset))
		}
		require.Equal(t, bytes, r.Append.Bytes)
		require.Equal(t, strings.Join(ids, ","), r.MsgIDs())
	})
}

// A batch never spans files: what does not fit goes to the next as a whole, and what no file can hold is refused.
func TestPutBatchStaysInOneFile(t *testing.T) {
	overBoth(t, putOptions(), func(t *testing.T, f *fixture) {
		m := newMessage("T")
		m.Body = batchBody(t, 300)
		r, err := f.PutBatch(t.Context(), m)
		require.NoError(t, err)
		require.Zero(t, r.Append.PhyOffset)
		require.Greater(t, r.Append.Bytes, int(f.o.MappedFileSizeCommitLog)/2)
		r, err = f.PutBatch(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, f.o.MappedFileSizeCommitLog, r.Append.PhyOffset)
		require.EqualValues(t, 300, r.Append.QueueOffset)
		require.Len(t, f.records(t), 600)

		m.Body = batchBody(t, 700)
		reason := f.untouched(t, "T", PutMessageIllegal, func() (PutResult, error) { return f.PutBatch(t.Context(), m) })
		require.Contains(t, reason, "want at most 65528")
	})
}

// W3: the number of messages in a batch has 64 bits. RocketMQ counts 40000 as -25536.
func TestW3BatchOf40000(t *testing.T) {
	o := putOptions()
	o.MappedFileSizeCommitLog = 8 << 20
	o.MaxMessageSize = 8 << 20
	for _, f := range []*fixture{overSlice(o, 1), overFiles(t, o)} {
		m := newMessage("T")
		m.Body = batchBody(t, 40000)
		r, err := f.PutBatch(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, 40000, r.Append.Count)
		require.EqualValues(t, 40000, f.NextOffset("T", 0))
		require.EqualValues(t, 39999, f.last(t).QueueOffset)

		m.Body = batchBody(t, MaxBatchCount+1)
		reason := f.untouched(t, "T", PutMessageIllegal, func() (PutResult, error) { return f.PutBatch(t.Context(), m) })
		require.Contains(t, reason, "more than 65536 messages")
	}
}

// W22: the lengths in a batch are a client's.
func TestW22BatchElementLengths(t *testing.T) {
	o := putOptions()
	o.MaxMessageSize = 2000
	overBoth(t, o, func(t *testing.T, f *fixture) {
		whole := batchBody(t, 3)
		var bad [][]byte
		for n := 1; n < len(whole); n++ {
			if n%(len(whole)/3) != 0 {
				bad = append(bad, whole[:n])
			}
		}
		first := len(batchBody(t, 1))
		propertiesAt := first - 2 - len(props("KEYS", "k0"))
		for _, length := range []int32{-1, math.MinInt32, math.MaxInt32, int32(len(whole))} {
			b := append([]byte(nil), whole...)
			binary.BigEndian.PutUint32(b[16:], uint32(length))
			bad = append(bad, b)
		}
		for _, length := range []int16{-1, math.MinInt16, math.MaxInt16} {
			b := append([]byte(nil), whole...)
			binary.BigEndian.PutUint16(b[propertiesAt:], uint16(length))
			bad = append(bad, b)
		}
		e := message.BatchElement{Body: make([]byte, 2000)}
		long, err := e.AppendTo(nil)
		require.NoError(t, err)
		bad = append(bad, long, nil)
		for i, body := range bad {
			m := newMessage("T")
			m.Body = body
			r, err := f.PutBatch(t.Context(), m)
			require.ErrorIs(t, err, PutMessageIllegal, "body %d: % x", i, body)
			require.Equal(t, PutMessageIllegal, r.Status)
		}
		require.Zero(t, f.Positions().Wrote)
		require.Zero(t, f.NextOffset("T", 0))
	})
}

// What is wrong with a batch is told by the element and its place, in words of the one who sent it.
func TestPutBatchNamesTheElement(t *testing.T) {
	o := putOptions()
	o.MaxMessageSize = 2000
	f := overSlice(o, 1)
	two := batchBody(t, 2)
	first := len(two) / 2
	bad := func(change func(b []byte)) []byte {
		b := slices.Concat(two, two[:first])
		change(b[2*first:])
		return b
	}
	at := fmt.Sprintf("batch element 2 at byte %d: ", 2*first)
	for name, c := range map[string]struct {
		body []byte
		want string
	}{
		"cut off":    {two[:first+7], fmt.Sprintf("batch element 1 at byte %d: 7 bytes are left, want 22 for an element without body and properties", first)},
		"body":       {bad(func(b []byte) { binary.BigEndian.PutUint32(b[16:], 500) }), at + fmt.Sprintf("bodyLen at its byte 16 is 500, but %d bytes are left", first-22)},
		"negative":   {bad(func(b []byte) { binary.BigEndian.PutUint32(b[16:], math.MaxUint32) }), at + "bodyLen at its byte 16 is -1, want 0 or more"},
		"properties": {bad(func(b []byte) { copy(b[len(b)-4:], "\x02\x02\x02\x02") }), at + "scan properties: "},
		"too long":   {make([]byte, 2001), "body of the whole batch: "},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMessage("T")
			m.Body = c.body
			r, err := f.PutBatch(t.Context(), m)
			require.ErrorIs(t, err, PutMessageIllegal)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "record")
			require.NotContains(t, err.Error(), "torn")
			require.Equal(t, name == "too long", r.Append.Status == AppendMessageSizeExceeded)
		})
	}
}

// One bad element refuses the batch before anything of it is taken.
func TestPutBatchIllegal(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *message.Message, e *message.BatchElement)
		status PutStatus
		want   string
	}{
		"empty":              {func(m *message.Message, e *message.BatchElement) { m.Body = nil }, PutMessageIllegal, "batch without messages"},
		"prepared":           {func(m *message.Message, e *message.BatchElement) { m.SysFlag = message.TransactionPrepared }, PutMessageIllegal, "transaction type 0x4"},
		"committed":          {func(m *message.Message, e *message.BatchElement) { m.SysFlag = message.TransactionCommit }, PutMessageIllegal, "transaction type 0x8"},
		"delayed":            {func(m *message.Message, e *message.BatchElement) { m.Properties = props("DELAY", "1") }, PutMessageIllegal, "delay level 1"},
		"delayed by words":   {func(m *message.Message, e *message.BatchElement) { m.Properties = props("DELAY", "x") }, PutMessageIllegal, `DELAY is "x"`},
		"inner, plain topic": {func(m *message.Message, e *message.BatchElement) { m.SysFlag = message.FlagInnerBatch }, PutMessageIllegal, "no batch queues"},
		"topic":              {func(m *message.Message, e *message.BatchElement) { m.Topic = "a/b" }, PutMessageIllegal, "0x2f"},
		"separator":          {func(m *message.Message, e *message.BatchElement) { e.Properties = props("k", "a\x02b") }, PutMessageIllegal, "malformed"},
		"properties": {func(m *message.Message, e *message.BatchElement) {
			e.Properties = props("k", strings.Repeat("v", 32767-3-message.PropertyCRCSize+1))
		}, PutPropertiesSizeExceeded, "properties too long"},
	} {
		t.Run(name, func(t *testing.T) {
			o := putOptions()
			o.EnabledAppendPropCRC = true
			overBoth(t, o, func(t *testing.T, f *fixture) {
				m := newMessage("T")
				e := message.BatchElement{Body: []byte("x")}
				m.Body = []byte{1}
				c.change(m, &e)
				if m.Body != nil {
					var err error
					m.Body, err = e.AppendTo(batchBody(t, 2))
					require.NoError(t, err)
				}
				reason := f.untouched(t, m.Topic, c.status, func() (PutResult, error) { return f.PutBatch(t.Context(), m) })
				require.Contains(t, reason, c.want)
			})
		})
	}
}

// batchOptions has batch queues for the topic Batch.
func batchOptions() Options {
	o := putOptions()
	o.IsBatchTopic = func(topic string) bool { return topic == "Batch" }
	return o
}

// An inner batch is one record that takes as many offsets as it has messages.
func TestPutInnerBatch(t *testing.T) {
	o := batchOptions()
	o.EnableLmq = true
	overBoth(t, o, func(t *testing.T, f *fixture) {
		put := func(n int) (PutResult, message.Record) {
			m := newMessage("Batch")
			m.Body = batchBody(t, n)
			m.Properties = props("UNIQ_KEY", "u", "INNER_NUM", "77", "INNER_BASE", "88", message.PropertyMultiDispatch, "%LMQ%a")
			r, err := f.PutBatch(t.Context(), m)
			require.NoError(t, err)
			rec := f.last(t)
			require.Equal(t, m.Body, rec.Body)
			return r, rec
		}
		for _, c := range []struct{ count, base, next int64 }{{3, 0, 3}, {1, 3, 4}, {200, 4, 204}} {
			r, rec := put(int(c.count))
			require.EqualValues(t, c.count, r.Append.Count)
			require.Equal(t, c.base, r.Append.QueueOffset)
			require.Equal(t, c.base, rec.QueueOffset)
			require.Equal(t, message.FlagInnerBatch|message.FlagNeedUnwrap, rec.SysFlag)
			require.Len(t, r.MsgIDs(), 32)
			d := rec.DispatchRequest(nil)
			require.EqualValues(t, c.count, d.BatchSize)
			require.Equal(t, c.base, d.MsgBaseOffset)
			require.Equal(t, c.next, f.NextOffset("Batch", 0))
		}
		require.Empty(t, prop(ptr(f.last(t)), message.PropertyMultiQueueOffset), "5.5.0 gives offsets here that no unit follows")
		require.Zero(t, f.NextOffset("%LMQ%a", 0))

		// One that came as a single message, as a broker or a replica hands it over.
		m := newMessage("Batch")
		m.SysFlag = message.FlagInnerBatch | message.FlagNeedUnwrap
		m.Properties = props("INNER_NUM", "5")
		r, err := f.Put(t.Context(), m)
		require.NoError(t, err)
		require.EqualValues(t, 204, r.Append.QueueOffset)
		require.EqualValues(t, 209, f.NextOffset("Batch", 0))
		require.Equal(t, "204", prop(ptr(f.last(t)), message.PropertyInnerBase))

		// Without the key, and on other topics, a batch becomes several records.
		m = newMessage("Batch")
		m.Body = batchBody(t, 2)
		r, err = f.PutBatch(t.Context(), m)
		require.NoError(t, err)
		require.Len(t, r.MsgIDs(), 2*32+1)
		require.EqualValues(t, 211, f.NextOffset("Batch", 0))
	})
}

func TestPutInnerBatchIllegal(t *testing.T) {
	f := overSlice(batchOptions(), 1)
	for _, num := range []string{"", "0", "-1", "32768", "two"} {
		m := newMessage("Batch")
		m.SysFlag = message.FlagInnerBatch
		m.Properties = props("INNER_NUM", num)
		f.untouched(t, "Batch", PutMessageIllegal, func() (PutResult, error) { return f.Put(t.Context(), m) })
	}
	m := newMessage("Batch")
	m.Properties = props("UNIQ_KEY", "u")
	m.Body = []byte("no elements")
	f.untouched(t, "Batch", PutMessageIllegal, func() (PutResult, error) { return f.PutBatch(t.Context(), m) })
	m.Body = batchBody(t, maxInnerNum+1)
	reason := f.untouched(t, "Batch", PutMessageIllegal, func() (PutResult, error) { return f.PutBatch(t.Context(), m) })
	require.Contains(t, reason, "more than 32767 messages")
}

func ptr[T any](v T) *T { return &v }
