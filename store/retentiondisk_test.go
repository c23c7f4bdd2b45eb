package store

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

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

func (*fullView) name() string { return "full" }

func (*fullView) add(*message.Record) {}

func (*fullView) turn() batch { return nil }

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
		require.Positive(t, f.full.Load())
		require.False(t, v.owes(f))
		require.NoError(t, <-done)
		require.Zero(t, f.full.Load())
		require.Zero(t, view.refusals)
	})
}
