package message

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// props builds a property string from names and values in turn.
func props(pairs ...string) (b []byte) {
	for i := 0; i < len(pairs); i += 2 {
		b = AppendProperty(b, pairs[i], pairs[i+1])
	}
	return b
}

func TestTagsCode(t *testing.T) {
	const stored = 1_700_000_000_000
	two, err := ParseDelayLevels("1s 1d")
	require.NoError(t, err)
	none, err := ParseDelayLevels("")
	require.NoError(t, err)
	hash := TagsHash([]byte("TagA"))
	for _, c := range []struct {
		name, topic, delay string
		levels             *DelayLevels
		want               int64
		bad                bool
	}{
		{"plain topic", "T", "3", nil, hash, false},
		{"plain topic, no number", "T", "abc", nil, hash, false},
		{"schedule, no delay", TopicSchedule, "", nil, hash, false},
		{"level 1", TopicSchedule, "1", nil, stored + 1000, false},
		{"level 18", TopicSchedule, "18", nil, stored + 7200_000, false},
		{"above the highest", TopicSchedule, "19", nil, stored + 7200_000, false},
		{"greatest", TopicSchedule, "2147483647", nil, stored + 7200_000, false},
		{"plus sign", TopicSchedule, "+2", nil, stored + 5000, false},
		{"leading zeros", TopicSchedule, "002", nil, stored + 5000, false},
		{"level 0", TopicSchedule, "0", nil, hash, false},
		{"negative", TopicSchedule, "-1", nil, hash, false},
		{"own levels", TopicSchedule, "2", two, stored + 86400_000, false},
		{"own levels, above", TopicSchedule, "3", two, stored + 86400_000, false},
		{"no levels", TopicSchedule, "3", none, hash, false},
		{"no number", TopicSchedule, "abc", nil, hash, true},
		{"blank", TopicSchedule, " 1", nil, hash, true},
		{"beyond 32 bits", TopicSchedule, "2147483648", nil, hash, true},
		{"fraction", TopicSchedule, "1.0", nil, hash, true},
		{"sign alone", TopicSchedule, "-", nil, hash, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Record{Topic: []byte(c.topic), StoreTimestampMs: stored, Properties: props(PropertyTags, "TagA")}
			if c.delay != "" {
				r.Properties = append(r.Properties, props(PropertyDelay, c.delay)...)
			}
			require.Equal(t, c.want, r.TagsCode(c.levels))
			d := r.DispatchRequest(c.levels)
			require.Equal(t, c.want, d.TagsCode)
			want := ""
			if c.bad {
				want = PropertyDelay
			}
			require.Equal(t, want, d.BadProperty)
		})
	}
	require.Zero(t, (&Record{Topic: []byte("T")}).TagsCode(nil), "no tags")
}

func TestOwesUnit(t *testing.T) {
	for transaction, want := range map[int32]bool{
		TransactionNone: true, TransactionPrepared: false, TransactionCommit: true, TransactionRollback: false,
	} {
		for _, others := range []int32{0, ^FlagTransactionMask} {
			r := Record{SysFlag: transaction | others}
			require.Equal(t, want, r.OwesUnit(), "%#x", r.SysFlag)
			require.Equal(t, transaction, r.Transaction())
		}
	}
}

func TestCompressionOf(t *testing.T) {
	for _, c := range []struct {
		sysFlag int32
		want    Compression
		ok      bool
	}{
		{0x001, CompressionLegacyZlib, true},
		{0x101, CompressionLZ4, true},
		{0x201, CompressionZstd, true},
		{0x301, CompressionZlib, true},
		{0x401, 4, false},
		{0x701, 7, false},
		{-1, 7, false},
		{^FlagCompressionMask, CompressionLegacyZlib, true},
	} {
		got, ok := CompressionOf(c.sysFlag)
		require.Equal(t, c.ok, ok, "%#x", c.sysFlag)
		require.Equal(t, c.want, got, "%#x", c.sysFlag)
	}
}

func TestDispatchRequest(t *testing.T) {
	m := goldenMessage()
	m.Topic, m.QueueID, m.QueueOffset, m.PhyOffset, m.SysFlag = "T", 3, 44, 555, TransactionCommit
	m.StoreTimestampMs, m.PreparedTransactionOffset = 1234, 99
	m.Properties = props(PropertyKeys, "k1 k2", PropertyUniqKey, "u", PropertyTags, "TagA")
	raw, err := m.AppendTo(nil)
	require.NoError(t, err)
	var r Record
	require.NoError(t, r.Decode(raw, true))
	require.Equal(t, DispatchRequest{
		Topic: []byte("T"), QueueID: 3, PhyOffset: 555, Size: int32(len(raw)), TagsCode: 2598919, StoreTimestampMs: 1234, QueueOffset: 44,
		Keys: []byte("k1 k2"), UniqKey: []byte("u"), Tags: []byte("TagA"), SysFlag: TransactionCommit, PreparedTransactionOffset: 99, Properties: m.Properties,
		MsgBaseOffset: 44, BatchSize: 1,
	}, r.DispatchRequest(nil))
	d := (&Record{Topic: []byte("T")}).DispatchRequest(nil)
	require.Nil(t, d.Keys)
	require.Nil(t, d.UniqKey)
	require.Nil(t, d.Tags)
}

// The one pass over the properties finds what Property does, in whatever they are.
func TestScanDispatched(t *testing.T) {
	names := []string{PropertyKeys, PropertyUniqKey, PropertyTags, PropertyDelay, PropertyInnerNum, PropertyInnerBase}
	pieces := append([]string{"", "K", "KEYSX", "UNIQ", "TAG", "INNER_", PropertyWait, "\x01", "\x02", "v", "\x01v\x02", "\x01\x02"}, names...)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		r := Record{}
		for range random.IntN(12) {
			r.Properties = append(r.Properties, pieces[random.IntN(len(pieces))]...)
			if random.IntN(3) > 0 {
				r.Properties = append(r.Properties, "\x01value\x02"...)
			}
		}
		d := scanDispatched(r.Properties)
		for i, got := range [][]byte{d.keys, d.uniqKey, d.tags, d.delay, d.innerNum, d.innerBase} {
			want, _ := r.Property(names[i])
			require.Equal(t, want, got, "%s of %q", names[i], r.Properties)
		}
	}
}

// No text in a property makes a record unusable.
func TestDispatchRequestInnerBatch(t *testing.T) {
	for _, c := range []struct {
		name, num, base string
		size            int16
		from            int64
		bad             string
	}{
		{"batch", "3", "100", 3, 100, ""},
		{"greatest", "32767", "9223372036854775807", math.MaxInt16, math.MaxInt64, ""},
		{"number alone", "3", "", 1, 7, ""},
		{"number alone, no number", "abc", "", 1, 7, ""},
		{"base alone", "", "100", 1, 7, ""},
		{"number is none", "abc", "0", 1, 7, PropertyInnerNum},
		{"number beyond 16 bits", "32768", "0", 1, 7, PropertyInnerNum},
		{"base is none", "3", "1e3", 1, 7, PropertyInnerBase},
		{"base beyond 64 bits", "3", "9223372036854775808", 1, 7, PropertyInnerBase},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Record{Topic: []byte("T"), QueueOffset: 7}
			if c.num != "" {
				r.Properties = append(r.Properties, props(PropertyInnerNum, c.num)...)
			}
			if c.base != "" {
				r.Properties = append(r.Properties, props(PropertyInnerBase, c.base)...)
			}
			d := r.DispatchRequest(nil)
			require.Equal(t, c.size, d.BatchSize)
			require.Equal(t, c.from, d.MsgBaseOffset)
			require.Equal(t, c.bad, d.BadProperty)
		})
	}
}

func TestMultiDispatch(t *testing.T) {
	type target struct {
		queue  string
		id     int32
		offset int64
		ok     bool
	}
	for _, c := range []struct {
		name, topic, names, offsets string
		want                        []target
	}{
		{"one", "T", "%LMQ%a", "5", []target{{"%LMQ%a", 0, 5, true}}},
		{
			"three", "T", "%LMQ%a,%LMQ%b,%LMQ%c", "5,0,9223372036854775807",
			[]target{{"%LMQ%a", 0, 5, true}, {"%LMQ%b", 0, 0, true}, {"%LMQ%c", 0, math.MaxInt64, true}},
		},
		{"plain name before", "T", "plain,%LMQ%b", ",7", []target{{"plain", 4, 0, false}, {"%LMQ%b", 0, 7, true}}},
		{
			"plain name between", "T", "%LMQ%a,plain,%LMQ%b", "5,,7",
			[]target{{"%LMQ%a", 0, 5, true}, {"plain", 4, 0, false}, {"%LMQ%b", 0, 7, true}},
		},
		{"plain name with an offset", "T", "plain", "7", []target{{"plain", 4, 7, true}}},
		{"plain name last: lengths differ", "T", "%LMQ%a,plain", "5,", nil},
		{"commas at both ends do not count", "T", "%LMQ%a,,", "5,", []target{{"%LMQ%a", 0, 5, true}}},
		{"commas alone", "T", ",,", ",", nil},
		{"name commas alone", "T", ",,", "5", nil},
		{"empty name", "T", ",%LMQ%b", "5,7", []target{{"", 4, 0, false}, {"%LMQ%b", 0, 7, true}}},
		{"no number", "T", "%LMQ%a,%LMQ%b", "x,7", []target{{"%LMQ%a", 0, 0, false}, {"%LMQ%b", 0, 7, true}}},
		{"negative", "T", "%LMQ%a", "-1", []target{{"%LMQ%a", 0, 0, false}}},
		{"beyond 64 bits", "T", "%LMQ%a", "9223372036854775808", []target{{"%LMQ%a", 0, 0, false}}},
		{"blank in a number", "T", "%LMQ%a", " 5", []target{{"%LMQ%a", 0, 0, false}}},
		{"more names", "T", "%LMQ%a,%LMQ%b", "5", nil},
		{"more offsets", "T", "%LMQ%a", "5,6", nil},
		{"blank names", "T", " \t", "5", nil},
		{"blank offsets", "T", "%LMQ%a", "  ", nil},
		{"no names", "T", "", "5", nil},
		{"no offsets", "T", "%LMQ%a", "", nil},
		{"retry topic", RetryPrefix + "g", "%LMQ%a", "5", nil},
		{"system topic", SystemPrefix + "x", "%LMQ%a", "5", nil},
		{"schedule topic", TopicSchedule, "%LMQ%a", "5", nil},
		{"dead-letter topic", DLQPrefix + "g", "%LMQ%a", "5", nil},
		{"topic that begins like the schedule topic", TopicSchedule + "2", "%LMQ%a", "5", []target{{"%LMQ%a", 0, 5, true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Record{Topic: []byte(c.topic), QueueID: 4, Properties: props(PropertyMultiDispatch, c.names, PropertyMultiQueueOffset, c.offsets)}
			var got []target
			r.MultiDispatch(func(queue []byte, id int32, offset int64, ok bool) bool {
				got = append(got, target{string(queue), id, offset, ok})
				return true
			})
			require.Equal(t, c.want, got)
			n := 0
			r.MultiDispatch(func([]byte, int32, int64, bool) bool { n++; return false })
			require.LessOrEqual(t, n, 1, "goes on after false")
		})
	}
}

func TestDelayLevels(t *testing.T) {
	d := DefaultDelayLevels()
	parsed, err := ParseDelayLevels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
	require.NoError(t, err)
	require.Equal(t, parsed, d)
	require.Equal(t, 18, d.Max())
	for level, want := range map[int]time.Duration{
		-1: 0, 0: 0, 1: time.Second, 4: 30 * time.Second, 18: 2 * time.Hour, 19: 2 * time.Hour, math.MaxInt: 2 * time.Hour,
	} {
		require.Equal(t, want, d.Delay(level), level)
	}
	odd, err := ParseDelayLevels(" 0s  106751d ")
	require.NoError(t, err)
	require.Equal(t, 2, odd.Max())
	require.Equal(t, 106751*24*time.Hour, odd.Delay(2))
	for _, bad := range []string{"1", "s", "1x", "1s 2", "-1s", "1.5s", "106752d", "99999999999999999999s", "1 s"} {
		_, err := ParseDelayLevels(bad)
		require.Error(t, err, bad)
	}
	_, err = ParseDelayLevels("1s 2y")
	require.EqualError(t, err, `parse delay levels "1s 2y": level 2 is "2y", want a number and one of s, m, h, d`)
}

func TestParseJavaInt(t *testing.T) {
	for _, bits := range []uint{16, 32, 64} {
		for _, s := range []string{
			"", "+", "-", "--1", "+-1", "0", "-0", "+0", "1", "-1", "007", " 1", "1 ", "1_0", "0x1", "1L", "１", "32767", "32768", "-32768", "-32769",
			"2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
			"-9223372036854775809", "18446744073709551616", "99999999999999999999999",
		} {
			want, err := strconv.ParseInt(s, 10, int(bits)) // the same rules for base 10
			got, ok := parseJavaInt([]byte(s), bits)
			require.Equal(t, err == nil, ok, "%q %d", s, bits)
			if ok {
				require.Equal(t, want, got, "%q %d", s, bits)
			}
		}
	}
}
