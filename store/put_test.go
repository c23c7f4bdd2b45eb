package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/message"
)

// A put stores what it was given, and answers where.
func TestPut(t *testing.T) {
	overBoth(t, putOptions(), func(t *testing.T, f *fixture) {
		for i := range 3 {
			m := newMessage("TopicA")
			m.QueueID, m.Flag, m.SysFlag, m.ReconsumeTimes = 1, 7, message.FlagMultiTags, 2
			before := *m
			r, err := f.Put(t.Context(), m)
			require.NoError(t, err)
			require.Equal(t, before, *m)
			rec := f.last(t)
			require.Equal(t, PutOK, r.Status)
			require.Equal(t, AppendOK, r.Append.Status)
			require.EqualValues(t, i, r.Append.QueueOffset)
			require.Equal(t, 1, r.Append.Count)
			require.Equal(t, rec.PhyOffset, r.Append.PhyOffset)
			require.EqualValues(t, rec.TotalSize, r.Append.Bytes)
			require.Equal(t, rec.StoreTimestampMs, r.Append.StoreTimestampMs)
			require.Equal(t, fmt.Sprintf("0A09080700002A9F%016X", rec.PhyOffset), r.MsgIDs())

			got := rec.Message()
			want := before
			want.QueueOffset, want.PhyOffset, want.StoreTimestampMs = int64(i), r.Append.PhyOffset, r.Append.StoreTimestampMs
			require.Equal(t, want, got)
		}
		require.EqualValues(t, 3, f.NextOffset("TopicA", 1))
		require.Zero(t, f.NextOffset("TopicA", 0))
		require.Zero(t, f.NextOffset("TopicB", 1))
	})
}

// Prepared and rolled back messages are in the log, in no queue, and take no offset.
func TestPutTransactionsTakeNoOffset(t *testing.T) {
	overBoth(t, putOptions(), func(t *testing.T, f *fixture) {
		for i, tx := range []int32{message.TransactionNone, message.TransactionPrepared, message.TransactionRollback, message.TransactionCommit} {
			m := newMessage("T")
			m.SysFlag, m.PreparedTransactionOffset = tx, 99
			r, err := f.Put(t.Context(), m)
			require.NoError(t, err)
			require.Equal(t, []int64{0, 0, 0, 1}[i], r.Append.QueueOffset)
			rec := f.last(t)
			require.Equal(t, r.Append.QueueOffset, rec.QueueOffset)
			require.EqualValues(t, 99, rec.PreparedTransactionOffset)
		}
		require.EqualValues(t, 2, f.NextOffset("T", 0))
	})
}

// W1: a record that no file can hold is refused before anything is taken; the largest that fits is stored. (RocketMQ answers
// PUT_OK with a message id and stores nothing.)
func TestW1RecordLargerThanAFile(t *testing.T) {
	overBoth(t, putOptions(), func(t *testing.T, f *fixture) {
		m := newMessage("T")
		size, err := m.EncodedSize()
		require.NoError(t, err)
		most := int(f.o.MappedFileSizeCommitLog) - 8 - size + len(m.Body)
		m.Body = bytes.Repeat([]byte{'x'}, most+1)
		reason := f.untouched(t, "T", PutMessageIllegal, func() (PutResult, error) { return f.Put(t.Context(), m) })
		require.Contains(t, reason, "65529 bytes, want at most 65528")
		m.Body = m.Body[:most]
		r, err := f.Put(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, f.o.MappedFileSizeCommitLog, r.Append.PhyOffset) // behind the filler of the first file
		_, err = f.Put(t.Context(), newMessage("T"))
		require.NoError(t, err)
		require.Len(t, f.records(t), 3)
	})
}

// FR-A01: the length of properties is checked in bytes, before anything is taken, and the record after a refused one is intact.
func TestFRA01PropertiesLength(t *testing.T) {
	for _, crc := range []bool{false, true} {
		for _, lmq := range []bool{false, true} {
			o := putOptions()
			o.EnabledAppendPropCRC, o.EnableLmq = crc, lmq
			t.Run(fmt.Sprintf("crc=%v/lmq=%v", crc, lmq), func(t *testing.T) {
				overBoth(t, o, func(t *testing.T, f *fixture) {
					m := newMessage("T")
					m.Properties = props("TAGS", "TagA", message.PropertyMultiDispatch, "%LMQ%a", "k", "")
					most := 32767
					if crc {
						most -= message.PropertyCRCSize
					}
					if lmq {
						most -= len(props(message.PropertyMultiQueueOffset, "0"))
					}
					m.Properties = append(bytes.TrimSuffix(m.Properties, []byte{2}), bytes.Repeat([]byte{'v'}, most-len(m.Properties))...)
					m.Properties = append(m.Properties, 2)
					require.Len(t, m.Properties, most)
					long := *m
					long.Properties = append(bytes.TrimSuffix(bytes.Clone(m.Properties), []byte{2}), 'v', 2)

					f.untouched(t, "T", PutPropertiesSizeExceeded, func() (PutResult, error) { return f.Put(t.Context(), &long) })
					r, err := f.Put(t.Context(), &long)
					require.Error(t, err)
					require.Equal(t, AppendPropertiesSizeExceeded, r.Append.Status)
					_, err = f.Put(t.Context(), m)
					require.NoError(t, err)
					rec := f.last(t)
					require.Len(t, rec.Properties, 32767)
					require.Equal(t, m.Properties, rec.Properties[:most])
				})
			})
		}
	}
}

// FR-A02, W28: one limit for topics, in bytes. 127 make a V1 record, 128 a V2 one where that is switched on; nothing wraps.
func TestFRA02W28TopicLength(t *testing.T) {
	for _, v2 := range []bool{true, false} {
		o := putOptions()
		o.AutoMessageVersionOnTopicLen = v2
		t.Run(fmt.Sprintf("v2=%v", v2), func(t *testing.T) {
			overBoth(t, o, func(t *testing.T, f *fixture) {
				for _, c := range []struct {
					topic string
					magic int32 // 0: refused
				}{
					{"", 0},
					{"t", message.MagicV1},
					{strings.Repeat("t", 127), message.MagicV1},
					{strings.Repeat("t", 128), message.MagicV2},
					{strings.Repeat("t", 255), message.MagicV2},
					{strings.Repeat("t", 256), 0},
					{strings.Repeat("ü", 63), message.MagicV1},
					{strings.Repeat("ü", 64), message.MagicV2}, // 64 characters, 128 bytes
					{strings.Repeat("ü", 128), 0},
				} {
					m := newMessage(c.topic)
					if c.magic == 0 || c.magic == message.MagicV2 && !v2 {
						f.untouched(t, c.topic, PutMessageIllegal, func() (PutResult, error) { return f.Put(t.Context(), m) })
						continue
					}
					_, err := f.Put(t.Context(), m)
					require.NoError(t, err)
					rec := f.last(t)
					require.Equal(t, c.topic, string(rec.Topic))
					require.Equal(t, c.magic, rec.Magic)
				}
			})
		})
	}
}

// FR-A03: properties are stored byte for byte; the store's own come behind them and fit exactly.
func TestFRA03PropertiesByteForByte(t *testing.T) {
	for _, crc := range []bool{false, true} {
		for _, lmq := range []bool{false, true} {
			o := putOptions()
			o.EnabledAppendPropCRC, o.EnableLmq = crc, lmq
			t.Run(fmt.Sprintf("crc=%v/lmq=%v", crc, lmq), func(t *testing.T) {
				overBoth(t, o, func(t *testing.T, f *fixture) {
					for i := range 12 { // the offsets grow a digit
						m := newMessage("T")
						m.Properties = props("b", "2", "a", "1", message.PropertyMultiDispatch, "%LMQ%x,%LMQ%y", "empty", "", "KEYS", "k1 k2")
						want := bytes.Clone(m.Properties)
						_, err := f.Put(t.Context(), m)
						require.NoError(t, err)
						if lmq {
							want = append(want, props(message.PropertyMultiQueueOffset, fmt.Sprintf("%d,%d", i, i))...)
						}
						rec := f.last(t)
						got := rec.Properties
						if crc {
							require.NoError(t, rec.VerifyPropertyCRC())
							got = got[:len(got)-message.PropertyCRCSize]
						}
						require.Equal(t, want, got)
					}
				})
			})
		}
	}
}

// FR-A05: one failed append leaves the store as it was, and the next put succeeds at once.
func TestFRA05NextPutAfterAFailedOne(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want PutStatus
	}{
		"no file":  {&commitlog.AllocateError{Err: errors.New("no space")}, PutCreateMappedFileFailed},
		"too busy": {&commitlog.BusyError{Reason: commitlog.BusyFlush}, PutOSPageCacheBusy},
		"closed":   {commitlog.ErrClosed, PutServiceNotAvailable},
		"failed":   {&commitlog.FailedError{Err: &commitlog.AllocateError{Err: errors.New("sync")}}, PutServiceNotAvailable},
		"size":     {&commitlog.SizeError{Bytes: 9, MaxBytes: 8}, PutMessageIllegal},
		"other":    {errors.New("other"), PutUnknownError},
	} {
		t.Run(name, func(t *testing.T) {
			o := putOptions()
			o.EnableLmq = true
			f := overSlice(o, 1)
			m := newMessage("T")
			m.Properties = props(message.PropertyMultiDispatch, "%LMQ%a")
			_, err := f.Put(t.Context(), m)
			require.NoError(t, err)
			f.slice.await = func(*commitlog.BusyError, time.Duration) bool { return false }
			f.untouched(t, "T", c.want, func() (PutResult, error) {
				f.slice.reserve = func() error { return c.err }
				defer func() { f.slice.reserve = nil }()
				new := *m
				new.Properties = props(message.PropertyMultiDispatch, "%LMQ%a,%LMQ%new")
				return f.Put(t.Context(), &new)
			})
			r, err := f.Put(t.Context(), m)
			require.NoError(t, err)
			require.EqualValues(t, 1, r.Append.QueueOffset)
			require.EqualValues(t, 2, f.NextOffset("%LMQ%a", 0))
			require.Zero(t, f.NextOffset("%LMQ%new", 0))
		})
	}
}

// A busy log is waited for with no lock held: another put of the same queue goes through meanwhile, and the one that waited
// gets the offset after it.
func TestPutWaitsForSpaceWithoutLocks(t *testing.T) {
	f := overSlice(putOptions(), 1)
	busy := &commitlog.BusyError{Reason: commitlog.BusyFile}
	f.slice.reserve = func() error { return busy }
	f.slice.await = func(got *commitlog.BusyError, timeout time.Duration) bool {
		require.Same(t, busy, got)
		require.Positive(t, timeout)
		require.LessOrEqual(t, timeout, f.o.OsPageCacheBusyTimeOutMills)
		f.slice.reserve = nil
		r, err := f.Put(t.Context(), newMessage("T"))
		require.NoError(t, err)
		require.Zero(t, r.Append.QueueOffset)
		return true
	}
	r, err := f.Put(t.Context(), newMessage("T"))
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Append.QueueOffset)
	require.EqualValues(t, 1, f.last(t).QueueOffset)
}

// The context bounds the wait, and what is in the log is not taken back.
func TestPutContext(t *testing.T) {
	f := overSlice(putOptions(), 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Put(ctx, newMessage("T"))
	require.NoError(t, err)
	f.slice.reserve = func() error { return &commitlog.BusyError{Reason: commitlog.BusyRing} }
	_, err = f.Put(ctx, newMessage("T"))
	require.ErrorIs(t, err, PutOSPageCacheBusy)
	require.ErrorIs(t, err, context.Canceled)
}

// With the option, a full write buffer is not waited for.
func TestPutFastFailIfNoBuffer(t *testing.T) {
	o := putOptions()
	o.FastFailIfNoBufferInStorePool = true
	f := overSlice(o, 1)
	f.slice.reserve = func() error { return &commitlog.BusyError{Reason: commitlog.BusyBuffer} }
	f.slice.await = func(*commitlog.BusyError, time.Duration) bool { panic("waits") }
	_, err := f.Put(t.Context(), newMessage("T"))
	require.ErrorIs(t, err, PutOSPageCacheBusy)
}

// What goes wrong once the place in the log is taken.
func TestPutStatusAfterTheReservation(t *testing.T) {
	for name, c := range map[string]struct {
		publish, flush error
		want           PutStatus
	}{
		"write failed":   {publish: &commitlog.FailedError{Err: errors.New("fault")}, want: PutUnknownError},
		"sync failed":    {flush: &commitlog.FailedError{Err: errors.New("fdatasync")}, want: PutUnknownError},
		"closed":         {flush: commitlog.ErrClosed, want: PutUnknownError},
		"flush too slow": {flush: commitlog.ErrFlushTimeout, want: PutFlushDiskTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			o := putOptions()
			o.FlushDiskType = SyncFlush
			f := overSlice(o, 1)
			if c.publish != nil {
				f.slice.publish = func() error { return c.publish }
			}
			f.slice.flush = func(*commitlog.Reservation) error { return c.flush }
			r, err := f.Put(t.Context(), newMessage("T"))
			require.ErrorIs(t, err, c.want)
			require.Equal(t, c.want, r.Status)
			if c.want.Stored() {
				require.Equal(t, AppendOK, r.Append.Status)
				require.Equal(t, "0A09080700002A9F0000000000000000", r.MsgIDs())
				require.Equal(t, "hello world", string(f.last(t).Body))
			}
			calls := 0
			f.PutFunc(t.Context(), newMessage("T"), func(again PutResult, err error) {
				calls++
				require.ErrorIs(t, err, c.want)
				require.Equal(t, r.Status, again.Status)
				require.Equal(t, r.Append.Status, again.Append.Status)
			})
			require.Equal(t, 1, calls)
		})
	}
}

// PutFunc does not wait for the disk, and tells those that do in the order in which they were put; who is refused, or does not want to wait, is told at once.
func TestPutFunc(t *testing.T) {
	o := putOptions()
	o.FlushDiskType = SyncFlush
	s := overFiles(t, o)
	var mu sync.Mutex
	var told []int64
	var done sync.WaitGroup
	const messages = 200
	for n := range messages {
		done.Add(1)
		put := s.PutFunc
		m := newMessage("T")
		if n%10 == 9 {
			put, m.Body = s.PutBatchFunc, batchBody(t, 3)
		}
		put(t.Context(), m, func(r PutResult, err error) {
			defer done.Done()
			mu.Lock()
			defer mu.Unlock()
			assert.NoError(t, err)
			told = append(told, r.Append.QueueOffset)
			assert.LessOrEqual(t, r.Append.PhyOffset+int64(r.Append.Bytes), s.Positions().Flushed)
		})
	}
	done.Wait()
	require.Len(t, told, messages)
	require.True(t, slices.IsSorted(told))
	refused := false
	s.PutFunc(t.Context(), newMessage(""), func(_ PutResult, err error) { refused = errors.Is(err, PutMessageIllegal) })
	require.True(t, refused)
	m := newMessage("T")
	m.Properties = props(message.PropertyWait, "false")
	stored := false
	s.PutFunc(t.Context(), m, func(_ PutResult, err error) { stored = err == nil })
	require.True(t, stored)
}

// Under synchronous flush a put waits for the disk unless the message does not want to.
func TestPutWaitsForFlush(t *testing.T) {
	for _, c := range []struct {
		flush FlushDiskType
		value string // of WAIT
		waits bool
	}{
		{SyncFlush, "", true},
		{SyncFlush, "true", true},
		{SyncFlush, "TRUE", true},
		{SyncFlush, "false", false},
		{SyncFlush, "no", false},
		{AsyncFlush, "true", false},
	} {
		for _, batch := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/wait=%s/batch=%v", c.flush, c.value, batch), func(t *testing.T) {
				o := putOptions()
				o.FlushDiskType = c.flush
				f := overSlice(o, 1)
				waited := false
				f.slice.flush = func(*commitlog.Reservation) error { waited = true; return nil }
				m := newMessage("T")
				if c.value != "" {
					m.Properties = props(message.PropertyWait, c.value)
				}
				put := f.Put
				if batch {
					m.Body, put = batchBody(t, 2), f.PutBatch
				}
				_, err := put(t.Context(), m)
				require.NoError(t, err)
				require.Equal(t, c.waits, waited)
				waited = false
				_, err = f.PutUnflushed(t.Context(), newMessage("T"))
				require.NoError(t, err)
				require.False(t, waited, "never")
			})
		}
	}
}

// Who takes no puts says why, and stores nothing.
func TestPutServiceNotAvailable(t *testing.T) {
	slave := putOptions()
	slave.BrokerRole = Slave
	for name, c := range map[string]struct {
		o       Options
		prepare func(*fixture)
		want    string
	}{
		"slave":       {slave, func(*fixture) {}, "the store is a SLAVE"},
		"closed":      {putOptions(), func(f *fixture) { require.NoError(t, f.Close()) }, "store is closed"},
		"disk full":   {putOptions(), func(f *fixture) { require.NoError(t, f.flags.Set(FlagDiskFull, "90 %")) }, "DISK_FULL"},
		"write error": {putOptions(), func(f *fixture) { require.NoError(t, f.flags.Set(FlagNotWriteable, "lost pages")) }, "lost pages"},
		"failure": {putOptions(), func(f *fixture) {
			f.slice.failure = &commitlog.FailedError{Err: errors.New("lost pages")}
			f.onFailure(f.slice.failure)
			f.background.Wait()
		}, "commit log has failed: lost pages"},
	} {
		t.Run(name, func(t *testing.T) {
			f := overSlice(c.o, 1)
			c.prepare(f)
			for _, put := range []func(context.Context, *message.Message) (PutResult, error){f.Put, f.PutBatch} {
				r, err := put(t.Context(), newMessage("T"))
				require.ErrorIs(t, err, PutServiceNotAvailable)
				require.ErrorContains(t, err, c.want)
				require.Equal(t, PutServiceNotAvailable, r.Status)
			}
			if name == "failure" {
				_, err := f.Put(t.Context(), newMessage("T"))
				require.ErrorIs(t, err, commitlog.ErrFailed)
			}
			require.Zero(t, f.Positions().Wrote)
		})
	}
}

// Eight producers over several queues: in each queue the offsets are 0 to n-1 in the order of places, also for batches and
// light queues, and every answer is the record's own.
func TestPutConcurrent(t *testing.T) {
	const producers, puts, queues = 8, 200, 5
	o := putOptions()
	o.EnableLmq = true
	o.TopicQueueLockNum = 4 // so that queues share stripes
	overBoth(t, o, func(t *testing.T, f *fixture) {
		var wg sync.WaitGroup
		errs := make(chan error, producers)
		answers := make([][]PutResult, producers)
		for p := range producers {
			wg.Go(func() {
				for i := range puts {
					m := newMessage(fmt.Sprintf("T%d", (p+i)%queues))
					m.QueueID = int32(i % 2)
					m.Body = fmt.Appendf(nil, "%d-%d", p, i)
					put := f.Put
					switch i % 4 {
					case 1:
						m.Properties = props(message.PropertyMultiDispatch, fmt.Sprintf("%%LMQ%%%d,%%LMQ%%%d", i%3, 3+p%3))
					case 2:
						m.Body, put = batchBody(t, 3), f.PutBatch
					}
					r, err := put(t.Context(), m)
					if err != nil {
						errs <- err
						return
					}
					answers[p] = append(answers[p], r)
				}
			})
		}
		wg.Wait()
		close(errs)
		require.NoError(t, <-errs)

		next := make(map[queueKey]int64)
		byPlace := make(map[int64]message.Record)
		for _, r := range f.records(t) {
			byPlace[r.PhyOffset] = r
			k := queueKey{string(r.Topic), r.QueueID}
			require.Equal(t, next[k], r.QueueOffset, "%v at %d", k, r.PhyOffset)
			next[k]++
			r.MultiDispatch(func(name []byte, id int32, offset int64, ok bool) bool {
				k := queueKey{string(name), id}
				require.True(t, ok)
				require.Equal(t, next[k], offset, "%v at %d", k, r.PhyOffset)
				next[k]++
				return true
			})
		}
		require.Len(t, next, 2*queues+6)
		for k, n := range next {
			require.Equal(t, n, f.NextOffset(k.topic, k.id), "%v", k)
		}
		require.EqualValues(t, 6, f.offsets.light.Load())
		stored := 0
		for p := range producers {
			for _, r := range answers[p] {
				rec := byPlace[r.Append.PhyOffset]
				require.Equal(t, r.Append.QueueOffset, rec.QueueOffset)
				require.Equal(t, r.Append.StoreTimestampMs, rec.StoreTimestampMs)
				stored += r.Append.Count
			}
		}
		require.Len(t, byPlace, stored)
	})
}

// TestPutWithoutWaitIsInTheFile: under synchronous flush a message with WAIT=false is not durable when Put returns, but it is the system's, whatever
// becomes of the process.
func TestPutWithoutWaitIsInTheFile(t *testing.T) {
	for name, set := range map[string]func(*Options){
		"staged": func(*Options) {},
		"mmap":   func(o *Options) { o.SyncFlushWriteMode = SyncWriteMapped },
		"pwrite": func(o *Options) { o.WriteWithoutMmap = true },
	} {
		t.Run(name, func(t *testing.T) {
			o := putOptions()
			o.FlushDiskType = SyncFlush
			o.FlushIntervalCommitLog = time.Hour
			set(&o)
			s := openStore(t, t.TempDir(), o)
			m := newMessage("T")
			m.Properties = message.AppendProperty(nil, message.PropertyWait, "false")
			r, err := s.Put(t.Context(), m)
			require.NoError(t, err)
			p := s.Positions()
			require.Equal(t, r.Append.PhyOffset+int64(r.Append.Bytes), p.Committed)
			require.Less(t, p.Flushed, p.Committed)
			require.NoError(t, s.Close())
		})
	}
}
