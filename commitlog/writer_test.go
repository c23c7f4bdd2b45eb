package commitlog

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// testModes are the ways to write, each with the flush it goes with.
var testModes = []struct {
	name string
	sync bool
	mode WriteMode
}{
	{"async mmap", false, WriteMapped},
	{"async pool", false, WritePooled},
	{"async pwrite", false, WriteThrough},
	{"sync mmap", true, WriteMapped},
	{"sync staged", true, WriteStaged},
	{"sync pool", true, WritePooled},
	{"sync pwrite", true, WriteThrough},
}

// testOptions are those of a log of small files.
func testOptions(dir string, sync bool, mode WriteMode) WriterOptions {
	o := DefaultWriterOptions(dir)
	o.FileSize = 8192
	o.SyncFlush, o.Mode = sync, mode
	o.CommitInterval, o.CommitThoroughInterval = time.Millisecond, time.Millisecond
	o.FlushInterval, o.FlushThoroughInterval = 5*time.Millisecond, 10*time.Millisecond
	return o
}

// queueMessage is message n of a queue; its body tells both.
func queueMessage(queueID int32, n int64) *message.Message {
	h := message.Host{Addr: netip.MustParseAddr("127.0.0.1"), Port: 10911}
	return &message.Message{
		Topic: "t", QueueID: queueID, QueueOffset: n, Body: fmt.Appendf(nil, "body %d of queue %d", n, queueID), BornHost: h, StoreHost: h,
		Properties: []byte("KEYS\x01k\x02"), BornTimestampMs: 1,
	}
}

// appendMessage puts m at the end of the log, as a store does it.
func appendMessage(w *Writer, m *message.Message) (Reservation, error) {
	var r Reservation
	size, err := m.EncodedSize()
	if err != nil {
		return r, err
	}
	for {
		err := w.Reserve(&r, size)
		var busy *BusyError
		switch {
		case err == nil:
			err := w.Publish(&r, func(dst []byte) error {
				m.PhyOffset, m.StoreTimestampMs = r.PhyOffset, r.StoreTimestampMs
				return m.PutTo(dst)
			})
			if err == nil && w.o.SyncFlush {
				err = w.AwaitFlush(&r)
			}
			return r, err
		case !errors.As(err, &busy):
			return r, err
		case !w.AwaitSpace(busy, 10*time.Second):
			return r, err
		}
	}
}

// recordsOf returns the offsets in each queue, in the order of the log, and checks that bodies belong to them.
func recordsOf(t *testing.T, dir string) map[int32][]int64 {
	l, err := Open(dir, Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	s := l.Scanner(-1, ScanOptions{CheckCRC: true})
	defer s.Close()
	got := make(map[int32][]int64)
	for s.Next() {
		r := s.Record()
		require.Equal(t, fmt.Sprintf("body %d of queue %d", r.QueueOffset, r.QueueID), string(r.Body))
		got[r.QueueID] = append(got[r.QueueID], r.QueueOffset)
	}
	require.NoError(t, s.Err())
	return got
}

func TestConcurrentAppendsReadBackInOrder(t *testing.T) {
	for _, m := range testModes {
		t.Run(m.name, func(t *testing.T) {
			before := mmap.Mapped()
			dir := t.TempDir()
			const producers, each = 8, 100
			for round := range 2 {
				w, err := OpenWriter(testOptions(dir, m.sync, m.mode))
				require.NoError(t, err)
				var wg sync.WaitGroup
				for q := range producers {
					wg.Go(func() {
						for n := range each {
							if _, err := appendMessage(w, queueMessage(int32(q), int64(round*each+n))); err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				p := w.Positions()
				if m.sync {
					require.Equal(t, p.Wrote, p.Flushed)
				}
				require.NoError(t, w.Close())
				require.NoError(t, w.Close())
				_, err = appendMessage(w, queueMessage(0, 0))
				require.ErrorIs(t, err, ErrClosed)
			}
			got := recordsOf(t, dir)
			require.Len(t, got, producers)
			for q, offsets := range got {
				require.Len(t, offsets, 2*each)
				for i, n := range offsets {
					require.Equal(t, int64(i), n, "queue %d", q)
				}
			}
			q, err := mappedfile.Open(dir, mappedfile.Options{})
			require.NoError(t, err)
			require.NoError(t, q.Close())
			require.Equal(t, before, mmap.Mapped(), "mappings leaked")
		})
	}
}
