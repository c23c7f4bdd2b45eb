package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

func benchMessage() *message.Message {
	h := message.Host{Addr: netip.MustParseAddr("127.0.0.1"), Port: 10911}
	return &message.Message{
		Topic: "TopicTest", QueueID: 1, Body: bytes.Repeat([]byte{'x'}, 1024), BornHost: h, StoreHost: h,
		Properties: []byte("KEYS\x01key-12345678\x02TAGS\x01TagA\x02"), BornTimestampMs: 1,
	}
}

func BenchmarkAppend(b *testing.B) {
	modes := []struct {
		name string
		set  func(*WriterOptions)
	}{
		{"async-mmap", func(*WriterOptions) {}},
		{"async-pool", func(o *WriterOptions) { o.Mode = WritePooled; o.BufferBytes = 256 << 20 }},
		{"async-pwrite", func(o *WriterOptions) { o.Mode = WriteThrough }},
		{"sync-mmap", func(o *WriterOptions) { o.SyncFlush = true }},
		{"sync-staged", func(o *WriterOptions) { o.SyncFlush = true; o.Mode = WriteStaged }},
	}
	for _, m := range modes {
		for _, producers := range []int{1, 8, 16, 64, 256} {
			b.Run(fmt.Sprintf("mode=%s/producers=%d", m.name, producers), func(b *testing.B) {
				o := DefaultWriterOptions(b.TempDir())
				m.set(&o)
				w, err := OpenWriter(o)
				require.NoError(b, err)
				defer func() { require.NoError(b, w.Close()) }()
				time.Sleep(200 * time.Millisecond)
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ReportAllocs()
				b.ResetTimer()
				var wg sync.WaitGroup
				for range producers {
					wg.Go(func() {
						m := benchMessage()
						size, err := m.EncodedSize()
						if err != nil {
							panic(err)
						}
						var r Reservation
						fill := func(dst []byte) error {
							m.PhyOffset, m.StoreTimestampMs = r.PhyOffset, r.StoreTimestampMs
							return m.PutTo(dst)
						}
						for left.Add(-1) >= 0 {
							m.QueueOffset++
							for {
								err := w.Reserve(&r, size)
								if err == nil {
									break
								}
								var busy *BusyError
								if errors.As(err, &busy) {
									w.AwaitSpace(busy, time.Minute)
									continue
								}
								panic(err)
							}
							if err := w.Publish(&r, fill); err != nil {
								panic(err)
							}
							if o.SyncFlush {
								if err := w.AwaitFlush(&r); err != nil {
									panic(err)
								}
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
			})
		}
	}
}

func BenchmarkCopyCRC(b *testing.B) {
	src, dst := make([]byte, 1024), make([]byte, 256<<20)
	for i := range dst {
		dst[i] = 1
	}
	at := 0
	for b.Loop() {
		copy(dst[at:], src)
		_ = crc32.ChecksumIEEE(src)
		if at += 1024; at == len(dst) {
			at = 0
		}
	}
}

func BenchmarkBareSync(b *testing.B) {
	f, err := os.Create(b.TempDir() + "/f")
	require.NoError(b, err)
	require.NoError(b, f.Truncate(1<<30))
	src := make([]byte, 1024)
	at := int64(0)
	for b.Loop() {
		_, _ = f.WriteAt(src, at)
		_ = f.Sync()
		at += 1024
	}
}
