package message

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// classOf names the class of a decode error; it fails when the error is not of exactly one.
func classOf(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return "ok"
	}
	name, n := "", 0
	for class, text := range map[error]string{ErrEnd: "end", ErrBlank: "blank", ErrTorn: "torn", ErrCorrupt: "corrupt"} {
		if errors.Is(err, class) {
			name = text
			n++
		}
	}
	require.Equal(t, 1, n, "classes of %v", err)
	var d *DecodeError
	require.ErrorAs(t, err, &d)
	require.NotEmpty(t, d.Field)
	return name
}

func be32(v int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }

// patched returns a copy of raw with b written at at.
func patched(raw []byte, at int, b ...byte) []byte {
	out := bytes.Clone(raw)
	copy(out[at:], b)
	return out
}

// padded returns raw followed by zeros, as a record stands in a preallocated file.
func padded(raw []byte) []byte { return append(bytes.Clone(raw), make([]byte, 4096)...) }

func TestDecodeClasses(t *testing.T) {
	a1, a3 := unhex(t, goldenA1), unhex(t, goldenA3)
	v2, err := (&Message{
		Topic: RetryPrefix + string(bytes.Repeat([]byte{'g'}, 200)), BornHost: hostOf("10.1.2.3:1"),
		StoreHost: hostOf("10.1.2.3:2"), Body: []byte("v2"),
	}).AppendTo(nil)
	require.NoError(t, err)
	const (
		bodyLen  = bodyLenIPv4
		topicLen = bodyIPv4 + 11
		propsLen = topicLen + 1 + 6
	)
	for _, c := range []struct {
		name  string
		in    []byte
		class string
		field string
		at    int
	}{
		{"empty", nil, "end", "totalSize", 0},
		{"four zeros", make([]byte, 4), "end", "totalSize", 0},
		{"seven zeros", make([]byte, 7), "end", "totalSize", 0},
		{"half a header", a1[:7], "torn", "totalSize", 0},
		{"zeros", make([]byte, 4096), "end", "magic", 4},
		{"zero header, bytes behind", append(make([]byte, 8), a1[8:]...), "end", "magic", 4},
		{"filler", AppendBlank(nil, 4096), "blank", "magic", 4},
		{"filler of 8", AppendBlank(nil, 8), "blank", "magic", 4},
		{"filler of 7", patched(AppendBlank(nil, 8), 3, 7), "corrupt", "totalSize", 0},
		{"filler of negative size", patched(AppendBlank(nil, 8), 0, 0x80), "corrupt", "totalSize", 0},
		{"size 0 with a magic", patched(a1, 0, 0, 0, 0, 0), "corrupt", "totalSize", 0},
		{"size 0, unknown magic", patched(a1, 0, 0, 0, 0, 0, 1, 2, 3, 4), "corrupt", "totalSize", 0},
		{"size 90", patched(a1, 0, be32(90)...), "corrupt", "totalSize", 0},
		{"size 91, lengths for more", patched(a1, 0, be32(91)...), "corrupt", "bodyLen", bodyLen},
		{"size negative", patched(a1, 0, be32(-129)...), "corrupt", "totalSize", 0},
		{"size least", patched(a1, 0, be32(math.MinInt32)...), "corrupt", "totalSize", 0},
		{"size beyond the input", patched(padded(a1), 0, be32(math.MaxInt32)...), "torn", "totalSize", 0},
		{"size one beyond", a1[:len(a1)-1], "torn", "totalSize", 0},
		{"magic unknown", patched(a1, 4, 0xDA, 0xA3, 0x20, 0xA8), "corrupt", "magic", 4},
		{"magic unknown, size beyond", patched(a1, 0, 0x7F, 0, 0, 0, 1, 2, 3, 4), "corrupt", "magic", 4},
		{"magic 0, bytes behind", patched(a1, 4, 0, 0, 0, 0), "corrupt", "magic", 4},
		{"magic 0, zeros behind", padded(a1[:4]), "torn", "magic", 4},
		{"magic 0, zeros behind, size beyond", be32(1 << 20)[:4:4], "torn", "totalSize", 0},
		{"magic 0, zeros to the announced end", append(padded(a1[:4])[:0x81], "next"...), "torn", "magic", 4},
		{"magic of V1 half, zeros", padded(a1[:6]), "torn", "magic", 4},
		{"magic of a filler half, zeros", padded([]byte{0, 0, 1, 0, 0xCB, 0xD4}), "torn", "magic", 4},
		{"magic half but no beginning", padded([]byte{0, 0, 1, 0, 0xDA, 0xD4}), "corrupt", "magic", 4},
		{"magic 0, size too small, zeros", padded(be32(0x51)), "corrupt", "totalSize", 0},
		{"IPv6 bits, size of IPv4", patched(patched(a3, 39, 0x30), 0, be32(114)...)[:106], "torn", "totalSize", 0},
		{"IPv6 bits, size below", padded(patched(a3[:106], 39, 0x30)), "corrupt", "totalSize", 0},
		{"IPv6 bits added", patched(a1, 39, 0x30), "corrupt", "bodyLen", bodyLen + 24},
		{"V2 smallest but one", patched(v2, 0, be32(91)...), "corrupt", "totalSize", 0},
		{"bodyLen -1", patched(a1, bodyLen, be32(-1)...), "corrupt", "bodyLen", bodyLen},
		{"bodyLen least", patched(a1, bodyLen, be32(math.MinInt32)...), "corrupt", "bodyLen", bodyLen},
		{"bodyLen greatest", patched(a1, bodyLen, be32(math.MaxInt32)...), "corrupt", "bodyLen", bodyLen},
		{"bodyLen of all", patched(a1, bodyLen, be32(39)...), "corrupt", "bodyLen", bodyLen},
		{"topicLen beyond", patched(a1, topicLen, 28), "corrupt", "topicLen", topicLen},
		{"topicLen 255", patched(a1, topicLen, 255), "corrupt", "topicLen", topicLen},
		{"topicLen V2 beyond", patched(v2, 90, 0xFF, 0xFF), "corrupt", "topicLen", 90},
		{"propertiesLen one more", patched(a1, propsLen, 0, 22), "corrupt", "propertiesLen", propsLen},
		{"propertiesLen one less", patched(a1, propsLen, 0, 20), "corrupt", "propertiesLen", propsLen},
		{"propertiesLen -1", patched(a1, propsLen, 0xFF, 0xFF), "corrupt", "propertiesLen", propsLen},
		{"propertiesLen 0, properties there", patched(a1, propsLen, 0, 0), "corrupt", "propertiesLen", propsLen},
		{"topic ends in zero, no properties", patched(a3, 103, 0), "torn", "topic", 103},
		{"CRC", patched(a1, 8, 0), "corrupt", "bodyCRC", 8},
		{"CRC top bit", patched(a1, 8, 0x8d), "corrupt", "bodyCRC", 8},
		{"body", patched(a1, 88, 'H'), "corrupt", "bodyCRC", 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := Record{QueueID: 77}
			r := before
			err := r.Decode(c.in, true)
			require.Equal(t, c.class, classOf(t, err), "%v", err)
			var d *DecodeError
			require.ErrorAs(t, err, &d)
			require.Equal(t, c.field, d.Field, "%v", err)
			require.Equal(t, c.at, d.At, "%v", err)
			require.Equal(t, before, r, "record touched")
		})
	}
}

// A zero byte at the end of a topic is a sign of a cut only where nothing stands behind it; properties may end in one.
func TestDecodeZeroBytesThatAreNoCut(t *testing.T) {
	m := goldenMessage()
	var r Record
	m.Topic, m.Properties = "T\x00", []byte("a\x01b\x02")
	raw, err := m.AppendTo(nil)
	require.NoError(t, err)
	require.NoError(t, r.Decode(raw, true))
	m.Topic, m.Properties = "T", []byte("a\x01b\x00")
	raw, err = m.AppendTo(nil)
	require.NoError(t, err)
	require.NoError(t, r.Decode(raw, true))
}

func TestDecodeErrorText(t *testing.T) {
	var r Record
	err := r.Decode(patched(unhex(t, goldenA1), 0, be32(90)...), false)
	require.EqualError(t, err, "decode record: totalSize at byte 0: got 90, want 91: record is corrupt")
}

func TestDecodeLeavesCRCToTheCaller(t *testing.T) {
	raw := patched(unhex(t, goldenA1), 88, 'H')
	var r Record
	require.NoError(t, r.Decode(raw, false))
	require.Error(t, r.Decode(raw, true))
	// Nothing is compared for an empty body: upstream does not either.
	m := goldenMessage()
	m.Topic = "T"
	raw, err := m.AppendTo(nil)
	require.NoError(t, err)
	require.NoError(t, r.Decode(patched(raw, 8, 1, 2, 3, 4), true))
	require.EqualValues(t, 0x01020304, r.BodyCRC)
}

// A process killed while it stores a record into a zeroed file leaves its first k bytes. For every k of every golden record
// the class is one of three, and which one follows from the bytes that are left.
func TestDecodeCutInZeroedFile(t *testing.T) {
	for name, c := range goldenCases(t) {
		t.Run(name, func(t *testing.T) {
			var whole Record
			require.NoError(t, whole.Decode(c.raw, true))
			properties := len(c.raw) - len(whole.Properties)
			// Trailing zeros of a record are there before they are written.
			written := len(bytes.TrimRight(c.raw, "\x00"))
			safe := min(properties, written)
			for k := range len(c.raw) {
				in := padded(c.raw[:k])
				want := "torn"
				switch {
				case k < 4: // the size is below 256: until its last byte all is zero
					want = "end"
				case k >= safe:
					want = "ok" // lengths and body are whole; only the property checksum could tell
				}
				var r Record
				err := r.Decode(in, true)
				require.Equal(t, want, classOf(t, err), "cut at %d of %d: %v", k, len(c.raw), err)
				if want == "ok" && c.msg.PropertyCRC {
					require.ErrorIs(t, r.VerifyPropertyCRC(), ErrCorrupt, "cut at %d", k)
				}
			}
		})
	}
}

// A size above 255 is cut in several places.
func TestDecodeCutSize(t *testing.T) {
	m := goldenMessage()
	m.Topic, m.Body = "T", bytes.Repeat([]byte("b"), 0x12345)
	raw, err := m.AppendTo(nil)
	require.NoError(t, err)
	require.Equal(t, []byte{0, 1, 0x23}, raw[:3])
	var r Record
	for k, want := range []string{"end", "end", "torn", "torn", "torn", "torn", "torn", "torn", "torn"} {
		in := append(bytes.Clone(raw[:k]), make([]byte, 1<<20)...)
		require.Equal(t, want, classOf(t, r.Decode(in, true)), "cut at %d", k)
	}
}

// The end of the input is the end of the file or of a read: a prefix is never corrupt.
func TestDecodePrefix(t *testing.T) {
	for name, c := range goldenCases(t) {
		t.Run(name, func(t *testing.T) {
			var r Record
			for k := range len(c.raw) {
				want := "torn"
				if k < 4 {
					want = "end"
				}
				require.Equal(t, want, classOf(t, r.Decode(c.raw[:k], true)), "prefix of %d", k)
			}
		})
	}
}

// One flipped bit anywhere in the framing or the body never goes unnoticed; anywhere else it changes a field and no more.
func TestDecodeFlippedBit(t *testing.T) {
	for name, c := range goldenCases(t) {
		t.Run(name, func(t *testing.T) {
			var r, whole Record
			require.NoError(t, whole.Decode(c.raw, true))
			topic := len(c.raw) - len(whole.Properties) - 2 - len(whole.Topic)
			lenSize := 1
			if whole.Magic == MagicV2 {
				lenSize = 2
			}
			body := topic - lenSize - len(whole.Body)
			framing := func(i int) bool {
				switch {
				case i < 12, i >= body-4 && i < topic, i >= topic+len(whole.Topic) && i < topic+len(whole.Topic)+2:
					return true
				}
				return false
			}
			for i := range c.raw {
				for bit := range 8 {
					in := patched(c.raw, i, c.raw[i]^1<<bit)
					err := r.Decode(in, true)
					hosts := i == atSysFlag+3 && (bit == 4 || bit == 5)
					if framing(i) || hosts {
						require.Error(t, err, "byte %d bit %d", i, bit)
						continue
					}
					require.NoError(t, err, "byte %d bit %d", i, bit)
					require.NotEqual(t, whole, r, "byte %d bit %d", i, bit)
				}
			}
		})
	}
}

// All four combinations of hosts, both versions, and everything empty or at its limit.
func TestDecodeShapes(t *testing.T) {
	v4, v6 := hostOf("10.9.8.7:10911"), hostOf("[fd00::1:1]:10911")
	for _, born := range []Host{v4, v6} {
		for _, store := range []Host{v4, v6} {
			for _, topic := range []int{1, 127, 128, 255} {
				for _, body := range []int{0, 1, 70000} {
					for _, props := range []int{0, 1, 255, 256, 32767} {
						name := fmt.Sprintf("%s %s topic %d body %d properties %d", born, store, topic, body, props)
						m := Message{
							Topic: string(bytes.Repeat([]byte("t"), topic)), QueueID: 1 << 20, QueueOffset: 1 << 40, PhyOffset: 1 << 50,
							Flag: -2, SysFlag: FlagCompressed, BornTimestampMs: -1, StoreTimestampMs: 1 << 41, BornHost: born, StoreHost: store,
							ReconsumeTimes: 16, PreparedTransactionOffset: 1 << 60,
							Body: bytes.Repeat([]byte("b"), body), Properties: bytes.Repeat([]byte("p"), props),
						}
						raw, err := m.AppendTo(nil)
						require.NoError(t, err, name)
						var r Record
						require.NoError(t, r.Decode(append(raw, "behind"...), true), name)
						require.EqualValues(t, len(raw), r.TotalSize, name)
						wantMagic := MagicV1
						if topic > 127 {
							wantMagic = MagicV2
						}
						require.Equal(t, wantMagic, r.Magic, name)
						m.SysFlag |= r.SysFlag // the V6 bits, judged by the hosts below
						require.Equal(t, m, r.Message(), name)
					}
				}
			}
		}
	}
}

// A V1 topic of more than 127 bytes is read as its length says.
func TestDecodeV1TopicIsUnsigned(t *testing.T) {
	m := goldenMessage()
	m.Topic = string(bytes.Repeat([]byte("t"), 128))
	v2, err := m.AppendTo(nil)
	require.NoError(t, err)
	raw := append(bytes.Clone(v2[:88]), v2[89:]...) // one byte less of topic length
	copy(raw, be32(int32(len(raw))))
	copy(raw[4:], be32(MagicV1))
	var r Record
	require.NoError(t, r.Decode(raw, true))
	require.Len(t, r.Topic, 128)
	require.Equal(t, m.Topic, string(r.Topic))
}

// Slices handed out end where the field ends: appending to one must not write into the next.
func TestDecodeSlicesAreCapped(t *testing.T) {
	raw := padded(unhex(t, goldenA1))
	var r Record
	require.NoError(t, r.Decode(raw, true))
	for _, s := range [][]byte{r.BornHost, r.StoreHost, r.Body, r.Topic, r.Properties} {
		require.Equal(t, len(s), cap(s))
	}
	v, ok := r.Property(PropertyKeys)
	require.True(t, ok)
	require.Equal(t, len(v), cap(v))
}

func TestBlankSize(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []byte
		size int32
		ok   bool
	}{
		{"empty", nil, 0, false},
		{"seven bytes", AppendBlank(nil, 8)[:7], 0, false},
		{"least", AppendBlank(nil, 8), 8, true},
		{"greatest", AppendBlank(nil, math.MaxInt32), math.MaxInt32, true},
		{"too small", patched(AppendBlank(nil, 8), 3, 7), 7, false},
		{"negative", patched(AppendBlank(nil, 8), 0, 0xFF), -16777208, false},
		{"record", unhex(t, goldenA1), 0, false},
		{"zeros", make([]byte, 8), 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			size, ok := BlankSize(c.in)
			require.Equal(t, c.ok, ok)
			require.Equal(t, c.size, size)
		})
	}
	require.Panics(t, func() { AppendBlank(nil, 7) })
}
