//go:build cgo

package rocks

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

const (
	benchUnits   = 10_000_000
	benchQueues  = 64
	benchPerCall = 2_000_000
)

// BenchmarkImport moves 10 million units of 64 queues into an empty store and flushes, in calls of 2 million. order=log:
// every call holds units of every queue, as one pass over the log gives them; order=queue: whole queues one after
// the other. impl=sst is what Import does; impl=memtable writes batches of 1,024 units of one queue, the way that lost.
//
//	go test ./cq/rocks -run '^$' -bench Import -benchtime 1x
func BenchmarkImport(b *testing.B) {
	for _, order := range []string{"log", "queue"} {
		for _, impl := range []string{"sst", "memtable"} {
			b.Run(fmt.Sprintf("impl=%s/order=%s", impl, order), func(b *testing.B) {
				for b.Loop() {
					benchImport(b, impl, order)
				}
			})
		}
	}
}

func benchImport(b *testing.B, impl, order string) {
	o := MigrationOptions()
	if impl == "memtable" {
		o.RocksDB.Units.WriteBufferBytes, o.RocksDB.Units.WriteBuffers = 64<<20, 4
	}
	o.Create = true
	dir := b.TempDir()
	s, err := Open(filepath.Join(dir, "db"), o)
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	rss := watchRSS()
	ctx := context.Background()

	var spent time.Duration
	calls := benchUnits / benchPerCall
	for call := range calls {
		runs := benchRuns(order, call)
		begin := time.Now()
		if impl == "sst" {
			require.NoError(b, s.Import(ctx, runs))
		} else {
			importThroughMemtable(b, s, runs)
		}
		spent += time.Since(begin)
	}
	begin := time.Now()
	require.NoError(b, s.Flush(ctx))
	spent += time.Since(begin)
	bytes, err := s.TableBytes()
	require.NoError(b, err)
	b.ReportMetric(benchUnits/spent.Seconds()/1e6, "Munits/s")
	b.ReportMetric(float64(bytes)/benchUnits, "B/unit")
	runs, err := s.db.SortedRuns()
	require.NoError(b, err)
	b.ReportMetric(float64(runs), "runs")
	begin = time.Now()
	require.NoError(b, s.Compact(ctx, nil))
	b.ReportMetric(time.Since(begin).Seconds(), "compact-s")
	bytes, err = s.TableBytes()
	require.NoError(b, err)
	b.ReportMetric(float64(bytes)/benchUnits, "compacted-B/unit")
	b.ReportMetric(float64(rss())/(1<<20), "peak-RssAnon-MiB")
	b.ReportMetric(0, "ns/op")
}

// benchRuns makes the runs of one call.
func benchRuns(order string, call int) []cq.Run {
	const perQueue = benchUnits / benchQueues
	var runs []cq.Run
	if order == "log" {
		const n = benchPerCall / benchQueues
		for q := range benchQueues {
			runs = append(runs, benchRun(q, call*n, n))
		}
		return runs
	}
	for at, end := call*benchPerCall, (call+1)*benchPerCall; at < end; {
		q, from := at/perQueue, at%perQueue
		n := min(perQueue-from, end-at)
		runs = append(runs, benchRun(q, from, n))
		at += n
	}
	return runs
}

func benchRun(q, from, n int) cq.Run {
	r := cq.Run{Key: cq.Key{Topic: "orders-topic", QueueID: int32(q)}, From: int64(from), Units: make([]cq.Unit, n)}
	for i := range r.Units {
		number := int64(from+i)*benchQueues + int64(q)
		r.Units[i] = cq.Unit{
			PhyOffset: number*617 + number%301, Size: int32(400 + number%431),
			TagsCode: (number % 7) * 1_234_567, StoreTimestampMs: 1_700_000_000_000 + number/50,
		}
	}
	return r
}

func importThroughMemtable(b *testing.B, s *Store, runs []cq.Run) {
	batch := s.db.NewBatch()
	var value []byte
	for _, r := range runs {
		prefix := appendUnitPrefix(nil, r.Key)
		for i, u := range r.Units {
			value = appendUnit(value[:0], u)
			batch.PutSlot(prefix, r.From+int64(i), value)
			if batch.Count() == 1024 || i == len(r.Units)-1 {
				require.NoError(b, s.db.Write(batch, true))
				batch.Reset()
			}
		}
	}
}

// BenchmarkRead measures reads of consecutive units at rising places of a merged store.
func BenchmarkRead(b *testing.B) {
	o := DefaultOptions()
	o.Create = true
	s, err := Open(filepath.Join(b.TempDir(), "db"), o)
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	ctx := context.Background()
	const perQueue = 200_000
	var ends []cq.QueueEnd
	for q := range 8 {
		r := benchRun(q, 0, perQueue)
		require.NoError(b, s.Import(ctx, []cq.Run{r}))
		ends = append(ends, cq.QueueEnd{Key: r.Key, MinPhyOffset: r.Units[0].PhyOffset, Max: perQueue, LastPhyOffset: r.Units[perQueue-1].PhyOffset})
	}
	require.NoError(b, s.Publish(ctx, ends, 1<<40))
	require.NoError(b, s.Compact(ctx, nil))
	for _, n := range []int{1, 32, 1024} {
		b.Run(fmt.Sprintf("units=%d", n), func(b *testing.B) {
			dst := make([]cq.Unit, n)
			at, total := int64(0), 0
			q, _ := s.Queue(ends[3].Key)
			for b.Loop() {
				got, err := q.Read(at%(perQueue-1024), dst)
				require.NoError(b, err)
				at += int64(got)
				total += got
			}
			b.ReportMetric(float64(total)/b.Elapsed().Seconds()/1e6, "Munits/s")
		})
	}
	b.Run("bounds", func(b *testing.B) {
		q, _ := s.Queue(ends[3].Key)
		for b.Loop() {
			_, err := q.Bounds()
			require.NoError(b, err)
		}
	})
}

// watchRSS samples the anonymous memory of the process until the returned function is called, which returns the peak in bytes.
func watchRSS() func() int64 {
	var (
		peak int64
		done = make(chan struct{})
		wg   sync.WaitGroup
	)
	wg.Go(func() {
		for {
			peak = max(peak, rssAnon())
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return func() int64 { close(done); wg.Wait(); return peak }
}

func rssAnon() int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if rest, ok := strings.CutPrefix(sc.Text(), "RssAnon:"); ok {
			var kib int64
			_, _ = fmt.Sscan(rest, &kib)
			return kib << 10
		}
	}
	return 0
}
