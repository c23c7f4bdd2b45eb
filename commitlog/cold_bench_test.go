package commitlog

import (
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mmap"
)

var coldSink atomic.Uint64 // so that every byte is read

// BenchmarkColdRead reads records that are not in memory, two goroutines at once, and reports how late a third one runs that sleeps a millisecond at a time: what a put
// beside would wait for. By faults of the mapping, by having the kernel populate it before (a system call, so that others can run), and by SelectCold. It wants a filesystem that
// forgets (TMPDIR on a disk).
func BenchmarkColdRead(b *testing.B) {
	const size = 64 << 20
	build := newBuilder(b, size, 0)
	for build.end() < 4*size-4096 {
		build.add(1000)
	}
	dir := build.write()
	ways := map[string]func(l *Log, phy int64, size int32, h *Held) ([]byte, error){
		"fault": func(l *Log, phy int64, size int32, h *Held) ([]byte, error) { return l.Select(phy, size, h) },
		"populate": func(l *Log, phy int64, size int32, h *Held) ([]byte, error) {
			p, err := l.Select(phy, size, h)
			if f := h.files[len(h.files)-1]; err == nil && phy&(coldPiece-1) < int64(size) { // about once a piece
				err = f.Advise(phy-f.From(), min(coldPiece, f.End()-phy), mmap.PopulateRead)
			}
			return p, err
		},
		"read": func(l *Log, phy int64, size int32, h *Held) ([]byte, error) {
			p, _, err := l.SelectCold(phy, size, h)
			return p, err
		},
	}
	for _, name := range []string{"fault", "populate", "read"} {
		b.Run("way="+name, func(b *testing.B) {
			var late []time.Duration
			for b.Loop() {
				b.StopTimer()
				dropLog(b, dir)
				l, err := Open(dir, Options{})
				require.NoError(b, err)
				b.StartTimer()
				stop, ticked := make(chan struct{}), make(chan []time.Duration)
				go func() { ticked <- lateness(stop) }()
				done := make(chan error)
				half := len(build.records) / 2
				for _, part := range [][2]int{{0, half}, {half, len(build.records)}} {
					go func() {
						var h Held
						defer h.Release()
						sink := byte(0)
						for i := part[0]; i < part[1]; i++ {
							p, err := ways[name](l, build.records[i], build.sizes[i], &h)
							if err != nil {
								done <- err
								return
							}
							for k := 0; k < len(p); k += 64 {
								sink += p[k]
							}
							if i%32 == 0 {
								h.Release()
							}
						}
						coldSink.Add(uint64(sink))
						done <- nil
					}()
				}
				for range 2 {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
				close(stop)
				late = append(late, <-ticked...)
				b.StopTimer()
				require.NoError(b, l.Close())
				b.StartTimer()
			}
			b.SetBytes(build.end())
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "late-p99-us")
			b.ReportMetric(float64(late[len(late)-1].Microseconds()), "late-max-us")
		})
	}
}

func dropLog(b *testing.B, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(b, err)
	for _, path := range files {
		f, err := os.Open(path)
		require.NoError(b, err)
		require.NoError(b, mmap.Datasync(f))
		require.NoError(b, mmap.DropCache(f))
		require.NoError(b, f.Close())
	}
}

// lateness returns by how much more than a millisecond each sleep of one took.
func lateness(stop chan struct{}) (late []time.Duration) {
	for {
		select {
		case <-stop:
			return append(late, 0)
		default:
		}
		start := time.Now()
		time.Sleep(time.Millisecond)
		late = append(late, time.Since(start)-time.Millisecond)
	}
}
