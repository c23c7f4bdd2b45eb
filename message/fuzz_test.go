package message

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// seeds are whole records, and fillers, of every shape we know.
func seeds(f *testing.F) (all [][]byte) {
	for _, c := range goldenCases(f) {
		all = append(all, c.raw)
	}
	for _, s := range storedRecords(f) {
		raw, err := hex.DecodeString(s.Raw)
		require.NoError(f, err)
		all = append(all, raw)
	}
	return append(all, AppendBlank(nil, 472), AppendBlank(nil, 8), make([]byte, 128))
}

// inside tells whether s lies wholly in b.
func inside(s, b []byte) bool {
	if len(s) == 0 {
		return true
	}
	from := uintptr(unsafe.Pointer(unsafe.SliceData(s))) - uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return from <= uintptr(len(b)) && len(s) <= len(b)-int(from)
}

// FuzzDecode holds for any bytes:
//
//   - nothing panics, and what the decoder hands out lies inside the record
//   - an error is of exactly one class and leaves the record alone
//   - a filler is told by BlankSize and by Decode alike, and is never a record
//   - a record is one whatever stands behind it; no prefix of it is a record or corrupt
//   - with the checksum wrong it is a record without the check and corrupt with it
//   - encoding it again gives the same bytes, unless its checksum is wrong or its version is not the one its topic asks for
//   - no property makes dispatch fail
func FuzzDecode(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s, 0)
		f.Add(append(bytes.Clone(s), s...), len(s)/2)
		f.Add(padded(s[:len(s)/2])[:2*len(s)], 3)
	}
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		before := Record{QueueID: 77}
		r := before
		err := r.Decode(in, true)
		class := classOf(t, err)
		size, isBlank := BlankSize(in)
		require.Equal(t, class == "blank", isBlank)
		if isBlank {
			require.GreaterOrEqual(t, size, int32(BlankHeaderSize))
		}
		if err != nil {
			require.Equal(t, before, r)
			var d *DecodeError
			require.ErrorAs(t, err, &d)
			require.GreaterOrEqual(t, d.At, 0)
			require.LessOrEqual(t, d.At, len(in))
			if d.Field != "bodyCRC" {
				require.Equal(t, class, classOf(t, r.Decode(in, false)))
				return
			}
			require.NoError(t, r.Decode(in, false))
		}
		raw := in[:r.TotalSize]
		require.True(t, bytes.Equal(raw, r.Raw))
		sum := fixedSize + len(r.BornHost) + len(r.StoreHost) + 1 + len(r.Topic) + len(r.Body) + len(r.Properties)
		if r.Magic == MagicV2 {
			sum++
		}
		require.Len(t, raw, sum)
		for _, s := range [][]byte{r.BornHost, r.StoreHost, r.Body, r.Topic, r.Properties, r.Raw} {
			require.True(t, inside(s, raw))
			require.Equal(t, len(s), cap(s))
		}

		var same Record
		require.NoError(t, same.Decode(raw, false))
		require.Equal(t, r, same)
		if cut >= 0 && cut < len(raw) {
			prefix := classOf(t, same.Decode(raw[:cut], false))
			require.Contains(t, []string{"torn", "end"}, prefix)
			if cut >= BlankHeaderSize {
				require.Equal(t, "torn", prefix)
			}
		}

		m := r.Message()
		again, encErr := m.AppendTo(nil)
		if err == nil && m.v2() == (r.Magic == MagicV2) && len(r.Topic) > 0 && len(r.Topic) <= maxTopicBytes && (len(r.Body) > 0 || r.BodyCRC == 0) {
			require.NoError(t, encErr)
			require.Equal(t, raw, again)
		}

		d := r.DispatchRequest(nil)
		require.Equal(t, d.TagsCode, r.TagsCode(nil))
		require.GreaterOrEqual(t, len(r.Properties), len(d.Keys)+len(d.UniqKey))
		r.MultiDispatch(func(queue []byte, _ int32, offset int64, ok bool) bool {
			require.True(t, inside(queue, raw))
			require.GreaterOrEqual(t, offset, int64(0))
			require.True(t, !ok || len(queue) > 0)
			return true
		})
		if vErr := r.VerifyPropertyCRC(); vErr != nil {
			require.ErrorIs(t, vErr, ErrCorrupt)
		}
	})
}

// FuzzRoundTrip holds for any message: either the encoder refuses it with an error of a named class and EncodedSize and PutTo
// agree, or the record has the size EncodedSize said, PutTo writes the same bytes, and it decodes to what went in; a checksum
// property then verifies.
func FuzzRoundTrip(f *testing.F) {
	f.Add("TopicA", int32(1), int64(2), int64(3), int32(0), []byte("hello world"), []byte("TAGS\x01TagA\x02"), []byte{10, 1, 2, 3}, int32(4567), true)
	f.Add(RetryPrefix+"g", int32(-1), int64(-2), int64(1<<40), int32(-1), []byte{}, []byte("a\x01b\x02__CRC32#\x01x"), make([]byte, 16), int32(-1), false)
	f.Fuzz(func(t *testing.T, topic string, queueID int32, queueOffset, phyOffset int64, sysFlag int32, body, properties, addr []byte, port int32, crc bool) {
		a, _ := netip.AddrFromSlice(addr)
		m := Message{
			Topic: topic, QueueID: queueID, QueueOffset: queueOffset, PhyOffset: phyOffset, Flag: port, SysFlag: sysFlag,
			BornTimestampMs: phyOffset, StoreTimestampMs: queueOffset, BornHost: Host{a, port}, StoreHost: hostOf("10.9.8.7:10911"),
			ReconsumeTimes: queueID, PreparedTransactionOffset: phyOffset, Body: body, Properties: properties, PropertyCRC: crc,
		}
		size, sizeErr := m.EncodedSize()
		raw, err := m.AppendTo(nil)
		require.Equal(t, sizeErr, err)
		if err != nil {
			var limit *LimitError
			require.True(t, errors.As(err, &limit) || errors.Is(err, ErrNoHost), "%v", err)
			require.Empty(t, raw)
			require.Equal(t, err, m.PutTo(nil))
			return
		}
		require.Len(t, raw, size)
		dst := bytes.Repeat([]byte{0xEE}, size)
		require.NoError(t, m.PutTo(dst))
		require.Equal(t, raw, dst)
		var r Record
		err = r.Decode(raw, true)
		if errors.Is(err, ErrTorn) && len(m.Properties) == 0 && !crc && topic[len(topic)-1] == 0 {
			return // a topic that ends in a zero byte, which no broker has
		}
		require.NoError(t, err)
		got := r.Message()
		if crc {
			require.NoError(t, r.VerifyPropertyCRC())
			for name, value := range (&Record{Properties: properties}).PropertiesSeq() {
				if string(name) != PropertyCRC {
					_, ok := r.Property(string(name))
					require.True(t, ok, "%q=%q", name, value)
				}
			}
			got.Properties, m.Properties, m.PropertyCRC = nil, nil, false
		}
		const v6 = FlagBornHostV6 | FlagStoreHostV6
		require.Equal(t, m.SysFlag&^v6, got.SysFlag&^v6)
		got.SysFlag, m.SysFlag = 0, 0
		require.True(t, bytes.Equal(m.Body, got.Body) && bytes.Equal(m.Properties, got.Properties))
		got.Body, m.Body, got.Properties, m.Properties = nil, nil, nil, nil
		require.Equal(t, m, got)
	})
}

// FuzzTagsHash compares with a hash over the UTF-16 string, built by another way of finding malformed sequences.
func FuzzTagsHash(f *testing.F) {
	for _, s := range []string{"", "TagA", "标签", "😀", "polygenelubricants", "a\xe4\xb8", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, tags []byte) {
		require.Equal(t, referenceHash(tags), TagsHash(tags))
	})
}

// FuzzBatchElements: nothing panics, each element lies in the body behind the one before, and elements encode to as many bytes
// as they took.
func FuzzBatchElements(f *testing.F) {
	golden := unhex(f, goldenA5)
	f.Add(golden)
	f.Add(append(bytes.Clone(golden), golden...))
	f.Fuzz(func(t *testing.T, body []byte) {
		at := 0
		for e, err := range BatchElements(body) {
			if err != nil {
				require.Contains(t, []string{"torn", "corrupt"}, classOf(t, err))
				return
			}
			require.True(t, inside(e.Body, body[at:]))
			require.True(t, inside(e.Properties, body[at:]))
			raw, err := e.AppendTo(nil)
			require.NoError(t, err)
			require.Equal(t, body[at+12:at+len(raw)], raw[12:])
			at += len(raw)
		}
		require.Equal(t, len(body), at)
	})
}
