package index

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// TestFirstEntry pins a file of one message byte by byte.
func TestFirstEntry(t *testing.T) {
	o := smallFiles(newFS())
	x := open(t, o)
	require.NoError(t, x.Append([]message.DispatchRequest{{Topic: []byte("T1"), PhyOffset: 0x0102, Size: 10, StoreTimestampMs: 0x0304, Keys: []byte("k1")}}))
	require.Equal(t, "/store/index/20261129211406563", x.Files()[0].Path)
	b := x.files[0].b
	require.Len(t, b, 40+4*1500+20*700)
	require.Equal(t, []byte{
		0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 3, 4, // times
		0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 1, 2, // phyOffsets
		0, 0, 0, 1, 0, 0, 0, 2, // slots used, next entry
	}, b[:40])
	const hash = 79072524 // 0x04B68D0C
	require.Equal(t, []byte{0, 0, 0, 1}, b[40+4*(hash%1500):][:4])
	require.Equal(t, []byte{4, 0xb6, 0x8d, 0x0c, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0}, b[40+4*1500+20:][:20])
	require.NoError(t, x.Close())
}

// TestI1AnyResume feeds the log again from any message below the end, with and without a clean stop between.
func TestI1AnyResume(t *testing.T) {
	log := traffic(3, 600, 0, startMs)
	want := reference(t, log)
	for _, stop := range []int{1, 2, 250, 599} {
		o := smallFiles(newFS())
		x := open(t, o)
		require.NoError(t, x.Append(log[:stop]))
		require.NoError(t, x.Append(log[:stop])) // all of it is there
		require.NoError(t, x.Close())
		x = open(t, o)
		from := x.DispatchFrom()
		require.NoError(t, x.Append(log[stop/2:stop]))
		require.Equal(t, from, x.DispatchFrom())
		require.NoError(t, x.Append(since(log, from)))
		requireImages(t, want, x)
		require.NoError(t, x.Close())
	}
}

// TestI1PartOfAMessage stops after each entry of a message whose keys lie in two files.
func TestI1PartOfAMessage(t *testing.T) {
	log := []message.DispatchRequest{keyed(0, startMs, "u0", "a b", ""), keyed(100, startMs, "u1", "a b c d a", "t"), keyed(200, startMs, "u2", "", "")}
	all := func(stop int) Options {
		o := smallFiles(newFS())
		o.MaxEntries = 7
		if stop == 0 {
			return o
		}
		x := open(t, o)
		n := 0
		for i := range log {
			for _, h := range appendKeys(nil, &log[i], hashTopic(log[i].Topic)) {
				if n++; n <= stop {
					require.NoError(t, x.addKey(h, log[i].PhyOffset, log[i].StoreTimestampMs))
				}
			}
		}
		require.NoError(t, x.Close())
		return o
	}
	x := open(t, all(0))
	require.NoError(t, x.Append(log))
	want := images(x)
	require.Len(t, want, 2)
	require.NoError(t, x.Close())
	for stop := 1; stop <= 11; stop++ {
		for _, unclean := range []bool{false, true} {
			o := all(stop)
			o.Unclean = unclean
			x := open(t, o)
			require.NoError(t, x.Append(since(log, x.DispatchFrom())))
			requireImages(t, want, x, "stopped after %d, unclean %t", stop, unclean)
			require.NoError(t, x.Close())
		}
	}
}

// TestI2FirstEntryOfAFile: the first entry of a file has the time difference 0, whenever the file before ended; one that RocketMQ
// reckoned from there is still found by its time.
func TestI2FirstEntryOfAFile(t *testing.T) {
	o := smallFiles(newFS())
	o.MaxEntries = 2
	x := open(t, o)
	require.NoError(t, x.Append([]message.DispatchRequest{keyed(0, startMs, "u", "", ""), keyed(100, startMs+3700, "v", "", "")}))
	require.Len(t, x.files, 2)
	e := x.files[1].entry(1)
	require.Zero(t, e.diff)
	e.diff = 3
	x.files[1].setEntry(1, e)
	a, err := x.Query(Query{Topic: testTopic, Key: "v", Max: 1, BeginMs: startMs + 3700, EndMs: startMs + 3700}, nil)
	require.NoError(t, err)
	require.Equal(t, []int64{100}, a.PhyOffsets)
	require.NoError(t, x.Close())
}

func TestTimeDiff(t *testing.T) {
	for _, c := range []struct {
		begin, store int64
		want         int32
	}{
		{startMs, startMs, 0},
		{startMs, startMs + 999, 0},
		{startMs, startMs + 1000, 1},
		{startMs, startMs - 5000, 0},
		{0, math.MaxInt64, math.MaxInt32},
	} {
		require.Equal(t, c.want, timeDiff(c.begin, c.store))
	}
}

// TestI6RepeatedKeys: a word that occurs twice, and one that is the unique key as well, have one entry.
func TestI6RepeatedKeys(t *testing.T) {
	x := open(t, smallFiles(newFS()))
	require.NoError(t, x.Append([]message.DispatchRequest{keyed(0, startMs, "u", "a b a u AaAa BBBB", "")}))
	require.Equal(t, int32(4), x.Files()[0].Entries) // u a b AaAa; the hash of BBBB is that of AaAa
	for _, key := range []string{"u", "a", "b", "AaAa", "BBBB"} {
		require.Equal(t, []int64{0}, find(t, x, key), key)
	}
	require.NoError(t, x.Close())
}

// TestManyKeysInOneSlot: the search for repeated keys is bounded.
func TestManyKeysInOneSlot(t *testing.T) {
	o := smallFiles(newFS())
	o.HashSlots, o.MaxEntries = 1, 10_000
	x := open(t, o)
	var keys []string
	for i := range 5000 {
		keys = append(keys, fmt.Sprint("k", i))
	}
	require.NoError(t, x.Append([]message.DispatchRequest{keyed(0, startMs, "", strings.Join(keys, " ")+" k4999 k0", "")}))
	require.Equal(t, int32(5001), x.Files()[0].Entries)
	require.Equal(t, []int64{0}, find(t, x, "k0"))
	require.NoError(t, x.Close())
}

func TestTransactions(t *testing.T) {
	x := open(t, smallFiles(newFS()))
	var log []message.DispatchRequest
	for i, flag := range []int32{message.TransactionNone, message.TransactionPrepared, message.TransactionCommit, message.TransactionRollback} {
		r := keyed(int64(i)*100, startMs, "", "k", "")
		r.SysFlag = flag
		log = append(log, r)
	}
	require.NoError(t, x.Append(log))
	require.Equal(t, []int64{200, 100, 0}, find(t, x, "k"))
	require.NoError(t, x.Close())
}

// TestProgress: what was given and what is durable, messages without keys included.
func TestProgress(t *testing.T) {
	x := open(t, smallFiles(newFS()))
	require.Equal(t, int64(-1), x.DispatchFrom())
	require.NoError(t, x.Append([]message.DispatchRequest{keyed(100, startMs, "u", "", ""), keyed(200, startMs, "", "", "")}))
	indexed, durable := x.Progress()
	require.Equal(t, []int64{300, -1, 100}, []int64{indexed, durable, x.DispatchFrom()})
	require.NoError(t, x.Flush())
	_, durable = x.Progress()
	require.Equal(t, int64(300), durable)
	require.Zero(t, x.Skipped())
	require.NoError(t, x.Append([]message.DispatchRequest{keyed(0, startMs, "w", "", "")}))
	require.Equal(t, int64(1), x.Skipped())
	require.NoError(t, x.Close())
}

// TestNamesAscend: files made within one millisecond, or after the clock was set back, have names of their own that sort last.
func TestNamesAscend(t *testing.T) {
	o := smallFiles(newFS())
	o.MaxEntries = 2
	x := open(t, o)
	require.NoError(t, x.Append([]message.DispatchRequest{keyed(0, startMs, "u", "a b", "")}))
	var names []string
	for _, f := range x.Files() {
		names = append(names, filepath.Base(f.Path))
	}
	require.Equal(t, []string{"20261129211406563", "20261129211406564", "20261129211406565"}, names)
	require.NoError(t, x.Close())
}

// TestI4FullDisk: a disk without room for the next file, or for entries, is an error each time and no loop, and when there is room the
// same batch goes in.
func TestI4FullDisk(t *testing.T) {
	log := traffic(4, 600, 0, startMs)
	fsys := faultfs.New(faultfs.Options{Capacity: 40 << 10})
	fsys.MkdirAll("/store")
	ballast, err := fsys.OpenFile("/store/ballast", os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	require.NoError(t, ballast.Preallocate(0, 16<<10))
	x := open(t, smallFiles(fsys))
	for range 3 {
		require.ErrorIs(t, x.Append(log), syscall.ENOSPC)
	}
	require.Len(t, x.Files(), 1)
	left, err := fsys.ReadDir(testDir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.NoError(t, ballast.Truncate(0))
	want := reference(t, log)
	if err := x.Append(log); err != nil { // the third file does not fit
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	require.Len(t, x.files, 2)
	require.Empty(t, firstDifference(x.files[0].b, want[0]))
	require.Empty(t, firstDifference(x.files[1].b, want[1]))
	require.NoError(t, ballast.Close())
	require.NoError(t, x.Close())
}

// TestI4FaultIsAnError cuts the file under the mapping, which faults as a full disk does at a slot without a block.
func TestI4FaultIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "index")
	log := traffic(4, 300, 0, startMs)
	x, err := Open(dir, Options{HashSlots: 50_000, MaxEntries: 10_000})
	require.NoError(t, err)
	require.NoError(t, x.Append(log[:100]))
	before := x.Files()[0].Entries
	f := x.files[0]
	size := f.fileBytes()
	saved := append([]byte(nil), f.b...)
	require.NoError(t, os.Truncate(f.path, 4096))
	require.ErrorIs(t, x.Append(log), mmap.ErrFault)
	require.ErrorIs(t, x.Append(log), mmap.ErrFault)
	require.Equal(t, before, x.Files()[0].Entries)
	_, err = x.Query(Query{Topic: testTopic, Key: "tag", Max: 1, EndMs: maxTimestampMs}, nil)
	_, err2 := x.Query(Query{Topic: testTopic, Key: "4-1", Max: 1, EndMs: maxTimestampMs}, nil)
	require.ErrorIs(t, errors.Join(err, err2), mmap.ErrFault)

	require.NoError(t, os.Truncate(f.path, size))
	h, err := os.OpenFile(f.path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = h.WriteAt(saved, 0)
	require.NoError(t, err)
	require.NoError(t, h.Close())
	require.NoError(t, x.Append(log))
	require.Empty(t, x.Verify())
	require.NoError(t, x.Close())
	require.Zero(t, mmap.Mapped())
}

// TestAppendAllocatesNothing within a file.
func TestAppendAllocatesNothing(t *testing.T) {
	x, err := Open(filepath.Join(t.TempDir(), "index"), Options{HashSlots: 5000, MaxEntries: 200_000})
	require.NoError(t, err)
	batch := traffic(5, 100, 0, startMs)
	require.NoError(t, x.Append(batch))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for i := range batch {
			batch[i].PhyOffset += 10_000
		}
		if err := x.Append(batch); err != nil {
			panic(err)
		}
	}))
	require.NoError(t, x.Close())
}
