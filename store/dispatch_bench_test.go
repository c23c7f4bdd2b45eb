package store

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/message"
)

// nullView takes everything and keeps nothing: what is left is the reading.
type nullView struct{ n int64 }

func (v *nullView) name() string                                { return "nothing" }
func (v *nullView) add(*message.Record)                         { v.n++ }
func (v *nullView) turn() batch                                 { return nil }
func (v *nullView) deliver(context.Context, batch, int64) error { return nil }

// nullQueues have every queue and keep nothing: what is left is the making of units.
type nullQueues struct{ cq.Store }

func (nullQueues) Kind() cq.Kind                            { return cq.KindFile }
func (nullQueues) Queue(cq.Key) (cq.Queue, bool)            { return nil, true }
func (nullQueues) Append(context.Context, []cq.Entry) error { return nil }
func (nullQueues) Close() error                             { return nil }

// benchLog puts 1 KiB messages, two keys each, and leaves the log alone.
func benchLog(b *testing.B, messages, queues int) (root string, end int64) {
	b.Helper()
	root = b.TempDir()
	o := DefaultOptions()
	o.BuildConsumeQueues = false
	s, err := Open(root, o)
	require.NoError(b, err)
	m := newMessage("TopicTest")
	m.Body = bytes.Repeat([]byte{'x'}, 1024)
	for i := range messages {
		m.QueueID = int32(i % queues)
		m.Properties = fmt.Appendf(nil, "KEYS\x01key%d\x02UNIQ_KEY\x010A09080700002A9F%016X\x02TAGS\x01TagA\x02", i, i)
		_, err := s.Put(b.Context(), m)
		require.NoError(b, err)
	}
	end = s.Positions().Wrote
	require.NoError(b, s.Close())
	return root, end
}

// BenchmarkDispatch brings one view of a log of 1 KiB messages from nothing to its end.
func BenchmarkDispatch(b *testing.B) {
	const messages = 300_000
	for _, queues := range []int{8, 1000} {
		root, end := benchLog(b, messages, queues)
		l := NewLayout(root)
		log, err := commitlog.Open(l.CommitLogDir(), commitlog.Options{})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, log.Close()) })
		noBatch := func(string) bool { return false }
		logger := slog.New(slog.DiscardHandler)
		overQueues := func(s cq.Store, err error) (view, func() error) {
			require.NoError(b, err)
			return newQueueView(s, nil, false, noBatch, logger), s.Close
		}
		for _, c := range []struct {
			name string
			open func() (view, func() error)
		}{
			{"nothing", func() (view, func() error) { return &nullView{}, func() error { return nil } }},
			{"units", func() (view, func() error) { return overQueues(nullQueues{}, nil) }},
			{"file", func() (view, func() error) {
				return overQueues(file.Open(l.ConsumeQueueDir(), file.Options{FileSizeBytes: 6_000_000}))
			}},
			{"rocks", func() (view, func() error) {
				o := rocks.DefaultOptions()
				o.Create = true
				return overQueues(rocks.Open(b.TempDir(), o))
			}},
			{"combine", func() (view, func() error) {
				o := rocks.DefaultOptions()
				o.Create = true
				r, err := rocks.Open(b.TempDir(), o)
				require.NoError(b, err)
				f, err := file.Open(l.ConsumeQueueDir(), file.Options{FileSizeBytes: 6_000_000})
				require.NoError(b, err)
				return overQueues(combine.New(f, r, combine.Options{}))
			}},
			{"index", func() (view, func() error) {
				x, err := index.Open(l.IndexDir(), index.Options{})
				require.NoError(b, err)
				return newIndexView(nil, x, nil), x.Close
			}},
		} {
			b.Run(fmt.Sprintf("op=catch-up/impl=%s/queues=%d", c.name, queues), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					for _, dir := range []string{l.ConsumeQueueDir(), l.IndexDir()} {
						require.NoError(b, os.RemoveAll(dir))
					}
					v, done := c.open()
					f := newFollower(v, log, logger, 0)
					b.StartTimer()
					require.NoError(b, f.catchUp(b.Context(), end, nil))
					b.StopTimer()
					require.NoError(b, done())
					b.StartTimer()
				}
				b.ReportMetric(float64(messages)*float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
			})
		}
	}
}
