package index

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

// benchBatch makes messages with a unique key of 32 characters and one further key, of 1 KiB each.
func benchBatch(n int) []message.DispatchRequest {
	batch := make([]message.DispatchRequest, n)
	for i := range batch {
		batch[i] = message.DispatchRequest{Topic: []byte("BenchmarkTopic"), Size: 1024, UniqKey: make([]byte, 32), Keys: make([]byte, 12)}
	}
	return batch
}

const hexDigits = "0123456789ABCDEF"

// renew gives the messages of a batch other keys and places.
func renew(batch []message.DispatchRequest, n int64) int64 {
	for i := range batch {
		r := &batch[i]
		r.PhyOffset, r.StoreTimestampMs = n*1024, startMs+n/100
		for j := range r.UniqKey {
			r.UniqKey[j] = hexDigits[n>>(j&7*4)&15]
		}
		for j := range r.Keys {
			r.Keys[j] = 'a' + byte(n>>(j*2)&15)
		}
		n++
	}
	return n
}

// BenchmarkPut appends one message of two entries an iteration, in batches of 64; it flushes nothing. The warm variant stays in one
// file, whose pages are present; the other goes through files of RocketMQ's size, and removes those it has filled.
func BenchmarkPut(b *testing.B) {
	for _, c := range []struct {
		name  string
		slots int32
		warm  bool
	}{{"warm", defaultHashSlots, true}, {"fresh", defaultHashSlots, false}} {
		b.Run("op=index-put/entries=2/file="+c.name, func(b *testing.B) {
			x, err := Open(filepath.Join(b.TempDir(), "index"), Options{HashSlots: c.slots})
			require.NoError(b, err)
			batch, n := benchBatch(64), int64(0)
			fill := func(messages int64) {
				for n < messages {
					n = renew(batch, n)
					require.NoError(b, x.Append(batch))
				}
			}
			if c.warm {
				fill(4_000_000)
			}
			var appending time.Duration
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i++; i%len(batch) != 0 {
					continue
				}
				n = renew(batch, n)
				begin := time.Now()
				if err := x.Append(batch); err != nil {
					b.Fatal(err)
				}
				appending += time.Since(begin)
				if f := x.files[len(x.files)-1]; c.warm && f.head.count > defaultMaxEntries*9/10 {
					f.head.count, f.reserved = 2_000_000, f.fileBytes() // over the same pages again
				}
				if len(x.files) > 1 {
					_, err := x.Expire(n * 1024)
					require.NoError(b, err)
				}
			}
			b.ReportMetric(float64(2*(i-i%len(batch)))/appending.Seconds()/1e6, "Mentries/s")
			b.StopTimer()
			x.failed = ErrClosed // nothing to be flushed
			_ = x.Close()
		})
	}
}

// BenchmarkQuery asks for a key that one message has, in files that hold 20 million entries.
func BenchmarkQuery(b *testing.B) {
	for _, files := range []int32{1, 10} {
		b.Run(fmt.Sprintf("op=index-query/entries=20M/files=%d", files), func(b *testing.B) {
			const messages = 9_999_900
			x, err := Open(filepath.Join(b.TempDir(), "index"), Options{MaxEntries: defaultMaxEntries / files})
			require.NoError(b, err)
			batch, n := benchBatch(100), int64(0)
			for n < messages {
				n = renew(batch, n)
				require.NoError(b, x.Append(batch))
			}
			keys := make([]string, 1<<16)
			rnd := rand.New(rand.NewPCG(1, 1))
			for i := range keys {
				renew(batch[:1], rnd.Int64N(messages))
				keys[i] = string(batch[0].UniqKey)
			}
			i, steps, hits := 0, int64(0), 0
			b.ReportAllocs()
			for b.Loop() {
				a, err := x.Query(Query{Topic: "BenchmarkTopic", Key: keys[i%len(keys)], Type: TypeUniqKey, Max: 1, EndMs: maxTimestampMs}, nil)
				if err != nil {
					b.Fatal(err)
				}
				steps, hits = steps+a.Steps, hits+len(a.PhyOffsets)
				i++
			}
			b.ReportMetric(float64(steps)/float64(i), "steps/op")
			b.ReportMetric(float64(hits)/float64(i), "hits/op")
			b.StopTimer()
			x.failed = ErrClosed
			_ = x.Close()
		})
	}
}

// BenchmarkVerify verifies a file of 20 million entries, as a start after a crash does.
func BenchmarkVerify(b *testing.B) {
	x, err := Open(filepath.Join(b.TempDir(), "index"), Options{})
	require.NoError(b, err)
	batch, n := benchBatch(100), int64(0)
	for n < 9_999_900 {
		n = renew(batch, n)
		require.NoError(b, x.Append(batch))
	}
	b.Run("op=index-verify/entries=20M", func(b *testing.B) {
		for b.Loop() {
			require.Empty(b, x.Verify())
		}
	})
	x.failed = ErrClosed
	_ = x.Close()
}
