package index

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/message"
)

// patch writes bytes into a file of an index that is closed.
func patch(tb testing.TB, fsys *faultfs.FS, name string, off int64, b ...byte) {
	tb.Helper()
	f, err := fsys.OpenFile(filepath.Join(testDir, name), os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(tb, err)
	_, err = f.WriteAt(b, off)
	require.NoError(tb, err)
	require.NoError(tb, f.Close())
}

func names(tb testing.TB, fsys *faultfs.FS) (all []string) {
	infos, err := fsys.ReadDir(testDir)
	require.NoError(tb, err)
	for _, i := range infos {
		all = append(all, i.Name())
	}
	return all
}

const (
	firstName  = "20261129211406563"
	secondName = "20261129211406564"
	thirdName  = "20261129211406565"
)

// closed makes an index of three files.
func closed(tb testing.TB) (Options, *faultfs.FS, []message.DispatchRequest) {
	fsys := newFS()
	o := smallFiles(fsys)
	x := open(tb, o)
	log := traffic(8, 900, 0, startMs)
	require.NoError(tb, x.Append(log))
	require.Len(tb, x.files, 3)
	require.NoError(tb, x.Close())
	return o, fsys, log
}

// TestI5FRE04UnfitFiles: a file of another length or with numbers out of range is set aside, with what comes after it removed, and all of
// it comes back from the log. Read-only, it is left out and told, and nothing changes.
func TestI5FRE04UnfitFiles(t *testing.T) {
	huge := []byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	for _, c := range []struct {
		name string
		off  int64
		b    []byte
	}{
		{"too long", 40 + 4*1500 + 20*700, []byte{0}},
		{"beginTimestamp", beginTimestampAt, huge},
		{"endTimestamp", endTimestampAt, []byte{0x80}},
		{"beginPhyOffset", beginPhyOffsetAt, []byte{0x80}},
		{"other beginPhyOffset", beginPhyOffsetAt + 7, []byte{0xfe}},
		{"endPhyOffset", endPhyOffsetAt, []byte{0x80}},
		{"other endPhyOffset", endPhyOffsetAt, []byte{0x01}},
		{"hashSlotCount negative", hashSlotCountAt, []byte{0x80}},
		{"hashSlotCount", hashSlotCountAt, []byte{0, 0, 5, 221}}, // 1501
		{"more slots than entries", hashSlotCountAt, []byte{0, 0, 2, 188}},
		{"indexCount", indexCountAt, []byte{0, 0, 2, 189}}, // 701
		{"indexCount too low", indexCountAt, []byte{0, 0, 2, 100}},
		{"first entry", 40 + 4*1500 + 20 + 19, []byte{1}},
		{"last entry", 40 + 4*1500 + 20*699, []byte{0x80}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, fsys, log := closed(t)
			patch(t, fsys, secondName, c.off, c.b...)

			o.ReadOnly = true
			x := open(t, o)
			require.Len(t, x.files, 2)
			require.Len(t, x.Faults(), 1)
			require.ErrorIs(t, x.Faults()[0], ErrCorrupt)
			require.ErrorContains(t, x.Faults()[0], secondName)
			require.NoError(t, x.Close())
			require.Equal(t, []string{firstName, secondName, thirdName}, names(t, fsys))

			o.ReadOnly = false
			x = open(t, o)
			require.Len(t, x.Repairs(), 2)
			require.Equal(t, RepairRemove, x.Repairs()[0].Action)
			require.Equal(t, RepairSetAside, x.Repairs()[1].Action)
			require.ErrorIs(t, x.Repairs()[1].Why, ErrCorrupt)
			require.Equal(t, []string{firstName, secondName + ".broken"}, names(t, fsys))
			require.NoError(t, x.Append(since(log, x.DispatchFrom())))
			requireImages(t, reference(t, log), x)
			require.NoError(t, x.Close())
			require.Zero(t, fsys.OpenFiles())
			require.Zero(t, fsys.Mappings())
		})
	}
}

// TestI5OtherGeometry: files of other options are not misread.
func TestI5OtherGeometry(t *testing.T) {
	o, fsys, log := closed(t)
	o.MaxEntries += 100
	x := open(t, o)
	require.Equal(t, []string{firstName + ".broken"}, names(t, fsys))
	require.Equal(t, int64(-1), x.DispatchFrom())
	require.NoError(t, x.Append(log))
	require.Empty(t, x.Verify())
	require.NoError(t, x.Close())
}

// TestFRE05FromAnotherStore: files that do not follow one another in the log are not used.
func TestFRE05FromAnotherStore(t *testing.T) {
	o, fsys, _ := closed(t)
	fsys.MkdirAll("/other")
	other := smallFiles(newFS())
	x := open(t, other)
	require.NoError(t, x.Append(traffic(9, 10, 100, startMs)))
	b := images(x)[0]
	require.NoError(t, x.Close())
	patch(t, fsys, "20991231000000000", 0, b...)
	x = open(t, o)
	require.Len(t, x.Repairs(), 1)
	require.ErrorContains(t, x.Repairs()[0].Why, "begins at phyOffset")
	require.Len(t, x.files, 3)
	require.NoError(t, x.Close())
}

// TestFRE05IndexAheadOfLog: after a cut of the log, messages that take the place of others are indexed, at every place of a cut.
func TestFRE05IndexAheadOfLog(t *testing.T) {
	for _, at := range []int{0, 1, 299, 300, 450, 899} {
		o, _, log := closed(t)
		x := open(t, o)
		before := x.IndexMsgTimestampMs()
		require.NoError(t, x.TruncateDirty(log[at].PhyOffset))
		require.Less(t, x.DispatchFrom(), log[at].PhyOffset)
		require.LessOrEqual(t, x.IndexMsgTimestampMs(), before)
		require.Empty(t, x.Verify())
		indexed, durable := x.Progress()
		require.LessOrEqual(t, max(indexed, durable), log[at].PhyOffset)
		now := append(log[:at:at], traffic(10, 400, log[at].PhyOffset, startMs+1_000_000)...)
		require.NoError(t, x.Append(since(now, x.DispatchFrom())))
		requireImages(t, reference(t, now), x)
		require.NoError(t, x.Close())
	}
}

// TestLeftOvers: an empty file is one that was being made; other names are not ours.
func TestLeftOvers(t *testing.T) {
	o, fsys, log := closed(t)
	for _, name := range []string{"20271129211406563", "20271129211406563.broken", "x", "2026112921140656", "+0261129211406563"} {
		patch(t, fsys, name, 0)
	}
	require.NoError(t, fsys.Mkdir(filepath.Join(testDir, "20281129211406563"), 0o755))
	x := open(t, o)
	require.Len(t, x.files, 3)
	require.Equal(t, []string{"+0261129211406563", "2026112921140656", "20271129211406563.broken", "20281129211406563", "x"}, x.Foreign())
	require.Len(t, x.Repairs(), 1)
	require.NoError(t, x.Append(log))
	require.NoError(t, x.Close())
}

func TestExpire(t *testing.T) {
	o, fsys, _ := closed(t)
	x := open(t, o)
	end := x.Files()[0].EndPhyOffset
	n, err := x.Expire(end)
	require.NoError(t, err)
	require.Zero(t, n)
	boom := errors.New("boom")
	fsys.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.Remove {
			return boom
		}
		return nil
	})
	n, err = x.Expire(end + 1)
	require.ErrorIs(t, err, boom)
	require.Zero(t, n)
	require.Len(t, x.files, 3)
	fsys.Inject(nil)
	n, err = x.Expire(end + 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = x.Expire(math.MaxInt64)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []string{thirdName}, names(t, fsys)) // the last stays
	require.NoError(t, x.Close())
}

// TestI8IndexMsgTimestamp is the end of the last full file, and only when that is durable.
func TestI8IndexMsgTimestamp(t *testing.T) {
	x := open(t, smallFiles(newFS()))
	log := traffic(8, 900, 0, startMs)
	for i := range log {
		require.NoError(t, x.Append(log[i:i+1]))
		if len(x.files) == 2 {
			break
		}
	}
	require.Zero(t, x.IndexMsgTimestampMs())
	require.NoError(t, x.Flush())
	require.Equal(t, x.Files()[0].EndMs, x.IndexMsgTimestampMs())
	require.NoError(t, x.Append(log))
	require.Len(t, x.files, 3)
	require.Equal(t, x.Files()[0].EndMs, x.IndexMsgTimestampMs())
	require.NoError(t, x.Append(traffic(9, 3000, x.DispatchFrom()+1, startMs)))
	require.Len(t, x.files, 12)
	require.Equal(t, x.Files()[9].EndMs, x.IndexMsgTimestampMs()) // no more than one waits, though nobody calls Flush
	require.NoError(t, x.Close())
}

func TestReadOnlyAndClosed(t *testing.T) {
	o, fsys, log := closed(t)
	o.ReadOnly, o.Unclean = true, true
	x := open(t, o)
	require.ErrorIs(t, x.Append(log), ErrReadOnly)
	require.ErrorIs(t, x.Flush(), ErrReadOnly)
	require.ErrorIs(t, x.TruncateDirty(0), ErrReadOnly)
	_, err := x.Expire(1)
	require.ErrorIs(t, err, ErrReadOnly)
	require.NotEmpty(t, find(t, x, "user1"))
	require.NoError(t, x.Close())
	require.NoError(t, x.Close())
	require.ErrorIs(t, x.Append(log), ErrClosed)
	require.Zero(t, fsys.OpenFiles())
	require.Zero(t, fsys.Mappings())

	none, err := Open("/nowhere/index", Options{ReadOnly: true, FS: fsys})
	require.NoError(t, err)
	require.Empty(t, find(t, none, "user1"))
	require.NoError(t, none.Close())
	_, err = Open("/nowhere/index", Options{FS: fsys})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestOptions(t *testing.T) {
	o, err := Options{}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, int64(420_000_040), layout{o.HashSlots, o.MaxEntries}.fileBytes())
	_, err = Open(testDir, Options{HashSlots: -1, MaxEntries: 1, MaxResults: -1})
	require.ErrorContains(t, err, "HashSlots -1")
	require.ErrorContains(t, err, "MaxEntries 1")
	require.ErrorContains(t, err, "MaxResults -1")
	_, err = Open(testDir, Options{HashSlots: math.MaxInt32, MaxEntries: math.MaxInt32})
	require.ErrorContains(t, err, "more than 2147483647")
}
