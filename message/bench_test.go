package message

import (
	"bytes"
	"fmt"
	"testing"

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
