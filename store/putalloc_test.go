//go:build !race

package store

import (
	"testing"

	"github.com/stretchr/testify/require"

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

// BenchmarkPut is the put path alone: its time over encoding and checksum is what checks, offsets and the log's order cost.
func BenchmarkPut(b *testing.B) {
	for name, c := range map[string]struct {
		lmq bool
		m   *message.Message
	}{
		"kind=plain": {false, newMessage("TopicOfThisTest")},
		"kind=light": {true, lightMessage("%LMQ%a", "%LMQ%b")},
	} {
		b.Run(name+"/size=1k", func(b *testing.B) {
			o := DefaultOptions()
			o.MappedFileSizeCommitLog = 256 << 20
			o.EnableLmq = c.lmq
			s, err := Open(b.TempDir(), o)
			require.NoError(b, err)
			defer s.Close()
			m := *c.m
			m.Body = make([]byte, 1024)
			b.SetBytes(1024)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Put(b.Context(), &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPutEncode is the same message, encoded and summed into warm memory.
func BenchmarkPutEncode(b *testing.B) {
	m := *newMessage("TopicOfThisTest")
	m.Body = make([]byte, 1024)
	size, err := m.EncodedSize()
	require.NoError(b, err)
	dst := make([]byte, size)
	b.SetBytes(1024)
	for b.Loop() {
		if err := m.PutTo(dst); err != nil {
			b.Fatal(err)
		}
	}
}
