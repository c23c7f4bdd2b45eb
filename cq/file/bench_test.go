package file

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

func benchKeys(n int) []cq.Key {
	keys := make([]cq.Key, n)
	for i := range keys {
		keys[i] = cq.Key{Topic: fmt.Sprintf("%slight-%07d", cq.LMQPrefix, i)}
	}
	return keys
}

// BenchmarkAppend appends one batch of 256 units an iteration, to each queue in turn.
func BenchmarkAppend(b *testing.B) {
	for _, queues := range []int{1, 8, 1000, 100_000} {
		b.Run(fmt.Sprintf("op=append/impl=file/queues=%d", queues), func(b *testing.B) {
			if queues > 10_000 && testing.Short() {
				b.Skip("makes 100,000 files")
			}
			s, err := Open(filepath.Join(b.TempDir(), "consumequeue"), Options{})
			require.NoError(b, err)
			keys := benchKeys(queues)
			for _, k := range keys { // making the files is another matter
				require.NoError(b, s.Append(b.Context(), []cq.Entry{{Key: k, Unit: testUnit(0)}}))
			}
			const size = 256
			batch := make([]cq.Entry, size)
			n, at, slot := int64(queues), 0, int64(1)
			b.ReportAllocs()
			for b.Loop() {
				for i := range batch {
					batch[i] = cq.Entry{Key: keys[at], QueueOffset: slot, Unit: testUnit(n)}
					n++
					if at++; at == queues {
						at, slot = 0, slot+1
					}
				}
				if err := s.Append(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)*size/b.Elapsed().Seconds(), "units/s")
			require.NoError(b, s.Close())
		})
	}
}

// BenchmarkFirstAppend makes a queue an iteration, and flushes after 1,000.
func BenchmarkFirstAppend(b *testing.B) {
	b.Run("op=create/impl=file", func(b *testing.B) {
		s, err := Open(filepath.Join(b.TempDir(), "consumequeue"), Options{})
		require.NoError(b, err)
		n := 0
		for b.Loop() {
			k := cq.Key{Topic: fmt.Sprintf("%slight-%07d", cq.LMQPrefix, n)}
			if err := s.Append(b.Context(), []cq.Entry{{Key: k, Unit: testUnit(0)}}); err != nil {
				b.Fatal(err)
			}
			if n++; n%1000 == 0 {
				require.NoError(b, s.Flush(b.Context()))
			}
		}
		b.StopTimer()
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "queues/s")
		require.NoError(b, s.Close())
	})
}

// BenchmarkRead reads n consecutive units an iteration, going through a queue that fills a file.
func BenchmarkRead(b *testing.B) {
	const units = 300_000
	s, err := Open(filepath.Join(b.TempDir(), "consumequeue"), Options{})
	require.NoError(b, err)
	require.NoError(b, s.Import(b.Context(), []cq.Run{{Key: testKey, Units: unitsOf(0, units)}}))
	q, ok := s.Queue(testKey)
	require.True(b, ok)
	for _, n := range []int{1, 32, 256, 1024} {
		b.Run(fmt.Sprintf("op=read/impl=file/units=%d", n), func(b *testing.B) {
			dst := make([]cq.Unit, n)
			from := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				got, err := q.Read(from, dst)
				if err != nil || got != n {
					b.Fatal(got, err)
				}
				from = (from + int64(n)) % (units - int64(n))
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Munits/s")
		})
	}
	require.NoError(b, s.Close())
}

// BenchmarkOffsetByTime searches a queue of 300,000 units by time; the record's time costs nothing here.
func BenchmarkOffsetByTime(b *testing.B) {
	const units = 300_000
	s, err := Open(filepath.Join(b.TempDir(), "consumequeue"), Options{})
	require.NoError(b, err)
	require.NoError(b, s.Import(b.Context(), []cq.Run{{Key: testKey, Units: unitsOf(0, units)}}))
	q, ok := s.Queue(testKey)
	require.True(b, ok)
	b.Run("op=bytime/impl=file", func(b *testing.B) {
		ms := int64(0)
		b.ReportAllocs()
		for b.Loop() {
			ms = (ms + 7919) % (units / 10)
			if got, err := cq.OffsetByTime(q, 1000+ms, cq.BoundaryLower, timeOf); err != nil || got != ms*10 {
				b.Fatal(got, err)
			}
		}
	})
	require.NoError(b, s.Close())
}

// BenchmarkLook opens a store of many queues and asks each for its bounds: one iteration is the whole store.
func BenchmarkLook(b *testing.B) {
	const queues = 5000
	b.Run(fmt.Sprintf("op=bounds/impl=file/queues=%d", queues), func(b *testing.B) {
		dir := filepath.Join(b.TempDir(), "consumequeue")
		s, err := Open(dir, Options{})
		require.NoError(b, err)
		var runs []cq.Run
		for _, k := range benchKeys(queues) {
			runs = append(runs, cq.Run{Key: k, Units: unitsOf(0, 3)})
		}
		require.NoError(b, s.Import(b.Context(), runs))
		require.NoError(b, s.Close())
		for b.Loop() {
			s, err := Open(dir, Options{ReadOnly: true})
			require.NoError(b, err)
			n := 0
			for k, err := range s.Queues() {
				require.NoError(b, err)
				q, _ := s.Queue(k)
				if _, err := q.Bounds(); err != nil {
					b.Fatal(err)
				}
				n++
			}
			require.Equal(b, queues, n)
			require.NoError(b, s.Close())
		}
	})
}
