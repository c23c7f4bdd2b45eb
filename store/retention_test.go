package store

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// world is what retention sees in a test: a clock, a disk, and a log book.
type world struct {
	mu    sync.Mutex
	at    time.Time
	used  map[string]int64 // percent, by the last element of the directory
	lines []string
}

// newWorld has empty disks, at five past noon a hundred hours from now.
func newWorld() *world {
	noon := time.Now().Add(100 * time.Hour)
	noon = time.Date(noon.Year(), noon.Month(), noon.Day(), 12, 5, 0, 0, time.Local)
	return &world{at: noon, used: map[string]int64{}}
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func (w *world) set(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = at
}

// fill sets how full the disks of log and queues are.
func (w *world) fill(percent int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = map[string]int64{"commitlog": percent, "consumequeue": percent}
}

func (w *world) usage(dir string) (total, free int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return 1000, 1000 - 10*w.used[filepath.Base(dir)], nil
}

// Write takes a line of the log book.
func (w *world) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, strings.TrimSpace(string(b)))
	return len(b), nil
}

// said returns the lines with that message, and forgets all.
func (w *world) said(msg string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := slices.DeleteFunc(w.lines, func(l string) bool { return !strings.Contains(l, "msg="+`"`+msg+`"`) })
	w.lines = nil
	return lines
}

// in makes the options of a store that lives in the world, and whose retention runs when the test says so.
func (w *world) in(o Options) Options {
	o.hooks = retentionHooks{now: w.now, usage: w.usage, still: true}
	o.Logger = slog.New(slog.NewTextHandler(w, nil))
	o.DeleteCommitLogFilesInterval, o.DeleteConsumeQueueFilesInterval = time.Millisecond, time.Millisecond
	return o
}

// fillLog puts messages until the log has so many whole files, and waits until all is dispatched.
func fillLog(t *testing.T, s *Store, files int64) {
	t.Helper()
	for s.Positions().Wrote <= s.Log().MinOffset()+files*s.o.MappedFileSizeCommitLog {
		putSome(t, s, 10)
	}
	require.NoError(t, s.Flush())
	awaitDispatch(t, s)
	<-s.views.verified
}

// requireExpired checks that each queue begins with the first record that the log has of it, ends behind the last, and holds all between.
func requireExpired(t *testing.T, log *commitlog.Log, queues cq.Reader, o Options) {
	t.Helper()
	want, first := unitsOf(t, log, o)
	keys, err := cq.SortedKeys(queues)
	require.NoError(t, err)
	for _, k := range keys {
		q, ok := queues.Queue(k)
		require.True(t, ok)
		b, err := q.Bounds()
		require.NoError(t, err)
		units := want[k]
		if len(units) == 0 {
			require.Equal(t, b.Max, b.Min, "%s has nothing left", k)
			continue
		}
		require.Equal(t, [2]int64{first[k], first[k] + int64(len(units))}, [2]int64{b.Min, b.Max}, "%s", k)
		require.Equal(t, units[0].PhyOffset, b.MinPhyOffset, "%s", k)
		require.Equal(t, units, readUnits(t, q, b.Min, b.Max), "%s", k)
		delete(want, k)
	}
	for k, units := range want {
		require.Empty(t, units, "%s is missing", k)
	}
}

func readUnits(t *testing.T, q cq.Queue, from, to int64) []cq.Unit {
	t.Helper()
	units := make([]cq.Unit, to-from)
	for n := 0; n < len(units); {
		m, err := q.Read(from+int64(n), units[n:])
		require.NoError(t, err)
		require.NotZero(t, m, "slot %d", from+int64(n))
		n += m
	}
	return units
}

// unitsOf returns what the log says of each queue, and the slot of the first.
func unitsOf(t *testing.T, log *commitlog.Log, o Options) (want map[cq.Key][]cq.Unit, first map[cq.Key]int64) {
	t.Helper()
	want, first = map[cq.Key][]cq.Unit{}, map[cq.Key]int64{}
	parse := newQueueView(nopStore{kind: o.StoreType.kind()}, message.DefaultDelayLevels(), true, func(string) bool { return false }, nil)
	s := log.Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
	defer s.Close()
	for s.Next() {
		parse.add(s.Record())
		for _, e := range parse.entries {
			if _, ok := first[e.Key]; !ok {
				first[e.Key] = e.QueueOffset
			}
			if o.StoreType.kind() == cq.KindFile {
				e.Unit.StoreTimestampMs = cq.NoTimestamp
			}
			want[e.Key] = append(want[e.Key], e.Unit)
		}
		parse.entries = parse.entries[:0]
	}
	require.NoError(t, s.Err())
	return want, first
}

// trimmed runs trim and checks what is left.
func requireTrimmed(t *testing.T, s *Store) {
	t.Helper()
	s.retention.trim(t.Context())
	requireExpired(t, s.Log(), s.views.queues, s.o)
	if ix := s.views.index; ix != nil {
		files := ix.index.Files()
		for i, f := range files[:max(len(files)-1, 0)] {
			require.GreaterOrEqual(t, f.EndPhyOffset, s.Log().MinOffset(), "index file %d", i)
		}
	}
}

func TestExpiredFilesGo(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		w := newWorld()
		root := t.TempDir()
		o = w.in(o)
		o.DeleteFileBatchMax = 3
		s := openStore(t, root, o)
		fillLog(t, s, 5)
		ctx := t.Context()
		run := s.retention.clean(ctx, false)
		require.Empty(t, run.Removed, "it is noon")
		noon := w.now()
		w.set(time.Date(noon.Year(), noon.Month(), noon.Day()+1, 4, 59, 0, 0, time.Local))
		run = s.retention.clean(ctx, false)
		require.Len(t, run.Removed, 3, "deleteFileBatchMax")
		lines := w.said("commit log file removed")
		require.Len(t, lines, 3)
		require.Contains(t, lines[0], "fileReservedTime 72h; hour 04 of deleteWhen")
		require.Contains(t, lines[0], "00000000000000000000")
		requireTrimmed(t, s)
		run = s.retention.clean(ctx, false)
		require.Len(t, run.Removed, 2, "the last file with a record stays")
		require.Empty(t, s.retention.clean(ctx, false).Removed)
		requireTrimmed(t, s)
		require.Equal(t, 5*o.MappedFileSizeCommitLog, s.Retention().MinPhyOffset)
		require.EqualValues(t, 5, s.Retention().RemovedFiles)
		next := s.NextOffset("T", 0)
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(root).AbortPath())
		s = openStore(t, root, o)
		require.Equal(t, next, s.NextOffset("T", 0))
		putSome(t, s, 5)
		awaitDispatch(t, s)
		requireExpired(t, s.Log(), s.views.queues, o)
		require.NoError(t, s.Close())
	})
}

func TestCleanNowTakesWhatHasExpired(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		w := newWorld()
		s := openStore(t, t.TempDir(), w.in(o))
		fillLog(t, s, 2)
		require.Len(t, s.CleanNow(t.Context()).Removed, 2)
		require.Contains(t, w.said("commit log file removed")[0], "asked for")
		fillLog(t, s, 2)
		w.set(time.Now().Add(71 * time.Hour))
		require.Empty(t, s.CleanNow(t.Context()).Removed, "71 hours are less than 72")
		require.NoError(t, s.Close())
	})
}

// W16: runs of retention stand beside flush and checkpoint, and none waits for another.
func TestW16RetentionHoldsNobodyUp(t *testing.T) {
	w := newWorld()
	o := w.in(viewOptions(StoreTypeFile))
	o.DeleteCommitLogFilesInterval = time.Hour
	s := openStore(t, t.TempDir(), o)
	fillLog(t, s, 3)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan CleanRun)
	go func() { done <- s.retention.clean(ctx, true) }()
	require.Eventually(t, func() bool { return s.Retention().RemovedFiles == 1 }, 10*time.Second, time.Millisecond)
	// The run pauses for an hour.
	putSome(t, s, 5)
	awaitDispatch(t, s)
	require.NoError(t, s.views.flush(t.Context()))
	w.fill(95)
	s.retention.watch()
	require.NotZero(t, s.Flags().Bits()&FlagDiskFull, "FR-J01: the disk is measured beside a run")
	w.fill(10)
	s.retention.watch()
	s.retention.trim(t.Context())
	cancel()
	require.Len(t, (<-done).Removed, 1)
	require.NoError(t, s.Close())
}

// W16: the goroutines run by the clock, and end with the store.
func TestW16RetentionRunsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := faultfs.New(faultfs.Options{})
		fsys.MkdirAll("/data")
		w := newWorld()
		o := w.in(faultOptions(fsys))
		o.hooks.still = false
		o.FlushDiskType = AsyncFlush // timers of synchronous flush are pooled and would leave the bubble
		s, err := Open(faultRoot, o)
		require.NoError(t, err)
		w.fill(91)
		time.Sleep(9 * time.Second)
		require.True(t, s.Flags().CanPut(), "not looked at yet")
		time.Sleep(2 * time.Second)
		require.False(t, s.Flags().CanPut())
		w.fill(85)
		time.Sleep(10 * time.Second)
		require.True(t, s.Flags().CanPut())
		for range 10 {
			_, err := s.Put(t.Context(), newMessage("T"))
			require.NoError(t, err)
		}
		require.NoError(t, s.Flush())
		w.said("")
		time.Sleep(38 * time.Second)
		w.fill(86)
		time.Sleep(9 * time.Second)
		require.Len(t, w.said("commit log file is kept"), 1, "a minute after the start")
		require.NoError(t, s.Close())
	})
}

// W34: a file that cannot be unlinked stays, puts are refused for it when there is no room, and the next run tries again.
func TestW34FailedUnlinkIsTriedAgain(t *testing.T) {
	w := newWorld()
	o := viewOptions(StoreTypeFile)
	s := openStore(t, t.TempDir(), w.in(o))
	fillLog(t, s, 2)
	f, _ := s.Log().First()
	require.NoError(t, os.Rename(f.Path, f.Path+".aside"))
	require.NoError(t, os.MkdirAll(filepath.Join(f.Path, "not empty"), 0o755))
	w.fill(86)
	for range 2 {
		run := s.retention.clean(t.Context(), false)
		require.Empty(t, run.Removed)
		require.Contains(t, run.Kept.Why, "not empty")
		require.Zero(t, s.Log().MinOffset())
		b, ok, err := s.Bounds(cq.Key{Topic: "T"})
		require.NoError(t, err)
		require.True(t, ok)
		require.Zero(t, b.Min, "FR-J03: as the log's")
	}
	require.Len(t, w.said("commit log file is kept"), 1, "told once")
	_, err := s.Put(t.Context(), newMessage("T"))
	require.ErrorIs(t, err, PutServiceNotAvailable)
	require.ErrorContains(t, err, "cannot go")
	require.NoError(t, os.RemoveAll(f.Path))
	require.NoError(t, os.Rename(f.Path+".aside", f.Path))
	require.Len(t, s.retention.clean(t.Context(), false).Removed, 2)
	require.True(t, s.Flags().CanPut())
	requireTrimmed(t, s)
	require.NoError(t, s.Close())
}

// W41: neither a copy nor a touched file makes records younger, and an old file time makes none older.
func TestW41StoreTimeCounts(t *testing.T) {
	w := newWorld()
	s := openStore(t, t.TempDir(), w.in(viewOptions(StoreTypeFile)))
	fillLog(t, s, 2)
	for _, f := range s.Log().Files() {
		require.NoError(t, os.Chtimes(f.Path, w.now(), w.now()))
	}
	require.Len(t, s.CleanNow(t.Context()).Removed, 2)
	fillLog(t, s, 2)
	w.set(time.Now())
	for _, f := range s.Log().Files() {
		old := time.Now().Add(-1000 * time.Hour)
		require.NoError(t, os.Chtimes(f.Path, old, old))
	}
	require.Empty(t, s.CleanNow(t.Context()).Removed)
	require.NoError(t, s.Close())
}

// FR-J07: records of a clock that ran ahead do not stay for ever, and nothing has a negative age.
func TestFRJ07ClockSetBack(t *testing.T) {
	hour := func(n int) time.Time { return time.UnixMilli(1_700_000_000_000).Add(time.Duration(n) * time.Hour) }
	for name, c := range map[string]struct {
		stored, changed int
		want            time.Duration
	}{
		"in the past":                       {-80, -10, 80 * time.Hour},
		"ahead, file changed in the past":   {10_000, -80, 80 * time.Hour},
		"ahead, file changed ahead as well": {10_000, 9_000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			old, text := age(hour(0), hour(c.stored).UnixMilli(), func() (int64, error) { return hour(c.changed).UnixMilli(), nil })
			require.Equal(t, c.want, old)
			require.Contains(t, text, c.want.String()+" ago")
		})
	}
}

// W42: a store whose disk is full is closed in order.
func TestW42DiskFullStoreShutsDownCleanly(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		w := newWorld()
		root := t.TempDir()
		s := openStore(t, root, w.in(o))
		putSome(t, s, 50)
		w.fill(95)
		s.retention.watch()
		_, err := s.Put(t.Context(), newMessage("T"))
		require.ErrorIs(t, err, PutServiceNotAvailable)
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(root).AbortPath())
		s = openStore(t, root, w.in(o))
		require.True(t, s.Flags().CanPut(), "looked at anew")
		require.Equal(t, int64(50), s.NextOffset("T", 0))
		require.NoError(t, s.Close())
		requireWhole(t, root, o)
	})
}

// fullFS refuses to make a file.
type fullFS struct {
	mmap.FS
	full *atomic.Bool
}

func (f fullFS) OpenFile(path string, flag int, perm os.FileMode) (mmap.File, error) {
	if flag&os.O_CREATE != 0 && f.full.Load() {
		return nil, &os.PathError{Op: "open", Path: path, Err: syscall.ENOSPC}
	}
	return f.FS.OpenFile(path, flag, perm)
}

// W42: neither checkpoint nor notes are needed to leave a store in order, or to go on.
func TestW42NoRoomForTheCheckpoint(t *testing.T) {
	root := t.TempDir()
	o := viewOptions(StoreTypeFile)
	s := openStore(t, root, o)
	putSome(t, s, 50)
	awaitDispatch(t, s)
	var full atomic.Bool
	full.Store(true)
	s.fs = fullFS{s.fs, &full}
	require.NoError(t, s.views.flush(t.Context()))
	require.NoFileExists(t, s.layout.queueOffsetsPath())
	require.NoError(t, s.Close())
	require.NoFileExists(t, NewLayout(root).AbortPath())
	s = openStore(t, root, o)
	require.Equal(t, int64(50), s.NextOffset("T", 0))
	require.NoError(t, s.Close())
	requireWhole(t, root, o)
}

// W50: right after an expiry what lies below the queue's true minimum is out of range, and no later message is handed out for it.
func TestW50MinFollowsTheLogAtOnce(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		w := newWorld()
		s := openStore(t, t.TempDir(), w.in(o))
		fillLog(t, s, 3)
		k := cq.Key{Topic: "T"}
		q, ok := s.views.queues.Queue(k)
		require.True(t, ok)
		old := readUnits(t, q, 0, 10)
		for {
			_, first := unitsOf(t, s.Log(), o)
			b, ok, err := s.Bounds(k)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, first[k], b.Min)
			if b.Min > 0 {
				var r message.Record
				_, err := s.Log().Read(old[0].PhyOffset, old[0].Size, true, &r)
				require.ErrorIs(t, err, commitlog.ErrOffsetOutOfRange)
			}
			if _, _, err := s.writer.RemoveFirst(); err != nil { // without anything behind it
				break
			}
		}
		_, ok, err := s.Bounds(cq.Key{Topic: "none"})
		require.NoError(t, err)
		require.False(t, ok)
		require.NoError(t, s.Close())
	})
}

// FR-C01 and FR-C13: of a queue all of whose messages have gone, min is max, and both stay through restarts; the next message goes on there.
func TestFRC01QueueWithNothingLeft(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		w := newWorld()
		root := t.TempDir()
		o = w.in(o)
		s := openStore(t, root, o)
		for range 30 {
			_, err := s.Put(t.Context(), newMessage("early"))
			require.NoError(t, err)
		}
		fillLog(t, s, 3)
		require.Len(t, s.CleanNow(t.Context()).Removed, 3)
		requireTrimmed(t, s)
		k := cq.Key{Topic: "early"}
		for range 3 {
			b, ok, err := s.Bounds(k)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, [2]int64{30, 30}, [2]int64{b.Min, b.Max})
			require.NoError(t, s.Close())
			s = openStore(t, root, o)
		}
		require.Equal(t, int64(30), s.NextOffset("early", 0))
		r, err := s.Put(t.Context(), newMessage("early"))
		require.NoError(t, err)
		require.Equal(t, int64(30), r.Append.QueueOffset)
		awaitDispatch(t, s)
		requireExpired(t, s.Log(), s.views.queues, o)
		require.NoError(t, s.Close())
	})
}

// FR-C02: min moves inside a queue's only file.
func TestFRC02MinInsideTheOnlyFile(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		w := newWorld()
		o.MappedFileSizeConsumeQueue = 1 << 20
		s := openStore(t, t.TempDir(), w.in(o))
		fillLog(t, s, 2)
		require.Len(t, s.CleanNow(t.Context()).Removed, 2)
		requireTrimmed(t, s)
		b, _, err := s.Bounds(cq.Key{Topic: "T"})
		require.NoError(t, err)
		require.Positive(t, b.Min)
		require.NoError(t, s.Close())
	})
}

// FR-C06: a reader delays its own file alone, keeps what it reads, and shows in a count for as long as it does.
func TestFRC06ReaderKeepsItsFile(t *testing.T) {
	w := newWorld()
	s := openStore(t, t.TempDir(), w.in(viewOptions(StoreTypeFile)))
	fillLog(t, s, 3)
	before := s.Retention().Lingering
	var r message.Record
	release, err := s.Log().Read(0, 0, true, &r)
	require.NoError(t, err)
	body := string(r.Body)
	require.Len(t, s.CleanNow(t.Context()).Removed, 3)
	require.Equal(t, before+1, s.Retention().Lingering)
	require.Equal(t, body, string(r.Body))
	release()
	require.Equal(t, before, s.Retention().Lingering)
	require.NoError(t, s.Close())
}

// FR-C10: who asks for the minimum in whatever way gets the same, at any moment while files go.
func TestFRC10OneMinimum(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		w := newWorld()
		s := openStore(t, t.TempDir(), w.in(o))
		fillLog(t, s, 4)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			k, low := cq.Key{Topic: "T"}, int64(0)
			for {
				select {
				case <-stop:
					return
				default:
				}
				minPhy := s.Log().MinOffset()
				b, _, err := s.Bounds(k)
				if err != nil || b.Min < low || b.MinPhyOffset < minPhy {
					t.Errorf("min %d at %d, was %d and the log's min %d: %v", b.Min, b.MinPhyOffset, low, minPhy, err)
					return
				}
				low = b.Min
			}
		})
		require.Len(t, s.CleanNow(t.Context()).Removed, 4)
		close(stop)
		wg.Wait()
		requireTrimmed(t, s)
		require.NoError(t, s.Close())
	})
}

// The levels of a disk: nothing, expired files at any hour, files whatever their age, no puts; and back.
func TestDiskLevels(t *testing.T) {
	w := newWorld()
	o := w.in(viewOptions(StoreTypeFile))
	o.DeleteFileBatchMax = 1
	o.DeleteWhen = fmt.Sprint((time.Now().Hour() + 6) % 24) // neither soon nor, below, at noon
	if o.DeleteWhen == "12" {
		o.DeleteWhen = "13"
	}
	s := openStore(t, t.TempDir(), o)
	for _, c := range []struct {
		name    string
		used    int64
		old     bool // records have expired
		forced  bool // cleanFileForciblyEnable
		removed bool
		refused bool
	}{
		{"room", 75, true, true, false, false},
		{"above the first level, new", 76, false, true, false, false},
		{"above the first level, old", 76, true, true, true, false},
		{"at the force level, new", 85, false, true, false, false},
		{"above it", 86, false, true, true, false},
		{"above it, not forced", 86, false, false, false, false},
		{"above it, not forced, old", 86, true, false, true, false},
		{"at the warning level", 90, false, true, true, false},
		{"above it", 91, false, true, true, true},
		{"between: still refused", 86, false, true, true, true},
		{"at the force level: taken again", 85, false, true, false, false},
		{"above the warning level, not forced", 100, false, false, false, true},
		{"down at once", 10, false, true, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.retention.s.o.CleanFileForciblyEnable = c.forced
			w.fill(20)
			if !c.refused {
				s.retention.watch()
			}
			if s.Flags().CanPut() {
				fillLog(t, s, 2)
			}
			w.set(time.Now())
			if c.old {
				w.set(newWorld().now())
			}
			w.fill(c.used)
			run := s.retention.clean(t.Context(), false)
			require.Equal(t, c.removed, len(run.Removed) == 1, "%+v", run)
			_, err := s.Put(t.Context(), newMessage("T"))
			require.Equal(t, c.refused, err != nil, "%v", err)
			if c.refused {
				require.ErrorIs(t, err, PutServiceNotAvailable)
				require.ErrorContains(t, err, "DISK_FULL")
				require.ErrorContains(t, err, fmt.Sprintf("is %d%% full", c.used))
				b, ok, err := s.Bounds(cq.Key{Topic: "T"})
				require.NoError(t, err)
				require.True(t, ok && b.Max > 0, "reads go on")
			}
			if h := w.said("commit log file removed"); c.removed {
				require.Len(t, h, 1)
			}
		})
	}
	require.NoError(t, s.Close())
}

// Of several directories the log needs one that has room; the disk of the queues counts by itself.
func TestDisksOfTheStore(t *testing.T) {
	w := newWorld()
	root := t.TempDir()
	o := w.in(viewOptions(StoreTypeFile))
	o.StorePathCommitLog = []string{filepath.Join(root, "one"), filepath.Join(root, "two")}
	s := openStore(t, filepath.Join(root, "store"), o)
	use := func(one, two, queues int64) string {
		w.mu.Lock()
		w.used = map[string]int64{"one": one, "two": two, "consumequeue": queues}
		w.mu.Unlock()
		return s.retention.watch().above(85, "x")
	}
	require.Empty(t, use(99, 20, 30))
	require.Contains(t, use(99, 95, 30), "two is 95% full, above x 85")
	require.Contains(t, use(99, 20, 88), "consumequeue is 88% full")
	require.NoError(t, s.Close())
}

// A file that somebody needs stays. Where it had to go for lack of room, puts are refused and told who it is.
func TestNeededFilesStay(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		w := newWorld()
		s := openStore(t, t.TempDir(), w.in(o))
		fillLog(t, s, 4)
		size := o.MappedFileSizeCommitLog
		var at atomic.Int64
		at.Store(2*size + 5)
		release := s.RetainFrom("a copy", at.Load)
		run := s.CleanNow(t.Context())
		require.Len(t, run.Removed, 2)
		require.Contains(t, run.Kept.Why, fmt.Sprintf("a copy needs the log from %d on", 2*size+5))
		require.Len(t, w.said("commit log file is kept"), 1)
		require.True(t, s.Flags().CanPut(), "there is room")
		w.fill(86)
		s.retention.clean(t.Context(), false)
		_, err := s.Put(t.Context(), newMessage("T"))
		require.ErrorIs(t, err, PutServiceNotAvailable)
		require.ErrorContains(t, err, "a copy needs the log from")
		require.ErrorContains(t, err, "86% full, above diskSpaceCleanForciblyRatio 85")
		require.Equal(t, 2*size, s.Log().MinOffset())
		at.Store(3 * size)
		require.Len(t, s.retention.clean(t.Context(), false).Removed, 1)
		require.False(t, s.Flags().CanPut())
		release()
		release()
		require.Len(t, s.retention.clean(t.Context(), false).Removed, 1)
		require.True(t, s.Flags().CanPut())
		requireTrimmed(t, s)
		require.NoError(t, s.Close())
	})
}

// What a view has not got is not removed: queues, durably; an index; queues that are being built again.
func TestViewsKeepWhatTheyNeed(t *testing.T) {
	w := newWorld()
	s := openStore(t, t.TempDir(), w.in(viewOptions(StoreTypeFile)))
	fillLog(t, s, 3)
	v := s.views
	v.flushing.Lock() // nothing becomes durable
	require.Contains(t, s.needed(1), "file queues are durable up to 0")
	v.flushing.Unlock()
	require.NoError(t, v.flush(t.Context()))
	require.Empty(t, s.needed(3*s.o.MappedFileSizeCommitLog))
	end := v.index.follow.from.Load()
	v.index.follow.from.Store(100)
	require.Contains(t, s.CleanNow(t.Context()).Kept.Why, "index has come to 100")
	v.index.follow.from.Store(end)
	v.view.brokenNow.Store(2)
	require.Contains(t, s.CleanNow(t.Context()).Kept.Why, "file queues: 2 of them are being built again")
	require.NoError(t, v.flush(t.Context()))
	v.view.brokenNow.Store(0)
	require.Len(t, s.CleanNow(t.Context()).Removed, 3)
	require.NoError(t, s.Close())

	o := w.in(putOptions())
	o.MappedFileSizeCommitLog = 1 << 14
	s = openStore(t, t.TempDir(), o)
	for s.Positions().Wrote < 2<<14 {
		_, err := s.Put(t.Context(), newMessage("T"))
		require.NoError(t, err)
	}
	require.NoError(t, s.Flush())
	require.Contains(t, s.CleanNow(t.Context()).Kept.Why, "no consume queues are built here")
	require.NoError(t, s.Close())
}

func TestParseHours(t *testing.T) {
	for text, want := range map[string][]int{"04": {4}, "4;16": {4, 16}, "0; 23": {0, 23}} {
		hours, err := parseHours(text)
		require.NoError(t, err, text)
		for h, set := range hours {
			require.Equal(t, slices.Contains(want, h), set, "%s: %d", text, h)
		}
	}
	for _, text := range []string{"", "24", "-1", "04;", "4,5", "four"} {
		_, err := parseHours(text)
		require.Error(t, err, text)
		o := DefaultOptions()
		o.DeleteWhen = text
		require.ErrorContains(t, o.Validate(), "deleteWhen")
	}
}

// FR-J06: the levels of the disk fit one another.
func TestFRJ06LevelsAreCheckedTogether(t *testing.T) {
	o := DefaultOptions()
	o.DiskSpaceWarningLevelRatio = 85
	require.ErrorContains(t, o.Validate(), "diskSpaceWarningLevelRatio is 85, want more than diskSpaceCleanForciblyRatio, which is 85")
	w := newWorld()
	o = w.in(viewOptions(StoreTypeFile))
	o.DiskMaxUsedSpaceRatio = 88
	s := openStore(t, t.TempDir(), o)
	require.Len(t, w.said("diskMaxUsedSpaceRatio has no effect above diskSpaceCleanForciblyRatio"), 1)
	require.NoError(t, s.Close())
}

// Puts, removals, trims, restarts and kills in any order: queues and log agree after each, and no offset is ever given twice.
func TestRetentionAtRandom(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		for seed := range uint64(3) {
			r := rand.New(rand.NewPCG(seed, 1))
			w := newWorld()
			o := w.in(o)
			o.FlushDiskType = AsyncFlush
			root := t.TempDir()
			s := openStore(t, root, o)
			next := map[cq.Key]int64{}
			agree := func(what string) {
				t.Helper()
				awaitDispatch(t, s)
				for k, n := range next {
					require.Equal(t, n, s.NextOffset(k.Topic, k.QueueID), "%s, seed %d, %s", what, seed, k)
				}
				requireExpired(t, s.Log(), s.views.queues, o)
			}
			for range 40 {
				switch n := r.IntN(10); {
				case n < 5:
					topic := fmt.Sprintf("T%d", r.IntN(4))
					for range 1 + r.IntN(60) {
						m := plainMessage(topic, strings.Repeat("x", r.IntN(300)))
						m.QueueID = r.Int32N(2)
						res, err := s.Put(t.Context(), m)
						require.NoError(t, err)
						k := cq.Key{Topic: topic, QueueID: m.QueueID}
						require.Equal(t, next[k], res.Append.QueueOffset, "%s, seed %d", k, seed)
						next[k]++
					}
					require.NoError(t, s.Flush())
					agree("put")
				case n < 7:
					<-s.views.verified
					s.retention.s.o.DeleteFileBatchMax = 1 + r.IntN(3)
					s.CleanNow(t.Context())
					agree("clean")
				case n < 8:
					s.retention.trim(t.Context())
					agree("trim")
				case n < 9:
					require.NoError(t, s.Close())
					s = openStore(t, root, o)
					agree("restart")
				default:
					copied := crash(t, root)
					require.NoError(t, s.Close())
					root = copied
					s = openStore(t, root, o)
					agree("kill")
				}
			}
			require.NoError(t, s.Close())
		}
	})
}

func TestPercentIsRoundedUp(t *testing.T) {
	for _, c := range []struct {
		total, free int64
		want        int
	}{{1000, 1000, 0}, {1000, 999, 1}, {1000, 150, 85}, {1000, 149, 86}, {1000, 0, 100}, {0, 0, -1}} {
		r := &retention{hooks: retentionHooks{usage: func(string) (int64, int64, error) { return c.total, c.free, nil }}}
		require.Equal(t, c.want, r.percent("d"), "%+v", c)
	}
}

// fullView has no room for a while.
type fullView struct{ refusals int }

func (*fullView) name() string        { return "full" }
func (*fullView) add(*message.Record) {}
func (*fullView) turn() batch         { return nil }

func (v *fullView) deliver(context.Context, batch, int64) error {
	if v.refusals == 0 {
		return nil
	}
	v.refusals--
	return fmt.Errorf("append: %w", syscall.ENOSPC)
}

// FR-J01 and W42: dispatch waits for room however long that takes, and goes on; a store that is closed meanwhile does not wait with it.
func TestFRJ01DispatchWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		view := &fullView{refusals: 100}
		f := newFollower(view, nil, slog.New(slog.DiscardHandler), 0)
		v := &views{s: &Store{log: newSliceLog(putOptions(), 1)}}
		done := make(chan error)
		go func() { done <- f.deliver(t.Context(), nil, 0) }()
		time.Sleep(time.Minute)
		require.True(t, f.full.Load())
		require.False(t, v.owes(f))
		require.NoError(t, <-done)
		require.False(t, f.full.Load())
		require.Zero(t, view.refusals)
	})
}
