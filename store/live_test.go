package store

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// Issue 8: an option that an open store takes over is read off the options as they are now, and never off those it was opened with.
func TestLiveOptionsAreReadAsTheyAreNow(t *testing.T) {
	live := map[string]bool{}
	for i := range properties {
		if p := &properties[i]; p.Live {
			live[reflect.TypeFor[Options]().Field(p.Index).Name] = true
		}
	}
	require.NotEmpty(t, live)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	read := regexp.MustCompile(`\bs\.o\.([A-Z]\w*)`)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range read.FindAllSubmatch(b, -1) {
			require.False(t, live[string(m[1])], "%s reads %s off the options the store was opened with", name, m[1])
		}
	}
}

// Issue 8: what can be taken over is in force at once; what cannot, or is out of bounds, changes nothing.
func TestSetOptions(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		w := newWorld()
		s := openStore(t, t.TempDir(), w.in(o))
		defer func() { require.NoError(t, s.Close()) }()
		putSome(t, s, 40)
		awaitDispatch(t, s)
		change := func(f func(o *Options)) {
			t.Helper()
			now := s.Options()
			f(&now)
			require.NoError(t, s.SetOptions(now))
		}

		var restart *RestartError
		now := s.Options()
		now.FileReservedTime, now.FlushDiskType, now.MappedFileSizeCommitLog = 1, SyncFlush, 2*now.MappedFileSizeCommitLog
		require.ErrorAs(t, s.SetOptions(now), &restart)
		require.Equal(t, []string{"mappedFileSizeCommitLog", "flushDiskType"}, restart.Names)
		now = s.Options()
		now.FileReservedTime, now.DiskMaxUsedSpaceRatio = 1, 101
		require.ErrorContains(t, s.SetOptions(now), "diskMaxUsedSpaceRatio")
		require.Equal(t, 72, s.Options().FileReservedTime)

		// Reading.
		var res GetResult
		get(t, s, GetRequest{Topic: "T", MaxMessages: 100}, &res)
		require.Len(t, res.Messages, 32)
		change(func(o *Options) { o.MaxTransferCountOnMessageInMemory = 5 })
		get(t, s, GetRequest{Topic: "T", MaxMessages: 100}, &res)
		require.Len(t, res.Messages, 5)

		// Puts.
		change(func(o *Options) { o.MaxMessageSize = 10 })
		m := newMessage("T")
		m.Body = make([]byte, 11)
		_, err := s.Put(t.Context(), m)
		require.ErrorIs(t, err, PutMessageIllegal)

		// The disk: what is refused changes with the ratio, and not with the next look at the disk.
		w.fill(80)
		s.retention.watch()
		require.True(t, s.Flags().CanPut())
		change(func(o *Options) { o.DiskSpaceCleanForciblyRatio, o.DiskSpaceWarningLevelRatio = 70, 75 })
		require.False(t, s.Flags().CanPut())
		change(func(o *Options) { o.DiskSpaceCleanForciblyRatio, o.DiskSpaceWarningLevelRatio = 85, 90 })
		require.True(t, s.Flags().CanPut())

		// Retention.
		fillLog(t, s, 3)
		awaitDispatch(t, s)
		w.set(time.Now().Add(2 * time.Hour))
		w.fill(10)
		require.Empty(t, s.CleanNow(t.Context()).Removed)
		change(func(o *Options) { o.FileReservedTime, o.DeleteFileBatchMax = 1, 1 })
		require.Len(t, s.CleanNow(t.Context()).Removed, 1)
		hour := w.now().Hour()
		change(func(o *Options) { o.DeleteWhen = hourText((hour + 1) % 24) })
		require.Empty(t, s.retention.judge(w.now(), s.retention.use(), false).due)
		change(func(o *Options) { o.DeleteWhen = hourText(hour) })
		require.Contains(t, s.retention.judge(w.now(), s.retention.use(), false).due, "deleteWhen")

		require.NoError(t, s.Close())
		require.ErrorIs(t, s.SetOptions(s.Options()), ErrClosed)
	})
}

func hourText(hour int) string { return time.Date(2000, 1, 1, hour, 0, 0, 0, time.UTC).Format("15") }

// Issue 8: flushes of log and queues come by the interval that was set last, also out of one that is running.
func TestSetOptionsFlushIntervals(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.FlushIntervalCommitLog, o.FlushCommitLogThoroughInterval, o.FlushConsumeQueueThoroughInterval = time.Hour, time.Hour, time.Hour
	s := openStore(t, t.TempDir(), o)
	defer func() { require.NoError(t, s.Close()) }()
	putSome(t, s, 10)
	awaitDispatch(t, s)
	end := s.Positions().Wrote
	require.Less(t, s.Positions().Flushed, end)
	now := s.Options()
	now.FlushIntervalCommitLog, now.FlushCommitLogThoroughInterval, now.FlushCommitLogLeastPages = time.Millisecond, time.Millisecond, 0
	require.NoError(t, s.SetOptions(now))
	require.Eventually(t, func() bool { return s.Positions().Flushed == end }, 30*time.Second, time.Millisecond)
	now.FlushConsumeQueueThoroughInterval = time.Millisecond
	require.NoError(t, s.SetOptions(now))
	require.Eventually(t, func() bool { return s.views.durableTo.Load() >= end }, 30*time.Second, time.Millisecond)
}

// Issue 8: a side that cannot be switched to changes nothing else.
func TestSetOptionsOfSides(t *testing.T) {
	s := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	defer func() { require.NoError(t, s.Close()) }()
	now := s.Options()
	now.FileReservedTime, now.RocksdbCQDoubleWriteEnable = 5, true
	require.ErrorContains(t, s.SetOptions(now), "rocksdbCQDoubleWriteEnable")
	require.Equal(t, 72, s.Options().FileReservedTime)
	require.ErrorIs(t, s.Prefer(cq.KindRocks), ErrNotCombined)
}
