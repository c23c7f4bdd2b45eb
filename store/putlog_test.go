package store

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/message"
)

// sliceLog is a log in a Go slice, so that the race detector sees what puts store. It reserves, fills and publishes as the
// real one does, rolls from file to file, and does what its hooks say.
type sliceLog struct {
	fileSize int64
	data     []byte // as long as all of it may become

	mu struct {
		sync.Mutex
		wrote, storeMs int64
		sizes          map[*commitlog.Reservation]int
		closed         bool
	}

	reserve func() error // before anything is taken
	publish func() error // instead of filling
	await   func(busy *commitlog.BusyError, timeout time.Duration) bool
	flush   func(*commitlog.Reservation) error
	failure error
}

func newSliceLog(o Options, files int64) *sliceLog {
	l := &sliceLog{fileSize: o.MappedFileSizeCommitLog, data: make([]byte, files*o.MappedFileSizeCommitLog)}
	l.mu.sizes = make(map[*commitlog.Reservation]int)
	l.mu.storeMs = 1_700_000_000_000
	return l
}

func (l *sliceLog) Reserve(r *commitlog.Reservation, size int) error {
	if l.reserve != nil {
		if err := l.reserve(); err != nil {
			return err
		}
	}
	if most := l.fileSize - message.BlankHeaderSize; int64(size) > most {
		return &commitlog.SizeError{Bytes: int64(size), MaxBytes: most}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return commitlog.ErrClosed
	}
	if left := l.fileSize - l.mu.wrote%l.fileSize; int64(size)+message.BlankHeaderSize > left {
		message.AppendBlank(l.data[l.mu.wrote:l.mu.wrote], int32(left))
		l.mu.wrote += left
	}
	l.mu.storeMs++
	r.PhyOffset, r.StoreTimestampMs = l.mu.wrote, l.mu.storeMs
	l.mu.sizes[r] = size
	l.mu.wrote += int64(size)
	return nil
}

func (l *sliceLog) AwaitSpace(busy *commitlog.BusyError, timeout time.Duration) bool {
	return l.await(busy, timeout)
}

func (l *sliceLog) Publish(r *commitlog.Reservation, fill func([]byte) error) error {
	l.mu.Lock()
	size := l.mu.sizes[r]
	delete(l.mu.sizes, r)
	l.mu.Unlock()
	if l.publish != nil {
		return l.publish()
	}
	return fill(l.data[r.PhyOffset:][:size:size])
}

// Commit has nothing to do: it is all one memory.
func (l *sliceLog) Commit(*commitlog.Reservation) error { return nil }

func (l *sliceLog) AwaitFlush(r *commitlog.Reservation) error {
	if l.flush == nil {
		return nil
	}
	return l.flush(r)
}

func (l *sliceLog) AwaitFlushFunc(r *commitlog.Reservation, done func(error)) { done(l.AwaitFlush(r)) }

func (l *sliceLog) Failure() error { return l.failure }

func (l *sliceLog) Positions() commitlog.Positions {
	l.mu.Lock()
	defer l.mu.Unlock()
	return commitlog.Positions{Wrote: l.mu.wrote, Committed: l.mu.wrote}
}

func (l *sliceLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.closed = true
	return nil
}

// putOptions are small: files of 64 KiB, nothing is brought in ahead, and the log is all there is. Whatever the machine's disk has, there is room.
func putOptions() Options {
	o := DefaultOptions()
	o.hooks.usage = func(string) (total, free int64, err error) { return 100, 90, nil }
	o.MappedFileSizeCommitLog = 64 << 10
	o.PreallocateAheadBytes = 0
	o.BuildConsumeQueues = false
	return o
}

// fixture is a store and a way to read its log back.
type fixture struct {
	*Store
	slice *sliceLog // nil: a real one
	root  string
}

// overSlice makes a store over a sliceLog of so many files.
func overSlice(o Options, files int64) *fixture {
	s := newStore(o)
	l := newSliceLog(o, files)
	s.log = l
	s.abort.found = true // there is none to be removed
	return &fixture{Store: s, slice: l}
}

// overFiles opens a store in a directory of the test.
func overFiles(t *testing.T, o Options) *fixture {
	t.Helper()
	root := t.TempDir()
	s, err := Open(root, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &fixture{Store: s, root: root}
}

// overBoth runs a test over the slice and over real files.
func overBoth(t *testing.T, o Options, test func(t *testing.T, f *fixture)) {
	t.Helper()
	t.Run("log=slice", func(t *testing.T) { test(t, overSlice(o, 128)) })
	t.Run("log=files", func(t *testing.T) { test(t, overFiles(t, o)) })
}

// records reads the whole log back, with all checksums, and requires that it ends cleanly where the last put ended.
func (f *fixture) records(t *testing.T) (all []message.Record) {
	t.Helper()
	if f.slice == nil {
		scan := f.Log().Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
		defer scan.Close()
		for scan.Next() {
			r := *scan.Record()
			var c message.Record
			require.NoError(t, c.Decode(append([]byte(nil), r.Raw...), true))
			all = append(all, c)
		}
		require.NoError(t, scan.Err())
		require.Equal(t, f.Positions().Wrote, scan.End().Offset)
		return all
	}
	end := f.Positions().Wrote
	for at := int64(0); at < end; {
		var r message.Record
		b := f.slice.data[at : at-at%f.slice.fileSize+f.slice.fileSize]
		if size, ok := message.BlankSize(b); ok {
			require.Len(t, b, int(size))
			at += int64(size)
			continue
		}
		require.NoError(t, r.Decode(b, true), "physical offset %d", at)
		require.Equal(t, at, r.PhyOffset)
		all = append(all, r)
		at += int64(r.TotalSize)
	}
	return all
}

// last returns the last record.
func (f *fixture) last(t *testing.T) message.Record {
	t.Helper()
	all := f.records(t)
	require.NotEmpty(t, all)
	return all[len(all)-1]
}

// untouched requires that a put, which test makes, is refused with status and leaves no trace: the log's end and the next
// offset of the queue are as they were, and the next put goes there. It returns the reason.
func (f *fixture) untouched(t *testing.T, topic string, want PutStatus, put func() (PutResult, error)) (reason string) {
	t.Helper()
	next, end, light := f.NextOffset(topic, 0), f.Positions().Wrote, f.offsets.light.Load()
	r, err := put()
	require.Equal(t, want, PutStatusOf(err), "%v", err)
	require.Equal(t, want, r.Status)
	require.Empty(t, r.MsgIDs())
	var pe *PutError
	require.ErrorAs(t, err, &pe)
	require.Error(t, pe.Err)
	require.Equal(t, next, f.NextOffset(topic, 0))
	require.Equal(t, end, f.Positions().Wrote)
	require.Equal(t, light, f.offsets.light.Load())

	ok := newMessage("After")
	after := f.NextOffset("After", 0)
	r, err = f.Put(t.Context(), ok)
	require.NoError(t, err)
	require.Equal(t, after, r.Append.QueueOffset)
	rec := f.last(t)
	require.Equal(t, r.Append.PhyOffset, rec.PhyOffset)
	require.Equal(t, "After", string(rec.Topic))
	return pe.Err.Error()
}

var (
	bornHost  = message.Host{Addr: netip.MustParseAddr("10.1.2.3"), Port: 4567}
	storeHost = message.Host{Addr: netip.MustParseAddr("10.9.8.7"), Port: 10911}
)

// newMessage returns a small message for queue 0 of a topic.
func newMessage(topic string) *message.Message {
	return &message.Message{
		Topic: topic, BornTimestampMs: 1_700_000_000_000, BornHost: bornHost, StoreHost: storeHost,
		Body: []byte("hello world"), Properties: props("TAGS", "TagA"),
	}
}

// props makes a property string of names and values.
func props(pairs ...string) (p []byte) {
	for i := 0; i < len(pairs); i += 2 {
		p = message.AppendProperty(p, pairs[i], pairs[i+1])
	}
	return p
}

// prop returns a property's value, "" for none.
func prop(r *message.Record, name string) string {
	v, _ := r.Property(name)
	return string(v)
}
