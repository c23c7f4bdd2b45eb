package file

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
)

func readUnits(t *testing.T, s *Store, k cq.Key, from int64, n int) []cq.Unit {
	t.Helper()
	q, ok := s.Queue(k)
	require.True(t, ok)
	n = int(min(int64(n), bounds(t, s, k).Max-from))
	out := make([]cq.Unit, n)
	got := 0
	for got < n {
		m, err := q.Read(from+int64(got), out[got:])
		require.NoError(t, err)
		if m == 0 {
			break
		}
		got += m
	}
	return out[:got]
}

// TestF4FailedWriteIsNotDone: the retry of a write that failed writes.
func TestF4FailedWriteIsNotDone(t *testing.T) {
	s := open(t, t.TempDir(), Options{FileSizeBytes: perFile * 20})
	other := cq.Key{Topic: "held"}
	require.NoError(t, s.Append(t.Context(), entries(other, 0, 1)))
	require.NoError(t, s.Append(t.Context(), entries(testKey, 0, 50)))
	held := s.known(other).files.Files()[0]
	_, err := held.Hold()
	require.NoError(t, err)
	mappedfile.SetLimit(1)
	t.Cleanup(func() { mappedfile.SetLimit(0) })
	err = s.Append(t.Context(), entries(testKey, 50, 52))
	held.Release()
	require.ErrorIs(t, err, mappedfile.ErrLimit)
	require.EqualValues(t, 50, bounds(t, s, testKey).Max)
	accepted, _, _ := s.Progress()
	require.Equal(t, testUnit(49).End(), accepted)
	require.NoError(t, s.Append(t.Context(), entries(testKey, 50, 52)))
	require.Equal(t, unitsOf(0, 52), readUnits(t, s, testKey, 0, 60))
}

// TestF5NoUnitInAnotherSlot: a unit that is ahead of its queue changes no byte.
func TestF5NoUnitInAnotherSlot(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{FileSizeBytes: perFile * 20})
	require.NoError(t, s.Append(t.Context(), entries(testKey, 0, 10)))
	for _, slot := range []int64{11, 49, 50, 1000} {
		var gap *cq.GapError
		require.ErrorAs(t, s.Append(t.Context(), entries(testKey, slot, slot+2)), &gap)
		require.Equal(t, cq.GapError{Key: testKey, Want: slot, Max: 10, PhyOffset: testUnit(slot).PhyOffset}, *gap)
	}
	requireFiles(t, dir, map[string][]byte{"00000000000000000000": fileOf(0, 10, 0)})
}

// TestF6FillerIsNoEnd: a queue that holds nothing but pre-blank has no physical end, and takes units whose records lie below 2 GiB.
func TestF6FillerIsNoEnd(t *testing.T) {
	for _, n := range []int64{1, 37, perFile} {
		dir := t.TempDir()
		putUnits(t, dir, testKey, 100, repeated(preBlank, int(n))...)
		s := open(t, dir, Options{})
		require.Equal(t, cq.Bounds{Min: 100 + n, Max: 100 + n, MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1}, bounds(t, s, testKey))
		require.EqualValues(t, -1, s.DispatchFrom())
		require.NoError(t, s.Append(t.Context(), entries(testKey, 100+n, 103+n)))
		require.Equal(t, unitsOf(100+n, 103+n), readUnits(t, s, testKey, 100+n, 5))
		require.Equal(t, testUnit(102+n).End(), bounds(t, s, testKey).MaxPhyOffset)
		require.NoError(t, s.Close())
	}
}

// TestF7FirstRealUnitIsTheFloor: with nothing expired, a queue that begins with pre-blank begins with its first real unit.
func TestF7FirstRealUnitIsTheFloor(t *testing.T) {
	dir := t.TempDir()
	putUnits(t, dir, testKey, 100, repeated(preBlank, 37)...)
	putUnits(t, dir, testKey, 137, unitsOf(137, 150)...)
	s := open(t, dir, Options{MinPhyOffset: 0})
	b := bounds(t, s, testKey)
	require.EqualValues(t, 137, b.Min)
	require.Equal(t, testUnit(137).PhyOffset, b.MinPhyOffset)
	for _, below := range []int64{0, 99, 100, 136} {
		require.Empty(t, readUnits(t, s, testKey, below, 3), "filler is no message")
	}
	require.Equal(t, unitsOf(137, 150), readUnits(t, s, testKey, 137, 20))
}

// TestF12NoUnitIsPassedOver: after a failed write nothing behind it is taken, so that no queue has a hole.
func TestF12NoUnitIsPassedOver(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(filepath.Join(dir, "consumequeue"), Options{FileSizeBytes: perFile * 20})
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), entries(testKey, 0, 50)))
	require.NoError(t, os.Mkdir(path(dir, 50), 0o755)) // where the next file has to be
	first := s.Append(t.Context(), entries(testKey, 50, 51))
	require.Error(t, first)
	require.NoError(t, os.Remove(path(dir, 50)))
	for range 40 { // RocketMQ gives up at the 30th
		require.ErrorIs(t, s.Append(t.Context(), entries(testKey, 50, 52)), first)
		require.ErrorIs(t, s.Append(t.Context(), entries(testKey, 51, 52)), first)
		require.ErrorIs(t, s.Append(t.Context(), entries(cq.Key{Topic: "u"}, 0, 1)), first)
	}
	require.ErrorIs(t, s.Close(), first)
	s = open(t, dir, Options{})
	require.NoError(t, s.Append(t.Context(), entries(testKey, 50, 52)))
	require.Equal(t, unitsOf(0, 52), readUnits(t, s, testKey, 0, 60))
}

// TestF28MaxPhysicalPositionIsAnEnd: positions that dispatch goes by are ends of records.
func TestF28MaxPhysicalPositionIsAnEnd(t *testing.T) {
	s := open(t, t.TempDir(), Options{FileSizeBytes: perFile * 20})
	require.NoError(t, s.Append(t.Context(), entries(testKey, 0, 60)))
	end := testUnit(59).PhyOffset + int64(testUnit(59).Size)
	b := bounds(t, s, testKey)
	require.Equal(t, [2]int64{end, testUnit(59).PhyOffset}, [2]int64{b.MaxPhyOffset, b.LastPhyOffset})
	require.Equal(t, end, s.DispatchFrom())
	accepted, readable, _ := s.Progress()
	require.Equal(t, [2]int64{end, end}, [2]int64{accepted, readable})
}

// TestF33ExactlyFullLastFile: a queue whose last file is exactly full is opened, checked, expired, cut and gone on with like any other.
func TestF33ExactlyFullLastFile(t *testing.T) {
	for _, files := range []int64{1, 2, 3} {
		n := files * perFile
		for name, do := range map[string]func(s *Store) int64{
			"nothing": func(*Store) int64 { return n },
			"check": func(s *Store) int64 {
				require.NoError(t, s.Check(t.Context(), testKey))
				return n
			},
			"everything expired": func(s *Store) int64 {
				require.NoError(t, s.SetMinPhyOffset(testUnit(n).PhyOffset))
				done, err := s.Expire(t.Context(), 0)
				require.NoError(t, err)
				require.EqualValues(t, files-1, done.Files)
				require.Equal(t, [2]int64{n, n}, [2]int64{bounds(t, s, testKey).Min, bounds(t, s, testKey).Max})
				return n
			},
			"cut of the last unit": func(s *Store) int64 {
				require.NoError(t, s.TruncateDirty(t.Context(), testUnit(n-1).PhyOffset))
				return n - 1
			},
			"cut of nothing": func(s *Store) int64 {
				require.NoError(t, s.TruncateDirty(t.Context(), testUnit(n-1).End()))
				return n
			},
		} {
			dir := t.TempDir()
			putUnits(t, dir, testKey, 0, unitsOf(0, n)...)
			s := open(t, dir, Options{})
			next := do(s)
			require.Equal(t, next, bounds(t, s, testKey).Max, name)
			require.Equal(t, testUnit(next-1).End(), s.DispatchFrom(), name)
			require.NoError(t, s.Append(t.Context(), entries(testKey, next, n+2)), name)
			require.Equal(t, unitsOf(n-1, n+2), readUnits(t, s, testKey, n-1, 5), name)
			require.NoError(t, s.Close())
		}
	}
}

// TestF35MinLiesInAnyFile: min is exact from the first moment, whichever file it lies in.
func TestF35MinLiesInAnyFile(t *testing.T) {
	dir := t.TempDir()
	putUnits(t, dir, testKey, 0, unitsOf(0, 170)...)
	for _, min := range []int64{0, 1, 49, 50, 51, 99, 100, 149, 150, 160, 169, 170} {
		s := open(t, dir, Options{MinPhyOffset: testUnit(min).PhyOffset, ReadOnly: true})
		require.Equal(t, [2]int64{min, 170}, [2]int64{bounds(t, s, testKey).Min, bounds(t, s, testKey).Max})
		require.NoError(t, s.Close())
		s = open(t, dir, Options{ReadOnly: true})
		require.Zero(t, bounds(t, s, testKey).Min)
		require.NoError(t, s.SetMinPhyOffset(testUnit(min).PhyOffset))
		require.Equal(t, min, bounds(t, s, testKey).Min)
		require.NoError(t, s.Close())
	}
}

// extQueue lays out a queue of n units of which those that plain does not hold point to an extension unit of 28 bytes each, in files of ten.
func extQueue(t *testing.T, dir string, n int64, plain func(slot int64) bool) (extDir string) {
	extDir = filepath.Join(dir, "consumequeue_ext", "t", "3")
	require.NoError(t, os.MkdirAll(extDir, 0o755))
	units := unitsOf(0, n)
	var ext []byte
	for i := range units {
		if plain(int64(i)) {
			continue
		}
		address := int64(len(ext)) + math.MinInt64
		ext = append(ext, extUnit(28, units[i].TagsCode, make([]byte, 8)...)...)
		units[i].TagsCode = address
	}
	putUnits(t, dir, testKey, 0, units...)
	const file = 280
	ext = append(ext, make([]byte, file-len(ext)%file)...)
	for at := 0; at < len(ext); at += file {
		require.NoError(t, os.WriteFile(filepath.Join(extDir, mappedfile.Name(int64(at))), ext[at:at+file], 0o644))
	}
	return extDir
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, strings.TrimLeft(e.Name()[:19], "0")+e.Name()[19:])
	}
	return out
}

// TestF36TruncateTouchesDirtyQueuesAndTheirExtensionFiles: only queues with dirty units change, and extension files go along with the units.
func TestF36TruncateTouchesDirtyQueuesAndTheirExtensionFiles(t *testing.T) {
	dir := t.TempDir()
	extDir := extQueue(t, dir, 95, func(slot int64) bool { return slot >= 60 && slot < 70 })
	clean := cq.Key{Topic: "clean"}
	putUnits(t, dir, clean, 0, unitsOf(0, 3)...)
	cleanFile := filepath.Join(queueDir(filepath.Join(dir, "consumequeue"), clean), mappedfile.Name(0))
	before, err := os.Stat(cleanFile)
	require.NoError(t, err)
	cut := func(slot int64) (content []byte, files []string) {
		s := open(t, dir, Options{})
		require.NoError(t, s.TruncateDirty(t.Context(), testUnit(slot).PhyOffset))
		require.Equal(t, unitsOf(0, slot), readUnits(t, s, testKey, 0, 100), "addresses of what is left are still found")
		require.NoError(t, s.Close())
		files = names(t, extDir)
		for _, f := range files {
			b, err := os.ReadFile(filepath.Join(extDir, strings.Repeat("0", 20-len(f))+f))
			require.NoError(t, err)
			content = append(content, b...)
		}
		return content, files
	}
	require.Len(t, names(t, extDir), 9)
	content, files := cut(85) // 75 extension units
	require.Equal(t, []string{"0", "280", "560", "840", "1120", "1400", "1680", "1960"}, files)
	require.Equal(t, make([]byte, 8*280-75*28), content[75*28:], "what is cut reads as zero: RocketMQ goes on there")
	require.NotZero(t, content[74*28+1])
	_, files = cut(65) // five plain units behind the last address
	require.Equal(t, []string{"0", "280", "560", "840", "1120", "1400"}, files)
	content, files = cut(3)
	require.Equal(t, []string{"0"}, files)
	require.Equal(t, make([]byte, 280-3*28), content[3*28:])

	after, err := os.Stat(cleanFile)
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime(), "the clean queue is not touched")
	require.Equal(t, before.Sys().(*syscall.Stat_t).Ctim, after.Sys().(*syscall.Stat_t).Ctim)

	s := open(t, dir, Options{})
	require.NoError(t, s.TruncateDirty(t.Context(), 0))
	require.NoDirExists(t, extDir, "no unit is left")
}

// A unit that points nowhere says nothing about where the extension files end: they stay.
func TestTruncateWithALostExtensionUnit(t *testing.T) {
	dir := t.TempDir()
	extDir := extQueue(t, dir, 40, func(int64) bool { return false })
	u := testUnit(19)
	u.TagsCode = 150 + math.MinInt64 // inside of another unit
	putUnits(t, dir, testKey, 19, u)
	s := open(t, dir, Options{})
	require.NoError(t, s.TruncateDirty(t.Context(), testUnit(20).PhyOffset))
	require.EqualValues(t, 20, bounds(t, s, testKey).Max)
	require.Len(t, names(t, extDir), 5)
}

// Extension files expire with the units that point into them.
func TestExpireExtensionFiles(t *testing.T) {
	for _, tc := range []struct {
		name     string
		plain    func(slot int64) bool
		min      int64
		files    int // removed, both kinds
		extFirst string
	}{
		{"first live unit points into the sixth", func(int64) bool { return false }, 57, 1 + 5, "1400"},
		{"first live units hold tags", func(slot int64) bool { return slot >= 57 && slot < 75 }, 57, 1 + 5, "1400"},
		{"no live unit points anywhere", func(slot int64) bool { return slot >= 57 }, 57, 1 + 5, "1400"},
		{"no file of units goes", func(int64) bool { return false }, 49, 0, "0"},
		{"nothing is live", func(int64) bool { return false }, 120, 2 + 12, "3360"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			extDir := extQueue(t, dir, 120, tc.plain)
			s := open(t, dir, Options{})
			require.Equal(t, unitsOf(0, 120), readUnits(t, s, testKey, 0, 200))
			require.NoError(t, s.SetMinPhyOffset(testUnit(tc.min).PhyOffset))
			done, err := s.Expire(t.Context(), 0)
			require.NoError(t, err)
			require.Equal(t, tc.files, done.Files)
			require.Equal(t, tc.extFirst, names(t, extDir)[0])
			require.Equal(t, append([]cq.Unit{}, unitsOf(tc.min, 120)...), readUnits(t, s, testKey, tc.min, 200))
		})
	}
}

// TestQueueError: what concerns one queue's name stops no other queue and no later write.
func TestQueueError(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{FileSizeBytes: perFile * 20})
	require.NoError(t, s.Append(t.Context(), entries(testKey, 0, 1)))
	other := cq.Key{Topic: "other"}
	require.NoError(t, s.Append(t.Context(), entries(other, 0, 1)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "consumequeue", "CURRENT"), nil, 0o644)) // as a RocksDB database in the same directory
	for _, tc := range []struct {
		key   cq.Key
		cause error
	}{
		{cq.Key{Topic: "a/b"}, ErrName},
		{cq.Key{Topic: "t", QueueID: -1}, ErrName},
		{cq.Key{Topic: strings.Repeat("é", 128)}, ErrName},
		{cq.Key{Topic: "CURRENT"}, syscall.ENOTDIR},
	} {
		before, _, _ := s.Progress()
		next := bounds(t, s, testKey).Max
		batch := slices.Concat(entries(testKey, next, next+1), entries(other, next, next+1), entries(testKey, next+1, next+2),
			entries(tc.key, 0, 1), entries(testKey, next+2, next+3), entries(other, next+1, next+3))
		for range 2 {
			err := s.Append(t.Context(), batch)
			require.ErrorIs(t, err, tc.cause)
			var qe *cq.QueueError
			require.ErrorAs(t, err, &qe)
			require.Equal(t, tc.key, qe.Key)
			require.Equal(t, next+2, bounds(t, s, testKey).Max, "what was before it is accepted, what is behind is not")
			require.Equal(t, next+1, bounds(t, s, other).Max)
		}
		after, _, _ := s.Progress()
		require.Greater(t, after, before)
		var qe *cq.QueueError
		require.ErrorAs(t, s.Import(t.Context(), []cq.Run{{Key: tc.key, Units: unitsOf(0, 2)}}), &qe)
		require.ErrorIs(t, s.CheckName(tc.key), tc.cause)
		require.NoError(t, s.Append(t.Context(), batch[4:]), "a caller leaves it out and goes on")
		require.NoError(t, s.Flush(t.Context()))
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "consumequeue", "CURRENT")))
	require.NoError(t, s.CheckName(cq.Key{Topic: "CURRENT"}))
	require.NoError(t, s.CheckName(testKey))
	require.NoError(t, s.Append(t.Context(), entries(cq.Key{Topic: "CURRENT"}, 0, 3)), "once the place is free")
}

// A queue whose topic has the name of a file that is not the store's is not made; others are.
func TestQueueOfAReservedName(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{Reserved: func(topic string) bool { return topic == "LOG" }})
	require.NoError(t, err)
	k := cq.Key{Topic: "LOG"}
	batch := append(entries(testKey, 0, 1), entries(k, 0, 1)...)
	var name *cq.QueueError
	err = s.Append(t.Context(), batch)
	require.ErrorAs(t, err, &name)
	require.Equal(t, k, name.Key)
	require.ErrorIs(t, err, ErrReserved)
	require.ErrorIs(t, s.CheckName(k), ErrReserved)
	require.ErrorIs(t, s.Import(t.Context(), []cq.Run{{Key: k, Units: []cq.Unit{batch[0].Unit}}}), ErrReserved)
	require.ErrorIs(t, s.Publish(t.Context(), []cq.QueueEnd{{Key: k, Max: 1}}, 0), ErrReserved)
	_, ok := s.Queue(testKey)
	require.True(t, ok)
	require.NoDirExists(t, filepath.Join(dir, "LOG"))
	require.NoError(t, s.Close())
}

// A name that this filesystem does not take is found out when the directory is made, or already when it is listed.
func TestQueueErrorOfTheFilesystem(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.ENAMETOOLONG: true, syscall.EILSEQ: true, syscall.ENOTDIR: true,
		syscall.EIO: false, syscall.ENOSPC: false, syscall.EACCES: false, syscall.EROFS: false,
	} {
		wrapped := &os.PathError{Op: "mkdir", Path: "x", Err: err}
		require.Equal(t, want, alone(t.TempDir(), wrapped), err)
		require.False(t, alone(filepath.Join("/", strings.Repeat("x/", 2000)), wrapped), "then it is the store's path")
	}
}

func TestBeginning(t *testing.T) {
	phy := func(slot int64) int64 { return testUnit(slot).PhyOffset }
	for _, tc := range []struct {
		name   string
		lay    func(t *testing.T, dir string)
		minPhy int64
		want   Beginning
		ok     bool
	}{
		{name: "no queue", lay: func(*testing.T, string) {}},
		{"slot 0 is there", func(t *testing.T, dir string) { putUnits(t, dir, testKey, 0, unitsOf(0, 9)...) }, 0, Beginning{0, phy(0), true}, true},
		{"first file lost", func(t *testing.T, dir string) {
			putUnits(t, dir, testKey, 0, unitsOf(0, 120)...)
			require.NoError(t, os.Remove(path(dir, 0)))
		}, 0, Beginning{50, phy(50), false}, true},
		{"first files lost, the log begins in the first", func(t *testing.T, dir string) {
			putUnits(t, dir, testKey, 0, unitsOf(0, 120)...)
			require.NoError(t, os.Remove(path(dir, 0)))
			require.NoError(t, os.Remove(path(dir, 50)))
		}, phy(20), Beginning{100, phy(100), false}, true},
		{"first file lost and expired", func(t *testing.T, dir string) {
			putUnits(t, dir, testKey, 0, unitsOf(0, 120)...)
			require.NoError(t, os.Remove(path(dir, 0)))
		}, phy(60), Beginning{60, phy(60), true}, true},
		{"expired up to a file's end", func(t *testing.T, dir string) { putUnits(t, dir, testKey, 50, unitsOf(50, 120)...) }, phy(50), Beginning{50, phy(50), true}, true},
		{"the log begins between two of its records", func(t *testing.T, dir string) { putUnits(t, dir, testKey, 50, unitsOf(50, 120)...) }, phy(50) - 1, Beginning{50, phy(50), false}, true},
		{"begun late", func(t *testing.T, dir string) {
			putUnits(t, dir, testKey, 100, append(repeated(preBlank, 37), unitsOf(137, 140)...)...)
		}, 0, Beginning{137, phy(137), false}, true},
		{"all expired", func(t *testing.T, dir string) { putUnits(t, dir, testKey, 50, unitsOf(50, 60)...) }, phy(60), Beginning{60, -1, true}, true},
		{"nothing but filler", func(t *testing.T, dir string) {
			putUnits(t, dir, testKey, 0, append(repeated(preBlank, 9), synthetic(7))...)
		}, 90, Beginning{10, -1, false}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			tc.lay(t, dir)
			s := open(t, dir, Options{MinPhyOffset: tc.minPhy, FileSizeBytes: perFile * 20})
			b, ok, err := s.Beginning(testKey)
			require.NoError(t, err)
			require.Equal(t, tc.ok, ok)
			require.Equal(t, tc.want, b)
		})
	}
	dir := t.TempDir()
	putUnits(t, dir, testKey, 0, unitsOf(0, 120)...)
	require.NoError(t, os.Remove(path(dir, 50)))
	s := open(t, dir, Options{FileSizeBytes: perFile * 20})
	_, _, err := s.Beginning(testKey)
	require.ErrorIs(t, err, cq.ErrCorrupt)
}
