package message

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// benchMessage is a message whose record has the given size, with the properties a client sends.
func benchMessage(tb testing.TB, size int) Message {
	m := goldenMessage()
	m.Topic, m.QueueID, m.QueueOffset, m.PhyOffset = "BenchTopic", 3, 123456, 987654321
	m.Properties = AppendProperty(m.Properties, PropertyKeys, "order-4711")
	m.Properties = AppendProperty(m.Properties, PropertyUniqKey, "7F0000010000000B0000000000000006")
	m.Properties = AppendProperty(m.Properties, PropertyCluster, "DefaultCluster")
	m.Properties = AppendProperty(m.Properties, PropertyTags, "TagA")
	n, err := m.EncodedSize()
	require.NoError(tb, err)
	m.Body = bytes.Repeat([]byte{'x'}, size-n)
	return m
}

var sinkInt int64

func BenchmarkRecord(b *testing.B) {
	for _, size := range []int{300, 1024, 4096} {
		m := benchMessage(b, size)
		raw, err := m.AppendTo(nil)
		require.NoError(b, err)
		require.Len(b, raw, size)
		for _, crc := range []bool{false, true} {
			b.Run(fmt.Sprintf("op=decode/crc=%v/size=%d", crc, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				var r Record
				for b.Loop() {
					if err := r.Decode(raw, crc); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("op=encode/size=%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			dst := make([]byte, 0, size)
			for b.Loop() {
				if _, err := m.AppendTo(dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEncode measures PutTo into warm memory, body sizes in the name, beside what it cannot do without: one copy of the
// body and one checksum of it. x-floor is the ratio to those two, measured in the same run.
func BenchmarkEncode(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"100", 100}, {"1k", 1024}, {"4k", 4096}} {
		m := benchMessage(b, 1024)
		m.Body = bytes.Repeat([]byte{'x'}, size.bytes)
		n, err := m.EncodedSize()
		require.NoError(b, err)
		dst := make([]byte, n)
		floor := func() {
			copy(dst[bodyIPv4:], m.Body)
			sinkInt += int64(checksum(m.Body))
		}
		crc := m
		crc.PropertyCRC = true
		crcDst := make([]byte, n+PropertyCRCSize)
		for _, c := range []struct {
			impl string
			f    func()
		}{
			{"floor", floor},
			{"EncodedSize", func() { n, _ := m.EncodedSize(); sinkInt += int64(n) }},
			{"PutTo", func() { _ = m.PutTo(dst) }},
			{"AppendTo", func() { _, _ = m.AppendTo(dst[:0]) }},
			{"PutTo,propertyCRC", func() { _ = crc.PutTo(crcDst) }},
		} {
			b.Run(fmt.Sprintf("op=encode/size=%s/impl=%s", size.name, c.impl), func(b *testing.B) {
				b.SetBytes(int64(size.bytes))
				b.ReportAllocs()
				for b.Loop() {
					c.f()
				}
				b.ReportMetric(ratio(c.f, floor), "x-floor")
			})
		}
	}
}

// ratio returns how many times as long as floor f takes, by the best of runs of a fraction of a millisecond, taken in turn: what
// else the machine does meanwhile, or its clock, hits both alike or neither.
func ratio(f, floor func()) float64 {
	const runs, rounds = 100, 5_000
	best := [2]time.Duration{time.Hour, time.Hour}
	for range runs {
		for i, g := range [2]func(){f, floor} {
			start := time.Now()
			for range rounds {
				g()
			}
			best[i] = min(best[i], time.Since(start))
		}
	}
	return float64(best[0]) / float64(best[1])
}

func BenchmarkScanProperties(b *testing.B) {
	two := AppendProperty(AppendProperty(nil, PropertyKeys, "order-4711"), PropertyTags, "TagA")
	three := AppendProperty(two, PropertyWait, "true")
	four := benchMessage(b, 1024).Properties
	for name, p := range map[string][]byte{"n=2": two, "n=3": three, "n=4,long": four} {
		b.Run("op=scan/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s, _ := ScanProperties(p)
				sinkInt += int64(s.Has)
			}
		})
	}
	b.Run("op=with/n=4,long", func(b *testing.B) {
		b.ReportAllocs()
		dst, value := make([]byte, 0, 256), []byte("4711,17")
		for b.Loop() {
			dst = AppendPropertiesWith(dst[:0], four, HasMultiQueueOffset, value)
		}
	})
}

func BenchmarkProperties(b *testing.B) {
	m := benchMessage(b, 300)
	raw, err := m.AppendTo(nil)
	require.NoError(b, err)
	var r Record
	require.NoError(b, r.Decode(raw, true))
	b.Run("op=tagsCode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sinkInt += r.TagsCode(nil)
		}
	})
	b.Run("op=dispatchRequest", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sinkInt += r.DispatchRequest(nil).TagsCode
		}
	})
}

// BenchmarkDispatchRequest is what the index is told of a record, and the part of it that a queue is told.
func BenchmarkDispatchRequest(b *testing.B) {
	m := benchMessage(b, 1024)
	raw, err := m.AppendTo(nil)
	require.NoError(b, err)
	var r Record
	require.NoError(b, r.Decode(raw, false))
	b.Run("op=request", func(b *testing.B) {
		for b.Loop() {
			d := r.DispatchRequest(nil)
			sinkInt += d.TagsCode
		}
	})
	b.Run("op=tags", func(b *testing.B) {
		for b.Loop() {
			sinkInt += r.TagsCode(nil)
		}
	})
}
