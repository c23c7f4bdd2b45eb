package store

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/faultfs"
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
	if s.views.index != nil {
		awaitIndex(t, s)
	}
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
