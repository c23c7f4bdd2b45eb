package store

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/logtest"
)

// smallDisk mounts a file system of so many KiB at dir, and returns what gives it another size.
func smallDisk(t *testing.T, dir string, kib int) (resize func(kib int)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dk", kib), "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a file system here: %s", out)
	}
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", "-l", dir).Run()) })
	return func(kib int) {
		out, err := exec.Command("mount", "-o", fmt.Sprintf("remount,size=%dk", kib), dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// FR-J01: no room on the disk of RocksDB alone stops no put of a combined store; it is told, the side takes nothing upon it meanwhile, and all goes on by itself when there is room.
func TestFRJ01RocksDBWaitsForRoom(t *testing.T) {
	t.Parallel() // it mostly waits
	needRocksDB(t)
	o := combineOptions()
	o.CombineCQPreferCQType, o.CombineAssignOffsetCQType = StoreTypeFile, StoreTypeFile
	o.UseSeparateStorePathForRocksdbCQ = true
	o.FlushConsumeQueueThoroughInterval = 50 * time.Millisecond
	o.MessageIndexEnable = false
	root := t.TempDir()
	resize := smallDisk(t, NewLayout(root).RocksDir(RocksSeparate), 400)
	s := openStore(t, root, o)
	n := 0
	for ; rocksMark(s).Waiting == "" && n < 100_000; n += 100 {
		putSome(t, s, 100)
	}
	require.Contains(t, rocksMark(s).Waiting, "No space left")
	require.Empty(t, rocksMark(s).Failure)
	require.ErrorContains(t, s.Prefer(cq.KindRocks), "No space left")
	require.ErrorContains(t, s.GiveAuthority(cq.KindRocks), "No space left")
	time.Sleep(4 * o.FlushConsumeQueueThoroughInterval)
	putSome(t, s, 100)
	n += 100
	require.Zero(t, s.flags.Bits())
	resize(64 << 10)
	require.Eventually(t, func() bool { return rocksMark(s).Waiting == "" }, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, s.Prefer(cq.KindRocks))
	require.NoError(t, s.awaitViews(t.Context()))
	require.Len(t, readAll(t, s, "T", 0), n)
	require.NoError(t, s.Close())
	requireWhole(t, root, o)
}

// FR-J01: an index without room on its disk waits for it, and has everything when there is room.
func TestFRJ01TheIndexWaitsForRoom(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.MaxHashSlotNum, o.MaxIndexNum = 200_000, 20_000 // slots are holes at first, entries are not
	root := t.TempDir()
	resize := smallDisk(t, NewLayout(root).IndexDir(), 300)
	s := openStore(t, root, o)
	indexWaits := func() bool { return s.views.index.follow.full.Load() > 0 }
	n := 0
	for ; !indexWaits() && n < 20_000; n++ {
		putKeyed(t, s, "T", fmt.Sprintf("u%d", n), fmt.Sprintf("k%d", n), "")
	}
	require.True(t, indexWaits())
	time.Sleep(deliverTries * minDeliverWait)
	require.True(t, indexWaits(), "it waits on")
	resize(64 << 10)
	awaitIndex(t, s)
	require.False(t, indexWaits())
	var res QueryResult
	for _, i := range []int{0, n / 2, n - 1} {
		require.NoError(t, s.Query(QueryRequest{Topic: "T", Key: fmt.Sprintf("k%d", i)}, &res))
		require.Len(t, res.Messages, 1)
	}
	res.Release()
	require.NoError(t, s.Close())
}

// Puts that a failure forbids also after a restart say what allows them again.
func TestFlagsOfFailuresNameTheirRemedy(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root, viewOptions(StoreTypeFile))
	s.setFlag(FlagLogicsQueueError, errors.New("flush consume queues: no luck"))
	_, err := s.Put(t.Context(), plainMessage("T", "body"))
	require.ErrorIs(t, err, PutServiceNotAvailable)
	require.ErrorContains(t, err, "`tandemmq store recover --store "+root+"`")
	_ = s.Close()
}

// TestFillWaitsForRoom: a side that is filled from the log and meets a full disk, when it appends or when it is made durable, goes on by itself when there is room.
func TestFillWaitsForRoom(t *testing.T) {
	t.Parallel() // it mostly waits
	needRocksDB(t)
	for kind, disk := range map[cq.Kind]int{cq.KindFile: 48, cq.KindRocks: 160} {
		t.Run(string(kind), func(t *testing.T) {
			o := combineOptions()
			o.CombineCQPreferCQType, o.CombineAssignOffsetCQType = StoreTypeFile, StoreTypeFile
			if kind == cq.KindFile {
				o.CombineCQPreferCQType, o.CombineAssignOffsetCQType = StoreTypeRocksDB, StoreTypeRocksDB
			}
			o.UseSeparateStorePathForRocksdbCQ = true
			o.MessageIndexEnable = false
			o.MappedFileSizeConsumeQueue = 100_000
			const n = 8000
			root := filledStore(t, o, n)
			dir := NewLayout(root).RocksDir(RocksSeparate)
			if kind == cq.KindFile {
				dir = NewLayout(root).ConsumeQueueDir()
				require.NoError(t, os.Remove(NewLayout(root).queueOffsetsPath())) // by which each queue would be mended by itself
			}
			require.NoError(t, os.RemoveAll(dir))
			resize := smallDisk(t, dir, disk)
			var logged logtest.Log
			o.Logger = logged.Logger()
			o.rebuildBytes = 1
			s := openStore(t, root, o)
			require.Eventually(t, func() bool { return strings.Contains(logged.String(), "waits for room on its disk") }, 30*time.Second, 10*time.Millisecond, "%v", &logged)
			putSome(t, s, 1)
			resize(64 << 10)
			require.Eventually(t, func() bool { return s.views.sides.hold.ended() }, 60*time.Second, 10*time.Millisecond)
			require.NoError(t, s.awaitViews(t.Context()))
			require.NoError(t, s.Close())
			requireWhole(t, root, o)
		})
	}
}
