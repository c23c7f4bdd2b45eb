//go:build !race

package store

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/message"
)

// A put allocates nothing: not in the checks, nor for offsets, properties of the store, or light queues. (The race detector makes
// pools forget on purpose.)
func TestPutDoesNotAllocate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		m      *message.Message
	}{
		"plain":  {func(*Options) {}, newMessage("TopicOfThisTest")},
		"sync":   {func(o *Options) { o.FlushDiskType = SyncFlush }, &message.Message{Topic: "T", BornHost: bornHost, StoreHost: storeHost, Properties: props("WAIT", "false")}},
		"crc":    {func(o *Options) { o.EnabledAppendPropCRC = true }, newMessage("T")},
		"light":  {func(o *Options) { o.EnableLmq = true }, lightMessage("%LMQ%a", "%LMQ%of-a-client-with-a-rather-long-name")},
		"strip":  {func(*Options) {}, &message.Message{Topic: "T", BornHost: bornHost, StoreHost: storeHost, Properties: props("a", "b", "INNER_BASE", "1")}},
		"no row": {func(*Options) {}, &message.Message{Topic: "T", SysFlag: message.TransactionPrepared, BornHost: bornHost, StoreHost: storeHost}},
	} {
		t.Run(name, func(t *testing.T) {
			o := putOptions()
			o.MappedFileSizeCommitLog = 16 << 20
			c.change(&o)
			f := overFiles(t, o)
			put := func() {
				if _, err := f.Put(t.Context(), c.m); err != nil {
					t.Error(err)
				}
			}
			put() // makes the row
			require.Zero(t, testing.AllocsPerRun(1000, put))
		})
	}
}

// What the views take of a record allocates nothing: a million of them a second would keep the collector busy. (Batches grow, a few times.)
func TestDispatchDoesNotAllocate(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	s := openStore(t, t.TempDir(), o)
	putSome(t, s, 1)
	awaitDispatch(t, s)
	var r message.Record
	release, err := s.Log().Read(0, 0, false, &r)
	require.NoError(t, err)
	for name, v := range map[string]view{
		"queues": newQueueView(nullQueues{}, nil, true, func(string) bool { return false }, slog.New(slog.DiscardHandler)),
		"index":  newIndexView(nil, nil, nil),
	} {
		require.Zero(t, testing.AllocsPerRun(1000, func() { v.add(&r) }), name)
	}
	release()
	require.NoError(t, s.Close())
}

// oneRecordLog gives every record the same warm memory: what is left of a put is the store's own part and the encoding.
type oneRecordLog struct {
	appender
	buf  []byte
	size int
}

func (l *oneRecordLog) Reserve(_ *commitlog.Reservation, size int) error {
	l.size = size
	return nil
}

func (l *oneRecordLog) Publish(_ *commitlog.Reservation, fill func([]byte) error) error {
	return fill(l.buf[:l.size])
}

// BenchmarkPutOverhead is a put without a log: checks, offsets, encoding and checksum. Beside it, part=encode, the last two alone.
func BenchmarkPutOverhead(b *testing.B) {
	for _, lmq := range []bool{false, true} {
		m := newMessage("TopicOfThisTest")
		if lmq {
			m = lightMessage("%LMQ%a", "%LMQ%b")
		}
		m.Body = make([]byte, 1024)
		o := DefaultOptions()
		o.EnableLmq = lmq
		s := newStore(o)
		l := &oneRecordLog{buf: make([]byte, 4096)}
		s.log = l
		b.Run(fmt.Sprintf("part=put/lmq=%v/size=1k", lmq), func(b *testing.B) {
			b.SetBytes(1024)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Put(b.Context(), m); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("part=encode/lmq=%v/size=1k", lmq), func(b *testing.B) {
			dst := l.buf[:l.size]
			m := *m
			if lmq {
				m.Properties = append(m.Properties, make([]byte, l.size-len(m.Properties)-1024-len(m.Topic)-91)...)
			}
			b.SetBytes(1024)
			for b.Loop() {
				if err := m.PutTo(dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
