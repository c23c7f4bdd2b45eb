package commitlog

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/message"
)

// forModes runs f for each way to write, with a log in memory.
func forModes(t *testing.T, f func(t *testing.T, fsys *faultfs.FS, o WriterOptions)) {
	for _, m := range testModes {
		t.Run(m.name, func(t *testing.T) {
			fsys := faultfs.New(faultfs.Options{})
			f(t, fsys, lossOptions(fsys, m.sync, m.mode))
			requireNothingOpen(t, fsys)
		})
	}
}

func openWriter(t *testing.T, o WriterOptions) *Writer {
	t.Helper()
	w, err := OpenWriter(o)
	require.NoError(t, err)
	return w
}

// countingLock counts how often it is taken.
type countingLock struct {
	sync.Mutex
	n atomic.Int64
}

func (l *countingLock) Lock() {
	l.n.Add(1)
	l.Mutex.Lock()
}

func TestW1OversizeIsRefusedBeforeTheLock(t *testing.T) {
	forModes(t, func(t *testing.T, fsys *faultfs.FS, o WriterOptions) {
		lock := new(countingLock)
		o.PutLock = lock
		w := openWriter(t, o)
		before := w.Positions()
		locked := lock.n.Load()
		for _, size := range []int64{o.FileSize - 7, o.FileSize, o.FileSize + 1, math.MaxInt32, math.MaxInt64, 0, -1, math.MinInt64} {
			var se *SizeError
			require.ErrorAs(t, w.Reserve(new(Reservation), int(size)), &se)
			require.Equal(t, &SizeError{Bytes: size, MaxBytes: o.FileSize - 8}, se)
		}
		require.Equal(t, locked, lock.n.Load())
		require.Equal(t, before, w.Positions())
		require.Zero(t, w.Stats().Rolls, "files were burnt")

		largest := spacedRecord(t, 0, o.FileSize-8)
		r := new(Reservation)
		require.NoError(t, w.Reserve(r, len(largest)))
		require.NoError(t, w.Publish(r, func(dst []byte) error { copy(dst, largest); return nil }))
		l := newLedger()
		require.NoError(t, l.append(w, queueMessage(0, 0)))
		require.NoError(t, w.Close())
		log, err := Open(lossDir, Options{FS: fsys})
		require.NoError(t, err)
		require.Equal(t, []int64{0, o.FileSize}, scan(t, log, -1, ScanOptions{CheckCRC: true}).records)
		require.NoError(t, log.Close())
	})
}

// However little memory there is for the pool, every file of it is committed and read.
func TestW2ReadersFollowAPoolThatIsExhausted(t *testing.T) {
	forModes(t, func(t *testing.T, fsys *faultfs.FS, o WriterOptions) {
		if o.Mode == WriteMapped {
			t.Skip("collects nothing in memory")
		}
		o.BufferBytes = 1 // less than any record
		w := openWriter(t, o)
		l := newLedger()
		for n := range 40 {
			require.NoError(t, l.append(w, lossMessage(0, int64(n))))
		}
		require.Greater(t, w.Stats().Rolls, int64(3))
		require.NoError(t, l.flush(w))
		require.Equal(t, w.Positions().Wrote, w.Positions().Committed)
		require.Len(t, scan(t, w.Log(), -1, ScanOptions{CheckCRC: true}).records, 40)
		require.NoError(t, w.Close())
	})
}

// Whatever the memory held before from which records are written, nothing of it gets into files: not behind the last record, and not behind a filler.
// After a copy of the files at any moment there is no record that nobody put.
func TestW6BytesBehindRecordsAreZeros(t *testing.T) {
	forModes(t, func(t *testing.T, fsys *faultfs.FS, o WriterOptions) {
		w := openWriter(t, o)
		l := newLedger()
		moments := watch(fsys, l)
		for n := range 60 {
			require.NoError(t, l.append(w, lossMessage(0, int64(n))))
			if n%3 == 2 {
				require.NoError(t, l.flush(w)) // memory is used again
			}
		}
		require.NoError(t, w.Close())
		all := moments()
		if o.Mode == WriteMapped {
			all = nil // something may be half encoded
		}
		for i, m := range append(all, moment{fsys: fsys}) {
			if i < len(all) && i%sweepStep != 0 {
				continue
			}
			end := l.scan(t, m.fsys, m.durable)
			require.Equal(t, EndClean, end.Kind, "at %v: %v", m.op, end.Reason)
			log, err := Open(lossDir, Options{FS: m.fsys})
			require.NoError(t, err)
			for _, f := range log.queue.Files() {
				data, err := f.Hold()
				require.NoError(t, err)
				var r message.Record
				at := 0
				for r.Decode(data[at:], true) == nil {
					at += int(r.TotalSize)
				}
				if size, blank := message.BlankSize(data[at:]); blank && int(size) == len(data)-at {
					at += message.BlankHeaderSize
				}
				require.Equal(t, int64(len(data)-at), leadingZeros(data[at:]), "%s behind %d", f.Path(), at)
				f.Release()
			}
			require.NoError(t, log.Close())
		}
	})
}

// A full disk refuses puts; what was accepted is made durable all the same.
func TestW9FullDiskDoesNotKeepAcceptedDataFromTheDisk(t *testing.T) {
	for _, m := range testModes {
		t.Run(m.name, func(t *testing.T) {
			fsys := faultfs.New(faultfs.Options{Capacity: 3 * 4 * faultfs.PageBytes})
			w := openWriter(t, lossOptions(fsys, m.sync, m.mode))
			l := newLedger()
			var err error
			for n := int64(0); err == nil; n++ {
				err = l.append(w, lossMessage(0, n))
			}
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.ErrorIs(t, err, ErrAllocate)
			require.NoError(t, w.Failure(), "space was reserved, nothing of it can fail (W40)")
			require.NoError(t, w.Flush())
			p := w.Positions()
			require.Greater(t, p.Wrote, int64(2*4*faultfs.PageBytes), "all space is used")
			require.Equal(t, p.Wrote, p.Flushed)
			l.scan(t, fsys.CrashSeed(0), p.Wrote)
			require.NoError(t, w.Close())
			requireNothingOpen(t, fsys)
		})
	}
}

// While the next file is being made the put lock is free: what fits into the current file goes on, what does not is told to wait.
func TestW14PutsGoOnWhileTheNextFileIsMade(t *testing.T) {
	for _, m := range testModes {
		t.Run(m.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				fsys := faultfs.New(faultfs.Options{})
				g := gate{kind: faultfs.Create}
				w := openWriter(t, lossOptions(fsys, m.sync, m.mode))
				time.Sleep(time.Second)
				fsys.Inject(g.pass)
				g.close()
				l := newLedger()
				large := lossMessage(0, 5)
				size, err := large.EncodedSize()
				require.NoError(t, err)
				var busy *BusyError
				var r Reservation
				for !errors.As(err, &busy) {
					if err = w.Reserve(&r, size); err == nil {
						require.NoError(t, w.Publish(&r, filling(&r, large)))
					}
				}
				require.Equal(t, BusyFile, busy.Reason)
				require.NoError(t, l.append(w, queueMessage(0, 0)), "a small one fits")
				require.NoError(t, w.Flush())
				synctest.Wait() // nothing that becomes committed wakes anybody
				start := time.Now()
				require.ErrorIs(t, w.Reserve(&r, size), ErrBusy)
				require.Zero(t, time.Since(start))
				require.False(t, w.AwaitSpace(busy, time.Second))
				require.Equal(t, time.Second, time.Since(start))

				reserved := make(chan error)
				go func() {
					err := w.Reserve(&r, size)
					for errors.Is(err, ErrBusy) && w.AwaitSpace(busy, time.Hour) {
						err = w.Reserve(&r, size)
					}
					reserved <- err
				}()
				synctest.Wait()
				require.NoError(t, l.append(w, queueMessage(0, 1)), "others go on while one waits")
				g.open()
				require.NoError(t, <-reserved)
				require.NoError(t, w.Publish(&r, filling(&r, large)))
				require.NoError(t, w.Close())
				require.True(t, w.AwaitSpace(busy, time.Hour), "the end is for Reserve to tell")
				require.ErrorIs(t, w.Reserve(&r, size), ErrClosed)
				requireNothingOpen(t, fsys)
			})
		})
	}
}

// Opening for writing believes no record that does not stand where it says.
func TestW20RecordOfAnotherPlaceIsNoRecord(t *testing.T) {
	forModes(t, func(t *testing.T, fsys *faultfs.FS, o WriterOptions) {
		w := openWriter(t, o)
		l := newLedger()
		for n := range 3 {
			require.NoError(t, l.append(w, queueMessage(0, int64(n))))
		}
		require.NoError(t, w.Close())
		end := w.Positions().Wrote
		h, err := fsys.OpenFile(lossDir+"/00000000000000000000", syscall.O_RDWR, 0)
		require.NoError(t, err)
		first := l.mu.put[0]
		_, err = h.WriteAt(first, end)
		require.NoError(t, err)
		require.NoError(t, h.Close())

		w = openWriter(t, o)
		require.Equal(t, end, w.Positions().Wrote)
		l.mu.put[end] = nil
		require.NoError(t, w.Flush())
		require.Equal(t, EndClean, l.scan(t, fsys.CrashSeed(0), end).Kind, "cut durably (FR-B15)")
		require.NoError(t, w.Close())
	})
}

func TestW24W25ReadsOfALiveLogVerifyTheirArguments(t *testing.T) {
	forModes(t, func(t *testing.T, _ *faultfs.FS, o WriterOptions) {
		w := openWriter(t, o)
		l := newLedger()
		for n := range 3 {
			require.NoError(t, l.append(w, queueMessage(0, int64(n))))
		}
		require.NoError(t, l.flush(w))
		hidden := reserve(t, w, queueMessage(0, 4)) // filled and not published
		behind := reserve(t, w, queueMessage(0, 5))
		filled, published := make(chan struct{}), make(chan struct{})
		done := make(chan error)
		go func() {
			done <- w.Publish(hidden, func(dst []byte) error {
				err := filling(hidden, queueMessage(0, 4))(dst)
				close(filled)
				<-published
				return err
			})
		}()
		<-filled
		committed := w.Positions().Committed
		var rec message.Record
		for _, c := range []struct {
			phy  int64
			size int32
			want error
		}{
			{-1, 0, ErrOffsetOutOfRange},
			{math.MinInt64, 100, ErrOffsetOutOfRange},
			{math.MaxInt64, math.MaxInt32, ErrOffsetOutOfRange},
			{committed, 0, ErrOffsetOutOfRange},
			{hidden.PhyOffset, 0, ErrOffsetOutOfRange},
			{committed - 1, 100, ErrOffsetOutOfRange},
			{0, math.MaxInt32, ErrOffsetOutOfRange},
			{committed - 1, 0, ErrCorrupt},
			{1, 0, ErrCorrupt},
			{0, 91, ErrCorrupt},
			{100, 100, ErrCorrupt}, // in the midst of a record: any four bytes are a size
		} {
			_, err := w.Log().Read(c.phy, c.size, true, &rec)
			require.ErrorIs(t, err, c.want, "%+v", c)
		}
		for _, from := range []int64{hidden.PhyOffset, math.MaxInt64, behind.PhyOffset} {
			got := scan(t, w.Log(), from, ScanOptions{})
			require.Empty(t, got.records)
			if from > committed {
				require.ErrorIs(t, got.err, ErrOffsetOutOfRange)
			}
		}
		require.Equal(t, EndCorrupt, scan(t, w.Log(), 1, ScanOptions{}).end.Kind)
		got := scan(t, w.Log(), math.MinInt64, ScanOptions{To: math.MaxInt64})
		require.NoError(t, got.err)
		require.Equal(t, committed, got.end.Offset)
		close(published)
		require.NoError(t, w.Publish(behind, filling(behind, queueMessage(0, 5))))
		require.NoError(t, <-done)
		require.NoError(t, w.Close())
	})
}

// Records of the second version, which long topics need, are found like any other when the log is opened.
func TestW27RecordsOfTheSecondVersionCount(t *testing.T) {
	forModes(t, func(t *testing.T, fsys *faultfs.FS, o WriterOptions) {
		w := openWriter(t, o)
		l := newLedger()
		o.NowMs = func() int64 { return 1 }
		for n := range 20 {
			m := lossMessage(0, int64(n))
			if n%3 > 0 || n == 19 {
				m.Topic = strings.Repeat("long", 50)
			}
			require.NoError(t, l.append(w, m))
		}
		require.NoError(t, w.Close())
		end := w.Positions().Wrote
		w = openWriter(t, o)
		require.Equal(t, end, w.Positions().Wrote)
		require.Len(t, scan(t, w.Log(), -1, ScanOptions{CheckCRC: true}).records, 20)
		m := queueMessage(0, 20)
		require.NoError(t, l.append(w, m))
		require.Greater(t, m.StoreTimestampMs, int64(1), "the last store time was found")
		require.NoError(t, w.Close())
	})
}

// A write that did a part is no write: nothing of it counts as committed, it is not completed behind the back of who was refused,
// and the next writer cuts the part off.
func TestW38ShortWriteIsAFailure(t *testing.T) {
	forModes(t, func(t *testing.T, fsys *faultfs.FS, o WriterOptions) {
		if o.Mode == WriteMapped {
			t.Skip("writes nothing")
		}
		w := openWriter(t, o)
		l := newLedger()
		require.NoError(t, l.append(w, queueMessage(0, 0)))
		require.NoError(t, l.flush(w))
		committed := w.Positions().Committed
		var writes atomic.Int64
		fsys.Inject(func(op faultfs.Op) error {
			if op.Kind == faultfs.WriteAt {
				writes.Add(1)
				return &faultfs.Partial{N: 100, Err: syscall.ENOSPC}
			}
			return nil
		})
		err := l.append(w, queueMessage(0, 1))
		if o.Mode != WritePooled || o.SyncFlush {
			require.ErrorIs(t, err, syscall.ENOSPC)
		}
		require.ErrorIs(t, w.Flush(), syscall.ENOSPC)
		require.ErrorIs(t, w.Close(), ErrFailed)
		require.Equal(t, committed, w.Positions().Committed)
		require.EqualValues(t, 1, writes.Load())
		fsys.Inject(func(faultfs.Op) error { return nil })
		require.Equal(t, EndTorn, l.scan(t, fsys, committed).Kind)
		w = openWriter(t, o)
		require.Equal(t, committed, w.Positions().Wrote)
		require.NoError(t, w.Close())
		require.Equal(t, EndClean, l.scan(t, fsys, committed).Kind)
	})
}

// With several directories there is one file of a name, whichever of them was full at which moment, also over restarts.
func TestW39OneFileOfANameInAllDirectories(t *testing.T) {
	forModes(t, func(t *testing.T, fsys *faultfs.FS, o WriterOptions) {
		o.MoreDirs = []string{"/b", "/c"}
		var n atomic.Int64
		o.DirFull = func(string) bool { return n.Add(1)%4 == 0 } // another one for each file
		l := newLedger()
		var w *Writer
		for round := range 4 {
			w = openWriter(t, o)
			for n := range 20 {
				require.NoError(t, l.append(w, lossMessage(int32(round), int64(n))))
			}
			require.NoError(t, w.Close())
		}
		names := make(map[string]string)
		for _, dir := range []string{lossDir, "/b", "/c"} {
			infos, err := fsys.ReadDir(dir)
			require.NoError(t, err)
			require.NotEmpty(t, infos, dir)
			for _, info := range infos {
				require.Empty(t, names[info.Name()], "%s is in %s too", info.Name(), dir)
				names[info.Name()] = dir
			}
		}
		w = openWriter(t, o)
		require.Len(t, scan(t, w.Log(), -1, ScanOptions{CheckCRC: true}).records, 80)
		require.NoError(t, w.Close())
	})
}

// Every file has its blocks before a byte is put into it, also one that another writer left sparse.
func TestW40BlocksAreReservedBeforeTheyAreNeeded(t *testing.T) {
	forModes(t, func(t *testing.T, fsys *faultfs.FS, o WriterOptions) {
		fsys.MkdirAll(lossDir)
		h, err := fsys.OpenFile(lossDir+"/00000000000000000000", syscall.O_RDWR|syscall.O_CREAT, 0o644)
		require.NoError(t, err)
		require.NoError(t, h.Truncate(o.FileSize))
		require.NoError(t, h.Close())
		_, before, err := fsys.Usage("/")
		require.NoError(t, err)
		w := openWriter(t, o)
		l := newLedger()
		for n := range 12 {
			require.NoError(t, l.append(w, lossMessage(0, int64(n))))
			_, free, err := fsys.Usage("/")
			require.NoError(t, err)
			require.GreaterOrEqual(t, before-free, w.Positions().Wrote/o.FileSize*o.FileSize+o.FileSize)
		}
		require.NoError(t, w.Close())
	})
	t.Run("the first file of a full disk", func(t *testing.T) {
		fsys := faultfs.New(faultfs.Options{Capacity: faultfs.PageBytes})
		_, err := OpenWriter(lossOptions(fsys, false, WriteMapped))
		require.ErrorIs(t, err, syscall.ENOSPC)
		infos, err := fsys.ReadDir(lossDir)
		require.NoError(t, err)
		require.Empty(t, infos)
		requireNothingOpen(t, fsys)
	})
}

// Store times never go back in a log, whatever the clock does, over restarts too.
func TestW45StoreTimesNeverGoBack(t *testing.T) {
	forModes(t, func(t *testing.T, fsys *faultfs.FS, o WriterOptions) {
		clock := []int64{5000, 5001, 4000, 5002, 1, 6000, 5999}
		var at int
		o.NowMs = func() int64 { return clock[at] }
		l := newLedger()
		for range 2 {
			w := openWriter(t, o)
			for i := range clock {
				at = i
				require.NoError(t, l.append(w, queueMessage(0, int64(i))))
			}
			require.NoError(t, w.Close())
		}
		log, err := Open(lossDir, Options{FS: fsys})
		require.NoError(t, err)
		s := log.Scanner(-1, ScanOptions{})
		var got []int64
		for s.Next() {
			got = append(got, s.Record().StoreTimestampMs)
		}
		s.Close()
		require.NoError(t, log.Close())
		require.Equal(t, []int64{5000, 5001, 5001, 5002, 5002, 6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000}, got)
	})
}

// Zero is a checksum like any other: a flipped bit in a body that has it is noticed by reads, and by the next writer.
func TestFRA04ZeroIsAnOrdinaryChecksum(t *testing.T) {
	for _, body := range []string{"abki9136", "abnh9zvg"} {
		t.Run(body, func(t *testing.T) {
			forModes(t, func(t *testing.T, fsys *faultfs.FS, o WriterOptions) {
				w := openWriter(t, o)
				l := newLedger()
				m := queueMessage(0, 0)
				m.Body = []byte(body)
				require.NoError(t, l.append(w, m))
				require.NoError(t, l.flush(w))
				var r message.Record
				release, err := w.Log().Read(0, 0, true, &r)
				require.NoError(t, err)
				require.Zero(t, r.BodyCRC)
				at := int64(bytes.Index(r.Raw, m.Body))
				release()

				h, err := fsys.OpenFile(lossDir+"/00000000000000000000", syscall.O_RDWR, 0)
				require.NoError(t, err)
				_, err = h.WriteAt([]byte{body[0] ^ 1}, at)
				require.NoError(t, err)
				require.NoError(t, h.Close())
				_, err = w.Log().Read(0, 0, true, &r)
				require.ErrorIs(t, err, ErrCorrupt)
				require.NoError(t, w.Close())
				w = openWriter(t, o)
				require.Zero(t, w.Positions().Wrote)
				require.NoError(t, w.Close())
			})
		})
	}
}

// A put that is refused leaves nothing behind: no lock that is held, no place in the ring, no bytes.
func TestFRA05RefusedPutLeavesNothingBusy(t *testing.T) {
	forModes(t, func(t *testing.T, _ *faultfs.FS, o WriterOptions) {
		w := openWriter(t, o)
		l := newLedger()
		for range 2 * ringSize {
			require.ErrorIs(t, w.Reserve(new(Reservation), math.MaxInt32), ErrSize)
			require.ErrorIs(t, w.AppendRaw(5, rawRecord(t, 5, 1)), ErrPosition)
		}
		require.Zero(t, w.Positions().Wrote)
		require.NoError(t, l.append(w, queueMessage(0, 0)))
		require.Eventually(t, func() bool { return w.PutLockHeld() == 0 }, time.Minute, time.Millisecond)
		require.Zero(t, w.Stats().SlowHolds)
		require.NoError(t, w.Close())
	})
}

// Nobody reads what is still in memory, nor calls it damage (FR-A09); who follows the log comes to a clean end at what was written
// and goes on from there (FR-A12).
func TestFRA09FRA12FollowerWaitsAtWhatIsWritten(t *testing.T) {
	forModes(t, func(t *testing.T, _ *faultfs.FS, o WriterOptions) {
		o.CommitOnPut = false
		w := openWriter(t, o)
		var from int64
		var seen int
		follow := func() {
			t.Helper()
			for { // a scan ends at a filler that was not followed by a file when it began
				s := w.Log().Scanner(from, ScanOptions{CheckCRC: true})
				n := 0
				for s.Next() {
					require.EqualValues(t, seen, s.Record().QueueOffset)
					seen++
					n++
				}
				require.NoError(t, s.Err())
				require.Equal(t, EndClean, s.End().Kind)
				from = s.End().Offset
				s.Close()
				if n == 0 {
					return
				}
			}
		}
		for n := range 40 {
			m := lossMessage(0, int64(n))
			r := reserve(t, w, m)
			require.NoError(t, w.Publish(r, filling(r, m)))
			follow()
			if o.Mode == WritePooled || w.staging != nil && o.SyncFlush {
				require.Equal(t, w.Positions().Committed, from)
				var rec message.Record
				_, err := w.Log().Read(r.PhyOffset, 0, true, &rec)
				require.ErrorIs(t, err, ErrOffsetOutOfRange)
			} else {
				require.Equal(t, n+1, seen)
			}
			if n%4 == 3 {
				require.NoError(t, w.Flush())
				follow()
				require.Equal(t, n+1, seen)
				require.Equal(t, w.Positions().Wrote, from)
			}
		}
		require.NoError(t, w.Close())
	})
}
